//! A file tree in memory: directories, files, one byte budget.
//!
//! Nodes are named by [`NodeId`]; an id of a removed node is answered with [`TreeError::Gone`] and
//! never names another one. Paths are judged by [`path`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod locks;
pub mod path;
mod text;
mod trail;
mod tree;

pub use locks::{Holder, Locks};
pub use path::PathError;
pub use text::{MAX_TEXT, TextError, TextPiece};
pub use trail::{Trail, Trails};
pub use tree::{Info, Kind, NodeId, Tree, TreeError};

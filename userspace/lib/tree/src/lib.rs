//! A file tree in memory: directories, files, one byte budget. [`FileTree`] is what a file server is written against, and
//! with the feature `suite` there are tests for everything that implements it.
//!
//! Nodes are named by [`NodeId`]; an id of a removed node is answered with [`TreeError::Gone`] and
//! never names another one. Paths are judged by [`path`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod basis;
mod compare;
mod copy;
mod file_tree;
mod locks;
pub mod path;
mod search;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod text;
mod trail;
mod tree;
mod walk;

pub use basis::Basis;
pub use compare::{CompareError, compare};
pub use copy::copy_file;
pub use file_tree::{FileTree, Listing, Opening, Removal, WriteAt, found_or_none};
pub use locks::{Holder, Locks};
pub use path::PathError;
pub use search::{Found, LineFound, search};
pub use text::{MAX_TEXT, TextError, TextPiece};
pub use trail::{Trail, Trails};
pub use tree::{Info, Kind, NodeId, Tree, TreeError};
pub use walk::{MAX_BELOW, find};

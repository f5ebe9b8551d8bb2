//! A file tree that lasts, over a [`Keyspace`].
//!
//! It does what [`capos_tree::FileTree`] says, and each change is one commit. Opening reads the same few keys whatever the tree
//! holds. Files are kept in chunks, and the entries of a directory are found by name, so no operation takes longer with the
//! size of the tree.
//!
//! Changes are visible at once and on the medium after [`FileTree::sync`]. It fails if the store took back changes that were
//! answered before.
//!
//! From the lowest layer to the highest: `record` and `key` (the format), `change` (what is read and changed together),
//! `names` and `content` (operations), `files` (the tree), `check`, `homes` (the trees of
//! several).
//!
//! [`Keyspace`]: capos_keyspace::Keyspace
//! [`FileTree`]: capos_tree::FileTree
//! [`FileTree::sync`]: capos_tree::FileTree::sync
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod change;
mod check;
mod content;
mod files;
mod homes;
mod key;
mod names;
mod record;

pub use check::Report;
pub use files::Files;
pub use homes::{APART, Homes, QUOTAS};
pub use key::{CHUNK, SEALED, TABLES};

/// The format of the homes' namespace.
pub const FORMAT: u32 = capos_formats::FILES.version();
/// The format that this version writes, of each tree. A newer one is rejected.
pub const TREE_FORMAT: u32 = 1;
/// Bytes of a file at most.
pub const MAX_FILE: u64 = i64::MAX as u64;

//! A file tree served as `Directory`, `File` and `ReadOnlyFile`: what file servers have in common, whatever their trees lie on.
//!
//! The methods of `Directory` that are tools answer when their change is on the medium. The methods for programs answer before;
//! [`Volume::keep_synced`] syncs a second later at the latest, and `sync` at once.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod directory;
mod file;
mod fill;
mod key;
mod locks;
mod memory;
mod volume;

use capos_rt::ServeOptions;

pub use directory::DirectoryObject;
pub use fill::{Filled, Source, fill};
pub use key::{MAX_TREES, tree_of};
pub use volume::Volume;

/// How a file server answers calls: a write carries up to 256 KiB.
pub const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 320 << 10, concurrent: 32 };

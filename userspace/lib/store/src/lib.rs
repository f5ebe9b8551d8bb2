//! A transactional store: tables of keys and values in namespaces with quotas.
//!
//! It stands on [`Blocks`], which are written atomically: after a crash they are as a completed [`Blocks::sync`] left them.
//! So a commit needs one sync, whatever the database below writes, and several commits can share one
//! ([`Durability::Later`]). An error never leaves half a transaction: the blocks forget what was not synced, and the database
//! is opened again from what was.
//!
//! ```
//! # use capos_store::*;
//! # fn main() -> Result<(), StoreError> {
//! let mut store = Store::open(MemoryBlocks::new(1024))?;
//! let home = store.create_namespace("home", 1 << 20)?;
//! let mut write = store.begin()?;
//! write.put(home, "files", b"a.txt", b"text")?;
//! write.commit(Durability::Now)?;
//! assert_eq!(store.snapshot()?.get(home, "files", b"a.txt")?.as_deref(), Some(&b"text"[..]));
//! # Ok(())
//! # }
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod backend;
mod blocks;
mod error;
#[cfg(feature = "testing")]
mod faulty;
mod key;
mod log;
mod namespace;
#[cfg(feature = "volume")]
mod on_volume;
mod snapshot;
mod store;
mod tree;
mod write;

pub use blocks::{BLOCK_BYTES, BlockError, Blocks, MemoryBlocks};
pub use error::StoreError;
#[cfg(feature = "testing")]
pub use faulty::{FaultyBlocks, UNDAMAGED};
pub use key::{MAX_KEY, MAX_TABLE, MAX_VALUE};
pub use log::LeftOut;
pub use namespace::{ASIDE, MAX_NAME, Namespace, Usage};
#[cfg(feature = "volume")]
pub use on_volume::{OnVolume, Random};
pub use snapshot::{Entry, Query, Snapshot};
pub use store::{FORMAT, Store};
pub use write::{Durability, Write};

//! Encrypted, authenticated backups of a store.
//!
//! A repository is a folder of files ([`Files`]). The records of the store are cut into chunks; a chunk is a file whose name
//! follows from its content, so a chunk that is there already is not written again. A backup that was cut off therefore
//! continues where it stopped, and the next backup writes what has changed. A state file names the chunks of one backup in
//! their order, with a hash of all records: a restored store has the same one.
//!
//! Keys follow from the volume key. The repository has a copy of the volume's key slots, so the passphrases and the recovery
//! code of the machine open it. `docs/reference/backup.md` has the format.
//!
//! Layers, lowest first: `error`, `record`, `files`, `seal`, `chunk`, `repository`, `state`, `write`, `read`, `store`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

mod chunk;
mod error;
mod files;
mod read;
mod record;
mod repository;
mod seal;
mod state;
#[cfg(feature = "store")]
pub mod store;
mod write;

pub use error::Error;
pub use files::{Files, MemoryFiles};
pub use read::{latest, of, read, states};
pub use record::{Record, Sum};
pub use repository::{Repository, VERSION};
pub use state::State;
pub use write::{Progress, Source, write};

/// Fills bytes with random ones that no one can predict.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

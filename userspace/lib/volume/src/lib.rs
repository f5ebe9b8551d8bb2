//! An encrypted, authenticated volume of 4 KiB blocks over one disk.
//!
//! [`Volume::sync`] is atomic and durable: after a crash the volume holds exactly the state of one completed sync,
//! the last acknowledged one or the one in progress. Each block is sealed and bound to its place and version by a tree
//! of tags. A flipped, stale, swapped or torn block is rejected with its number ([`Error::Block`]) and never returned as
//! data. `docs/reference/volume.md` has the format, `docs/adr/0020-encrypted-volume.md` the reasons.
//!
//! The crate is pure: the caller gives the disk, random bytes, a clock and a bound of memory.
//!
//! Layers, lowest first: [`disk`], [`error`], `cipher`, `entry`, `layout`, `secret`, `slot`, `header`, `attempts`, `cache`,
//! `waiting`, `volume`, `open`, `keys`, `copy`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;
#[cfg(feature = "sim")]
extern crate std;

mod attempts;
mod cache;
mod cipher;
mod copy;
pub mod disk;
mod entry;
pub mod error;
mod header;
mod keys;
mod layout;
mod open;
mod recovery;
mod secret;
#[cfg(feature = "sim")]
pub mod sim;
mod slot;
mod volume;
mod waiting;

pub use attempts::{set_wrong_keys, wrong_keys};
pub use cipher::{Cipher, CipherKind, NONCE, TAG, choose};
pub use copy::SlotCopy;
pub use disk::{BLOCK, Disk, DiskError, MOST_BLOCKS, Run};
pub use error::{Error, Fault, Operation};
pub use header::{Header, HeaderFault};
pub use keys::{NewSlot, wipe};
pub use layout::{Geometry, MAX_LEVELS};
pub use open::{Access, Format, Key, Locked, Options};
pub use recovery::{CodeError, RecoveryCode};
pub use secret::{Cost, KEY, MIN_KEY_FILE, Secret, calibrate, derive};
pub use slot::{KeySlot, LABEL, SLOT_ID, SLOTS, SlotKind, SlotSecret};
pub use volume::{Head, Volume};

/// Fills bytes with random ones that no one can predict.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

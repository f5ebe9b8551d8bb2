//! Transfer volumes: disks that carry files between this machine and others.
//!
//! A [`Volume`] is a FAT12, FAT16 or FAT32 volume, read and written, or an ISO 9660 volume, read only. The bytes of either
//! come from outside and are trusted in nothing. The FAT driver is the crate `hadris-fat` (decision 23), and ISO 9660 is
//! read by `capos-iso9660`. This crate adds what neither of them has:
//!
//! - names and paths by the rules of this machine ([`name`]);
//! - a check of the whole volume before the first write, so that a damaged volume is never written;
//! - durability: a change that was answered is on the medium;
//! - copies with progress, that can be cancelled and continue later where they stopped ([`copy`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

mod cached;
mod device;
mod disk;
mod error;
mod fat;
mod folder;
mod iso;
pub mod name;
mod volume;

pub use capos_copy as copy;
pub use disk::{Disk, Fault};
pub use error::Error;
pub use fat::set_time;
pub use volume::{Entry, Format, Handle, Kind, Listing, Status, Volume};

/// The longest file of a FAT volume, in bytes.
pub const MAX_FILE: u64 = u32::MAX as u64;
/// Bytes that the list of one folder takes at most: that of 65,536 entries, which a FAT folder can have, with short names.
pub const MAX_LIST: usize = 4 << 20;
/// The longest gap of zeros that one write or truncation makes, in bytes: FAT has no sparse files, so that each of them is
/// written.
pub const MAX_GAP: u64 = 1 << 20;

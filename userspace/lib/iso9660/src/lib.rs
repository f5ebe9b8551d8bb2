//! Reader of ISO 9660 volumes with Rock Ridge names, modes and links.
//!
//! The bytes of a volume are not trusted. Every length, position and name is checked before it is
//! used. An error names the structure, the sector and the reason ([`Malformed`]). The constants in
//! [`limits`] bound the work that one request can cause.
//!
//! Input is asynchronous and belongs to the caller, who implements [`ReadSectors`]:
//!
//! ```
//! # use capos_iso9660::*;
//! async fn read_text<R: ReadSectors>(disk: R, sectors: u64) -> Result<Vec<u8>, Error<R::Error>> {
//!     let volume = Volume::mount(disk, sectors).await?;
//!     let node = volume.resolve(volume.root(), "boot/models/readme.txt").await?;
//!     let mut bytes = vec![0; node.size() as usize];
//!     let count = volume.read(&node, 0, &mut bytes).await?;
//!     bytes.truncate(count);
//!     Ok(bytes)
//! }
//! ```
//!
//! A server that moves file contents without copying asks a [`Node`] for its [`Node::runs`] and
//! has the device fill the destination. Files over 4 GiB (several extents), continuation areas
//! and relocated directories are read; Joliet, compressed and interleaved files and sparse files
//! are not, and the last three are refused by name.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod bytes;
mod check;
mod date;
mod descriptor;
mod directory;
mod error;
mod extent;
mod name;
mod node;
mod path;
mod record;
mod rock_ridge;
mod source;
mod volume;

pub use check::Summary;
pub use descriptor::{FIRST as FIRST_DESCRIPTOR, Primary, VolumeDescriptor};
pub use directory::{DirectoryReader, Entry};
pub use error::{Error, Malformed, Place, Problem};
pub use extent::{Extent, Run, Runs};
pub use node::{Kind, Node};
pub use record::{Record, RecordFlags, records_in_sector};
pub use rock_ridge::{Continuation, RockRidge};
pub use source::ReadSectors;
pub use volume::Volume;

/// Bytes of a sector, which is also the volume's logical block. Others are refused.
pub const SECTOR: usize = 2048;

/// What bounds the work that a volume can cause.
pub mod limits {
    /// Volume descriptors looked at before the terminator must have come.
    pub const DESCRIPTORS: u32 = 64;
    /// Longest directory in bytes.
    pub const DIRECTORY_BYTES: u32 = 16 * 1024 * 1024;
    /// Deepest nesting of directories.
    pub const DEPTH: usize = 64;
    /// Extents of one file; at 4 GiB each this is past any volume in use.
    pub const EXTENTS: usize = 256;
    /// Continuation areas that one record may have.
    pub const CONTINUATIONS: usize = 32;
    /// Sectors of continuation areas read for one pass over a directory.
    pub const CONTINUATION_READS: u32 = 65536;
    /// Longest target of a symbolic link in bytes.
    pub const LINK_BYTES: usize = 4096;
    /// Symbolic links followed while one path is resolved.
    pub const LINKS: usize = 16;
    /// Longest path in bytes.
    pub const PATH_BYTES: usize = 4096;
    /// Longest name in bytes.
    pub const NAME_BYTES: usize = 255;
    /// Directories and files that [`crate::Volume::check`] looks at.
    pub const CHECKED_NODES: usize = 1_000_000;
}

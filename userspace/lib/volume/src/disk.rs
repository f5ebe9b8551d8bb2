//! The disk below the volume.

use core::fmt;

/// Bytes of one block, of the disk and of the volume.
pub const BLOCK: usize = 4096;

/// A disk of 4 KiB blocks.
///
/// A write is durable once a later [`flush`](Self::flush) has returned. Until then a crash may drop it, tear it at
/// 512 bytes or reorder it with other writes.
pub trait Disk {
    /// Number of blocks.
    fn blocks(&self) -> u64;

    /// Reads consecutive blocks from `block` on; `into` holds a multiple of [`BLOCK`] bytes.
    ///
    /// # Errors
    /// The disk does not deliver one of the blocks.
    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError>;

    /// Writes consecutive blocks from `block` on; `from` holds a multiple of [`BLOCK`] bytes.
    ///
    /// # Errors
    /// The disk does not accept one of the blocks.
    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// The disk does not confirm it; any write since the last flush may be lost.
    fn flush(&mut self) -> Result<(), DiskError>;
}

impl<D: Disk + ?Sized> Disk for &mut D {
    fn blocks(&self) -> u64 {
        (**self).blocks()
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        (**self).read(block, into)
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        (**self).write(block, from)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        (**self).flush()
    }
}

/// Why a disk did not do an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// The block lies beyond the disk's end, or the length is no multiple of a block.
    OutOfRange,
    /// The medium or the bus failed at this operation.
    Failed,
    /// The disk accepts no writes.
    ReadOnly,
    /// The disk no longer answers.
    Gone,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the block lies beyond the disk's end",
            Self::Failed => "the disk reports a failure",
            Self::ReadOnly => "the disk accepts no writes",
            Self::Gone => "the disk no longer answers",
        })
    }
}

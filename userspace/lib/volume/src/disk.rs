//! The disk below the volume.

use core::fmt;

use crate::error::Operation;

/// Bytes of one block, of the disk and of the volume.
pub const BLOCK: usize = 4096;
/// Blocks that a volume reads or writes in one request at most: what a driver takes.
pub const MOST_BLOCKS: usize = 63;

/// Blocks that follow each other on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: u64,
    pub blocks: usize,
}

impl Run {
    /// Bytes of its blocks.
    pub(crate) fn bytes(self) -> usize {
        self.blocks.saturating_mul(BLOCK)
    }

    /// The block behind the last one.
    pub(crate) fn end(self) -> u64 {
        self.first.saturating_add(self.blocks as u64)
    }
}

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

    /// Reads runs of blocks, at most [`MOST_BLOCKS`] in all; `into` has their bytes, run after run.
    ///
    /// # Errors
    /// The disk does not deliver one of the blocks.
    fn read_runs(&mut self, runs: &[Run], into: &mut [u8]) -> Result<(), DiskError> {
        read_each(self, runs, into)
    }

    /// Writes runs of blocks in any order, at most [`MOST_BLOCKS`] in all; `from` has their bytes, run after run, and no block twice. With `flush` it then makes
    /// them and all earlier writes durable.
    ///
    /// # Errors
    /// The disk does not accept one of the blocks, or does not confirm that they are durable; the operation says which.
    fn write_runs(&mut self, runs: &[Run], from: &[u8], flush: bool) -> Result<(), (Operation, DiskError)> {
        let failed = |error| (Operation::Write, error);
        let mut rest = from;
        for run in runs {
            let (now, later) = rest.split_at_checked(run.bytes()).ok_or(failed(DiskError::OutOfRange))?;
            self.write(run.first, now).map_err(failed)?;
            rest = later;
        }
        if flush { self.flush().map_err(|error| (Operation::Flush, error)) } else { Ok(()) }
    }
}

/// Reads runs of blocks one after the other.
pub(crate) fn read_each<D: Disk + ?Sized>(disk: &mut D, runs: &[Run], into: &mut [u8]) -> Result<(), DiskError> {
    let mut rest = into;
    for run in runs {
        let parts = core::mem::take(&mut rest).split_at_mut_checked(run.bytes());
        let (now, later) = parts.ok_or(DiskError::OutOfRange)?;
        disk.read(run.first, now)?;
        rest = later;
    }
    Ok(())
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

    fn read_runs(&mut self, runs: &[Run], into: &mut [u8]) -> Result<(), DiskError> {
        (**self).read_runs(runs, into)
    }

    fn write_runs(&mut self, runs: &[Run], from: &[u8], flush: bool) -> Result<(), (Operation, DiskError)> {
        (**self).write_runs(runs, from, flush)
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

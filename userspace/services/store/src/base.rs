//! What the store lies on: the volume of a data disk, or memory.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;

use capos_store::{BLOCK_BYTES, BlockError, Blocks, MemoryBlocks, OnVolume};
use capos_volume::{Access, Disk};

/// A disk that a volume can lie on. All clones are the same disk.
pub trait DataDisk: Disk + Clone + Send + 'static {}

impl<D: Disk + Clone + Send + 'static> DataDisk for D {}

/// The volume of a data disk, or memory.
pub enum Base<D> {
    Memory(MemoryBlocks),
    Volume(Box<OnVolume<D>>),
}

impl<D> fmt::Debug for Base<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory(_) => "Memory",
            Self::Volume(_) => "Volume",
        })
    }
}

impl<D: DataDisk> Base<D> {
    /// Whether it is on a disk.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Volume(_))
    }

    /// How a volume is opened from now on; [`Blocks::forget`] opens it again.
    pub fn set_access(&mut self, access: Access) {
        if let Self::Volume(volume) = self {
            volume.set_access(access);
        }
    }

    /// Whether nothing can be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Volume(volume) if volume.is_read_only())
    }

    /// Why nothing can be written although it could be: the disk failed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Memory(_) => None,
            Self::Volume(volume) => volume.failure().map(|failure| failure.to_string()),
        }
    }

    /// How often it was opened for writing: it grows whenever what was not synced is lost.
    #[must_use]
    pub fn mounts(&self) -> u32 {
        match self {
            Self::Memory(_) => 0,
            Self::Volume(volume) => volume.mounts(),
        }
    }
}

impl<D: DataDisk> Blocks for Base<D> {
    fn blocks(&self) -> u64 {
        match self {
            Self::Memory(blocks) => blocks.blocks(),
            Self::Volume(blocks) => blocks.blocks(),
        }
    }

    fn numbers(&self) -> u64 {
        match self {
            Self::Memory(blocks) => blocks.numbers(),
            Self::Volume(blocks) => blocks.numbers(),
        }
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.read(block, out),
            Self::Volume(blocks) => blocks.read(block, out),
        }
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.write(block, data),
            Self::Volume(blocks) => blocks.write(block, data),
        }
    }

    fn read_run(&mut self, first: u64, out: &mut [u8]) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.read_run(first, out),
            Self::Volume(blocks) => blocks.read_run(first, out),
        }
    }

    fn write_run(&mut self, first: u64, data: &[u8]) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.write_run(first, data),
            Self::Volume(blocks) => blocks.write_run(first, data),
        }
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.sync(),
            Self::Volume(blocks) => blocks.sync(),
        }
    }

    fn settle(&mut self) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.settle(),
            Self::Volume(blocks) => blocks.settle(),
        }
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        match self {
            Self::Memory(blocks) => blocks.forget(),
            Self::Volume(blocks) => blocks.forget(),
        }
    }
}

//! What a store lies on.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// Why blocks could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The content of a block is not what was written there last. It was damaged, an older one was put in its place, or the medium
    /// does not deliver this block.
    Damaged {
        /// Its number.
        block: u64,
        /// The medium does not deliver it.
        unreadable: bool,
    },
    /// The medium failed, or is gone; the text says where and how.
    Medium(String),
    /// All blocks are used.
    Full,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { block, unreadable: false } => {
                write!(f, "block {block} does not hold what was written there last; restore it from a backup")
            }
            Self::Damaged { block, unreadable: true } => {
                write!(f, "block {block} cannot be read: check the disk and its cable, or restore it from a backup")
            }
            Self::Medium(why) => f.write_str(why),
            Self::Full => f.write_str("it has no room for this change; delete something first"),
        }
    }
}

impl core::error::Error for BlockError {}

/// Blocks that are written atomically.
///
/// Reads see all earlier writes. After a crash, and after [`Self::forget`], the blocks are as the last completed
/// [`Self::sync`] left them. A block that was never written reads as zeros.
pub trait Blocks: Debug + Send + 'static {
    /// How many blocks there are.
    fn blocks(&self) -> u64;

    /// How many numbers blocks may have. If these are more than the blocks, a write can fail because all blocks are used.
    fn numbers(&self) -> u64 {
        self.blocks()
    }

    /// Reads a block.
    ///
    /// # Errors
    /// It lies outside, is damaged, or the medium fails.
    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError>;

    /// Writes a block, durably only with the next sync.
    ///
    /// # Errors
    /// It lies outside, or the medium fails.
    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError>;

    /// Reads blocks that follow each other: as many as fit into `out`.
    ///
    /// # Errors
    /// As [`Self::read`], of the first block that cannot be read.
    fn read_run(&mut self, first: u64, out: &mut [u8]) -> Result<(), BlockError> {
        (first..).zip(out.as_chunks_mut().0).try_for_each(|(block, out)| self.read(block, out))
    }

    /// Writes blocks that follow each other: as many as `data` has.
    ///
    /// # Errors
    /// As [`Self::write`], of the first block that cannot be written.
    fn write_run(&mut self, first: u64, data: &[u8]) -> Result<(), BlockError> {
        (first..).zip(data.as_chunks().0).try_for_each(|(block, data)| self.write(block, data))
    }

    /// Makes all writes since the last sync durable, all of them or none.
    ///
    /// # Errors
    /// The medium fails. Whether the writes are durable is unknown until the blocks are opened again.
    fn sync(&mut self) -> Result<(), BlockError>;

    /// Takes back all writes since the last sync.
    ///
    /// # Errors
    /// The medium fails.
    fn forget(&mut self) -> Result<(), BlockError>;

    /// Does what a medium needs after its last sync for a while, so that small damage does not return it to an earlier state.
    ///
    /// # Errors
    /// The medium fails. What was synced is there all the same.
    fn settle(&mut self) -> Result<(), BlockError> {
        Ok(())
    }
}

/// Blocks in memory, for tests and for machines without a disk. They may have any number: the database doubles its file
/// whenever it needs more, and does not use all of it. They take the memory of `count` blocks at most.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlocks {
    count: u64,
    synced: BTreeMap<u64, Vec<u8>>,
    written: BTreeMap<u64, Vec<u8>>,
    syncs: u64,
}

impl MemoryBlocks {
    /// `count` blocks of zeros.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self { count, ..Self::default() }
    }

    /// What a crash leaves of them.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        Self { written: BTreeMap::new(), ..self.clone() }
    }

    /// How often they were synced.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Blocks of memory that they take: a block that was written since the last sync, and before it, takes two.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.synced.len().saturating_add(self.written.len()) as u64
    }
}

impl Blocks for MemoryBlocks {
    fn blocks(&self) -> u64 {
        self.count
    }

    fn numbers(&self) -> u64 {
        self.count.saturating_mul(4)
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        out.fill(0);
        if let Some(data) = self.written.get(&block).or_else(|| self.synced.get(&block)) {
            out.copy_from_slice(data);
        }
        Ok(())
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        if self.held() >= self.count && !self.written.contains_key(&block) {
            return Err(BlockError::Full);
        }
        self.written.insert(block, data.to_vec());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        self.syncs = self.syncs.saturating_add(1);
        self.synced.append(&mut self.written);
        Ok(())
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.written.clear();
        Ok(())
    }
}

//! Blocks that fail, for tests.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::blocks::{BLOCK_BYTES, BlockError, Blocks, MemoryBlocks};

/// Blocks in memory, one of which may be damaged, and whose syncs may fail. A damaged block cannot be read until it is
/// written. Clones share the faults and have blocks of their own.
#[derive(Clone, Debug)]
pub struct FaultyBlocks {
    /// The blocks.
    pub blocks: MemoryBlocks,
    /// The damaged block, or [`UNDAMAGED`].
    pub damaged: Arc<AtomicU64>,
    /// Whether syncs fail.
    pub fails: Arc<AtomicBool>,
}

/// No block is damaged.
pub const UNDAMAGED: u64 = u64::MAX;

impl FaultyBlocks {
    /// Blocks of which `damaged` is, with syncs that work.
    #[must_use]
    pub fn new(blocks: MemoryBlocks, damaged: u64) -> Self {
        Self { blocks, damaged: Arc::new(AtomicU64::new(damaged)), fails: Arc::default() }
    }
}

impl Blocks for FaultyBlocks {
    fn blocks(&self) -> u64 {
        self.blocks.blocks()
    }

    fn numbers(&self) -> u64 {
        self.blocks.numbers()
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        if block == self.damaged.load(Ordering::Relaxed) {
            return Err(BlockError::Damaged { block, unreadable: false });
        }
        self.blocks.read(block, out)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        // What is written whole is right again.
        let _ = self.damaged.compare_exchange(block, UNDAMAGED, Ordering::Relaxed, Ordering::Relaxed);
        self.blocks.write(block, data)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(BlockError::Medium("the disk cannot be written".into()));
        }
        self.blocks.sync()
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.blocks.forget()
    }
}

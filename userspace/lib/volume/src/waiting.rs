//! What was written to the volume and not handed to the disk yet: a bounded number of blocks.
//!
//! Small writes wait in the clear, so that a block that is written several times between two syncs is sealed once. Sealed
//! blocks wait for others, so that the disk gets all of them by one request.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::disk::{BLOCK, MOST_BLOCKS, Run};

/// Blocks that wait in the clear at most.
pub const MOST_PLAIN: usize = 48;

#[derive(Default)]
pub struct Waiting {
    /// By number.
    pub plain: BTreeMap<u64, Box<[u8]>>,
    /// Where the sealed blocks go, and their bytes, run after run.
    pub runs: Vec<Run>,
    pub sealed: Vec<u8>,
}

impl Waiting {
    /// Whether there is no room for another sealed block.
    pub fn is_full(&self) -> bool {
        self.sealed.len() >= MOST_BLOCKS.saturating_mul(BLOCK)
    }

    /// Whether a block of the disk is one that waits.
    pub fn has(&self, run: Run) -> bool {
        self.runs.iter().any(|other| other.first < run.end() && run.first < other.end())
    }

    /// Adds a block that is to be sealed in place.
    pub fn add(&mut self, block: u64, plain: &[u8]) -> &mut [u8] {
        extend(&mut self.runs, block);
        let begin = self.sealed.len();
        self.sealed.extend_from_slice(plain);
        self.sealed.get_mut(begin..).unwrap_or_default()
    }

    /// Forgets the sealed blocks.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.sealed.clear();
    }
}

/// Adds a block to runs: to the last one, if it comes next there.
pub fn extend(runs: &mut Vec<Run>, block: u64) {
    match runs.last_mut() {
        Some(last) if last.end() == block => last.blocks = last.blocks.saturating_add(1),
        _ => runs.push(Run { first: block, blocks: 1 }),
    }
}

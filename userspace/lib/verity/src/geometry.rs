//! How the tree of a file of a given size is laid out.

use crate::{BLOCK_SIZE, HASH_SIZE, HASHES_PER_BLOCK, VerityError};

/// Levels that the tree of the largest file has: 2^51 data blocks, 128 hashes per block.
pub(crate) const MAX_LEVELS: usize = 8;

/// One level of the tree: consecutive tree blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Index of the level's first block in the tree file.
    pub first: u64,
    /// Number of blocks in the level; the root's level has one.
    pub blocks: u64,
}

/// The layout of a file's tree: which tree block vouches for which data block.
///
/// Tree blocks are counted from the start of the tree file, the root's block being 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeGeometry {
    size: u64,
    data_blocks: u64,
    tree_blocks: u64,
    /// From the hashes of the data (level 0) up to the root; `depth` of them count.
    levels: [Level; MAX_LEVELS],
    depth: usize,
}

impl TreeGeometry {
    /// The layout for a file of `size` bytes.
    ///
    /// # Errors
    /// [`VerityError::FileTooLarge`] from 2^63 bytes on.
    pub fn for_size(size: u64) -> Result<Self, VerityError> {
        let too_large = VerityError::FileTooLarge { size };
        if i64::try_from(size).is_err() {
            return Err(too_large);
        }
        let data_blocks = size.div_ceil(BLOCK_SIZE as u64);
        let mut levels = [Level::default(); MAX_LEVELS];
        let mut depth = 0usize;
        let mut hashes = data_blocks;
        while hashes > 1 {
            let blocks = hashes.div_ceil(HASHES_PER_BLOCK as u64);
            let level = levels.get_mut(depth).ok_or(VerityError::FileTooLarge { size })?;
            level.blocks = blocks;
            depth = depth.saturating_add(1);
            hashes = blocks;
        }
        // The root's level comes first in the file.
        let mut next = 0u64;
        for level in levels.iter_mut().take(depth).rev() {
            level.first = next;
            next = next.checked_add(level.blocks).ok_or(VerityError::FileTooLarge { size })?;
        }
        Ok(Self { size, data_blocks, tree_blocks: next, levels, depth })
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of data blocks, the last of which may be shorter.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks
    }

    /// Number of blocks in the tree file; 0 for files of at most one block.
    pub fn tree_blocks(&self) -> u64 {
        self.tree_blocks
    }

    /// Size of the tree file in bytes.
    pub fn tree_bytes(&self) -> u64 {
        // At most 2^63 / 127, so this does not saturate.
        self.tree_blocks.saturating_mul(BLOCK_SIZE as u64)
    }

    /// The levels, the one with the hashes of the data first and the root's last.
    pub fn levels(&self) -> &[Level] {
        self.levels.get(..self.depth).unwrap_or(&[])
    }

    /// Checks the length of a tree file.
    ///
    /// # Errors
    /// [`VerityError::TreeLength`] if it is not the one that this file's tree has.
    pub fn check_tree_length(&self, found: u64) -> Result<(), VerityError> {
        let expected = self.tree_bytes();
        if found == expected { Ok(()) } else { Err(VerityError::TreeLength { expected, found }) }
    }

    /// Number of bytes of the file in a data block: [`BLOCK_SIZE`], or fewer in the last one.
    ///
    /// # Errors
    /// [`VerityError::BlockOutOfRange`] past the end of the file.
    pub fn block_length(&self, block: u64) -> Result<usize, VerityError> {
        let past = VerityError::BlockOutOfRange { block, blocks: self.data_blocks };
        if block >= self.data_blocks {
            return Err(past);
        }
        let start = block.checked_mul(BLOCK_SIZE as u64).ok_or(past.clone())?;
        let left = self.size.checked_sub(start).ok_or(past)?;
        Ok(usize::try_from(left).unwrap_or(BLOCK_SIZE).min(BLOCK_SIZE))
    }

    /// The tree blocks between the root and a data block, the root's first.
    ///
    /// # Errors
    /// [`VerityError::BlockOutOfRange`] past the end of the file.
    pub fn path(&self, block: u64) -> Result<TreePath, VerityError> {
        if block >= self.data_blocks {
            return Err(VerityError::BlockOutOfRange { block, blocks: self.data_blocks });
        }
        let mut path = TreePath { steps: [Step::default(); MAX_LEVELS], depth: self.depth, next: 0 };
        let mut hash = block;
        // Filled from the data upwards, that is from the path's end to its start.
        for (step, level) in path.steps.iter_mut().take(self.depth).rev().zip(self.levels()) {
            let within = hash >> HASHES_PER_BLOCK.ilog2();
            step.tree_block = level.first.saturating_add(within);
            let slot = hash & (HASHES_PER_BLOCK as u64).saturating_sub(1);
            step.offset = usize::try_from(slot).unwrap_or(0).saturating_mul(HASH_SIZE);
            hash = within;
        }
        Ok(path)
    }
}

/// One tree block on the way to a data block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub tree_block: u64,
    /// Where in the tree block the hash of the next block on the way is, in bytes.
    pub offset: usize,
}

/// The tree blocks between the root and a data block; an iterator over their indices, the
/// root's first.
#[derive(Clone, Debug)]
pub struct TreePath {
    steps: [Step; MAX_LEVELS],
    depth: usize,
    next: usize,
}

impl TreePath {
    pub(crate) fn steps(&self) -> &[Step] {
        self.steps.get(..self.depth).unwrap_or(&[])
    }
}

impl Iterator for TreePath {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let step = *self.steps().get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(step.tree_block)
    }
}

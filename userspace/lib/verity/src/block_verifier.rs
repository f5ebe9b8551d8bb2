//! Checking the blocks of a signed file one by one as they are read.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::digest::hash_block;
use crate::geometry::MAX_LEVELS;
use crate::{BLOCK_SIZE, FileDigest, HASH_SIZE, Hash, TreeGeometry, VerifiedFile, VerityError, file_digest};

struct Cached {
    bytes: Box<[u8; BLOCK_SIZE]>,
    used: u64,
}

/// Checks single blocks of a file against its signed digest, with the help of the tree.
///
/// The caller reads data and tree blocks (asynchronously, as it likes) and passes them in. Verified
/// tree blocks stay in a bounded cache, least recently used out first, so that most checks need no
/// tree block from the caller. One way to use it:
///
/// ```
/// # use capos_verity::*;
/// # fn read_tree_block(tree: &[u8], i: u64) -> Vec<u8> { tree[i as usize * 4096..][..4096].to_vec() }
/// # let file = vec![7u8; 9000]; let mut tree = Vec::new();
/// # let mut b = TreeBuilder::new(9000).unwrap(); b.update(&file, &mut tree).unwrap();
/// # let digest = b.finish(&mut tree).unwrap();
/// # let mut verifier = BlockVerifier::with_digest(9000, digest, 64).unwrap();
/// # let (block, data) = (2u64, &file[8192..]);
/// let mut brought = Vec::new();
/// for tree_block in verifier.needed(block)? {
///     brought.push((tree_block, read_tree_block(&tree, tree_block)));   // may await
/// }
/// let brought: Vec<(u64, &[u8])> = brought.iter().map(|(i, b)| (*i, b.as_slice())).collect();
/// verifier.verify_block(block, data, &brought)?;
/// # Ok::<(), VerityError>(())
/// ```
///
/// If another check ran between the two calls and the cache dropped a block that this one counted
/// on, the answer is [`VerityError::TreeBlockMissing`]: read that block too and call again.
pub struct BlockVerifier {
    geometry: TreeGeometry,
    digest: FileDigest,
    cache: BTreeMap<u64, Cached>,
    capacity: usize,
    clock: u64,
}

impl BlockVerifier {
    /// A verifier for a file whose signature was accepted. The cache holds up to
    /// `cache_blocks` tree blocks of 4 KiB each (never fewer than the tree has levels).
    ///
    /// # Errors
    /// [`VerityError::FileTooLarge`] from 2^63 bytes on.
    pub fn new(file: &VerifiedFile, cache_blocks: usize) -> Result<Self, VerityError> {
        Self::with_digest(file.size(), *file.digest(), cache_blocks)
    }

    /// A verifier for a file whose size and digest the caller has from a source it trusts.
    ///
    /// # Errors
    /// [`VerityError::FileTooLarge`] from 2^63 bytes on.
    pub fn with_digest(size: u64, digest: FileDigest, cache_blocks: usize) -> Result<Self, VerityError> {
        Ok(Self {
            geometry: TreeGeometry::for_size(size)?,
            digest,
            cache: BTreeMap::new(),
            capacity: cache_blocks.max(MAX_LEVELS),
            clock: 0,
        })
    }

    /// The layout of the file's tree.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    /// The digest that blocks are checked against.
    pub fn digest(&self) -> &FileDigest {
        &self.digest
    }

    /// Number of tree blocks in the cache.
    pub fn cached_blocks(&self) -> usize {
        self.cache.len()
    }

    /// The tree blocks that [`Self::verify_block`] will need for this block and that are not in
    /// the cache, the one nearest to the root first.
    ///
    /// # Errors
    /// [`VerityError::BlockOutOfRange`] past the end of the file.
    pub fn needed(&self, block: u64) -> Result<Vec<u64>, VerityError> {
        let path = self.geometry.path(block)?;
        Ok(path.filter(|tree_block| !self.cache.contains_key(tree_block)).collect())
    }

    /// Checks one data block. `data` is the block's bytes: of the last block either just those
    /// that belong to the file, or a whole block in which the rest must be zero.
    /// `tree_blocks` are the caller's tree blocks, with their indices, in any order; ones that are
    /// not needed are ignored.
    ///
    /// # Errors
    /// [`VerityError::DataMismatch`] or [`VerityError::TreeMismatch`] if bytes differ from the
    /// signed ones; [`VerityError::TreeBlockMissing`] if a tree block is needed that is not there;
    /// [`VerityError::BlockOutOfRange`], [`VerityError::DataLength`] for wrong requests.
    pub fn verify_block(&mut self, block: u64, data: &[u8], tree_blocks: &[(u64, &[u8])]) -> Result<(), VerityError> {
        let expected = self.geometry.block_length(block)?;
        if data.len() != expected && data.len() != BLOCK_SIZE {
            return Err(VerityError::DataLength { block, expected, found: data.len() });
        }
        let path = self.geometry.path(block)?;
        // The expected hash of the next block down; `None` is the root hash, which is known only
        // through the file's digest.
        let mut wanted: Option<Hash> = None;
        for step in path.steps() {
            wanted = Some(self.hash_in(step.tree_block, step.offset, wanted, tree_blocks)?);
        }
        if self.agrees(&hash_block(data), wanted) { Ok(()) } else { Err(VerityError::DataMismatch { block }) }
    }

    /// Checks that an empty file's digest is what was signed; other files pass. (An empty file
    /// has no block whose check would show it.)
    ///
    /// # Errors
    /// [`VerityError::DataMismatch`] of block 0.
    pub fn verify_empty(&self) -> Result<(), VerityError> {
        if self.geometry.size() > 0 || self.agrees(&[0; HASH_SIZE], None) {
            Ok(())
        } else {
            Err(VerityError::DataMismatch { block: 0 })
        }
    }

    fn agrees(&self, hash: &Hash, wanted: Option<Hash>) -> bool {
        match wanted {
            Some(wanted) => *hash == wanted,
            None => file_digest(self.geometry.size(), hash) == self.digest,
        }
    }

    /// The hash at `offset` of a tree block, out of the cache or, once checked, out of the caller's
    /// block.
    fn hash_in(
        &mut self,
        tree_block: u64,
        offset: usize,
        wanted: Option<Hash>,
        brought: &[(u64, &[u8])],
    ) -> Result<Hash, VerityError> {
        self.clock = self.clock.saturating_add(1);
        if let Some(cached) = self.cache.get_mut(&tree_block) {
            cached.used = self.clock;
            return hash_at(cached.bytes.as_slice(), offset).ok_or(VerityError::TreeBlockMissing { tree_block });
        }
        let missing = VerityError::TreeBlockMissing { tree_block };
        let (_, bytes) = brought.iter().find(|(index, _)| *index == tree_block).ok_or(missing)?;
        // A piece of a block is as wrong as a changed one.
        let bytes: &[u8; BLOCK_SIZE] = (*bytes).try_into().map_err(|_| VerityError::TreeMismatch { tree_block })?;
        if !self.agrees(&hash_block(bytes), wanted) {
            return Err(VerityError::TreeMismatch { tree_block });
        }
        self.make_room();
        self.cache.insert(tree_block, Cached { bytes: Box::new(*bytes), used: self.clock });
        hash_at(bytes, offset).ok_or(VerityError::TreeBlockMissing { tree_block })
    }

    fn make_room(&mut self) {
        while self.cache.len() >= self.capacity {
            let oldest = self.cache.iter().min_by_key(|(_, cached)| cached.used);
            let Some((&index, _)) = oldest else { return };
            self.cache.remove(&index);
        }
    }
}

fn hash_at(bytes: &[u8], offset: usize) -> Option<Hash> {
    bytes.get(offset..)?.first_chunk::<HASH_SIZE>().copied()
}

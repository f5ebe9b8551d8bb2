//! Building the tree of a file in one pass and in constant memory.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::digest::hash_block;
use crate::{BLOCK_SIZE, FileDigest, HASH_SIZE, Hash, TreeGeometry, VerityError, file_digest};

/// Where a [`TreeBuilder`] puts the tree's blocks.
pub trait TreeSink {
    /// Errors of the sink.
    type Error;

    /// Takes block `tree_block` of the tree file, which begins at byte
    /// `tree_block * BLOCK_SIZE`. Each block is written once; those of one level come in order, but
    /// the levels are mixed.
    ///
    /// # Errors
    /// The sink's own; the builder stops and hands it on.
    fn write_block(&mut self, tree_block: u64, bytes: &[u8; BLOCK_SIZE]) -> Result<(), Self::Error>;
}

/// A sink for callers that want the digest only.
impl TreeSink for () {
    type Error = core::convert::Infallible;

    fn write_block(&mut self, _: u64, _: &[u8; BLOCK_SIZE]) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A sink that keeps the tree in memory, as the tree file holds it.
impl TreeSink for Vec<u8> {
    type Error = core::convert::Infallible;

    fn write_block(&mut self, tree_block: u64, bytes: &[u8; BLOCK_SIZE]) -> Result<(), Self::Error> {
        let start = usize::try_from(tree_block).unwrap_or(usize::MAX).saturating_mul(BLOCK_SIZE);
        let end = start.saturating_add(BLOCK_SIZE);
        if self.len() < end {
            self.resize(end, 0);
        }
        if let Some(place) = self.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// The unfinished tree block of a level.
struct Partial {
    bytes: Box<[u8; BLOCK_SIZE]>,
    filled: usize,
    next_block: u64,
}

/// Builds the tree of a file whose size is known, from its bytes in order.
///
/// Holds one block per level and one of data, whatever the file's size.
pub struct TreeBuilder {
    geometry: TreeGeometry,
    levels: Vec<Partial>,
    data: Box<[u8; BLOCK_SIZE]>,
    in_data: usize,
    taken: u64,
    root: Hash,
}

/// The error that stops a builder: of the file's bytes, or of the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError<E> {
    /// The bytes given do not have the length that was announced.
    Verity(VerityError),
    /// The sink's own error.
    Sink(E),
}

impl<E> From<VerityError> for BuildError<E> {
    fn from(error: VerityError) -> Self {
        Self::Verity(error)
    }
}

impl<E: core::fmt::Display> core::fmt::Display for BuildError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Verity(error) => error.fmt(f),
            Self::Sink(error) => error.fmt(f),
        }
    }
}

impl<E: core::fmt::Debug + core::fmt::Display> core::error::Error for BuildError<E> {}

impl TreeBuilder {
    /// A builder for a file of `size` bytes.
    ///
    /// # Errors
    /// [`VerityError::FileTooLarge`] from 2^63 bytes on.
    pub fn new(size: u64) -> Result<Self, VerityError> {
        let geometry = TreeGeometry::for_size(size)?;
        let levels = geometry
            .levels()
            .iter()
            .map(|level| Partial { bytes: Box::new([0; BLOCK_SIZE]), filled: 0, next_block: level.first })
            .collect();
        Ok(Self { geometry, levels, data: Box::new([0; BLOCK_SIZE]), in_data: 0, taken: 0, root: [0; HASH_SIZE] })
    }

    /// The layout of the tree being built.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    /// Takes the next bytes of the file; big pieces are fastest.
    ///
    /// # Errors
    /// [`VerityError::TooMuchData`] past the announced size, or the sink's error.
    pub fn update<S: TreeSink>(&mut self, mut bytes: &[u8], sink: &mut S) -> Result<(), BuildError<S::Error>> {
        let size = self.geometry.size();
        self.taken = self
            .taken
            .checked_add(bytes.len() as u64)
            .filter(|taken| *taken <= size)
            .ok_or(VerityError::TooMuchData { size })?;
        while !bytes.is_empty() {
            if self.in_data == 0
                && let Some((block, rest)) = bytes.split_first_chunk::<BLOCK_SIZE>()
            {
                self.push(hash_block(block), sink)?;
                bytes = rest;
                continue;
            }
            let room = BLOCK_SIZE.saturating_sub(self.in_data);
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            let end = self.in_data.saturating_add(now.len());
            if let Some(place) = self.data.get_mut(self.in_data..end) {
                place.copy_from_slice(now);
            }
            self.in_data = end;
            bytes = rest;
            if self.in_data == BLOCK_SIZE {
                self.in_data = 0;
                let hash = hash_block(self.data.as_slice());
                self.push(hash, sink)?;
            }
        }
        Ok(())
    }

    /// Writes the rest of the tree and returns the file's digest.
    ///
    /// # Errors
    /// [`VerityError::TooLittleData`] before the announced size, or the sink's error.
    pub fn finish<S: TreeSink>(mut self, sink: &mut S) -> Result<FileDigest, BuildError<S::Error>> {
        let size = self.geometry.size();
        if self.taken < size {
            return Err(VerityError::TooLittleData { size, found: self.taken }.into());
        }
        if self.in_data > 0 {
            let hash = hash_block(self.data.get(..self.in_data).unwrap_or(&[]));
            self.in_data = 0;
            self.push(hash, sink)?;
        }
        for level in 0..self.levels.len() {
            if self.levels.get(level).is_some_and(|partial| partial.filled > 0) {
                let hash = self.flush(level, sink)?;
                self.push_at(level.saturating_add(1), hash, sink)?;
            }
        }
        Ok(file_digest(size, &self.root))
    }

    fn push<S: TreeSink>(&mut self, hash: Hash, sink: &mut S) -> Result<(), BuildError<S::Error>> {
        self.push_at(0, hash, sink)
    }

    /// Adds a hash to a level, and the hashes of blocks that become full to those above.
    fn push_at<S: TreeSink>(
        &mut self,
        mut level: usize,
        mut hash: Hash,
        sink: &mut S,
    ) -> Result<(), BuildError<S::Error>> {
        loop {
            let Some(partial) = self.levels.get_mut(level) else {
                // Above the topmost level there is only the root hash.
                self.root = hash;
                return Ok(());
            };
            let end = partial.filled.saturating_add(HASH_SIZE);
            if let Some(place) = partial.bytes.get_mut(partial.filled..end) {
                place.copy_from_slice(&hash);
            }
            partial.filled = end;
            if end < BLOCK_SIZE {
                return Ok(());
            }
            hash = self.flush(level, sink)?;
            level = level.saturating_add(1);
        }
    }

    /// Hands a level's block to the sink and gives its hash.
    fn flush<S: TreeSink>(&mut self, level: usize, sink: &mut S) -> Result<Hash, BuildError<S::Error>> {
        let Some(partial) = self.levels.get_mut(level) else {
            return Ok(self.root);
        };
        sink.write_block(partial.next_block, &partial.bytes).map_err(BuildError::Sink)?;
        let hash = hash_block(partial.bytes.as_slice());
        partial.bytes.fill(0);
        partial.filled = 0;
        partial.next_block = partial.next_block.saturating_add(1);
        Ok(hash)
    }
}

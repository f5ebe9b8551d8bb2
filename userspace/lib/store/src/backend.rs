//! Blocks as the database's file.
//!
//! The first block says how long the file is. It is written with the rest, so a crash leaves a file of the right length.
//!
//! The database doubles its file when it needs more. If twice the file does not fit, the file gets a [`Hole`] where the database
//! writes last.
//! The database's own syncs do nothing while a transaction is committed: the store syncs the blocks once, after it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use core::fmt;
use core::ops::Bound;

use redb::{BackendError, StorageBackend};
use spin::Mutex;

use crate::{BLOCK_BYTES, BlockError, Blocks};

/// The beginning of the first block.
const MAGIC: [u8; 8] = *b"CAPOSTOR";
/// Blocks before the file.
const BEFORE: u64 = 1;

/// Blocks of the file that have no place: they read as zeros, and the store is full if something is written there. They are
/// chosen when the file becomes longer than its place, in its new part, and stay as long as the file has that part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hole {
    start: u64,
    blocks: u64,
}

impl Hole {
    fn end(self) -> u64 {
        self.start.saturating_add(self.blocks)
    }

    /// The hole of a file that grows from `old` to `new` blocks, with room for `most`. The database uses pages of the lowest
    /// number first, but those of smaller powers of two before: the end of the largest one comes last.
    fn of(old: u64, new: u64, most: u64) -> Self {
        let blocks = new.saturating_sub(most);
        // Its pages come after one of its own.
        let largest = new.saturating_sub(1).checked_ilog2().map_or(0, |power| 1_u64 << power);
        let start = largest.saturating_add(1).saturating_sub(blocks).max(old);
        if blocks == 0 { Self::default() } else { Self { start, blocks } }
    }

    /// Where the first of the blocks is that these bytes fill, and how many of the bytes follow each other there; none for no
    /// whole block.
    fn run(self, block: u64, bytes: usize) -> Option<(Option<u64>, usize)> {
        let until = if self.blocks == 0 || block >= self.end() {
            u64::MAX
        } else if block < self.start {
            self.start.saturating_sub(block)
        } else {
            self.end().saturating_sub(block)
        };
        let blocks = usize::try_from(until).unwrap_or(usize::MAX).min(bytes.checked_div(BLOCK_BYTES)?);
        (blocks > 0).then(|| (self.place(block), blocks.saturating_mul(BLOCK_BYTES)))
    }

    /// Where a block of the file is; none in the hole.
    fn place(self, block: u64) -> Option<u64> {
        let is_in = self.blocks > 0 && block >= self.start;
        match is_in {
            false => Some(block),
            true if block < self.end() => None,
            true => Some(block.saturating_sub(self.blocks)),
        }
    }
}

/// The blocks, and the file on them.
#[derive(Debug)]
pub(crate) struct File<B> {
    blocks: B,
    length: u64,
    hole: Hole,
    /// Blocks behind the file that are not its own.
    behind: u64,
    /// The file's first block, of which the database changes a part with each commit.
    head: Option<Box<[u8; BLOCK_BYTES]>>,
    /// The first error since the file was opened. The database only says that there was one.
    failed: Option<BlockError>,
}

impl<B: Blocks> File<B> {
    /// The file on these blocks; an empty one on blocks of zeros.
    ///
    /// # Errors
    /// The blocks fail, or hold something else, which is told by `None`.
    pub fn open(mut blocks: B) -> Result<Option<Self>, BlockError> {
        let first = read_first(&mut blocks)?;
        Ok(first.map(|(length, hole)| Self { blocks, length, hole, behind: 0, head: None, failed: None }))
    }

    /// The blocks.
    pub fn blocks(&self) -> &B {
        &self.blocks
    }

    /// The blocks, to work on.
    pub fn blocks_mut(&mut self) -> &mut B {
        &mut self.blocks
    }

    /// The blocks, without the file.
    pub fn into_blocks(self) -> B {
        self.blocks
    }

    /// Bytes that can be used in the file.
    pub fn capacity(&self) -> u64 {
        capacity(&self.blocks)
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Keeps the last `behind` blocks apart: the file does not grow into them.
    pub fn reserve(&mut self, behind: u64) {
        self.behind = behind;
    }

    /// Blocks that the file may have besides its hole. Not all of them need be there.
    fn longest(&self) -> u64 {
        longest(&self.blocks).saturating_sub(self.behind)
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<(), BlockError> {
        self.blocks.sync().inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Takes back what was not synced. The database is closed: snapshots of it can read nothing any more.
    pub fn forget(&mut self) -> Result<(), BlockError> {
        (self.failed, self.head) = (None, None);
        self.blocks.forget()?;
        let first = read_first(&mut self.blocks)?;
        (self.length, self.hole) =
            first.ok_or_else(|| BlockError::Medium("the first block is not that of a store any more".into()))?;
        Ok(())
    }

    /// Whether the database met an error, and nobody was told.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The error that the database met, if the blocks made one.
    pub fn take_error(&mut self) -> Option<BlockError> {
        self.failed.take()
    }

    fn set_length(&mut self, length: u64) -> Result<(), BlockError> {
        let (old, new, most) = (in_blocks(self.length), in_blocks(length), self.longest());
        let hole = if self.hole.blocks > 0 { self.hole } else { Hole::of(old, new, most) };
        if new.saturating_sub(hole.blocks) > most || hole.end() > new.max(old) {
            return Err(BlockError::Full);
        }
        self.hole = hole;
        // What lies behind the new end is zeros if the file grows again.
        let old = self.length;
        self.length = length;
        if length < old {
            let zeros = vec![0; BLOCK_BYTES];
            let mut there = zeros.clone();
            let mut at = length;
            while at < old {
                let until = at.saturating_add(1).next_multiple_of(BLOCK_BYTES as u64).min(old);
                let bytes = usize::try_from(until.saturating_sub(at)).unwrap_or(BLOCK_BYTES);
                let (zeros, there) =
                    (zeros.get(..bytes).unwrap_or_default(), there.get_mut(..bytes).unwrap_or_default());
                match self.read(at, there) {
                    // A block of zeros may have never been written, and takes no room then.
                    Ok(()) if there == zeros => {}
                    // What a damaged block held is of no use any more.
                    Ok(()) | Err(BlockError::Damaged { .. }) => self.write(at, zeros)?,
                    Err(other) => return Err(other),
                }
                at = until;
            }
        }
        if new <= self.hole.start {
            self.hole = Hole::default();
        }
        let mut first = [0; BLOCK_BYTES];
        let numbers = [length, self.hole.start, self.hole.blocks];
        let bytes = MAGIC.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes));
        first.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        self.blocks.write(0, &first)
    }

    fn read_block(&mut self, number: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        if let Some(head) = self.head.as_ref().filter(|_| number == 0) {
            out.copy_from_slice(&head[..]);
            return Ok(());
        }
        match self.hole.place(number) {
            Some(place) => self.blocks.read(place.saturating_add(BEFORE), out)?,
            None => out.fill(0),
        }
        self.keep_head(number, out);
        Ok(())
    }

    /// Keeps the first block of a run, if it is the file's.
    fn keep_head(&mut self, number: u64, run: &[u8]) {
        if let Some(head) = run.first_chunk().filter(|_| number == 0) {
            self.head = Some(Box::new(*head));
        }
    }

    fn write_block(&mut self, number: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.keep_head(number, data);
        match self.hole.place(number) {
            Some(place) => self.blocks.write(place.saturating_add(BEFORE), data),
            None if data.iter().all(|byte| *byte == 0) => Ok(()),
            None => Err(BlockError::Full),
        }
    }

    /// The same of blocks that follow each other.
    fn read_run(&mut self, mut number: u64, mut out: &mut [u8]) -> Result<(), BlockError> {
        while let Some((place, bytes)) = self.hole.run(number, out.len()) {
            let Some((now, rest)) = out.split_at_mut_checked(bytes) else { break };
            match place {
                Some(place) => self.blocks.read_run(place.saturating_add(BEFORE), now)?,
                None => now.fill(0),
            }
            number = number.saturating_add(in_blocks(bytes as u64));
            out = rest;
        }
        Ok(())
    }

    fn write_run(&mut self, mut number: u64, mut data: &[u8]) -> Result<(), BlockError> {
        while let Some((place, bytes)) = self.hole.run(number, data.len()) {
            let Some((now, rest)) = data.split_at_checked(bytes) else { break };
            self.keep_head(number, now);
            match place {
                Some(place) => self.blocks.write_run(place.saturating_add(BEFORE), now)?,
                None if now.iter().all(|byte| *byte == 0) => {}
                None => return Err(BlockError::Full),
            }
            number = number.saturating_add(in_blocks(bytes as u64));
            data = rest;
        }
        Ok(())
    }

    /// The blocks that a range of the file touches: whole blocks that follow each other together, others one by one. Of each
    /// piece, the first block, where the range begins in it, and the part of the caller's bytes.
    fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, core::ops::Range<usize>)> {
        let mut done = 0usize;
        core::iter::from_fn(move || {
            if done >= bytes {
                return None;
            }
            let at = offset.checked_add(done as u64)?;
            let within = usize::try_from(at.checked_rem(BLOCK_BYTES as u64)?).ok()?;
            let rest = bytes.saturating_sub(done);
            let taken = if within == 0 && rest >= BLOCK_BYTES {
                rest.saturating_sub(rest % BLOCK_BYTES)
            } else {
                rest.min(BLOCK_BYTES.saturating_sub(within))
            };
            let part = done..done.saturating_add(taken);
            done = done.saturating_add(taken);
            Some((at.checked_div(BLOCK_BYTES as u64)?, within, part))
        })
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), BlockError> {
        let mut block = [0; BLOCK_BYTES];
        for (number, within, part) in Self::pieces(offset, out.len()) {
            let to = out.get_mut(part).unwrap_or_default();
            if to.len() >= BLOCK_BYTES {
                self.read_run(number, to)?;
                continue;
            }
            self.read_block(number, &mut block)?;
            to.copy_from_slice(block.get(within..within.saturating_add(to.len())).unwrap_or_default());
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockError> {
        let mut block = [0; BLOCK_BYTES];
        for (number, within, part) in Self::pieces(offset, data.len()) {
            let from = data.get(part).unwrap_or_default();
            if from.len() >= BLOCK_BYTES {
                self.write_run(number, from)?;
                continue;
            }
            self.read_block(number, &mut block)?;
            if let Some(to) = block.get_mut(within..within.saturating_add(from.len())) {
                to.copy_from_slice(from);
            }
            self.write_block(number, &block)?;
        }
        Ok(())
    }
}

/// The length of the file and its hole, from the first block: of length 0 on blocks of zeros, none if they hold something else.
fn read_first(blocks: &mut impl Blocks) -> Result<Option<(u64, Hole)>, BlockError> {
    let mut first = [0; BLOCK_BYTES];
    blocks.read(0, &mut first)?;
    let Some((magic, rest)) = first.split_first_chunk::<8>() else { return Ok(None) };
    let mut numbers =
        rest.chunks_exact(8).filter_map(|bytes| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)));
    let mut number = || numbers.next().unwrap_or_default();
    let (length, hole) = (number(), Hole { start: number(), blocks: number() });
    let is_blank = first.iter().all(|byte| *byte == 0);
    let fits = in_blocks(length).saturating_sub(hole.blocks) <= longest(blocks);
    let is_ours = *magic == MAGIC && fits && (hole.blocks == 0 || hole.start < in_blocks(length));
    Ok((is_ours || is_blank).then_some((length, hole)))
}

/// Blocks of so many bytes of the file.
fn in_blocks(length: u64) -> u64 {
    length.div_ceil(BLOCK_BYTES as u64)
}

fn capacity(blocks: &impl Blocks) -> u64 {
    blocks.blocks().saturating_sub(BEFORE).saturating_mul(BLOCK_BYTES as u64)
}

/// Blocks of the longest file, if none of them are kept apart.
fn longest(blocks: &impl Blocks) -> u64 {
    blocks.numbers().saturating_sub(BEFORE)
}

/// The file, as the database and the store share it.
pub(crate) type Shared<B> = Arc<Mutex<File<B>>>;

/// What the database is given.
pub(crate) struct Backend<B> {
    file: Shared<B>,
}

impl<B> fmt::Debug for Backend<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl<B: Blocks> Backend<B> {
    /// The file with its current contents.
    pub fn new(file: &Shared<B>) -> Self {
        Self { file: file.clone() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut File<B>) -> Result<T, BlockError>) -> Result<T, BackendError> {
        let mut file = self.file.lock();
        work(&mut file).map_err(|error| {
            let told = error.to_string();
            file.failed.get_or_insert(error);
            BackendError::Other(Box::new(BlockError::Medium(told)))
        })
    }
}

impl<B: Blocks> StorageBackend for Backend<B> {
    fn len(&self) -> Result<u64, BackendError> {
        self.with(|file| Ok(file.length))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), BackendError> {
        self.with(|file| {
            let end = offset.saturating_add(out.len() as u64);
            if end > file.length {
                return Err(BlockError::Medium(format!("the database's file ends at {}, not at {end}", file.length)));
            }
            file.read(offset, out)
        })
    }

    fn set_len(&self, length: u64) -> Result<(), BackendError> {
        self.with(|file| file.set_length(length))
    }

    fn sync_data(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackendError> {
        self.with(|file| file.write(offset, data))
    }

    // One process has the blocks.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;

//! A simulated disk that crashes, for tests of the volume and of what builds on it.
//!
//! What a write leaves after a crash is decided only then: since the last flush any write may be lost, whole, or torn at
//! 512 bytes, each independently of the others. Everything follows from one seed.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::{BLOCK, Disk, DiskError, Run, read_each};
use crate::error::Operation;

/// Bytes that a disk writes as one.
pub const SECTOR: usize = 512;

/// A generator of random numbers (splitmix64): the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number().checked_rem(limit).unwrap_or_default()
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            crate::entry::put(chunk, 0, &self.number().to_le_bytes());
        }
    }
}

/// The content of one block.
pub type Content = Arc<[u8; BLOCK]>;

/// What a disk holds; blocks that are absent hold zeros. Copies share their blocks.
pub type Image = BTreeMap<u64, Content>;

/// A disk in memory.
#[derive(Clone, Debug)]
pub struct SimDisk {
    blocks: u64,
    /// What survives a crash.
    durable: Image,
    /// Writes since the last flush, in their order.
    pending: Vec<(u64, Content)>,
    /// What a read returns: the durable blocks with the pending writes.
    seen: Image,
    /// Operations until the power goes; it goes for writes and flushes.
    fuse: Option<u64>,
    /// True if the power is gone.
    dead: bool,
    /// One flush in `lies` does nothing; 0 for none.
    pub lies: u64,
    pub seed: Seed,
    /// Operations done.
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    /// Requests that the volume made: one for all runs that it reads or writes together.
    pub requests: u64,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(blocks: u64, seed: u64) -> Self {
        Self::from_image(blocks, Image::new(), Seed(seed))
    }

    /// A disk that holds an image.
    pub fn from_image(blocks: u64, image: Image, seed: Seed) -> Self {
        Self {
            blocks,
            seen: image.clone(),
            durable: image,
            pending: Vec::new(),
            fuse: None,
            dead: false,
            lies: 0,
            seed,
            reads: 0,
            writes: 0,
            flushes: 0,
            requests: 0,
        }
    }

    /// What a read returns.
    pub fn image(&self) -> &Image {
        &self.seen
    }

    /// The number of writes that a crash could still lose.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// What was written since the last flush, in its order.
    pub fn written_blocks(&self) -> Vec<(u64, Content)> {
        self.pending.clone()
    }

    /// Lets the power go at the write or flush after `operations` more of them.
    pub fn set_fuse(&mut self, operations: Option<u64>) {
        self.fuse = operations;
    }

    /// True if the fuse has blown.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// The disk after a power cut at this moment.
    #[must_use]
    pub fn crash(mut self) -> Self {
        let mut image = core::mem::take(&mut self.durable);
        // Writes of different blocks are independent, so which of them happened is all that their order can change.
        // For writes of one block the last one that happened counts; sectors of earlier ones may remain.
        for (block, content) in core::mem::take(&mut self.pending) {
            match self.seed.below(4) {
                0 => {}
                1 => tear(&mut image, block, &content, self.seed.number()),
                _ => {
                    image.insert(block, content);
                }
            }
        }
        Self { lies: self.lies, ..Self::from_image(self.blocks, image, self.seed) }
    }

    /// The disk after a power cut, of which a caller decides: `keep` returns for each pending write, in order, the
    /// sectors that happened, one bit each.
    #[must_use]
    pub fn crash_with(mut self, mut keep: impl FnMut(usize) -> u8) -> Self {
        let mut image = core::mem::take(&mut self.durable);
        for (number, (block, content)) in core::mem::take(&mut self.pending).into_iter().enumerate() {
            tear(&mut image, block, &content, u64::from(keep(number)));
        }
        Self::from_image(self.blocks, image, self.seed)
    }

    fn burn(&mut self) -> Result<(), DiskError> {
        match self.fuse.as_mut() {
            Some(0) => self.dead = true,
            Some(left) => *left = left.saturating_sub(1),
            None => {}
        }
        if self.dead { Err(DiskError::Gone) } else { Ok(()) }
    }

    fn range(&self, block: u64, bytes: usize) -> Result<(), DiskError> {
        let count = bytes.div_euclid(BLOCK) as u64;
        let fits = bytes.is_multiple_of(BLOCK) && block.checked_add(count).is_some_and(|end| end <= self.blocks);
        fits.then_some(()).ok_or(DiskError::OutOfRange)
    }
}

/// Writes the sectors of `content` whose bit is set.
fn tear(image: &mut Image, block: u64, content: &Content, sectors: u64) {
    let mut torn = image.get(&block).map_or([0; BLOCK], |old| **old);
    for (number, (to, from)) in torn.chunks_exact_mut(SECTOR).zip(content.chunks_exact(SECTOR)).enumerate() {
        if sectors.wrapping_shr(u32::try_from(number).unwrap_or_default()) & 1 == 1 {
            to.copy_from_slice(from);
        }
    }
    image.insert(block, Arc::new(torn));
}

impl Disk for SimDisk {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.range(block, into.len())?;
        if self.dead {
            return Err(DiskError::Gone);
        }
        self.reads = self.reads.saturating_add(1);
        for (chunk, block) in into.chunks_exact_mut(BLOCK).zip(block..) {
            match self.seen.get(&block) {
                Some(content) => chunk.copy_from_slice(&content[..]),
                None => chunk.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        self.range(block, from.len())?;
        for (chunk, block) in from.as_chunks::<BLOCK>().0.iter().zip(block..) {
            self.burn()?;
            self.writes = self.writes.saturating_add(1);
            let content = Arc::new(*chunk);
            self.seen.insert(block, content.clone());
            self.pending.push((block, content));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.burn()?;
        self.flushes = self.flushes.saturating_add(1);
        if self.lies == 0 || !self.seed.once_in(self.lies) {
            self.durable.extend(self.pending.drain(..));
        }
        Ok(())
    }

    fn read_runs(&mut self, runs: &[Run], into: &mut [u8]) -> Result<(), DiskError> {
        self.requests = self.requests.saturating_add(1);
        read_each(self, runs, into)
    }

    /// In an order that the seed decides. Runs that share a block are rejected: which of them is last would be unknown.
    fn write_runs(&mut self, runs: &[Run], from: &[u8], flush: bool) -> Result<(), (Operation, DiskError)> {
        let failed = |error| (Operation::Write, error);
        self.requests = self.requests.saturating_add(1);
        let mut rest = from;
        let mut parts = Vec::new();
        for run in runs {
            let (now, later) = rest.split_at_checked(run.bytes()).ok_or(failed(DiskError::OutOfRange))?;
            if parts.iter().any(|(other, _): &(Run, _)| other.first < run.end() && run.first < other.end()) {
                return Err(failed(DiskError::OutOfRange));
            }
            parts.push((*run, now));
            rest = later;
        }
        while !parts.is_empty() {
            let next = usize::try_from(self.seed.below(parts.len() as u64)).unwrap_or_default();
            let (run, part) = parts.swap_remove(next);
            self.write(run.first, part).map_err(failed)?;
        }
        if flush { self.flush().map_err(|error| (Operation::Flush, error)) } else { Ok(()) }
    }
}

/// A disk in one piece of memory, which does nothing but copy. All clones are the same disk.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// A disk with this content, a whole number of blocks.
    pub fn new(content: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(content)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, block: u64, bytes: usize, work: impl FnOnce(&mut [u8])) -> Result<(), DiskError> {
        let start = usize::try_from(block).ok().and_then(|block| block.checked_mul(BLOCK));
        let start = start.ok_or(DiskError::OutOfRange)?;
        let end = start.checked_add(bytes).ok_or(DiskError::OutOfRange)?;
        self.lock().get_mut(start..end).map(work).ok_or(DiskError::OutOfRange)
    }
}

impl Disk for Memory {
    fn blocks(&self) -> u64 {
        (self.lock().len() / BLOCK) as u64
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.with(block, into.len(), |part| into.copy_from_slice(part))
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        self.with(block, from.len(), |part| part.copy_from_slice(from))
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

/// A disk that a test and the volume on it both hold.
#[derive(Clone, Debug)]
pub struct SharedDisk(Arc<Mutex<SimDisk>>);

impl SharedDisk {
    pub fn new(disk: SimDisk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    pub fn lock(&self) -> MutexGuard<'_, SimDisk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SharedDisk {
    fn blocks(&self) -> u64 {
        self.lock().blocks()
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.lock().read(block, into)
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        self.lock().write(block, from)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.lock().flush()
    }

    fn read_runs(&mut self, runs: &[Run], into: &mut [u8]) -> Result<(), DiskError> {
        self.lock().read_runs(runs, into)
    }

    fn write_runs(&mut self, runs: &[Run], from: &[u8], flush: bool) -> Result<(), (Operation, DiskError)> {
        self.lock().write_runs(runs, from, flush)
    }
}

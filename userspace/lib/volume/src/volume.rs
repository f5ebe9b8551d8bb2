//! Reading, writing and making durable.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use zeroize::Zeroizing;

use crate::cache::{Cache, Place};
use crate::cipher::Cipher;
use crate::disk::{BLOCK, Disk, DiskError, MOST_BLOCKS, Run};
use crate::entry::{Entry, FANOUT, Node, Pen, State, put};
use crate::error::{Error, Fault, Operation};
use crate::header::Header;
use crate::layout::Geometry;
use crate::secret::KEY;
use crate::waiting::{MOST_PLAIN, Waiting, extend};

/// Blocks of a write that is sealed at once: they are not soon written again.
const LARGE: usize = 4;

/// An open volume.
pub struct Volume<D> {
    pub(crate) disk: D,
    pub(crate) cipher: Cipher,
    pub(crate) key: Zeroizing<[u8; KEY]>,
    pub(crate) header_key: Zeroizing<[u8; KEY]>,
    /// What the last durable header says.
    pub(crate) header: Header,
    /// The entry of the tree's root, with what is not durable yet.
    root: Entry,
    cache: Cache,
    pen: Pen,
    waiting: Waiting,
    changed: bool,
    /// Whether the header before the last one says the same.
    settled: bool,
    state: Writing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    Allowed,
    ReadOnly,
    /// A write failed: what the disk holds is unknown.
    Failed,
}

/// The state of a volume at its last header, to compare with a copy kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Grows with each sync, each opening for writing and each change of key slots.
    pub epoch: u64,
    pub digest: [u8; 32],
}

/// Number of bytes of `blocks` blocks.
fn bytes(blocks: usize) -> usize {
    blocks.saturating_mul(BLOCK)
}

impl<D: Disk> Volume<D> {
    pub(crate) fn new(
        disk: D,
        key: Zeroizing<[u8; KEY]>,
        keys: Keys,
        header: Header,
        cache_nodes: usize,
        writable: bool,
    ) -> Self {
        let cache = Cache::new(cache_nodes, header.geometry.levels());
        Self {
            disk,
            cipher: Cipher::new(header.cipher, &keys.data),
            key,
            header_key: keys.header,
            root: header.root,
            cache,
            pen: Pen::new(header.mount, 0),
            header,
            waiting: Waiting::default(),
            changed: false,
            settled: false,
            state: if writable { Writing::Allowed } else { Writing::ReadOnly },
        }
    }

    /// Blocks that the volume offers.
    pub fn len(&self) -> u64 {
        self.header.geometry.blocks()
    }

    /// A volume has at least one block.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The last durable header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The volume's state at its last header.
    pub fn head(&self) -> Head {
        Head { epoch: self.header.epoch, digest: self.header.digest() }
    }

    /// The volume key, for [`Locked::resume`](crate::Locked::resume). Its holder can read and change the volume.
    pub fn key(&self) -> Zeroizing<[u8; KEY]> {
        self.key.clone()
    }

    /// Whether it was opened for reading alone.
    pub fn is_read_only(&self) -> bool {
        self.state == Writing::ReadOnly
    }

    /// Nodes of the tree that are in memory.
    pub fn cached_nodes(&self) -> usize {
        self.cache.len()
    }

    /// The disk below. Writing to it damages the volume.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// Returns the disk. Changes since the last sync are lost.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Reads the blocks from `first` on. Blocks that were never written are zeros.
    ///
    /// # Errors
    /// A block is not what was written last, or the disk fails; `into` then holds zeros.
    pub fn read(&mut self, first: u64, into: &mut [u8]) -> Result<(), Error> {
        let done = self.check_range(first, into.len()).and_then(|()| self.read_blocks(first, into));
        if done.is_err() {
            into.fill(0);
        }
        done
    }

    fn read_blocks(&mut self, first: u64, into: &mut [u8]) -> Result<(), Error> {
        let mut index = first;
        let mut rest = into;
        let mut entries: Vec<Entry> = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        while !rest.is_empty() {
            entries.clear();
            runs.clear();
            while entries.len() < MOST_BLOCKS && bytes(entries.len()) < rest.len() {
                let next = index.saturating_add(entries.len() as u64);
                let Some(entry) = self.stored(next)? else { break };
                extend(&mut runs, self.header.geometry.block(0, next, entry.slot));
                entries.push(entry);
            }
            let (part, after) =
                core::mem::take(&mut rest).split_at_mut_checked(bytes(entries.len().max(1))).unwrap_or_default();
            if !entries.is_empty() {
                self.disk_read((0, index), &runs, part)?;
            } else if let Some(plain) = self.waiting.plain.get(&index) {
                part.copy_from_slice(plain);
            } else {
                part.fill(0);
            }
            for ((entry, block), index) in entries.iter().zip(part.chunks_exact_mut(BLOCK)).zip(index..) {
                self.open_block(0, index, entry, block)?;
            }
            index = index.saturating_add(entries.len().max(1) as u64);
            rest = after;
        }
        Ok(())
    }

    /// The entry of a block, if the block is to be read from the disk.
    fn stored(&mut self, index: u64) -> Result<Option<Entry>, Error> {
        if self.waiting.plain.contains_key(&index) {
            return Ok(None);
        }
        let leaf = self.load((1, index.div_euclid(FANOUT)))?;
        Ok(Some(self.entry(leaf, index)?).filter(|entry| entry.state == State::Stored))
    }

    /// Writes the blocks from `first` on. They are durable after the next [`sync`](Self::sync), all or none of them.
    ///
    /// # Errors
    /// The blocks lie beyond the end, the volume is not writable, the disk fails, or a node of the tree is damaged.
    /// After the last two the volume accepts no more writes, so that no part of this one becomes durable, and what was
    /// written since the last sync may be unreadable. A sync may be the first to tell.
    pub fn write(&mut self, first: u64, from: &[u8]) -> Result<(), Error> {
        self.check_range(first, from.len())?;
        self.check_writable()?;
        let done = self.write_blocks(first, from);
        self.fail_unless(done)
    }

    fn write_blocks(&mut self, first: u64, from: &[u8]) -> Result<(), Error> {
        self.changed = true;
        let is_large = from.len() >= bytes(LARGE);
        for (block, index) in from.chunks_exact(BLOCK).zip(first..) {
            if is_large {
                self.waiting.plain.remove(&index);
                self.seal_data(index, block)?;
                continue;
            }
            self.load((1, index.div_euclid(FANOUT)))?;
            match self.waiting.plain.get_mut(&index) {
                Some(plain) => plain.copy_from_slice(block),
                None => drop(self.waiting.plain.insert(index, block.into())),
            }
            if self.waiting.plain.len() >= MOST_PLAIN {
                self.seal_plain()?;
            }
        }
        Ok(())
    }

    /// Seals all blocks that wait in the clear, in the order of their places.
    fn seal_plain(&mut self) -> Result<(), Error> {
        let plain = core::mem::take(&mut self.waiting.plain);
        let mut sorted = Vec::with_capacity(plain.len());
        for (index, block) in plain {
            let leaf = self.load((1, index.div_euclid(FANOUT)))?;
            let slot = self.pen.free_slot(&self.entry(leaf, index)?);
            sorted.push((self.header.geometry.block(0, index, slot), index, block));
        }
        sorted.sort_unstable_by_key(|(place, ..)| *place);
        sorted.into_iter().try_for_each(|(_, index, block)| self.seal_data(index, &block))
    }

    fn seal_data(&mut self, index: u64, block: &[u8]) -> Result<(), Error> {
        let leaf = self.load((1, index.div_euclid(FANOUT)))?;
        let old = self.entry(leaf, index)?;
        let entry = self.seal(0, index, &old, block)?;
        self.set_entry(leaf, index, &entry);
        Ok(())
    }

    /// Seals a block or node into the slot that is free; the disk gets it with others.
    fn seal(&mut self, level: u8, index: u64, old: &Entry, plain: &[u8]) -> Result<Entry, Error> {
        let slot = self.pen.free_slot(old);
        let place = self.header.geometry.block(level, index, slot);
        if self.waiting.is_full() || self.waiting.has(Run { first: place, blocks: 1 }) {
            self.send(false)?;
        }
        let mut entry = Entry { state: State::Stored, slot, stamp: self.pen.stamp()?, tag: [0; 16] };
        let bound = self.bound(level, index);
        let sealed = self.waiting.add(place, plain);
        entry.tag = self.cipher.seal(&entry.stamp.nonce(), &bound, sealed).ok_or(Error::Exhausted)?;
        Ok(entry)
    }

    /// Hands all sealed blocks to the disk, and makes all that it was ever handed durable if `flush`.
    fn send(&mut self, flush: bool) -> Result<(), Error> {
        let mut waiting = core::mem::take(&mut self.waiting);
        let sent = self.disk_write(&waiting.runs, &waiting.sealed, flush);
        waiting.clear();
        self.waiting = waiting;
        sent
    }

    /// Makes `count` blocks from `first` on read as zeros.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn discard(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let end = first.checked_add(count).filter(|end| *end <= self.len());
        let end = end.ok_or(Error::OutOfRange { first, count, blocks: self.len() })?;
        self.check_writable()?;
        let done = self.discard_blocks(first..end);
        self.fail_unless(done)
    }

    fn discard_blocks(&mut self, blocks: Range<u64>) -> Result<(), Error> {
        for index in blocks {
            self.waiting.plain.remove(&index);
            let leaf = self.load((1, index.div_euclid(FANOUT)))?;
            let entry = self.entry(leaf, index)?;
            if entry.state == State::Stored {
                let slot = self.pen.free_slot(&entry);
                let entry = Entry { state: State::Discarded, slot, stamp: self.pen.stamp()?, tag: [0; 16] };
                self.changed = true;
                self.set_entry(leaf, index, &entry);
            }
        }
        Ok(())
    }

    /// Makes everything written so far durable, all of it or nothing.
    ///
    /// # Errors
    /// The disk fails. The volume then accepts no more writes until it is opened again, and holds one of the two states.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        if !self.changed {
            return Ok(());
        }
        let done = self.store_all().and_then(|root| self.next_header(|header| header.root = root));
        self.fail_unless(done)?;
        self.pen.end_epoch();
        self.changed = false;
        Ok(())
    }

    /// Writes one more header, if the one before the last says something else. Without that, damage of the two copies of the last
    /// header puts the volume back to its state before. After it, damage of any two copies changes nothing.
    ///
    /// Nothing is written while there are changes that were not synced.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync); the volume holds the same state in any case.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        if self.changed || self.settled {
            return Ok(());
        }
        let done = self.next_header(|_| {});
        self.fail_unless(done)
    }

    /// Writes all dirty nodes from the leaves up. Returns the root's entry.
    fn store_all(&mut self) -> Result<Entry, Error> {
        self.seal_plain()?;
        for level in 1..=self.header.geometry.levels() {
            for place in self.cache.dirty(level) {
                self.store(place)?;
            }
        }
        self.send(true)?;
        Ok(self.root)
    }

    fn fail_unless(&mut self, done: Result<(), Error>) -> Result<(), Error> {
        if done.is_err() {
            self.state = Writing::Failed;
        }
        done
    }

    /// Writes the header of the next epoch, both copies, and makes it durable.
    pub(crate) fn next_header(&mut self, change: impl FnOnce(&mut Header)) -> Result<(), Error> {
        self.check_writable()?;
        let mut header = self.header.clone();
        header.epoch = header.epoch.checked_add(1).ok_or(Error::Exhausted)?;
        change(&mut header);
        let block = header.encode(&*self.header_key);
        let place = |copy| Geometry::header(header.geometry.physical(), header.epoch, copy);
        let copies = [0, 1].map(|copy| Run { first: place(copy), blocks: 1 });
        self.disk_write(&copies, &[&*block, &*block].concat(), true)?;
        self.settled = (header.root, &header.slots) == (self.header.root, &self.header.slots);
        self.header = header;
        Ok(())
    }

    /// Begins a mount: its stamps have not been used before.
    pub(crate) fn begin_mount(&mut self, sequence: u64) -> Result<(), Error> {
        let mount = self.header.mount.checked_add(1).ok_or(Error::Exhausted)?;
        self.next_header(|header| header.mount = mount)?;
        self.pen = Pen::new(mount, sequence);
        Ok(())
    }

    /// Checks the root of the tree.
    pub(crate) fn check_root(&mut self) -> Result<(), Error> {
        self.load((self.header.geometry.levels(), 0)).map(drop)
    }

    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match self.state {
            Writing::Allowed => Ok(()),
            Writing::ReadOnly => Err(Error::ReadOnly),
            Writing::Failed => Err(Error::Failed),
        }
    }

    fn check_range(&self, first: u64, length: usize) -> Result<(), Error> {
        if !length.is_multiple_of(BLOCK) {
            return Err(Error::Length { bytes: length });
        }
        let count = length.div_euclid(BLOCK) as u64;
        let fits = first.checked_add(count).is_some_and(|end| end <= self.len());
        fits.then_some(()).ok_or(Error::OutOfRange { first, count, blocks: self.len() })
    }

    /// Brings a node and its ancestors into the cache.
    fn load(&mut self, place: Place) -> Result<Place, Error> {
        // Blocks that follow each other have the same path.
        if self.cache.is_last(place) {
            return Ok(place);
        }
        let levels = self.header.geometry.levels();
        let ancestors = || {
            (place.0..=levels).scan(place.1, |index, level| {
                let here = (level, *index);
                *index = index.div_euclid(FANOUT);
                Some(here)
            })
        };
        // Whatever of the path is here is not evicted while the rest is read.
        let path: Vec<(Place, bool)> = ancestors().map(|place| (place, self.cache.touch(place))).collect();
        for (place, cached) in path.iter().rev() {
            if *cached {
                continue;
            }
            let node = self.read_node(*place)?;
            if self.cache.is_full()
                && let Some(oldest) = self.cache.oldest()
            {
                if self.cache.is_dirty(oldest) {
                    self.store(oldest)?;
                }
                self.cache.remove(oldest);
            }
            self.cache.insert(*place, node);
        }
        if path.iter().any(|(_, cached)| !cached) {
            for place in ancestors() {
                self.cache.touch(place);
            }
        }
        self.cache.set_last(place);
        Ok(place)
    }

    fn read_node(&mut self, place: Place) -> Result<Node, Error> {
        let entry = self.entry_of_node(place)?;
        let mut node = Node::empty();
        if entry.state == State::Stored {
            let block = self.header.geometry.block(place.0, place.1, entry.slot);
            self.disk_read(place, &[Run { first: block, blocks: 1 }], &mut node.0)?;
            self.open_block(place.0, place.1, &entry, &mut node.0)?;
        }
        Ok(node)
    }

    /// Seals a dirty node into its free slot. Its parent is in the cache.
    fn store(&mut self, place: Place) -> Result<(), Error> {
        let (level, index) = place;
        let old = self.entry_of_node(place)?;
        let Some(node) = self.cache.take(place) else { return Ok(()) };
        let sealed = self.seal(level, index, &old, &node.0);
        self.cache.put_back(place, node);
        let entry = sealed?;
        if level == self.header.geometry.levels() {
            self.root = entry;
        } else {
            self.set_entry((level.saturating_add(1), index.div_euclid(FANOUT)), index, &entry);
        }
        self.cache.set_clean(place);
        Ok(())
    }

    fn entry_of_node(&self, (level, index): Place) -> Result<Entry, Error> {
        if level == self.header.geometry.levels() {
            return Ok(self.root);
        }
        self.entry((level.saturating_add(1), index.div_euclid(FANOUT)), index)
    }

    /// The entry of a child in a cached node. Only a node of another version of the format has malformed entries.
    fn entry(&self, node: Place, child: u64) -> Result<Entry, Error> {
        let entry = self.cache.get(node).and_then(|node| node.entry(child.rem_euclid(FANOUT)));
        let level = node.0.saturating_sub(1);
        let block = self.header.geometry.block(level, child, 0);
        entry.ok_or(Error::Block { block, level, index: child, fault: Fault::Mismatch })
    }

    fn set_entry(&mut self, node: Place, child: u64, entry: &Entry) {
        if let Some(node) = self.cache.change(node) {
            node.set(child.rem_euclid(FANOUT), entry);
        }
    }

    /// What a block is bound to: the volume, its level and its number.
    fn bound(&self, level: u8, index: u64) -> [u8; 25] {
        let mut bound = [0; 25];
        put(&mut bound, 0, &self.header.uuid);
        put(&mut bound, 16, &[level]);
        put(&mut bound, 17, &index.to_le_bytes());
        bound
    }

    /// Decrypts a block in place, or says what is wrong with it.
    fn open_block(&mut self, level: u8, index: u64, entry: &Entry, data: &mut [u8]) -> Result<(), Error> {
        let (nonce, bound) = (entry.stamp.nonce(), self.bound(level, index));
        let zeros = data.iter().all(|byte| *byte == 0);
        if self.cipher.open(&nonce, &entry.tag, &bound, data) {
            return Ok(());
        }
        let mut other = vec![0; BLOCK];
        let other_slot = self.header.geometry.block(level, index, entry.slot ^ 1);
        let misplaced =
            self.disk.read(other_slot, &mut other).is_ok() && self.cipher.open(&nonce, &entry.tag, &bound, &mut other);
        let fault = match (misplaced, zeros) {
            (true, _) => Fault::Misplaced,
            (false, true) => Fault::Zeros,
            (false, false) => Fault::Mismatch,
        };
        let block = self.header.geometry.block(level, index, entry.slot);
        Err(Error::Block { block, level, index, fault })
    }

    /// Reads the blocks of a level from a place on.
    fn disk_read(&mut self, place: Place, runs: &[Run], into: &mut [u8]) -> Result<(), Error> {
        if runs.iter().any(|run| self.waiting.has(*run)) {
            self.send(false)?;
        }
        let block = runs.first().map_or(0, |run| run.first);
        match self.disk.read_runs(runs, into) {
            Ok(()) => Ok(()),
            Err(DiskError::Failed) => self.read_singly(place, runs, into),
            Err(error) => Err(Error::Disk { operation: Operation::Read, block, error }),
        }
    }

    /// Reads each block by itself, to find the one at which the disk fails. That block is as good as damaged if the disk still
    /// delivers a copy of the header; otherwise the disk itself has failed.
    fn read_singly(&mut self, (level, first): Place, runs: &[Run], into: &mut [u8]) -> Result<(), Error> {
        let numbers = runs.iter().flat_map(|run| run.first..run.end());
        for ((block, part), index) in numbers.zip(into.chunks_exact_mut(BLOCK)).zip(first..) {
            if self.disk.read(block, part).is_ok() {
                continue;
            }
            let end = self.header.geometry.physical();
            let headers = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(place, copy)| Geometry::header(end, place, copy));
            let mut other = vec![0; BLOCK];
            let delivers = headers.into_iter().any(|header| self.disk.read(header, &mut other).is_ok());
            // A disk that was away for a moment delivers the block now.
            match self.disk.read(block, part) {
                Ok(()) => {}
                Err(DiskError::Failed) if delivers => {
                    return Err(Error::Block { block, level, index, fault: Fault::Unreadable });
                }
                Err(error) => return Err(Error::Disk { operation: Operation::Read, block, error }),
            }
        }
        Ok(())
    }

    pub(crate) fn disk_write(&mut self, runs: &[Run], from: &[u8], flush: bool) -> Result<(), Error> {
        self.disk.write_runs(runs, from, flush).map_err(|(operation, error)| {
            self.state = Writing::Failed;
            let first = runs.first().filter(|_| operation == Operation::Write);
            Error::Disk { operation, block: first.map_or(0, |run| run.first), error }
        })
    }
}

/// The keys that follow from the volume key.
pub(crate) struct Keys {
    pub data: Zeroizing<[u8; KEY]>,
    pub header: Zeroizing<[u8; KEY]>,
}

impl Keys {
    pub fn new(key: &[u8; KEY], uuid: &[u8; 16]) -> Self {
        Self {
            data: crate::secret::derive(key, &[b"capos-volume blocks", uuid]),
            header: crate::secret::derive(key, &[b"capos-volume headers", uuid]),
        }
    }
}

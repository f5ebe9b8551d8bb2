//! Reading, writing and making durable.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use zeroize::Zeroizing;

use crate::cache::{Cache, Place};
use crate::cipher::Cipher;
use crate::disk::{BLOCK, Disk};
use crate::entry::{Entry, FANOUT, Node, Pen, State, put};
use crate::error::{Error, Fault, Operation};
use crate::header::Header;
use crate::layout::Geometry;
use crate::secret::KEY;

/// Blocks that are sealed before they are written in one operation.
const RUN: usize = 32;

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
    scratch: Vec<u8>,
    changed: bool,
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
            scratch: Vec::new(),
            changed: false,
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

    /// The volume key, for [`Locked::resume`](crate::Locked::resume). Whoever has it has the volume.
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
        let done = self.check_range(first, into.len()).and_then(|()| self.read_runs(first, into));
        if done.is_err() {
            into.fill(0);
        }
        done
    }

    fn read_runs(&mut self, first: u64, into: &mut [u8]) -> Result<(), Error> {
        let mut index = first;
        let mut rest = into;
        let mut run: Vec<Entry> = Vec::new();
        while !rest.is_empty() {
            let leaf = self.load((1, index.div_euclid(FANOUT)))?;
            let entry = self.entry(leaf, index)?;
            run.clear();
            run.push(entry);
            let start = self.header.geometry.block(0, index, entry.slot);
            while entry.state == State::Stored && bytes(run.len()) < rest.len() {
                let next = index.saturating_add(run.len() as u64);
                if next.div_euclid(FANOUT) != leaf.1 {
                    break;
                }
                let entry = self.entry(leaf, next)?;
                let block = self.header.geometry.block(0, next, entry.slot);
                if entry.state != State::Stored || block != start.saturating_add(run.len() as u64) {
                    break;
                }
                run.push(entry);
            }
            let (part, after) = core::mem::take(&mut rest).split_at_mut_checked(bytes(run.len())).unwrap_or_default();
            if entry.state == State::Stored {
                self.disk_read(start, part)?;
                for (entry, block) in run.iter().zip(part.chunks_exact_mut(BLOCK)) {
                    self.open_block(0, index, entry, block)?;
                    index = index.saturating_add(1);
                }
            } else {
                part.fill(0);
                index = index.saturating_add(1);
            }
            rest = after;
        }
        Ok(())
    }

    /// Writes the blocks from `first` on. They are durable after the next [`sync`](Self::sync), all or none of them.
    ///
    /// # Errors
    /// The blocks lie beyond the end, the volume is not writable, the disk fails, or a node of the tree is damaged.
    /// After the last two the volume accepts no more writes, so that no part of this one becomes durable.
    pub fn write(&mut self, first: u64, from: &[u8]) -> Result<(), Error> {
        self.check_range(first, from.len())?;
        self.check_writable()?;
        let done = self.write_runs(first, from);
        self.fail_unless(done)
    }

    fn write_runs(&mut self, first: u64, from: &[u8]) -> Result<(), Error> {
        let mut index = first;
        let mut rest = from;
        let mut run: Vec<Entry> = Vec::new();
        while !rest.is_empty() {
            let leaf = self.load((1, index.div_euclid(FANOUT)))?;
            run.clear();
            let mut start = 0_u64;
            while run.len() < RUN && bytes(run.len()) < rest.len() {
                let next = index.saturating_add(run.len() as u64);
                if next.div_euclid(FANOUT) != leaf.1 {
                    break;
                }
                let slot = self.pen.free_slot(&self.entry(leaf, next)?);
                let block = self.header.geometry.block(0, next, slot);
                if run.is_empty() {
                    start = block;
                } else if block != start.saturating_add(run.len() as u64) {
                    break;
                }
                run.push(Entry { state: State::Stored, slot, stamp: self.pen.stamp()?, tag: [0; 16] });
            }
            let (part, after) = rest.split_at_checked(bytes(run.len())).unwrap_or_default();
            self.seal_run(index, start, &mut run, part)?;
            for entry in &run {
                self.set_entry(leaf, index, entry);
                index = index.saturating_add(1);
            }
            rest = after;
        }
        Ok(())
    }

    fn seal_run(&mut self, first: u64, start: u64, run: &mut [Entry], from: &[u8]) -> Result<(), Error> {
        let mut sealed = core::mem::take(&mut self.scratch);
        sealed.clear();
        sealed.extend_from_slice(from);
        for ((entry, block), index) in run.iter_mut().zip(sealed.chunks_exact_mut(BLOCK)).zip(first..) {
            let bound = self.bound(0, index);
            entry.tag = self.cipher.seal(&entry.stamp.nonce(), &bound, block).ok_or(Error::Exhausted)?;
        }
        self.changed = true;
        let written = self.disk_write(start, &sealed);
        self.scratch = sealed;
        written
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

    /// Writes all dirty nodes from the leaves up. Returns the root's entry.
    fn store_all(&mut self) -> Result<Entry, Error> {
        for level in 1..=self.header.geometry.levels() {
            for place in self.cache.dirty(level) {
                self.store(place)?;
            }
        }
        self.flush()?;
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
        for copy in 0..2 {
            self.disk_write(Geometry::header(header.geometry.physical(), header.epoch, copy), &block)?;
        }
        self.flush()?;
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
        Ok(place)
    }

    fn read_node(&mut self, place: Place) -> Result<Node, Error> {
        let entry = self.entry_of_node(place)?;
        let mut node = Node::empty();
        if entry.state == State::Stored {
            let block = self.header.geometry.block(place.0, place.1, entry.slot);
            self.disk_read(block, &mut node.0)?;
            self.open_block(place.0, place.1, &entry, &mut node.0)?;
        }
        Ok(node)
    }

    /// Seals a dirty node into its free slot. Its parent is in the cache.
    fn store(&mut self, place: Place) -> Result<(), Error> {
        let (level, index) = place;
        let old = self.entry_of_node(place)?;
        let mut entry =
            Entry { state: State::Stored, slot: self.pen.free_slot(&old), stamp: self.pen.stamp()?, tag: [0; 16] };
        let mut sealed = core::mem::take(&mut self.scratch);
        sealed.clear();
        sealed.extend_from_slice(self.cache.get(place).map(|node| &*node.0).unwrap_or_default());
        let bound = self.bound(level, index);
        entry.tag = self.cipher.seal(&entry.stamp.nonce(), &bound, &mut sealed).ok_or(Error::Exhausted)?;
        let written = self.disk_write(self.header.geometry.block(level, index, entry.slot), &sealed);
        self.scratch = sealed;
        written?;
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

    fn disk_read(&mut self, block: u64, into: &mut [u8]) -> Result<(), Error> {
        self.disk.read(block, into).map_err(|error| Error::Disk { operation: Operation::Read, block, error })
    }

    fn disk_write(&mut self, block: u64, from: &[u8]) -> Result<(), Error> {
        self.disk.write(block, from).map_err(|error| {
            self.state = Writing::Failed;
            Error::Disk { operation: Operation::Write, block, error }
        })
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.disk.flush().map_err(|error| {
            self.state = Writing::Failed;
            Error::Disk { operation: Operation::Flush, block: 0, error }
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

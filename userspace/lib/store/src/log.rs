//! The log: changes that are durable before the database has written its state.
//!
//! A state of the database is about ten blocks; the changes of a small commit fit into one. The log has the last blocks of a
//! store. Each block of it names its *generation*, the number that the state in the database has. So the changes that follow
//! a state are those in blocks of its generation, and writing the next state empties the log.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use redb::{ReadableTable, Table, WriteTransaction};

use crate::error::database;
use crate::store::NAMESPACES;
use crate::tree::Trees;
use crate::{BLOCK_BYTES, BlockError, Blocks, StoreError};

/// Blocks of the log at most: replaying them takes no longer than opening the store.
const MOST_BLOCKS: u64 = 16;
/// Of the blocks of a store, the log has one in 64.
const SHARE: u64 = 64;
/// Bytes of a block before its changes: the generation, and the bytes of changes.
const HEADER: usize = 16;
/// Bytes of changes in a block.
const PAYLOAD: usize = BLOCK_BYTES - HEADER;

/// Blocks of the log of a store on blocks with this many numbers.
pub(crate) fn length(numbers: u64) -> u64 {
    numbers.checked_div(SHARE).unwrap_or(0).min(MOST_BLOCKS)
}

/// The end of the log, and what is to be added to it.
pub(crate) struct Log {
    /// Its first block, and how many it has; none of a store without a log.
    first: u64,
    blocks: u64,
    generation: u64,
    /// The block in progress, counted from the first one, and the changes in it.
    at: u64,
    tail: Vec<u8>,
    /// Changes of commits that are not durable; none if one of them does not fit.
    pending: Option<Vec<u8>>,
}

impl Log {
    /// The empty log of a generation. It takes its first changes after the database has written its state once: a block of the
    /// database that prevents that is found before a commit is acknowledged.
    pub fn new(numbers: u64, generation: u64) -> Self {
        let blocks = length(numbers);
        let first = numbers.saturating_sub(blocks);
        Self { first, blocks, generation, at: 0, tail: Vec::new(), pending: None }
    }

    /// The log of a store that has none.
    pub fn none() -> Self {
        Self::new(0, 0)
    }

    /// Reads the changes of the generation, in the order of their commits.
    ///
    /// # Errors
    /// A block is damaged, or the blocks fail.
    pub fn read(&self, from: &mut impl Blocks) -> Result<Vec<u8>, BlockError> {
        let mut changes = Vec::new();
        for number in self.first..self.first.saturating_add(self.blocks) {
            let mut block = [0; BLOCK_BYTES];
            from.read(number, &mut block)?;
            let (header, payload) = block.split_first_chunk::<HEADER>().unwrap_or((&[0; HEADER], &[]));
            let (generation, used) = (number_at(header, 0), number_at(header, 8));
            if generation != self.generation {
                break;
            }
            let used = usize::try_from(used).unwrap_or(usize::MAX).min(PAYLOAD);
            changes.extend_from_slice(payload.get(..used).unwrap_or_default());
            if used < PAYLOAD {
                break;
            }
        }
        Ok(changes)
    }

    /// Bytes of changes for which there is room.
    pub fn room(&self) -> usize {
        let left = usize::try_from(self.blocks.saturating_sub(self.at)).unwrap_or(0).saturating_mul(PAYLOAD);
        let pending = self.pending.as_ref().map_or(left, Vec::len);
        left.saturating_sub(self.tail.len()).saturating_sub(pending)
    }

    /// Notes the changes of a commit; none if they do not fit. Returns whether the log can make all of its commits durable.
    pub fn note(&mut self, changes: Option<Vec<u8>>) -> bool {
        self.pending = self.pending.take().zip(changes).map(|(mut pending, changes)| {
            pending.extend_from_slice(&changes);
            pending
        });
        self.pending.is_some()
    }

    /// Writes what was noted. Returns false, and writes nothing, if some of it did not fit.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn write(&mut self, to: &mut impl Blocks) -> Result<bool, BlockError> {
        let Some(pending) = self.pending.replace(Vec::new()) else {
            self.pending = None;
            return Ok(false);
        };
        let mut rest = pending.as_slice();
        while !rest.is_empty() {
            let room = PAYLOAD.saturating_sub(self.tail.len()).min(rest.len());
            let (now, after) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            self.tail.extend_from_slice(now);
            rest = after;
            to.write(self.first.saturating_add(self.at), &self.block())?;
            if self.tail.len() >= PAYLOAD {
                self.at = self.at.saturating_add(1);
                self.tail.clear();
            }
        }
        Ok(true)
    }

    /// The block in progress.
    fn block(&self) -> Box<[u8; BLOCK_BYTES]> {
        let mut block = Box::new([0; BLOCK_BYTES]);
        let (header, payload) = block.split_at_mut(HEADER);
        let numbers = [self.generation, self.tail.len() as u64].map(u64::to_le_bytes);
        header.copy_from_slice(numbers.as_flattened());
        if let Some(changes) = payload.get_mut(..self.tail.len()) {
            changes.copy_from_slice(&self.tail);
        }
        block
    }

    /// Empties the log, because the database is about to write its state. Returns the generation of that state if it is
    /// another one.
    pub fn end(&mut self) -> Option<u64> {
        self.pending = Some(Vec::new());
        let is_used = self.at > 0 || !self.tail.is_empty();
        is_used.then(|| self.skip())
    }

    /// The generation of what the log takes next.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins the log of the next generation. Returns that.
    pub fn skip(&mut self) -> u64 {
        self.generation = self.generation.saturating_add(1);
        self.at = 0;
        self.tail.clear();
        self.generation
    }
}

/// The number of 8 bytes at a place in a header.
fn number_at(header: &[u8; HEADER], at: usize) -> u64 {
    header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The changes of one transaction, as the log has them. None once there are too many, or one that the log cannot have.
pub(crate) struct Changes {
    bytes: Option<Vec<u8>>,
    most: usize,
}

/// The first byte of a change.
const PUT: u8 = 1;
const REMOVE: u8 = 2;
const USED: u8 = 3;

impl Changes {
    /// None so far, and at most this many bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: (most > 0).then(Vec::new), most }
    }

    fn add(&mut self, kind: u8, parts: [&[u8]; 4]) {
        let Some(bytes) = &mut self.bytes else { return };
        let more = parts.iter().map(|part| part.len()).sum::<usize>().saturating_add(1);
        if bytes.len().saturating_add(more) > self.most {
            self.bytes = None;
            return;
        }
        bytes.push(kind);
        parts.into_iter().for_each(|part| bytes.extend_from_slice(part));
    }

    /// A key has another value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.add(PUT, [&(key.len() as u64).to_le_bytes(), &(value.len() as u64).to_le_bytes(), key, value]);
    }

    /// A key is gone.
    pub fn remove(&mut self, key: &[u8]) {
        self.add(REMOVE, [&(key.len() as u64).to_le_bytes(), key, &[], &[]]);
    }

    /// A namespace takes `used` bytes.
    pub fn used(&mut self, namespace: u64, used: u64) {
        self.add(USED, [&namespace.to_le_bytes(), &used.to_le_bytes(), &[], &[]]);
    }

    /// There is a change that the log cannot have.
    pub fn exclude(&mut self) {
        self.bytes = None;
    }

    /// The changes, if the log can have them.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.bytes
    }
}

/// Changes of the log that were not done again, because a block of what they change is damaged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The generation of the log that follows. The same changes are read again until a commit is durable, and have the same one.
    pub generation: u64,
    /// The name of its namespace.
    pub namespace: String,
    /// The number of the block.
    pub block: u64,
}

/// A change, by its number from 1 on in the log, and its namespace. The number 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub number: u64,
    pub namespace: u64,
}

/// Does the changes again, except those whose numbers are in `without`. If it fails, `at` is the change that failed.
///
/// # Errors
/// They are none that this version writes, or the blocks fail.
pub(crate) fn replay(
    write: &WriteTransaction,
    trees: &Trees,
    changes: &[u8],
    without: &BTreeMap<u64, (u64, u64)>,
    at: &mut Place,
) -> Result<(), StoreError> {
    let (mut rest, mut number) = (changes, 0_u64);
    while !rest.is_empty() {
        let (change, others) = Change::parse(rest).ok_or_else(|| {
            StoreError::Format("its log has a change that this version of capOS does not know".into())
        })?;
        number = number.saturating_add(1);
        if !without.contains_key(&number) {
            *at = Place { number, namespace: change.namespace() };
            replay_one(write, trees, &change)?;
            *at = Place::default();
        }
        rest = others;
    }
    Ok(())
}

fn replay_one(write: &WriteTransaction, trees: &Trees, change: &Change<'_>) -> Result<(), StoreError> {
    match *change {
        Change::Put(namespace, key, value) => {
            let tree = trees.of(namespace);
            drop(write.open_table(tree.table()).map_err(database)?.insert(key, value).map_err(database)?);
        }
        Change::Remove(namespace, key) => {
            let tree = trees.of(namespace);
            drop(write.open_table(tree.table()).map_err(database)?.remove(key).map_err(database)?);
        }
        Change::Used(namespace, used) => {
            let mut table = write.open_table(NAMESPACES).map_err(database)?;
            set_used(&mut table, namespace, used)?;
        }
    }
    Ok(())
}

fn set_used(table: &mut Table<'_, u64, (&'static str, u64, u64)>, namespace: u64, used: u64) -> Result<(), StoreError> {
    let found = table.get(namespace).map_err(database)?.map(|found| {
        let (name, limit, _) = found.value();
        (String::from(name), limit)
    });
    if let Some((name, limit)) = found {
        drop(table.insert(namespace, (name.as_str(), limit, used)).map_err(database)?);
    }
    Ok(())
}

/// A change in the log. The first 8 bytes of a key are the number of its namespace.
enum Change<'c> {
    Put(u64, &'c [u8], &'c [u8]),
    Remove(u64, &'c [u8]),
    Used(u64, u64),
}

impl<'c> Change<'c> {
    fn namespace(&self) -> u64 {
        let (Self::Put(namespace, ..) | Self::Remove(namespace, _) | Self::Used(namespace, _)) = *self;
        namespace
    }

    /// The first change and the rest; none if the bytes begin with no change.
    fn parse(changes: &'c [u8]) -> Option<(Self, &'c [u8])> {
        let (kind, rest) = changes.split_first()?;
        let (first, rest) = number(rest)?;
        match *kind {
            PUT => {
                let (length, rest) = number(rest)?;
                let (key, rest) = rest.split_at_checked(usize::try_from(first).ok()?)?;
                let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                Some((Self::Put(namespace(key)?, key, value), rest))
            }
            REMOVE => {
                let (key, rest) = rest.split_at_checked(usize::try_from(first).ok()?)?;
                Some((Self::Remove(namespace(key)?, key), rest))
            }
            USED => {
                let (used, rest) = number(rest)?;
                Some((Self::Used(first, used), rest))
            }
            _ => None,
        }
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (u64::from_le_bytes(*number), rest))
}

fn namespace(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|number| u64::from_be_bytes(*number))
}

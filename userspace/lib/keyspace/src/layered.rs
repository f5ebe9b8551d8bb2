//! Changes in memory over a keyspace that cannot be written for now.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::iter::Peekable;

use capos_schema::store::{Change, ChangeKind};

use crate::{Batch, Durability, Entries, Entry, Fault, Info, Keyspace, Range};

/// Bytes of entries in one answer.
const ANSWER: usize = 512 << 10;

/// A keyspace whose commits can be held in memory, where reads find them, until the keyspace below takes them.
///
/// Clones are the same one. Only one task commits, holds or releases at a time; others may read meanwhile.
#[derive(Clone, Debug)]
pub struct Layered<K> {
    below: K,
    layer: Rc<RefCell<Option<Layer>>>,
}

/// Where the last change of a key is: the number of its batch, and its place there.
type At = (u64, usize);

#[derive(Debug, Default)]
struct Layer {
    /// The number of the first batch that is still here. What earlier ones changed is below.
    first: u64,
    batches: VecDeque<Rc<Batch>>,
    keys: BTreeMap<String, BTreeMap<Vec<u8>, At>>,
}

/// A change of the layer: its batch, and its place there.
#[derive(Clone, Debug)]
struct Held(Rc<Batch>, usize);

impl Held {
    /// The key's value; none if it was removed.
    fn value(&self) -> Option<&[u8]> {
        let change = self.0.changes().get(self.1)?;
        (change.kind == ChangeKind::Put).then_some(change.value.as_slice())
    }
}

impl Layer {
    fn at(&self, (number, place): At) -> Option<Held> {
        let batch = self.batches.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        Some(Held(batch.clone(), place))
    }

    fn get(&self, table: &str, key: &[u8]) -> Option<Held> {
        self.at(*self.keys.get(table)?.get(key)?)
    }

    /// The changed keys of a range, in its order.
    fn range(&self, range: Range<'_>) -> VecDeque<(Vec<u8>, Held)> {
        let within = |key: &[u8]| key >= range.from && (range.to.is_empty() || key < range.to);
        let keys = self.keys.get(range.table).into_iter().flatten();
        let found = keys.filter(|(key, _)| within(key)).filter_map(|(key, at)| Some((key.clone(), self.at(*at)?)));
        if range.reverse { found.rev().collect() } else { found.collect() }
    }
}

/// Where the next page begins.
fn rest<'a>(range: Range<'a>, last: &'a mut Vec<u8>) -> Range<'a> {
    if range.reverse {
        return Range { to: last, ..range };
    }
    last.push(0);
    Range { from: last, ..range }
}

impl<K: Keyspace> Layered<K> {
    /// A keyspace of which nothing is held.
    pub fn new(below: K) -> Self {
        Self { below, layer: Rc::default() }
    }

    /// Holds commits from now on.
    pub fn hold(&self) {
        self.layer.borrow_mut().get_or_insert_default();
    }

    /// Whether commits are held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.layer.borrow().is_some()
    }

    /// Commits to the keyspace below what is held, in its order, and holds nothing from then on.
    ///
    /// # Errors
    /// The keyspace below does not take it. The rest is still held.
    pub async fn release(&self) -> Result<(), Fault> {
        let next = || self.layer.borrow().as_ref().and_then(|layer| layer.batches.front().cloned());
        while let Some(batch) = next() {
            self.below.commit(&batch, Durability::Now).await?;
            if let Some(layer) = self.layer.borrow_mut().as_mut() {
                layer.batches.pop_front();
                layer.first = layer.first.saturating_add(1);
            }
        }
        *self.layer.borrow_mut() = None;
        Ok(())
    }

    /// What the keyspace below answers; nothing if it cannot even be made.
    fn lenient<T>(&self, answer: Result<T, Fault>, none: T) -> Result<T, Fault> {
        match answer {
            Err(Fault::ReadOnly(_)) if self.is_held() => Ok(none),
            answer => answer,
        }
    }

    /// A page of a range. It may be empty although there are more.
    async fn page(&self, range: Range<'_>) -> Result<(Entries, Option<Vec<u8>>), Fault> {
        // What is held comes first: it may be released meanwhile, and is in both then.
        let held = self.layer.borrow().as_ref().map(|layer| layer.range(range)).unwrap_or_default();
        let below = self.lenient(self.below.range(range).await, Entries::default())?;
        let last = below.entries.last().map(|(key, _)| key.clone()).filter(|_| below.more);
        if held.is_empty() {
            return Ok((below, last));
        }
        let comes_before = |one: &[u8], other: &[u8]| if range.reverse { one > other } else { one < other };
        let known = |key: &[u8]| last.as_ref().is_none_or(|last| !comes_before(last, key));
        let mut held = held.into_iter().filter(|(key, _)| known(key)).peekable();
        let mut below_entries = below.entries.into_iter().peekable();
        let (mut entries, mut bytes) = (Vec::new(), 0_usize);
        let most = usize::try_from(range.most).unwrap_or(usize::MAX);
        while let Some((key, value)) = merged(&mut held, &mut below_entries, comes_before) {
            let Some(value) = value else { continue };
            let value = if range.keys_only { Vec::new() } else { value };
            bytes = [key.len(), value.len(), 32].into_iter().fold(bytes, usize::saturating_add);
            if entries.len() >= most || (bytes > ANSWER && !entries.is_empty()) {
                return Ok((Entries { entries, more: true }, None));
            }
            entries.push((key, value));
        }
        Ok((Entries { entries, more: below.more }, last))
    }
}

/// The next entry of both: what is held replaces what is below, and has no value if it was removed.
fn merged(
    held: &mut Peekable<impl Iterator<Item = (Vec<u8>, Held)>>,
    below: &mut Peekable<impl Iterator<Item = Entry>>,
    comes_before: impl Fn(&[u8], &[u8]) -> bool,
) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    match (held.peek(), below.peek()) {
        (Some((key, _)), Some((other, _))) if comes_before(other, key) => {}
        (Some((key, _)), other) => {
            let replaced = other.is_some_and(|(other, _)| other == key);
            if replaced {
                below.next();
            }
            let (key, held) = held.next()?;
            return Some((key, held.value().map(<[u8]>::to_vec)));
        }
        (None, _) => {}
    }
    below.next().map(|(key, value)| (key, Some(value)))
}

impl<K: Keyspace> Keyspace for Layered<K> {
    /// Limit and use are those of the keyspace below.
    async fn info(&self) -> Result<Info, Fault> {
        let none = Info { limit: 0, used: 0, version: 1, lasting: true, read_only: true, asides: 0 };
        self.lenient(self.below.info().await, none)
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let held = self.layer.borrow().as_ref().and_then(|layer| layer.get(table, key));
        match held {
            Some(held) => Ok(held.value().map(<[u8]>::to_vec)),
            None => self.lenient(self.below.get(table, key).await, None),
        }
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        let (mut found, mut last) = self.page(range).await?;
        while found.entries.is_empty() && found.more {
            let Some(mut from) = last else { break };
            (found, last) = self.page(rest(range, &mut from)).await?;
        }
        Ok(found)
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        if !self.is_held() {
            return self.below.commit(batch, durability).await;
        }
        if batch.changes().iter().any(|change| change.kind == ChangeKind::Count) {
            return Err(Fault::Invalid("what the keyspace below counts cannot be held".into()));
        }
        let mut changed: Vec<(&str, Vec<u8>, usize)> = Vec::new();
        for (place, Change { table, kind, key, value }) in batch.changes().iter().enumerate() {
            if *kind != ChangeKind::RemoveRange {
                changed.push((table, key.clone(), place));
                continue;
            }
            let within = |other: &[u8]| other >= &key[..] && (value.is_empty() || other < &value[..]);
            let earlier: Vec<Vec<u8>> = changed
                .iter()
                .filter(|(other, key, _)| *other == table && within(key))
                .map(|(_, key, _)| key.clone())
                .collect();
            changed.extend(earlier.into_iter().map(|key| (table.as_str(), key, place)));
            let mut from = key.clone();
            loop {
                let all = Range { from: &from, to: value, keys_only: true, ..Range::all(table) };
                let Entries { entries, more } = self.range(all).await?;
                let Some((last, _)) = entries.last().cloned() else { break };
                changed.extend(entries.into_iter().map(|(key, _)| (table.as_str(), key, place)));
                if !more {
                    break;
                }
                from = last;
                from.push(0);
            }
        }
        if let Some(layer) = self.layer.borrow_mut().as_mut() {
            let number = layer.first.saturating_add(layer.batches.len() as u64);
            for (table, key, place) in changed {
                if !layer.keys.contains_key(table) {
                    layer.keys.insert(table.into(), BTreeMap::new());
                }
                if let Some(keys) = layer.keys.get_mut(table) {
                    keys.insert(key, (number, place));
                }
            }
            layer.batches.push_back(Rc::new(batch.clone()));
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), Fault> {
        if self.is_held() { Ok(()) } else { self.below.sync().await }
    }

    async fn set_aside(&self) -> Result<u32, Fault> {
        if self.is_held() {
            return Err(Fault::ReadOnly("what is held in memory cannot be set aside".into()));
        }
        self.below.set_aside().await
    }
}

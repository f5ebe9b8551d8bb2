//! Helpers of the tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "not every test uses all of them, and helpers may fail the test"
)]

pub mod steps;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use capos_files::{Files, Report};
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_schema::store::{Change, ChangeKind};
use capos_store::{MemoryBlocks, Store};
use capos_tree::suite::done;

/// A keyspace in memory.
pub fn keyspace(limit: u64) -> LocalKeyspace<MemoryBlocks> {
    let store = Store::open(MemoryBlocks::new(1 << 20)).unwrap();
    LocalKeyspace::new(Rc::new(RefCell::new(store)), "home", limit).unwrap()
}

/// The report of a tree that must be whole.
pub fn whole<K: Keyspace>(files: &Files<K>) -> Report {
    let report = done(files.check()).unwrap();
    assert!(report.problems.is_empty(), "{report:#?}");
    report
}

/// A keyspace that counts what it is asked, and can be the store that ends.
#[derive(Debug)]
pub struct Counting<K> {
    pub space: K,
    pub calls: Cell<u64>,
    /// Entries in answers, and changes of commits.
    pub entries: Cell<u64>,
    pub commits: Cell<u64>,
    pub syncs: Cell<u64>,
    /// Chunks of files that were read.
    pub chunks: Cell<u64>,
    /// Calls until the store ends once; before that call does anything, or after it did.
    pub ends: Cell<Option<(u64, bool)>>,
    pub read_only: Cell<bool>,
}

impl<K> Counting<K> {
    pub fn new(space: K) -> Self {
        let zero = || Cell::new(0);
        Self {
            space,
            calls: zero(),
            entries: zero(),
            commits: zero(),
            syncs: zero(),
            chunks: zero(),
            ends: Cell::new(None),
            read_only: Cell::new(false),
        }
    }

    /// Calls, entries and commits since the last look.
    pub fn take(&self) -> (u64, u64, u64) {
        (self.calls.take(), self.entries.take(), self.commits.take())
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.calls.set(self.calls.get() + 1);
        let lost = || Err(Fault::Lost("the store has ended".into()));
        match self.ends.get() {
            Some((0, after)) => {
                self.ends.set(None);
                if after {
                    call.await?;
                }
                lost()
            }
            Some((left, after)) => {
                self.ends.set(Some((left - 1, after)));
                call.await
            }
            None => call.await,
        }
    }
}

impl<K: Keyspace> Keyspace for &Counting<K> {
    async fn info(&self) -> Result<Info, Fault> {
        Ok(Info { read_only: self.read_only.get(), ..self.call(self.space.info()).await? })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.entries.set(self.entries.get() + 1);
        self.chunks.set(self.chunks.get() + u64::from(table == "content"));
        self.call(self.space.get(table, key)).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        let found = self.call(self.space.range(range)).await?;
        self.entries.set(self.entries.get() + found.entries.len() as u64);
        if range.table == "content" {
            self.chunks.set(self.chunks.get() + found.entries.len() as u64);
        }
        Ok(found)
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        if self.read_only.get() {
            return Err(Fault::ReadOnly("the volume is open for reading alone".into()));
        }
        self.commits.set(self.commits.get() + 1);
        self.entries.set(self.entries.get() + batch.changes().len() as u64);
        self.call(self.space.commit(batch, durability)).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.syncs.set(self.syncs.get() + 1);
        self.call(self.space.sync()).await
    }
}

/// Table and key of an entry.
type Place = (String, Vec<u8>);

/// A keyspace that is a map: for many entries, where only what is asked of it counts.
#[derive(Debug, Default)]
pub struct Map(RefCell<BTreeMap<Place, Vec<u8>>>);

impl Map {
    fn bounds(table: &str, from: &[u8], to: &[u8]) -> (Bound<Place>, Bound<Place>) {
        let key = |key: &[u8]| (String::from(table), key.to_vec());
        let end = if to.is_empty() { (format!("{table}\0"), Vec::new()) } else { key(to) };
        (Bound::Included(key(from)), Bound::Excluded(end))
    }
}

impl Keyspace for Map {
    async fn info(&self) -> Result<Info, Fault> {
        Ok(Info { limit: u64::MAX, used: 0, version: 0, lasting: false, read_only: false, asides: 0 })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.0.borrow().get(&(String::from(table), key.to_vec())).cloned())
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        assert!(!range.reverse && !range.keys_only);
        let map = self.0.borrow();
        let mut found = map.range(Self::bounds(range.table, range.from, range.to));
        let entries = found.by_ref().take(range.most as usize).map(|((_, key), value)| (key.clone(), value.clone()));
        Ok(Entries { entries: entries.collect(), more: found.next().is_some() })
    }

    async fn commit(&self, batch: &Batch, _durability: Durability) -> Result<(), Fault> {
        let mut map = self.0.borrow_mut();
        let mut grown = 0_u64;
        for Change { table, kind, key, value } in batch.changes() {
            let place = (table.clone(), key.clone());
            let cost = |key: &[u8], value: Vec<u8>| self.cost(table, key, &value);
            match kind {
                ChangeKind::Put => {
                    grown = grown.wrapping_add(self.cost(table, key, value));
                    let old = map.insert(place, value.clone());
                    grown = grown.wrapping_sub(old.map_or(0, |old| cost(key, old)));
                }
                ChangeKind::Remove => {
                    let old = map.remove(&place);
                    grown = grown.wrapping_sub(old.map_or(0, |old| cost(key, old)));
                }
                ChangeKind::RemoveRange => {
                    let keys: Vec<_> = map.range(Self::bounds(table, key, value)).map(|(key, _)| key.clone()).collect();
                    for place in keys {
                        let old = map.remove(&place);
                        grown = grown.wrapping_sub(old.map_or(0, |old| cost(&place.1, old)));
                    }
                }
                ChangeKind::Count => {
                    let old = map.get(&place).map_or(0, |old| u64::from_le_bytes(old.as_slice().try_into().unwrap()));
                    map.insert(place, old.wrapping_add(grown).to_le_bytes().to_vec());
                    grown = 0;
                }
            }
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }
}

//! A chain in memory and one in tables, which are given the same and must answer the same.

#![allow(dead_code, clippy::panic, clippy::unwrap_used, reason = "each test uses a part, and may fail")]

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capos_audit::{AppendError, Filter, Head, Page, Record, Room, Stored, Verified};
use capos_keyspace::local::LocalKeyspace;
use capos_schema::audit::{GeneralEvent, ToolEvent};
use capos_store::{MemoryBlocks, Store};

pub type Space = LocalKeyspace<MemoryBlocks>;

/// What a future gives that never waits.
pub fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

/// A namespace in memory that may take this many bytes.
pub fn space(limit: u64) -> Space {
    let store = Store::open(MemoryBlocks::new(1 << 14)).unwrap();
    LocalKeyspace::new(Rc::new(RefCell::new(store)), "audit", limit).unwrap()
}

/// Bytes that a namespace has in addition to what its records may take.
pub const APART: u64 = 512 << 10;

pub struct Chain {
    memory: capos_audit::Chain,
    stored: Stored<Space>,
    space: Space,
    room: Room,
    appended: u64,
}

impl Chain {
    pub fn new(limit: usize) -> Self {
        Self::with(capos_audit::Chain::new(limit), Room::Alone(limit), limit)
    }

    pub fn shared(limit: usize) -> Self {
        // Of a store that lasts, the namespace bounds it.
        Self::with(capos_audit::Chain::shared(limit), Room::Shared(0), limit)
    }

    fn with(memory: capos_audit::Chain, room: Room, limit: usize) -> Self {
        let space = space(limit as u64 + APART);
        Self { memory, stored: Stored::new(space.clone(), room), space, room, appended: 0 }
    }

    pub fn append_tool(&mut self, time: u64, event: ToolEvent) -> Result<Head, AppendError> {
        self.next();
        let stored = done(self.stored.append_tool(time, event.clone()));
        self.same(stored, |memory| memory.append_tool(time, event))
    }

    pub fn append_general(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        self.next();
        let stored = done(self.stored.append_general(time, event.clone()));
        self.same(stored, |memory| memory.append_general(time, event))
    }

    /// Every other record is appended to a chain that has just been opened.
    fn next(&mut self) {
        self.appended += 1;
        if self.appended.is_multiple_of(2) {
            self.stored = Stored::new(self.space.clone(), self.room);
            done(self.stored.open()).unwrap();
        }
    }

    fn same<T: PartialEq + Debug>(&mut self, stored: T, append: impl FnOnce(&mut capos_audit::Chain) -> T) -> T {
        assert_eq!(append(&mut self.memory), stored);
        assert_eq!(self.stored.usage(), Some(self.memory.usage()));
        assert!(self.stored.open_effects().eq(self.memory.open()));
        stored
    }

    pub fn head(&self) -> Head {
        assert_eq!(done(self.stored.reader().head()).unwrap(), self.memory.head());
        self.memory.head()
    }

    pub fn usage(&self) -> (usize, usize) {
        self.memory.usage()
    }

    pub fn open(&self) -> impl Iterator<Item = u64> + '_ {
        self.memory.open()
    }

    pub fn get(&self, sequence: u64) -> Option<&Record> {
        let record = self.memory.get(sequence);
        assert_eq!(done(self.stored.reader().line(sequence)).unwrap(), record.map(Record::line));
        record
    }

    pub fn records(&self) -> &[Record] {
        let whole = done(self.stored.reader().query(&Filter::default(), usize::MAX, usize::MAX)).unwrap();
        let lines = self.memory.records().iter().map(Record::line).collect();
        assert_eq!(whole, Page { lines, next: 0 });
        self.memory.records()
    }

    pub fn query(&self, filter: &Filter, max: usize) -> (Vec<&Record>, u64) {
        let found = self.memory.query(filter, max);
        let stored = done(self.stored.reader().query(filter, max, usize::MAX)).unwrap();
        assert_eq!(stored, Page { lines: found.0.iter().map(|record| record.line()).collect(), next: found.1 });
        found
    }

    /// Checks it where it is stored.
    pub fn verify(&self) {
        let Verified { head, checked, .. } = done(self.stored.reader().verify(|_, _| {})).unwrap();
        assert_eq!((head, checked.unwrap().head), (self.memory.head(), self.memory.head()));
    }

    pub fn space(&self) -> &Space {
        &self.space
    }
}

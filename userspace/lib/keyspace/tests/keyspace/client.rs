//! A namespace behind a capability: it is the keyspace that serves it, and each fault that it answers is told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use capos_keyspace::local::{self, LocalKeyspace};
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, MAX_BATCH, MAX_KEY, MAX_VALUE, Range, Within};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::local::{Local, run};
use capos_schema::store::{
    Change, KeyValue, NamespaceClient, NamespaceCommitResults, NamespaceGetResults, NamespaceInfo,
    NamespaceInfoResults, NamespaceProtectResults, NamespaceRangeResults, NamespaceServer, NamespaceSetAsideResults,
    NamespaceSyncResults, StoreFault,
};
use capos_store::{BlockError, MemoryBlocks, Store, StoreError};

fn done<T>(future: impl Future<Output = T>) -> T {
    run(future).unwrap_or_else(|| panic!("a store in the same process answers at once"))
}

type Space = LocalKeyspace<MemoryBlocks>;

fn space() -> Space {
    let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(2048)).unwrap()));
    LocalKeyspace::new(store, "a", 4 << 20).unwrap()
}

/// What is there after a crash.
fn crashed(space: &Space) -> Space {
    let blocks = space.store().borrow().with_blocks(MemoryBlocks::after_crash);
    LocalKeyspace::new(Rc::new(RefCell::new(Store::open(blocks).unwrap())), "a", 4 << 20).unwrap()
}

/// Serves a keyspace, or answers a fault.
struct Served {
    space: Space,
    fault: Rc<Cell<StoreFault>>,
}

const WHY: &str = "the reason";

impl Served {
    fn answer<T>(&self, done: Result<T, Fault>) -> Result<T, (StoreFault, String)> {
        match self.fault.get() {
            StoreFault::None => done.map_err(|fault| (fault.answer().unwrap(), fault.to_string())),
            fault => Err((fault, WHY.into())),
        }
    }
}

impl NamespaceServer for Served {
    async fn protect(
        &self,
        _cx: &CallContext,
        _part: String,
        _owner: String,
        _tables: Vec<String>,
        _named: Vec<String>,
    ) -> Result<NamespaceProtectResults, CallError> {
        Err(CallError::unimplemented("nothing is sealed here"))
    }

    async fn info(&self, _: &CallContext) -> Result<NamespaceInfoResults, CallError> {
        let answer = self.answer(self.space.info().await);
        let none = NamespaceInfoResults::default();
        Ok(answer.map_or_else(
            |(fault, why)| NamespaceInfoResults { fault, why, ..none.clone() },
            |Info { limit, used, version, lasting, read_only, asides }| NamespaceInfoResults {
                info: NamespaceInfo { limit, used, version, lasting, read_only, asides },
                ..none.clone()
            },
        ))
    }

    async fn get(&self, _: &CallContext, table: String, key: Vec<u8>) -> Result<NamespaceGetResults, CallError> {
        let none = NamespaceGetResults::default();
        Ok(match self.answer(self.space.get(&table, &key).await) {
            Ok(Some(value)) => NamespaceGetResults { found: true, value, ..none },
            Ok(None) => none,
            Err((fault, why)) => NamespaceGetResults { fault, why, ..none },
        })
    }

    async fn range(
        &self,
        _: &CallContext,
        table: String,
        from: Vec<u8>,
        to: Vec<u8>,
        reverse: bool,
        most: u32,
        keys_only: bool,
    ) -> Result<NamespaceRangeResults, CallError> {
        let none = NamespaceRangeResults::default();
        let range = Range { table: &table, from: &from, to: &to, reverse, most, keys_only };
        Ok(match self.answer(self.space.range(range).await) {
            Ok(Entries { entries, more }) => {
                let entries = entries.into_iter().map(|(key, value)| KeyValue { key, value }).collect();
                NamespaceRangeResults { entries, more, ..none }
            }
            Err((fault, why)) => NamespaceRangeResults { fault, why, ..none },
        })
    }

    async fn commit(
        &self,
        _: &CallContext,
        changes: Vec<Change>,
        durable: bool,
        based: u64,
    ) -> Result<NamespaceCommitResults, CallError> {
        assert_eq!(based, 0, "a batch is based on no version");
        let (store, durability) = (self.space.store(), if durable { Durability::Now } else { Durability::Later });
        let none = NamespaceCommitResults::default();
        let namespace = store.borrow().namespace("a").unwrap();
        let commit = || local::commit(&mut store.borrow_mut(), namespace, &changes, durability);
        let answer = if self.fault.get() == StoreFault::None { commit() } else { Ok(()) };
        Ok(match self.answer(answer) {
            Ok(()) => none,
            Err((fault, why)) => NamespaceCommitResults { fault, why, ..none },
        })
    }

    async fn sync(&self, _: &CallContext) -> Result<NamespaceSyncResults, CallError> {
        let answer = if self.fault.get() == StoreFault::None { self.space.sync().await } else { Ok(()) };
        Ok(match self.answer(answer) {
            Ok(()) => NamespaceSyncResults::default(),
            Err((fault, why)) => NamespaceSyncResults { fault, why },
        })
    }

    async fn set_aside(&self, _: &CallContext) -> Result<NamespaceSetAsideResults, CallError> {
        Ok(match self.answer(self.space.set_aside().await) {
            Ok(number) => NamespaceSetAsideResults { number, ..NamespaceSetAsideResults::default() },
            Err((fault, why)) => NamespaceSetAsideResults { fault, why, ..NamespaceSetAsideResults::default() },
        })
    }

    async fn opened(&self, _: &CallContext) -> Result<bool, CallError> {
        Ok(true)
    }

    async fn watch(&self, _: &CallContext) -> Result<(), CallError> {
        std::future::pending().await
    }
}

fn client() -> (Space, NamespaceClient, Rc<Cell<StoreFault>>) {
    let (space, fault) = (space(), Rc::new(Cell::new(StoreFault::None)));
    let served = Served { space: space.clone(), fault: fault.clone() };
    (space, NamespaceClient::serve(&Local::default(), Rc::new(served)).unwrap(), fault)
}

/// Reads through the keyspace, whatever it is a client of.
fn get(space: &impl Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    done(space.get("t", key)).unwrap()
}

fn put(space: &impl Keyspace, key: &[u8], value: &[u8], durability: Durability) -> Result<(), Fault> {
    done(space.commit(Batch::new().put("t", key, value), durability))
}

#[test]
fn a_client_reads_and_writes_the_keyspace_that_serves_it() {
    let (space, client, _) = client();
    for key in 0..9_u8 {
        put(&client, &[key], &[key; 3], Durability::Now).unwrap();
    }
    assert_eq!((get(&client, &[4]), get(&client, &[9])), (Some(vec![4; 3]), None));
    for range in [
        Range::all("t"),
        Range { from: &[2], to: &[7], ..Range::all("t") },
        Range { reverse: true, most: 3, ..Range::all("t") },
        Range { keys_only: true, ..Range::all("t") },
        Range::all("other"),
    ] {
        assert_eq!(done(Keyspace::range(&client, range)), done(space.range(range)), "{range:?}");
    }
    assert_eq!(done(Keyspace::info(&client)), done(space.info()));
}

/// What is committed for later is gone after a crash, unless it was synced.
fn lasts(below: &Space, space: &impl Keyspace, read: impl Fn(&Space) -> Option<Vec<u8>>) {
    put(space, b"k", b"now", Durability::Now).unwrap();
    put(space, b"k", b"later", Durability::Later).unwrap();
    assert_eq!(get(space, b"k").unwrap(), b"later");
    assert_eq!(read(&crashed(below)).unwrap(), b"now");
    done(space.sync()).unwrap();
    assert_eq!(read(&crashed(below)).unwrap(), b"later");
}

#[test]
fn a_sync_makes_earlier_commits_durable() {
    let below = space();
    lasts(&below, &below, |space| get(space, b"k"));
    let (below, client, _) = client();
    lasts(&below, &client, |space| get(space, b"k"));
    let below = space();
    lasts(&below, &Within::new(below.clone(), "p/".into()), |space| done(space.get("p/t", b"k")).unwrap());
}

#[test]
fn each_fault_of_an_answer_is_told() {
    let (_, client, answered) = client();
    for fault in [
        StoreFault::Locked,
        StoreFault::Full,
        StoreFault::Quota,
        StoreFault::ReadOnly,
        StoreFault::Damaged,
        StoreFault::Medium,
        StoreFault::Lost,
        StoreFault::Changed,
    ] {
        answered.set(fault);
        let faults = [
            done(Keyspace::info(&client)).unwrap_err(),
            done(Keyspace::get(&client, "t", b"k")).unwrap_err(),
            done(Keyspace::range(&client, Range::all("t"))).unwrap_err(),
            put(&client, b"k", b"v", Durability::Now).unwrap_err(),
            done(Keyspace::sync(&client)).unwrap_err(),
        ];
        // Nothing that is held here is based on a version that could have changed.
        let same = if fault == StoreFault::Changed { None } else { Some(fault) };
        let says = if fault == StoreFault::Locked { "the data volume is locked; log in to open it" } else { WHY };
        for told in faults {
            assert_eq!((told.answer(), told.to_string().as_str()), (same, says), "{fault:?}");
        }
    }
}

#[test]
fn a_failure_of_the_store_is_told_as_what_it_is() {
    let length = StoreError::Length { what: "key", bytes: 0, most: 1 };
    for (error, answer) in [
        (StoreError::Blocks(BlockError::Damaged { block: 7, unreadable: false }), Some(StoreFault::Damaged)),
        (StoreError::Blocks(BlockError::Medium("it is gone".into())), Some(StoreFault::Medium)),
        (StoreError::Blocks(BlockError::Full), Some(StoreFault::Full)),
        (StoreError::Full { capacity: 1, needed: 2 }, Some(StoreFault::Full)),
        (StoreError::Quota { name: "a".into(), limit: 1, needed: 2 }, Some(StoreFault::Quota)),
        (length, None),
        (StoreError::Exists("a".into()), None),
        (StoreError::Database("it is confused".into()), Some(StoreFault::Medium)),
    ] {
        let says = error.to_string();
        let fault = Fault::from(error);
        assert_eq!((fault.answer(), fault.to_string()), (answer, says));
    }
}

#[test]
fn keys_values_and_batches_have_a_length_at_most() {
    let space = space();
    let fits = |batch: &Batch| match done(space.commit(batch, Durability::Now)) {
        Ok(()) => true,
        Err(Fault::Invalid(_)) => false,
        Err(other) => panic!("{other}"),
    };
    for more in [0, 1, 2, 1000] {
        assert_eq!(fits(Batch::new().put("t", &vec![1; MAX_KEY + more], b"")), more == 0, "key, {more} more");
        assert_eq!(fits(Batch::new().put("t", b"k", &vec![1; MAX_VALUE + more])), more == 0, "value, {more} more");
        // What the batch counts is what it is judged by: with what is left for a last value it is as long as it may be.
        let mut batch = Batch::new();
        assert!(batch.is_empty() && batch.bytes() == 0);
        batch.put("table", b"k", &[1; MAX_VALUE]).remove("t", b"key").remove_range("t", b"a", b"b");
        let left = MAX_BATCH - batch.bytes() - Batch::new().put("t", b"k", b"").bytes();
        batch.put("t", b"k", &vec![1; left + more]);
        assert!(!batch.is_empty() && batch.bytes() == MAX_BATCH + more);
        assert_eq!(fits(&batch), more == 0, "batch, {more} more");
    }
}

#[test]
fn a_count_bounds_growth_alone() {
    let space = space();
    let counted = |value: &[u8]| {
        let mut batch = Batch::new();
        batch.put("t", b"k", value).count("n", b"k", Some(1));
        done(space.commit(&batch, Durability::Now))
    };
    put(&space, b"k", b"12345", Durability::Now).unwrap();
    done(space.commit(Batch::new().put("n", b"k", &9_u64.to_le_bytes()), Durability::Now)).unwrap();
    // More than the bound is taken already: what takes the same, or less, is done.
    counted(b"54321").unwrap();
    counted(b"1").unwrap();
    assert!(matches!(counted(b"1234567890"), Err(Fault::Quota(_))));
}

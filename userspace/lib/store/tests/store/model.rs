//! The store against maps: what is committed is there, what is not is not, whatever fails and whenever the machine stops.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_store::*;
use proptest::prelude::*;

const BLOCKS: u64 = 2048;
const LIMIT: u64 = 1 << 20;

/// Blocks that fail at the call with this number.
#[derive(Clone, Debug)]
struct Failing {
    blocks: MemoryBlocks,
    /// Calls that still succeed.
    left: Arc<AtomicU64>,
}

impl Failing {
    fn new() -> Self {
        Self { blocks: MemoryBlocks::new(BLOCKS), left: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    fn passes(&self) -> Result<(), BlockError> {
        let next = |left: u64| if left == u64::MAX { None } else { Some(left.saturating_sub(1)) };
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(u64::MAX);
        if left == 0 { Err(BlockError::Medium("the disk is gone".into())) } else { Ok(()) }
    }
}

impl Blocks for Failing {
    fn blocks(&self) -> u64 {
        self.blocks.blocks()
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.passes()?;
        self.blocks.read(block, out)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.passes()?;
        self.blocks.write(block, data)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        self.passes()?;
        self.blocks.sync()
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.blocks.forget()
    }
}

type Model = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn contents(store: &mut Store<impl Blocks>, namespace: Namespace, tables: &[&str]) -> Model {
    let snapshot = store.snapshot().unwrap();
    let mut all = Model::new();
    for table in tables {
        for (key, value) in snapshot.range(namespace, table, Query::from(Bound::Unbounded, usize::MAX)).unwrap().0 {
            all.insert((table.to_string(), key), value);
        }
    }
    all
}

#[derive(Clone, Debug)]
enum Step {
    Put(bool, Vec<u8>, usize),
    Remove(bool, Vec<u8>),
    Commit(bool),
    Drop,
    Sync,
    /// The machine stops, and the store is opened again.
    Crash,
    /// The call of the blocks after this many fails.
    Fail(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || proptest::collection::vec(0u8..4, 1..3);
    prop_oneof![
        6 => (any::<bool>(), key(), 0usize..9000).prop_map(|(table, key, length)| Step::Put(table, key, length)),
        3 => (any::<bool>(), key()).prop_map(|(table, key)| Step::Remove(table, key)),
        3 => any::<bool>().prop_map(Step::Commit),
        1 => Just(Step::Drop),
        1 => Just(Step::Sync),
        1 => Just(Step::Crash),
        1 => (0u64..40).prop_map(Step::Fail),
    ]
}

const TABLES: [&str; 2] = ["a", "ab"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_its_committed_entries(batches in proptest::collection::vec(proptest::collection::vec(step(), 1..12), 1..8)) {
        let mut store = Store::open(Failing::new()).unwrap();
        let namespace = store.create_namespace("home", LIMIT).unwrap();
        let left = store.with_blocks(|blocks| blocks.left.clone());
        // What is durable, and what is committed.
        let (mut durable, mut committed) = (Model::new(), Model::new());
        for batch in batches {
            let mut ended = false;
            let mut pending = committed.clone();
            let mut now = None;
            let mut crash = false;
            let mut failed = false;
            match store.begin() {
                Err(_) => failed = true,
                Ok(mut write) => {
                    for step in batch {
                        let result = match step {
                            Step::Put(table, key, length) => {
                                let (table, value) = (TABLES[usize::from(table)], vec![length as u8; length]);
                                pending.insert((table.into(), key.clone()), value.clone());
                                write.put(namespace, table, &key, &value)
                            }
                            Step::Remove(table, key) => {
                                let table = TABLES[usize::from(table)];
                                let was = pending.remove(&(table.to_string(), key.clone())).is_some();
                                write.remove(namespace, table, &key).map(|removed| assert_eq!(removed, was))
                            }
                            Step::Fail(after) => { left.store(after, Ordering::Relaxed); Ok(()) }
                            Step::Commit(durably) => { now = Some(durably); ended = true; Ok(()) }
                            Step::Sync => { now = Some(true); ended = true; Ok(()) }
                            Step::Crash => { crash = true; ended = true; Ok(()) }
                            Step::Drop => { ended = true; Ok(()) }
                        };
                        if result.is_err() {
                            failed = true;
                            break;
                        }
                        if ended {
                            break;
                        }
                    }
                    match (failed, now) {
                        (false, Some(durably)) => {
                            let result = write.commit(if durably { Durability::Now } else { Durability::Later });
                            if result.is_ok() {
                                committed = pending;
                                if durably {
                                    durable = committed.clone();
                                }
                            } else {
                                failed = true;
                            }
                        }
                        _ => drop(write),
                    }
                }
            }
            left.store(u64::MAX, Ordering::Relaxed);
            if failed {
                // Commits that were not durable may be gone; what was durable is there.
                committed = durable.clone();
            }
            if crash {
                let after = store.with_blocks(|blocks| blocks.blocks.after_crash());
                let left = left.clone();
                store = Store::open(Failing { blocks: after, left }).unwrap();
                committed = durable.clone();
            }
            // A failure of a step that ended nothing took back what was not durable.
            let found = contents(&mut store, namespace, &TABLES);
            if found != committed {
                prop_assert_eq!(&found, &durable);
                committed = durable.clone();
            }
            let used: u64 = found.iter().map(|((table, key), value)| (8 + 1 + table.len() + key.len() + value.len() + 32) as u64).sum();
            prop_assert_eq!(store.usage()[0].1.used, used);
        }
    }
}

#[test]
fn a_commit_needs_one_sync_and_later_ones_share_it() {
    let mut store = Store::open(MemoryBlocks::new(BLOCKS)).unwrap();
    let namespace = store.create_namespace("log", LIMIT).unwrap();
    let before = store.with_blocks(MemoryBlocks::syncs);
    for at in 0..10u8 {
        let mut write = store.begin().unwrap();
        write.put(namespace, "records", &[at], &[at; 100]).unwrap();
        write.commit(Durability::Later).unwrap();
    }
    assert_eq!(store.with_blocks(MemoryBlocks::syncs), before);
    store.sync().unwrap();
    assert_eq!(store.with_blocks(MemoryBlocks::syncs), before + 1);
    let mut opened = Store::open(store.with_blocks(MemoryBlocks::after_crash)).unwrap();
    assert_eq!(contents(&mut opened, namespace, &["records"]).len(), 10);
}

/// A snapshot reads what was committed when it was taken, or says that it cannot.
#[test]
fn a_snapshot_is_never_of_two_states() {
    let mut store = Store::open(Failing::new()).unwrap();
    let namespace = store.create_namespace("n", LIMIT).unwrap();
    let left = store.with_blocks(|blocks| blocks.left.clone());
    let put = |store: &mut Store<Failing>, value: u8| {
        let mut write = store.begin()?;
        for key in 0..50u8 {
            write.put(namespace, "t", &[key], &[value; 3000])?;
        }
        write.commit(Durability::Now)
    };
    put(&mut store, 1).unwrap();
    let snapshot = store.snapshot().unwrap();
    left.store(20, Ordering::Relaxed);
    put(&mut store, 2).unwrap_err();
    left.store(u64::MAX, Ordering::Relaxed);
    for value in 3..9 {
        put(&mut store, value).unwrap();
    }
    for key in 0..50u8 {
        match snapshot.get(namespace, "t", &[key]) {
            Ok(found) => assert_eq!(found.unwrap(), vec![1; 3000]),
            Err(error) => assert!(matches!(error, StoreError::Stale), "{error}"),
        }
    }
    assert_eq!(store.snapshot().unwrap().get(namespace, "t", &[7]).unwrap().unwrap(), [8; 3000]);
}

#[test]
fn quotas_hold_and_namespaces_are_apart() {
    let mut store = Store::open(MemoryBlocks::new(BLOCKS)).unwrap();
    let (one, two) = (store.create_namespace("one", 1000).unwrap(), store.create_namespace("two", LIMIT).unwrap());
    assert!(matches!(store.create_namespace("one", 1), Err(StoreError::Exists(_))));
    let mut write = store.begin().unwrap();
    write.put(one, "t", b"k", &[1; 800]).unwrap();
    let error = write.put(one, "t", b"l", &[1; 800]).unwrap_err();
    assert!(error.to_string().contains("quota of `one` is 1000 bytes"), "{error}");
    // The transaction continues after that, and a smaller value fits.
    write.put(one, "t", b"k", &[2; 10]).unwrap();
    write.put(one, "t", b"l", &[2; 800]).unwrap();
    write.put(two, "t", b"k", &[3; 800]).unwrap();
    write.commit(Durability::Now).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.get(one, "t", b"k").unwrap().unwrap(), [2; 10]);
    assert_eq!(snapshot.get(two, "t", b"k").unwrap().unwrap(), [3; 800]);
    store.remove_namespace(one).unwrap();
    assert_eq!(snapshot.get(one, "t", b"k").unwrap().unwrap(), [2; 10], "a snapshot stays as it is");
    assert!(store.snapshot().unwrap().get(one, "t", b"k").unwrap().is_none());
    assert!(matches!(store.begin().unwrap().put(one, "t", b"k", b"v"), Err(StoreError::Gone)));
    assert_eq!(store.snapshot().unwrap().get(two, "t", b"k").unwrap().unwrap(), [3; 800]);
    // A new namespace is none that was removed.
    assert_ne!(store.create_namespace("one", 1).unwrap(), one);
}

#[test]
fn a_full_store_says_so_and_room_can_be_made() {
    let mut store = Store::open(MemoryBlocks::new(1024)).unwrap();
    let namespace = store.create_namespace("all", u64::MAX).unwrap();
    let value = vec![7; 60_000];
    let mut count = 0u32;
    let error = loop {
        let mut write = store.begin().unwrap();
        if let Err(error) = write.put(namespace, "t", &count.to_be_bytes(), &value) {
            break error;
        }
        write.commit(Durability::Now).unwrap();
        count += 1;
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(count > 10, "{count}");
    for round in 0..200u32 {
        let mut write = store.begin().unwrap();
        assert!(write.remove(namespace, "t", &(round % count).to_be_bytes()).unwrap());
        write.commit(Durability::Now).unwrap();
        let mut write = store.begin().unwrap();
        write.put(namespace, "t", &(round % count).to_be_bytes(), &value).unwrap();
        write.commit(Durability::Now).unwrap();
    }
    let blocks = store.close().unwrap();
    let mut opened = Store::open(blocks).unwrap();
    assert_eq!(contents(&mut opened, namespace, &["t"]).len(), count as usize);
}

#[test]
fn other_contents_and_newer_formats_are_left_alone() {
    let mut blocks = MemoryBlocks::new(BLOCKS);
    blocks.write(0, &[0x55; BLOCK_BYTES]).unwrap();
    blocks.sync().unwrap();
    assert!(matches!(Store::open(blocks.clone()), Err(StoreError::Format(_))));
    assert_eq!(blocks.after_crash().syncs(), 1, "nothing was written");
    let tiny = Store::open(MemoryBlocks::new(4));
    assert!(tiny.unwrap_err().to_string().contains("no room"));
}

#[test]
fn lengths_are_bounded() {
    let mut store = Store::open(MemoryBlocks::new(BLOCKS)).unwrap();
    let namespace = store.create_namespace("n", LIMIT).unwrap();
    let mut write = store.begin().unwrap();
    assert!(write.put(namespace, "", b"k", b"v").is_err());
    assert!(write.put(namespace, &"t".repeat(65), b"k", b"v").is_err());
    assert!(write.put(namespace, "t", b"", b"v").is_err());
    assert!(write.put(namespace, "t", &[0; 1025], b"v").is_err());
    assert!(write.put(namespace, "t", b"k", &vec![0; MAX_VALUE + 1]).is_err());
    write.put(namespace, "t", &[0; 1024], &[]).unwrap();
    write.commit(Durability::Now).unwrap();
    assert!(store.create_namespace("", 1).is_err() && store.create_namespace(&"n".repeat(65), 1).is_err());
}

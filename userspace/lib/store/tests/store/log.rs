//! The log: small commits are durable by one block, and nothing but what follows the database's state is done again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_store::*;

const BLOCKS: u64 = 1024;
/// The first block of the log: it has the last 16 numbers, and blocks in memory have four numbers each.
const LOG: u64 = 4 * BLOCKS - 16;

/// Blocks that count the writes, and how often a store begins to read them.
#[derive(Clone, Debug)]
struct Counted<B> {
    blocks: B,
    writes: Arc<AtomicU64>,
    openings: Arc<AtomicU64>,
}

impl<B> Counted<B> {
    fn new(blocks: B) -> Self {
        Self { blocks, writes: Arc::default(), openings: Arc::default() }
    }
}

impl<B: Blocks> Blocks for Counted<B> {
    fn blocks(&self) -> u64 {
        self.blocks.blocks()
    }

    fn numbers(&self) -> u64 {
        self.blocks.numbers()
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.blocks.read(block, out)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.blocks.write(block, data)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        self.blocks.sync()
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.openings.fetch_add(1, Ordering::Relaxed);
        self.blocks.forget()
    }
}

fn put(store: &mut Store<impl Blocks>, key: u64, value: &[u8], durability: Durability) {
    let namespace = store.namespace("one").unwrap();
    let mut write = store.begin().unwrap();
    write.put(namespace, "t", &key.to_be_bytes(), value).unwrap();
    write.commit(durability).unwrap();
}

/// The first byte of each value, by key.
fn values(store: &mut Store<impl Blocks>) -> Vec<(u64, u8)> {
    let namespace = store.namespace("one").unwrap();
    let query = Query::from(Bound::Unbounded, usize::MAX);
    let entries = store.snapshot().unwrap().range(namespace, "t", query).unwrap().0;
    entries.iter().map(|(key, value)| (u64::from_be_bytes(*key.first_chunk().unwrap()), value[0])).collect()
}

fn used(store: &Store<impl Blocks>) -> u64 {
    store.usage()[0].1.used
}

fn new() -> Store<MemoryBlocks> {
    let mut store = Store::open(MemoryBlocks::new(BLOCKS)).unwrap();
    store.create_namespace("one", 1 << 20).unwrap();
    store
}

fn after_crash(store: &Store<MemoryBlocks>) -> Store<MemoryBlocks> {
    Store::open(store.with_blocks(MemoryBlocks::after_crash)).unwrap()
}

#[test]
fn a_small_commit_writes_one_block() {
    let blocks = Counted::new(MemoryBlocks::new(BLOCKS));
    let writes = blocks.writes.clone();
    let mut store = Store::open(blocks).unwrap();
    store.create_namespace("one", 1 << 20).unwrap();
    let before = writes.load(Ordering::Relaxed);
    for key in 0..1000 {
        put(&mut store, key, &[1; 100], Durability::Now);
    }
    let written = writes.load(Ordering::Relaxed) - before;
    // A commit takes about 160 bytes of the 65,280 of the log. Now and then two blocks change, or the database writes its state.
    assert!((1000..1150).contains(&written), "{written}");
}

#[test]
fn after_a_crash_the_log_is_done_again_as_often_as_it_takes() {
    let mut store = new();
    for key in 0..60 {
        put(&mut store, key, &[1; 300], Durability::Now);
        put(&mut store, key / 2, &[2; 10], Durability::Later);
    }
    let namespace = store.namespace("one").unwrap();
    let mut write = store.begin().unwrap();
    assert!(write.remove(namespace, "t", &7_u64.to_be_bytes()).unwrap());
    write.commit(Durability::Now).unwrap();
    let (wanted, bytes) = (values(&mut store), used(&store));
    assert_eq!(wanted.len(), 59);
    // Three starts that end before anything is synced, and one that continues.
    for _ in 0..3 {
        store = after_crash(&store);
        assert_eq!((values(&mut store), used(&store)), (wanted.clone(), bytes));
    }
    put(&mut store, 100, &[3; 10], Durability::Now);
    let mut store = after_crash(&store);
    assert_eq!(values(&mut store), [wanted, vec![(100, 3)]].concat());
}

/// A change that is no single key is one of the database alone, and so is one after it until the state is written.
#[test]
fn what_the_log_cannot_have_is_durable_with_what_follows() {
    let mut store = new();
    (0..10).for_each(|key| put(&mut store, key, &[1; 10], Durability::Now));
    let namespace = store.namespace("one").unwrap();
    let mut write = store.begin().unwrap();
    write.remove_range(namespace, "t", Bound::Included(&2_u64.to_be_bytes()), Bound::Unbounded).unwrap();
    write.commit(Durability::Later).unwrap();
    put(&mut store, 5, &[2; 10], Durability::Later);
    assert_eq!(values(&mut after_crash(&store)).len(), 10, "nothing of it is durable");
    put(&mut store, 6, &[3; 10], Durability::Now);
    assert_eq!(values(&mut after_crash(&store)), [(0, 1), (1, 1), (5, 2), (6, 3)]);
    store.set_limit(namespace, 1 << 10).unwrap();
    let (one, two) = (store.namespace("one").unwrap(), store.create_namespace("two", 1).unwrap());
    store.remove_namespace(one).unwrap();
    let left = after_crash(&store).usage();
    assert_eq!(left.iter().map(|(number, usage)| (*number, usage.limit)).collect::<Vec<_>>(), [(two, 1)]);
}

#[test]
fn what_the_database_has_is_not_done_again() {
    let mut store = new();
    for round in 0..30_u8 {
        // The log has the first value, and the last one is too large for it.
        put(&mut store, 1, &[round], Durability::Now);
        put(&mut store, 1, &[100 + round; 70_000], Durability::Now);
        store = after_crash(&store);
        assert_eq!(values(&mut store), [(1, 100 + round)]);
        put(&mut store, 1, &[200; 3], Durability::Later);
        store = after_crash(&store);
        assert_eq!(values(&mut store), [(1, 100 + round)], "it was not durable");
    }
}

#[test]
fn commits_fill_the_log_to_its_last_byte_and_empty_it() {
    for value in [1, 1500, 4037, 4080, 8117, 20_000, 40_000] {
        let mut store = new();
        for key in 0..100 {
            put(&mut store, key % 7, &vec![key as u8; value], Durability::Now);
            if key % 5 == 0 {
                store = after_crash(&store);
            }
            assert_eq!(
                values(&mut store).last().unwrap(),
                &(key.min(6), if key < 6 { key } else { key - (key + 1) % 7 } as u8)
            );
        }
        let wanted = values(&mut store);
        assert_eq!(values(&mut after_crash(&store)), wanted, "values of {value} bytes");
    }
}

#[test]
fn a_damaged_block_of_the_log_is_told_with_its_number() {
    let mut store = new();
    for key in 0..20 {
        put(&mut store, key, &[1; 1000], Durability::Now);
    }
    let image = store.with_blocks(MemoryBlocks::after_crash);
    // It has 21 kB in six blocks. The one after them is read only if the last one is full.
    for block in LOG..LOG + 6 {
        match Store::open(FaultyBlocks::new(image.clone(), block)) {
            Err(StoreError::Blocks(BlockError::Damaged { block: told, .. })) => assert_eq!(told, block),
            other => panic!("block {block}: {other:?}"),
        }
    }
    assert_eq!(values(&mut Store::open(FaultyBlocks::new(image, LOG + 6)).unwrap()).len(), 20);
}

/// A block of entries is damaged while the log has changes of two namespaces: one that loses none of its entries has all changes.
#[test]
fn a_change_of_a_damaged_part_is_left_out_and_the_others_are_done() {
    let mut store = new();
    let one = store.namespace("one").unwrap();
    let two = store.create_namespace("two", 1 << 20).unwrap();
    for namespace in [one, two] {
        let mut write = store.begin().unwrap();
        for key in 1000..1100_u64 {
            write.put(namespace, "t", &key.to_be_bytes(), &[1; 300]).unwrap();
        }
        write.commit(Durability::Now).unwrap();
    }
    let mut store = Store::open(store.close().unwrap()).unwrap();
    store.set_limit(two, 2 << 20).unwrap();
    for key in 1010..1020_u64 {
        for namespace in [one, two] {
            let mut write = store.begin().unwrap();
            write.put(namespace, "t", &key.to_be_bytes(), &[2; 300]).unwrap();
            write.commit(Durability::Now).unwrap();
        }
    }
    let image = store.with_blocks(MemoryBlocks::after_crash);
    // How many entries can be read, and how many of them are new.
    let count = |store: &mut Store<Counted<FaultyBlocks>>, namespace| {
        let mut get = |key: u64| store.read(|snapshot| snapshot.get(namespace, "t", &key.to_be_bytes())).ok();
        let found: Vec<_> = (1000..1100_u64).filter_map(&mut get).flatten().collect();
        (found.len(), found.iter().filter(|value| value[0] == 2).count())
    };
    let (mut cost, mut opened, mut left_out) = (0, 0, 0);
    for block in 2..BLOCKS {
        let blocks = Counted::new(FaultyBlocks::new(image.clone(), block));
        let openings = blocks.openings.clone();
        let Ok(mut store) = Store::open(blocks) else { continue };
        opened += 1;
        left_out += store.left_out().values().sum::<u64>();
        for lost in store.left_out().keys() {
            assert!(lost.block == block && ["one", "two"].contains(&lost.namespace.as_str()), "{lost:?}");
        }
        // One opening meets the block, one meets it again, and each change that is left out has one of its own.
        let told = store.left_out().clone();
        let took = openings.load(Ordering::Relaxed);
        assert!(took <= 2 + told.values().sum::<u64>(), "block {block}: {took} openings for {told:?}");
        let found = [one, two].map(|namespace| count(&mut store, namespace));
        // Reading the damaged block opens the store again, which leaves out the same changes.
        store.open_again().unwrap();
        assert_eq!(*store.left_out(), told, "block {block}");
        // So does the next life of the process, which is told of this one.
        let mut next = Store::open(store.abandon().unwrap()).unwrap();
        next.add_left_out(&told);
        assert_eq!(*next.left_out(), told, "block {block}");
        for (readable, new) in found {
            cost += u64::from(new < 10);
            assert!(readable < 100 || new == 10, "block {block}: an entry is an older one: {found:?}");
        }
    }
    assert!(opened > 900 && cost >= 2 && left_out >= 2, "{opened} {cost} {left_out}");
}

/// Changes that no version writes are not skipped: they may be those of a newer one.
#[test]
fn an_unknown_change_is_rejected() {
    let mut store = new();
    put(&mut store, 1, &[1; 10], Durability::Now);
    let mut image = store.with_blocks(MemoryBlocks::after_crash);
    let mut block = [0; BLOCK_BYTES];
    image.read(LOG, &mut block).unwrap();
    block[16] = 9;
    image.write(LOG, &block).unwrap();
    image.sync().unwrap();
    let error = Store::open(image).unwrap_err();
    assert!(error.to_string().contains("its log has a change that this version of capOS does not know"), "{error}");
}

/// Somebody's read meets a damaged block before the commits of others are synced: they are kept.
#[test]
fn commits_before_a_read_that_failed_are_made_durable() {
    let mut store = new();
    for key in 0..200 {
        put(&mut store, key, &[1; 3000], Durability::Now);
    }
    let image = store.close().unwrap();
    let damaged = Arc::new(AtomicU64::new(UNDAMAGED));
    let mut store =
        Store::open(FaultyBlocks { damaged: damaged.clone(), ..FaultyBlocks::new(image.clone(), UNDAMAGED) }).unwrap();
    put(&mut store, 999, &[7; 10], Durability::Now);
    put(&mut store, 1000, &[7; 10], Durability::Later);
    let namespace = store.namespace("one").unwrap();
    let is_of_entries = |block: &u64| {
        let mut data = [0; BLOCK_BYTES];
        image.clone().read(*block, &mut data).unwrap();
        data.windows(2000).any(|part| part == [1; 2000])
    };
    damaged.store((2..BLOCKS).find(is_of_entries).unwrap(), Ordering::Relaxed);
    let read = store.snapshot().unwrap().range(namespace, "t", Query::from(Bound::Unbounded, usize::MAX));
    assert!(matches!(read, Err(StoreError::Blocks(_) | StoreError::Database(_))), "{read:?}");
    damaged.store(UNDAMAGED, Ordering::Relaxed);
    store.sync().unwrap();
    assert_eq!(values(&mut store).last(), Some(&(1000, 7)));
    let mut store = Store::open(store.with_blocks(|blocks| blocks.blocks.after_crash())).unwrap();
    assert_eq!(values(&mut store).last(), Some(&(1000, 7)));
}

//! A block that is not what was written there last, and a namespace that is set aside for it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_store::*;

const CLIENTS: [&str; 4] = ["broker", "audit", "files", "other"];
const ENTRIES: u64 = 200;

/// A store with entries of several clients, closed.
fn filled() -> MemoryBlocks {
    let mut store = Store::open(MemoryBlocks::new(4096)).unwrap();
    let all = CLIENTS.map(|name| store.create_namespace(name, 2 << 20).unwrap());
    for entry in 0..ENTRIES {
        let mut write = store.begin().unwrap();
        for namespace in all {
            write.put(namespace, "records", &entry.to_be_bytes(), &[7; 300]).unwrap();
        }
        write.commit(Durability::Now).unwrap();
    }
    store.close().unwrap()
}

/// Entries of a client that can be read one by one.
fn readable(store: &mut Store<FaultyBlocks>, name: &str) -> u64 {
    let namespace = store.namespace(name).unwrap();
    let mut get = |entry: u64| store.read(|snapshot| snapshot.get(namespace, "records", &entry.to_be_bytes()));
    let mut readable = 0;
    for entry in 0..ENTRIES {
        match get(entry) {
            Ok(Some(_)) => readable += 1,
            Err(StoreError::Blocks(BlockError::Damaged { .. })) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    readable
}

/// What a block of the store is, by the names in it: the database keeps those of its tables next to their roots.
fn part(image: &MemoryBlocks, block: u64) -> &'static str {
    let mut data = [0; BLOCK_BYTES];
    image.clone().read(block, &mut data).unwrap();
    let has = |text: &str| data.windows(text.len()).any(|part| part == text.as_bytes());
    match block {
        0 => "the store's first block",
        1 => "the database's header",
        _ if block >= image.blocks() => "the log",
        _ if has("allocator_state") => "roots of the database's own tables",
        _ if has("namespaces") && has("numbers") => "roots of the store's tables",
        _ if has("next namespace") => "the store's numbers",
        _ if CLIENTS.iter().all(|client| has(client)) => "the list of namespaces",
        _ if data.windows(64).any(|part| part == [7; 64]) => "entries",
        _ => FREE,
    }
}

/// What the database knows of its pages: those that are free, and those that become free.
const FREE: &str = "the state of the database's allocator";

/// Whichever block is damaged: if the store opens, a client whose entries it has set aside continues, and the rest stays unchanged.
#[test]
fn a_namespace_goes_on_in_a_part_that_needs_no_block_of_before() {
    let image = filled();
    let used = (0..image.numbers()).filter(|block| {
        let mut data = [0; BLOCK_BYTES];
        image.clone().read(*block, &mut data).unwrap();
        data.iter().any(|byte| *byte != 0)
    });
    let (mut closed, mut set_aside, mut lost) = (Vec::new(), 0, 0);
    for block in used.collect::<Vec<_>>() {
        let damaged = Arc::new(AtomicU64::new(block));
        let rotten = FaultyBlocks { damaged: damaged.clone(), ..FaultyBlocks::new(image.clone(), UNDAMAGED) };
        let mut store = match Store::open(rotten) {
            Ok(store) => store,
            Err(StoreError::Blocks(BlockError::Damaged { block: told, .. })) => {
                assert_eq!(told, block);
                closed.push((block, part(&image, block)));
                continue;
            }
            Err(other) => panic!("block {block}: {other}"),
        };
        let before = CLIENTS.map(|name| readable(&mut store, name));
        lost += before.iter().filter(|count| **count < ENTRIES).count();
        let old = store.namespace("audit").unwrap();
        let name = format!("{ASIDE}1 audit");
        let new = match store.set_aside(old, &name) {
            Ok(new) => new,
            Err(error) => {
                println!("block {block}: {error}");
                closed.push((block, part(&image, block)));
                continue;
            }
        };
        set_aside += 1;
        for entry in 0..50_u64 {
            let mut write = store.begin().unwrap();
            write.put(new, "records", &entry.to_be_bytes(), &[9; 300]).unwrap();
            write.commit(Durability::Now).unwrap_or_else(|error| panic!("block {block}, entry {entry}: {error}"));
        }
        // A client that comes later needs nothing of before either.
        let later = store.create_namespace("later", 1 << 20).unwrap();
        let mut write = store.begin().unwrap();
        write.put(later, "t", b"k", b"v").unwrap();
        write.commit(Durability::Now).unwrap();
        // A read that fails just before the end is its reader's alone.
        drop(store.snapshot().unwrap().range(old, "records", Query::from(Bound::Unbounded, usize::MAX)));
        // After a restart everything is as it was.
        let mut store = Store::open(store.close().unwrap()).unwrap();
        assert_eq!(store.namespace("audit"), Some(new));
        let all = store.snapshot().unwrap().range(new, "records", Query::from(Bound::Unbounded, 100)).unwrap();
        assert_eq!(all.0.len(), 50, "block {block}");
        assert!(all.0.iter().all(|(_, value)| value == &[9; 300]));
        assert_eq!(store.snapshot().unwrap().get(later, "t", b"k").unwrap().unwrap(), b"v");
        let after = [&*name, CLIENTS[0], CLIENTS[2], CLIENTS[3]].map(|name| readable(&mut store, name));
        assert_eq!(after, [before[1], before[0], before[2], before[3]], "block {block}");
    }
    println!("{closed:?} close the store, {set_aside} blocks do not; a client has lost something in {lost} cases");
    assert!(set_aside > 100 && lost > 20, "{set_aside} {lost}");
    // These are the blocks that `docs/limits.md` lists: no client's entries, and one of each other kind.
    let (allocator, others): (Vec<_>, Vec<_>) =
        closed.into_iter().map(|(_, what)| what).partition(|what| *what == FREE);
    assert_eq!(
        BTreeSet::from_iter(&others),
        BTreeSet::from([
            &"the store's first block",
            &"the database's header",
            &"roots of the database's own tables",
            &"the store's numbers",
            &"the list of namespaces",
            &"roots of the store's tables",
            &"the log",
        ])
    );
    assert_eq!(others.len(), 7, "one of each, and of the empty log the first");
    assert!((1..=4).contains(&allocator.len()), "{}", allocator.len());
}

/// The error of a snapshot is its reader's alone: the database reads nothing any more after it, and is opened again for others.
#[test]
fn a_damaged_block_is_told_to_nobody_who_does_not_read_it() {
    let image = filled();
    let damaged = Arc::new(AtomicU64::new(UNDAMAGED));
    let mut told = 0;
    for block in 0..200 {
        damaged.store(UNDAMAGED, Ordering::Relaxed);
        let rotten = FaultyBlocks { damaged: damaged.clone(), ..FaultyBlocks::new(image.clone(), UNDAMAGED) };
        let mut store = Store::open(rotten).unwrap();
        let [audit, other] = ["audit", "other"].map(|name| store.namespace(name).unwrap());
        damaged.store(block, Ordering::Relaxed);
        let snapshot = store.snapshot().unwrap();
        let all = snapshot.range(audit, "records", Query::from(Bound::Unbounded, usize::MAX));
        if all.is_ok() {
            continue;
        }
        damaged.store(UNDAMAGED, Ordering::Relaxed);
        told += 1;
        assert!(store.snapshot().unwrap().get(other, "records", &0_u64.to_be_bytes()).unwrap().is_some(), "{block}");
        assert_eq!(store.losses(), 1);
    }
    assert!(told > 10, "{told}");
}

#[test]
fn what_is_set_aside_keeps_its_entries_and_its_name_is_free() {
    let mut store = Store::open(MemoryBlocks::new(4096)).unwrap();
    let one = store.create_namespace("one", 1000).unwrap();
    let mut write = store.begin().unwrap();
    write.put(one, "t", b"k", &[1; 500]).unwrap();
    write.commit(Durability::Now).unwrap();
    assert!(matches!(store.set_aside(one, "one"), Err(StoreError::Exists(_))));
    assert!(matches!(store.set_aside(one, ""), Err(StoreError::Length { .. })));
    let two = store.set_aside(one, "aside").unwrap();
    let three = store.set_aside(two, "aside 2").unwrap();
    // The quota is its own again.
    let mut write = store.begin().unwrap();
    write.put(three, "t", b"k", &[3; 800]).unwrap();
    assert!(matches!(write.put(three, "t", b"l", &[3; 800]), Err(StoreError::Quota { .. })));
    write.commit(Durability::Now).unwrap();
    let mut store = Store::open(store.close().unwrap()).unwrap();
    let names: Vec<(String, u64)> = store.usage().into_iter().map(|(_, usage)| (usage.name, usage.limit)).collect();
    assert_eq!(names, [("aside".into(), 1000), ("aside 2".into(), 1000), ("one".into(), 1000)]);
    let snapshot = store.snapshot().unwrap();
    let value = |namespace| snapshot.get(namespace, "t", b"k").unwrap().map(|value| value[0]);
    assert_eq!((value(one), value(two), value(three)), (Some(1), None, Some(3)));
    store.remove_namespace(one).unwrap();
    assert_eq!(store.snapshot().unwrap().get(three, "t", b"k").unwrap().unwrap().len(), 800);
}

//! Ranges with every kind of bound, quotas that change, and what is just allowed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::collections::BTreeMap;
use std::ops::Bound;

use capos_store::*;

/// A store with one namespace.
fn store(limit: u64) -> (Store<MemoryBlocks>, Namespace) {
    let mut store = Store::open(MemoryBlocks::new(4096)).unwrap();
    let namespace = store.create_namespace("one", limit).unwrap();
    (store, namespace)
}

fn put(store: &mut Store<MemoryBlocks>, namespace: Namespace, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    let mut write = store.begin()?;
    write.put(namespace, "t", key, value)?;
    write.commit(Durability::Now)
}

#[test]
fn ranges_are_those_of_a_map() {
    let (mut store, namespace) = store(1 << 20);
    let mut map = BTreeMap::new();
    for key in [1_u8, 3, 5, 7] {
        put(&mut store, namespace, &[key], &[key; 9]).unwrap();
        map.insert(vec![key], vec![key; 9]);
    }
    let keys: Vec<[u8; 1]> = (0..9).map(|key| [key]).collect();
    // Right behind a key nothing more is read.
    let behind: Vec<[u8; 2]> = (0..9).map(|key| [key, 0]).collect();
    let bounds: Vec<Bound<&[u8]>> = std::iter::once(Bound::Unbounded)
        .chain(keys.iter().flat_map(|key| [Bound::Included(&key[..]), Bound::Excluded(&key[..])]))
        .chain(behind.iter().map(|key| Bound::Excluded(&key[..])))
        .collect();
    let snapshot = store.snapshot().unwrap();
    let after = |bound: Bound<&[u8]>, key: &[u8]| match bound {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
    };
    let before = |bound: Bound<&[u8]>, key: &[u8]| match bound {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
    };
    for (from, to) in bounds.iter().flat_map(|from| bounds.iter().map(move |to| (*from, *to))) {
        for reverse in [false, true] {
            let wanted = map.iter().filter(|(key, _)| after(from, key) && before(to, key));
            let mut wanted: Vec<_> = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
            if reverse {
                wanted.reverse();
            }
            let query = Query { to, reverse, ..Query::from(from, usize::MAX) };
            assert_eq!(snapshot.range(namespace, "t", query).unwrap(), (wanted, false), "{query:?}");
        }
    }
}

#[test]
fn answers_are_bounded_by_entries_and_by_bytes() {
    let (mut store, namespace) = store(1 << 20);
    for key in 0..6_u8 {
        put(&mut store, namespace, &[key], &[key; 67]).unwrap();
    }
    let snapshot = store.snapshot().unwrap();
    let count = |most: usize, most_bytes: usize| {
        let query = Query { most_bytes, ..Query::from(Bound::Unbounded, most) };
        let (entries, more) = snapshot.range(namespace, "t", query).unwrap();
        (entries.len(), more)
    };
    // Each entry counts 100 bytes.
    for (most, most_bytes, found) in [
        (2, usize::MAX, (2, true)),
        (6, usize::MAX, (6, false)),
        (9, 300, (3, true)),
        (9, 299, (2, true)),
        (9, 600, (6, false)),
        (9, 1, (1, true)),
        (2, 300, (2, true)),
    ] {
        assert_eq!(count(most, most_bytes), found, "{most} entries, {most_bytes} bytes");
    }
}

#[test]
fn all_tables_are_walked_in_order() {
    let (mut store, namespace) = store(1 << 20);
    let other = store.create_namespace("two", 1 << 20).unwrap();
    assert_ne!(namespace.number(), other.number());
    let mut write = store.begin().unwrap();
    for table in ["b", "aa", "a", "ccc"] {
        for key in [2_u8, 1] {
            write.put(namespace, table, &[key], table.as_bytes()).unwrap();
            write.put(other, table, &[key], b"of the other").unwrap();
        }
    }
    write.commit(Durability::Now).unwrap();
    let snapshot = store.snapshot().unwrap();
    let (mut found, mut at): (Vec<_>, Option<(String, Vec<u8>)>) = (Vec::new(), None);
    while let Some((table, (key, value))) =
        snapshot.next(namespace, at.as_ref().map(|(table, key)| (table.as_str(), key.as_slice()))).unwrap()
    {
        assert_eq!(value, table.as_bytes());
        found.push(format!("{table}{}", key[0]));
        at = Some((table, key));
    }
    assert_eq!(found, ["a1", "a2", "b1", "b2", "aa1", "aa2", "ccc1", "ccc2"]);
}

#[test]
fn a_quota_is_used_to_its_last_byte_and_can_change() {
    // An entry of table `t`: namespace and table take 10 bytes, its place 32.
    let of = |bytes: u64| 10 + 1 + 32 + bytes;
    let (mut store, namespace) = store(of(100));
    for (bytes, fits) in [(100, true), (101, false), (102, false), (1000, false), (100, true)] {
        let done = put(&mut store, namespace, b"k", &vec![1; bytes]);
        assert_eq!(done.is_ok(), fits, "{bytes}: {done:?}");
    }
    store.set_limit(namespace, of(200)).unwrap();
    put(&mut store, namespace, b"k", &[2; 200]).unwrap();
    assert!(put(&mut store, namespace, b"k", &[2; 201]).is_err());
    // Below what it takes it can only become smaller.
    store.set_limit(namespace, of(50)).unwrap();
    assert!(put(&mut store, namespace, b"k", &[3; 201]).is_err() && put(&mut store, namespace, b"l", b"").is_err());
    put(&mut store, namespace, b"k", &[3; 200]).unwrap();
    put(&mut store, namespace, b"k", &[3; 150]).unwrap();
    let store = Store::open(store.with_blocks(MemoryBlocks::after_crash)).unwrap();
    let usage = &store.usage()[0].1;
    assert_eq!((usage.limit, usage.used), (of(50), of(150)));
}

#[test]
fn a_range_is_removed_and_gives_its_bytes_back() {
    let (mut store, namespace) = store(1 << 20);
    let other = store.create_namespace("two", 1 << 20).unwrap();
    for key in 0..6_u8 {
        put(&mut store, namespace, &[key], &[key; 100]).unwrap();
        put(&mut store, other, &[key], &[key; 100]).unwrap();
    }
    let before = store.usage();
    let mut write = store.begin().unwrap();
    write.remove_range(namespace, "t", Bound::Excluded(&[1]), Bound::Included(&[4])).unwrap();
    write.remove_range(namespace, "u", Bound::Unbounded, Bound::Unbounded).unwrap();
    write.commit(Durability::Now).unwrap();
    let mut keys = |namespace| {
        let entries = store.snapshot().unwrap().range(namespace, "t", Query::from(Bound::Unbounded, 9)).unwrap().0;
        entries.into_iter().map(|(key, _)| key[0]).collect::<Vec<_>>()
    };
    assert_eq!((keys(namespace), keys(other)), (vec![0, 1, 5], vec![0, 1, 2, 3, 4, 5]));
    let (after, half) = (store.usage(), before[0].1.used / 2);
    assert_eq!((after[0].1.used, after[1].1.used), (half, 2 * half));
}

#[test]
fn values_have_a_length_at_most() {
    let (mut store, namespace) = store(8 << 20);
    for more in [0, 1, 2, 1000] {
        let done = put(&mut store, namespace, b"k", &vec![1; MAX_VALUE + more]);
        assert_eq!(done.is_ok(), more == 0, "{more} more");
    }
}

#[test]
fn blocks_in_memory_are_as_many_as_they_say() {
    let mut blocks = MemoryBlocks::new(4);
    let one = [1; BLOCK_BYTES];
    // They may have any numbers.
    assert_eq!([0, 6].map(|number| blocks.write(number, &one)), [Ok(()), Ok(())]);
    for round in 0..3 {
        blocks.sync().unwrap();
        // What was there at the sync stays until the next one.
        for number in [0, 6, 0, 6] {
            assert_eq!(blocks.write(number, &one), Ok(()), "round {round}");
        }
        assert_eq!(blocks.write(1, &one), Err(BlockError::Full));
    }
}

//! A store that ends, that takes changes back, and that is full.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Counting, keyspace, whole};
use capos_files::Files;
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Keyspace, Within};
use capos_store::{MemoryBlocks, Store};
use capos_tree::suite::{CREATE, done, label};
use capos_tree::{FileTree, Removal, Tree, TreeError, WriteAt};

const ROOT: capos_tree::NodeId = Tree::ROOT;

fn put<K: Keyspace>(files: &Files<K>, path: &str, data: &[u8]) -> Result<(), TreeError> {
    done(files.store(ROOT, path, data, false, &label(&[]), 0)).map(drop)
}

fn content<K: Keyspace>(files: &Files<K>, path: &str) -> Result<Vec<u8>, TreeError> {
    let (id, _) = done(files.status(ROOT, path))?;
    Ok(done(files.read(id, 0, 1 << 20))?.0)
}

/// Everything that changes a tree, with a sync in between and at the end.
fn work<K: Keyspace>(files: &Files<K>) -> Result<(), TreeError> {
    done(files.make_directory(ROOT, "d", 0))?;
    put(files, "d/a", b"one")?;
    done(files.sync(0))?;
    let (id, _) = done(files.open_at(ROOT, "d/b", CREATE, 0))?;
    done(files.write(id, WriteAt::End, b"two", &label(&[]), 0))?;
    done(files.rename(ROOT, "d/a", "d/b", 0))?;
    done(files.write(id, WriteAt::End, b"three", &label(&[]), 0))?;
    files.close(id);
    done(files.remove(ROOT, "d/b", Removal::File, 0))?;
    put(files, "d/c", b"four")?;
    done(files.sync(0))
}

#[test]
fn a_store_that_ends_at_any_call_is_asked_again() {
    let counting = Counting::new(keyspace(1 << 20));
    let files = done(Files::open(&counting)).unwrap();
    counting.take();
    work(&files).unwrap();
    let (calls, ..) = counting.take();
    assert!(calls > 30, "{calls}");
    for call in 0..calls {
        for after in [false, true] {
            let counting = Counting::new(keyspace(1 << 20));
            let files = done(Files::open(&counting)).unwrap();
            counting.ends.set(Some((call, after)));
            work(&files).unwrap_or_else(|error| panic!("call {call}, done {after}: {error}"));
            assert_eq!(content(&files, "d/c").unwrap(), b"four");
            let report = whole(&files);
            assert_eq!((report.files, report.unnamed, report.bytes), (1, 0, 4), "call {call}, done {after}");
            assert_eq!(counting.ends.get(), None, "call {call}, done {after}");
        }
    }
}

/// What the store has not synced is taken back, as after an error of its disk.
fn take_back(space: &LocalKeyspace<MemoryBlocks>) {
    let mut store = space.store().borrow_mut();
    let old = std::mem::replace(&mut *store, Store::open(MemoryBlocks::new(64)).unwrap());
    *store = Store::open(old.abandon().unwrap()).unwrap();
}

#[test]
fn a_sync_fails_if_the_store_took_changes_back() {
    for notices_early in [false, true] {
        let space = keyspace(1 << 20);
        let files = done(Files::open(space.clone())).unwrap();
        put(&files, "kept", b"kept").unwrap();
        let before = files.losses();
        done(files.sync(before)).unwrap();
        put(&files, "a", b"lost").unwrap();
        take_back(&space);
        if notices_early {
            // Another change, which is not based on the lost one, is done.
            put(&files, "b", b"later").unwrap();
        }
        let error = done(files.sync(before)).unwrap_err();
        assert!(matches!(&error, TreeError::Medium(why) if why.contains("were lost")), "{error}");
        // Whoever begins now is told of later losses only.
        let since = files.losses();
        assert_ne!(since, before);
        put(&files, "c", b"new").unwrap();
        done(files.sync(since)).unwrap();
        take_back(&space);
        done(files.sync(since)).unwrap();
        assert_eq!(content(&files, "kept").unwrap(), b"kept");
        assert_eq!(content(&files, "a"), Err(TreeError::NotFound("a".into())));
        assert_eq!(content(&files, "b").is_ok(), notices_early);
        assert_eq!(content(&files, "c").unwrap(), b"new");
        whole(&files);
    }
}

#[test]
fn a_file_whose_removal_was_taken_back_stays_when_it_is_closed() {
    let space = keyspace(1 << 20);
    let files = done(Files::open(space.clone())).unwrap();
    put(&files, "f", b"content").unwrap();
    done(files.sync(0)).unwrap();
    let (id, _) = done(files.open_at(ROOT, "f", CREATE, 0)).unwrap();
    done(files.remove(ROOT, "f", Removal::File, 0)).unwrap();
    take_back(&space);
    files.close(id);
    done(files.remove_released()).unwrap();
    assert_eq!(content(&files, "f").unwrap(), b"content");
    whole(&files);
}

#[test]
fn a_full_tree_can_be_emptied() {
    let files = done(Files::open(keyspace(40_000))).unwrap();
    let (id, _) = done(files.open_at(ROOT, "open", CREATE, 0)).unwrap();
    let mut names = Vec::new();
    let error = loop {
        let name = format!("f{}", names.len());
        match put(&files, &name, &[1; 100]) {
            Ok(()) => names.push(name),
            Err(error) => break error,
        }
    };
    let TreeError::NoSpace { needed, left } = error else { panic!("{error}") };
    assert!(needed > left && left < 500, "{needed} {left}");
    assert!(names.len() > 50, "{}", names.len());
    while done(files.write(id, WriteAt::End, &[0; 10], &label(&[]), 0)).is_ok() {}
    done(files.remove(ROOT, "open", Removal::File, 0)).unwrap();
    done(files.truncate(id, 0, &label(&[]), 0)).unwrap();
    for name in &names {
        done(files.remove(ROOT, name, Removal::File, 0)).unwrap();
    }
    files.close(id);
    done(files.remove_released()).unwrap();
    let report = whole(&files);
    assert_eq!((report.files, report.unnamed, report.bytes), (0, 0, 0));
}

#[test]
fn a_tree_at_its_quota_keeps_what_it_has_and_takes_nothing_more() {
    let space = keyspace(1 << 20);
    let files = done(Files::open(space.clone())).unwrap();
    let (id, _) = done(files.open_at(ROOT, "open", CREATE, 0)).unwrap();
    files.set_quota(Some(20_000));
    let mut names = Vec::new();
    let error = loop {
        let name = format!("f{}", names.len());
        match put(&files, &name, &[1; 1000]) {
            Ok(()) => names.push(name),
            Err(error) => break error,
        }
    };
    let TreeError::Quota { used, limit } = error else { panic!("{error}") };
    assert!((18_000..=20_000).contains(&used) && limit == 20_000 && names.len() > 10, "{used}");
    assert_eq!(done(files.used()).unwrap(), used);
    let text = error.to_string();
    assert!(text.contains("of its quota of 19.5 KiB") && text.contains("ask an operator"), "{text}");
    assert_eq!(whole(&files).problems, Vec::<String>::new());
    // Another tree of the same keyspace has its own room.
    let other = done(Files::open(Within::new(space.clone(), "2/".into()))).unwrap();
    put(&other, "large", &[1; 50_000]).unwrap();
    assert!(done(other.used()).unwrap() > 50_000);
    whole(&other);
    // A quota that is lowered below what is there removes nothing, and files can be removed, those that are open too.
    files.set_quota(Some(1));
    assert!(matches!(put(&files, "more", b""), Err(TreeError::Quota { .. })));
    assert_eq!(content(&files, "f0").unwrap(), [1; 1000]);
    done(files.remove(ROOT, "open", Removal::File, 0)).unwrap();
    done(files.truncate(id, 0, &label(&[]), 0)).unwrap();
    done(files.remove(ROOT, "f0", Removal::File, 0)).unwrap();
    files.set_quota(None);
    put(&files, "large", &[1; 50_000]).unwrap();
    whole(&files);
}

/// A version of capOS that does not count leaves the count behind, and one that found none made none.
#[test]
fn a_count_that_was_left_behind_is_made_again() {
    let space = keyspace(1 << 20);
    let files = done(Files::open(space.clone())).unwrap();
    put(&files, "f", &[1; 1000]).unwrap();
    done(files.sync(0)).unwrap();
    let right = done(files.used()).unwrap();
    for stale in [
        Batch::new().remove("tree", b"used").remove("tree", b"counted"),
        Batch::new().put("tree", b"used", &[9; 8]).put("tree", b"counted", &[0; 8]),
    ] {
        done(space.commit(stale, Durability::Now)).unwrap();
        let files = done(Files::open(space.clone())).unwrap();
        assert_eq!(done(files.used()).unwrap(), right);
        whole(&files);
    }
}

/// A full disk takes no count. The quota holds from the first change after space has come back.
#[test]
fn a_count_that_found_no_room_is_made_when_there_is_some() {
    let space = keyspace(60_000);
    let files = done(Files::open(space.clone())).unwrap();
    put(&files, "f", &[1; 1000]).unwrap();
    done(files.sync(0)).unwrap();
    let right = done(files.used()).unwrap();
    done(space.commit(Batch::new().remove("tree", b"used").remove("tree", b"counted"), Durability::Now)).unwrap();
    for size in [10_000, 1000, 100, 10, 1] {
        for at in 0..=u8::MAX {
            if done(space.commit(Batch::new().put("junk", &[size as u8, at], &vec![0; size]), Durability::Now)).is_err()
            {
                break;
            }
        }
    }
    let files = done(Files::open(space.clone())).unwrap();
    files.set_quota(Some(right + 100));
    assert_eq!(done(files.used()).unwrap(), 0);
    done(space.commit(Batch::new().remove_range("junk", b"", b""), Durability::Now)).unwrap();
    assert!(matches!(put(&files, "g", &[1; 1000]), Err(TreeError::Quota { .. })));
    assert_eq!(done(files.used()).unwrap(), right);
    whole(&files);
}

#[test]
fn a_newer_or_malformed_tree_is_left_alone() {
    let space = keyspace(1 << 20);
    drop(done(Files::open(space.clone())).unwrap());
    let set = |table: &str, key: &[u8], value: &[u8]| {
        done(space.commit(Batch::new().put(table, key, value), Durability::Now)).unwrap();
    };
    set("format", b"version", &[9, 0, 0, 0]);
    let error = done(Files::open(space.clone())).unwrap_err();
    assert!(error.to_string().contains("format 9"), "{error}");
    set("format", b"version", &[1, 0]);
    assert!(done(Files::open(space.clone())).unwrap_err().to_string().contains("malformed"));
    set("format", b"version", &1_u32.to_le_bytes());
    set("tree", b"state", &[1; 9]);
    assert!(done(Files::open(space.clone())).unwrap_err().to_string().contains("malformed"));
}

#[test]
fn a_tree_that_cannot_be_written_can_be_read() {
    let counting = Counting::new(keyspace(1 << 20));
    let files = done(Files::open(&counting)).unwrap();
    put(&files, "f", b"content").unwrap();
    put(&files, "g", b"").unwrap();
    done(files.open_at(ROOT, "g", CREATE, 0)).unwrap();
    done(files.remove(ROOT, "g", Removal::File, 0)).unwrap();
    counting.read_only.set(true);
    let files = done(Files::open(&counting)).unwrap();
    assert_eq!(content(&files, "f").unwrap(), b"content");
    assert!(matches!(put(&files, "f", b""), Err(TreeError::ReadOnly(_))));
    assert_eq!(whole(&files).unnamed, 1);
    counting.read_only.set(false);
    assert_eq!(whole(&done(Files::open(&counting)).unwrap()).unnamed, 0);
}

/// Every kind of damage is found.
#[test]
fn a_check_finds_what_is_wrong() {
    let fresh = || {
        let space = keyspace(1 << 20);
        let files = done(Files::open(space.clone())).unwrap();
        done(files.make_directory(ROOT, "d", 0)).unwrap();
        put(&files, "d/f", b"content").unwrap();
        put(&files, "g", b"").unwrap();
        whole(&files);
        (space, files)
    };
    let node = |number: u64| number.to_be_bytes();
    let entry = |directory: u64, name: &str| [&node(directory)[..], name.as_bytes()].concat();
    let (space, _) = fresh();
    let record = |directory: u64, name: &str| done(space.get("entries", &entry(directory, name))).unwrap().unwrap();
    let (d, f) = (record(0, "d"), record(1, "f"));
    let mut damage: Vec<(&str, Batch)> = Vec::new();
    let mut add = |expected, make: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        make(&mut batch);
        damage.push((expected, batch));
    };
    add("is malformed", &|batch| {
        batch.put("entries", &entry(1, "x"), b"?");
    });
    add("has two places", &|batch| {
        batch.put("entries", &entry(1, "x"), &f);
    });
    add("has 2 entries and says 1", &|batch| {
        let mut other = f.clone();
        other[1] = 3;
        batch.remove("entries", &entry(0, "g")).put("entries", &entry(1, "x"), &other);
    });
    add("is not at the place", &|batch| {
        batch.put("places", &node(2), &entry(0, "g"));
    });
    add("have a place", &|batch| {
        batch.remove("places", &node(2));
    });
    add("which is no directory", &|batch| {
        batch.remove("entries", &entry(1, "f")).put("entries", &entry(77, "f"), &f);
    });
    add("is in itself", &|batch| {
        batch.remove("entries", &entry(0, "d")).put("entries", &entry(1, "d"), &d);
    });
    add("is of no file", &|batch| {
        batch.put("content", &[node(9), node(0)].concat(), b"x");
    });
    add("chunk 1 of node 2", &|batch| {
        batch.put("content", &[node(2), node(1)].concat(), b"x");
    });
    add("chunk 0 of node 2", &|batch| {
        batch.put("content", &[node(2), node(0)].concat(), b"too long");
    });
    add("is not below", &|batch| {
        let mut other = f.clone();
        other[1] = 200;
        batch.remove("entries", &entry(1, "f")).put("entries", &entry(1, "f"), &other);
    });
    add("there is no root", &|batch| {
        batch.remove("entries", &[0xff; 8]);
    });
    for (expected, batch) in damage {
        let (space, files) = fresh();
        done(space.commit(&batch, Durability::Now)).unwrap();
        let problems = done(files.check()).unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
}

/// An empty label, and the same tree through a shared store.
#[test]
fn trees_of_one_store_are_apart() {
    let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(1 << 16)).unwrap()));
    let open = |name: &str| done(Files::open(LocalKeyspace::new(store.clone(), name, 1 << 20).unwrap())).unwrap();
    let (one, other) = (open("one"), open("other"));
    put(&one, "f", b"one").unwrap();
    put(&other, "f", b"other").unwrap();
    done(one.remove(ROOT, "f", Removal::File, 0)).unwrap();
    assert_eq!(content(&other, "f").unwrap(), b"other");
}

//! Many homes, a tree that has its first files, and a count for which there is no room.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use crate::common::{Counting, keyspace, whole};
use capos_files::{Files, Homes};
use capos_keyspace::{Batch, Durability, Fault, Keyspace};
use capos_tree::suite::{done, label};
use capos_tree::{FileTree, Removal, Tree};

#[test]
fn more_homes_than_are_read_at_once() {
    let space = keyspace(4 << 20);
    let homes = Homes::new(space.clone(), 1000);
    let name = |number: u16| format!("user-{:03}", 999 - number);
    for number in 1..=600 {
        assert_eq!(done(homes.number(&name(number))), Ok(number));
    }
    let again = Homes::new(space, 1000);
    for number in [1, 300, 600] {
        assert_eq!(done(again.number(&name(number))), Ok(number));
    }
    assert_eq!((done(again.numbers()).unwrap().len(), done(again.number("another"))), (600, Ok(601)));
}

#[test]
fn homes_of_another_version_are_left_alone() {
    let space = keyspace(1 << 20);
    assert_eq!(done(Homes::new(space.clone(), 100).number("ann")), Ok(1));
    for other in [&3_u32.to_le_bytes()[..], &[1], &[]] {
        done(space.commit(Batch::new().put("format", b"version", other), Durability::Now)).unwrap();
        assert!(matches!(done(Homes::new(space.clone(), 100).number("ann")), Err(Fault::Damaged(_))), "{other:?}");
    }
}

#[test]
fn a_home_is_made_once_if_the_store_ends_meanwhile() {
    for after in [false, true] {
        let counting = Counting::new(keyspace(1 << 20));
        let homes = Homes::new(&counting, 100);
        assert_eq!(done(homes.number("ann")), Ok(1));
        counting.ends.set(Some((0, after)));
        assert_eq!(done(homes.number("bob")), Ok(2), "done {after}");
        counting.ends.set(Some((0, after)));
        assert_eq!(done(homes.remove("ann")), Ok(Some(1)), "done {after}");
        assert_eq!(counting.ends.get(), None);
        let again = Homes::new(&counting, 100);
        assert_eq!((done(again.number("bob")), done(again.number("ann"))), (Ok(2), Ok(3)));
    }
}

#[test]
fn a_tree_says_whether_it_has_its_first_files() {
    let space = keyspace(1 << 20);
    let files = done(Files::open(space.clone())).unwrap();
    assert_eq!(done(files.is_filled()), Ok(false));
    done(files.set_filled()).unwrap();
    assert_eq!(done(files.is_filled()), Ok(true));
    assert_eq!(done(done(Files::open(space)).unwrap().is_filled()), Ok(true));
}

/// A full disk from a version of capOS that did not count: files can be removed, and then it counts.
#[test]
fn without_room_for_the_count_files_can_be_removed() {
    let space = keyspace(40_000);
    let files = done(Files::open(space.clone())).unwrap();
    for name in ["a", "b"] {
        done(files.store(Tree::ROOT, name, &[1; 5000], false, &label(&[]), 0)).unwrap();
    }
    drop(files);
    done(space.commit(Batch::new().remove("tree", b"used").remove("tree", b"counted"), Durability::Now)).unwrap();
    for bytes in [1000, 100, 10, 1] {
        let fill = |number: u32| {
            let key = [bytes as u32, number].map(u32::to_be_bytes).concat();
            done(space.commit(Batch::new().put("elsewhere", &key, &vec![0; bytes]), Durability::Now))
        };
        assert!(matches!((0..).find_map(|number| fill(number).err()), Some(Fault::Quota(_))));
    }
    let files = done(Files::open(space.clone())).unwrap();
    whole(&files);
    done(files.remove(Tree::ROOT, "a", Removal::File, 0)).unwrap();
    done(files.sync(files.losses())).unwrap();
    let files = done(Files::open(space)).unwrap();
    assert!(done(files.used()).unwrap() > 5000);
    whole(&files);
}

//! A tree in a keyspace does what one in memory does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;

use crate::common::steps::{all, step};
use crate::common::{keyspace, whole};
use capos_files::Files;
use capos_tree::suite::{self, CREATE, READ, done, label};
use capos_tree::{FileTree, Removal, Tree, WriteAt};
use proptest::prelude::*;

#[test]
fn it_is_a_file_tree() {
    suite::all(|budget| done(Files::open(keyspace(budget))).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is done, both trees answer the same and hold the same, and the one that lasts is whole: while files are open,
    /// and when it is opened again.
    #[test]
    fn it_agrees_with_the_tree_in_memory(steps in prop::collection::vec((0_u8..12, any::<u8>(), any::<u8>(), any::<u32>()), 0..60)) {
        let memory = RefCell::new(Tree::new(1 << 30));
        let space = keyspace(1 << 30);
        let files = done(Files::open(space.clone())).unwrap();
        let (mut held, mut held_in_memory) = (Vec::new(), Vec::new());
        for one in steps {
            prop_assert_eq!(step(&files, &mut held, one), step(&memory, &mut held_in_memory, one), "{:?}", one);
        }
        whole(&files);
        let expected = all(&memory);
        prop_assert_eq!(all(&files), &expected[..]);
        let files = done(Files::open(space)).unwrap();
        prop_assert_eq!(whole(&files).unnamed, 0);
        prop_assert_eq!(all(&files), expected);
    }
}

#[test]
fn large_and_sparse_files() {
    let files = done(Files::open(keyspace(64 << 20))).unwrap();
    let public = label(&[]);
    let (id, _) = done(files.open_at(Tree::ROOT, "f", CREATE, 0)).unwrap();
    done(files.truncate(id, 1 << 40, &public, 0)).unwrap();
    done(files.write(id, WriteAt::Offset((1 << 39) - 3), b"middle", &public, 0)).unwrap();
    assert_eq!(done(files.read(id, (1 << 39) - 5, 10)).unwrap().0, b"\0\0middle\0\0");
    assert_eq!(done(files.read(id, (1 << 40) - 5, 10)).unwrap().0, [0; 5]);
    assert_eq!(whole(&files).bytes, (1 << 39) % capos_files::CHUNK + 3, "the hole takes no space");
    let piece = vec![7; 256 << 10];
    for number in 0..100_u64 {
        done(files.write(id, WriteAt::Offset(number * piece.len() as u64), &piece, &public, 0)).unwrap();
    }
    assert_eq!(done(files.read(id, 12_345_678, 200_000)).unwrap().0, [7; 200_000]);
    done(files.truncate(id, 100, &public, 0)).unwrap();
    done(files.truncate(id, 1 << 20, &public, 0)).unwrap();
    assert_eq!(done(files.read(id, 90, 20)).unwrap().0, [[7; 10], [0; 10]].concat());
    assert_eq!(whole(&files).bytes, 100);
}

#[test]
fn files_without_a_name_go_when_the_tree_is_opened() {
    let space = keyspace(4 << 20);
    let files = done(Files::open(space.clone())).unwrap();
    for number in 0..3000 {
        let name = format!("f{number}");
        done(files.store(Tree::ROOT, &name, b"content", false, &label(&[]), 0)).unwrap();
        done(files.open_at(Tree::ROOT, &name, READ, 0)).unwrap();
        done(files.remove(Tree::ROOT, &name, Removal::File, 0)).unwrap();
    }
    assert_eq!((whole(&files).unnamed, whole(&files).files), (3000, 0));
    drop(files);
    let files = done(Files::open(space)).unwrap();
    let report = whole(&files);
    assert_eq!((report.unnamed, report.bytes), (0, 0));
}

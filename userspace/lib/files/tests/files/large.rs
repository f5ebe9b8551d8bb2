//! A folder of 100,000 entries costs no more than one of ten, counted in calls to the keyspace and in entries that they carry.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]
#![allow(clippy::unit_arg, reason = "what is counted is what the argument does")]

use crate::common::{Counting, Map, whole};
use capos_files::Files;
use capos_tree::suite::{CREATE, READ, done, label};
use capos_tree::{FileTree, Removal, Tree, WriteAt};

const ENTRIES: u32 = 100_000;
const ROOT: capos_tree::NodeId = Tree::ROOT;

/// What the operations on one more name cost.
fn costs(counting: &Counting<Map>, files: &Files<&Counting<Map>>) -> Vec<(u64, u64, u64)> {
    let none = label(&[]);
    done(files.sync(files.losses())).unwrap();
    counting.take();
    let mut costs = Vec::new();
    let mut next = |_: ()| costs.push(counting.take());
    done(files.store(ROOT, "d/name", b"text", false, &none, 0)).unwrap();
    next(());
    next(files.close(done(files.open_at(ROOT, "d/name", READ, 0)).unwrap().0));
    next(files.close(done(files.open_at(ROOT, "d/other", CREATE, 0)).unwrap().0));
    next(drop(done(files.status(ROOT, "d/name")).unwrap()));
    next(drop(done(files.list_after(ROOT, "d", "n", 80 * 3)).unwrap()));
    next(done(files.rename(ROOT, "d/name", "d/later", 0)).unwrap());
    next(done(files.rename(ROOT, "d/later", "d/other", 0)).unwrap());
    next(done(files.rename(ROOT, "d", "e", 0)).unwrap());
    next(done(files.rename(ROOT, "e", "d", 0)).unwrap());
    next(done(files.remove(ROOT, "d/other", Removal::File, 0)).unwrap());
    next(done(files.remove(ROOT, "d", Removal::Any, 0)).unwrap_or(()));
    next(done(files.sync(files.losses())).unwrap());
    costs
}

#[test]
fn a_large_folder_costs_no_more() {
    let counting = Counting::new(Map::default());
    let files = done(Files::open(&counting)).unwrap();
    done(files.make_directory(ROOT, "d", 0)).unwrap();
    let mut small = Vec::new();
    for number in 0..ENTRIES {
        if number == 10 {
            small = costs(&counting, &files);
        }
        counting.take();
        let (id, _) = done(files.open_at(ROOT, &format!("d/file {number}"), CREATE, 0)).unwrap();
        files.close(id);
        let (calls, entries, commits) = counting.take();
        // The last sync, base, name, directory; commit of name, place, directory, state.
        assert!(
            calls <= 6 && entries <= 9 && commits == 1,
            "file {number}: {calls} calls, {entries} entries, {commits}"
        );
    }
    let large = costs(&counting, &files);
    assert_eq!(small, large);
    println!("calls, entries and commits: {large:?}");
    assert!(large.iter().all(|(calls, entries, commits)| *calls <= 10 && *entries <= 14 && *commits <= 1), "{large:?}");

    // A list in pages of 64 KiB reads each entry about once.
    let (mut after, mut listed, mut pages) = (String::new(), 0, 0);
    loop {
        let listing = done(files.list_after(ROOT, "d", &after, 64 << 10)).unwrap();
        listed += listing.entries.len();
        pages += 1;
        after = listing.entries.last().unwrap().1.name.clone();
        if !listing.more {
            break;
        }
    }
    let (calls, entries, _) = counting.take();
    println!("{pages} pages: {calls} calls, {entries} entries");
    assert_eq!(listed, ENTRIES as usize);
    assert!(
        calls <= pages * 2 && entries <= u64::from(ENTRIES) * 6 / 5,
        "{pages} pages, {calls} calls, {entries} entries"
    );
    assert_eq!(whole(&files).files, u64::from(ENTRIES));

    // Opening reads nothing of it.
    drop(files);
    counting.take();
    drop(done(Files::open(&counting)).unwrap());
    let (calls, entries, commits) = counting.take();
    assert!(calls <= 5 && entries <= 3 && commits == 0, "{calls} calls, {entries} entries, {commits} commits");
}

/// A program's long reads and writes come in pieces of 240 KiB, as the C library divides them.
#[test]
fn pieces_of_whole_chunks_are_written_unread_and_read_once() {
    const PIECE: usize = 240 << 10;
    const CHUNKS: u64 = 4;
    let counting = Counting::new(Map::default());
    let files = done(Files::open(&counting)).unwrap();
    let (id, _) = done(files.open_at(ROOT, "file", CREATE, 0)).unwrap();
    let none = label(&[]);
    let offsets = [0, 1, 2, 1].map(|piece| piece * PIECE as u64);
    for (round, offset) in (1..).zip(offsets) {
        done(files.write(id, WriteAt::Offset(offset), &vec![round; PIECE], &none, 0)).unwrap();
    }
    assert_eq!(counting.chunks.take(), 0);
    for (offset, round) in [(0, 1), (PIECE, 4), (2 * PIECE, 3)] {
        let (data, _) = done(files.read(id, offset as u64, PIECE)).unwrap();
        assert!(data == vec![round; PIECE] && counting.chunks.take() == CHUNKS, "at {offset}");
    }
    whole(&files);
}

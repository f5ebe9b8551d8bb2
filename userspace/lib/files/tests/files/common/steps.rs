//! Random steps, done on any tree.
#![allow(clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;

use capos_tree::suite::{done, label};
use capos_tree::{FileTree, Kind, NodeId, Opening, Removal, Tree, WriteAt};

/// What a step of the comparison does; numbers choose paths, sizes and open files.
pub type Step = (u8, u8, u8, u32);

const PATHS: [&str; 8] = ["a", "b", "d", "d/a", "d/e", "d/e/a", "d/e/f", "x/y"];

/// Does a step, and tells what came of it. Numbers of nodes are left out: trees need not agree on them.
pub fn step<T: FileTree>(tree: &T, held: &mut Vec<NodeId>, (what, first, second, number): Step) -> String {
    let path = PATHS[usize::from(first) % PATHS.len()];
    let other = PATHS[usize::from(second) % PATHS.len()];
    let label = label(&["pii.a", "pii.b", "secret.c"][..usize::from(second) % 3]);
    // Repeated as a whole: byte by byte would take most of the test's time.
    let length = (number % 150_000) as usize;
    let mut data = (0..251_u8).map(|byte| byte ^ first).collect::<Vec<u8>>().repeat(length / 251 + 1);
    data.truncate(length);
    let now = i64::from(number);
    let open = held.get(usize::from(second) % held.len().max(1)).copied();
    let find = || done(tree.status(Tree::ROOT, path)).map(|(id, _)| id);
    let place = u64::from(number) * 3 % 400_000;
    match what {
        0 => format!("{:?}", done(tree.make_directory(Tree::ROOT, path, now)).map(drop)),
        1 => format!("{:?}", done(tree.store(Tree::ROOT, path, &data, second % 2 == 0, &label, now)).map(drop)),
        2 => {
            let removal = [Removal::Any, Removal::File, Removal::Directory][usize::from(second) % 3];
            format!("{:?}", done(tree.remove(Tree::ROOT, path, removal, now)))
        }
        3 | 4 => format!("{:?}", done(tree.rename(Tree::ROOT, path, other, now))),
        5 => {
            let has = |bit: u8| second & bit != 0;
            let opening =
                Opening { write: has(1), create: has(2), exclusive: has(4), truncate: has(8), writable: !has(48) };
            let opened = done(tree.open_at(Tree::ROOT, path, opening, now));
            if let Ok((id, info)) = &opened
                && info.kind == Kind::File
            {
                held.push(*id);
            }
            format!("{:?}", opened.map(|(_, info)| info))
        }
        6 => {
            if let Some(id) = open {
                held.retain(|other| *other != id);
                tree.close(id);
            }
            String::new()
        }
        7 => {
            let Some(id) = open.or(find().ok()) else { return String::new() };
            format!("{:?}", done(tree.truncate(id, place, &label, now)))
        }
        8 => {
            let Some(id) = open.or(find().ok()) else { return String::new() };
            let at = if second % 3 == 0 { WriteAt::End } else { WriteAt::Offset(place) };
            format!("{:?}", done(tree.write(id, at, &data, &label, now)))
        }
        9 => {
            let Some(id) = open.or(find().ok()) else { return String::new() };
            format!("{:?}", done(tree.set_modified(id, now)))
        }
        10 => {
            let listing = done(tree.list_after(Tree::ROOT, path, other, usize::from(second) * 8));
            format!(
                "{:?}",
                listing.map(|list| (list.entries.into_iter().map(|(_, info)| info).collect::<Vec<_>>(), list.more))
            )
        }
        _ => {
            let Some(id) = open.or(find().ok()) else { return String::new() };
            let read = done(tree.read(id, place / 2, data.len()));
            // The names of files that have lost theirs may differ.
            let info = done(tree.info(id)).map(|info| (info.kind, info.bytes, info.modified));
            format!("{:?} {info:?}", read.map(|(bytes, label)| (bytes.len(), checksum(&bytes), label)))
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// All that can be seen of a tree.
pub fn all<T: FileTree>(tree: &T) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![String::from(".")];
    while let Some(directory) = directories.pop() {
        for (id, info) in done(tree.list_after(Tree::ROOT, &directory, "", 1 << 20)).unwrap().entries {
            let path = format!("{directory}/{}", info.name);
            let content = (info.kind == Kind::File).then(|| {
                let (bytes, label) = done(tree.read(id, 0, 1 << 20)).unwrap();
                (bytes.len(), checksum(&bytes), label)
            });
            found.push(format!("{path} {info:?} {content:?}"));
            if info.kind == Kind::Directory {
                directories.push(path);
            }
        }
    }
    found
}

/// A tree in memory that is the same.
pub fn copy<T: FileTree>(tree: &T) -> RefCell<Tree> {
    let memory = RefCell::new(Tree::new(1 << 30));
    let mut times = Vec::new();
    let mut directories = vec![String::from(".")];
    while let Some(directory) = directories.pop() {
        for (id, info) in done(tree.list_after(Tree::ROOT, &directory, "", 1 << 20)).unwrap().entries {
            let path = format!("{directory}/{}", info.name);
            if info.kind == Kind::Directory {
                done(memory.make_directory(Tree::ROOT, &path, 0)).unwrap();
                directories.push(path.clone());
            } else {
                let (bytes, label) = done(tree.read(id, 0, 1 << 20)).unwrap();
                done(memory.store(Tree::ROOT, &path, &bytes, false, &label, 0)).unwrap();
            }
            times.push((path, info.modified));
        }
    }
    for (path, time) in times {
        let (id, _) = done(memory.status(Tree::ROOT, &path)).unwrap();
        done(memory.set_modified(id, time)).unwrap();
    }
    memory
}

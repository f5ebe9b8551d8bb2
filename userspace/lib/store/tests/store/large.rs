//! Large values on the real volume, on a simulated disk that loses power at any write. They are more than the database has room for
//! in memory, so it writes pages between commits.
//!
//! `CRASHES=1000` runs longer, `CRASH_SEED=7` runs one seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::collections::BTreeMap;
use std::ops::Bound;

use capos_store::{Durability, Namespace, OnVolume, Query, Store, StoreError};
use capos_volume::Options;
use capos_volume::sim::{Seed, SharedDisk, SimDisk};

use crate::crash::{self, format, open_with};

/// Disk blocks of a volume.
const DISK: u64 = 12_000;
/// Crashes in a run of all tests.
const CRASHES: u64 = 80;
/// Bytes of a value, as files divide their contents.
const CHUNK: u64 = 60 << 10;
/// Keys that there may be.
const KEYS: u64 = 120;
/// Bytes that the namespace may take.
const LIMIT: u64 = 5 << 20;

const OPTIONS: Options = Options { cache_nodes: 16, ..crash::OPTIONS };

fn open(disk: &SharedDisk, start: u64) -> Result<Store<OnVolume<SharedDisk>>, String> {
    let blocks = open_with(disk.clone(), start, OPTIONS).map_err(|error| error.to_string())?;
    Store::open(blocks).map_err(|error| error.to_string())
}

/// Values by their keys: the number that its bytes come from, and how many they are.
type Model = BTreeMap<Vec<u8>, (u64, usize)>;

/// Bytes of which no two blocks are the same.
fn value((number, length): (u64, usize)) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Seed(number).fill(&mut bytes);
    bytes
}

fn is_as(store: &mut Store<OnVolume<SharedDisk>>, namespace: Namespace, model: &Model) -> Result<bool, StoreError> {
    let snapshot = store.snapshot()?;
    let keys = snapshot.range(namespace, "t", Query::from(Bound::Unbounded, usize::MAX))?.0;
    if !keys.iter().map(|(key, _)| key).eq(model.keys()) {
        return Ok(false);
    }
    Ok(keys.iter().zip(model.values()).all(|((_, found), expected)| *found == value(*expected)))
}

/// One commit of random changes: of one chunk, or of several MiB. Whether it is durable, and whether there was room for it.
fn commit(
    store: &mut Store<OnVolume<SharedDisk>>,
    namespace: Namespace,
    pending: &mut Model,
    seed: &mut Seed,
) -> Result<(bool, bool), StoreError> {
    let before = pending.clone();
    let mut write = store.begin()?;
    let (first, changes) = match seed.below(8) {
        0 => (seed.below(KEYS), seed.below(90)),
        1 => (seed.below(KEYS), seed.below(20)),
        _ => (seed.below(KEYS), 1),
    };
    let removes = seed.once_in(4);
    for key in first..first + changes {
        let key = vec![(key % KEYS) as u8];
        if removes {
            pending.remove(&key);
            write.remove(namespace, "t", &key)?;
            continue;
        }
        let length = if seed.once_in(4) { seed.below(CHUNK + 1) } else { CHUNK };
        let new = (seed.number(), length as usize);
        match write.put(namespace, "t", &key, &value(new)) {
            Ok(_) => pending.insert(key, new),
            Err(StoreError::Quota { .. } | StoreError::Full { .. }) => {
                *pending = before;
                return Ok((false, false));
            }
            Err(error) => return Err(error),
        };
    }
    let now = seed.once_in(3);
    match write.commit(if now { Durability::Now } else { Durability::Later }) {
        Ok(()) => Ok((now, true)),
        Err(StoreError::Quota { .. } | StoreError::Full { .. }) => {
            *pending = before;
            Ok((false, false))
        }
        Err(error) => Err(error),
    }
}

/// One store that lives through crashes. Gives how often the commit in progress was there after one, how many commits there
/// were, and how many of them found no room.
fn live(start: u64, crashes: u64) -> [u64; 3] {
    let mut seed = Seed(start);
    let mut disk = format(SimDisk::new(DISK, seed.number()));
    let mut store = open(&disk, seed.number()).unwrap();
    let namespace = store.create_namespace("home", LIMIT).unwrap();
    let mut counts = [0; 3];
    let mut durable = Model::new();
    for crash in 0..crashes {
        let place = format!("seed {start}, crash {crash}");
        disk.lock().set_fuse(Some(seed.below(6000)));
        // States since the last that is known to be durable: each may be there after the crash.
        let mut states = vec![durable.clone()];
        loop {
            let mut pending = states.last().unwrap().clone();
            let committed = commit(&mut store, namespace, &mut pending, &mut seed);
            counts[1] += 1;
            match committed {
                Ok((now, room)) => {
                    counts[2] += u64::from(!room);
                    states.push(pending);
                    if now {
                        states.drain(..states.len() - 1);
                    }
                }
                Err(_) => {
                    states.push(pending);
                    break;
                }
            }
        }
        drop(store);
        // The power may fail again while the store is opened.
        loop {
            let left = disk.lock().clone();
            assert!(left.is_dead(), "{place}: an operation failed without a power cut");
            disk = SharedDisk::new(left.crash());
            if seed.once_in(3) {
                disk.lock().set_fuse(Some(seed.below(40)));
            }
            match open(&disk, seed.number()) {
                Ok(opened) => store = opened,
                Err(_) if disk.lock().is_dead() => continue,
                Err(error) => panic!("{place}: {error}"),
            }
            disk.lock().set_fuse(None);
            break;
        }
        let found = states.iter().rposition(|state| is_as(&mut store, namespace, state).unwrap());
        let found = found.unwrap_or_else(|| panic!("{place}: the state is of no commit of {}", states.len()));
        counts[0] += u64::from(found > 0);
        durable = states.swap_remove(found);
    }
    counts
}

#[test]
fn every_crash_leaves_whole_commits_of_large_values() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let crashes = number("CRASHES").unwrap_or(CRASHES);
    let seeds = number("CRASH_SEED").map_or(0..8, |seed| seed..seed + 1);
    let each = crashes / (seeds.end - seeds.start);
    let mut counts = [0; 3];
    for seed in seeds.clone() {
        for (sum, count) in counts.iter_mut().zip(live(seed, each)) {
            *sum += count;
        }
    }
    let all = each * (seeds.end - seeds.start);
    println!("{all} crashes, {} with a later commit; {} commits, {} without room", counts[0], counts[1], counts[2]);
    assert!(counts[0] > 0 && counts[0] < all, "crashes on both sides of a commit: {counts:?} of {all}");
}

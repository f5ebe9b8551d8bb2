//! The file tree on the store on the volume, on a simulated disk that loses power at any write. After each crash the tree is
//! whole, holds all that was synced, and is as one of the changes since then has left it.
//!
//! `CRASHES=1000000` runs longer, `CRASH_SEED=7` runs one seed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::steps::{Step, all, copy, step};
use crate::common::whole;
use capos_files::Files;
use capos_keyspace::local::LocalKeyspace;
use capos_store::{OnVolume, Store};
use capos_tree::FileTree;
use capos_tree::suite::done;
use capos_volume::sim::{Seed, SharedDisk, SimDisk};
use capos_volume::{Access, CipherKind, Cost, Format, Locked, Options, Secret, Volume};

const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);
const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 4 };

/// Disk blocks of a volume.
const DISK: u64 = 2500;
/// Crashes in a run of all tests.
const CRASHES: u64 = 400;
/// Bytes that the tree may take.
const LIMIT: u64 = 3 << 20;

fn numbers(start: u64) -> impl FnMut(&mut [u8]) {
    let mut seed = Seed(start);
    move |bytes| seed.fill(bytes)
}

type OnDisk = Files<LocalKeyspace<OnVolume<SharedDisk>>>;

/// The tree on a disk.
fn open(disk: &SharedDisk, start: u64) -> Result<OnDisk, String> {
    let error = |error: capos_volume::Error| error.to_string();
    let locked = Locked::read(disk.clone()).map_err(error)?;
    let key = locked.unlock(&KEY, None, 1 << 20).map_err(error)?;
    let volume = locked.open(key, OPTIONS, &mut numbers(start)).map_err(error)?;
    let blocks = OnVolume::new(volume, disk.clone(), OPTIONS, Box::new(numbers(start + 1)));
    let store = Store::open(blocks).map_err(|error| error.to_string())?;
    let space = LocalKeyspace::new(Rc::new(RefCell::new(store)), "home", LIMIT).map_err(|error| error.to_string())?;
    done(Files::open(space)).map_err(|error| error.to_string())
}

fn random(seed: &mut Seed) -> Step {
    // Most files are small, so that a crash comes after many changes.
    let number = if seed.once_in(8) { seed.below(150_000) } else { seed.below(3000) };
    (seed.below(12) as u8, seed.below(256) as u8, seed.below(256) as u8, number as u32)
}

/// One tree that lives through crashes. Gives how often the tree was as it was synced last, as a later change had left it, and
/// as the change in progress was to leave it.
fn live(start: u64, crashes: u64) -> [u64; 3] {
    let mut seed = Seed(start);
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "test", cache_nodes: 4 };
    let volume = Volume::format(SimDisk::new(DISK, seed.number()), format, &KEY, &mut numbers(1)).unwrap();
    let mut disk = SharedDisk::new(volume.into_disk());
    let mut files = open(&disk, seed.number()).unwrap();
    let mut counts = [0; 3];
    for crash in 0..crashes {
        let place = format!("seed {start}, crash {crash}");
        let memory = copy(&files);
        let mut states = vec![all(&memory)];
        let (mut held, mut held_in_memory) = (Vec::new(), Vec::new());
        disk.lock().set_fuse(Some(seed.below(400)));
        loop {
            if seed.once_in(4) {
                if done(files.sync(files.losses())).is_err() {
                    break;
                }
                states.drain(..states.len() - 1);
                continue;
            }
            let next = random(&mut seed);
            let answer = step(&files, &mut held, next);
            let expected = step(&memory, &mut held_in_memory, next);
            states.push(all(&memory));
            if answer.contains("Medium(") {
                break;
            }
            assert_eq!(answer, expected, "{place}, step {next:?}");
        }
        drop(files);
        // The power may fail again while the tree is opened.
        loop {
            let left = disk.lock().clone();
            assert!(left.is_dead(), "{place}: an operation failed without a power cut");
            disk = SharedDisk::new(left.crash());
            if seed.once_in(3) {
                disk.lock().set_fuse(Some(seed.below(40)));
            }
            match open(&disk, seed.number()) {
                Ok(opened) => files = opened,
                Err(_) if disk.lock().is_dead() => continue,
                Err(error) => panic!("{place}: {error}"),
            }
            disk.lock().set_fuse(None);
            break;
        }
        assert_eq!(whole(&files).unnamed, 0, "{place}");
        let found = all(&files);
        match states.iter().position(|state| *state == found) {
            Some(0) => counts[0] += 1,
            Some(at) if at + 1 < states.len() => counts[1] += 1,
            Some(_) => counts[2] += 1,
            None => panic!("{place}: the tree is as no change has left it: {found:#?}\n{states:#?}"),
        }
    }
    counts
}

#[test]
fn every_crash_keeps_what_was_synced() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let crashes = number("CRASHES").unwrap_or(CRASHES);
    let seeds = number("CRASH_SEED").map_or(0..8, |seed| seed..seed + 1);
    let each = crashes / (seeds.end - seeds.start);
    let mut counts = [0; 3];
    for seed in seeds {
        for (sum, count) in counts.iter_mut().zip(live(seed, each)) {
            *sum += count;
        }
    }
    println!("{counts:?} crashes left the synced tree, a later one, the one in progress");
    assert!(counts[0] > 0 && counts[1] + counts[2] > 0, "crashes on both sides of a sync: {counts:?}");
}

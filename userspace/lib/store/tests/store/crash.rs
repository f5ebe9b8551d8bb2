//! The store on the real volume, on a simulated disk that loses power at any write. After each crash all acknowledged commits
//! are there, and nothing of others, except the commit in progress as a whole.
//!
//! `CRASHES=1000000` runs longer, `CRASH_SEED=7` runs one seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::collections::BTreeMap;
use std::ops::Bound;

use capos_store::{BlockError, Durability, MemoryBlocks, Namespace, OnVolume, Query, Store, StoreError};
use capos_volume::sim::{Seed, SharedDisk, SimDisk};
use capos_volume::{Access, BLOCK, CipherKind, Cost, Disk, Format, Locked, Options, Secret, Volume};

const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);
/// Disk blocks of a volume.
const DISK: u64 = 1200;
/// Crashes in a run of all tests.
const CRASHES: u64 = 5000;

pub const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 4 };

fn random(start: u64) -> impl FnMut(&mut [u8]) {
    let mut seed = Seed(start);
    move |bytes| seed.fill(bytes)
}

pub fn open_with(disk: SharedDisk, start: u64, options: Options) -> Result<OnVolume<SharedDisk>, capos_volume::Error> {
    let locked = Locked::read(disk.clone())?;
    let key = locked.unlock(&KEY, None, 1 << 20)?;
    let volume = locked.open(key, options, &mut random(start))?;
    Ok(OnVolume::new(volume, disk, options, Box::new(random(start + 1))))
}

fn open(disk: SharedDisk, start: u64) -> Result<OnVolume<SharedDisk>, capos_volume::Error> {
    open_with(disk, start, OPTIONS)
}

pub fn format(disk: SimDisk) -> SharedDisk {
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "test", cache_nodes: 4 };
    SharedDisk::new(Volume::format(disk, format, &KEY, &mut random(1)).unwrap().into_disk())
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(store: &mut Store<OnVolume<SharedDisk>>, namespace: Namespace) -> Result<Model, StoreError> {
    Ok(store.snapshot()?.range(namespace, "t", Query::from(Bound::Unbounded, usize::MAX))?.0.into_iter().collect())
}

/// One commit of random changes. Whether it is durable.
fn commit(
    store: &mut Store<OnVolume<SharedDisk>>,
    namespace: Namespace,
    pending: &mut Model,
    seed: &mut Seed,
) -> Result<bool, StoreError> {
    let mut write = store.begin()?;
    for _ in 0..=seed.below(4) {
        let key = vec![seed.below(12) as u8];
        if seed.once_in(3) {
            pending.remove(&key);
            write.remove(namespace, "t", &key)?;
        } else {
            let value = vec![seed.below(256) as u8; seed.below(6000) as usize];
            pending.insert(key.clone(), value.clone());
            write.put(namespace, "t", &key, &value)?;
        }
    }
    let now = !seed.once_in(3);
    write.commit(if now { Durability::Now } else { Durability::Later })?;
    Ok(now)
}

/// One store that lives through crashes. Gives how often the commit in progress was there after one.
fn live(start: u64, crashes: u64) -> u64 {
    let mut seed = Seed(start);
    let mut disk = format(SimDisk::new(DISK, seed.number()));
    let mut store = Store::open(open(disk.clone(), seed.number()).unwrap()).unwrap();
    let namespace = store.create_namespace("home", 1 << 20).unwrap();
    let (mut durable, mut in_progress) = (Model::new(), 0);
    for crash in 0..crashes {
        disk.lock().set_fuse(Some(seed.below(120)));
        let mut committed = durable.clone();
        let lost = loop {
            let mut pending = committed.clone();
            match commit(&mut store, namespace, &mut pending, &mut seed) {
                Ok(now) => {
                    committed = pending;
                    if now {
                        durable = committed.clone();
                    }
                }
                Err(_) => break pending,
            }
        };
        drop(store);
        let left = disk.lock().clone();
        assert!(left.is_dead(), "seed {start}, crash {crash}: an operation failed without a power cut");
        disk = SharedDisk::new(left.crash());
        let blocks =
            open(disk.clone(), seed.number()).unwrap_or_else(|error| panic!("seed {start}, crash {crash}: {error}"));
        store = Store::open(blocks).unwrap_or_else(|error| panic!("seed {start}, crash {crash}: {error}"));
        let found = contents(&mut store, namespace).unwrap();
        if found != durable {
            assert!(found == lost, "seed {start}, crash {crash}: the state is of no commit");
            durable = found;
            in_progress += 1;
        }
    }
    in_progress
}

#[test]
fn every_crash_leaves_whole_commits() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let crashes = number("CRASHES").unwrap_or(CRASHES);
    let seeds = number("CRASH_SEED").map_or(0..8, |seed| seed..seed + 1);
    let each = crashes / (seeds.end - seeds.start);
    let in_progress: u64 = seeds.clone().map(|seed| live(seed, each)).sum();
    let all = each * (seeds.end - seeds.start);
    println!("{all} crashes, {in_progress} with the commit in progress");
    assert!(in_progress > 0 && in_progress < all, "crashes on both sides of a commit: {in_progress} of {all}");
}

/// A disk that fails once is used again: what was not synced is lost, and the rest is there.
#[test]
fn after_an_error_the_volume_is_opened_again_with_its_key() {
    let disk = format(SimDisk::new(DISK, 1));
    let mut store = Store::open(open(disk.clone(), 1).unwrap()).unwrap();
    let namespace = store.create_namespace("home", 1 << 20).unwrap();
    let mounts = store.with_blocks(OnVolume::mounts);
    let put = |store: &mut Store<OnVolume<SharedDisk>>, key: &[u8], durability| {
        let mut write = store.begin()?;
        write.put(namespace, "t", key, b"x")?;
        write.commit(durability)
    };
    put(&mut store, b"durable", Durability::Now).unwrap();
    put(&mut store, b"later", Durability::Later).unwrap();
    disk.lock().set_fuse(Some(1));
    assert!(matches!(put(&mut store, b"lost", Durability::Now), Err(StoreError::Blocks(BlockError::Medium(_)))));
    assert!(matches!(store.snapshot(), Err(StoreError::Blocks(_))), "the disk is still gone");
    let left = disk.lock().clone();
    *disk.lock() = left.crash_with(|_| 0xff);
    let keys: Vec<_> = contents(&mut store, namespace).unwrap().into_keys().collect();
    assert_eq!(keys, [b"durable".to_vec()]);
    assert!(store.with_blocks(OnVolume::mounts) > mounts);
    put(&mut store, b"again", Durability::Now).unwrap();
    // A block that is not what was written is damage, with its number.
    let header = store.with_blocks_mut(|blocks| blocks.volume().unwrap().header().clone());
    let physical = header.geometry.physical();
    for number in 2..physical - 2 {
        let mut block = [0; BLOCK];
        disk.lock().read(number, &mut block).unwrap();
        block[7] ^= 1;
        disk.lock().write(number, &block).unwrap();
    }
    drop(store);
    assert!(matches!(open(disk, 3), Err(capos_volume::Error::Block { .. })));
}

/// A disk that cannot be written shows what is on it, and takes nothing.
#[test]
fn a_volume_that_is_open_for_reading_is_read() {
    let disk = format(SimDisk::new(DISK, 1));
    let mut store = Store::open(open(disk.clone(), 1).unwrap()).unwrap();
    let namespace = store.create_namespace("home", 1 << 20).unwrap();
    let mut write = store.begin().unwrap();
    write.put(namespace, "t", b"a", b"x").unwrap();
    write.commit(Durability::Now).unwrap();
    drop(store);
    let before = disk.lock().image().clone();
    let blocks = open_with(disk.clone(), 2, Options { access: Access::Read, ..OPTIONS }).unwrap();
    assert!(blocks.is_read_only());
    let mut store = Store::open(blocks).unwrap();
    assert_eq!(contents(&mut store, namespace).unwrap().len(), 1);
    let mut write = store.begin().unwrap();
    write.put(namespace, "t", b"b", b"y").unwrap();
    assert!(write.commit(Durability::Now).is_err());
    assert_eq!(contents(&mut store, namespace).unwrap().len(), 1);
    assert_eq!(*disk.lock().image(), before);
}

#[test]
fn blocks_of_a_large_value_share_requests_to_the_disk() {
    const VALUES: u8 = 40;
    let disk = format(SimDisk::new(6000, 1));
    // As many nodes as the store's service keeps.
    let options = Options { cache_nodes: 256, ..OPTIONS };
    let mut store = Store::open(open_with(disk.clone(), 1, options).unwrap()).unwrap();
    let namespace = store.create_namespace("home", 1 << 30).unwrap();
    let value = |key: u8| vec![key; 15 * BLOCK];
    let requests = || disk.lock().requests;
    let before = requests();
    for key in 0..VALUES {
        let mut write = store.begin().unwrap();
        write.put(namespace, "t", &[key], &value(key)).unwrap();
        write.commit(Durability::Later).unwrap();
    }
    store.sync().unwrap();
    let (written, before) = (requests() - before, requests());
    for key in 0..VALUES {
        assert_eq!(store.snapshot().unwrap().get(namespace, "t", &[key]).unwrap(), Some(value(key)));
    }
    let (read, values) = (requests() - before, u64::from(VALUES));
    // Four values fill a request to write.
    assert!(
        written < values / 2 && read < 2 * values,
        "{written} requests to write {values} values, {read} to read them"
    );
    // A small commit is two requests, whatever it changes in the database.
    let before = requests();
    for key in 0..VALUES {
        let mut write = store.begin().unwrap();
        write.put(namespace, "small", &[key], &[key; 100]).unwrap();
        write.commit(Durability::Now).unwrap();
    }
    let (written, most) = (requests() - before, 3 * values);
    assert!(written < most, "{written} requests for {values} small commits");
}

/// The database doubles its file, and the half that it does not use takes no memory.
#[test]
fn a_store_in_memory_holds_what_namespaces_may_take() {
    for value in [40, 1000, 20_000, 70_000] {
        let mut store = Store::open(MemoryBlocks::new(2000)).unwrap();
        let namespace = store.create_namespace("a", u64::MAX).unwrap();
        let mut put = |key: u32| {
            let mut write = store.begin()?;
            for key in key * 8..key * 8 + 8 {
                write.put(namespace, "t", &key.to_be_bytes(), &vec![7; value])?;
            }
            write.commit(Durability::Now)
        };
        let full = (0..).map(&mut put).find_map(Result::err).unwrap();
        assert!(matches!(full, StoreError::Full { .. }), "{value}: {full}");
    }
}

/// Rewriting the entries of a full namespace needs no more room, however often it is done, although nothing of it is durable.
#[test]
fn a_full_store_takes_small_changes_that_are_not_durable() {
    let mut store = Store::open(MemoryBlocks::new(4000)).unwrap();
    let namespace = store.create_namespace("a", u64::MAX).unwrap();
    let mut put = |key: u32, round: u8| {
        let mut write = store.begin()?;
        write.put(namespace, "t", &key.to_be_bytes(), &[round; 700])?;
        write.commit(Durability::Later)
    };
    let entries = (0..).find(|key| put(*key, 0).is_err()).unwrap();
    for round in 1..3 {
        (0..entries).for_each(|key| put(key, round).unwrap());
    }
    store.sync().unwrap();
    assert_eq!(store.losses(), 0);
    let found = store.snapshot().unwrap().range(namespace, "t", Query::from(Bound::Unbounded, usize::MAX)).unwrap().0;
    assert_eq!(found.len(), entries as usize);
}

/// The limit of the service's memory follows from it.
#[test]
fn a_store_in_memory_takes_the_memory_of_its_blocks_at_most() {
    for (value, entries, blocks) in [(700, 250, 1000), (60_000, 40, 2000)] {
        let mut store = Store::open(MemoryBlocks::new(blocks)).unwrap();
        let namespace = store.create_namespace("a", u64::MAX).unwrap();
        let (mut snapshots, mut is_full) = (Vec::new(), false);
        // Each snapshot keeps what is written over.
        for round in 0..40_u8 {
            let mut write = store.begin().unwrap();
            let put = (0..entries).try_for_each(|at| write.put(namespace, "t", &[round % 3, at], &vec![round; value]));
            let done =
                put.and_then(|()| write.commit(if round % 2 == 0 { Durability::Now } else { Durability::Later }));
            is_full |= done.is_err();
            assert!(store.with_blocks(MemoryBlocks::held) <= blocks, "{value}, {round}");
            snapshots.extend(store.snapshot().ok());
        }
        assert!(is_full, "{value}");
    }
}

/// The same of a volume: its size is not that of any file that the database has while it doubles it.
#[test]
fn a_volume_holds_what_namespaces_may_take() {
    for (disk, value) in [(2100, 1000), (3000, 65_000), (3000, 40), (4000, 20_000), (5000, 1000)] {
        let disk = format(SimDisk::new(disk, 1));
        let mut store = Store::open(open(disk.clone(), 1).unwrap()).unwrap();
        let namespace = store.create_namespace("a", u64::MAX).unwrap();
        let put = |store: &mut Store<OnVolume<SharedDisk>>, key: u32| {
            let mut write = store.begin()?;
            for key in key * 8..key * 8 + 8 {
                write.put(namespace, "t", &key.to_be_bytes(), &vec![7; value])?;
            }
            write.commit(Durability::Now)
        };
        let (full, count) = (0..).find_map(|key| put(&mut store, key).err().zip(Some(key))).unwrap();
        assert!(matches!(full, StoreError::Full { .. }), "{value}: {full} after {count}");
        // The next start finds all of it.
        drop(store);
        let mut store = Store::open(open(disk, 2).unwrap()).unwrap();
        assert_eq!(contents(&mut store, namespace).unwrap().len(), count as usize * 8);
    }
}

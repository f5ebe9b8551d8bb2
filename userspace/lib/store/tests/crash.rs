//! The store on the real volume, on a simulated disk that loses power at any write. After each crash all acknowledged commits
//! are there, and nothing of others, except the commit in progress as a whole.
//!
//! `CRASHES=1000000` runs longer, `CRASH_SEED=7` runs one seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_store::{BLOCK_BYTES, BlockError, Blocks, Durability, Namespace, Query, Store, StoreError};
use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, CipherKind, Cost, Format, Locked, Options, Secret, Volume};

const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);
/// Disk blocks of a volume.
const DISK: u64 = 1200;
/// Crashes in a run of all tests.
const CRASHES: u64 = 5000;

/// A volume as blocks.
struct OnVolume {
    /// None while it is opened again.
    volume: Option<Volume<SimDisk>>,
    /// Where sequence numbers begin; another one for each opening.
    start: u64,
    /// Operations of the disk from the next write on until the power goes; the largest number for none.
    fuse: Arc<AtomicU64>,
}

impl fmt::Debug for OnVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnVolume")
    }
}

fn open(disk: SimDisk, start: u64) -> Result<Volume<SimDisk>, capos_volume::Error> {
    let locked = Locked::read(disk)?;
    let key = locked.unlock(&KEY, None, 1 << 20)?;
    locked.open(key, Options { access: Access::Write, cache_nodes: 4 }, &mut |bytes| Seed(start).fill(bytes))
}

impl OnVolume {
    fn volume(&mut self) -> Result<&mut Volume<SimDisk>, BlockError> {
        self.volume.as_mut().ok_or_else(|| BlockError::Medium("the volume is not open".into()))
    }
}

fn failed(error: impl fmt::Display) -> BlockError {
    BlockError::Medium(error.to_string())
}

impl Blocks for OnVolume {
    fn blocks(&self) -> u64 {
        self.volume.as_ref().map_or(0, Volume::len)
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.volume()?.read(block, out).map_err(failed)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        let fuse = self.fuse.swap(u64::MAX, Ordering::Relaxed);
        let volume = self.volume()?;
        if fuse != u64::MAX {
            volume.disk_mut().set_fuse(Some(fuse));
        }
        volume.write(block, data).map_err(failed)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        self.volume()?.sync().map_err(failed)
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        let volume = self.volume.take().ok_or_else(|| failed("the volume is not open"))?;
        self.start += 1;
        self.volume = Some(open(volume.into_disk(), self.start).map_err(failed)?);
        Ok(())
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(store: &mut Store<OnVolume>, namespace: Namespace) -> Result<Model, StoreError> {
    Ok(store.snapshot()?.range(namespace, "t", Query::from(Bound::Unbounded, usize::MAX))?.0.into_iter().collect())
}

fn opened(volume: Volume<SimDisk>, start: u64) -> Result<(Store<OnVolume>, Arc<AtomicU64>), StoreError> {
    let fuse = Arc::new(AtomicU64::new(u64::MAX));
    Ok((Store::open(OnVolume { volume: Some(volume), start, fuse: fuse.clone() })?, fuse))
}

/// One commit of random changes. Whether it is durable.
fn commit(
    store: &mut Store<OnVolume>,
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
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "test", cache_nodes: 4 };
    let disk = SimDisk::new(DISK, seed.number());
    let volume = Volume::format(disk, format, &KEY, &mut |bytes| Seed(1).fill(bytes)).unwrap();
    let (mut store, mut fuse) = opened(volume, seed.number()).unwrap();
    let namespace = store.create_namespace("home", 1 << 20).unwrap();
    let (mut durable, mut in_progress) = (Model::new(), 0);
    for crash in 0..crashes {
        fuse.store(seed.below(120), Ordering::Relaxed);
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
        let disk = store.abandon().unwrap().volume.unwrap().into_disk();
        assert!(disk.is_dead(), "seed {start}, crash {crash}: an operation failed without a power cut");
        let volume =
            open(disk.crash(), seed.number()).unwrap_or_else(|error| panic!("seed {start}, crash {crash}: {error}"));
        (store, fuse) =
            opened(volume, seed.number()).unwrap_or_else(|error| panic!("seed {start}, crash {crash}: {error}"));
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

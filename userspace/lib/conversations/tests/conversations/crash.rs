//! Conversations on the real volume, on a simulated disk that loses power at any write: after each crash every message
//! that was acknowledged is there, and each conversation is whole.
//!
//! `CRASHES=100000` runs longer, `CRASH_SEED=7` runs one seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_conversations::{Conversations, Owner, Part, Quota};
use capos_keyspace::local::LocalKeyspace;
use capos_store::{BLOCK_BYTES, BlockError, Blocks, Store};
use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, CipherKind, Cost, Format, Locked, Options, Secret, Volume};

use crate::world::{done, id, json, list, read};

const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);
/// Disk blocks of a volume.
const DISK: u64 = 2400;
/// Crashes in a run of all tests.
const CRASHES: u64 = 1200;

struct OnVolume {
    volume: Option<Volume<SimDisk>>,
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
    locked.open(key, Options { access: Access::Write, cache_nodes: 16 }, &mut |bytes| Seed(start).fill(bytes))
}

fn failed(error: impl fmt::Display) -> BlockError {
    BlockError::Medium(error.to_string())
}

impl OnVolume {
    fn volume(&mut self) -> Result<&mut Volume<SimDisk>, BlockError> {
        self.volume.as_mut().ok_or_else(|| failed("the volume is not open"))
    }
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

type OnDisk = Rc<RefCell<Store<OnVolume>>>;
type Model = BTreeMap<String, Vec<String>>;

fn conversations(store: &OnDisk) -> Conversations<LocalKeyspace<OnVolume>> {
    Conversations::new(LocalKeyspace::new(store.clone(), "conversations", 4 << 20).unwrap(), Quota::default())
}

/// One random change. The model is as it will be when it is done.
fn change(
    conversations: &Conversations<LocalKeyspace<OnVolume>>,
    owner: Owner,
    (before, after): (&Model, &mut Model),
    seed: &mut Seed,
    now: u64,
) -> Result<(), capos_conversations::Error> {
    let chosen = id(seed.below(4) as u8);
    let Some(messages) = before.get(&chosen) else {
        after.insert(chosen.clone(), Vec::new());
        return done(conversations.create(owner, &chosen, "", now)).map(drop);
    };
    let fork = id(4 + seed.below(3) as u8);
    match seed.below(8) {
        0 => {
            after.remove(&chosen);
            done(conversations.remove(owner, &chosen, now))
        }
        1 if before.contains_key(&fork) => {
            after.remove(&fork);
            done(conversations.remove(owner, &fork, now))
        }
        1 => {
            let count = seed.below(messages.len() as u64 + 1) as usize;
            after.insert(fork.clone(), messages[..count].to_vec());
            done(conversations.fork(owner, &chosen, count as u32, (&fork, ""), now)).map(drop)
        }
        _ => {
            let text = json(&"m".repeat(seed.below(3000) as usize));
            let index = messages.len() as u32;
            after.get_mut(&chosen).unwrap().push(text.clone());
            let part = Part { index, part: 0, last: true, text };
            done(conversations.append(owner, &chosen, &part, "m", None, now)).map(drop)
        }
    }
}

fn live(start: u64, crashes: u64) -> u64 {
    let mut seed = Seed(start);
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "test", cache_nodes: 16 };
    let disk = SimDisk::new(DISK, seed.number());
    let volume = Volume::format(disk, format, &KEY, &mut |bytes| Seed(1).fill(bytes)).unwrap();
    let fuse = Arc::new(AtomicU64::new(u64::MAX));
    let on = |volume, start| {
        let blocks = OnVolume { volume: Some(volume), start, fuse: fuse.clone() };
        Rc::new(RefCell::new(Store::open(blocks).unwrap()))
    };
    let mut store = on(volume, seed.number());
    let owner = done(conversations(&store).owner("ann", 0)).unwrap();
    let (mut known, mut now, mut in_progress) = (Model::new(), 0, 0);
    for crash in 0..crashes {
        let tables = conversations(&store);
        // The tables are open before the power may go.
        done(tables.owner("ann", now)).unwrap();
        fuse.store(seed.below(160), Ordering::Relaxed);
        let lost = loop {
            now += 1;
            let mut after = known.clone();
            match change(&tables, owner, (&known, &mut after), &mut seed, now) {
                Ok(()) => known = after,
                Err(_) => break after,
            }
        };
        drop(tables);
        let whole = Rc::into_inner(store).unwrap().into_inner();
        let disk = whole.abandon().unwrap().volume.unwrap().into_disk();
        assert!(disk.is_dead(), "seed {start}, crash {crash}: an operation failed without a power cut");
        store = on(open(disk.crash(), seed.number()).unwrap(), seed.number());
        let tables = conversations(&store);
        let mut found = Model::new();
        for info in list(&tables, owner, now) {
            let messages = read(&tables, owner, &info.id, now);
            found.insert(info.id, messages.unwrap_or_else(|why| panic!("seed {start}, crash {crash}: {why}")));
        }
        if found != known {
            let short = |model: &Model| {
                format!("{:?}", model.iter().map(|(id, all)| (id[..2].to_string(), all.len())).collect::<Vec<_>>())
            };
            assert!(
                found == lost,
                "seed {start}, crash {crash}: the state is of no change: {} {} {}",
                short(&found),
                short(&known),
                short(&lost)
            );
            known = found;
            in_progress += 1;
        }
    }
    in_progress
}

#[test]
fn every_acknowledged_message_survives_a_crash() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let crashes = number("CRASHES").unwrap_or(CRASHES);
    let seeds = number("CRASH_SEED").map_or(0..4, |seed| seed..seed + 1);
    let each = crashes / (seeds.end - seeds.start);
    let in_progress: u64 = seeds.clone().map(|seed| live(seed, each)).sum();
    let all = each * (seeds.end - seeds.start);
    println!("{all} crashes, {in_progress} with the change in progress");
    assert!(in_progress > 0 && in_progress < all, "crashes on both sides of a change: {in_progress} of {all}");
}

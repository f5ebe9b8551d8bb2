//! The audit log on the store on the real volume, on a simulated disk that loses power at any write. After each crash every
//! acknowledged record is there, the chain is whole, and its head is the one that was acknowledged last, or the one in
//! progress.
//!
//! `CRASHES=100000` runs longer, `CRASH_SEED=7` runs one seed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use capos_audit::{Filter, Head, Journal, Life, Reader, Room, verify_lines};
use capos_keyspace::local::LocalKeyspace;
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_store::{OnVolume, Store};
use capos_volume::sim::{Seed, SharedDisk, SimDisk};
use capos_volume::{Access, CipherKind, Cost, Format, Locked, Options, Secret, Volume};

use crate::support::done;

const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);
/// Disk blocks of a volume.
const DISK: u64 = 3000;
/// Crashes in a run of all tests.
const CRASHES: u64 = 600;
/// A disk on which a log lives through this many crashes is then full.
const OF_ONE_DISK: u64 = 25;

const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 4 };

fn random(start: u64) -> impl FnMut(&mut [u8]) {
    let mut seed = Seed(start);
    move |bytes| seed.fill(bytes)
}

type Space = LocalKeyspace<OnVolume<SharedDisk>>;

/// The namespace of the log on a disk.
fn open(disk: &SharedDisk, start: u64) -> Result<Space, Box<dyn Error>> {
    let locked = Locked::read(disk.clone()).map_err(|error| error.to_string())?;
    let key = locked.unlock(&KEY, None, 1 << 20).map_err(|error| error.to_string())?;
    let volume = locked.open(key, OPTIONS, &mut random(start)).map_err(|error| error.to_string())?;
    let store = Store::open(OnVolume::new(volume, disk.clone(), OPTIONS, Box::new(random(start + 1))))?;
    Ok(LocalKeyspace::new(Rc::new(RefCell::new(store)), "audit", 3 << 20)?)
}

type Log = Journal<Space>;

/// Appends random records until the power goes; what was acknowledged is added to `heads`.
fn work(log: &mut Log, heads: &mut Vec<Head>, boot: u64, seed: &mut Seed) {
    let mut begun: Option<ToolEvent> = None;
    for number in 0.. {
        let id = format!("{boot} {number}");
        let text = "x".repeat(seed.below(3000) as usize);
        let appended = match (seed.below(3), begun.take()) {
            (0, event) => {
                begun = event;
                let event = GeneralEvent { kind: "message".into(), session: id, ..GeneralEvent::default() };
                done(log.append_general(number, event))
            }
            (_, Some(event)) => done(log.append_tool(number, event)),
            (_, None) => {
                let event = ToolEvent {
                    phase: Phase::Before,
                    session: "s".into(),
                    call_id: id,
                    arguments: text,
                    decided: true,
                    ..ToolEvent::default()
                };
                let head = done(log.append_tool(number, event.clone()));
                let before = head.as_ref().map_or(0, |head| head.sequence);
                begun = Some(ToolEvent { phase: Phase::After, before, ..event });
                head
            }
        };
        match appended {
            Ok(head) => heads.push(head),
            Err(_) => return,
        }
    }
}

/// One log that lives through crashes. Gives how often the record in progress was there after one.
fn live(start: u64, crashes: u64) -> u64 {
    let mut seed = Seed(start);
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "test", cache_nodes: 4 };
    let disk = SimDisk::new(DISK, seed.number());
    let mut disk = SharedDisk::new(Volume::format(disk, format, &KEY, &mut random(1)).unwrap().into_disk());
    let mut space = open(&disk, seed.number()).unwrap();
    let (mut heads, mut in_progress): (Vec<Head>, u64) = (Vec::new(), 0);
    for crash in 0..crashes {
        let mut log = Journal::new(space, Room::Shared(0), Life { earlier: 0, boot: 0, start: 0 });
        match done(log.ready()) {
            Ok(()) => heads.extend(log.stored().head()),
            Err(error) => panic!("seed {start}, crash {crash}: {error}"),
        }
        disk.lock().set_fuse(Some(seed.below(160)));
        work(&mut log, &mut heads, crash, &mut seed);
        drop(log);
        let left = disk.lock().clone();
        assert!(left.is_dead(), "seed {start}, crash {crash}: an operation failed without a power cut");
        disk = SharedDisk::new(left.crash());
        space = open(&disk, seed.number()).unwrap_or_else(|error| panic!("seed {start}, crash {crash}: {error}"));
        // Every acknowledged record is in its place.
        let reader = Reader::new(space.clone());
        let lines = done(reader.query(&Filter::default(), usize::MAX, usize::MAX)).unwrap().lines;
        let head = done(reader.head()).unwrap();
        let summary =
            verify_lines(&lines, Some(head)).unwrap_or_else(|why| panic!("seed {start}, crash {crash}: {why}"));
        for head in &heads {
            let line = lines.get(usize::try_from(head.sequence).unwrap() - 1);
            let hash = hex::encode(head.hash);
            assert!(line.is_some_and(|line| line.contains(&hash)), "seed {start}, crash {crash}: {head:?} is gone");
        }
        let last = heads.last().unwrap().sequence;
        assert!(summary.records == last || summary.records == last + 1, "seed {start}, crash {crash}: {summary:?}");
        in_progress += summary.records - last;
        if summary.records > last {
            heads.push(head);
        }
    }
    in_progress
}

#[test]
fn every_crash_leaves_all_acknowledged_records() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let crashes = number("CRASHES").unwrap_or(CRASHES);
    let seeds = number("CRASH_SEED").map_or(0..crashes.div_ceil(OF_ONE_DISK), |seed| seed..seed + 1);
    let all = OF_ONE_DISK * (seeds.end - seeds.start);
    let in_progress: u64 = seeds.map(|seed| live(seed, OF_ONE_DISK)).sum();
    println!("{all} crashes, {in_progress} with the record in progress");
    assert!(in_progress > 0 && in_progress < all, "crashes on both sides of a commit: {in_progress} of {all}");
}

//! Power cuts at any write, in syncs and in openings.

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, Error, Geometry};

use crate::common::{KEY, Model, change, content, format, open, open_as, read_all, times};

/// Disk blocks of the volumes: one level, two levels, and three with the smallest cache.
const SIZES: [u64; 4] = [10, 40, 300, 33_600];

/// One volume that lives through crashes: after each of them it opens and holds the state of the last acknowledged
/// sync, or of the sync in progress. Returns how many crash images there were.
fn live(start: u64, images: u64) -> [u64; 4] {
    let mut seed = Seed(start);
    let blocks = SIZES[seed.below(SIZES.len() as u64) as usize];
    let mut volume = format(SimDisk::new(blocks, seed.number()));
    let mut acknowledged = Model::new();
    let (mut crashes, mut in_openings, mut new_states, mut cut_syncs) = (0, 0, 0, 0);
    while crashes < images {
        let mut model = acknowledged.clone();
        let mut in_flight = None;
        let fuse = seed.below(24);
        let mut disk = {
            let mut volume = with_fuse(volume, fuse, seed.number());
            'power: loop {
                for _ in 0..=seed.below(3) {
                    if change(&mut volume, &mut model, &mut seed).is_err() {
                        break 'power;
                    }
                }
                // Few blocks live, so that comparing them all is quick.
                while model.len() > 24 {
                    let (index, _) = model.iter().nth(seed.below(24) as usize).map(|(i, n)| (*i, *n)).unwrap();
                    model.remove(&index);
                    if volume.discard(index, 1).is_err() {
                        break 'power;
                    }
                }
                in_flight = Some(model.clone());
                if volume.sync().is_err() {
                    cut_syncs += 1;
                    break 'power;
                }
                acknowledged = in_flight.take().unwrap();
            }
            volume.into_disk()
        };
        assert!(disk.is_dead(), "seed {start}: an operation failed without a power cut");
        crashes += 1;
        disk = disk.crash();
        // The power may go again while the volume is opened.
        volume = loop {
            let mut attempt = disk.clone();
            attempt.set_fuse(seed.once_in(3).then(|| seed.below(5)));
            let mut again = attempt.clone();
            match open_as(&mut attempt, Access::Write, seed.number()) {
                Ok(_) => {
                    again.set_fuse(None);
                    break open_as(again, Access::Write, seed.number())
                        .unwrap_or_else(|error| panic!("seed {start}, crash {crashes}: {error}"));
                }
                Err(error) => {
                    assert!(attempt.is_dead(), "seed {start}, crash {crashes}: {error}");
                    crashes += 1;
                    in_openings += 1;
                    disk = attempt.crash();
                }
            }
        };
        let all = read_all(&mut volume).unwrap_or_else(|error| panic!("seed {start}, crash {crashes}: {error}"));
        if all != acknowledged {
            assert!(
                Some(&all) == in_flight.as_ref(),
                "seed {start}, crash {crashes}: the state is of no completed sync"
            );
            acknowledged = all;
            new_states += 1;
        }
    }
    [crashes, in_openings, cut_syncs, new_states]
}

/// Opens the volume again over the same disk, with a fuse.
fn with_fuse(volume: capos_volume::Volume<SimDisk>, fuse: u64, start: u64) -> capos_volume::Volume<SimDisk> {
    let mut disk = volume.into_disk();
    disk.set_fuse(None);
    let mut volume = open_as(disk, Access::Write, start).unwrap();
    volume.disk_mut().set_fuse(Some(fuse));
    volume
}

/// 20,000 crash images, or `CRASHES=1000000`; `CRASH_SEED=n` runs that seed alone.
#[test]
fn every_crash_leaves_a_completed_sync() {
    const IMAGES: u64 = 250;
    let crashes = times("CRASHES", 20_000);
    let mut sums = [0; 4];
    let (seeds, images) = match std::env::var("CRASH_SEED") {
        Ok(seed) => (vec![seed.parse().unwrap()], times("CRASHES", IMAGES)),
        Err(_) => ((0..crashes.div_ceil(IMAGES)).collect(), IMAGES),
    };
    for seed in seeds {
        for (sum, count) in sums.iter_mut().zip(live(seed, images)) {
            *sum += count;
        }
    }
    println!("crash images, in openings, in syncs, new states: {sums:?}");
    assert!(std::env::var("CRASH_SEED").is_ok() || (sums[0] >= crashes && sums.iter().all(|sum| *sum > crashes / 100)));
}

/// Every crash of one sync, with every combination of torn and whole writes that halves of blocks allow.
#[test]
fn every_combination_of_torn_writes_of_one_sync() {
    let mut volume = format(SimDisk::new(12, 1));
    let old = Model::from([(0, 1)]);
    let new = Model::from([(0, 2), (1, 3)]);
    volume.write(0, &content(1)).unwrap();
    volume.sync().unwrap();
    let before = volume.into_disk();
    let (mut images, mut news) = (0, 0);
    for fuse in 0..16 {
        let mut volume = open(before.clone()).unwrap();
        volume.disk_mut().set_fuse(Some(fuse));
        let written = volume.write(0, &[content(2), content(3)].concat()).and_then(|()| volume.sync());
        let dead = volume.into_disk();
        for choice in 0..4_u32.pow(dead.pending() as u32) {
            let kept = |write: usize| [0, 0x0f, 0xf0, 0xff][(choice >> (2 * write)) as usize & 3];
            let mut volume = open(dead.clone().crash_with(kept)).unwrap();
            let all = read_all(&mut volume).unwrap();
            let is_new = all == new;
            assert!(is_new || (written.is_err() && all == old), "fuse {fuse}, choice {choice}");
            images += 1;
            news += u32::from(is_new);
        }
    }
    assert!(images > 100 && news > 10 && news < images, "{images} {news}");
}

/// Opening writes one header and nothing else; opening for reading writes nothing.
#[test]
fn opening_takes_the_same_operations_for_every_size() {
    let counts = SIZES.map(|blocks| {
        let mut volume = format(SimDisk::new(blocks, 1));
        volume.write(volume.len() - 1, &content(1)).unwrap();
        volume.sync().unwrap();
        let image = volume.into_disk().image().clone();
        let disk = SimDisk::from_image(blocks, image.clone(), Seed(1));
        let writing = open(disk.clone()).unwrap().into_disk();
        let reading = open_as(disk, Access::Read, 1).unwrap();
        assert_eq!(reading.head().epoch + 1, open(SimDisk::from_image(blocks, image, Seed(1))).unwrap().head().epoch);
        let reading = reading.into_disk();
        assert_eq!((reading.writes, reading.flushes), (0, 0));
        (writing.reads, writing.writes, writing.flushes)
    });
    // A flush before the header of the mount, and one after it.
    assert_eq!(counts, [(7, 2, 2); 4]);
}

/// A failed write stops all later ones, and the volume opens again with the last sync.
#[test]
fn after_a_failed_write_only_reading_goes_on() {
    let mut volume = format(SimDisk::new(40, 1));
    volume.write(3, &content(1)).unwrap();
    volume.sync().unwrap();
    volume.disk_mut().set_fuse(Some(0));
    volume.write(3, &content(2)).unwrap();
    assert!(matches!(volume.sync(), Err(Error::Disk { .. })));
    assert_eq!(volume.write(3, &content(2)), Err(Error::Failed));
    assert_eq!(volume.discard(3, 1), Err(Error::Failed));
    assert_eq!(volume.sync(), Err(Error::Failed));
    assert_eq!(volume.add_slot(&KEY, capos_volume::Cost::LEAST, "", &mut |_| {}), Err(Error::Failed));
    let mut volume = open(volume.into_disk().crash()).unwrap();
    let mut block = content(9);
    volume.read(3, &mut block).unwrap();
    assert_eq!(block, content(1));
    assert!(Geometry::largest(38).unwrap().blocks() == volume.len());
}

//! The volume does what a map of blocks does.

use std::collections::BTreeSet;

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, BLOCK, CipherKind, Error, Volume, choose};
use proptest::prelude::*;

use crate::common::{Model, change, content, format, format_with, open, open_as, read_all};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any operations leave what a plain map has, before and after each sync and each opening, with any cache.
    #[test]
    fn a_volume_is_a_map_of_blocks(start: u64, blocks in 10_u64..700, cache in 0_usize..6, chacha: bool) {
        let cipher = if chacha { CipherKind::ChaCha20Poly1305 } else { CipherKind::Aes256Gcm };
        let mut seed = Seed(start);
        let mut volume = format_with(SimDisk::new(blocks, start), cipher, cache);
        let (mut model, mut durable) = (Model::new(), Model::new());
        for _ in 0..40 {
            match seed.below(8) {
                0 => {
                    volume.sync().unwrap();
                    durable = model.clone();
                }
                1 => {
                    volume = open_as(volume.into_disk(), Access::Write, seed.number()).unwrap();
                    model = durable.clone();
                }
                2 => {
                    let first = seed.below(volume.len());
                    let mut block = vec![1; BLOCK];
                    volume.read(first, &mut block).unwrap();
                    prop_assert_eq!(block, model.get(&first).map_or(vec![0; BLOCK], |number| content(*number)));
                }
                _ => change(&mut volume, &mut model, &mut seed).unwrap(),
            }
            prop_assert!(volume.cached_nodes() <= cache.max(3));
        }
        prop_assert_eq!(read_all(&mut volume).unwrap(), model.clone());
        volume.sync().unwrap();
        let mut volume = open_as(volume.into_disk(), Access::Read, 0).unwrap();
        prop_assert_eq!(read_all(&mut volume).unwrap(), model);
    }
}

#[test]
fn ranges_and_lengths_are_checked() {
    let mut volume = format(SimDisk::new(40, 1));
    let blocks = volume.len();
    let mut two = vec![0; 2 * BLOCK];
    let beyond = Error::OutOfRange { first: blocks - 1, count: 2, blocks };
    assert_eq!(volume.read(blocks - 1, &mut two), Err(beyond));
    assert_eq!(volume.write(blocks - 1, &two), Err(beyond));
    assert_eq!(volume.discard(blocks - 1, 2), Err(beyond));
    assert!(volume.read(u64::MAX, &mut two).is_err() && volume.discard(u64::MAX, 2).is_err());
    assert_eq!(volume.read(0, &mut two[1..]), Err(Error::Length { bytes: 2 * BLOCK - 1 }));
    assert_eq!(volume.write(0, &two[1..]), Err(Error::Length { bytes: 2 * BLOCK - 1 }));
    volume.write(blocks - 2, &two).unwrap();
    volume.read(blocks, &mut []).unwrap();
    assert!(!volume.is_empty());
}

#[test]
fn a_volume_opened_for_reading_is_not_written() {
    let mut volume = open_as(format(SimDisk::new(40, 1)).into_disk(), Access::Read, 1).unwrap();
    assert_eq!(volume.write(0, &content(1)), Err(Error::ReadOnly));
    assert_eq!(volume.discard(0, 1), Err(Error::ReadOnly));
    assert_eq!(volume.sync(), Err(Error::ReadOnly));
    assert_eq!(volume.remove_slot(0), Err(Error::LastSlot));
    assert_eq!(volume.into_disk().pending(), 0);
}

#[test]
fn a_sync_without_changes_writes_nothing() {
    let mut volume = format(SimDisk::new(40, 1));
    volume.write(0, &content(1)).unwrap();
    volume.sync().unwrap();
    let (head, writes) = (volume.head(), volume.disk_mut().writes);
    volume.sync().unwrap();
    volume.discard(5, 3).unwrap();
    volume.sync().unwrap();
    assert_eq!((volume.head(), volume.disk_mut().writes), (head, writes));
}

/// One changed block costs the block, its path through the tree, two header copies and two flushes.
#[test]
fn a_sync_writes_the_path_and_the_header() {
    let mut volume = format(SimDisk::new(33_600, 1));
    for _ in 0..3 {
        let (writes, flushes) = (volume.disk_mut().writes, volume.disk_mut().flushes);
        volume.write(5, &content(1)).unwrap();
        volume.sync().unwrap();
        assert_eq!((volume.disk_mut().writes - writes, volume.disk_mut().flushes - flushes), (1 + 3 + 2, 2));
    }
    // Consecutive blocks are read in one operation, 63 at most.
    volume.write(0, &content(1).repeat(128)).unwrap();
    volume.sync().unwrap();
    let mut volume = open(volume.into_disk()).unwrap();
    let mut all = vec![0; 128 * BLOCK];
    volume.read(0, &mut all).unwrap();
    let reads = volume.disk_mut().reads;
    volume.read(0, &mut all).unwrap();
    assert!(volume.disk_mut().reads - reads <= 5, "{}", volume.disk_mut().reads - reads);
}

/// All that a sync writes before the header is one request, however scattered, and both copies of the header are another.
/// A block that is written again before the sync is sealed once.
#[test]
fn a_sync_is_two_requests() {
    let mut volume = format_with(SimDisk::new(33_600, 1), CipherKind::Aes256Gcm, 16);
    for round in 1..4 {
        for _ in 0..3 {
            for block in [2000, 7, 9, 130, 8] {
                volume.write(block, &content(round)).unwrap();
            }
        }
        let mut block = content(0);
        volume.read(9, &mut block).unwrap();
        assert_eq!(block, content(round));
        let (writes, requests) = (volume.disk_mut().writes, volume.disk_mut().requests);
        volume.sync().unwrap();
        // Five blocks, three leaves, two nodes above them, and the header.
        let disk = volume.disk_mut();
        assert_eq!((disk.writes - writes, disk.requests - requests), (5 + 3 + 2 + 2, 2));
    }
    // Blocks that lie in different slots are read by one request too.
    volume.write(0, &content(9).repeat(20)).unwrap();
    volume.sync().unwrap();
    let requests = volume.disk_mut().requests;
    let mut all = vec![0; 20 * BLOCK];
    volume.read(0, &mut all).unwrap();
    assert_eq!((volume.disk_mut().requests - requests, all), (1, content(9).repeat(20)));
}

/// What waits for the sync has a bound, and is read as it was written last.
#[test]
fn writes_that_wait_are_bounded() {
    let mut volume = format(SimDisk::new(33_600, 1));
    for block in 0..1000 {
        volume.write(block * 3 % 1000, &content(block % 200)).unwrap();
    }
    let handed = volume.disk_mut().writes;
    assert!(handed > 1000 - 48 - 63, "{handed}");
    volume.write(500, &content(201).repeat(100)).unwrap();
    volume.discard(600, 10).unwrap();
    let all = |volume: &mut Volume<SimDisk>| {
        for block in 0..1000 {
            let at = block * 3 % 1000;
            let expected = match at {
                500..600 => content(201),
                600..610 => vec![0; BLOCK],
                _ => content(block % 200),
            };
            let mut found = content(9);
            volume.read(at, &mut found).unwrap();
            assert!(found == expected, "{at}");
        }
    };
    all(&mut volume);
    volume.sync().unwrap();
    all(&mut volume);
    all(&mut open(volume.into_disk().crash()).unwrap());
}

/// No two blocks that were ever on the disk are sealed with the same nonce, crashes included: equal content never
/// gives equal blocks.
#[test]
fn no_nonce_repeats() {
    let mut disk = SimDisk::new(300, 1);
    let mut volume = format(&mut disk);
    volume.write(0, &content(1)).unwrap();
    volume.sync().unwrap();
    drop(volume);
    let mut seen = BTreeSet::new();
    let mut seed = Seed(5);
    for round in 0..400 {
        // The same random bytes at each opening: the mount counter alone tells them apart.
        let mut volume = open(disk).unwrap();
        volume.disk_mut().set_fuse(Some(seed.below(20)));
        for _ in 0..3 {
            let _ = volume.write(0, &content(1)).and_then(|()| volume.sync());
        }
        disk = volume.into_disk();
        disk.set_fuse(None);
        for (block, bytes) in disk.written_blocks() {
            // Headers are not sealed.
            if block > 1 && block < 298 {
                assert!(seen.insert(bytes), "round {round}: block {block} was written twice with the same bytes");
            }
        }
        disk = disk.crash();
    }
    assert!(seen.len() > 300, "{}", seen.len());
}

/// Two openings of the same image, as after a restored copy, use other nonces because they begin at random numbers.
#[test]
fn a_restored_image_does_not_repeat_nonces() {
    let disk = format(SimDisk::new(40, 1)).into_disk();
    let sealed = |start| {
        let mut volume = open_as(disk.clone(), Access::Write, start).unwrap();
        volume.write(0, &content(1)).unwrap();
        volume.disk_mut().set_fuse(Some(1));
        assert!(volume.sync().is_err());
        volume.into_disk().written_blocks().pop().unwrap().1
    };
    assert_eq!(sealed(1), sealed(1));
    assert_ne!(sealed(1), sealed(2));
}

#[test]
fn the_faster_cipher_is_chosen() {
    for (slow, expected) in [(0, CipherKind::ChaCha20Poly1305), (1, CipherKind::Aes256Gcm)] {
        let (mut now, mut calls) = (0, 0);
        // Six calls per cipher: begin and end of three rounds.
        let chosen = choose(&mut || {
            now += if (calls / 6 == slow) == (calls % 2 == 1) { 100 } else { 1 };
            calls += 1;
            now
        });
        assert_eq!(chosen, expected, "{}", chosen.name());
    }
}

//! Bytes of the disk that somebody or something changed.

use std::sync::Arc;

use capos_volume::sim::{Image, SECTOR, Seed, SimDisk};
use capos_volume::{Access, BLOCK, Disk, Error, Volume};

use crate::common::{Model, change, content, format, groups, open_as, times};

/// A change of one block of an image. Returns false if the block stays as it was.
fn corrupt(image: &mut Image, old: &[Image], blocks: u64, seed: &mut Seed) -> (u64, &'static str) {
    // Mostly blocks in use; each structure is among them.
    let used: Vec<u64> = image.keys().copied().collect();
    let target = used[seed.below(used.len() as u64) as usize];
    let block = |image: &Image, number| image.get(&number).map_or([0; BLOCK], |content| **content);
    let mut changed = block(image, target);
    let how = match seed.below(6) {
        0 => {
            changed[seed.below(BLOCK as u64) as usize] ^= 1 << seed.below(8);
            "a flipped bit"
        }
        1 => {
            let (from, to) = (seed.below(BLOCK as u64) as usize, seed.below(BLOCK as u64) as usize);
            seed.fill(&mut changed[from.min(to)..=from.max(to)]);
            "random bytes"
        }
        2 => {
            changed = block(&old[seed.below(old.len() as u64) as usize], target);
            "an older version"
        }
        3 => {
            let other = block(&old[seed.below(old.len() as u64) as usize], target);
            let sector = seed.below(8) as usize * SECTOR;
            changed[sector..sector + SECTOR].copy_from_slice(&other[sector..sector + SECTOR]);
            "a torn write"
        }
        4 => {
            let other = if seed.once_in(2) { seed.below(blocks) } else { used[seed.below(used.len() as u64) as usize] };
            let taken = block(image, other);
            image.insert(other, Arc::new(changed));
            changed = taken;
            "two blocks exchanged"
        }
        _ => {
            changed = [0; BLOCK];
            "zeros"
        }
    };
    image.insert(target, Arc::new(changed));
    (target, how)
}

/// Reads each block by itself: it is the model's, or an error names it.
fn check<D: Disk>(volume: &mut Volume<D>, model: &Model, of: &str) -> u64 {
    let mut errors = 0;
    for index in groups(volume.len()).into_iter().flatten() {
        let mut block = vec![1; BLOCK];
        match volume.read(index, &mut block) {
            Ok(()) => {
                let expected = model.get(&index).map_or(vec![0; BLOCK], |number| content(*number));
                assert_eq!(block, expected, "{of}: block {index}");
            }
            Err(Error::Block { level, index: named, .. }) => {
                assert!(level > 0 || named == index, "{of}: block {index}: {named}");
                assert!(block.iter().all(|byte| *byte == 0));
                errors += 1;
            }
            Err(error) => panic!("{of}: block {index}: {error}"),
        }
    }
    errors
}

/// 3,000 changes of one block, or `CORRUPTIONS=100000`: each is rejected with the block's number, or no block that the
/// volume uses.
#[test]
fn every_changed_block_is_rejected_or_unused() {
    let (mut rejected, mut harmless) = (0_u64, 0_u64);
    let trials = times("CORRUPTIONS", 3_000);
    for trial in 0..trials {
        let mut seed = Seed(trial / 50);
        let blocks = [16, 60, 300][seed.below(3) as usize];
        let mut volume = format(SimDisk::new(blocks, trial));
        let mut model = Model::new();
        let mut old = Vec::new();
        for _ in 0..6 {
            for _ in 0..2 {
                change(&mut volume, &mut model, &mut seed).unwrap();
            }
            volume.sync().unwrap();
            old.push(volume.disk_mut().image().clone());
        }
        let mut seed = Seed(trial ^ 0xabcd);
        let mut image = old.pop().unwrap();
        let original = image.clone();
        let (target, how) = corrupt(&mut image, &old, blocks, &mut seed);
        let of = format!("trial {trial}, disk block {target}, {how}");
        let head = volume.head();
        match open_as(SimDisk::from_image(blocks, image.clone(), Seed(1)), Access::Read, 1) {
            Ok(mut volume) => {
                assert_eq!(volume.head(), head, "{of}");
                match check(&mut volume, &model, &of) {
                    0 => harmless += 1,
                    _ => rejected += 1,
                }
            }
            Err(Error::Block { .. }) => rejected += 1,
            Err(error) => panic!("{of}: {error}"),
        }
        assert!(image != original || how != "a flipped bit");
    }
    println!("rejected {rejected}, harmless {harmless}");
    assert!(rejected > trials / 5 && harmless > trials / 10, "{rejected} {harmless}");
}

/// Each byte of each block in use matters, one bit after the other.
#[test]
fn every_bit_of_a_sealed_block_matters() {
    let mut volume = format(SimDisk::new(10, 1));
    volume.write(0, &content(1)).unwrap();
    volume.sync().unwrap();
    let image = volume.into_disk().image().clone();
    // The tree's only node and the data block: slot 0 of each, since nothing was written before.
    for number in [2, 4] {
        for bit in (0..BLOCK * 8).step_by(37) {
            let mut image = image.clone();
            Arc::make_mut(image.get_mut(&number).unwrap())[bit / 8] ^= 1 << (bit % 8);
            let mut volume = open_as(SimDisk::from_image(10, image, Seed(1)), Access::Read, 1);
            let error = match &mut volume {
                Ok(volume) => volume.read(0, &mut [0; BLOCK]).err(),
                Err(error) => Some(*error),
            };
            let expected = |block| block == number;
            assert!(matches!(error, Some(Error::Block { block, .. }) if expected(block)), "bit {bit}: {error:?}");
        }
    }
}

/// What is known about a rejected block is said.
#[test]
fn lost_and_misplaced_writes_are_told_apart() {
    use capos_volume::Fault;
    let mut volume = format(SimDisk::new(10, 1));
    volume.write(0, &content(1)).unwrap();
    volume.sync().unwrap();
    let image = volume.into_disk().image().clone();
    let blocks = volume_blocks();
    let fault_of = |change: &dyn Fn(&mut Image)| {
        let mut image = image.clone();
        change(&mut image);
        let mut volume = open_as(SimDisk::from_image(10, image, Seed(1)), Access::Read, 1).unwrap();
        volume.read(0, &mut [0; BLOCK]).err()
    };
    let error = |fault| Some(Error::Block { block: blocks.0, level: 0, index: 0, fault });
    let lost = |image: &mut Image| drop(image.remove(&blocks.0));
    assert_eq!(fault_of(&lost), error(Fault::Zeros));
    let misplaced = |image: &mut Image| {
        let content = image.remove(&blocks.0).unwrap();
        image.insert(blocks.1, content);
    };
    assert_eq!(fault_of(&misplaced), error(Fault::Misplaced));
    let changed = |image: &mut Image| Arc::make_mut(image.get_mut(&blocks.0).unwrap())[9] ^= 1;
    assert_eq!(fault_of(&changed), error(Fault::Mismatch));
    assert_eq!(
        error(Fault::Mismatch).unwrap().to_string(),
        "disk block 4 (data block 0) is damaged or is not its newest version: restore it from a backup"
    );
}

/// The two slots of data block 0 in a volume on eight disk blocks.
fn volume_blocks() -> (u64, u64) {
    let geometry = capos_volume::Geometry::largest(8).unwrap();
    (geometry.block(0, 0, 0), geometry.block(0, 0, 1))
}

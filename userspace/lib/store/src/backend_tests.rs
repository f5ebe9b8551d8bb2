//! The file and its hole against plain bytes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "helpers of tests may fail the test"
)]

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::MemoryBlocks;

const BLOCK: usize = BLOCK_BYTES;
/// Blocks of the file of the tests, and its hole: numbers go up to 4 times 64, of which one block is apart.
const LENGTH: usize = 300;
const HOLE: core::ops::Range<usize> = 212..257;
/// The part that the tests use.
const PART: core::ops::Range<usize> = 205..265;

fn file() -> File<MemoryBlocks> {
    let mut file = File::open(MemoryBlocks::new(64)).unwrap().unwrap();
    file.set_length((LENGTH * BLOCK) as u64).unwrap();
    file
}

#[test]
fn the_places_of_blocks_are_as_many_as_there_are() {
    for old in 0..40 {
        for new in old..60 {
            for most in old..60 {
                let hole = Hole::of(old, new, most);
                let places: Vec<u64> = (0..new).filter_map(|block| hole.place(block)).collect();
                assert_eq!(places, (0..new.min(most)).collect::<Vec<_>>(), "{old} {new} {most}");
                assert!((0..old).all(|block| hole.place(block) == Some(block)), "what was there stays: {hole:?}");
                for block in 0..new {
                    let (place, bytes) = hole.run(block, 70 * BLOCK).unwrap();
                    let run = (bytes / BLOCK) as u64;
                    assert_eq!(place, hole.place(block));
                    let place_of = |at| hole.place(block + at).map(|place| place.wrapping_sub(at));
                    assert!((0..run).all(|at| place_of(at) == place), "{hole:?} {block} {run}");
                    assert!(
                        run == 70 || hole.place(block + run).map(|place| place.wrapping_sub(run)) != place,
                        "it is the longest"
                    );
                }
                assert_eq!((hole.run(0, BLOCK - 1), hole.run(0, 2 * BLOCK - 1).map(|run| run.1)), (None, Some(BLOCK)));
            }
        }
    }
}

proptest! {
    #[test]
    fn a_file_is_its_bytes_and_its_hole_is_zeros(
        steps in prop::collection::vec((0..PART.len() * BLOCK, 1..9 * BLOCK, any::<bool>(), 0..3_u8), 1..30)
    ) {
        let mut file = file();
        prop_assert_eq!((file.hole.start, file.hole.end()), (HOLE.start as u64, HOLE.end as u64));
        let mut bytes = vec![0; PART.len() * BLOCK];
        let start = PART.start * BLOCK;
        let hole = HOLE.start * BLOCK - start..HOLE.end * BLOCK - start;
        for (at, length, aligned, value) in steps {
            let at = if aligned { at / BLOCK * BLOCK } else { at };
            let until = (at + length).min(bytes.len());
            let is_lost = value > 0 && at < hole.end && until > hole.start;
            let done = file.write((start + at) as u64, &vec![value; until - at]);
            prop_assert_eq!(done, if is_lost { Err(BlockError::Full) } else { Ok(()) });
            let mut found = vec![9; bytes.len()];
            file.read(start as u64, &mut found).unwrap();
            if is_lost {
                // What comes before the hole may be written.
                prop_assert!(found[hole.clone()].iter().all(|byte| *byte == 0));
                bytes[at..hole.start.max(at)].copy_from_slice(&found[at..hole.start.max(at)]);
            } else {
                bytes[at..until].fill(value);
            }
            prop_assert!(found == bytes);
            let mut part = vec![9; until - at];
            file.read((start + at) as u64, &mut part).unwrap();
            prop_assert!(part == bytes[at..until]);
        }
        // It is on the blocks, and opened with the same hole.
        file.sync().unwrap();
        let mut again = File::open(file.into_blocks().after_crash()).unwrap().unwrap();
        let mut found = vec![9; bytes.len()];
        again.read(start as u64, &mut found).unwrap();
        prop_assert!(found == bytes && again.length == (LENGTH * BLOCK) as u64);
    }
}

#[test]
fn a_file_that_became_shorter_grows_by_zeros() {
    for (shorter, whole) in [(260 * BLOCK + 7, true), (230 * BLOCK, true), (212 * BLOCK, false), (100, false)] {
        let mut file = file();
        for block in [0, 210, 258, 260, 299] {
            file.write((block * BLOCK) as u64, &[5; BLOCK]).unwrap();
        }
        file.set_length(shorter as u64).unwrap();
        assert_eq!(file.hole.blocks > 0, whole, "{shorter}");
        file.set_length((LENGTH * BLOCK) as u64).unwrap();
        for block in [0, 210, 258, 260, 299] {
            let mut found = [9; BLOCK];
            file.read((block * BLOCK) as u64, &mut found).unwrap();
            let kept = shorter.saturating_sub(block * BLOCK).min(BLOCK);
            assert!(found[..kept].iter().all(|byte| *byte == 5) && found[kept..].iter().all(|byte| *byte == 0));
        }
    }
    let mut file = file();
    assert_eq!(file.set_length(1 << 40), Err(BlockError::Full));
    file.sync().unwrap();
    file.write(0, &[5; 10]).unwrap();
    file.forget().unwrap();
    let mut found = [9; 10];
    file.read(0, &mut found).unwrap();
    assert_eq!((found, file.length), ([0; 10], (LENGTH * BLOCK) as u64));
}

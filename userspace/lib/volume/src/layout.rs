//! Where the parts of a volume lie on the disk.

use crate::entry::FANOUT;
use crate::error::Error;

/// The most levels of the tree. Five hold 34 billion blocks.
pub const MAX_LEVELS: u8 = 5;
/// Blocks of the headers: two places, two copies each.
const HEADERS: u64 = 4;

/// The sizes of a volume, and the places that follow from them.
///
/// Blocks 0 and 1 hold the two header places, and the last two blocks their second copies. Between them lie the nodes
/// from level 1 up, each with its two slots, then the data in groups of 128 blocks: slot 0 of all, then slot 1 of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    physical: u64,
    blocks: u64,
    levels: u8,
}

/// Number of nodes of a level in a volume of `blocks` blocks.
fn nodes(blocks: u64, level: u8) -> u64 {
    (0..level).fold(blocks, |count, _| count.div_ceil(FANOUT))
}

/// Number of levels for `blocks` blocks.
fn levels(blocks: u64) -> Option<u8> {
    (1..=MAX_LEVELS).find(|level| nodes(blocks, *level) == 1)
}

/// Disk blocks that a volume takes.
fn needed(blocks: u64) -> Option<u64> {
    (0..=levels(blocks)?).try_fold(HEADERS, |sum, level| sum.checked_add(nodes(blocks, level).checked_mul(2)?))
}

impl Geometry {
    /// The fewest disk blocks of a volume.
    pub const LEAST: u64 = 8;

    /// The geometry of a volume of `blocks` blocks on `physical` disk blocks; `None` if it does not fit.
    pub fn new(physical: u64, blocks: u64) -> Option<Self> {
        let levels = levels(blocks)?;
        (blocks > 0 && needed(blocks)? <= physical).then_some(Self { physical, blocks, levels })
    }

    /// The largest volume that fits on a disk.
    ///
    /// # Errors
    /// The disk is smaller than the smallest volume.
    pub fn largest(physical: u64) -> Result<Self, Error> {
        let small = Error::TooSmall { blocks: physical, needed: Self::LEAST };
        let mut least = 1_u64;
        let mut most = physical >> 1;
        while least < most {
            let middle = least.midpoint(most).saturating_add(1).min(most);
            if Self::new(physical, middle).is_some() {
                least = middle;
            } else {
                most = middle.saturating_sub(1);
            }
        }
        Self::new(physical, least).ok_or(small)
    }

    /// Disk blocks of the volume, headers included.
    pub fn physical(&self) -> u64 {
        self.physical
    }

    /// Blocks that the volume offers.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Levels of the tree.
    pub fn levels(&self) -> u8 {
        self.levels
    }

    /// The disk block of a header copy; `place` and `copy` are 0 or 1.
    pub fn header(physical: u64, place: u64, copy: u64) -> u64 {
        let place = place & 1;
        if copy == 0 { place } else { physical.saturating_sub(2).saturating_add(place) }
    }

    /// The disk block of a slot; level 0 is data.
    pub fn block(&self, level: u8, index: u64, slot: u8) -> u64 {
        let slot = u64::from(slot & 1);
        let before = (1..level).map(|level| nodes(self.blocks, level).saturating_mul(2));
        let start = before.fold(2, u64::saturating_add);
        if level > 0 {
            return start.saturating_add(index.saturating_mul(2)).saturating_add(slot);
        }
        let start = (1..=self.levels)
            .fold(2, |sum: u64, level| sum.saturating_add(nodes(self.blocks, level).saturating_mul(2)));
        let first = index & !(FANOUT.saturating_sub(1));
        let width = self.blocks.saturating_sub(first).min(FANOUT);
        let group = start.saturating_add(first.saturating_mul(2));
        group.saturating_add(slot.saturating_mul(width)).saturating_add(index.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_slot_has_its_own_block() {
        for physical in (8..80).chain([300, 1000, 33_500, 70_000]) {
            let geometry = Geometry::largest(physical).unwrap();
            let mut seen = BTreeSet::new();
            for place in 0..2 {
                for copy in 0..2 {
                    assert!(seen.insert(Geometry::header(physical, place, copy)));
                }
            }
            for level in 0..=geometry.levels() {
                for index in 0..nodes(geometry.blocks(), level) {
                    for slot in 0..2 {
                        let block = geometry.block(level, index, slot);
                        assert!(block < physical && seen.insert(block), "{physical} {level} {index} {slot}");
                    }
                }
            }
            assert_eq!(seen.len() as u64, needed(geometry.blocks()).unwrap());
            assert!(Geometry::new(physical, geometry.blocks() + 1).is_none(), "{physical}: {geometry:?}");
        }
    }

    #[test]
    fn levels_follow_the_size() {
        for (blocks, expected) in [(1, 1), (128, 1), (129, 2), (1 << 14, 2), ((1 << 14) + 1, 3), (1 << 28, 4)] {
            assert_eq!(levels(blocks), Some(expected));
        }
        assert_eq!(levels(1 << 36), None);
        assert!(matches!(Geometry::largest(7), Err(Error::TooSmall { blocks: 7, needed: 8 })));
        assert!(Geometry::largest(0).is_err() && Geometry::new(100, 0).is_none());
    }
}

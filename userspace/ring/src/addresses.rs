//! Which addresses of the process are taken by mappings.

use alloc::collections::{BTreeMap, BTreeSet};

use capos_abi::bootstrap::{FIRST_THREAD_AREA, MAP_START};

/// A page, in bytes.
pub const PAGE: u64 = 4096;

/// The process's addresses for mappings: every range has an unused page on both sides.
///
/// Gaps are found by their length, so that taking and giving costs the same however many mappings there are.
#[derive(Debug)]
pub struct Addresses {
    /// Ends of the gaps between taken ranges, by their starts. No two of them touch.
    gaps: BTreeMap<u64, u64>,
    /// The same gaps, by length and start.
    by_length: BTreeSet<(u64, u64)>,
    /// From here on nothing is taken.
    rest: u64,
}

impl Default for Addresses {
    fn default() -> Self {
        Self::new()
    }
}

impl Addresses {
    /// All of them are free.
    #[must_use]
    pub const fn new() -> Self {
        Self { gaps: BTreeMap::new(), by_length: BTreeSet::new(), rest: MAP_START }
    }

    /// Takes a range of this length, in whole pages: from the smallest gap that holds it, else behind all that is taken.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        let needed = length.checked_add(2 * PAGE).filter(|_| length > 0)?;
        let found = self.by_length.range((needed, 0)..).next().copied();
        let (gap, end) = match found {
            Some((bytes, gap)) => (gap, gap.checked_add(bytes)?),
            None => {
                let gap = self.rest;
                gap.checked_add(needed).filter(|end| *end <= FIRST_THREAD_AREA)?;
                (gap, FIRST_THREAD_AREA)
            }
        };
        let start = gap.checked_add(PAGE)?;
        let after = start.checked_add(length)?;
        if found.is_some() {
            self.remove(gap);
            self.insert(after, end);
        } else {
            self.rest = after;
        }
        self.insert(gap, start);
        Some(start)
    }

    /// Gives a range back, or a part of one, or several with what lies between them.
    pub fn give(&mut self, start: u64, length: u64) {
        let mut end = start.saturating_add(length).min(self.rest);
        let mut start = start.max(MAP_START);
        if start >= end {
            return;
        }
        // Gaps that overlap or touch what is given grow together with it.
        while let Some((from, to)) = self.gaps.range(..=end).next_back().map(|(from, to)| (*from, *to))
            && to >= start
        {
            self.remove(from);
            (start, end) = (start.min(from), end.max(to));
        }
        if end == self.rest {
            self.rest = start;
        } else {
            self.insert(start, end);
        }
    }

    fn insert(&mut self, start: u64, end: u64) {
        self.gaps.insert(start, end);
        self.by_length.insert((end.saturating_sub(start), start));
    }

    fn remove(&mut self, start: u64) {
        if let Some(end) = self.gaps.remove(&start) {
            self.by_length.remove(&(end.saturating_sub(start), start));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn addresses_come_back_and_grow_together() {
        let mut addresses = Addresses::new();
        let a = addresses.take(PAGE).unwrap();
        let b = addresses.take(PAGE).unwrap();
        let c = addresses.take(PAGE).unwrap();
        assert_eq!((b - a, c - b), (2 * PAGE, 2 * PAGE));
        addresses.give(a, PAGE);
        addresses.give(b, PAGE);
        // Two ranges with their guards hold one of three pages with its guard.
        assert_eq!(addresses.take(3 * PAGE), Some(a));
        addresses.give(c, PAGE);
        assert_eq!(addresses.take(5 * PAGE), Some(c));
    }

    #[test]
    fn a_range_that_is_given_back_in_parts_keeps_what_is_left() {
        let mut addresses = Addresses::new();
        let a = addresses.take(6 * PAGE).unwrap();
        addresses.give(a + 2 * PAGE, PAGE);
        // One page is free between two taken ones: there is no room for a guard on both sides.
        assert_eq!(addresses.take(PAGE), Some(a + 7 * PAGE));
        addresses.give(a + 3 * PAGE, 2 * PAGE);
        assert_eq!(addresses.take(PAGE), Some(a + 3 * PAGE));
        // What is free already is passed over.
        addresses.give(a, 20 * PAGE);
        assert_eq!(addresses.take(9 * PAGE), Some(a));
    }

    /// Looking at every mapping for each would take 20 thousand million steps here.
    #[test]
    fn many_mappings_do_not_make_the_next_one_dear() {
        const MANY: u64 = 200_000;
        let mut addresses = Addresses::new();
        let taken: Vec<u64> = (0..MANY).map(|_| addresses.take(PAGE).unwrap()).collect();
        assert!(taken.windows(2).all(|pair| pair[1] == pair[0] + 2 * PAGE));
        // A hole at the start that is too small does not bring the search back.
        addresses.give(taken[0], PAGE);
        let larger: Vec<u64> = (0..MANY).map(|_| addresses.take(2 * PAGE).unwrap()).collect();
        assert!(larger[0] > taken[taken.len() - 1]);
        assert_eq!(addresses.take(PAGE), Some(taken[0]));
        for start in taken {
            addresses.give(start, PAGE);
        }
        for start in larger {
            addresses.give(start, 2 * PAGE);
        }
        assert!(addresses.gaps.is_empty() && addresses.by_length.is_empty());
        assert_eq!(addresses.rest, MAP_START);
    }

    #[test]
    fn addresses_end() {
        let mut addresses = Addresses::new();
        assert_eq!(addresses.take(FIRST_THREAD_AREA), None);
        assert_eq!(addresses.take(u64::MAX), None);
        assert!(addresses.take(PAGE).is_some());
    }
}

//! Which addresses of the process are taken by mappings.

use alloc::collections::{BTreeMap, BTreeSet};

use capos_abi::bootstrap::{FIRST_THREAD_AREA, MAP_START};
pub use capos_abi::{LARGE_PAGE, PAGE};

/// Gaps that are looked at for a range that has to begin at a multiple of [`LARGE_PAGE`] before one is taken that is long
/// enough wherever it begins.
const LOOKED_AT: usize = 8;

/// Where a range begins in a gap: after a page that stays unused.
fn start_in(gap: u64, length: u64) -> Option<u64> {
    let start = gap.checked_add(PAGE)?;
    if length < LARGE_PAGE { Some(start) } else { start.checked_next_multiple_of(LARGE_PAGE) }
}

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

    /// Takes a range of this length, in whole pages: from the smallest gap that holds it, else after all that is taken.
    /// One of [`LARGE_PAGE`] or more begins at a multiple of that, so that the kernel can show it in large pages.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        let needed = length.checked_add(2 * PAGE).filter(|_| length > 0)?;
        let found = self.gap_for(length, needed);
        let (gap, end) = found.unwrap_or((self.rest, FIRST_THREAD_AREA));
        let start = start_in(gap, length)?;
        let after = start.checked_add(length)?;
        after.checked_add(PAGE).filter(|last| *last <= end)?;
        if found.is_some() {
            self.remove(gap);
            self.insert(after, end);
        } else {
            self.rest = after;
        }
        self.insert(gap, start);
        Some(start)
    }

    /// A gap that holds a range, with an unused page on both sides, and where it ends.
    fn gap_for(&self, length: u64, needed: u64) -> Option<(u64, u64)> {
        let fits = |&(bytes, gap): &(u64, u64)| {
            let end = gap.checked_add(bytes)?;
            let last = start_in(gap, length)?.checked_add(length)?.checked_add(PAGE)?;
            (last <= end).then_some((gap, end))
        };
        let slack = if length < LARGE_PAGE { 0 } else { LARGE_PAGE.saturating_sub(PAGE) };
        let tight = self.by_length.range((needed, 0)..).take(LOOKED_AT).find_map(fits);
        tight.or_else(|| self.by_length.range((needed.checked_add(slack)?, 0)..).next().and_then(fits))
    }

    /// Gives a range back, or a part of one, or several with the space between them.
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
        // Free parts are skipped.
        addresses.give(a, 20 * PAGE);
        assert_eq!(addresses.take(9 * PAGE), Some(a));
    }

    /// Searching all mappings for each would take 20 billion steps here.
    #[test]
    fn many_mappings_do_not_make_the_next_one_dear() {
        const MANY: u64 = 200_000;
        let mut addresses = Addresses::new();
        let taken: Vec<u64> = (0..MANY).map(|_| addresses.take(PAGE).unwrap()).collect();
        assert!(taken.windows(2).all(|pair| pair[1] == pair[0] + 2 * PAGE));
        // A hole at the start that is too small does not move the search back.
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
    fn large_ranges_begin_where_large_pages_can() {
        let mut addresses = Addresses::new();
        let a = addresses.take(LARGE_PAGE + PAGE).unwrap();
        let b = addresses.take(3 * LARGE_PAGE).unwrap();
        assert_eq!((a % LARGE_PAGE, b % LARGE_PAGE), (0, 0));
        assert!(b > a + LARGE_PAGE + PAGE, "a page between them is not used");
        // The space before and between them is used by small ranges.
        assert!(addresses.take(PAGE).unwrap() < b);
        addresses.give(a, LARGE_PAGE + PAGE);
        assert_eq!(addresses.take(LARGE_PAGE), Some(a), "a gap that holds it just so");
        addresses.give(a, LARGE_PAGE);
        // Gaps that are long enough but misaligned do not hide a suitable one.
        let many: Vec<u64> = (0..20).map(|_| addresses.take(LARGE_PAGE + 3 * PAGE).unwrap()).collect();
        let end = addresses.take(4 * LARGE_PAGE).unwrap();
        for start in &many {
            addresses.give(start + PAGE, LARGE_PAGE + 2 * PAGE);
        }
        addresses.give(b, 3 * LARGE_PAGE);
        let again = addresses.take(LARGE_PAGE).unwrap();
        assert!(again.is_multiple_of(LARGE_PAGE) && again < end, "{again:#x}");
    }

    #[test]
    fn addresses_end() {
        let mut addresses = Addresses::new();
        assert_eq!(addresses.take(FIRST_THREAD_AREA), None);
        assert_eq!(addresses.take(u64::MAX), None);
        assert!(addresses.take(PAGE).is_some());
    }
}

//! Which addresses of the process are taken by mappings.

use alloc::collections::BTreeMap;

use capos_abi::bootstrap::{FIRST_THREAD_AREA, MAP_START};

/// A page, in bytes.
pub const PAGE: u64 = 4096;

/// The process's addresses for mappings: every range has an unused page on both sides.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Ends of the taken ranges, by their starts.
    taken: BTreeMap<u64, u64>,
}

impl Addresses {
    /// All of them are free.
    #[must_use]
    pub const fn new() -> Self {
        Self { taken: BTreeMap::new() }
    }

    /// Takes the lowest free range of this length, in whole pages.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        let mut start = MAP_START.checked_add(PAGE)?;
        for (next, end) in &self.taken {
            if start.checked_add(length)?.checked_add(PAGE)? <= *next {
                break;
            }
            start = end.checked_add(PAGE)?;
        }
        let end = start.checked_add(length)?;
        end.checked_add(PAGE).filter(|end| *end <= FIRST_THREAD_AREA)?;
        self.taken.insert(start, end);
        Some(start)
    }

    /// Gives a range back, or a part of one, or several with what lies between them.
    pub fn give(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let last = |taken: &BTreeMap<u64, u64>| taken.range(..end).next_back().map(|(from, to)| (*from, *to));
        while let Some((from, to)) = last(&self.taken).filter(|(_, to)| *to > start) {
            self.taken.remove(&from);
            if from < start {
                self.taken.insert(from, start);
            }
            if to > end {
                self.taken.insert(end, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn addresses_end() {
        let mut addresses = Addresses::new();
        assert_eq!(addresses.take(FIRST_THREAD_AREA), None);
        assert_eq!(addresses.take(u64::MAX), None);
        assert!(addresses.take(PAGE).is_some());
    }
}

//! Ranges of physical memory.

use crate::page_entry::PAGE;

/// Bytes `start..end` of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

impl Range {
    /// From base and length; the end saturates.
    #[must_use]
    pub const fn new(base: u64, length: u64) -> Self {
        Self { start: base, end: base.saturating_add(length) }
    }

    /// Bytes in it.
    #[must_use]
    pub const fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The whole pages that are in it.
    #[must_use]
    pub fn inner_pages(self) -> Self {
        Self {
            start: self.start.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX),
            end: self.end & !PAGE.wrapping_sub(1),
        }
    }

    /// The whole pages that it touches.
    #[must_use]
    pub fn outer_pages(self) -> Self {
        Self {
            start: self.start & !PAGE.wrapping_sub(1),
            end: self.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX),
        }
    }

    /// The rest when `hole` is cut out: the part before it and the part after it.
    #[must_use]
    pub fn without(self, hole: Self) -> [Self; 2] {
        if hole.is_empty() {
            return [self, Self { start: self.end, end: self.end }];
        }
        [
            Self { start: self.start, end: self.end.min(hole.start) },
            Self { start: self.start.max(hole.end), end: self.end },
        ]
    }

    /// Whether both have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end && other.start < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_inside_and_around() {
        let range = Range::new(0x1800, 0x2000);
        assert_eq!(range.inner_pages(), Range { start: 0x2000, end: 0x3000 });
        assert_eq!(range.outer_pages(), Range { start: 0x1000, end: 0x4000 });
        assert!(Range::new(0x1001, 0x100).inner_pages().is_empty());
        assert_eq!(Range::new(u64::MAX, 10).end, u64::MAX);
    }

    #[test]
    fn a_hole_leaves_what_is_around_it() {
        let range = Range::new(0x1000, 0x5000);
        let [before, after] = range.without(Range::new(0x2000, 0x1000));
        assert_eq!((before, after), (Range { start: 0x1000, end: 0x2000 }, Range { start: 0x3000, end: 0x6000 }));
        let [before, after] = range.without(Range::new(0x8000, 0x1000));
        assert_eq!(before, range);
        assert!(after.is_empty());
        let [before, after] = range.without(Range::new(0, 0x10000));
        assert!(before.is_empty() && after.is_empty());
        let [before, after] = range.without(Range::new(0x3000, 0));
        assert_eq!(before, range);
        assert!(after.is_empty());
    }

    #[test]
    fn overlap_needs_a_common_byte() {
        assert!(Range::new(0, 10).overlaps(Range::new(9, 1)));
        assert!(!Range::new(0, 10).overlaps(Range::new(10, 1)));
        assert!(!Range::new(5, 0).overlaps(Range::new(0, 10)));
    }
}

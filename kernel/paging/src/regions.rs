//! The regions of an address space: ranges that do not overlap, each with its content.

use alloc::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Why a range is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeError {
    /// Empty, not on page borders, or its end overflows.
    Malformed,
    /// Not within the bounds of the address space.
    OutOfBounds,
    /// Something is mapped there.
    Overlap,
    /// There is no memory to record what is removed.
    NoMemory,
}

/// Content by which its pieces are found.
pub trait Keyed {
    /// The same for all pieces of one content, and for no other's.
    fn key(&self) -> u64;
}

impl<T: Keyed> Keyed for Arc<T> {
    fn key(&self) -> u64 {
        self.as_ref().key()
    }
}

/// One region: `length` bytes from `start` on show its content from `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region<T> {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the content that is at `start`.
    pub offset: u64,
    /// The mapped object.
    pub content: T,
}

impl<T> Region<T> {
    /// First address after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// The content's offset at an address inside.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> u64 {
        self.offset.saturating_add(address.saturating_sub(self.start))
    }
}

/// The regions that [`Regions::clear`] has removed.
#[derive(Debug)]
pub struct Cleared<T> {
    by_start: btree_map::IntoValues<u64, Region<T>>,
    by_content: btree_set::IntoIter<(u64, u64)>,
}

impl<T> Iterator for Cleared<T> {
    type Item = Region<T>;

    fn next(&mut self) -> Option<Region<T>> {
        self.by_content.next();
        self.by_start.next()
    }
}

/// The regions of one address space.
#[derive(Debug)]
pub struct Regions<T> {
    by_start: BTreeMap<u64, Region<T>>,
    /// Content and first address of each, so that those of one content are found however many others
    /// there are.
    by_content: BTreeSet<(u64, u64)>,
    /// Where the region that was found last begins and ends; nothing where it is not there any more.
    recent: (u64, u64),
    low: u64,
    high: u64,
}

impl<T: Clone + Keyed> Regions<T> {
    /// No regions; they may be in `low..high`.
    #[must_use]
    pub const fn new(low: u64, high: u64) -> Self {
        Self { by_start: BTreeMap::new(), by_content: BTreeSet::new(), recent: (0, 0), low, high }
    }

    /// Judges a range: on page borders, within bounds.
    ///
    /// # Errors
    /// [`RangeError::Malformed`] or [`RangeError::OutOfBounds`].
    pub fn check(&self, start: u64, length: u64) -> Result<u64, RangeError> {
        if length == 0 || !crate::is_aligned(start) || !crate::is_aligned(length) {
            return Err(RangeError::Malformed);
        }
        let end = start.checked_add(length).ok_or(RangeError::Malformed)?;
        if start < self.low || end > self.high { Err(RangeError::OutOfBounds) } else { Ok(end) }
    }

    /// Adds a region.
    ///
    /// # Errors
    /// [`RangeError`]; nothing has changed then.
    pub fn insert(&mut self, start: u64, length: u64, offset: u64, content: T) -> Result<(), RangeError> {
        let end = self.check(start, length)?;
        offset.checked_add(length).ok_or(RangeError::Malformed)?;
        if self.by_start.range(..end).next_back().is_some_and(|(_, last)| last.end() > start) {
            return Err(RangeError::Overlap);
        }
        self.put(Region { start, length, offset, content });
        Ok(())
    }

    /// The region that holds an address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Region<T>> {
        self.by_start.range(..=address).next_back().map(|(_, region)| region).filter(|region| address < region.end())
    }

    /// As [`Self::find`], and faster if the region is the one that was found so before.
    #[must_use]
    pub fn find_again(&mut self, address: u64) -> Option<&Region<T>> {
        let (start, end) = self.recent;
        if !(start..end).contains(&address) {
            let found = self.find(address)?;
            self.recent = (found.start, found.end());
        }
        self.by_start.get(&self.recent.0)
    }

    /// Whether removing a range leaves two pieces of a region, so that there is one region more.
    #[must_use]
    pub fn is_split(&self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        self.find(start).is_some_and(|region| region.start < start && end < region.end())
    }

    /// Removes a range from all regions, cutting those that stick out; the pieces that went away.
    ///
    /// # Errors
    /// [`RangeError`], all but `Overlap`; nothing has changed then.
    pub fn remove(&mut self, start: u64, length: u64) -> Result<Vec<Region<T>>, RangeError> {
        let end = self.check(start, length)?;
        let touched = || self.by_start.range(..end).rev().take_while(|(_, region)| region.end() > start);
        // The range may hold any number of regions.
        let mut removed = Vec::new();
        removed.try_reserve_exact(touched().count()).map_err(|_| RangeError::NoMemory)?;
        let mut at = start;
        while let Some(region) = self.at_or_behind(at).filter(|region| region.start < end) {
            let (from, to) = (region.start.max(at), region.end().min(end));
            removed.extend(self.cut(from, to.saturating_sub(from)));
            at = to;
        }
        Ok(removed)
    }

    /// The region that holds an address, or the next one.
    #[must_use]
    pub fn at_or_behind(&self, address: u64) -> Option<&Region<T>> {
        self.find(address).or_else(|| self.by_start.range(address..).next().map(|(_, region)| region))
    }

    /// A part of a range that one region shows, and one table: to remove a range, [cut](Self::cut) these until there is none. `table` is
    /// the length of what the table at an address is for, a power of two. None of the parts leaves two pieces of a region where
    /// the whole range leaves one. The content says whether this one does.
    #[must_use]
    pub fn next_part(&self, start: u64, end: u64, table: impl Fn(u64) -> u64) -> Option<Region<bool>> {
        let region = self.at_or_behind(start).filter(|region| region.start < end)?;
        let (from, to) = (region.start.max(start), region.end().min(end));
        let (from, to) = if region.start < start && region.end() <= end {
            let last = to.saturating_sub(1);
            (from.max(last & !table(last).saturating_sub(1)), to)
        } else {
            (from, to.min((from | table(from).saturating_sub(1)).saturating_add(1)))
        };
        let length = to.saturating_sub(from);
        let splits = region.start < from && to < region.end();
        Some(Region { start: from, length, offset: region.offset_of(from), content: splits })
    }

    /// Removes a part of one region, and leaves what sticks out; the part.
    pub fn cut(&mut self, start: u64, length: u64) -> Option<Region<T>> {
        let end = start.saturating_add(length);
        if self.by_start.get(&start).is_some_and(|region| region.end() == end) {
            return self.take(start);
        }
        let found = self.find(start).filter(|region| end <= region.end())?.start;
        let region = self.take(found)?;
        if region.start < start {
            self.put(Region { length: start.saturating_sub(region.start), ..region.clone() });
        }
        if region.end() > end {
            self.put(Region {
                start: end,
                length: region.end().saturating_sub(end),
                offset: region.offset_of(end),
                content: region.content.clone(),
            });
        }
        Some(Region { start, length, offset: region.offset_of(start), content: region.content })
    }

    fn put(&mut self, region: Region<T>) {
        self.by_content.insert((region.content.key(), region.start));
        self.by_start.insert(region.start, region);
    }

    /// Takes the region out that begins at an address.
    pub fn take(&mut self, start: u64) -> Option<Region<T>> {
        self.recent = (0, 0);
        let region = self.by_start.remove(&start)?;
        self.by_content.remove(&(region.content.key(), start));
        Some(region)
    }

    /// Any one region that shows the content with this key.
    #[must_use]
    pub fn piece(&self, key: u64) -> Option<&Region<T>> {
        let (_, start) = self.by_content.range((key, 0)..=(key, u64::MAX)).next()?;
        self.by_start.get(start)
    }

    /// Removes every region. Takes no memory, however many there are, and each of them is given up when the iterator comes to it.
    pub fn clear(&mut self) -> Cleared<T> {
        self.recent = (0, 0);
        let by_start = core::mem::take(&mut self.by_start).into_values();
        Cleared { by_start, by_content: core::mem::take(&mut self.by_content).into_iter() }
    }

    /// How many regions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Whether nothing is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LARGE_PAGE, PAGE};
    use proptest::prelude::*;

    impl Keyed for u8 {
        fn key(&self) -> u64 {
            u64::from(*self)
        }
    }

    impl Keyed for usize {
        fn key(&self) -> u64 {
            *self as u64
        }
    }

    fn regions() -> Regions<u8> {
        Regions::new(0x1_0000, 0x10_0000)
    }

    #[test]
    fn ranges_are_judged() {
        let mut regions = regions();
        assert_eq!(regions.insert(0x1_0000, 0, 0, 1), Err(RangeError::Malformed));
        assert_eq!(regions.insert(0x1_0001, PAGE, 0, 1), Err(RangeError::Malformed));
        assert_eq!(regions.insert(0, PAGE, 0, 1), Err(RangeError::OutOfBounds));
        assert_eq!(regions.insert(0xf_f000, 2 * PAGE, 0, 1), Err(RangeError::OutOfBounds));
        assert_eq!(regions.insert(u64::MAX - 4095, PAGE, 0, 1), Err(RangeError::Malformed));
        regions.insert(0x2_0000, 4 * PAGE, 0, 1).unwrap();
        assert_eq!(regions.insert(0x2_3000, PAGE, 0, 2), Err(RangeError::Overlap));
        assert_eq!(regions.insert(0x1_f000, 2 * PAGE, 0, 2), Err(RangeError::Overlap));
        assert_eq!(regions.insert(0x1_0000, 0x4_0000, 0, 2), Err(RangeError::Overlap));
        regions.insert(0x2_4000, PAGE, 0, 2).unwrap();
    }

    #[test]
    fn cutting_keeps_offsets() {
        let mut regions = regions();
        regions.insert(0x2_0000, 8 * PAGE, 0x1000, 1).unwrap();
        let removed = regions.remove(0x2_2000, 2 * PAGE).unwrap();
        assert_eq!(removed, [Region { start: 0x2_2000, length: 2 * PAGE, offset: 0x3000, content: 1 }]);
        assert_eq!(regions.find(0x2_1fff).unwrap().length, 2 * PAGE);
        assert!(regions.find(0x2_2000).is_none());
        assert_eq!(regions.find(0x2_4000).unwrap().offset, 0x5000);
        assert_eq!(regions.find(0x2_4000).unwrap().offset_of(0x2_5008), 0x6008);
    }

    proptest! {
        /// Against a page-by-page model.
        #[test]
        fn regions_behave_like_pages(steps in prop::collection::vec((any::<bool>(), 0_u64..40, 1_u64..10), 0..60)) {
            // Around the end of a table.
            let (low, pages) = (LARGE_PAGE - 25 * PAGE, LARGE_PAGE / PAGE - 25);
            let mut regions = Regions::new(low, low + 0x10_0000);
            let mut model: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
            for (step, (insert, page, count)) in steps.into_iter().enumerate() {
                let page = page + pages;
                let (start, length) = (page * PAGE, count * PAGE);
                if insert {
                    let free = (page..page + count).all(|p| !model.contains_key(&p));
                    prop_assert_eq!(regions.insert(start, length, 0, step).is_ok(), free);
                    if free {
                        model.extend((0..count).map(|i| (page + i, (step, i * PAGE))));
                    }
                } else if step % 2 == 0 {
                    let more = usize::from(regions.is_split(start, length));
                    let most = regions.len() + more;
                    let mut pages = 0;
                    while let Some(part) = regions.next_part(start, start + length, |_| LARGE_PAGE) {
                        prop_assert!(start <= part.start && part.end() <= start + length && part.length > 0);
                        pages += regions.cut(part.start, part.length).unwrap().length / PAGE;
                        prop_assert!(regions.len() <= most, "a piece more that was not foretold");
                    }
                    let gone = (page..page + count).filter(|p| model.remove(p).is_some()).count();
                    prop_assert_eq!(pages, gone as u64);
                } else {
                    let more = usize::from(regions.is_split(start, length));
                    let before = regions.len();
                    let removed = regions.remove(start, length).unwrap();
                    prop_assert!(regions.len() <= before + more, "a piece more that was not foretold");
                    prop_assert!(more == 0 || regions.len() == before + 1, "a piece was foretold that is not there");
                    let pages: u64 = removed.iter().map(|r| r.length / PAGE).sum();
                    let gone = (page..page + count).filter(|p| model.remove(p).is_some()).count();
                    prop_assert_eq!(pages, gone as u64);
                }
                for content in 0..=step {
                    let shown = model.values().any(|(by, _)| *by == content);
                    prop_assert_eq!(regions.piece(content as u64).map(|piece| piece.content), shown.then_some(content));
                }
                prop_assert_eq!(regions.by_content.len(), regions.len());
                for p in pages..pages + 50 {
                    let found = regions.find(p * PAGE).map(|r| (r.content, r.offset_of(p * PAGE)));
                    prop_assert_eq!(found, model.get(&p).copied());
                    let again = regions.find_again(p * PAGE).map(|r| (r.content, r.offset_of(p * PAGE)));
                    prop_assert_eq!(again, found);
                }
            }
        }
    }
}

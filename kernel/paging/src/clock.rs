//! Second chance: which cached page is evicted when memory is short.

use alloc::vec::Vec;

/// Identifies an entry of the clock while it is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Slot(usize);

/// Entries in a circle with a hand. Insertion and removal take constant time.
#[derive(Debug)]
pub struct Clock<K> {
    entries: Vec<Option<K>>,
    free: Vec<usize>,
    hand: usize,
    live: usize,
    /// Entries that are to come, for which there is room.
    expected: usize,
}

impl<K: Copy> Default for Clock<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Copy> Clock<K> {
    /// An empty clock.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), hand: 0, live: 0, expected: 0 }
    }

    /// Entries in it.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Makes room for `count` entries, which are inserted or taken back later. False if there is no memory.
    #[must_use]
    pub fn expect(&mut self, count: usize) -> bool {
        let most = self.live.saturating_add(self.expected).saturating_add(count);
        // There can be as many free places as entries.
        let missing = |vector: usize| most.saturating_sub(vector);
        let (entries, free) = (missing(self.entries.len()), missing(self.free.len()));
        if self.entries.try_reserve(entries).is_err() || self.free.try_reserve(free).is_err() {
            return false;
        }
        self.expected = self.expected.saturating_add(count);
        true
    }

    /// `count` expected entries will not be inserted.
    pub fn take_back(&mut self, count: usize) {
        self.expected = self.expected.saturating_sub(count);
    }

    /// Adds an entry that was expected: this takes no memory.
    pub fn insert(&mut self, key: K) -> Slot {
        self.live = self.live.saturating_add(1);
        self.take_back(1);
        if let Some(at) = self.free.pop()
            && let Some(place) = self.entries.get_mut(at)
        {
            *place = Some(key);
            return Slot(at);
        }
        self.entries.push(Some(key));
        Slot(self.entries.len().saturating_sub(1))
    }

    /// Takes an entry out.
    pub fn remove(&mut self, slot: Slot) -> Option<K> {
        let key = self.entries.get_mut(slot.0)?.take()?;
        self.live = self.live.saturating_sub(1);
        if self.live == 0 {
            self.entries.clear();
            self.free.clear();
            self.hand = 0;
        } else {
            self.free.push(slot.0);
        }
        Some(key)
    }

    /// The next entry to evict, which stays in until it is removed. The hand passes over those that
    /// were used since it last passed, according to `spared` (which must clear that mark). After
    /// two rounds the next one is evicted in any case; `None` only if the clock is empty.
    pub fn victim(&mut self, mut spared: impl FnMut(&K) -> bool) -> Option<(Slot, K)> {
        let rounds = self.entries.len().saturating_mul(2);
        for step in 0..=rounds.saturating_add(self.entries.len()) {
            let at = self.hand;
            self.hand = self.hand.saturating_add(1);
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            if let Some(Some(key)) = self.entries.get(at)
                && (step >= rounds || !spared(key))
            {
                return Some((Slot(at), *key));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn used_entries_get_a_second_chance() {
        let mut clock = Clock::new();
        let slots: Vec<Slot> = (0..4).map(|key| clock.insert(key)).collect();
        let mut used = BTreeSet::from([0, 2]);
        let (slot, key) = clock.victim(|key| used.remove(key)).unwrap();
        assert_eq!(key, 1);
        clock.remove(slot);
        assert_eq!(clock.victim(|key| used.remove(key)).unwrap().1, 3);
        clock.remove(slots[3]);
        assert_eq!(clock.victim(|key| used.remove(key)).unwrap().1, 0);
        assert_eq!(clock.len(), 2);
    }

    #[test]
    fn what_is_expected_has_room() {
        let mut clock = Clock::new();
        assert!(clock.expect(100));
        let room = (clock.entries.capacity(), clock.free.capacity());
        let slots: Vec<Slot> = (0..60).map(|key| clock.insert(key)).collect();
        clock.take_back(10);
        assert_eq!(clock.expected, 30);
        assert!(slots.iter().take(59).all(|slot| clock.remove(*slot).is_some()));
        assert!(clock.expect(69), "100 are in or expected again");
        for key in 0..99 {
            clock.insert(key);
        }
        assert_eq!((clock.len(), clock.expected), (100, 0));
        assert_eq!((clock.entries.capacity(), clock.free.capacity()), room, "and nothing was allocated for them");
        assert!(!clock.expect(usize::MAX / 2), "more than there can be memory for");
    }

    #[test]
    fn a_clock_of_busy_entries_still_gives_one() {
        let mut clock = Clock::new();
        clock.insert('a');
        clock.insert('b');
        assert!(clock.victim(|_| true).is_some());
        let mut empty: Clock<u8> = Clock::new();
        assert!(empty.victim(|_| false).is_none());
    }

    #[test]
    fn slots_are_reused_and_stale_ones_are_harmless() {
        let mut clock = Clock::new();
        let a = clock.insert(1);
        let b = clock.insert(2);
        assert_eq!(clock.remove(a), Some(1));
        assert_eq!(clock.remove(a), None);
        let c = clock.insert(3);
        assert_eq!(clock.remove(c), Some(3));
        assert_eq!(clock.remove(b), Some(2));
        assert!(clock.is_empty());
    }
}

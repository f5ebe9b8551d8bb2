//! Storage for short-lived elements: an index for each, and memory that is freed.

use alloc::vec::Vec;

/// No element, no chunk.
pub(crate) const NIL: u32 = u32::MAX;
/// Elements of a chunk, if nothing else is said.
pub(crate) const CHUNK: usize = 32;
/// Places for chunks that are kept in any case.
const FEWEST: usize = 4;

enum Slot<T> {
    Full(T),
    /// The next empty slot of the chunk.
    Empty(u32),
}

/// Elements that are allocated together. One without slots is a hole.
struct Chunk<T> {
    slots: Vec<Slot<T>>,
    /// First empty slot, [`NIL`] if there is none among `slots`.
    empty: u32,
    used: usize,
    /// Neighbours in the list that it is in: of chunks with room, or of holes.
    next: u32,
    previous: u32,
}

impl<T> Chunk<T> {
    const fn hole() -> Self {
        Self { slots: Vec::new(), empty: NIL, used: 0, next: NIL, previous: NIL }
    }

    const fn is_full(&self, size: usize) -> bool {
        self.used == size
    }
}

/// The pool. Empty chunks are freed, and so are the places of chunks at its end. So a pool that has
/// once been large is small again when its elements are few. A chunk has room for `SIZE` elements, at least one.
pub struct Pool<T, const SIZE: usize = CHUNK> {
    chunks: Vec<Chunk<T>>,
    /// First chunk with room.
    room: u32,
    /// First hole.
    hole: u32,
    length: usize,
    /// Chunks in use.
    whole: usize,
}

/// One of the two lists of chunks.
#[derive(Clone, Copy)]
enum List {
    Room,
    Hole,
}

/// Frees the excess room of a vector that was long; room for `fewest` elements stays. If there is no memory
/// to move into, everything stays: freeing never fails.
pub fn shrink<T>(vector: &mut Vec<T>, fewest: usize) {
    let enough = vector.len().next_power_of_two().max(fewest);
    if vector.capacity() > enough {
        let mut small = Vec::new();
        if small.try_reserve_exact(enough).is_ok() {
            small.append(vector);
            *vector = small;
        }
    }
}

impl<T, const SIZE: usize> Default for Pool<T, SIZE> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const SIZE: usize> Pool<T, SIZE> {
    /// The elements of a chunk, of indices.
    const STRIDE: u32 = SIZE as u32;

    fn split(index: u32) -> (u32, usize) {
        let (number, offset) = (index.checked_div(Self::STRIDE), index.checked_rem(Self::STRIDE));
        (number.unwrap_or(NIL), offset.unwrap_or(0) as usize)
    }

    /// The index of a place: [`Pool::grow`] makes no more chunks than there are indices for.
    const fn join(number: u32, offset: u32) -> u32 {
        number.wrapping_mul(Self::STRIDE).wrapping_add(offset)
    }

    /// An empty pool; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), room: NIL, hole: NIL, length: 0, whole: 0 }
    }

    /// How many elements there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that it holds and no element is in. By the order in which elements came and went there are more or less of
    /// them for the same elements.
    #[must_use]
    pub const fn spare_bytes(&self) -> usize {
        let places = self.whole.saturating_mul(SIZE).saturating_sub(self.length);
        let list = self.chunks.capacity().saturating_mul(size_of::<Chunk<T>>());
        places.saturating_mul(size_of::<Slot<T>>()).saturating_add(list)
    }

    /// Stores a value; its index. `None`, and the value is lost, if there is no memory for it.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        if self.room == NIL {
            self.grow()?;
        }
        let number = self.room;
        let chunk = self.chunks.get_mut(number as usize)?;
        let offset = if chunk.empty == NIL {
            // Within the capacity that `grow` reserved.
            chunk.slots.push(Slot::Full(value));
            u32::try_from(chunk.slots.len()).ok()?.checked_sub(1)?
        } else {
            let offset = chunk.empty;
            let slot = chunk.slots.get_mut(offset as usize)?;
            if let Slot::Empty(next) = core::mem::replace(slot, Slot::Full(value)) {
                chunk.empty = next;
            }
            offset
        };
        chunk.used = chunk.used.wrapping_add(1);
        if chunk.is_full(SIZE) {
            self.unlink(List::Room, number);
        }
        self.length = self.length.wrapping_add(1);
        Some(Self::join(number, offset))
    }

    /// Makes one chunk with room.
    fn grow(&mut self) -> Option<()> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(SIZE).ok()?;
        if self.hole == NIL {
            let number = u32::try_from(self.chunks.len()).ok().filter(|number| {
                number.checked_mul(Self::STRIDE).is_some_and(|first| first < NIL.wrapping_sub(Self::STRIDE))
            })?;
            self.chunks.try_reserve(1).ok()?;
            self.chunks.push(Chunk::hole());
            self.link(List::Hole, number);
        }
        let number = self.hole;
        self.unlink(List::Hole, number);
        let chunk = self.chunks.get_mut(number as usize)?;
        chunk.slots = slots;
        chunk.empty = NIL;
        self.whole = self.whole.saturating_add(1);
        self.link(List::Room, number);
        Some(())
    }

    /// The first element at this index or after it, with its index.
    #[must_use]
    pub fn at_or_after(&self, index: u32) -> Option<(u32, &T)> {
        let (first, mut offset) = Self::split(index);
        for (number, chunk) in (first..).zip(self.chunks.get(first as usize..)?) {
            for (at, slot) in (0_u32..).zip(&chunk.slots).skip(offset) {
                if let Slot::Full(value) = slot {
                    return Some((Self::join(number, at), value));
                }
            }
            offset = 0;
        }
        None
    }

    /// The element at this index.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (number, offset) = Self::split(index);
        match self.chunks.get(number as usize)?.slots.get(offset)? {
            Slot::Full(value) => Some(value),
            Slot::Empty(_) => None,
        }
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (number, offset) = Self::split(index);
        match self.chunks.get_mut(number as usize)?.slots.get_mut(offset)? {
            Slot::Full(value) => Some(value),
            Slot::Empty(_) => None,
        }
    }

    /// Takes an element out.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let (number, offset) = Self::split(index);
        let chunk = self.chunks.get_mut(number as usize)?;
        let was_full = chunk.is_full(SIZE);
        let slot = chunk.slots.get_mut(offset).filter(|slot| matches!(slot, Slot::Full(_)))?;
        let taken = core::mem::replace(slot, Slot::Empty(chunk.empty));
        chunk.empty = u32::try_from(offset).unwrap_or(NIL);
        chunk.used = chunk.used.wrapping_sub(1);
        let is_empty = chunk.used == 0;
        if was_full {
            self.link(List::Room, number);
        }
        if is_empty {
            self.give_back(number);
        }
        self.length = self.length.wrapping_sub(1);
        match taken {
            Slot::Full(value) => Some(value),
            Slot::Empty(_) => None,
        }
    }

    /// Frees an empty chunk, and the holes at the end.
    fn give_back(&mut self, number: u32) {
        self.unlink(List::Room, number);
        if let Some(chunk) = self.chunks.get_mut(number as usize) {
            *chunk = Chunk::hole();
            self.whole = self.whole.saturating_sub(1);
        }
        self.link(List::Hole, number);
        while self.chunks.last().is_some_and(|chunk| chunk.slots.capacity() == 0) {
            let last = u32::try_from(self.chunks.len()).map_or(NIL, |length| length.saturating_sub(1));
            self.unlink(List::Hole, last);
            self.chunks.pop();
        }
        shrink(&mut self.chunks, FEWEST);
    }

    fn head_mut(&mut self, list: List) -> &mut u32 {
        match list {
            List::Room => &mut self.room,
            List::Hole => &mut self.hole,
        }
    }

    fn link(&mut self, list: List, number: u32) {
        let next = core::mem::replace(self.head_mut(list), number);
        if let Some(chunk) = self.chunks.get_mut(next as usize) {
            chunk.previous = number;
        }
        if let Some(chunk) = self.chunks.get_mut(number as usize) {
            chunk.next = next;
            chunk.previous = NIL;
        }
    }

    fn unlink(&mut self, list: List, number: u32) {
        let Some((next, previous)) = self.chunks.get(number as usize).map(|chunk| (chunk.next, chunk.previous)) else {
            return;
        };
        match self.chunks.get_mut(previous as usize) {
            Some(chunk) => chunk.next = next,
            None => *self.head_mut(list) = next,
        }
        if let Some(chunk) = self.chunks.get_mut(next as usize) {
            chunk.previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Against a map, with memory that follows the number of elements.
        #[test]
        fn agrees_with_a_map(operations in prop::collection::vec((0_u8..8, any::<u16>()), 0..600)) {
            let mut pool = Pool::<_>::new();
            let mut model: HashMap<u32, u16> = HashMap::new();
            for (operation, number) in operations {
                // Phases of growth and of decline.
                if operation < 3 + (number >> 14) as u8 || model.is_empty() {
                    let index = pool.insert(number).unwrap();
                    prop_assert!(model.insert(index, number).is_none(), "an index was given out twice");
                } else {
                    let mut indices: Vec<u32> = model.keys().copied().collect();
                    indices.sort_unstable();
                    let index = indices[number as usize % indices.len()];
                    prop_assert_eq!(pool.remove(index), model.remove(&index));
                    prop_assert_eq!(pool.remove(index), None);
                }
                prop_assert_eq!(pool.len(), model.len());
                for (index, value) in &model {
                    prop_assert_eq!(pool.get(*index), Some(value));
                }
                let (mut from, mut seen) = (0, 0);
                while let Some((index, value)) = pool.at_or_after(from) {
                    prop_assert_eq!(model.get(&index), Some(value));
                    seen += 1;
                    from = index + 1;
                }
                prop_assert_eq!(seen, model.len());
                let places: usize = pool.chunks.iter().map(|chunk| chunk.slots.capacity()).sum();
                let held = places * size_of::<Slot<u16>>() + pool.chunks.capacity() * size_of::<Chunk<u16>>();
                prop_assert_eq!(pool.spare_bytes(), held - model.len() * size_of::<Slot<u16>>());
            }
            let mut indices: Vec<u32> = model.keys().copied().collect();
            indices.sort_unstable_by_key(|index| index.reverse_bits());
            for index in indices {
                pool.remove(index);
            }
            prop_assert_eq!(pool.len(), 0);
            prop_assert!(pool.chunks.is_empty() && pool.chunks.capacity() <= FEWEST);
        }
    }

    #[test]
    fn what_was_large_is_small_again() {
        let mut pool = Pool::<_>::new();
        let kept = pool.insert(0).unwrap();
        let many: Vec<u32> = (1..10_000).map(|number| pool.insert(number).unwrap()).collect();
        assert!(pool.chunks.capacity() >= 10_000 / CHUNK);
        for index in many {
            pool.remove(index).unwrap();
        }
        assert_eq!((pool.chunks.len(), pool.chunks.capacity()), (1, FEWEST));
        assert_eq!(pool.get(kept), Some(&0));
        assert_eq!(pool.get(u32::MAX), None);
    }
}

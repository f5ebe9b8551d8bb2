//! A list whose elements can be removed by key: first in first out, or last in first out.

use alloc::vec::Vec;

use crate::pool::Pool;

const NIL: u32 = u32::MAX;

/// Identifies one element of a [`KeyedList`] while it is in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ListKey {
    index: u32,
    generation: u64,
}

/// The place of an element that was taken and may come back: it stays the element's until it is given
/// to [`KeyedList::put_back`] or [`KeyedList::let_go`].
#[must_use]
#[derive(Debug)]
pub struct KeptPlace {
    index: u32,
}

struct Element<T> {
    generation: u64,
    next: u32,
    previous: u32,
    value: Option<T>,
}

/// Places that an empty list keeps.
const KEPT: usize = 8;
/// Places in one allocation.
const NEAR: usize = 32;
const NEAR_INDICES: u32 = NEAR as u32;
/// Places that are allocated together behind those.
const CHUNK: usize = 16;

/// The list. The first elements are in one allocation that is reused, so a list that stays short allocates no
/// more. Those behind them are in a pool: of a list that was long, only the places near elements that are left stay.
pub struct KeyedList<T> {
    elements: Vec<Element<T>>,
    /// The elements behind them.
    far: Pool<Element<T>, CHUNK>,
    /// The generation that is given out next; none is ever given out twice.
    generation: u64,
    head: u32,
    tail: u32,
    free: u32,
    length: usize,
    /// Places kept for elements that were taken.
    held: usize,
}

impl<T> Default for KeyedList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> KeyedList<T> {
    /// An empty list; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            elements: Vec::new(),
            far: Pool::new(),
            generation: 0,
            head: NIL,
            tail: NIL,
            free: NIL,
            length: 0,
            held: 0,
        }
    }

    /// How many elements there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The element at a place.
    #[inline(always)]
    fn at(&mut self, index: u32) -> Option<&mut Element<T>> {
        match self.elements.get_mut(index as usize) {
            None if index != NIL => far(&mut self.far, index),
            near => near,
        }
    }

    /// Appends an element. `None`, and the value is lost, if there is no memory for it.
    #[inline(always)]
    pub fn push(&mut self, value: T) -> Option<ListKey> {
        let (index, generation) = self.place(value)?;
        let tail = core::mem::replace(&mut self.tail, index);
        match self.at(tail) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        if let Some(element) = self.at(index) {
            element.previous = tail;
        }
        Some(ListKey { index, generation })
    }

    /// Puts an element before all others. `None`, and the value is lost, if there is no memory for it.
    #[inline(always)]
    pub fn push_first(&mut self, value: T) -> Option<ListKey> {
        let (index, generation) = self.place(value)?;
        let head = self.lead(index);
        if let Some(element) = self.at(index) {
            element.next = head;
        }
        Some(ListKey { index, generation })
    }

    /// Makes the element at this place the first; the one that was, which is to be the next.
    #[inline(always)]
    fn lead(&mut self, index: u32) -> u32 {
        let head = core::mem::replace(&mut self.head, index);
        match self.at(head) {
            Some(first) => first.previous = index,
            None => self.tail = index,
        }
        head
    }

    /// Stores a value without linking it.
    #[inline(always)]
    fn place(&mut self, value: T) -> Option<(u32, u64)> {
        if self.free == NIL {
            self.grow()?;
        }
        let index = self.free;
        let generation = self.next_generation();
        let element = self.at(index)?;
        let free = element.next;
        *element = Element { generation, next: NIL, previous: NIL, value: Some(value) };
        self.free = free;
        self.length = self.length.wrapping_add(1);
        Some((index, generation))
    }

    /// Makes sure that one more element finds room, as long as none is added. False if there is no memory for it.
    #[inline(always)]
    pub fn make_room(&mut self) -> bool {
        self.free != NIL || self.grow().is_some()
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<()> {
        let element = Element { generation: 0, next: NIL, previous: NIL, value: None };
        self.free = if self.elements.len() < NEAR {
            self.elements.try_reserve(1).ok()?;
            self.elements.push(element);
            u32::try_from(self.elements.len()).ok()?.checked_sub(1)?
        } else {
            self.far.insert(element)?.checked_add(NEAR_INDICES).filter(|index| *index != NIL)?
        };
        Some(())
    }

    /// Takes the first element and keeps its place for it: [`KeyedList::put_back`] needs no memory.
    pub fn take(&mut self) -> Option<(T, KeptPlace)> {
        let index = self.head;
        let value = self.unlink(index)?;
        self.held = self.held.wrapping_add(1);
        Some((value, KeptPlace { index }))
    }

    /// Puts a value into a place that was kept, before all others.
    pub fn put_back(&mut self, kept: KeptPlace, value: T) -> ListKey {
        let index = kept.index;
        let generation = self.next_generation();
        let head = self.lead(index);
        if let Some(element) = self.at(index) {
            *element = Element { generation, next: head, previous: NIL, value: Some(value) };
        }
        self.held = self.held.wrapping_sub(1);
        self.length = self.length.wrapping_add(1);
        ListKey { index, generation }
    }

    /// Keeps a place no longer.
    pub fn let_go(&mut self, kept: KeptPlace) {
        self.held = self.held.wrapping_sub(1);
        self.free_place(kept.index);
    }

    /// The first element.
    #[must_use]
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        let near = self.elements.get(self.head as usize);
        let first = near.or_else(|| self.far.get(self.head.checked_sub(NEAR_INDICES)?))?;
        first.value.as_ref()
    }

    /// Takes the first element.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        let index = self.head;
        let value = self.unlink(index)?;
        self.free_place(index);
        Some(value)
    }

    /// Takes the element with this key, if it is still in the list.
    pub fn remove(&mut self, key: ListKey) -> Option<T> {
        if self.at(key.index)?.generation != key.generation {
            return None;
        }
        let value = self.unlink(key.index)?;
        self.free_place(key.index);
        Some(value)
    }

    #[inline(always)]
    fn next_generation(&mut self) -> u64 {
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        generation
    }

    /// Takes the value out of a place and the place out of the order.
    #[inline(always)]
    fn unlink(&mut self, index: u32) -> Option<T> {
        let element = self.at(index)?;
        let value = element.value.take()?;
        let (next, previous) = (element.next, element.previous);
        self.length = self.length.wrapping_sub(1);
        if next == NIL && previous == NIL {
            (self.head, self.tail) = (NIL, NIL);
            return Some(value);
        }
        match self.at(previous) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match self.at(next) {
            Some(after) => after.previous = previous,
            None => self.tail = previous,
        }
        Some(value)
    }

    /// Makes an empty place free. The last element frees the memory of a long list.
    #[inline(always)]
    fn free_place(&mut self, index: u32) {
        if self.length == 0 && self.held == 0 && self.elements.len() > KEPT {
            return self.give_back();
        }
        let free = self.free;
        match self.elements.get_mut(index as usize) {
            Some(element) => {
                element.next = free;
                self.free = index;
            }
            None => self.give_back_far(index),
        }
    }

    /// Gives a place behind the first ones back.
    #[cold]
    #[inline(never)]
    fn give_back_far(&mut self, index: u32) {
        let place = index.checked_sub(NEAR_INDICES).and_then(|place| self.far.remove(place));
        drop(place);
    }

    /// Gives the places of an empty list back.
    #[cold]
    #[inline(never)]
    fn give_back(&mut self) {
        (self.elements, self.far) = (Vec::new(), Pool::new());
        self.free = NIL;
    }
}

/// The element at a place behind the first ones.
#[cold]
#[inline(never)]
fn far<T>(far: &mut Pool<Element<T>, CHUNK>, index: u32) -> Option<&mut Element<T>> {
    far.get_mut(index.checked_sub(NEAR_INDICES)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_place_that_is_kept_needs_no_memory() {
        let mut list = KeyedList::new();
        for number in 0..100 {
            list.push(number).unwrap();
        }
        while list.len() > 1 {
            list.pop();
        }
        let (last, held) = list.take().unwrap();
        let room = list.elements.capacity();
        // The list is empty, and yet has not given its memory back: the place is in it.
        let key = list.put_back(held, last);
        assert_eq!((list.elements.capacity(), list.remove(key)), (room, Some(99)));
        assert_eq!((list.elements.capacity(), list.held), (0, 0));
    }

    #[test]
    fn what_is_left_of_a_long_list_keeps_little_memory() {
        let mut list = KeyedList::new();
        let keys: Vec<_> = (0..10_000).map(|number| list.push(number).unwrap()).collect();
        for (number, key) in keys.into_iter().enumerate() {
            // One of each hundred stays.
            if number % 100 != 0 {
                assert_eq!(list.remove(key), Some(number));
            }
        }
        assert_eq!(list.len(), 100);
        assert!(list.far.spare_bytes() < 1200 * list.len(), "{}", list.far.spare_bytes());
        for number in 0..100 {
            assert_eq!(list.pop(), Some(100 * number));
        }
        assert_eq!((list.elements.capacity(), list.far.spare_bytes()), (0, 0));
    }

    proptest! {
        /// Against a vector.
        #[test]
        fn agrees_with_a_vector(operations in prop::collection::vec((0_u8..8, any::<u16>()), 0..300), many in 0_u16..100) {
            let mut list = KeyedList::new();
            let mut model: Vec<(ListKey, u16)> = (0..many).map(|number| (list.push(number).unwrap(), number)).collect();
            let mut dead: Vec<ListKey> = Vec::new();
            let mut taken: Vec<(KeptPlace, u16)> = Vec::new();
            for (operation, number) in operations {
                match operation {
                    4 => {
                        let expected = if model.is_empty() { None } else { Some(model.remove(0)) };
                        dead.extend(expected.map(|(key, _)| key));
                        let found = list.take();
                        prop_assert_eq!(found.as_ref().map(|(value, _)| *value), expected.map(|(_, value)| value));
                        taken.extend(found.map(|(value, held)| (held, value)));
                    }
                    5 => {
                        if let Some((held, value)) = taken.pop() {
                            model.insert(0, (list.put_back(held, value), value));
                        }
                    }
                    6 => {
                        if let Some((held, _)) = taken.pop() {
                            list.let_go(held);
                        }
                    }
                    7 => model.insert(0, (list.push_first(number).unwrap(), number)),
                    0 | 1 => model.push((list.push(number).unwrap(), number)),
                    2 => {
                        let expected = if model.is_empty() { None } else { Some(model.remove(0)) };
                        dead.extend(expected.map(|(key, _)| key));
                        prop_assert_eq!(list.pop(), expected.map(|(_, value)| value));
                    }
                    _ if !model.is_empty() => {
                        let (key, value) = model.remove(number as usize % model.len());
                        prop_assert_eq!(list.remove(key), Some(value));
                        dead.push(key);
                    }
                    _ => {}
                }
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(list.front(), model.first().map(|(_, value)| value));
            }
            for key in dead {
                prop_assert_eq!(list.remove(key), None);
            }
            for (_, value) in model {
                prop_assert_eq!(list.pop(), Some(value));
            }
            for (held, value) in taken {
                list.put_back(held, value);
                prop_assert_eq!(list.pop(), Some(value));
            }
            prop_assert!(list.is_empty());
        }
    }
}

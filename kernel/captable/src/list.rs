//! A first-in first-out list whose elements can be removed by key.

use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

/// Names one element of a [`KeyedList`] as long as it is in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ListKey {
    index: u32,
    generation: u64,
}

struct Element<T> {
    generation: u64,
    next: u32,
    previous: u32,
    value: Option<T>,
}

/// Places that an empty list keeps.
const KEPT: usize = 8;

/// The list. Elements lie in one allocation that is reused, so a list that stays short allocates no
/// more; one that was long gives its memory back when it is empty again.
pub struct KeyedList<T> {
    elements: Vec<Element<T>>,
    /// The generation that is given out next; none is ever given out twice.
    generation: u64,
    head: u32,
    tail: u32,
    free: u32,
    length: usize,
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
        Self { elements: Vec::new(), generation: 0, head: NIL, tail: NIL, free: NIL, length: 0 }
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

    /// Appends an element. `None`, and the value is lost, where there is no memory for it.
    pub fn push(&mut self, value: T) -> Option<ListKey> {
        let (index, generation) = self.place(value)?;
        let tail = core::mem::replace(&mut self.tail, index);
        match self.elements.get_mut(tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        if let Some(element) = self.elements.get_mut(index as usize) {
            element.previous = tail;
        }
        Some(ListKey { index, generation })
    }

    /// Stores a value without linking it.
    fn place(&mut self, value: T) -> Option<(u32, u64)> {
        if self.free == NIL {
            let index = u32::try_from(self.elements.len()).ok().filter(|index| *index != NIL)?;
            self.elements.try_reserve(1).ok()?;
            self.elements.push(Element { generation: 0, next: NIL, previous: NIL, value: None });
            self.free = index;
        }
        let index = self.free;
        let element = self.elements.get_mut(index as usize)?;
        self.free = element.next;
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        *element = Element { generation, next: NIL, previous: NIL, value: Some(value) };
        self.length += 1;
        Some((index, generation))
    }

    /// Puts an element before all others. `None`, and the value is lost, where there is no memory for it.
    pub fn push_front(&mut self, value: T) -> Option<ListKey> {
        let (index, generation) = self.place(value)?;
        let head = core::mem::replace(&mut self.head, index);
        match self.elements.get_mut(head as usize) {
            Some(first) => first.previous = index,
            None => self.tail = index,
        }
        if let Some(element) = self.elements.get_mut(index as usize) {
            element.next = head;
        }
        Some(ListKey { index, generation })
    }

    /// The oldest element.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.elements.get(self.head as usize).and_then(|element| element.value.as_ref())
    }

    /// Takes the oldest element.
    pub fn pop(&mut self) -> Option<T> {
        let index = self.head;
        let generation = self.elements.get(index as usize)?.generation;
        self.remove(ListKey { index, generation })
    }

    /// Takes the element with this key, if it is still in the list.
    pub fn remove(&mut self, key: ListKey) -> Option<T> {
        let free = self.free;
        let element = self.elements.get_mut(key.index as usize)?;
        if element.generation != key.generation {
            return None;
        }
        let value = element.value.take()?;
        let (next, previous) = (element.next, element.previous);
        element.next = free;
        self.free = key.index;
        match self.elements.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match self.elements.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => self.tail = previous,
        }
        self.length -= 1;
        if self.length == 0 && self.elements.len() > KEPT {
            self.elements = Vec::new();
            self.free = NIL;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a vector.
        #[test]
        fn agrees_with_a_vector(operations in prop::collection::vec((0_u8..5, any::<u16>()), 0..300)) {
            let mut list = KeyedList::new();
            let mut model: Vec<(ListKey, u16)> = Vec::new();
            let mut dead: Vec<ListKey> = Vec::new();
            for (operation, number) in operations {
                match operation {
                    4 => model.insert(0, (list.push_front(number).unwrap(), number)),
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
            prop_assert!(list.is_empty());
        }
    }
}

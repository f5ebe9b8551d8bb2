//! Which number stands for which open file.

use alloc::vec::Vec;

/// Most descriptors of a process.
pub const MAX_DESCRIPTORS: usize = 1024;

/// Numbers and their objects; the lowest free number is given first.
#[derive(Debug)]
pub struct DescriptorTable<T> {
    places: Vec<Option<Place<T>>>,
}

#[derive(Debug)]
struct Place<T> {
    open: T,
    close_on_exec: bool,
}

impl<T: Clone> DescriptorTable<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { places: Vec::new() }
    }

    fn place(&self, number: i32) -> Option<&Place<T>> {
        self.places.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// The object of a number.
    pub fn get(&self, number: i32) -> Option<T> {
        self.place(number).map(|place| place.open.clone())
    }

    /// Gives out the lowest free number that is at least `from`; `None` if there is none.
    pub fn add(&mut self, open: T, from: usize, close_on_exec: bool) -> Option<i32> {
        let taken = |at: &usize| self.places.get(*at).is_some_and(Option::is_some);
        let at = (from..MAX_DESCRIPTORS).find(|at| !taken(at))?;
        self.put(at, Place { open, close_on_exec });
        i32::try_from(at).ok()
    }

    /// Makes a number stand for something. Returns its earlier object; if the number is out of range, it does nothing
    /// and returns `Err`.
    pub fn set(&mut self, number: i32, open: T, close_on_exec: bool) -> Result<Option<T>, T> {
        match usize::try_from(number).ok().filter(|at| *at < MAX_DESCRIPTORS) {
            Some(at) => Ok(self.put(at, Place { open, close_on_exec }).map(|place| place.open)),
            None => Err(open),
        }
    }

    fn put(&mut self, at: usize, place: Place<T>) -> Option<Place<T>> {
        if at >= self.places.len() {
            self.places.resize_with(at.saturating_add(1), || None);
        }
        self.places.get_mut(at)?.replace(place)
    }

    /// Frees a number. Its earlier object.
    pub fn remove(&mut self, number: i32) -> Option<T> {
        let place = self.places.get_mut(usize::try_from(number).ok()?)?.take()?;
        Some(place.open)
    }

    /// Whether a number would be closed when a program replaces itself.
    pub fn close_on_exec(&self, number: i32) -> Option<bool> {
        self.place(number).map(|place| place.close_on_exec)
    }

    /// Says whether it would; `None` if the number stands for nothing.
    pub fn set_close_on_exec(&mut self, number: i32, close: bool) -> Option<()> {
        let place = self.places.get_mut(usize::try_from(number).ok()?)?.as_mut()?;
        place.close_on_exec = close;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[test]
    fn the_lowest_free_number_is_given() {
        let mut table = DescriptorTable::new();
        assert_eq!(table.add('a', 0, false), Some(0));
        assert_eq!(table.add('b', 0, true), Some(1));
        assert_eq!(table.add('c', 10, false), Some(10));
        assert_eq!(table.remove(0), Some('a'));
        assert_eq!(table.remove(0), None);
        assert_eq!(table.add('d', 0, false), Some(0));
        assert_eq!(
            (table.close_on_exec(1), table.close_on_exec(0), table.close_on_exec(5)),
            (Some(true), Some(false), None)
        );
        assert_eq!(table.set_close_on_exec(1, false), Some(()));
        assert_eq!(table.close_on_exec(1), Some(false));
        assert_eq!(table.set_close_on_exec(7, false), None);
    }

    #[test]
    fn numbers_out_of_range_stand_for_nothing() {
        let mut table = DescriptorTable::new();
        for number in [-1, i32::MIN, i32::MAX, 1024] {
            assert_eq!(table.get(number), None);
            assert_eq!(table.remove(number), None);
            assert_eq!(table.set(number, 'x', false), Err('x'));
        }
        assert_eq!(table.add('x', 1024, false), None);
        assert_eq!(table.set(1023, 'x', false), Ok(None));
        assert_eq!(table.add('y', 1023, false), None);
        assert_eq!(table.set(1023, 'z', false), Ok(Some('x')));
    }

    proptest! {
        /// The table behaves like a map, and fills from below.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u8..4, 0_i32..12), 0..60)) {
            let mut table = DescriptorTable::new();
            let mut map = BTreeMap::new();
            for (count, (what, number)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        let given = table.add(count, usize::try_from(number).unwrap(), false).unwrap();
                        prop_assert_eq!(given, (number..).find(|at| !map.contains_key(at)).unwrap());
                        map.insert(given, count);
                    }
                    2 => prop_assert_eq!(table.remove(number), map.remove(&number)),
                    _ => prop_assert_eq!(table.set(number, count, true), Ok(map.insert(number, count))),
                }
                for number in 0..30 {
                    prop_assert_eq!(table.get(number), map.get(&number).copied());
                }
            }
        }
    }
}

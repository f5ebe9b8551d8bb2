//! Counts things of which a limited number may be held at once.

use alloc::rc::Rc;
use core::cell::Cell;

/// One of them; it counts until it is dropped.
#[derive(Debug)]
pub struct Permit(Rc<Cell<u32>>);

impl Permit {
    /// One more of those that `count` counts, where there are fewer than `most`.
    #[must_use]
    pub fn acquire(count: &Rc<Cell<u32>>, most: u32) -> Option<Self> {
        let held = count.get();
        if held >= most {
            return None;
        }
        count.set(held.saturating_add(1));
        Some(Self(count.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn one_that_is_dropped_makes_place_for_another() {
        let count = Rc::default();
        let mut held: Vec<Permit> = (0..5).filter_map(|_| Permit::acquire(&count, 3)).collect();
        assert_eq!((held.len(), count.get()), (3, 3));
        held.pop();
        assert!(Permit::acquire(&count, 3).is_some());
        assert_eq!(count.get(), 2);
    }
}

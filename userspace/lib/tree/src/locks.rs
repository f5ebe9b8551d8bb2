//! Locks of whole files: held by many who share one, or by one alone.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::NodeId;

/// Names an open file until it is closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder(u64);

enum Lock {
    Exclusive(Holder),
    Shared(BTreeSet<Holder>),
}

/// All locks of a tree.
#[derive(Default)]
pub struct Locks {
    held: BTreeMap<NodeId, Lock>,
    next: u64,
}

impl Locks {
    /// A name for a file that is opened.
    pub fn holder(&mut self) -> Holder {
        let holder = Holder(self.next);
        self.next = self.next.wrapping_add(1);
        holder
    }

    /// Locks a file if no other holder's lock forbids it. The new lock replaces the holder's own, which otherwise stays.
    pub fn attempt(&mut self, node: NodeId, holder: Holder, exclusive: bool) -> bool {
        match self.held.get_mut(&node) {
            Some(Lock::Exclusive(other)) if *other != holder => false,
            Some(Lock::Shared(others)) if exclusive && others.iter().any(|other| *other != holder) => false,
            Some(Lock::Shared(others)) if !exclusive => {
                others.insert(holder);
                true
            }
            _ => {
                let lock = if exclusive { Lock::Exclusive(holder) } else { Lock::Shared(BTreeSet::from([holder])) };
                self.held.insert(node, lock);
                true
            }
        }
    }

    /// Gives up the holder's lock. Whether it had one.
    pub fn release(&mut self, node: NodeId, holder: Holder) -> bool {
        let (had, free) = match self.held.get_mut(&node) {
            Some(Lock::Exclusive(other)) => (*other == holder, *other == holder),
            Some(Lock::Shared(others)) => (others.remove(&holder), others.is_empty()),
            None => (false, false),
        };
        if free {
            self.held.remove(&node);
        }
        had
    }

    /// How many files are locked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
    use proptest::prelude::*;

    #[test]
    fn one_excludes_all_others() {
        let mut locks = Locks::default();
        let (a, b, c) = (locks.holder(), locks.holder(), locks.holder());
        let node = Tree::ROOT;
        assert!(locks.attempt(node, a, false) && locks.attempt(node, b, false));
        assert!(!locks.attempt(node, a, true), "another shares it");
        assert!(locks.release(node, b));
        assert!(!locks.release(node, b));
        assert!(locks.attempt(node, a, true), "nobody else shares it");
        assert!(!locks.attempt(node, b, false) && !locks.attempt(node, c, true));
        assert!(!locks.release(node, b), "it is not b's");
        assert!(locks.attempt(node, a, false) && locks.attempt(node, b, false), "it is shared instead");
        assert!(locks.release(node, a) && locks.release(node, b) && locks.is_empty());
    }

    proptest! {
        /// Never more than one alone, and nothing is left when all have let go.
        #[test]
        fn locks_are_what_they_promise(steps in prop::collection::vec((0_usize..4, 0_u8..3), 0..40)) {
            let mut locks = Locks::default();
            let holders: Vec<Holder> = (0..4).map(|_| locks.holder()).collect();
            let mut held = [None; 4];
            for (who, what) in steps {
                if what == 2 {
                    prop_assert_eq!(locks.release(Tree::ROOT, holders[who]), held[who].take().is_some());
                } else if locks.attempt(Tree::ROOT, holders[who], what == 1) {
                    held[who] = Some(what == 1);
                }
                let alone = held.iter().filter(|mode| **mode == Some(true)).count();
                prop_assert!(alone == 0 || held.iter().flatten().count() == 1);
            }
            for holder in holders {
                locks.release(Tree::ROOT, holder);
            }
            prop_assert!(locks.is_empty());
        }
    }
}

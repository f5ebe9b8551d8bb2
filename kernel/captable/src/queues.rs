//! Many queues by key in one structure: first in first out within a key, with removal from the
//! middle. The cost grows with the logarithm of all elements, whatever the keys are.
//!
//! It is a treap: a binary tree by key and age whose shape depends on numbers from a secret seed.
//! So a caller that chooses keys and times cannot make it deep.

use crate::pool::{NIL, Pool};

/// Names an element while it is in a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueKey {
    key: u64,
    age: u64,
}

struct Node<T> {
    key: QueueKey,
    /// Parents have higher ones than their children.
    rank: u64,
    left: u32,
    right: u32,
    value: T,
}

/// The queues.
pub struct Queues<T> {
    nodes: Pool<Node<T>>,
    root: u32,
    /// Age of the next element.
    next: u64,
    seed: u64,
}

/// Spreads a number over all 64 bits (the finalizer of SplitMix64).
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl<T> Queues<T> {
    /// Empty queues; allocates nothing. `seed` is a secret.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { nodes: Pool::new(), root: NIL, next: 0, seed }
    }

    /// How many elements there are in all queues.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A mark between the elements that are there and those that come later.
    #[must_use]
    pub const fn mark(&self) -> u64 {
        self.next
    }

    /// Appends to the queue `key`. `None`, and the value is lost, if there is no memory for it.
    pub fn push(&mut self, key: u64, value: T) -> Option<QueueKey> {
        let key = QueueKey { key, age: self.next };
        let rank = mix(key.age.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.seed);
        let node = self.nodes.insert(Node { key, rank, left: NIL, right: NIL, value })?;
        self.next = self.next.wrapping_add(1);
        let (before, behind) = self.split(self.root, key);
        let before = self.join(before, node);
        self.root = self.join(before, behind);
        Some(key)
    }

    /// Takes the oldest element of the queue `key`, if it is older than `mark`.
    pub fn pop(&mut self, key: u64, mark: u64) -> Option<T> {
        let least = QueueKey { key, age: 0 };
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.nodes.get(at) {
            if node.key < least {
                at = node.right;
            } else {
                found = Some(node.key);
                at = node.left;
            }
        }
        self.remove(found.filter(|found| found.key == key && found.age < mark)?)
    }

    /// Takes an element out, if it is still there.
    pub fn remove(&mut self, key: QueueKey) -> Option<T> {
        let (before, rest) = self.split(self.root, key);
        let after = QueueKey { age: key.age.wrapping_add(1), ..key };
        let (found, behind) = self.split(rest, after);
        self.root = self.join(before, behind);
        self.nodes.remove(found).map(|node| node.value)
    }

    /// The parts of a tree before `key`, and from it on.
    fn split(&mut self, tree: u32, key: QueueKey) -> (u32, u32) {
        let Some(node) = self.nodes.get(tree) else { return (NIL, NIL) };
        if node.key < key {
            let (before, behind) = self.split(node.right, key);
            if let Some(node) = self.nodes.get_mut(tree) {
                node.right = before;
            }
            (tree, behind)
        } else {
            let (before, behind) = self.split(node.left, key);
            if let Some(node) = self.nodes.get_mut(tree) {
                node.left = behind;
            }
            (before, tree)
        }
    }

    /// One tree of two; all of the first come before all of the second.
    fn join(&mut self, first: u32, second: u32) -> u32 {
        let (Some(a), Some(b)) = (self.nodes.get(first), self.nodes.get(second)) else {
            return if first == NIL { second } else { first };
        };
        if a.rank > b.rank {
            let right = self.join(a.right, second);
            if let Some(node) = self.nodes.get_mut(first) {
                node.right = right;
            }
            first
        } else {
            let left = self.join(first, b.left);
            if let Some(node) = self.nodes.get_mut(second) {
                node.left = left;
            }
            second
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a vector.
        #[test]
        fn agree_with_a_vector(
            operations in prop::collection::vec((0_u8..4, 0_u64..6, any::<u16>()), 0..400),
            seed in any::<u64>(),
        ) {
            let mut queues = Queues::new(seed);
            let mut model: Vec<(QueueKey, u16)> = Vec::new();
            let mut marks = vec![0];
            for (operation, key, number) in operations {
                match operation {
                    0 | 1 => model.push((queues.push(key, number).unwrap(), number)),
                    2 => {
                        marks.push(queues.mark());
                        let mark = marks[number as usize % marks.len()];
                        let place = model.iter().position(|(found, _)| found.key == key);
                        let place = place.filter(|place| model[*place].0.age < mark);
                        prop_assert_eq!(queues.pop(key, mark), place.map(|place| model.remove(place).1));
                    }
                    _ if !model.is_empty() => {
                        let (key, value) = model.remove(number as usize % model.len());
                        prop_assert_eq!(queues.remove(key), Some(value));
                        prop_assert_eq!(queues.remove(key), None);
                    }
                    _ => {}
                }
                prop_assert_eq!(queues.len(), model.len());
            }
            let mark = queues.mark();
            for (key, value) in model {
                prop_assert_eq!(queues.pop(key.key, mark), Some(value));
            }
            prop_assert!(queues.is_empty());
        }
    }

    fn depth<T>(queues: &Queues<T>, tree: u32) -> usize {
        queues.nodes.get(tree).map_or(0, |node| 1 + depth(queues, node.left).max(depth(queues, node.right)))
    }

    /// Keys that rise, that fall, and that are all equal make no deep tree.
    #[test]
    fn orders_of_arrival_do_not_matter() {
        for keys in [|at: u64| at, |at: u64| u64::MAX - at, |_| 7, |at: u64| at.reverse_bits()] {
            let mut queues = Queues::new(0x1234_5678);
            for at in 0..50_000 {
                queues.push(keys(at), at).unwrap();
            }
            let found = depth(&queues, queues.root);
            assert!(found < 60, "{found} levels for 50,000 elements");
        }
    }
}

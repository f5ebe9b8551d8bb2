//! The nodes of the tree that are in memory: a bounded number of them.
//!
//! A cached node's parent is cached, and was used later than the node. So the node that was used longest ago has no
//! cached child, and can be evicted without any other.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::entry::Node;

/// A node's level, from 1, and its number in the level.
pub type Place = (u8, u64);

struct Cached {
    node: Node,
    /// True if the node differs from what its parent's entry refers to.
    dirty: bool,
    used: u64,
}

pub struct Cache {
    nodes: BTreeMap<Place, Cached>,
    by_use: BTreeMap<u64, Place>,
    clock: u64,
    most: usize,
    /// The node whose path was used last, with nothing used since.
    last: Option<Place>,
}

impl Cache {
    /// A cache of at most `most` nodes; a path through the tree needs one node of each level, and one is to be evicted.
    pub fn new(most: usize, levels: u8) -> Self {
        let most = most.max(usize::from(levels).saturating_add(1));
        Self { nodes: BTreeMap::new(), by_use: BTreeMap::new(), clock: 0, most, last: None }
    }

    /// Whether this node and those above it were used last, so that using them again changes no order.
    pub fn is_last(&self, place: Place) -> bool {
        self.last == Some(place)
    }

    /// Notes that this node and those above it were used last.
    pub fn set_last(&mut self, place: Place) {
        self.last = Some(place);
    }

    pub fn is_full(&self) -> bool {
        self.nodes.len() >= self.most
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Notes a use of the node, if it is here. Returns whether it is.
    pub fn touch(&mut self, place: Place) -> bool {
        self.last = None;
        let Some(cached) = self.nodes.get_mut(&place) else {
            return false;
        };
        self.by_use.remove(&cached.used);
        self.clock = self.clock.wrapping_add(1);
        cached.used = self.clock;
        self.by_use.insert(self.clock, place);
        true
    }

    pub fn insert(&mut self, place: Place, node: Node) {
        self.nodes.insert(place, Cached { node, dirty: false, used: 0 });
        self.touch(place);
    }

    /// The node that was used longest ago.
    pub fn oldest(&self) -> Option<Place> {
        self.by_use.first_key_value().map(|(_, place)| *place)
    }

    pub fn remove(&mut self, place: Place) {
        if let Some(cached) = self.nodes.remove(&place) {
            self.by_use.remove(&cached.used);
        }
    }

    pub fn get(&self, place: Place) -> Option<&Node> {
        self.nodes.get(&place).map(|cached| &cached.node)
    }

    /// A node that the caller is about to change.
    pub fn change(&mut self, place: Place) -> Option<&mut Node> {
        let cached = self.nodes.get_mut(&place)?;
        cached.dirty = true;
        Some(&mut cached.node)
    }

    /// A node that is sealed, for as long as that takes.
    pub fn take(&mut self, place: Place) -> Option<Node> {
        self.nodes.get_mut(&place).map(|cached| core::mem::replace(&mut cached.node, Node(Box::default())))
    }

    /// Puts a node back that was taken.
    pub fn put_back(&mut self, place: Place, node: Node) {
        if let Some(cached) = self.nodes.get_mut(&place) {
            cached.node = node;
        }
    }

    pub fn is_dirty(&self, place: Place) -> bool {
        self.nodes.get(&place).is_some_and(|cached| cached.dirty)
    }

    pub fn set_clean(&mut self, place: Place) {
        if let Some(cached) = self.nodes.get_mut(&place) {
            cached.dirty = false;
        }
    }

    /// The dirty nodes of a level, in the order of their numbers.
    pub fn dirty(&self, level: u8) -> alloc::vec::Vec<Place> {
        let level = (level, 0)..=(level, u64::MAX);
        self.nodes.range(level).filter(|(_, cached)| cached.dirty).map(|(place, _)| *place).collect()
    }
}

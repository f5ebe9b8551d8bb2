//! What was read through a capability, for what is written through it.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use capos_policy::{all_above, join};
use capos_schema::authority::Label;
use core::cell::{Cell, RefCell};

/// The label of all that one holder was given and has read. A holder that gives the label of each write itself has none. All
/// that is opened by one capability shares its trail, also between holders.
#[derive(Clone, Debug, Default)]
pub struct Trail(Option<Rc<RefCell<Label>>>);

impl Trail {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The label of what is written.
    #[must_use]
    pub fn label(&self) -> Label {
        self.0.as_ref().map(|label| label.borrow().clone()).unwrap_or_default()
    }

    /// Notes that something with this label is read.
    pub fn join(&self, label: &Label) {
        if let Some(own) = &self.0 {
            let joined = join(&own.borrow(), label);
            *own.borrow_mut() = joined;
        }
    }

    /// A trail that begins with this label, or the same one with it: a holder cannot lose the label of what it has read.
    #[must_use]
    pub fn labelled(&self, label: &Label) -> Self {
        let trail = if self.is_none() { Self(Some(Rc::default())) } else { self.clone() };
        trail.join(label);
        trail
    }
}

/// Trails that are kept at most. The holder of an older one gets [`all_above`] in its place.
const MAX_TRAILS: usize = 1024;

/// Trails of roots that outlive this instance of the service, by their numbers.
#[derive(Debug)]
pub struct Trails {
    kept: RefCell<BTreeMap<u64, Trail>>,
    next: Cell<u64>,
}

impl Trails {
    /// None yet. `start` is when this instance began, in nanoseconds since power-on: no instance gives the number of another,
    /// since it gives less than one in a microsecond. Numbers have 48 bits, and 0 is none.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self { kept: RefCell::default(), next: Cell::new((start / 1000).max(1)) }
    }

    /// Keeps the trail of a root, and gives its number.
    pub fn keep(&self, trail: Trail) -> u64 {
        let number = self.next.get();
        self.next.set(number.saturating_add(1));
        self.insert(number, trail);
        number
    }

    /// The trail of a number. It is not known what was read through a trail of an earlier instance.
    #[must_use]
    pub fn find(&self, number: u64) -> Trail {
        let known = self.kept.borrow().get(&number).cloned();
        known.unwrap_or_else(|| {
            let trail = Trail::default().labelled(&all_above());
            self.insert(number, trail.clone());
            trail
        })
    }

    fn insert(&self, number: u64, trail: Trail) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MAX_TRAILS {
            kept.pop_first();
        }
        kept.insert(number, trail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn label(classes: &[&str]) -> Label {
        Label { classes: classes.iter().copied().map(String::from).collect() }
    }

    #[test]
    fn a_root_of_an_earlier_instance_carries_every_label() {
        let trails = Trails::new(1000);
        let log = label(&["pii.log"]);
        let number = trails.keep(Trail::default().labelled(&log));
        let trail = trails.find(number);
        assert_eq!(trail.label(), log);
        trail.join(&label(&["secret.key"]));
        assert_eq!(trails.find(number).label(), label(&["pii.log", "secret.key"]));
        // The next instance, which gives other numbers.
        let next = Trails::new(2000);
        let own = next.keep(Trail::default().labelled(&log));
        assert!(own != number && next.find(own).label() == log);
        assert_eq!(next.find(number).label(), all_above());
    }

    #[test]
    fn trails_are_bounded_and_a_forgotten_one_is_above_all() {
        let trails = Trails::new(0);
        let first = trails.keep(Trail::default().labelled(&Label::default()));
        for _ in 0..MAX_TRAILS {
            trails.keep(Trail::default());
        }
        assert_eq!(trails.kept.borrow().len(), MAX_TRAILS);
        assert_eq!(trails.find(first).label(), all_above());
    }
}

//! What was read through a capability, for what is written through it.

use alloc::rc::Rc;
use capos_policy::join;
use capos_schema::authority::Label;
use core::cell::RefCell;

/// The label of all that one holder was given and has read. A holder that gives the label of each write itself has none. All
/// that is opened by one capability shares its trail, whoever holds which of it.
#[derive(Clone, Default)]
pub struct Trail(Option<Rc<RefCell<Label>>>);

impl Trail {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The label of what is written.
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
    pub fn labelled(&self, label: &Label) -> Self {
        let trail = if self.is_none() { Self(Some(Rc::default())) } else { self.clone() };
        trail.join(label);
        trail
    }
}

//! What a part of a session may use of models.

use alloc::rc::Rc;

use super::Meter;

impl Meter {
    /// The same for a part of the session, which is counted by this name. What the session may hold, it holds together with its
    /// parts.
    pub fn part(&self, key: &str) -> Rc<Self> {
        Rc::new(Self { key: key.into(), ..self.clone() })
    }
}

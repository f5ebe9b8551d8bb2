//! What is common to the tables.

use core::fmt;

/// A pair of a state and an event that the table does not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPermitted<S, E> {
    /// The state, which stays.
    pub state: S,
    /// The event, which has no effect.
    pub event: E,
}

impl<S: fmt::Debug, E: fmt::Debug> fmt::Display for NotPermitted<S, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the state {:?} does not permit the event {:?}", self.state, self.event)
    }
}

impl<S: fmt::Debug, E: fmt::Debug> core::error::Error for NotPermitted<S, E> {}

//! What the calls of a session that are about to be made change in their files.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use core::cell::RefCell;

use capos_agent::world::Host;
use capos_agent::{Either, Tool, race};
use capos_schema::models::ToolCall;

use crate::change::{Change, PendingWrite};
use crate::runner::Runner;
use crate::surface::Surface;

/// How long a call waits until the file that it changes has been read, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
/// Changes that are remembered: one for each run that can ask at one time, and some that were shown again.
const MOST: usize = 8;

/// The changes that the person was shown, of the calls that they were asked about last. Each change has the call's id and arguments.
#[derive(Debug, Default)]
pub struct Writes(RefCell<VecDeque<(String, String, Change)>>);

impl Writes {
    /// The person is shown what the call of this id with these arguments changes: it makes this change, or none.
    pub fn shown(&self, (call_id, arguments): (&str, &str), change: &Change) {
        self.forget(call_id, arguments);
        let mut writes = self.0.borrow_mut();
        if writes.len() >= MOST {
            writes.pop_front();
        }
        writes.push_back((call_id.to_string(), arguments.to_string(), change.clone()));
    }

    /// The person does not permit the call.
    pub(crate) fn forget(&self, call_id: &str, arguments: &str) {
        drop(self.take(call_id, arguments));
    }

    /// The change that the person was shown of this call.
    fn take(&self, call_id: &str, arguments: &str) -> Option<Change> {
        let mut writes = self.0.borrow_mut();
        let at = writes.iter().position(|(id, given, _)| id == call_id && given == arguments)?;
        writes.remove(at).map(|(.., change)| change)
    }
}

impl<S: Surface> Runner<S> {
    /// What a call is about to change, and whether the person was shown it. Without a question the file is read now, if the
    /// session keeps changes.
    pub(crate) async fn change(&self, tool: &Tool, call: &ToolCall) -> Option<(Change, bool)> {
        if let Some(change) = self.writes.take(&call.id, &call.arguments) {
            return Some((change, true));
        }
        if self.saves_nothing() {
            return None;
        }
        let look = async { PendingWrite::of(self, tool, &call.arguments).await?.look().await.ok() };
        let patience = self.sleep_until(self.now().saturating_add(PATIENCE));
        match race(look, patience).await {
            Either::Left(change) => Some((change?, false)),
            Either::Right(()) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::Label;

    /// Requirement C38: a call makes the change that was shown of it last, once, and no other call does.
    #[test]
    fn c38_a_change_is_of_the_call_that_was_asked_about() {
        let of = |new: &str| {
            let (path, label) = ("a".to_string(), Label::default());
            Change { path, old: Ok(None), new: new.to_string(), is_appended: false, label }
        };
        let writes = Writes::default();
        for new in ["first", "second"] {
            writes.shown(("1", "{}"), &of(new));
        }
        writes.shown(("1", "{\"x\":1}"), &of("other"));
        assert_eq!([writes.take("2", "{}"), writes.take("1", "")], [None, None]);
        assert_eq!(writes.take("1", "{}"), Some(of("second")));
        assert_eq!(writes.take("1", "{}"), None);
        writes.forget("1", "{\"x\":1}");
        assert!(writes.0.borrow().is_empty());
        for number in 0..20 {
            writes.shown((&number.to_string(), "{}"), &of("many"));
        }
        assert_eq!(writes.0.borrow().len(), MOST);
        assert!(writes.take("19", "{}").is_some() && writes.take("0", "{}").is_none());
    }
}

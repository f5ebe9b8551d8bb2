//! What the calls of a session that are about to be made change in their files.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use core::cell::RefCell;

use capos_agent::world::{Ask, Host};
use capos_agent::{Either, Tool, race};
use capos_schema::models::ToolCall;

use crate::change::{Change, PATIENCE, PendingWrite};
use crate::runner::Runner;
use crate::surface::Surface;

/// Changes that are remembered: one for each run that can ask at one time, and some that were shown again.
const MOST: usize = 8;

/// The changes that the person was shown, of the calls that they were asked about last. Each change has the call's id and
/// arguments. Two runs may have calls of the same id, so a change is that of its run.
#[derive(Debug, Default)]
pub struct Writes(RefCell<VecDeque<(String, String, Change)>>);

impl Writes {
    /// The person is shown what the call of this id with these arguments changes: it makes this change, or none.
    pub fn shown(&self, (call_id, arguments): (&str, &str), change: &Change) {
        self.forget(change.run, call_id, arguments);
        let mut writes = self.0.borrow_mut();
        if writes.len() >= MOST {
            writes.pop_front();
        }
        writes.push_back((call_id.to_string(), arguments.to_string(), change.clone()));
    }

    /// The person does not permit the call.
    fn forget(&self, run: u64, call_id: &str, arguments: &str) {
        drop(self.take(run, call_id, arguments));
    }

    /// The change that the person was shown of this call.
    fn take(&self, run: u64, call_id: &str, arguments: &str) -> Option<Change> {
        let mut writes = self.0.borrow_mut();
        let is_it =
            |(id, given, change): &(String, String, Change)| change.run == run && id == call_id && given == arguments;
        let at = writes.iter().position(is_it)?;
        writes.remove(at).map(|(.., change)| change)
    }
}

/// A question about a call: unless the person permits it, the change that they were shown is forgotten. That holds for a
/// question whose caller waits no longer, too.
pub(crate) struct Asked<'a> {
    writes: &'a Writes,
    run: u64,
    call_id: &'a str,
    arguments: &'a str,
    is_permitted: bool,
}

impl<'a> Asked<'a> {
    pub(crate) fn of<S>(runner: &'a Runner<S>, ask: &Ask<'a>) -> Self {
        let (call_id, arguments) = (ask.call_id, ask.arguments);
        Self { writes: &runner.writes, run: runner.number, call_id, arguments, is_permitted: false }
    }

    /// The person has answered.
    pub(crate) fn end(mut self, is_permitted: bool) {
        self.is_permitted = is_permitted;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_permitted {
            self.writes.forget(self.run, self.call_id, self.arguments);
        }
    }
}

impl<S: Surface> Runner<S> {
    /// What a call is about to change, and whether the person was shown it. Without a question the file is read now, if the
    /// session keeps changes.
    pub(crate) async fn change(&self, tool: &Tool, call: &ToolCall) -> Option<(Change, bool)> {
        if let Some(change) = self.writes.take(self.number, &call.id, &call.arguments) {
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
        let of_run = |run: u64, new: &str| {
            let (path, label) = ("a".to_string(), Label::default());
            Change { path, old: Ok(None), new: new.to_string(), is_appended: false, label, run }
        };
        let of = |new: &str| of_run(1, new);
        let writes = Writes::default();
        for new in ["first", "second"] {
            writes.shown(("1", "{}"), &of(new));
        }
        writes.shown(("1", "{\"x\":1}"), &of("other"));
        assert_eq!([writes.take(1, "2", "{}"), writes.take(1, "1", "")], [None, None]);
        // Another run has a call of the same id with the same arguments.
        assert_eq!(writes.take(2, "1", "{}"), None);
        writes.shown(("1", "{}"), &of_run(2, "another run's"));
        assert_eq!(writes.take(1, "1", "{}"), Some(of("second")));
        assert_eq!(writes.take(1, "1", "{}"), None);
        for is_permitted in [true, false] {
            let (call_id, arguments) = ("1", "{}");
            Asked { writes: &writes, run: 2, call_id, arguments, is_permitted: false }.end(is_permitted);
        }
        assert_eq!(writes.take(2, "1", "{}"), None);
        writes.forget(1, "1", "{\"x\":1}");
        assert!(writes.0.borrow().is_empty());
        for number in 0..20 {
            writes.shown((&number.to_string(), "{}"), &of("many"));
        }
        assert_eq!(writes.0.borrow().len(), MOST);
        assert!(writes.take(1, "19", "{}").is_some() && writes.take(1, "0", "{}").is_none());
    }
}

//! The budget of a child run: a part of its parent's, as long as it runs.
//!
//! A session's run has one child run at a time, and waits for it. So what the session uses meanwhile is the child's. Nothing of a
//! child is kept by itself: its part is reserved in its parent, and counts as used there if the machine ends before it.

use alloc::format;
use alloc::string::{String, ToString};

use capos_budget::{Amounts, Dimension, Estimate, OnExceed, Plan, Refused, Rule, ScopeId, ScopeKind, UNLIMITED};

use super::{Budgets, Ended, MILLISECOND, Moment};

/// Child runs of a run whose budgets are shown. Of more, those that ended first are not.
const SHOWN: usize = 8;

/// A child run.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) scope: ScopeId,
    /// Its conversation, which ends in its number.
    name: String,
    /// When it began, in nanoseconds since boot.
    began: u64,
    estimate: Estimate,
}

impl Child {
    /// Its number in its parent.
    pub(super) fn number(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(_, number)| number)
    }

    /// The name of one of its steps among those of its parent.
    pub(super) fn step(&self, name: &str) -> String {
        format!("child run {}: {name}", self.number())
    }

    /// Milliseconds that it has taken.
    pub(super) fn age(&self, at: Moment) -> u64 {
        at.now.saturating_sub(self.began).checked_div(MILLISECOND).unwrap_or_default()
    }
}

impl Budgets {
    /// Begins a child run of a session's run, and ends the one before. Its limits are these parts of what the run has left, in the
    /// units of the dimensions; 0 is half of that. At each of them it ends.
    ///
    /// # Errors
    /// There is no run, or a part is more than what is left.
    pub fn begin_child(
        &mut self,
        id: &str,
        (name, shares): (&str, Amounts),
        estimate: Estimate,
        at: Moment,
    ) -> Result<(), Refused> {
        self.close_child(id);
        self.pass(id, at);
        let run = self.run_of(id).ok_or(Refused::Over)?;
        let mut plan = Plan::default();
        for (dimension, left) in self.ledger.left(run).iter() {
            let limit = match (shares.get(dimension), left) {
                (0, UNLIMITED) => UNLIMITED,
                (0, left) => left / 2,
                // Time passes for both at once, so the ledger does not divide it.
                (share, left) if dimension == Dimension::WallClock => share.min(left),
                (share, _) => share,
            };
            plan.set(dimension, Rule { limit, on_exceed: OnExceed::Stop });
        }
        let scope = self.ledger.split(run, ScopeKind::Child, plan)?;
        let session = self.sessions.get_mut(id).ok_or(Refused::Over)?;
        session.child = Some(Child { scope, name: name.to_string(), began: at.now, estimate });
        self.touch(id);
        Ok(())
    }

    /// The child run of a session's run, if it has one.
    #[must_use]
    pub fn child_of(&self, id: &str) -> Option<ScopeId> {
        Some(self.sessions.get(id)?.child.as_ref()?.scope)
    }

    /// The name of a session's run, if it has one: its conversation and turn.
    #[must_use]
    pub fn run_name(&self, id: &str) -> Option<&str> {
        Some(self.sessions.get(id)?.run.as_ref()?.name.as_str())
    }

    /// The limits of the child run, and what it has used.
    pub fn child_use(&mut self, id: &str, at: Moment) -> Option<(Amounts, Amounts)> {
        self.pass(id, at);
        let account = self.ledger.account(self.child_of(id)?)?;
        let mut limits = Amounts::default();
        for dimension in Dimension::ALL {
            limits.set(dimension, account.rule(dimension).limit);
        }
        Some((limits, account.used()))
    }

    /// Ends the child run, if there is one: what it has not used is its parent's again.
    pub fn end_child(&mut self, id: &str, at: Moment) -> Option<Ended> {
        self.child_of(id)?;
        self.pass(id, at);
        let crossed = self.crossed(id);
        let (used, estimate) = self.close_child(id)?;
        Some(Ended { used, estimate, crossed })
    }

    pub(super) fn close_child(&mut self, id: &str) -> Option<(Amounts, Estimate)> {
        let session = self.sessions.get_mut(id)?;
        let child = session.child.take()?;
        let account = self.ledger.close(child.scope)?;
        let used = account.used();
        if session.children.len() >= SHOWN {
            session.children.remove(0);
        }
        session.children.push((child.number().to_string(), account));
        self.touch(id);
        Some((used, child.estimate))
    }
}

//! The budget of a part of a session, in which one run proceeds in parallel with the session's own.
//!
//! A part is counted as a session is, by a name of its own. It is reserved in its session. Nothing of it is kept by itself: what its
//! run has used is kept with that run, which can be continued, and counts in the session.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{Amounts, Dimension, OnExceed, Plan, Refused, Rule, ScopeKind, UNLIMITED};

use super::{Budgets, Moment, Session};

/// The name by which a part of a session is counted.
#[must_use]
pub fn part_name(session: &str, number: u32) -> String {
    format!("{session}+{number}")
}

impl Budgets {
    /// Begins a part of a session. It has half of what the session has left, and ends at each of its limits. Returns its name.
    ///
    /// # Errors
    /// The session has ended, or has this part already.
    pub fn begin_part(&mut self, id: &str, number: u32, at: Moment) -> Result<String, Refused> {
        self.pass(id, at);
        let name = part_name(id, number);
        let session = self.sessions.get(id).filter(|session| session.part.is_none()).ok_or(Refused::Over)?;
        if self.sessions.contains_key(&name) {
            return Err(Refused::Over);
        }
        let (principal, profile, began_unix) = (session.principal.clone(), session.profile, session.began_unix);
        let mut plan = Plan::default();
        for (dimension, left) in self.ledger.left(session.scope).iter() {
            let limit = match left {
                UNLIMITED => UNLIMITED,
                // Time passes for both at once.
                left if dimension == Dimension::WallClock => left,
                left => left / 2,
            };
            plan.set(dimension, Rule { limit, on_exceed: OnExceed::Stop });
        }
        let scope = self.ledger.split(session.scope, ScopeKind::Background, plan)?;
        let part = Session {
            scope,
            part: Some((id.to_string(), number)),
            principal,
            profile,
            began: at.now,
            began_unix,
            before: 0,
            run: None,
            child: None,
            last: None,
            children: Vec::new(),
            steps: Vec::new(),
            number: 0,
        };
        self.sessions.insert(name.clone(), part);
        self.touch(&name);
        Ok(name)
    }

    pub(super) fn is_part(&self, name: &str) -> bool {
        self.sessions.get(name).is_some_and(|found| found.part.is_some())
    }

    /// Ends a part: what it has not used is the session's again. Its run can be continued.
    pub fn end_part(&mut self, name: &str) {
        let Some(began) = self.sessions.get(name).filter(|part| part.part.is_some()).map(|part| part.began_unix) else {
            return;
        };
        self.pause_run(name, began);
        self.touch(name);
        if let Some(part) = self.sessions.remove(name) {
            self.ledger.close(part.scope);
        }
    }

    /// The names of the parts of a session.
    pub(super) fn parts_of(&self, id: &str) -> Vec<String> {
        let is_of = |part: &Session| part.part.as_ref().is_some_and(|(of, _)| of == id);
        self.sessions.iter().filter(|(_, part)| is_of(part)).map(|(name, _)| name.clone()).collect()
    }

    /// What the programs of a session and its parts may still use together: one meter counts them.
    pub fn left_together(&mut self, id: &str, at: Moment) -> Amounts {
        let id = match self.sessions.get(id).and_then(|session| session.part.clone()) {
            Some((of, _)) => of,
            None => id.to_string(),
        };
        let own = self.left(&id, at);
        self.parts_of(&id).iter().fold(own, |all, part| all.plus(self.left(part, at)))
    }
}

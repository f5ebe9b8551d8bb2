//! The budgets of principals, sessions and runs, and what is kept of them.
//!
//! A principal's tokens are for a day. A session's budget ends when its holder ends it. A session that was lost by a crash leaves
//! its budget to the next session of the same principal and profile, until its own time is over.

mod children;
mod day;
mod kept;
mod lines;
mod parts;
mod text;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{
    Account, Amounts, Crossed, Dimension, Estimate, Exceeded, Kept, Ledger, OnExceed, Plan, Refused, ScopeId,
    ScopeKind, Ticket, UNLIMITED,
};
use capos_schema::authority::Profile;

use children::Child;
use day::is_over;
pub use kept::{Entry, Store, Table};
pub use lines::Line;
pub use text::{notice, question, refusal};

/// Principals whose tokens are counted at one time.
const PRINCIPALS: usize = 24;
/// Budgets of lost sessions that wait for the next session of their principal. Of more, those that began first are forgotten.
const LOST: usize = 16;
/// Runs that can be continued, and whose use is kept for that. Of more, those that ended first are forgotten.
const RUNS: usize = 64;
/// Steps of a run whose record is at hand.
const STEPS: usize = 64;
/// Milliseconds of the period for which a principal's tokens are.
const DAY: u64 = 86_400_000;
/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// A time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Nanoseconds since boot.
    pub now: u64,
    /// Milliseconds since 1970; 0 if that is not known.
    pub unix: u64,
}

/// A session that begins.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    pub id: &'a str,
    pub principal: &'a str,
    pub profile: Profile,
    pub plan: Plan,
    /// Tokens of the principal in a day.
    pub principal_tokens: u64,
}

/// What one step used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub number: u32,
    /// Of the tool or the model.
    pub name: String,
    pub prompt_tokens: u64,
    pub answer_tokens: u64,
    pub used: Amounts,
    /// What was left of the run, and of what it is in, after it.
    pub remaining: Amounts,
}

#[derive(Debug)]
struct Principal {
    scope: ScopeId,
    /// When its day began, in milliseconds since 1970.
    began: u64,
}

#[derive(Debug)]
struct Session {
    scope: ScopeId,
    /// Of a part of a session: the session, and its number there.
    part: Option<(String, u32)>,
    principal: String,
    profile: Profile,
    /// When it began, in nanoseconds since boot; and the lost one that it continues, in milliseconds since 1970.
    began: u64,
    began_unix: u64,
    /// Milliseconds before that.
    before: u64,
    run: Option<Run>,
    /// The child run that the run waits for.
    child: Option<Child>,
    /// The budget of the last run, once it has ended.
    last: Option<Account>,
    /// The budgets of the run's child runs that have ended, by the numbers of these.
    children: Vec<(String, Account)>,
    /// The steps of the run, also after its end.
    steps: Vec<Step>,
    number: u32,
}

#[derive(Debug)]
struct Run {
    scope: ScopeId,
    /// Its conversation and turn.
    name: String,
    began: u64,
    /// Milliseconds that it took before that.
    before: u64,
    estimate: Estimate,
    /// Limits that were reported as reached.
    told: Vec<(ScopeId, Dimension, u64)>,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub used: Amounts,
    pub estimate: Estimate,
    pub crossed: Vec<(ScopeKind, Crossed)>,
}

/// A run of a person that can be continued.
#[derive(Clone, Copy, Debug)]
pub struct Starting<'a> {
    /// Its conversation and turn.
    pub name: &'a str,
    pub plan: Plan,
    pub estimate: Estimate,
    /// What it has used as its runner knows. It counts where the broker knows less.
    pub used: Amounts,
}

/// A run that has ended, or was lost, and can be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    pub principal: String,
    pub session: String,
    /// When that was, in milliseconds since 1970.
    pub at: u64,
    pub kept: Kept,
}

/// A session that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub principal: String,
    pub profile: Profile,
    pub began_unix: u64,
    pub kept: Kept,
}

/// All budgets.
#[derive(Debug, Default)]
pub struct Budgets {
    ledger: Ledger,
    principals: BTreeMap<String, Principal>,
    sessions: BTreeMap<String, Session>,
    lost: BTreeMap<String, Lost>,
    /// Runs that can be continued, by their names.
    paused: BTreeMap<String, Paused>,
    /// Of principals that have no session now: when their day began, and what they have used.
    absent: BTreeMap<String, (u64, Kept)>,
    /// What is kept no longer as it is: the entries by their tables and keys.
    changed: BTreeSet<(Table, String)>,
}

/// The run of this name that a principal can continue. Another principal may have one of the same name.
fn paused_of<'a>(paused: &'a BTreeMap<String, Paused>, principal: &str, name: &str) -> Option<&'a Paused> {
    paused.get(name).filter(|run| run.principal == principal)
}

fn plan_of_principal(tokens: u64) -> Plan {
    Plan::default().with(Dimension::Tokens, tokens, OnExceed::Stop)
}

impl Budgets {
    /// Whether one more principal can use something, or this one is known already.
    #[must_use]
    pub fn has_place_for(&self, principal: &str, unix: u64) -> bool {
        if self.principals.contains_key(principal) || self.absent.contains_key(principal) {
            return true;
        }
        let absent = self.absent.values().filter(|(began, _)| !is_over(*began, unix, DAY)).count();
        self.principals.len().saturating_add(absent) < PRINCIPALS
    }

    fn principal(&mut self, name: &str, tokens: u64, unix: u64) -> ScopeId {
        let plan = plan_of_principal(tokens);
        if let Some(known) = self.principals.get(name) {
            self.ledger.replan(known.scope, plan);
            return known.scope;
        }
        let (began, kept) = self.absent.remove(name).unwrap_or((unix, Kept::default()));
        let scope = self.ledger.open(ScopeKind::Principal, Account::resumed(plan, kept.used, kept.granted));
        self.principals.insert(name.to_string(), Principal { scope, began });
        scope
    }

    /// Begins the budget of a session. True if it continues that of a lost one.
    ///
    /// # Errors
    /// There is such a session already.
    pub fn open_session(&mut self, opening: &Opening<'_>, at: Moment) -> Result<bool, Refused> {
        if self.sessions.contains_key(opening.id) {
            return Err(Refused::Over);
        }
        let principal = self.principal(opening.principal, opening.principal_tokens, at.unix);
        self.renew(at.unix);
        let most = opening.plan.rule(Dimension::WallClock).limit;
        self.forget_over(opening.profile, most, at.unix);
        let of_same = |lost: &Lost| lost.principal == opening.principal && lost.profile == opening.profile;
        // The one that has used most comes first: whoever loses a session gains nothing by it.
        let found = self.lost.iter().filter(|(_, lost)| of_same(lost));
        let found = found.max_by_key(|(_, lost)| lost.kept.used.get(Dimension::Tokens)).map(|(id, _)| id.clone());
        let lost = found.and_then(|id| {
            self.changed.insert((Table::Sessions, id.clone()));
            self.lost.remove(&id)
        });
        let continues = lost.is_some();
        let Lost { began_unix, kept, .. } = lost.unwrap_or(Lost {
            principal: String::new(),
            profile: opening.profile,
            began_unix: at.unix,
            kept: Kept::default(),
        });
        let before = if began_unix > 0 && at.unix > began_unix { at.unix.saturating_sub(began_unix) } else { 0 };
        let account = Account::resumed(opening.plan, kept.used, kept.granted);
        let scope = self.ledger.open_within(principal, ScopeKind::Session, account)?;
        let session = Session {
            scope,
            part: None,
            principal: opening.principal.to_string(),
            profile: opening.profile,
            began: at.now,
            began_unix,
            before,
            run: None,
            child: None,
            last: None,
            children: Vec::new(),
            steps: Vec::new(),
            number: 0,
        };
        self.sessions.insert(opening.id.to_string(), session);
        self.touch(opening.id);
        Ok(continues)
    }

    /// Milliseconds that a session has taken so far, those of lost ones that it continues among them.
    #[must_use]
    pub fn age(&self, session: &str, at: Moment) -> u64 {
        self.sessions.get(session).map_or(0, |session| {
            at.now
                .saturating_sub(session.began)
                .checked_div(MILLISECOND)
                .unwrap_or_default()
                .saturating_add(session.before)
        })
    }

    /// What was counted of a session and its principal has changed.
    fn touch(&mut self, session: &str) {
        if let Some(found) = self.sessions.get(session) {
            let of = found.part.as_ref().map_or(session, |(of, _)| of);
            self.changed.insert((Table::Sessions, of.to_string()));
            self.changed.insert((Table::Principals, found.principal.clone()));
            if let Some(run) = &found.run {
                self.changed.insert((Table::Runs, run.name.clone()));
            }
        }
    }

    /// Ends the budget of a session that its holder ends.
    pub fn close_session(&mut self, session: &str) {
        self.end_session(session, false);
    }

    /// Ends a session whose holder is gone: its budget waits for the next session of its principal.
    pub fn lose_session(&mut self, session: &str) {
        self.end_session(session, true);
    }

    /// What is kept of a session's budget. Its time is known by when it began.
    fn kept(&self, scope: ScopeId) -> Kept {
        let kept = self.ledger.kept(scope).unwrap_or_default();
        Kept { used: kept.used.with(Dimension::WallClock, 0), ..kept }
    }

    fn end_session(&mut self, id: &str, is_lost: bool) {
        if self.is_part(id) {
            return self.end_part(id);
        }
        for part in self.parts_of(id) {
            self.end_part(&part);
        }
        let unix = self.sessions.get(id).map_or(0, |session| session.began_unix);
        self.pause_run(id, unix);
        let Some(session) = self.sessions.remove(id) else { return };
        let kept = self.kept(session.scope);
        if !is_lost {
            // What its holder has ended is not continued.
            let of_it = self.paused.iter().filter(|(_, run)| run.session == id);
            for name in of_it.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                self.forget_run(&name);
            }
        }
        self.ledger.close(session.scope);
        self.changed.insert((Table::Sessions, id.to_string()));
        self.changed.insert((Table::Principals, session.principal.clone()));
        if is_lost && !kept.used.is_nothing() {
            let Session { principal, profile, began_unix, .. } = session;
            self.lost.insert(id.to_string(), Lost { principal, profile, began_unix, kept });
            while self.lost.len() > LOST {
                let first = self.lost.iter().min_by_key(|(_, lost)| lost.began_unix).map(|(id, _)| id.clone());
                let Some(first) = first else { break };
                self.lost.remove(&first);
                self.changed.insert((Table::Sessions, first));
            }
        }
    }

    /// The run of a session, if it has one, ends here and can be continued.
    fn pause_run(&mut self, id: &str, unix: u64) -> Option<(Run, Account)> {
        self.close_child(id);
        let session = self.sessions.get_mut(id)?;
        let run = session.run.take()?;
        let (principal, session) = (session.principal.clone(), id.to_string());
        let kept = self.ledger.kept(run.scope).unwrap_or_default();
        let account = self.ledger.close(run.scope);
        // Two principals may have runs of one name; that of the first is kept.
        if self.paused.get(&run.name).is_none_or(|known| known.principal == principal) {
            self.changed.insert((Table::Runs, run.name.clone()));
            self.paused.insert(run.name.clone(), Paused { principal, session, at: unix, kept });
        }
        while self.paused.len() > RUNS {
            let first = self.paused.iter().min_by_key(|(_, run)| run.at).map(|(name, _)| name.clone());
            self.forget_run(&first?);
        }
        Some((run, account?))
    }

    fn forget_run(&mut self, name: &str) {
        self.paused.remove(name);
        self.changed.insert((Table::Runs, name.to_string()));
    }

    /// Begins the run of a session, and ends the one before. A run that was paused or lost continues with what it has used.
    ///
    /// # Errors
    /// The session has ended, or the run still runs in another session of its principal.
    pub fn begin_run(&mut self, id: &str, run: &Starting<'_>, at: Moment) -> Result<(), String> {
        let over = || text::refusal(&Refused::Over);
        let principal = &self.sessions.get(id).ok_or_else(over)?.principal;
        let runs = |other: &Session| other.run.as_ref().is_some_and(|known| known.name == run.name);
        if self.sessions.iter().any(|(other, found)| other != id && found.principal == *principal && runs(found)) {
            return Err(text::ELSEWHERE.to_string());
        }
        self.pause_run(id, at.unix);
        let session = self.sessions.get_mut(id).ok_or_else(over)?;
        let known = paused_of(&self.paused, &session.principal, run.name);
        let Kept { used, granted } = known.map(|known| known.kept).unwrap_or_default();
        let used = used.most(run.used);
        let account = Account::resumed(run.plan, used, granted);
        let scope = self.ledger.open_within(session.scope, ScopeKind::Run, account);
        let scope = scope.map_err(|refused| text::refusal(&refused))?;
        let (name, estimate, before) = (run.name.to_string(), run.estimate, used.get(Dimension::WallClock));
        session.run = Some(Run { scope, name, began: at.now, before, estimate, told: Vec::new() });
        session.steps.clear();
        session.children.clear();
        session.number = 0;
        if paused_of(&self.paused, &session.principal, run.name).is_some() {
            self.paused.remove(run.name);
        }
        self.touch(id);
        Ok(())
    }

    /// What the run of a session has used, and what was added to its limits.
    pub fn run_use(&mut self, id: &str, at: Moment) -> Option<Kept> {
        self.pass(id, at);
        let account = self.ledger.account(self.run_of(id)?)?;
        Some(Kept { used: account.used(), granted: account.granted() })
    }

    /// Ends the run of a session, if it has one. One that is not `over` can be continued.
    pub fn end_run(&mut self, id: &str, over: bool, at: Moment) -> Option<Ended> {
        self.pass(id, at);
        let crossed = self.crossed(id);
        let (run, account) = self.pause_run(id, at.unix)?;
        let principal = self.sessions.get(id).map_or("", |session| &session.principal);
        if over && paused_of(&self.paused, principal, &run.name).is_some() {
            self.forget_run(&run.name);
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.last = Some(account.clone());
        }
        self.touch(id);
        Some(Ended { used: account.used(), estimate: run.estimate, crossed })
    }

    /// The run of a session, if it has one.
    #[must_use]
    pub fn run_of(&self, id: &str) -> Option<ScopeId> {
        Some(self.sessions.get(id)?.run.as_ref()?.scope)
    }

    /// The child run of a session's run, or the run, or the session where it has none.
    fn scope(&self, id: &str) -> Option<ScopeId> {
        let session = self.sessions.get(id)?;
        if let Some(child) = &session.child {
            return Some(child.scope);
        }
        Some(session.run.as_ref().map_or(session.scope, |run| run.scope))
    }

    /// Counts the time that has passed.
    fn pass(&mut self, id: &str, at: Moment) {
        self.renew(at.unix);
        let age = self.age(id, at);
        let Some(session) = self.sessions.get(id) else { return };
        self.ledger.passed(session.scope, age);
        if let Some(run) = &session.run {
            let time = at.now.saturating_sub(run.began).checked_div(MILLISECOND).unwrap_or_default();
            self.ledger.passed(run.scope, time.saturating_add(run.before));
        }
        if let Some(child) = &session.child {
            self.ledger.passed(child.scope, child.age(at));
        }
        if let Some((of, _)) = session.part.clone() {
            self.pass(&of, at);
        }
    }

    /// What a step of a session may still use.
    pub fn left(&mut self, id: &str, at: Moment) -> Amounts {
        self.pass(id, at);
        self.scope(id).map_or(Amounts::default(), |scope| self.ledger.left(scope))
    }

    /// Tokens that are left of a session and its principal. Nothing is left of a session that asks for more.
    ///
    /// # Errors
    /// They are used up, and nobody is asked.
    pub fn tokens_left(&mut self, id: &str, at: Moment) -> Result<u64, Refused> {
        self.pass(id, at);
        let scope = self.sessions.get(id).ok_or(Refused::Over)?.scope;
        match self.ledger.spent(scope, Dimension::Tokens) {
            Some(why) if why.on_exceed == OnExceed::Stop => Err(why.into()),
            _ => Ok(self.ledger.left(scope).get(Dimension::Tokens)),
        }
    }

    /// Whether a step that needs this much may begin.
    ///
    /// # Errors
    /// The limit for which it may not.
    pub fn check(&mut self, id: &str, need: &Amounts, at: Moment) -> Result<(), Refused> {
        self.pass(id, at);
        self.ledger.check(self.scope(id).ok_or(Refused::Over)?, need)
    }

    /// Reserves what a step needs. It has to be kept before the step begins.
    ///
    /// # Errors
    /// The limit for which it may not begin.
    pub fn reserve(&mut self, id: &str, need: Amounts, at: Moment) -> Result<Ticket, Refused> {
        self.pass(id, at);
        let ticket = self.ledger.reserve(self.scope(id).ok_or(Refused::Over)?, need)?;
        self.touch(id);
        Ok(ticket)
    }

    /// Counts what a step has used: against its reservation, or where that has ended, against its session or its principal.
    pub fn pay(&mut self, ticket: Ticket, (id, principal): (&str, &str), amounts: Amounts) {
        if self.ledger.holds(ticket) {
            self.ledger.pay(ticket, amounts);
            self.touch(id);
            return;
        }
        self.charge((id, principal), amounts);
    }

    /// Counts what was used without a reservation.
    pub fn charge(&mut self, (id, principal): (&str, &str), amounts: Amounts) {
        let of_principal = || self.principals.get(principal).map(|principal| principal.scope);
        if let Some(scope) = self.scope(id).or_else(of_principal) {
            self.ledger.charge(scope, amounts);
        }
        self.touch(id);
        self.changed.insert((Table::Principals, principal.to_string()));
    }

    /// Ends a step: what it has not used is free again.
    pub fn settle(&mut self, id: &str, ticket: Ticket) {
        self.ledger.settle(ticket);
        self.touch(id);
    }

    /// Whether a reservation is open.
    #[must_use]
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.ledger.holds(ticket)
    }

    /// Records what a step of the run has used.
    pub fn record(&mut self, id: &str, name: &str, (prompt_tokens, answer_tokens): (u64, u64), used: Amounts) {
        let remaining = self.scope(id).map_or(Amounts::default(), |scope| self.ledger.left(scope));
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.run.is_some()) else { return };
        session.number = session.number.saturating_add(1);
        if session.steps.len() >= STEPS {
            session.steps.remove(0);
        }
        let number = session.number;
        let name = session.child.as_ref().map_or_else(|| name.to_string(), |child| child.step(name));
        session.steps.push(Step { number, name, prompt_tokens, answer_tokens, used, remaining });
    }

    /// The steps of the run, or of the last one.
    #[must_use]
    pub fn steps(&self, id: &str) -> &[Step] {
        self.sessions.get(id).map_or(&[], |session| &session.steps)
    }

    /// The thresholds that were reached since this was asked last.
    pub fn crossed(&mut self, id: &str) -> Vec<(ScopeKind, Crossed)> {
        let Some(scope) = self.scope(id) else { return Vec::new() };
        self.ledger.crossed(scope)
    }

    /// Whether a limit that was reached has not been reported yet. True once for each limit.
    pub fn is_news(&mut self, id: &str, exceeded: &Exceeded) -> bool {
        let Some(run) = self.sessions.get_mut(id).and_then(|session| session.run.as_mut()) else { return true };
        let this = (exceeded.scope, exceeded.dimension, exceeded.limit);
        if run.told.contains(&this) {
            return false;
        }
        run.told.push(this);
        true
    }

    /// Adds to a limit that asks, as a person has agreed to. Returns the new limit.
    ///
    /// # Errors
    /// Why nothing is added.
    pub fn extend(&mut self, id: &str, of_session: bool, dimension: Dimension, more: u64) -> Result<u64, String> {
        let session = self.sessions.get(id).ok_or_else(|| "the session has ended".to_string())?;
        let run = session.run.as_ref().map(|run| run.scope);
        let scope = if of_session { Some(session.scope) } else { run };
        let scope = scope.ok_or_else(|| "there is no run to extend".to_string())?;
        let rule = self.ledger.account(scope).map(|account| account.rule(dimension)).unwrap_or_default();
        if rule.on_exceed != OnExceed::Ask || rule.limit == UNLIMITED {
            return Err(text::fixed(dimension, of_session));
        }
        let limit = self.ledger.extend(scope, dimension, more).map_err(|refused| text::refusal(&refused))?;
        self.touch(id);
        Ok(limit)
    }
}

#[cfg(test)]
mod child_tests;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod tests;

//! Budgets in one another, and the reservations of steps that are in progress.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::account::{Account, Crossed};
use crate::amounts::{Amounts, UNLIMITED};
use crate::dimension::Dimension;
use crate::kept::Kept;
use crate::plan::{OnExceed, Plan, Rule};

/// Budgets that can be in one another: a principal, a session, a run, and its child runs.
const DEEPEST: usize = 8;

/// Names a budget of a ledger. It is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScopeId(u64);

/// Names a reservation. It is never given again, and is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Ticket {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The reservation of a number; there may be none.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self(number)
    }
}

/// Whose budget it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    Principal,
    Session,
    Run,
    /// A child run.
    Child,
    /// A part of a session, for a run in parallel with the session's own.
    Background,
}

impl ScopeKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Session => "session",
            Self::Run => "run",
            Self::Child => "child run",
            Self::Background => "background run",
        }
    }
}

/// A limit for which a step does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub scope: ScopeId,
    pub kind: ScopeKind,
    pub dimension: Dimension,
    /// What is used, and what others have reserved.
    pub used: u64,
    pub reserved: u64,
    pub limit: u64,
    /// What the step needs.
    pub need: u64,
    pub on_exceed: OnExceed,
}

impl Exceeded {
    /// How much more a person is asked for: half of the limit, and what the step needs at least.
    #[must_use]
    pub fn suggested(&self) -> u64 {
        let scale = self.dimension.scale();
        let missing = self.used.saturating_add(self.reserved).saturating_add(self.need).saturating_sub(self.limit);
        let half = self.limit.checked_div(2).unwrap_or_default().max(missing).max(1);
        half.div_ceil(scale).saturating_mul(scale)
    }

    /// The limit, and how much of it is used.
    #[must_use]
    pub fn what(&self) -> String {
        let (what, text) = (self.dimension.title(), |amount| self.dimension.text(amount));
        let taken = self.used.saturating_add(self.reserved);
        if taken >= self.limit {
            return format!("{what} used up ({})", text(self.limit));
        }
        format!(
            "{what} used up but for less than the next step needs ({} of {}; it needs {})",
            text(taken),
            text(self.limit),
            text(self.need)
        )
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.kind {
            ScopeKind::Principal => "the budget of all sessions of this user",
            ScopeKind::Session => "the budget of this session",
            ScopeKind::Run => "the budget of this run",
            ScopeKind::Child => "the budget of this child run",
            ScopeKind::Background => "the budget of this background run",
        };
        write!(formatter, "{whose}: {}", self.what())
    }
}

/// Why the ledger does not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Exceeded(Exceeded),
    /// The budget or the reservation has ended.
    Over,
}

impl From<Exceeded> for Refused {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

/// What a budget is a part of.
#[derive(Clone, Copy, Debug)]
enum Link {
    Root,
    /// It is within another one: each amount counts in both.
    Within(ScopeId),
    /// It has a part of another one, which is reserved there.
    Part(ScopeId, Ticket),
}

#[derive(Clone, Debug)]
struct Scope {
    kind: ScopeKind,
    account: Account,
    link: Link,
}

impl Scope {
    fn exceeded(&self, scope: ScopeId, dimension: Dimension, need: u64) -> Exceeded {
        let Rule { limit, on_exceed } = self.account.rule(dimension);
        let (used, reserved) = (self.account.used().get(dimension), self.account.reserved().get(dimension));
        Exceeded { scope, kind: self.kind, dimension, used, reserved, limit, need, on_exceed }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    scope: ScopeId,
    left: Amounts,
}

/// Budgets in one another.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    scopes: BTreeMap<ScopeId, Scope>,
    held: BTreeMap<Ticket, Held>,
    next: u64,
}

impl Ledger {
    fn number(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        self.next
    }

    fn add(&mut self, kind: ScopeKind, account: Account, link: Link) -> ScopeId {
        let id = ScopeId(self.number());
        self.scopes.insert(id, Scope { kind, account, link });
        id
    }

    /// Opens a budget that is in no other.
    pub fn open(&mut self, kind: ScopeKind, account: Account) -> ScopeId {
        self.add(kind, account, Link::Root)
    }

    /// Opens a budget within another one.
    ///
    /// # Errors
    /// The outer one has ended, or is too deep.
    pub fn open_within(&mut self, outer: ScopeId, kind: ScopeKind, account: Account) -> Result<ScopeId, Refused> {
        let depth = self.chain(outer).len();
        if depth == 0 || depth >= DEEPEST {
            return Err(Refused::Over);
        }
        Ok(self.add(kind, account, Link::Within(outer)))
    }

    /// Opens a budget of this kind, which gets its limits out of its parent's. A dimension without a limit gets all that the
    /// parent has left.
    ///
    /// # Errors
    /// A limit is more than the parent has left: it is not begun.
    pub fn split(&mut self, parent: ScopeId, kind: ScopeKind, plan: Plan) -> Result<ScopeId, Refused> {
        let depth = self.chain(parent).len();
        if depth == 0 || depth >= DEEPEST {
            return Err(Refused::Over);
        }
        let left = self.left(parent);
        let mut need = Amounts::default();
        let mut plan = plan;
        for (dimension, left) in left.iter() {
            let rule = plan.rule(dimension);
            // Time passes for both at once, and is not divided.
            if dimension == Dimension::WallClock || left == UNLIMITED {
                continue;
            }
            let limit = if rule.limit == UNLIMITED { left } else { rule.limit };
            // A part that only warned would take more than it has.
            let on_exceed = if rule.on_exceed == OnExceed::Warn { OnExceed::Stop } else { rule.on_exceed };
            plan.set(dimension, Rule { limit, on_exceed });
            need.set(dimension, limit);
        }
        let ticket = self.reserve(parent, need)?;
        Ok(self.add(kind, Account::new(plan), Link::Part(parent, ticket)))
    }

    /// The budget and those that it is in, each with whether its amounts are reserved there already.
    fn chain(&self, scope: ScopeId) -> Vec<(ScopeId, bool)> {
        let (mut chain, mut next, mut covered) = (Vec::new(), Some(scope), false);
        while let Some(id) = next
            && let Some(scope) = self.scopes.get(&id)
            && chain.len() <= DEEPEST
        {
            chain.push((id, covered));
            next = match scope.link {
                Link::Root => None,
                Link::Within(outer) => Some(outer),
                Link::Part(outer, _) => {
                    covered = true;
                    Some(outer)
                }
            };
        }
        chain
    }

    /// The budget, if it has not ended.
    #[must_use]
    pub fn account(&self, scope: ScopeId) -> Option<&Account> {
        self.scopes.get(&scope).map(|scope| &scope.account)
    }

    /// What is left for a step, of the budget and of those that it is in.
    #[must_use]
    pub fn left(&self, scope: ScopeId) -> Amounts {
        let chain = self.chain(scope);
        if chain.is_empty() {
            return Amounts::default();
        }
        let accounts = chain.iter().filter(|(_, covered)| !covered).filter_map(|(id, _)| self.account(*id));
        accounts.fold(Amounts::all(UNLIMITED), |left, account| left.least(account.left()))
    }

    /// Whether a step that needs this much may begin.
    ///
    /// # Errors
    /// The outermost limit for which it may not.
    pub fn check(&self, scope: ScopeId, need: &Amounts) -> Result<(), Refused> {
        let chain = self.chain(scope);
        if chain.is_empty() {
            return Err(Refused::Over);
        }
        for (id, covered) in chain.into_iter().rev() {
            let Some(scope) = self.scopes.get(&id) else { return Err(Refused::Over) };
            let lacks = if covered { scope.account.lacks_reserved() } else { scope.account.lacks(need) };
            if let Some(dimension) = lacks {
                return Err(scope.exceeded(id, dimension, need.get(dimension)).into());
            }
        }
        Ok(())
    }

    /// The outermost limit of a dimension that is reached and binds, if there is one.
    #[must_use]
    pub fn spent(&self, scope: ScopeId, dimension: Dimension) -> Option<Exceeded> {
        self.chain(scope).into_iter().rev().find_map(|(id, _)| {
            let scope = self.scopes.get(&id)?;
            let is_spent = scope.account.binds(dimension) && scope.account.is_spent(dimension);
            is_spent.then(|| scope.exceeded(id, dimension, 1))
        })
    }

    /// Reserves what a step needs, before it begins.
    ///
    /// # Errors
    /// The limit for which it may not begin.
    pub fn reserve(&mut self, scope: ScopeId, need: Amounts) -> Result<Ticket, Refused> {
        self.check(scope, &need)?;
        for (id, covered) in self.chain(scope) {
            if !covered && let Some(scope) = self.scopes.get_mut(&id) {
                scope.account.reserve(need);
            }
        }
        let ticket = Ticket(self.number());
        self.held.insert(ticket, Held { scope, left: need });
        Ok(ticket)
    }

    /// Whether a reservation is not settled.
    #[must_use]
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.held.contains_key(&ticket)
    }

    /// Counts what a step has used so far. Its reservation is less by that.
    pub fn pay(&mut self, ticket: Ticket, amounts: Amounts) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        let part = held.left.least(amounts);
        held.left = held.left.minus(part);
        let scope = held.scope;
        self.spend(scope, part, amounts);
    }

    /// Counts what was used without a reservation.
    pub fn charge(&mut self, scope: ScopeId, amounts: Amounts) {
        self.spend(scope, Amounts::default(), amounts);
    }

    fn spend(&mut self, scope: ScopeId, mut released: Amounts, amounts: Amounts) {
        let mut next = Some(scope);
        while let Some(id) = next
            && let Some(scope) = self.scopes.get_mut(&id)
        {
            scope.account.release(released);
            scope.account.charge(amounts);
            next = match scope.link {
                Link::Root => None,
                Link::Within(outer) => Some(outer),
                Link::Part(outer, ticket) => {
                    released = match self.held.get_mut(&ticket) {
                        Some(held) => {
                            let part = held.left.least(amounts);
                            held.left = held.left.minus(part);
                            part
                        }
                        None => Amounts::default(),
                    };
                    Some(outer)
                }
            };
        }
    }

    /// Ends a step: what it has reserved and not used is free again.
    pub fn settle(&mut self, ticket: Ticket) {
        let Some(held) = self.held.remove(&ticket) else { return };
        for (id, covered) in self.chain(held.scope) {
            if !covered && let Some(scope) = self.scopes.get_mut(&id) {
                scope.account.release(held.left);
            }
        }
    }

    /// Changes the limits of a budget. What is used, reserved and granted stays.
    pub fn replan(&mut self, scope: ScopeId, plan: Plan) {
        if let Some(scope) = self.scopes.get_mut(&scope) {
            scope.account.replan(plan);
        }
    }

    /// Begins a budget again, which is for a period of time: nothing of it is used. What is reserved stays so.
    pub fn renew(&mut self, scope: ScopeId) {
        if let Some(scope) = self.scopes.get_mut(&scope) {
            scope.account.renew();
        }
    }

    /// Sets how long a run or a session takes. Time is not added up.
    pub fn passed(&mut self, scope: ScopeId, milliseconds: u64) {
        if let Some(scope) = self.scopes.get_mut(&scope) {
            scope.account.raise(Dimension::WallClock, milliseconds);
        }
    }

    /// Adds to a limit, as a person has agreed to.
    ///
    /// # Errors
    /// The budgets that it is in have less left.
    pub fn extend(&mut self, scope: ScopeId, dimension: Dimension, more: u64) -> Result<u64, Refused> {
        let link = self.scopes.get(&scope).ok_or(Refused::Over)?.link;
        let need = if dimension == Dimension::WallClock { 0 } else { more };
        match link {
            Link::Root => {}
            Link::Within(outer) => self.check(outer, &Amounts::of(dimension, need))?,
            Link::Part(outer, ticket) => {
                let more = Amounts::of(dimension, need);
                self.check(outer, &more)?;
                for (id, covered) in self.chain(outer) {
                    if !covered && let Some(scope) = self.scopes.get_mut(&id) {
                        scope.account.reserve(more);
                    }
                }
                if let Some(held) = self.held.get_mut(&ticket) {
                    held.left = held.left.plus(more);
                }
            }
        }
        let scope = self.scopes.get_mut(&scope).ok_or(Refused::Over)?;
        scope.account.extend(dimension, more);
        Ok(scope.account.rule(dimension).limit)
    }

    /// The thresholds that were reached since this was asked last, of the budget and of those that it is in.
    pub fn crossed(&mut self, scope: ScopeId) -> Vec<(ScopeKind, Crossed)> {
        let mut found = Vec::new();
        for (id, _) in self.chain(scope) {
            if let Some(scope) = self.scopes.get_mut(&id) {
                let kind = scope.kind;
                found.extend(scope.account.crossed().into_iter().map(|crossed| (kind, crossed)));
            }
        }
        found
    }

    /// Ends a budget with all that are in it. What they have reserved is free again.
    pub fn close(&mut self, scope: ScopeId) -> Option<Account> {
        let inner: Vec<ScopeId> = self
            .scopes
            .iter()
            .filter(|(_, other)| matches!(other.link, Link::Within(outer) | Link::Part(outer, _) if outer == scope))
            .map(|(id, _)| *id)
            .collect();
        for id in inner {
            self.close(id);
        }
        let open: Vec<Ticket> =
            self.held.iter().filter(|(_, held)| held.scope == scope).map(|(ticket, _)| *ticket).collect();
        for ticket in open {
            self.settle(ticket);
        }
        let closed = self.scopes.remove(&scope)?;
        if let Link::Part(_, ticket) = closed.link {
            self.settle(ticket);
        }
        Some(closed.account)
    }

    /// What is kept of a budget. All that is reserved in it counts as used. Of a background run that is what it has reserved
    /// itself, since it can be continued; of a child run it is the whole part.
    #[must_use]
    pub fn kept(&self, scope: ScopeId) -> Option<Kept> {
        let account = self.account(scope)?;
        let mut reserved = account.reserved();
        for part in self.scopes.values().filter(|other| other.kind == ScopeKind::Background) {
            if let Link::Part(_, ticket) = part.link
                && let Some(held) = self.held.get(&ticket)
                && self.chain(held.scope).iter().any(|(id, covered)| *id == scope && !covered)
            {
                reserved = reserved.minus(held.left).plus(part.account.reserved());
            }
        }
        Some(Kept { used: account.used().plus(reserved), granted: account.granted() })
    }
}

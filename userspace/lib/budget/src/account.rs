//! One budget: its limits, what is used, and what is reserved.

use alloc::vec::Vec;

use crate::amounts::{Amounts, UNLIMITED};
use crate::dimension::Dimension;
use crate::plan::{OnExceed, Plan, Rule};

/// Percentages of a limit that are told, each once.
const THRESHOLDS: [u64; 3] = [50, 80, 100];

/// A threshold that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossed {
    pub dimension: Dimension,
    /// 50, 80 or 100.
    pub percent: u64,
    pub used: u64,
    pub limit: u64,
    pub on_exceed: OnExceed,
}

/// One budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    plan: Plan,
    /// What a person has added to the limits.
    granted: Amounts,
    used: Amounts,
    reserved: Amounts,
    /// The highest threshold that was told, for each dimension.
    told: Amounts,
}

impl Account {
    /// A budget of which nothing is used.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// A budget that was begun before: what was used and what was granted.
    #[must_use]
    pub fn resumed(plan: Plan, used: Amounts, granted: Amounts) -> Self {
        let mut account = Self { plan, used, granted, ..Self::default() };
        // What was told before is not told again.
        drop(account.crossed());
        account
    }

    #[must_use]
    pub fn used(&self) -> Amounts {
        self.used
    }

    #[must_use]
    pub fn reserved(&self) -> Amounts {
        self.reserved
    }

    #[must_use]
    pub fn granted(&self) -> Amounts {
        self.granted
    }

    /// The rule of a dimension, with what was granted.
    #[must_use]
    pub fn rule(&self, dimension: Dimension) -> Rule {
        let rule = self.plan.rule(dimension);
        Rule { limit: rule.limit.saturating_add(self.granted.get(dimension)), ..rule }
    }

    /// Whether the limit of a dimension ends or pauses a run.
    pub(crate) fn binds(&self, dimension: Dimension) -> bool {
        let rule = self.rule(dimension);
        rule.limit != UNLIMITED && rule.on_exceed != OnExceed::Warn
    }

    /// What may still be used or reserved. A limit that only warns does not count.
    #[must_use]
    pub fn left(&self) -> Amounts {
        let mut left = Amounts::all(UNLIMITED);
        for dimension in Dimension::ALL {
            if self.binds(dimension) {
                let taken = self.used.get(dimension).saturating_add(self.reserved.get(dimension));
                left.set(dimension, self.rule(dimension).limit.saturating_sub(taken));
            }
        }
        left
    }

    /// The dimension for which a step that needs this much may not begin, if there is one.
    #[must_use]
    pub fn lacks(&self, need: &Amounts) -> Option<Dimension> {
        let left = self.left();
        Dimension::ALL.into_iter().find(|dimension| {
            let (need, left) = (need.get(*dimension), left.get(*dimension));
            self.binds(*dimension) && (need > left || self.is_over(*dimension))
        })
    }

    /// The same for a step whose need is a part of what is reserved here. Another step may have taken more than it had reserved.
    pub(crate) fn lacks_reserved(&self) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| self.binds(*dimension) && self.is_over(*dimension))
    }

    /// Whether a dimension stops what needs nothing of it. Tool calls are counted exactly, so the last one that is permitted leaves
    /// the model its answer.
    fn is_over(&self, dimension: Dimension) -> bool {
        let (used, limit) = (self.used.get(dimension), self.rule(dimension).limit);
        // Others have reserved what a step has used beyond its own reservation.
        let taken = used.saturating_add(self.reserved.get(dimension));
        taken > limit || (used == limit && used > 0 && dimension != Dimension::Steps)
    }

    /// Whether the limit of a dimension is reached by what is used alone.
    #[must_use]
    pub fn is_spent(&self, dimension: Dimension) -> bool {
        let limit = self.rule(dimension).limit;
        limit != UNLIMITED && self.used.get(dimension) >= limit
    }

    pub(crate) fn reserve(&mut self, amounts: Amounts) {
        self.reserved = self.reserved.plus(amounts);
    }

    pub(crate) fn release(&mut self, amounts: Amounts) {
        self.reserved = self.reserved.minus(amounts);
    }

    pub(crate) fn charge(&mut self, amounts: Amounts) {
        self.used = self.used.plus(amounts);
    }

    /// Sets what is used of a dimension that only grows, such as time.
    pub(crate) fn raise(&mut self, dimension: Dimension, used: u64) {
        self.used.set(dimension, self.used.get(dimension).max(used));
    }

    pub(crate) fn replan(&mut self, plan: Plan) {
        self.plan = plan;
    }

    pub(crate) fn renew(&mut self) {
        (self.used, self.granted, self.told) = Default::default();
    }

    /// Adds to a limit.
    pub(crate) fn extend(&mut self, dimension: Dimension, more: u64) {
        self.granted.set(dimension, self.granted.get(dimension).saturating_add(more));
        // The thresholds of the new limit are told again as they are reached.
        let percent = self.percent(dimension);
        let told = THRESHOLDS.into_iter().rev().find(|threshold| percent >= *threshold).unwrap_or_default();
        self.told.set(dimension, told);
    }

    fn percent(&self, dimension: Dimension) -> u64 {
        let (used, limit) = (self.used.get(dimension), self.rule(dimension).limit);
        if limit == UNLIMITED || used == 0 {
            return 0;
        }
        let percent = u128::from(used).saturating_mul(100).checked_div(u128::from(limit));
        u64::try_from(percent.unwrap_or(100)).unwrap_or(u64::MAX)
    }

    /// The thresholds that were reached since this was asked last, the highest of each dimension.
    pub fn crossed(&mut self) -> Vec<Crossed> {
        let mut found = Vec::new();
        for dimension in Dimension::ALL {
            let percent = self.percent(dimension);
            let reached = THRESHOLDS.into_iter().rev().find(|threshold| percent >= *threshold);
            if let Some(percent) = reached.filter(|threshold| *threshold > self.told.get(dimension)) {
                self.told.set(dimension, percent);
                let Rule { limit, on_exceed } = self.rule(dimension);
                found.push(Crossed { dimension, percent, used: self.used.get(dimension), limit, on_exceed });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(limit: u64, used: u64) -> Account {
        let plan = Plan::default().with(Dimension::Tokens, limit, OnExceed::Stop);
        Account::resumed(plan, Amounts::of(Dimension::Tokens, used), Amounts::default())
    }

    #[test]
    fn a_resumed_budget_has_what_was_granted() {
        let granted = Amounts::of(Dimension::Tokens, 5);
        let plan = Plan::default().with(Dimension::Tokens, 10, OnExceed::Stop);
        let resumed = Account::resumed(plan, Amounts::default(), granted);
        assert_eq!((resumed.granted(), resumed.rule(Dimension::Tokens).limit), (granted, 15));
        assert_eq!(Account::new(plan).granted(), Amounts::default());
    }

    /// What reaches a limit exactly has used it up. A limit of nothing is used up from the start, and stops nothing that needs
    /// nothing of it.
    #[test]
    fn a_budget_is_spent_at_its_limit() {
        let found = [(10, 9), (10, 10), (10, 11), (0, 0)].map(|(limit, used)| {
            let account = account(limit, used);
            (account.is_spent(Dimension::Tokens), account.is_over(Dimension::Tokens))
        });
        assert_eq!(found, [(false, false), (true, true), (true, true), (true, false)]);
        assert!(
            !account(10, 10).is_spent(Dimension::Steps) && !account(UNLIMITED, UNLIMITED).is_spent(Dimension::Tokens)
        );
    }

    #[test]
    fn a_limit_of_nothing_is_reached_by_the_first_use() {
        let percents = [(10, 0), (10, 5), (0, 1), (0, 0), (UNLIMITED, 1)]
            .map(|(limit, used)| account(limit, used).percent(Dimension::Tokens));
        assert_eq!(percents, [0, 50, 100, 0, 0]);
    }
}

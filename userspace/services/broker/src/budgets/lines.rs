//! The budgets of a session as people see them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{Dimension, OnExceed, ScopeKind, UNLIMITED};

use super::{Budgets, Moment};

/// One dimension of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub scope: ScopeKind,
    /// Of a child run: its number in its parent. Of a part of the session: its number there.
    pub child: String,
    pub dimension: Dimension,
    pub used: u64,
    pub reserved: u64,
    pub limit: u64,
    pub on_exceed: OnExceed,
}

impl Budgets {
    /// The budgets that hold for a session.
    pub fn lines(&mut self, id: &str, at: Moment) -> Vec<Line> {
        self.pass(id, at);
        let Some(session) = self.sessions.get(id) else { return Vec::new() };
        let principal = self.principals.get(&session.principal).map(|principal| principal.scope);
        let run = match &session.run {
            Some(run) => self.ledger.account(run.scope),
            None => session.last.as_ref(),
        };
        let of = |scope| self.ledger.account(scope);
        let active = session.child.as_ref().and_then(|child| Some((child.number(), of(child.scope)?)));
        let ended = session.children.iter().map(|(number, account)| (number.as_str(), account));
        let children = ended.chain(active).map(|(number, account)| (ScopeKind::Child, number, Some(account)));
        let parts = self.sessions.values().filter_map(|part| {
            let (_, number) = part.part.as_ref().filter(|(of, _)| of == id)?;
            Some((number.to_string(), of(part.scope)))
        });
        let parts: Vec<_> = parts.collect();
        let parts = parts.iter().map(|(number, account)| (ScopeKind::Background, number.as_str(), *account));
        let found = [(ScopeKind::Run, "", run)]
            .into_iter()
            .chain(children)
            .chain(parts)
            .chain([(ScopeKind::Session, "", of(session.scope)), (ScopeKind::Principal, "", principal.and_then(of))]);
        let mut lines = Vec::new();
        for (scope, child, account) in found.filter_map(|(kind, child, account)| Some((kind, child, account?))) {
            for dimension in Dimension::ALL {
                let rule = account.rule(dimension);
                let (used, reserved) = (account.used().get(dimension), account.reserved().get(dimension));
                let is_shown = match scope {
                    ScopeKind::Principal => rule.limit != UNLIMITED,
                    // What every such run uses, and of the rest what this one has used.
                    ScopeKind::Child | ScopeKind::Background => {
                        used > 0 || matches!(dimension, Dimension::Tokens | Dimension::Steps)
                    }
                    ScopeKind::Run | ScopeKind::Session => true,
                };
                if is_shown {
                    let (child, limit, on_exceed) = (child.to_string(), rule.limit, rule.on_exceed);
                    lines.push(Line { scope, child, dimension, used, reserved, limit, on_exceed });
                }
            }
        }
        lines
    }
}

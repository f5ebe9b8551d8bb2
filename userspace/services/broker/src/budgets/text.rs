//! What people are told of budgets: each message says which limit it is and how to raise it.

use alloc::format;
use alloc::string::{String, ToString};

use capos_budget::{Crossed, Dimension, Exceeded, OnExceed, Refused, ScopeKind};
use capos_plural::count;

/// Why a run does not begin here: two sessions that went on with one run would each do what it does.
pub const ELSEWHERE: &str = "this run still runs in another session; wait for its end, or end it there";

/// The setting that holds a limit.
fn setting(kind: ScopeKind, dimension: Dimension) -> String {
    match (kind, dimension) {
        (ScopeKind::Principal, _) => "profiles.NAME.principal_tokens".to_string(),
        (ScopeKind::Session, Dimension::Tokens) => "limits.max_tokens".to_string(),
        (ScopeKind::Session, Dimension::WallClock) => "limits.max_seconds".to_string(),
        (ScopeKind::Session, dimension) => format!("budget.session.{}.limit", dimension.name()),
        (ScopeKind::Run | ScopeKind::Child | ScopeKind::Background, dimension) => {
            format!("budget.run.{}.limit", dimension.name())
        }
    }
}

/// Why a step does not begin, and what to do.
#[must_use]
pub fn refusal(refused: &Refused) -> String {
    let exceeded = match refused {
        Refused::Over => return "this session or run has ended; begin another one".to_string(),
        Refused::Exceeded(exceeded) => exceeded,
    };
    let Exceeded { kind, dimension, used, limit, .. } = exceeded;
    let raise = format!("the setting {} raises it", setting(*kind, *dimension));
    match (kind, dimension) {
        (ScopeKind::Principal, Dimension::Tokens) if used >= limit => {
            format!("your sessions together have used their {} of a day; {raise}", count(*limit, "token"))
        }
        (ScopeKind::Session, Dimension::Tokens) if used >= limit => {
            format!("this session has used its {}; start a new one to continue; {raise}", count(*limit, "token"))
        }
        // Its parent or its session has given it that much.
        (ScopeKind::Child | ScopeKind::Background, _) => exceeded.to_string(),
        (ScopeKind::Session, _) => format!("{exceeded}; start a new session to continue; {raise}"),
        _ => format!("{exceeded}; {raise}"),
    }
}

/// Why a limit is not extended.
pub fn fixed(dimension: Dimension, of_session: bool) -> String {
    let kind = if of_session { ScopeKind::Session } else { ScopeKind::Run };
    format!("the limit of {} cannot be extended; the setting {} raises it", dimension.title(), setting(kind, dimension))
}

/// The question about more of a budget that asks.
#[must_use]
pub fn question(exceeded: &Exceeded) -> String {
    let whose = if exceeded.kind == ScopeKind::Session { "Session" } else { "Run" };
    let more = exceeded.dimension.text(exceeded.suggested());
    format!("{whose} paused: {}. Allow {more} more? [y/N/number] ", exceeded.what())
}

/// What a person is told of a threshold; nothing of half.
#[must_use]
pub fn notice(kind: ScopeKind, crossed: &Crossed) -> Option<String> {
    let Crossed { dimension, percent, used, limit, on_exceed } = crossed;
    // What stops or asks at the limit says so itself.
    if *percent < 80 || (*percent >= 100 && *on_exceed != OnExceed::Warn) {
        return None;
    }
    let (used, limit) = (dimension.text(*used), dimension.text(*limit));
    Some(format!(
        "{percent} % of the {}'s {} used: {used} of {limit}; /budget shows all",
        kind.name(),
        dimension.title()
    ))
}

//! Which records a reader wants.

use alloc::borrow::Cow;
use alloc::string::String;

use capos_schema::audit::Query;
use serde_json::Value;

use crate::scan::{self, Member};

/// Conditions on a record; all that are given must hold. Texts are compared whole and exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub session: Option<String>,
    pub conversation: Option<String>,
    pub turn: Option<u32>,
    /// Name of the tool; only records of tool calls pass.
    pub tool: Option<String>,
    /// A decision's name in the schema, such as `consented`.
    pub decision: Option<String>,
    /// An outcome's name in the schema, such as `timedOut`.
    pub outcome: Option<String>,
    /// `before`, `after` or `refused`.
    pub phase: Option<String>,
    /// `tool`, or a general kind; one that ends in a dot stands for all that begin with it.
    pub kind: Option<String>,
    /// First sequence.
    pub from: u64,
    /// Earliest time, in nanoseconds.
    pub since: u64,
    /// Times from here on do not pass; `None` means no limit.
    pub until: Option<u64>,
}

impl From<&Query> for Filter {
    fn from(query: &Query) -> Self {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            session: given(&query.session),
            turn: u32::try_from(query.turn).ok(),
            tool: given(&query.tool),
            decision: given(&query.decision),
            outcome: given(&query.outcome),
            kind: given(&query.kind),
            from: query.from,
            since: query.since_nanoseconds,
            ..Self::default()
        }
    }
}

impl Filter {
    /// Whether a record passes, as JSON.
    #[must_use]
    pub fn matches(&self, record: &Value) -> bool {
        self.accepts(record)
    }

    /// Whether the record of a line passes. A canonical line, as all lines of a log are, is not parsed as a whole.
    pub(crate) fn matches_line(&self, line: &[u8]) -> bool {
        match scan::members(line) {
            Some(members) => self.accepts(members.as_slice()),
            None => serde_json::from_slice::<Value>(line).is_ok_and(|record| self.accepts(&record)),
        }
    }

    fn accepts<R: Members + ?Sized>(&self, record: &R) -> bool {
        let text = |member: &str| record.text(member);
        let number = |member: &str| record.number(member).unwrap_or_default();
        let (time, kind) = (number("time"), text("kind").unwrap_or_default());
        let within = number("sequence") >= self.from
            && time >= self.since
            && self.until.is_none_or(|until| time < until)
            && is(self.session.as_ref(), || text("session"))
            && self.kind_is(&kind);
        if !within {
            return false;
        }
        if kind == "tool" {
            return is(self.conversation.as_ref(), || text("conversation"))
                && self.turn.is_none_or(|turn| u64::from(turn) == number("turn"))
                && is(self.tool.as_ref(), || record.within("descriptor", "name"))
                && is(self.decision.as_ref(), || text("decision"))
                && is(self.outcome.as_ref(), || text("outcome"))
                && is(self.phase.as_ref(), || text("phase"));
        }
        let turn = self.turn.map(|turn| alloc::format!("{turn}"));
        self.tool.is_none()
            && self.outcome.is_none()
            && self.phase.is_none()
            && is(self.conversation.as_ref(), || record.within("fields", "conversation"))
            && is(turn.as_ref(), || record.within("fields", "turn"))
            && is(self.decision.as_ref(), || record.within("fields", "decision"))
    }

    /// Whether all records of a range of sequences pass that the index of the session, or else of the tool, names.
    pub(crate) fn is_indexed(&self) -> bool {
        let others =
            [&self.conversation, &self.decision, &self.outcome, &self.phase, &self.kind].iter().all(|it| it.is_none());
        others && self.turn.is_none() && (self.session.is_none() || self.tool.is_none())
    }

    fn kind_is(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(
            |wanted| {
                if wanted.ends_with('.') { kind.starts_with(wanted) } else { kind == wanted }
            },
        )
    }
}

fn is<'a>(wanted: Option<&String>, have: impl FnOnce() -> Option<Cow<'a, str>>) -> bool {
    wanted.is_none_or(|wanted| have().is_some_and(|have| have == wanted.as_str()))
}

/// A record of which single members are looked up.
trait Members {
    /// A member that is a text.
    fn text(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A member that is a whole number.
    fn number(&self, name: &str) -> Option<u64>;
    /// A text in a member that is an object.
    fn within(&self, object: &str, name: &str) -> Option<Cow<'_, str>>;
}

impl Members for Value {
    fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name)?.as_str().map(Cow::Borrowed)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    fn within(&self, object: &str, name: &str) -> Option<Cow<'_, str>> {
        self.get(object)?.get(name)?.as_str().map(Cow::Borrowed)
    }
}

/// Those of a canonical line.
impl Members for [Member<'_>] {
    fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        scan::text(scan::value(self, name)?)
    }

    fn number(&self, name: &str) -> Option<u64> {
        scan::value(self, name)?.parse().ok()
    }

    fn within(&self, object: &str, name: &str) -> Option<Cow<'_, str>> {
        let members = scan::members(scan::value(self, object)?.as_bytes())?;
        scan::text(scan::value(&members, name)?)
    }
}

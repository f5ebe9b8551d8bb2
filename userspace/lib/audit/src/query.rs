//! Which records a reader wants.

use alloc::string::String;

use capos_schema::audit::Query;
use serde_json::Value;

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
        let text = |member: &str| record.get(member).and_then(Value::as_str);
        let number = |member: &str| record.get(member).and_then(Value::as_u64).unwrap_or_default();
        let (time, kind) = (number("time"), text("kind").unwrap_or_default());
        let within = number("sequence") >= self.from
            && time >= self.since
            && self.until.is_none_or(|until| time < until)
            && is(self.session.as_ref(), text("session"))
            && self.kind_is(kind);
        if !within {
            return false;
        }
        if kind == "tool" {
            let name = record.get("descriptor").and_then(|descriptor| descriptor.get("name")).and_then(Value::as_str);
            return is(self.conversation.as_ref(), text("conversation"))
                && self.turn.is_none_or(|turn| u64::from(turn) == number("turn"))
                && is(self.tool.as_ref(), name)
                && is(self.decision.as_ref(), text("decision"))
                && is(self.outcome.as_ref(), text("outcome"))
                && is(self.phase.as_ref(), text("phase"));
        }
        let field = |name: &str| record.get("fields").and_then(|fields| fields.get(name)).and_then(Value::as_str);
        let turn = self.turn.map(|turn| alloc::format!("{turn}"));
        self.tool.is_none()
            && self.outcome.is_none()
            && self.phase.is_none()
            && is(self.conversation.as_ref(), field("conversation"))
            && is(turn.as_ref(), field("turn"))
            && is(self.decision.as_ref(), field("decision"))
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

fn is(wanted: Option<&String>, have: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| have == Some(wanted))
}

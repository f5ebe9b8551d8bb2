//! Which records a reader wants.

use alloc::string::String;

use capos_schema::audit::Query;

use crate::record::{Event, Record};

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
    /// Whether a record passes.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        record.sequence >= self.from
            && record.time >= self.since
            && self.until.is_none_or(|until| record.time < until)
            && match &record.event {
                Event::Tool(event) => {
                    let decision = event.decided.then(|| event.decision.name());
                    let begun = event.phase == capos_schema::audit::Phase::Before;
                    let outcome = (!begun).then(|| event.outcome.name());
                    same(self.session.as_ref(), &event.session)
                        && same(self.conversation.as_ref(), &event.conversation)
                        && self.turn.is_none_or(|turn| turn == event.turn)
                        && same(self.tool.as_ref(), &event.descriptor.name)
                        && self.decision.as_deref().is_none_or(|wanted| decision == Some(wanted))
                        && self.outcome.as_deref().is_none_or(|wanted| outcome == Some(wanted))
                        && same(self.phase.as_ref(), event.phase.name())
                        && self.kind_is("tool")
                }
                Event::General(event) => {
                    let field = |name: &str| event.fields.iter().find(|field| field.name == name);
                    let field_is = |name: &str, wanted: &str| field(name).is_some_and(|field| field.value == wanted);
                    let no_tool = self.tool.is_none() && self.outcome.is_none() && self.phase.is_none();
                    no_tool
                        && same(self.session.as_ref(), &event.session)
                        && self.kind_is(&event.kind)
                        && self.conversation.as_deref().is_none_or(|wanted| field_is("conversation", wanted))
                        && self.turn.is_none_or(|turn| field_is("turn", &alloc::format!("{turn}")))
                        && self.decision.as_deref().is_none_or(|wanted| field_is("decision", wanted))
                }
            }
    }

    fn kind_is(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(
            |wanted| {
                if wanted.ends_with('.') { kind.starts_with(wanted) } else { kind == wanted }
            },
        )
    }
}

fn same(wanted: Option<&String>, have: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == have)
}

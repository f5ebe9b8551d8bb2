//! A person's consents, and how long they are valid.

use alloc::string::String;

use capos_schema::authority::{Reply, ToolQuestion};
use capos_schema::models::PermissionMode;
use hashbrown::HashMap;

use crate::binding::ExactCall;

/// How far a consent reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// This call.
    Once,
    /// The same call again in this turn.
    Turn,
    /// The same call again in this session.
    Session,
}

/// A person's answer to "may this run?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    No,
    Yes(Span),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        if reply == Reply::Agreed { Self::Yes(Span::Once) } else { Self::No }
    }
}

/// Why a call does not run to which the person has not agreed, for the person, the record and the model.
#[must_use]
pub fn unagreed(reply: Reply, mode: PermissionMode) -> &'static str {
    match reply {
        Reply::Late => "nobody answered in time",
        Reply::Lost => "the terminal was lost before anybody answered",
        Reply::Interrupted => "the person pressed Ctrl-C",
        Reply::NotAsked => "nobody was asked",
        Reply::Agreed | Reply::Declined if mode == PermissionMode::StepUp => "no passphrase was entered",
        Reply::Agreed | Reply::Declined => "the person said no",
    }
}

impl Answer {
    /// Reads an answer: `y` or `yes` is once, `t` or `turn`, `s` or `session`, in either case. Everything else is no,
    /// Enter alone included.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let is = |short: &str, long: &str| {
            let line = line.trim();
            line.eq_ignore_ascii_case(short) || line.eq_ignore_ascii_case(long)
        };
        if is("y", "yes") {
            Self::Yes(Span::Once)
        } else if is("t", "turn") {
            Self::Yes(Span::Turn)
        } else if is("s", "session") {
            Self::Yes(Span::Session)
        } else {
            Self::No
        }
    }
}

/// The standing consents of one session. Each is for one tool with exactly the same arguments, so that one consent
/// never covers more than was shown; none replaces a step-up. They end with the session.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    calls: HashMap<ExactCall, Reach>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    Turn { conversation: String, turn: u32 },
    Session,
}

/// How many consents are kept; further ones count once.
const LIMIT: usize = 1024;

impl Approvals {
    /// Remembers a consent that reaches beyond the one call.
    pub fn add(&mut self, span: Span, question: &ToolQuestion) {
        let reach = match span {
            Span::Once => return,
            Span::Turn => Reach::Turn { conversation: question.conversation.clone(), turn: question.turn },
            Span::Session => Reach::Session,
        };
        let call = ExactCall::of(question);
        let stands = self.calls.get(&call) == Some(&Reach::Session);
        if !stands && (self.calls.len() < LIMIT || self.calls.contains_key(&call)) {
            self.calls.insert(call, reach);
        }
    }

    /// Whether a kept consent covers this call.
    #[must_use]
    pub fn cover(&self, question: &ToolQuestion) -> bool {
        match self.calls.get(&ExactCall::of(question)) {
            None => false,
            Some(Reach::Session) => true,
            Some(Reach::Turn { conversation, turn }) => {
                *conversation == question.conversation && *turn == question.turn
            }
        }
    }

    /// Forgets the consents of turns; to be called when one ends.
    pub fn end_turn(&mut self) {
        self.calls.retain(|_, reach| *reach == Reach::Session);
    }

    /// Forgets everything; to be called when the session ends.
    pub fn clear(&mut self) {
        self.calls.clear();
    }
}

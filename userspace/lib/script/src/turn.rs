//! A parsed script: turns, each a list of steps.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::condition::Condition;
use crate::event::{Crash, ErrorKind, Finish};
use crate::request::RequestView;

/// A whole script, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub selection: Selection,
    /// Whether it says that the model can summarise a conversation.
    pub summarises: bool,
    pub turns: Vec<Arc<Turn>>,
}

/// How the line that answers a request is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Lines are used up from the top.
    #[default]
    Sequence,
    /// The first line whose condition holds, independent of earlier requests: the player keeps no state, so a restarted
    /// worker continues as if nothing had happened.
    Stateless,
}

/// One line: one response.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Line number in the file, from 1.
    pub line: u64,
    pub condition: Condition,
    /// Never used up.
    pub repeat: bool,
    /// Whether `maxTokens` and `stopSequences` of the request are kept to.
    pub obey: bool,
    pub steps: Vec<Step>,
    /// Claimed instead of the counted prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Claimed instead of the counted completion tokens.
    pub completion_tokens: Option<u64>,
    /// Claimed instead of the reason that follows from the steps.
    pub finish: Option<Finish>,
}

impl Turn {
    /// A turn with this text and these calls, which keeps to the request's limits, and claims nothing.
    #[must_use]
    pub fn of(steps: Vec<Step>) -> Self {
        Self {
            line: 0,
            condition: Condition::default(),
            repeat: true,
            obey: true,
            steps,
            prompt_tokens: None,
            completion_tokens: None,
            finish: None,
        }
    }
}

/// One entry of a turn's `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One text delta, this many times.
    Text {
        text: String,
        times: u64,
    },
    /// A text streamed word by word.
    Words(String),
    /// One text delta of raw bytes.
    TextBytes(Vec<u8>),
    /// A tool call, or a piece of one.
    Call {
        index: u32,
        id: Option<Id>,
        name: Option<String>,
        handle: Option<Handle>,
        arguments: Arguments,
    },
    /// Report that a tool's calls are not constrained to all of its schema.
    Loose {
        tool: String,
        why: String,
    },
    Delay(u32),
    /// Read a range of the weights.
    Weights {
        offset: u64,
        bytes: u64,
    },
    /// Say which capabilities the process holds.
    Capabilities,
    /// Call capabilities that the process was not given.
    Reach,
    /// Work for this many milliseconds.
    Compute(u32),
    Error {
        kind: ErrorKind,
        message: String,
    },
    Exit(u32),
    Crash(Crash),
    Hang,
    Deaf,
}

/// The arguments of a call step: literal text, this many times over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    pub text: String,
    pub times: u64,
}

/// Which id a call carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// The request's nonce, which the audit log has too: see [`NONCE_ID`].
    Nonce,
    /// This text.
    Literal(String),
}

/// How an id that repeats the request's nonce begins; the nonce follows in hexadecimal digits.
pub const NONCE_ID: &str = "nonce-";

impl Id {
    /// The id's text for this request.
    pub(crate) fn resolve(&self, request: &RequestView<'_>) -> String {
        match self {
            Self::Nonce => format!("{NONCE_ID}{}", hex::encode(request.nonce)),
            Self::Literal(text) => text.clone(),
        }
    }
}

/// Which handle a call carries. Handles cannot be guessed, so a script names the tool instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle {
    /// The handle of the tool of the call's own name; empty when no such tool is advertised.
    Auto,
    /// The handle of another tool.
    Of(String),
    /// The handle of the named tool with its last character changed: a near miss.
    Near(String),
    /// This text.
    Literal(String),
}

impl Handle {
    /// The handle's text for this request.
    pub(crate) fn resolve(&self, name: Option<&str>, request: &RequestView<'_>) -> String {
        let of = |name: &str| request.handle(name).map(String::from).unwrap_or_default();
        match self {
            Self::Auto => name.map(of).unwrap_or_default(),
            Self::Of(other) => of(other),
            Self::Near(other) => {
                let mut handle = of(other);
                if let Some(last) = handle.pop() {
                    handle.push(if last == 'a' { 'b' } else { 'a' });
                }
                handle
            }
            Self::Literal(text) => text.clone(),
        }
    }
}

//! A request to a model, and its results.

use capos_chat::{Decision, Delta, Message, Tool};
use capos_engine::{Sampling, Usage};
use capos_grammar::Loose;
use serde_json::Value;

use crate::InferenceError;

/// A conversation to answer.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The place of the request that is worked on, which is never left out: the last message of the user if none is named.
    pub goal: Option<usize>,
    /// The tools of this turn.
    pub tools: Vec<Tool>,
    /// Most tokens of the answer; as many as fit if none is named.
    pub limit: Option<usize>,
    /// How tokens are chosen; the file's setting if absent, and the likeliest each time if the file has none.
    pub sampling: Option<Sampling>,
    /// Texts before which the answer ends.
    pub stop_sequences: Vec<String>,
    /// JSON Schema of an answer without calls.
    pub schema: Option<Value>,
    /// The constraints of the answer.
    pub grammar: Grammar,
    /// Whether an answer ends that repeats itself: whose newest 192 tokens of text are a block of up to 64, again and again.
    pub end_repetition: bool,
    /// Seconds since 1970, if the model may know the time.
    pub now: Option<i64>,
    /// Whether calls and results are given to the template as texts: a form that those take which reject them.
    pub plain: bool,
}

/// The constraints of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grammar {
    /// The request's schema only.
    Free,
    /// Calls to the tools and their schemas, too.
    Schemas,
    /// In addition, strings in calls of the built-in model to the conversation's texts.
    #[default]
    Repetition,
}

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The model has read more of the prompt.
    Progress {
        /// Tokens that it has read.
        done: usize,
        /// All its tokens.
        total: usize,
    },
    /// Calls of a tool are constrained less than its schema asks: their arguments may violate the schema, and have to
    /// be checked.
    Loose(Loose),
    /// The conversation is too long: the model does not see this many of its messages.
    Removed(usize),
    /// A piece of the answer.
    Delta(Delta),
    /// Nothing follows.
    Finish(Finish),
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: Reason,
    /// The error, with [`Reason::Error`].
    pub error: Option<InferenceError>,
    /// The outcome of the answer.
    pub decision: Decision,
    /// Its usage.
    pub usage: Usage,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The model ended it, or a stop sequence did.
    Stop,
    /// The model ended it, and there are calls in it.
    ToolCalls,
    /// The requested number of tokens, or as many as fit, were generated.
    Length,
    /// It was cancelled.
    Cancelled,
    /// It repeated itself, and was to end then.
    Repetition,
    /// It could not go on.
    Error,
}

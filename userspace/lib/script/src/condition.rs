//! When a line of the script may answer.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::request::{RequestView, Role};

/// A condition on a request. All that is given must hold; nothing given always holds. Texts are compared as exact
/// substrings, byte for byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// Each is contained in the last user message.
    pub user: Vec<String>,
    /// Each is contained in one of the tool results that the request brings.
    pub tool: Vec<String>,
    /// Each is how one of those results ended: its outcome, by its name in the schema.
    pub outcome: Vec<String>,
    /// Each is contained in the system message.
    pub system: Vec<String>,
    /// Each is contained in some message.
    pub any: Vec<String>,
    /// Each is the name of an advertised tool.
    pub offered: Vec<String>,
    /// None is the name of an advertised tool.
    pub missing: Vec<String>,
    /// The request's temperature is exactly this.
    pub temperature: Option<f32>,
    /// Each is contained in the JSON Schema of the requested answer.
    pub response_schema: Vec<String>,
    /// Each is contained in the request's nonce, in hexadecimal digits.
    pub nonce: Vec<String>,
    /// The model has spoken exactly this often in this conversation.
    pub assistant_messages: Option<u64>,
    /// It is the process's n-th request, counted from 1.
    pub request: Option<u64>,
    /// Must not hold.
    pub not: Option<Box<Self>>,
}

/// Whether a result is one that ended so. A result that is not `ok` begins with its outcome and a colon; one that is,
/// is the tool's text.
fn ended_as(text: &str, outcome: &str) -> bool {
    text.strip_prefix(outcome).is_some_and(|rest| rest.starts_with(": "))
}

impl Condition {
    /// Whether the condition holds of `request`, the `ordinal`-th (from 1) of this process.
    #[must_use]
    pub fn holds(&self, request: &RequestView<'_>, ordinal: u64) -> bool {
        let contained = |needles: &[String], role: Role| {
            needles.is_empty()
                || request.last(role).is_some_and(|text| needles.iter().all(|needle| text.contains(needle.as_str())))
        };
        let nonce = || hex::encode(request.nonce);
        contained(&self.user, Role::User)
            && contained(&self.system, Role::System)
            && self.tool.iter().all(|needle| request.fresh_results().any(|text| text.contains(needle.as_str())))
            && self.outcome.iter().all(|name| request.fresh_results().any(|text| ended_as(text, name)))
            && self.any.iter().all(|needle| request.messages.iter().any(|m| m.content.contains(needle.as_str())))
            && self.offered.iter().all(|name| request.handle(name).is_some())
            && self.missing.iter().all(|name| request.handle(name).is_none())
            && self.temperature.is_none_or(|wanted| wanted == request.temperature)
            && self.response_schema.iter().all(|needle| request.response_schema.contains(needle.as_str()))
            && (self.nonce.is_empty() || self.nonce.iter().all(|needle| nonce().contains(needle.as_str())))
            && self.assistant_messages.is_none_or(|count| count == request.assistant_messages())
            && self.request.is_none_or(|number| number == ordinal)
            && self.not.as_ref().is_none_or(|not| !not.holds(request, ordinal))
    }
}

//! What becomes of a tool's result before the model sees it.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use capos_policy::join;
use capos_schema::audit::ToolEvent;
use capos_schema::authority::{Label, Provenance};
use capos_schema::models::{Outcome, ToolCall, ToolResult};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::piece::{Piece, Told};
use crate::snapshot::Tool;
use capos_redact::redact;

/// Bytes of an error text that may reach the model and the audit log, which takes 2,048 with the mark of the cut.
pub const MAX_ERROR: usize = 1900;

/// The text cut to at most `most` bytes between characters, followed by a mark that tells how much is missing; the
/// text itself where it is short enough.
#[must_use]
pub fn truncate(text: &str, most: usize) -> String {
    cut(text, most, "")
}

/// The same, with the name below which the whole is kept, if it is.
fn cut(text: &str, most: usize, name: &str) -> String {
    if text.len() <= most {
        return text.to_string();
    }
    let kept = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let cut = text.len().saturating_sub(kept.len());
    let whole = match name {
        "" => String::new(),
        name => format!("; the person has all of it as the artifact {name}"),
    };
    format!("{kept}\n[cut: {cut} of {} bytes are not shown{whole}]", text.len())
}

/// SHA-256.
#[must_use]
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// What a call brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// The result as text.
    pub text: String,
    /// Where in a longer text that begins, in bytes, and how long the whole is.
    pub of: Option<(u64, u64)>,
    /// What the service labels it with.
    pub label: Label,
    /// The name below which all of it is kept beside the conversation; empty if it is not.
    pub kept: String,
    /// What it has changed in a file, if that is known.
    pub patch: Option<Patch>,
}

/// What a call has changed in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The file, as the call names it.
    pub path: String,
    /// The change in the unified format.
    pub text: String,
    /// Of what the file held.
    pub label: Label,
}

impl From<String> for Brought {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// The call that a record is about.
pub(crate) fn call_of(event: &ToolEvent) -> ToolCall {
    let (id, arguments) = (event.call_id.clone(), event.arguments.clone());
    ToolCall { id, arguments, ..ToolCall::default() }
}

/// Takes out of an outcome what the call has changed, which its result does not hold.
pub(crate) fn taken(outcome: &mut Result<Brought, String>) -> Option<Patch> {
    outcome.as_mut().ok()?.patch.take()
}

/// The result of a call that ended by itself: redacted, shortened, labelled.
pub fn ended(tool: &Tool, call: &ToolCall, outcome: Result<Brought, String>) -> ToolResult {
    let clean = |text: &str, most: usize| truncate(&redact(text).0, most);
    let mut result = ToolResult {
        call_id: call.id.clone(),
        outcome: Outcome::Ok,
        content: String::new(),
        error: String::new(),
        label: tool.label.clone(),
        provenance: if tool.untrusted { Provenance::Untrusted } else { Provenance::Trusted },
    };
    let outcome = outcome.and_then(|brought| {
        result.label = join(&result.label, &brought.label);
        match (brought.of, asked(tool, call)) {
            (Some((start, bytes)), Some(piece)) => piece.of(Told { text: &brought.text, start, bytes }),
            _ => Ok(cut(&redact(&brought.text).0, tool.max_result, &brought.kept)),
        }
    });
    match outcome {
        Ok(text) => result.content = text,
        Err(text) => {
            result.outcome = Outcome::ExecutionError;
            result.error = clean(&text, MAX_ERROR.min(tool.max_result.max(256)));
            // What a service says about a failure may quote what it read.
            result.provenance = Provenance::Untrusted;
        }
    }
    result
}

/// The piece that a call asked for.
fn asked(tool: &Tool, call: &ToolCall) -> Option<Piece> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    Piece::asked(tool, arguments.as_object()?)
}

/// Why the runner answers a call itself. The code that makes the text says who wrote it; no outcome does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Constants of this program, with numbers at most.
    System(Cow<'static, str>),
    /// Text that quotes a model, a tool, a service or the broker: a name, an argument, a path, a reason.
    Quoted(String),
}

impl Why {
    /// Constants of this program, into which numbers were put.
    pub fn own(text: String) -> Self {
        Self::System(Cow::Owned(text))
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        match self {
            Self::System(text) => text,
            Self::Quoted(text) => text,
        }
    }

    fn provenance(&self) -> Provenance {
        match self {
            Self::System(_) => Provenance::Trusted,
            Self::Quoted(_) => Provenance::Untrusted,
        }
    }
}

impl From<&'static str> for Why {
    fn from(text: &'static str) -> Self {
        Self::System(Cow::Borrowed(text))
    }
}

/// A text that was put together may quote something, unless [`Why::own`] says that it does not.
impl From<String> for Why {
    fn from(text: String) -> Self {
        Self::Quoted(text)
    }
}

/// The result of a call that the runner itself answers.
pub fn answered(call_id: &str, outcome: Outcome, why: impl Into<Why>) -> ToolResult {
    let why = why.into();
    ToolResult {
        call_id: call_id.to_string(),
        outcome,
        content: String::new(),
        error: truncate(why.text(), MAX_ERROR),
        label: Label::default(),
        provenance: why.provenance(),
    }
}

/// What the model reads: the content, or the outcome and why.
pub fn text(result: &ToolResult) -> String {
    if result.outcome == Outcome::Ok {
        result.content.clone()
    } else {
        format!("{}: {}", result.outcome.name(), result.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn c08_a_cut_result_says_how_much_is_missing() {
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("aé", 2), "a\n[cut: 2 of 3 bytes are not shown]");
        let text = "x".repeat(10 << 20);
        let cut = truncate(&text, 16_384);
        assert!(cut.len() < 16_500);
        assert!(cut.ends_with("[cut: 10469376 of 10485760 bytes are not shown]"));
    }

    proptest! {
        #[test]
        fn cutting_keeps_a_beginning(text in "\\PC{0,50}", most in 0_usize..60) {
            let cut = truncate(&text, most);
            let kept = cut.split("\n[cut: ").next().unwrap();
            prop_assert!(text.starts_with(kept) && kept.len() <= most.max(text.len().min(most)));
            prop_assert_eq!(cut == text, text.len() <= most);
        }
    }
}

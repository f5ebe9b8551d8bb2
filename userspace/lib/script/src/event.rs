//! The parts of a response, in the order in which the worker carries it out.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One thing the worker does while it answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of the answer's text.
    Text(String),
    /// A text delta that need not be valid UTF-8; only a hostile model sends one.
    TextBytes(Vec<u8>),
    /// A piece of a tool call.
    Call(CallDelta),
    /// Report that calls of this tool are not constrained to all of its schema, and which part is missing.
    Loose { tool: String, why: String },
    /// Wait this many milliseconds of guest time before the next event.
    Delay(u32),
    /// Read this range of the weights and report it: see [`weights_text`].
    Weights { offset: u64, bytes: u64 },
    /// Say which capabilities the worker's process holds.
    Capabilities,
    /// Call capabilities that the process was not given, by every possible id, and report the result.
    Reach,
    /// Work for this many milliseconds of guest time, as a model that decodes does, unless it is cancelled.
    Compute(u32),
    /// The response is complete. Always the last event.
    Finish { reason: Finish, usage: Usage },
    /// The call ends with an exception instead of a response. Always the last event.
    Error { kind: ErrorKind, message: String },
    /// The worker ends its process with this code. Always the last event.
    Exit(u32),
    /// The worker does something that gets its process killed. Always the last event.
    Crash(Crash),
    /// The worker stops sending until the stream is cancelled. Always the last event.
    Hang,
    /// The worker stops answering every caller, also to a cancel. Always the last event.
    Deaf,
}

impl Event {
    /// Whether nothing can follow this event.
    #[must_use]
    pub fn is_last(&self) -> bool {
        matches!(
            self,
            Self::Finish { .. } | Self::Error { .. } | Self::Exit(_) | Self::Crash(_) | Self::Hang | Self::Deaf
        )
    }
}

/// The worker's text for [`Event::Weights`]: the range and the sum of its bytes. A range that is not in the weights is
/// cut to its part there.
#[must_use]
pub fn weights_text(weights: &[u8], offset: u64, bytes: u64) -> String {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(weights.len());
    let end = start.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)).min(weights.len());
    let sum =
        weights.get(start..end).unwrap_or_default().iter().fold(0_u64, |sum, byte| sum.wrapping_add(u64::from(*byte)));
    format!("[weights {start}..{end}: sum {sum}]")
}

/// A piece of a tool call. Pieces with the same `index` belong together; each field is the fields of the pieces joined
/// in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDelta {
    pub index: u32,
    pub id: Option<String>,
    pub name: Option<String>,
    pub handle: Option<String>,
    /// A fragment of the arguments' JSON text. Nothing makes it valid JSON.
    pub arguments: String,
}

/// Why a response ended. `Other` is a number outside the schema's enumeration, as only a hostile model sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    Length,
    Cancelled,
    ContentFilter,
    Error,
    Repetition,
    Other(u16),
}

impl Finish {
    pub(crate) const NAMES: [(&'static str, Self); 7] = [
        ("stop", Self::Stop),
        ("toolCalls", Self::ToolCalls),
        ("length", Self::Length),
        ("cancelled", Self::Cancelled),
        ("contentFilter", Self::ContentFilter),
        ("error", Self::Error),
        ("repetition", Self::Repetition),
    ];
}

/// Tokens as [`count_tokens`](crate::count_tokens) counts them, or as the script claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

/// The kind of a call exception: the five of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Failed,
    Overloaded,
    Disconnected,
    Unimplemented,
    InvalidArgument,
}

impl ErrorKind {
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("failed", Self::Failed),
        ("overloaded", Self::Overloaded),
        ("disconnected", Self::Disconnected),
        ("unimplemented", Self::Unimplemented),
        ("invalidArgument", Self::InvalidArgument),
    ];
}

/// Ways for the worker to get its process killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// A panic in Rust.
    Panic,
    /// A write to address zero.
    Null,
    /// A write to the read-only mapping of the weights.
    Weights,
    /// A jump into data.
    Execute,
    /// An I/O port instruction.
    Port,
}

impl Crash {
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("panic", Self::Panic),
        ("null", Self::Null),
        ("weights", Self::Weights),
        ("execute", Self::Execute),
        ("port", Self::Port),
    ];
}

//! What JSON-RPC 2.0 itself defines: ids and errors.

use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::limits;

/// The id of a request. Its answer has the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// A number without a fraction.
    Number(i64),
    /// A text of at most [`ID`](limits::ID) bytes.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// One of [`code`], or a later host's.
    pub code: i32,
    /// What, where, and what to do, for a person.
    pub message: String,
}

impl RpcError {
    /// An error with a message that says what to do.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message, self.code)
    }
}

impl core::error::Error for RpcError {}

/// A message that has no room in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes that it would have.
    pub bytes: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the message has {} bytes, and a line has room for {}", self.bytes, limits::LINE)
    }
}

impl core::error::Error for TooLong {}

/// Serializes a message and ends its line.
pub(crate) fn line<T: Serialize>(message: &T) -> Result<String, TooLong> {
    // Only map keys that are no text fail, and no message here has any.
    let mut line = serde_json::to_string(message).map_err(|_| TooLong { bytes: usize::MAX })?;
    if line.len() > limits::LINE {
        return Err(TooLong { bytes: line.len() });
    }
    line.push('\n');
    Ok(line)
}

/// Codes of [`RpcError`].
pub mod code {
    /// The line is no JSON, or is nested too deep.
    pub const PARSE: i32 = -32700;
    /// The JSON is no request: a list of requests, another version, a bad id, a line that is too long.
    pub const INVALID_REQUEST: i32 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are not the method's.
    pub const INVALID_PARAMS: i32 = -32602;
    /// The host failed.
    pub const INTERNAL: i32 = -32603;
    /// The client speaks another version of the protocol.
    pub const INCOMPATIBLE: i32 = -32001;
    /// The method needs a session: `CreateSession` first.
    pub const NO_SESSION: i32 = -32002;
    /// There is a session already.
    pub const SESSION_EXISTS: i32 = -32003;
    /// The user or the passphrase is wrong, or too many were.
    pub const LOGIN_FAILED: i32 = -32004;
    /// Something has to be done at the machine's console first.
    pub const CONSOLE_NEEDED: i32 = -32005;
    /// A task runs: wait for it or cancel it.
    pub const TASK_RUNNING: i32 = -32006;
    /// No task runs.
    pub const NO_TASK: i32 = -32007;
    /// The approval is not open: it was answered, timed out, was cancelled, or never existed.
    pub const APPROVAL_NOT_OPEN: i32 = -32008;
    /// There is no such conversation.
    pub const NOT_FOUND: i32 = -32009;
    /// A limit was reached.
    pub const LIMIT: i32 = -32010;
    /// A service of the machine does not answer.
    pub const UNAVAILABLE: i32 = -32011;
}

/// An error of decoding: a message for a person, without the position that serde adds.
pub(crate) fn why(error: &serde_json::Error) -> String {
    format!("{error}")
}

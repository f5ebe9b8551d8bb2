//! Why a call was refused.

use alloc::borrow::Cow;
use core::fmt;

pub use capos_abi::ExceptionKind;

/// Longest reason that travels, in bytes.
pub const MAX_REASON: usize = 512;

/// A rejection: its kind, and the reason as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The kind.
    pub kind: ExceptionKind,
    /// What went wrong, where, and what to do.
    pub reason: Cow<'static, str>,
}

impl Exception {
    /// An exception of any kind.
    pub fn new(kind: ExceptionKind, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, reason: reason.into() }
    }

    /// It was tried and did not work.
    pub fn failed(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ExceptionKind::Failed, reason)
    }

    /// Not now: too much to do.
    pub fn overloaded(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ExceptionKind::Overloaded, reason)
    }

    /// Something that the server needs is gone.
    pub fn disconnected(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ExceptionKind::Disconnected, reason)
    }

    /// The server does not know this method.
    pub fn unimplemented(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ExceptionKind::Unimplemented, reason)
    }

    /// The arguments are not acceptable.
    pub fn invalid_argument(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ExceptionKind::InvalidArgument, reason)
    }

    /// The reason as it travels: UTF-8, at most [`MAX_REASON`] bytes, cut between characters.
    #[must_use]
    pub fn reason_bytes(&self) -> &[u8] {
        self.reason.as_bytes().get(..self.reason.floor_char_boundary(MAX_REASON)).unwrap_or_default()
    }

    /// An exception from its encoded form: the completion's status and the result bytes.
    #[must_use]
    pub fn from_parts(status: i32, reason: &[u8]) -> Option<Self> {
        let kind = ExceptionKind::from_raw(status)?;
        let reason = reason.get(..MAX_REASON).unwrap_or(reason);
        let reason = alloc::string::String::from_utf8_lossy(reason).into_owned();
        Some(Self { kind, reason: Cow::Owned(reason) })
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason.is_empty() {
            f.write_str(self.kind.words())
        } else {
            write!(f, "{}: {}", self.kind.words(), self.reason)
        }
    }
}

impl core::error::Error for Exception {}

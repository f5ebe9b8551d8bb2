//! Why something was not done.

use alloc::format;
use alloc::string::String;
use core::fmt;

use capos_keyspace::Fault;

/// Why something was not done. The text says what to do, if somebody can do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The store did not do it.
    Fault(Fault),
    /// There is no such conversation.
    NoSuch(String),
    /// What was given is no id, no message, too long, or does not fit what is there.
    Invalid(String),
    /// A bound is reached.
    Full(String),
    /// What the store holds is not what was written.
    Damaged(String),
}

impl Error {
    pub(crate) fn too_long(what: &str, bytes: usize, most: usize) -> Self {
        Self::Invalid(format!("{what} of {bytes} bytes is too long; at most {most} bytes are possible"))
    }

    pub(crate) fn damaged(what: &str, why: impl fmt::Display) -> Self {
        Self::Damaged(format!("{what} cannot be read: {why}"))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::NoSuch(why) | Self::Invalid(why) | Self::Full(why) | Self::Damaged(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Error {}

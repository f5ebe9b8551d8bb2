//! How an operation ended.
//!
//! Errors have three levels: transport (a negative [`Status`]), call exception (an
//! [`ExceptionKind`], with a reason as text in the result bytes) and results in the schema.

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $value:literal => $words:literal,)*) => {
        /// A transport-level outcome.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(i32)]
        pub enum Status {
            $($(#[doc = $doc])* $name = $value,)*
        }

        impl Status {
            /// Every status, for tables and tests.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The status with this number, if there is one.
            #[must_use]
            pub const fn from_raw(raw: i32) -> Option<Self> {
                match raw {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// What happened, as text.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0 => "done",
    /// The opcode names no operation.
    BadOpcode = -1 => "the entry's opcode names no operation",
    /// A field that must be zero is not.
    ReservedField = -2 => "a reserved field of the entry is not zero",
    /// A pointer is null, not aligned to 8 bytes, outside user memory, not mapped, not resident or not accessible as needed.
    BadAddress = -3 => "a buffer of the entry is not accessible user memory",
    /// The capability identifier was never valid in this process.
    BadCapability = -4 => "no such capability in this process",
    /// The capability was released, moved away or revoked.
    StaleCapability = -5 => "the capability was released or revoked",
    /// The object does not speak the interface that the entry names.
    WrongInterface = -6 => "the capability does not offer this interface",
    /// The capability does not carry the right that the operation needs.
    MissingRight = -7 => "the capability lacks the right that this operation needs",
    /// Message, buffer or count over its limit, or the receiver's buffer is too small.
    TooLarge = -8 => "the message is larger than the limit or the receiver's buffer",
    /// The account cannot pay for it.
    QuotaExceeded = -9 => "the account's limit does not cover this operation",
    /// The other side is gone: the server died, dropped the call, or the object was destroyed.
    Disconnected = -10 => "the other side of the capability is gone",
    /// Cancelled by the caller, or by the revocation of a capability that the operation used.
    Cancelled = -11 => "the operation was cancelled",
    /// The receiver has no room now; nothing was done; try again after it has worked.
    Overloaded = -12 => "the receiver has no room now",
    /// A length, offset or value is out of its range.
    InvalidArgument = -13 => "an argument of the entry is out of its range",
    /// The machine has no free memory left.
    OutOfMemory = -14 => "the machine is out of memory",
    /// No operation in flight has this user data.
    NotFound = -15 => "no operation in flight matches",
    /// The word does not hold the value that the wait expects: there is nothing to wait for.
    Changed = -16 => "the word does not hold the expected value",
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.words())
    }
}

/// Why a server (or a kernel object) refused or failed a call; the number is the completion's
/// positive status. The same kinds as Cap'n Proto's, plus `InvalidArgument`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
pub enum ExceptionKind {
    /// It was tried and did not work.
    Failed = 1,
    /// Not now: too much to do.
    Overloaded = 2,
    /// Something that the server needs is gone.
    Disconnected = 3,
    /// The server does not know this method.
    Unimplemented = 4,
    /// The arguments are not acceptable.
    InvalidArgument = 5,
}

impl ExceptionKind {
    /// The kind with this number, if there is one.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Option<Self> {
        match raw {
            1 => Some(Self::Failed),
            2 => Some(Self::Overloaded),
            3 => Some(Self::Disconnected),
            4 => Some(Self::Unimplemented),
            5 => Some(Self::InvalidArgument),
            _ => None,
        }
    }

    /// The kind, as text.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Overloaded => "overloaded",
            Self::Disconnected => "disconnected",
            Self::Unimplemented => "unimplemented",
            Self::InvalidArgument => "invalid argument",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_round_trips() {
        for status in Status::ALL {
            assert_eq!(Status::from_raw(*status as i32), Some(*status));
        }
        assert_eq!(Status::from_raw(1), None);
        assert_eq!(Status::from_raw(-1000), None);
    }
}

//! Why a keyspace did not do something.

use alloc::string::String;
use core::fmt;

use capos_schema::store::StoreFault;

/// Why a keyspace did not do something. The text says what to do, where somebody can do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The volume is not open yet.
    Locked,
    /// The disk has no room for it.
    Full(String),
    /// The namespace's quota does not cover it.
    Quota(String),
    /// The volume is open for reading alone.
    ReadOnly(String),
    /// A block is not what was written there last.
    Damaged(String),
    /// The disk failed or is gone.
    Medium(String),
    /// The store ended meanwhile, or its disk failed: whether a commit was done is unknown, and it can be repeated. What was
    /// committed for later and not synced may be gone.
    Lost(String),
    /// A key, value or batch is empty or too long.
    Invalid(String),
}

impl Fault {
    /// The fault of an answer; none where it was done.
    pub(crate) fn of(fault: StoreFault, why: String) -> Result<(), Self> {
        Err(match fault {
            StoreFault::None => return Ok(()),
            StoreFault::Locked => Self::Locked,
            StoreFault::Full => Self::Full(why),
            StoreFault::Quota => Self::Quota(why),
            StoreFault::ReadOnly => Self::ReadOnly(why),
            StoreFault::Damaged => Self::Damaged(why),
            StoreFault::Medium => Self::Medium(why),
            StoreFault::Lost => Self::Lost(why),
            // A batch names no version that it is based on.
            StoreFault::Changed => Self::Invalid(why),
        })
    }

    /// As the store answers it.
    #[must_use]
    pub fn answer(&self) -> Option<StoreFault> {
        Some(match self {
            Self::Locked => StoreFault::Locked,
            Self::Full(_) => StoreFault::Full,
            Self::Quota(_) => StoreFault::Quota,
            Self::ReadOnly(_) => StoreFault::ReadOnly,
            Self::Damaged(_) => StoreFault::Damaged,
            Self::Medium(_) => StoreFault::Medium,
            Self::Lost(_) => StoreFault::Lost,
            Self::Invalid(_) => return None,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("the data volume is locked; log in to open it"),
            Self::Full(why) | Self::Quota(why) | Self::ReadOnly(why) | Self::Damaged(why) => f.write_str(why),
            Self::Medium(why) | Self::Lost(why) | Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Fault {}

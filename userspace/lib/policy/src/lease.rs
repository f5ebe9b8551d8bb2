//! Leave to run exactly one call, once, for a short time.

use core::fmt;

use capos_schema::authority::ToolQuestion;

use crate::binding::{Binding, BindingError};

/// The result of a step-up: it is valid for one tool, arguments, conversation, turn and call, until it expires or is
/// used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    bound: Binding,
    used: bool,
}

/// Why a lease does not cover a call. A lease that was offered for another call is still good for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseError {
    Used,
    /// It is bound to another call, or has expired.
    Bound(BindingError),
}

impl fmt::Display for LeaseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used => formatter.write_str("the lease has been used; each call needs its own"),
            Self::Bound(why @ BindingError::Expired) => write!(formatter, "the lease {why}; authenticate again"),
            Self::Bound(why) => write!(formatter, "the lease {why}"),
        }
    }
}

impl core::error::Error for LeaseError {}

/// How long a lease is valid by default: 60 seconds.
const STANDARD: u64 = 60 * 1_000_000_000;

impl Lease {
    /// A lease for the call in question, valid for 60 seconds.
    #[must_use]
    pub fn new(session: &str, question: &ToolQuestion, now: u64) -> Self {
        Self::until(session, question, now.saturating_add(STANDARD))
    }

    /// A lease for the call in question, valid before `expires`.
    #[must_use]
    pub fn until(session: &str, question: &ToolQuestion, expires: u64) -> Self {
        Self { bound: Binding::new(session, question, expires), used: false }
    }

    /// The same lease, valid only before `expires`.
    #[must_use]
    pub fn no_later(self, expires: u64) -> Self {
        Self { bound: self.bound.no_later(expires), ..self }
    }

    /// Uses the lease for a call.
    ///
    /// # Errors
    /// Why it does not cover it. Nothing is used up then.
    pub fn redeem(&mut self, session: &str, question: &ToolQuestion, now: u64) -> Result<(), LeaseError> {
        if self.used {
            return Err(LeaseError::Used);
        }
        self.bound.covers(session, question, now).map_err(LeaseError::Bound)?;
        self.used = true;
        Ok(())
    }
}

//! Leave to run exactly one call, once, for a short time.

use alloc::string::String;
use core::fmt;

use capos_schema::authority::ToolQuestion;

use crate::binding::ExactCall;

/// The result of a step-up: it is valid for one tool, arguments, conversation, turn and call, until it expires or is
/// used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    session: String,
    call: ExactCall,
    conversation: String,
    turn: u32,
    call_id: String,
    /// First time at which it is no longer good.
    expires: u64,
    used: bool,
}

/// Why a lease does not cover a call. A lease that was offered for another call is still good for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseError {
    Expired,
    Used,
    OtherSession,
    OtherTool,
    OtherArguments,
    OtherConversation,
    OtherTurn,
    OtherCall,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Expired => "the lease has expired; authenticate again",
            Self::Used => "the lease has been used; each call needs its own",
            Self::OtherSession => "the lease was given to another session",
            Self::OtherTool => "the lease is for another tool",
            Self::OtherArguments => "the lease is for other arguments",
            Self::OtherConversation => "the lease is for another conversation",
            Self::OtherTurn => "the lease is for another turn",
            Self::OtherCall => "the lease is for another call",
        })
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
        Self {
            session: session.into(),
            call: ExactCall::of(question),
            conversation: question.conversation.clone(),
            turn: question.turn,
            call_id: question.call_id.clone(),
            expires,
            used: false,
        }
    }

    /// Uses the lease for a call.
    ///
    /// # Errors
    /// Why it does not cover it. Nothing is used up then.
    pub fn redeem(&mut self, session: &str, question: &ToolQuestion, now: u64) -> Result<(), LeaseError> {
        let call = ExactCall::of(question);
        let checks = [
            (self.used, LeaseError::Used),
            (now >= self.expires, LeaseError::Expired),
            (session != self.session, LeaseError::OtherSession),
            (!call.same_tool(&self.call), LeaseError::OtherTool),
            (call != self.call, LeaseError::OtherArguments),
            (question.conversation != self.conversation, LeaseError::OtherConversation),
            (question.turn != self.turn, LeaseError::OtherTurn),
            (question.call_id != self.call_id, LeaseError::OtherCall),
        ];
        if let Some((_, error)) = checks.into_iter().find(|(failed, _)| *failed) {
            return Err(error);
        }
        self.used = true;
        Ok(())
    }
}

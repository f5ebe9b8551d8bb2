//! The ends of a turn.

use alloc::format;
use alloc::string::{String, ToString};

use capos_plural::count;

use crate::world::{Show, World};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model has nothing more to do.
    Answered,
    /// The person pressed Ctrl-C.
    Interrupted,
    /// The session ends, and the step in progress has ended.
    Stopped,
    /// A call of the turn turns the machine off, now that the turn is kept.
    Off,
    /// The model was asked as often as one turn allows.
    Iterations(u32),
    /// The same, and nobody answered whether it continues: the run is paused.
    Unanswered(u32),
    /// The model has nothing more to do, and so many calls of the run still run: the run is paused.
    Scheduled(usize),
    /// The turn has left as many bytes in the audit log as it may without the person's word.
    Evidence(usize),
    /// The turns of this session have left as many bytes there as they may together.
    SessionEvidence(usize),
    /// The model has nothing more to do, and a condition of the run does not hold: which, and why.
    Unmet(String),
    /// The session's tokens are used up.
    Tokens(String),
    /// A limit of the run's or the session's budget is reached: which one. Cancelled if the person allowed no more.
    Budget { why: String, cancelled: bool },
    /// Too many requests were made to models lately.
    Rate(String),
    /// The session's time is over.
    Time(u64),
    /// The session's policy has expired: the run is paused until the policy is renewed.
    Policy,
    /// The model's answer said the same over and over, and was ended.
    Repeated,
    /// The model gave no answer.
    Model(String),
    /// The model gave no whole answer, as often as it was asked: the run is paused.
    Away(String),
    /// The model's content filter stopped the answer.
    Filtered,
    /// The model rejects the conversation in this form.
    Rejected(String),
    /// The broker did not answer.
    Refused(String),
}

impl TurnEnd {
    /// How a run ended that has no answer, and why.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Iterations(calls) => format!("it has made its {}", count(*calls, "model call")),
            Self::Budget { why, .. }
            | Self::Tokens(why)
            | Self::Rate(why)
            | Self::Model(why)
            | Self::Away(why)
            | Self::Rejected(why)
            | Self::Refused(why)
            | Self::Unmet(why) => format!("{}: {why}", self.outcome()),
            end => end.outcome().to_string(),
        }
    }

    /// How the run ended, for its record.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Interrupted => "cancelled: the person interrupted",
            Self::Stopped => "cancelled: the session ended",
            Self::Off => "cancelled: the machine is turned off",
            Self::Budget { cancelled: true, .. } => "cancelled: a budget is used up and was not extended",
            Self::Budget { cancelled: false, .. } | Self::Tokens(_) => "failed: a budget is used up",
            Self::Iterations(_) => "failed: model calls in one turn",
            Self::Unanswered(_) => "paused: nobody answered whether it goes on",
            Self::Scheduled(_) => "paused: calls of the run still run",
            Self::Unmet(_) => "failed: a condition does not hold",
            Self::Evidence(_) | Self::SessionEvidence(_) => "failed: the limit of the audit log",
            Self::Rate(_) => "paused: too many requests to models",
            Self::Time(_) => "paused: the session's time is over",
            Self::Policy => "paused: the policy has expired",
            Self::Repeated => "failed: the answer repeated itself",
            Self::Away(_) => "paused: the model does not answer",
            Self::Filtered => "failed: the model's content filter stopped the answer",
            Self::Model(_) | Self::Rejected(_) => "failed: the model gave no answer",
            Self::Refused(_) => "failed: the broker gave no answer",
        }
    }
}

/// Turns the machine off if a call has asked for it, and tells the person if it stays on.
pub(crate) async fn leave(world: &impl World) {
    if world.is_leaving()
        && let Err(why) = world.leave().await
    {
        world.show(Show::Notice(&why)).await;
    }
}

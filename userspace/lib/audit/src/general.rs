//! Records that are not about a tool call.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_schema::audit::{GeneralEvent, GeneralEventField};

use crate::canonical;

/// The kinds that the system itself writes. Others are allowed; `tool` is not, since it would pass for a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    LogStart,
    LogSpace,
    /// The log continues in memory, since its disk can only be read.
    LogMemory,
    /// The disk has the records that were in memory.
    LogDisk,
    /// The records before are in an archive.
    LogArchive,
    /// The disk has lost records. As the first record: the chain was started over for it.
    LogDamage,
    SessionStart,
    SessionEnd,
    BrokerDecision,
    /// What would become of a call, of which somebody asked. The call was not made.
    PolicyCheck,
    /// A run begins, with the limits of its budget.
    BudgetBegin,
    BudgetWarning,
    /// A limit is reached, and what happens for it.
    BudgetExceeded,
    /// A person has been asked for more.
    BudgetExtension,
    /// A run has ended, and has used this.
    BudgetEnd,
    ModelLoaded,
    ModelRefused,
    Message,
    Service,
}

impl Kind {
    /// The kind's name in a record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LogStart => "log.start",
            Self::LogSpace => "log.space",
            Self::LogMemory => "log.memory",
            Self::LogDisk => "log.disk",
            Self::LogArchive => "log.archive",
            Self::LogDamage => "log.damage",
            Self::SessionStart => "session.start",
            Self::SessionEnd => "session.end",
            Self::BrokerDecision => "broker.decision",
            Self::PolicyCheck => "policy.check",
            Self::BudgetBegin => "budget.begin",
            Self::BudgetWarning => "budget.warning",
            Self::BudgetExceeded => "budget.exceeded",
            Self::BudgetExtension => "budget.extension",
            Self::BudgetEnd => "budget.end",
            Self::ModelLoaded => "model.loaded",
            Self::ModelRefused => "model.refused",
            Self::Message => "message",
            Self::Service => "service",
        }
    }

    /// Whether the log has room for records of this kind that no session's work takes. Sessions do not write them.
    #[must_use]
    pub fn is_spared(kind: &str) -> bool {
        let own = [Self::LogStart, Self::LogSpace, Self::LogMemory, Self::LogDisk, Self::LogArchive, Self::LogDamage];
        [Self::SessionStart, Self::SessionEnd].iter().chain(&own).any(|spared| spared.name() == kind)
    }

    /// An event of this kind.
    #[must_use]
    pub fn event(self, session: &str, principal: &str, fields: &[(&str, &dyn fmt::Display)]) -> GeneralEvent {
        GeneralEvent { session: session.into(), principal: principal.into(), ..general(self.name(), fields) }
    }
}

/// An event of any kind, about no session.
pub(crate) fn general(kind: &str, fields: &[(&str, &dyn fmt::Display)]) -> GeneralEvent {
    let fields: Vec<GeneralEventField> = fields
        .iter()
        .map(|(name, value)| GeneralEventField { name: String::from(*name), value: value.to_string() })
        .collect();
    GeneralEvent { kind: kind.into(), fields, ..GeneralEvent::default() }
}

/// The metadata of a message of a conversation: who spoke, when in the conversation, how long, and the hash of the
/// text. The content itself is not recorded.
#[must_use]
pub fn message(
    session: &str,
    principal: &str,
    conversation: &str,
    turn: u32,
    role: &str,
    content: &str,
) -> GeneralEvent {
    let hash = hex::encode(canonical::sha256(content.as_bytes()));
    Kind::Message.event(
        session,
        principal,
        &[
            ("conversation", &conversation),
            ("turn", &turn),
            ("role", &role),
            ("length", &content.len()),
            ("hash", &hash),
        ],
    )
}

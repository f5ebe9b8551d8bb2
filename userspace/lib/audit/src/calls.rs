//! What the chain knows of each call: the one place where a decision and the outcome of the call meet.
//!
//! The broker and the runner write to the log independently, and a runner that is interrupted stops waiting for a
//! decision that may still be recorded. The record that comes first settles it. A recorded decision is that of the
//! call, whatever its runner knew or reports. Once a call's outcome is recorded, a decision on it is rejected, and the
//! broker then does not let its decision hold.

use alloc::format;

use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::authority::Decision;

use crate::canonical::sha256;
use crate::general::Kind;
use crate::record::Event;
use crate::rules::AppendError;

/// A call: the hash of its session, conversation and id.
pub(crate) type Key = [u8; 32];

/// What is recorded of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub decision: Option<Decision>,
    /// Sequence of the record about it.
    pub told: Option<u64>,
}

/// The call that an event is about, if what is recorded of the call can reject the event.
pub(crate) fn subject(event: &Event) -> Option<Key> {
    match event {
        Event::Tool(event) if event.phase == Phase::After && !event.late => None,
        Event::Tool(event) => Some(key(&event.session, &event.conversation, &event.call_id)),
        Event::General(event) => ruling(event).map(|(conversation, id, _)| key(&event.session, conversation, id)),
    }
}

impl Call {
    /// Checks an event that records the call's outcome: it is the first one, and names no other decision than the
    /// recorded one.
    pub fn tell(&self, event: &ToolEvent) -> Result<(), AppendError> {
        match (self.told, self.decision) {
            (Some(sequence), _) => Err(told_already(&event.call_id, sequence)),
            (None, Some(made)) if event.decided && event.decision != made => {
                let (id, told) = (&event.call_id, event.decision.name());
                Err(AppendError::Invalid(format!("the call {id:?} was decided on as {}, not as {told}", made.name())))
            }
            (None, _) => Ok(()),
        }
    }

    /// How an event decides on the call; `None` if it is not a decision on a call.
    pub fn decide(&self, event: &GeneralEvent) -> Result<Option<Decision>, AppendError> {
        let Some((_, id, name)) = ruling(event) else { return Ok(None) };
        let Some(decision) = Decision::from_name(name) else {
            return Err(AppendError::Invalid(format!("there is no decision {name:?}")));
        };
        match (self.told, self.decision) {
            (Some(sequence), _) => Err(told_already(id, sequence)),
            (None, Some(made)) => {
                Err(AppendError::Invalid(format!("the call {id:?} was decided on already, as {}", made.name())))
            }
            (None, None) => Ok(Some(decision)),
        }
    }
}

/// Conversation, call and decision of an event that decides on a call.
fn ruling(event: &GeneralEvent) -> Option<(&str, &str, &str)> {
    if event.kind != Kind::BrokerDecision.name() {
        return None;
    }
    let field = |name: &str| event.fields.iter().find(|field| field.name == name).map(|field| field.value.as_str());
    Some((field("conversation")?, field("callId")?, field("decision")?))
}

fn told_already(id: &str, sequence: u64) -> AppendError {
    AppendError::Invalid(format!("record {sequence} already holds the outcome of the call {id:?}"))
}

/// Lengths separate the parts, whatever they hold.
fn key(session: &str, conversation: &str, id: &str) -> Key {
    sha256(format!("{} {} {session}{conversation}{id}", session.len(), conversation.len()).as_bytes())
}

//! What the chain knows of each call: the one place where a decision and the outcome of the call meet.
//!
//! The broker and the runner write to the log independently, and a runner that is interrupted stops waiting for a
//! decision that may still be recorded. The record that comes first settles it. A recorded decision is that of the
//! call, whatever its runner knew or reports. Once a call's outcome is recorded, a decision on it is rejected, and the
//! broker then does not let its decision hold.

use alloc::collections::BTreeMap;
use alloc::format;

use capos_schema::audit::{GeneralEvent, ToolEvent};
use capos_schema::authority::Decision;

use crate::canonical::sha256;
use crate::chain::AppendError;
use crate::general::Kind;

/// A call: the hash of its session, conversation and id.
pub(crate) type Key = [u8; 32];

#[derive(Clone, Copy, Debug, Default)]
struct State {
    decision: Option<Decision>,
    /// Sequence of the record about it.
    told: Option<u64>,
}

/// The calls of a chain.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    states: BTreeMap<Key, State>,
}

impl Calls {
    /// The call of an event that records its outcome, and that names no other decision than the recorded one.
    pub(crate) fn tell(&self, event: &ToolEvent) -> Result<Key, AppendError> {
        let key = key(&event.session, &event.conversation, &event.call_id);
        let state = self.states.get(&key).copied().unwrap_or_default();
        match (state.told, state.decision) {
            (Some(sequence), _) => Err(told_already(&event.call_id, sequence)),
            (None, Some(made)) if event.decided && event.decision != made => {
                let (id, told) = (&event.call_id, event.decision.name());
                Err(AppendError::Invalid(format!("the call {id:?} was decided on as {}, not as {told}", made.name())))
            }
            (None, _) => Ok(key),
        }
    }

    /// Notes that a call has a record.
    pub(crate) fn told(&mut self, call: Key, sequence: u64) {
        self.states.entry(call).or_default().told = Some(sequence);
    }

    /// The decision on a call.
    pub(crate) fn decision(&self, call: &Key) -> Option<Decision> {
        self.states.get(call).and_then(|state| state.decision)
    }

    /// The call that an event decides on, and how; `None` if it is not a decision on a call.
    pub(crate) fn decide(&self, event: &GeneralEvent) -> Result<Option<(Key, Decision)>, AppendError> {
        if event.kind != Kind::BrokerDecision.name() {
            return Ok(None);
        }
        let field = |name: &str| event.fields.iter().find(|field| field.name == name).map(|field| field.value.as_str());
        let (Some(conversation), Some(id), Some(name)) = (field("conversation"), field("callId"), field("decision"))
        else {
            return Ok(None);
        };
        let Some(decision) = Decision::from_name(name) else {
            return Err(AppendError::Invalid(format!("there is no decision {name:?}")));
        };
        let key = key(&event.session, conversation, id);
        let state = self.states.get(&key).copied().unwrap_or_default();
        match (state.told, state.decision) {
            (Some(sequence), _) => Err(told_already(id, sequence)),
            (None, Some(made)) => {
                Err(AppendError::Invalid(format!("the call {id:?} was decided on already, as {}", made.name())))
            }
            (None, None) => Ok(Some((key, decision))),
        }
    }

    /// Notes a decision that was recorded.
    pub(crate) fn decided(&mut self, call: Key, decision: Decision) {
        self.states.entry(call).or_default().decision = Some(decision);
    }
}

fn told_already(id: &str, sequence: u64) -> AppendError {
    AppendError::Invalid(format!("record {sequence} already holds the outcome of the call {id:?}"))
}

/// Lengths separate the parts, whatever they hold.
fn key(session: &str, conversation: &str, id: &str) -> Key {
    sha256(format!("{} {} {session}{conversation}{id}", session.len(), conversation.len()).as_bytes())
}

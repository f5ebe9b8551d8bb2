//! One record, and its line.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use serde_json::{Map, Value, json};

use crate::canonical;

/// A record in its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From 1, without gaps.
    pub sequence: u64,
    /// Nanoseconds of the clock that the audit service uses; never less than in the record before.
    pub time: u64,
    /// Hash of the record before; zeros in the first.
    pub previous: [u8; 32],
    /// SHA-256 of the canonical line without this member.
    pub hash: [u8; 32],
    pub event: Event,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Tool(Box<ToolEvent>),
    General(GeneralEvent),
}

/// Where a chain ends. Kept apart from the records, it shows that none was cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Sequence of the last record; 0 if there is none.
    pub sequence: u64,
    /// Hash of the last record.
    pub hash: [u8; 32],
}

impl Head {
    /// Whether the line is of the record of this head, if its chain is unbroken.
    #[must_use]
    pub fn is_of(&self, line: &str) -> bool {
        serde_json::from_str::<Value>(line).is_ok_and(|record| {
            record.get("sequence").and_then(Value::as_u64) == Some(self.sequence)
                && record.get("hash").and_then(Value::as_str) == Some(hex::encode(self.hash).as_str())
        })
    }
}

/// `142311:9f3c…`, with the whole hash: the form in which a person notes it.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sequence, hex::encode(self.hash))
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut hash = [0; 32];
        let parts = text.split_once(':').and_then(|(sequence, digits)| {
            hex::decode_to_slice(digits, &mut hash).ok()?;
            sequence.parse().ok()
        });
        let Some(sequence) = parts else {
            return Err(alloc::format!("{text:?} is not RECORD:HASH, a number and 64 hexadecimal digits"));
        };
        Ok(Self { sequence, hash })
    }
}

impl Record {
    /// The record of an event after this head, and its line.
    pub(crate) fn new(after: Head, time: u64, event: Event) -> (Self, String) {
        let sequence = after.sequence.saturating_add(1);
        let mut record = Self { sequence, time, previous: after.hash, hash: [0; 32], event };
        let (hash, line) = canonical::with_hash(&record.members());
        record.hash = hash;
        (record, line)
    }

    /// A record that has no place in a chain.
    pub(crate) fn unplaced(event: Event) -> Self {
        Self { sequence: 0, time: 0, previous: [0; 32], hash: [0; 32], event }
    }

    #[must_use]
    pub fn head(&self) -> Head {
        Head { sequence: self.sequence, hash: self.hash }
    }

    /// The record as one line of canonical JSON, without a newline.
    #[must_use]
    pub fn line(&self) -> String {
        canonical::text(&self.value())
    }

    /// The record as JSON. Empty members of this record are left out.
    #[must_use]
    pub fn value(&self) -> Value {
        let mut members = self.members();
        members.insert("hash".to_owned(), json!(hex::encode(self.hash)));
        Value::Object(members)
    }

    /// All members but the hash.
    fn members(&self) -> Map<String, Value> {
        let mut members = match &self.event {
            Event::Tool(event) => tool(event),
            Event::General(event) => general(event),
        };
        let own = [
            ("sequence", json!(self.sequence)),
            ("time", json!(self.time)),
            ("previous", json!(hex::encode(self.previous))),
        ];
        members.extend(own.map(|(name, value)| (name.to_owned(), value)));
        members
    }
}

fn tool(event: &ToolEvent) -> Map<String, Value> {
    let descriptor = &event.descriptor;
    let mut members = [
        ("kind", json!("tool")),
        ("phase", json!(event.phase.name())),
        ("session", json!(event.session)),
        ("principal", json!(event.principal)),
        ("conversation", json!(event.conversation)),
        ("turn", json!(event.turn)),
        ("callId", json!(event.call_id)),
        ("modelId", json!(event.model_id)),
        ("backend", json!(event.backend)),
        ("nonce", json!(hex::encode(&event.nonce))),
        ("runner", json!(event.runner)),
        ("gatewaySession", json!(event.gateway_session)),
        (
            "descriptor",
            json!({
                "name": descriptor.name,
                "description": descriptor.description,
                // As text: a JSON number of 64 bits does not survive every reader.
                "interfaceId": alloc::format!("{:#018x}", descriptor.interface_id),
                "methodName": descriptor.method_name,
                "paramSchema": descriptor.param_schema,
                "permission": descriptor.permission.name(),
                "category": descriptor.category,
                "handle": descriptor.handle,
                "abortable": descriptor.abortable,
                "timeoutMs": descriptor.timeout_ms,
            }),
        ),
        ("arguments", json!(event.arguments)),
        ("reason", json!(event.reason)),
        ("advertised", json!(event.advertised)),
        ("label", json!(event.label.classes)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect::<Map<_, _>>();
    let mut add = |name: &str, value| members.insert(name.to_owned(), value);
    if event.decided {
        add("decision", json!(event.decision.name()));
    }
    if event.late {
        add("late", json!(true));
    }
    if !event.arguments_hash.is_empty() {
        add("argumentsBytes", json!(event.arguments_bytes));
        add("argumentsHash", json!(hex::encode(&event.arguments_hash)));
    }
    if event.phase != Phase::Before {
        add("outcome", json!(event.outcome.name()));
        add("error", json!(event.error));
        add("resultHash", json!(hex::encode(&event.result_hash)));
    }
    if event.phase == Phase::After {
        add("before", json!(event.before));
    }
    members
}

fn general(event: &GeneralEvent) -> Map<String, Value> {
    let fields: Map<String, Value> =
        event.fields.iter().map(|field| (field.name.clone(), json!(field.value))).collect();
    [
        ("kind", json!(event.kind)),
        ("session", json!(event.session)),
        ("principal", json!(event.principal)),
        ("fields", Value::Object(fields)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

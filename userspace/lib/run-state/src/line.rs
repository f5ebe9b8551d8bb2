//! An event as a line of a log.

use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::event::{Event, Record};

/// The name of what writes the lines.
const SERVICE: &str = "capos.agent";

/// The event as one line of JSON, without what people, models and tools wrote: of such a text it has the length and the
/// SHA-256. Reasons stay, cleaned by `clean`, which takes secrets out. `wall` is the time of the event in milliseconds since
/// 1970.
#[must_use]
pub fn line(record: &Record, wall: u64, clean: impl Fn(&str) -> String) -> String {
    let Record { ids, event, .. } = record;
    let level = match event {
        Event::SessionFailed { .. } => "error",
        Event::ApprovalTimeout { .. } | Event::PolicyExpired | Event::StepLimitApproaching { .. } => "warning",
        _ => "info",
    };
    let mut payload = event.payload(&ids.step);
    for (name, value) in &mut payload {
        conceal(name, value, &clean);
    }
    let mut line = Map::new();
    let members = [
        ("ts", json!(wall)),
        ("level", json!(level)),
        ("service.name", json!(SERVICE)),
        // The run is what other systems call a trace, and the session an opening.
        ("trace_id", json!(&*ids.run)),
        ("opening_id", json!(&*ids.session)),
        ("agent_id", json!(&*ids.machine)),
        ("event", json!(event.name())),
    ];
    line.extend(members.into_iter().map(|(name, value)| (name.to_string(), value)));
    line.extend(ids.members().into_iter().map(|(name, id)| (name.to_string(), json!(id))));
    line.insert("payload".to_string(), Value::Object(payload));
    Value::Object(line).to_string()
}

/// Takes the content out of a payload's member.
fn conceal(name: &str, value: &mut Value, clean: &impl Fn(&str) -> String) {
    match (name, value) {
        ("text" | "arguments" | "actionSummary", value @ Value::String(_)) => {
            let text = value.as_str().unwrap_or_default();
            *value = json!({ "bytes": text.len(), "sha256": hex(&Sha256::digest(text.as_bytes())) });
        }
        ("details", Value::Object(details)) => {
            for (name, value) in details {
                conceal(name, value, clean);
            }
        }
        (_, Value::String(text)) => *text = clean(text),
        _ => {}
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Ids, tests::all};

    fn clean(text: &str) -> String {
        text.replace("hunter2", "[redacted]")
    }

    #[test]
    fn e12_a_line_is_json_with_the_ids_and_without_what_was_said() {
        for event in all() {
            let ids = Ids { machine: "m1".into(), session: "s1".into(), run: "r1".into(), step: "r1-1".into() };
            let name = event.name();
            let text = line(&Record { at: 0, ids, event }, 1_795_000_000_123, clean);
            assert!(!text.contains('\n') && !text.contains("hunter2"), "{text}");
            let read: Value = serde_json::from_str(&text).unwrap();
            for (member, wanted) in [
                ("service.name", "capos.agent"),
                ("trace_id", "r1"),
                ("opening_id", "s1"),
                ("agent_id", "m1"),
                ("event", name),
                ("workspaceId", "m1"),
                ("sessionId", "s1"),
                ("taskId", "r1"),
                ("stepId", "r1-1"),
            ] {
                assert_eq!(read[member], wanted, "{text}");
            }
            assert_eq!(read["ts"], 1_795_000_000_123_u64);
            let level = match name {
                "session_failed" => "error",
                "approval_timeout" | "policy_expired" | "step_limit_approaching" => "warning",
                _ => "info",
            };
            assert_eq!(read["level"], level, "{name}");
        }
    }

    #[test]
    fn e13_of_a_prompt_a_line_has_the_hash_and_the_length() {
        let of = |event| {
            let text = line(&Record { at: 0, ids: Ids::default(), event }, 0, clean);
            serde_json::from_str::<Value>(&text).unwrap()["payload"].clone()
        };
        let told = of(Event::TextChunk { text: "abc".into() });
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(told, json!({ "text": { "bytes": 3, "sha256": sha256 } }));
        let asked = of(Event::ApprovalRequested(crate::event::tests::approval()));
        assert_eq!(asked["details"]["arguments"]["bytes"], 12);
        assert_eq!((&asked["riskLevel"], &asked["actionSummary"]["bytes"]), (&json!("medium"), &json!(23)));
        assert!(!asked.to_string().contains("path"), "{asked}");
    }
}

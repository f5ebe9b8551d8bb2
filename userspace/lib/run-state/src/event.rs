//! What telemetry and clients are told of a session.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use capos_schema::authority::Risk;
use serde_json::{Map, Value, json};

/// Nanoseconds of a millisecond, the unit of latencies in JSON.
const MILLISECOND: u64 = 1_000_000;

/// A question to the person about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Names the question; an answer to any other id has no effect. It is the digest of what the answer is bound to.
    pub id: String,
    /// What kind of act it is.
    pub title: String,
    /// The tool and its arguments, in canonical JSON.
    pub summary: String,
    /// How much harm the call could do.
    pub risk: Risk,
    /// Name of the tool.
    pub tool: String,
    /// Its category.
    pub category: String,
    /// Its arguments, in canonical JSON.
    pub arguments: String,
    /// The call's id.
    pub call_id: String,
    /// First time at which it is a denial if nobody has answered, in nanoseconds since boot.
    pub expires: u64,
}

impl Approval {
    /// The request as clients read it: `approvalId`, `title`, `actionSummary`, `riskLevel` and `details`.
    #[must_use]
    pub fn json(&self) -> Map<String, Value> {
        let details = json!({
            "toolName": self.tool,
            "category": self.category,
            "arguments": self.arguments,
            "callId": self.call_id,
            "expiresAtMs": self.expires / MILLISECOND,
        });
        let members = [
            ("approvalId", json!(self.id)),
            ("title", json!(self.title)),
            ("actionSummary", json!(self.summary)),
            ("riskLevel", json!(self.risk.name())),
            ("details", details),
        ];
        members.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// What happened. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session can begin runs.
    SessionStarted {
        /// Where it runs: `console` or `client`.
        environment: String,
    },
    /// The session was ended, and all of its runs before it.
    SessionCompleted {
        /// How many runs it had.
        runs: u32,
        /// Tokens that models used in it.
        tokens: u64,
        /// How long it lasted.
        duration: u64,
    },
    /// The session cannot continue.
    SessionFailed {
        /// Why.
        reason: String,
    },
    /// A step begins: the model is asked next.
    StepStarted {
        /// Which step of the run it is, counted from 1.
        count: u32,
    },
    /// All calls of a step have ended, and their results are saved.
    StepCompleted {
        /// Which step of the run it was.
        count: u32,
    },
    /// Four fifths of the run's steps are used.
    StepLimitApproaching {
        /// Steps so far.
        count: u32,
        /// Steps that the run may have.
        most: u32,
    },
    /// A piece of the model's text.
    TextChunk {
        /// The piece.
        text: String,
    },
    /// The model is asked.
    ModelRequestStarted {
        /// Its id.
        model: String,
        /// About as many tokens as the request has.
        input_tokens: u64,
    },
    /// The model's answer is whole.
    ModelRequestCompleted {
        /// Its id.
        model: String,
        /// Tokens of the request, as the model's worker counts.
        input_tokens: u64,
        /// Tokens of the answer.
        output_tokens: u64,
        /// Time from the request to the end of the answer.
        latency: u64,
    },
    /// The model proposes a call.
    ToolRequested {
        /// The call's id.
        call_id: String,
        /// What the model calls the tool.
        tool: String,
        /// The category of the tool, which decides what the call needs; nothing if there is no such tool.
        category: String,
        /// The arguments, as the model wrote them.
        arguments: String,
    },
    /// A call that was allowed begins.
    ToolStarted {
        /// The call's id.
        call_id: String,
    },
    /// A call has its outcome.
    ToolCompleted {
        /// The call's id.
        call_id: String,
        /// What the model calls the tool.
        tool: String,
        /// The outcome's name.
        status: String,
        /// Time from the proposal to the outcome.
        latency: u64,
        /// What the model sees of it.
        text: String,
    },
    /// The person is asked.
    ApprovalRequested(Rc<Approval>),
    /// The question is answered, or ended without an answer.
    ApprovalResolved {
        /// Which question.
        approval_id: String,
        /// `approved` or `denied`.
        decision: String,
        /// Time from the question to its end.
        latency: u64,
    },
    /// Nobody answered in time, which is a denial.
    ApprovalTimeout {
        /// Which question.
        approval_id: String,
    },
    /// The policy of the session is no longer valid.
    PolicyExpired,
}

impl Event {
    /// The names of all events.
    pub const NAMES: [&'static str; 16] = [
        "session_started",
        "session_completed",
        "session_failed",
        "step_started",
        "step_completed",
        "step_limit_approaching",
        "text_chunk",
        "llm_request_started",
        "llm_request_completed",
        "tool_requested",
        "tool_started",
        "tool_completed",
        "approval_requested",
        "approval_resolved",
        "approval_timeout",
        "policy_expired",
    ];

    /// The event's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionStarted { .. } => "session_started",
            Self::SessionCompleted { .. } => "session_completed",
            Self::SessionFailed { .. } => "session_failed",
            Self::StepStarted { .. } => "step_started",
            Self::StepCompleted { .. } => "step_completed",
            Self::StepLimitApproaching { .. } => "step_limit_approaching",
            Self::TextChunk { .. } => "text_chunk",
            Self::ModelRequestStarted { .. } => "llm_request_started",
            Self::ModelRequestCompleted { .. } => "llm_request_completed",
            Self::ToolRequested { .. } => "tool_requested",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolCompleted { .. } => "tool_completed",
            Self::ApprovalRequested(_) => "approval_requested",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::ApprovalTimeout { .. } => "approval_timeout",
            Self::PolicyExpired => "policy_expired",
        }
    }

    /// Its payload as clients read it. `step_id` is the record's.
    #[must_use]
    pub fn payload(&self, step_id: &str) -> Map<String, Value> {
        let members: Vec<(&str, Value)> = match self {
            Self::SessionStarted { environment } => Vec::from([("executionEnvironment", json!(environment))]),
            Self::SessionCompleted { runs, tokens, duration } => Vec::from([
                ("taskCount", json!(runs)),
                ("totalTokens", json!(tokens)),
                ("durationMs", json!(duration / MILLISECOND)),
            ]),
            Self::SessionFailed { reason } => Vec::from([("reason", json!(reason))]),
            Self::StepStarted { count } | Self::StepCompleted { count } => {
                Vec::from([("stepId", json!(step_id)), ("stepCount", json!(count))])
            }
            Self::StepLimitApproaching { count, most } => {
                Vec::from([("stepCount", json!(count)), ("maxSteps", json!(most))])
            }
            Self::TextChunk { text } => Vec::from([("text", json!(text))]),
            Self::ModelRequestStarted { model, input_tokens } => {
                Vec::from([("model", json!(model)), ("estimatedInputTokens", json!(input_tokens))])
            }
            Self::ModelRequestCompleted { model, input_tokens, output_tokens, latency } => Vec::from([
                ("model", json!(model)),
                ("inputTokens", json!(input_tokens)),
                ("outputTokens", json!(output_tokens)),
                ("latencyMs", json!(latency / MILLISECOND)),
            ]),
            Self::ToolRequested { call_id, tool, category, arguments } => Vec::from([
                ("callId", json!(call_id)),
                ("toolName", json!(tool)),
                // What a call of the tool may do is its category here.
                ("capability", json!(category)),
                ("category", json!(category)),
                ("arguments", json!(arguments)),
            ]),
            Self::ToolStarted { call_id } => Vec::from([("callId", json!(call_id))]),
            Self::ToolCompleted { call_id, tool, status, latency, text } => Vec::from([
                ("callId", json!(call_id)),
                ("toolName", json!(tool)),
                ("status", json!(status)),
                ("latencyMs", json!(latency / MILLISECOND)),
                ("text", json!(text)),
            ]),
            Self::ApprovalRequested(approval) => return approval.json(),
            Self::ApprovalResolved { approval_id, decision, latency } => Vec::from([
                ("approvalId", json!(approval_id)),
                ("decision", json!(decision)),
                ("latencyMs", json!(latency / MILLISECOND)),
            ]),
            Self::ApprovalTimeout { approval_id } => Vec::from([("approvalId", json!(approval_id))]),
            Self::PolicyExpired => Vec::new(),
        };
        members.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// Bytes of its texts.
    fn texts(&self) -> usize {
        let texts: [&str; 4] = match self {
            Self::SessionStarted { environment: text }
            | Self::SessionFailed { reason: text }
            | Self::TextChunk { text }
            | Self::ApprovalTimeout { approval_id: text }
            | Self::ToolStarted { call_id: text }
            | Self::ModelRequestStarted { model: text, .. }
            | Self::ModelRequestCompleted { model: text, .. } => [text, "", "", ""],
            Self::ToolRequested { call_id, tool, category, arguments } => [call_id, tool, category, arguments],
            Self::ToolCompleted { call_id, tool, status, text, .. } => [call_id, tool, status, text],
            // The summary holds the arguments again.
            Self::ApprovalRequested(approval) => {
                [&approval.title, &approval.summary, &approval.arguments, &approval.tool]
            }
            Self::ApprovalResolved { approval_id, decision, .. } => [approval_id, decision, "", ""],
            Self::SessionCompleted { .. }
            | Self::StepStarted { .. }
            | Self::StepCompleted { .. }
            | Self::StepLimitApproaching { .. }
            | Self::PolicyExpired => [""; 4],
        };
        texts.into_iter().map(str::len).fold(0, usize::saturating_add)
    }
}

/// What an event belongs to: the machine, its session, the session's run, and the run's step. What does not apply is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The machine (`workspaceId`).
    pub machine: Rc<str>,
    /// The session (`sessionId`).
    pub session: Rc<str>,
    /// The run (`taskId`).
    pub run: Rc<str>,
    /// The step (`stepId`).
    pub step: Rc<str>,
}

impl Ids {
    /// The chain as clients and logs read it.
    #[must_use]
    pub fn members(&self) -> [(&'static str, &str); 4] {
        [("workspaceId", &self.machine), ("sessionId", &self.session), ("taskId", &self.run), ("stepId", &self.step)]
    }
}

/// An event with its time and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since boot.
    pub at: u64,
    /// What it belongs to.
    pub ids: Ids,
    /// What happened.
    pub event: Event,
}

impl Record {
    /// About the bytes that it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        // The ids are shared by the records of a step.
        core::mem::size_of::<Self>().saturating_add(self.event.texts())
    }
}

/// Takes events. It never waits: what it cannot take at once it drops.
pub trait Sink {
    /// Takes one.
    fn emit(&self, record: Record);
}

/// Takes events and keeps none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn emit(&self, _record: Record) {}
}

/// Each of several sinks takes every event.
impl Sink for Vec<Rc<dyn Sink>> {
    fn emit(&self, record: Record) {
        for sink in self {
            sink.emit(record.clone());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn e08_each_of_several_sinks_takes_each_event() {
        let buffers = [0, 1].map(|_| Rc::new(crate::Buffer::default()));
        let sinks: Vec<Rc<dyn Sink>> = buffers.iter().map(|buffer| buffer.clone() as Rc<dyn Sink>).collect();
        sinks.emit(Record { at: 7, ids: Ids::default(), event: Event::StepStarted { count: 1 } });
        assert_eq!(buffers.map(|buffer| buffer.pop().map(|record| record.at)), [Some(7); 2]);
    }

    pub fn approval() -> Rc<Approval> {
        Rc::new(Approval {
            id: "a1".into(),
            title: "Change files".into(),
            summary: "write_file {\"path\":\"a\"}".into(),
            risk: Risk::Medium,
            tool: "write_file".into(),
            category: "mutating".into(),
            arguments: "{\"path\":\"a\"}".into(),
            call_id: "c1".into(),
            expires: 300_000 * MILLISECOND,
        })
    }

    /// One of each.
    pub fn all() -> Vec<Event> {
        let text = String::from;
        vec![
            Event::SessionStarted { environment: text("console") },
            Event::SessionCompleted { runs: 2, tokens: 12_540, duration: 61_000 * MILLISECOND },
            Event::SessionFailed { reason: text("the broker is gone, password=hunter2") },
            Event::StepStarted { count: 1 },
            Event::StepCompleted { count: 1 },
            Event::StepLimitApproaching { count: 4, most: 5 },
            Event::TextChunk { text: text("my password=hunter2") },
            Event::ModelRequestStarted { model: text("m"), input_tokens: 150 },
            Event::ModelRequestCompleted {
                model: text("m"),
                input_tokens: 151,
                output_tokens: 7,
                latency: 9 * MILLISECOND,
            },
            Event::ToolRequested {
                call_id: text("c1"),
                tool: text("write_file"),
                category: text("mutating"),
                arguments: text("{\"path\":\"a\",\"text\":\"hunter2\"}"),
            },
            Event::ToolStarted { call_id: text("c1") },
            Event::ToolCompleted {
                call_id: text("c1"),
                tool: text("write_file"),
                status: text("ok"),
                latency: MILLISECOND,
                text: text("hunter2"),
            },
            Event::ApprovalRequested(approval()),
            Event::ApprovalResolved { approval_id: text("a1"), decision: text("denied"), latency: 3 * MILLISECOND },
            Event::ApprovalTimeout { approval_id: text("a1") },
            Event::PolicyExpired,
        ]
    }

    #[test]
    fn e08_each_event_has_its_name_and_its_payload() {
        let found: Vec<(&str, String)> =
            all().iter().map(|event| (event.name(), Value::Object(event.payload("s1")).to_string())).collect();
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, Event::NAMES);
        let wanted = [
            r#"{"executionEnvironment":"console"}"#,
            r#"{"durationMs":61000,"taskCount":2,"totalTokens":12540}"#,
            r#"{"reason":"the broker is gone, password=hunter2"}"#,
            r#"{"stepCount":1,"stepId":"s1"}"#,
            r#"{"stepCount":1,"stepId":"s1"}"#,
            r#"{"maxSteps":5,"stepCount":4}"#,
            r#"{"text":"my password=hunter2"}"#,
            r#"{"estimatedInputTokens":150,"model":"m"}"#,
            r#"{"inputTokens":151,"latencyMs":9,"model":"m","outputTokens":7}"#,
            r#"{"arguments":"{\"path\":\"a\",\"text\":\"hunter2\"}","callId":"c1","capability":"mutating","category":"mutating","toolName":"write_file"}"#,
            r#"{"callId":"c1"}"#,
            r#"{"callId":"c1","latencyMs":1,"status":"ok","text":"hunter2","toolName":"write_file"}"#,
        ];
        for ((name, payload), wanted) in found.iter().zip(wanted) {
            // The order of members depends on what else is built.
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(parsed(payload), parsed(wanted), "{name}");
        }
    }

    #[test]
    fn d21_a_request_for_approval_has_id_title_summary_risk_and_details() {
        let found = Value::Object(approval().json());
        let wanted = json!({
            "approvalId": "a1",
            "title": "Change files",
            "actionSummary": "write_file {\"path\":\"a\"}",
            "riskLevel": "medium",
            "details": {
                "toolName": "write_file",
                "category": "mutating",
                "arguments": "{\"path\":\"a\"}",
                "callId": "c1",
                "expiresAtMs": 300_000,
            },
        });
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_record_counts_its_texts() {
        let size = |event| Record { at: 0, ids: Ids::default(), event }.size();
        let empty = size(Event::PolicyExpired);
        assert_eq!(size(Event::TextChunk { text: "x".repeat(1000) }), empty + 1000);
        for event in all() {
            assert!(size(event.clone()) >= empty, "{event:?}");
        }
    }
}

//! What the agent host tells the client unasked.

use alloc::string::String;
use alloc::vec::Vec;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::request::{Decision, Empty, Reach};

/// A `SessionEvent` notification: what happened, in what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// Where it happened.
    pub chain: Chain,
    /// What happened.
    pub event: Event,
}

/// The ids of what an event happened in; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The user's home.
    pub workspace_id: String,
    /// The session.
    pub session_id: String,
    /// The task.
    pub task_id: String,
    /// The step: a request to the model and the calls that it proposes.
    pub step_id: String,
}

/// Lists the events once: the variant, its name in a line, its payload, what it says.
macro_rules! events {
    ($($variant:ident $name:literal $payload:ident $doc:literal;)*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event {
            $(#[doc = $doc] $variant($payload),)*
        }

        impl Event {
            /// All names, in order.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Its name in a line.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            fn payload<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $(Self::$variant(payload) => map.serialize_entry("payload", payload),)*
                }
            }

            /// Reads the payload of an event from the line that it came in; none for a name that is not known.
            pub(crate) fn read(name: &str, line: &[u8]) -> Option<Result<Self, serde_json::Error>> {
                match name {
                    $($name => Some(payload(line).map(Self::$variant)),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    SessionStarted "session_started" SessionStarted "The session began.";
    SessionCompleted "session_completed" SessionCompleted "The session was shut down.";
    SessionFailed "session_failed" Failed "The session ended with an error.";
    TaskCompleted "task_completed" TaskCompleted "The task ended, in whatever way. No event of it follows.";
    StepStarted "step_started" Step "The model is about to be asked.";
    StepCompleted "step_completed" Step "All calls of the step have their results.";
    StepLimitApproaching "step_limit_approaching" StepLimit "Four fifths of the task's steps are used.";
    TextChunk "text_chunk" TextChunk "A piece of the model's text.";
    LlmRequestStarted "llm_request_started" LlmStarted "The model is asked.";
    LlmRequestCompleted "llm_request_completed" LlmCompleted "The model has answered.";
    ToolRequested "tool_requested" ToolRequested "The model proposes a call. It may be rejected yet.";
    ToolStarted "tool_started" ToolStarted "A call that was allowed begins.";
    ToolCompleted "tool_completed" ToolCompleted "A call has its outcome.";
    ApprovalRequested "approval_requested" ApprovalRequest "A person has to answer.";
    ApprovalResolved "approval_resolved" ApprovalResolved "A question was answered, or nobody needs to any more.";
    ApprovalTimeout "approval_timeout" ApprovalTimeout "Nobody answered in time: that is a no.";
    PolicyExpired "policy_expired" Empty "The session's policy expired: nothing runs until it is resumed.";
    Notice "notice" Notice "Something the person should know.";
}

/// The payload, wherever in the line it stands.
fn payload<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, serde_json::Error> {
    #[derive(Deserialize)]
    struct Params<T> {
        payload: T,
    }
    serde_json::from_slice::<crate::envelope::WithParams<Params<T>>>(line).map(|line| line.params.payload)
}

impl Serialize for SessionEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("eventType", self.event.name())?;
        let Chain { workspace_id, session_id, task_id, step_id } = &self.chain;
        let ids = [("workspaceId", workspace_id), ("sessionId", session_id), ("taskId", task_id), ("stepId", step_id)];
        for (name, id) in ids.into_iter().filter(|(_, id)| !id.is_empty()) {
            map.serialize_entry(name, id)?;
        }
        self.event.payload(&mut map)?;
        map.end()
    }
}

/// The session began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStarted {
    /// Where it is used: `client`, and what the client calls itself.
    #[serde(default)]
    pub execution_environment: String,
}

/// The session was shut down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionCompleted {
    /// Tasks that it had.
    pub task_count: u32,
    /// Tokens that it used.
    pub total_tokens: u64,
    /// How long it was.
    pub duration_ms: u64,
}

/// Something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Why, and what to do.
    pub reason: String,
}

/// A task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompleted {
    /// What ended it.
    pub cause: Cause,
    /// The same for a person, with what to do; empty if there is nothing to say.
    #[serde(default)]
    pub message: String,
}

/// What ended a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The model has nothing more to do.
    Answered,
    /// The client cancelled it, or the person did at the console.
    Cancelled,
    /// The model was asked as often as a task allows.
    Steps,
    /// Tokens are used up.
    Tokens,
    /// Another limit of task or session was reached: time, requests, records of the audit log, a budget.
    Limit,
    /// The model does not answer, and the task is paused.
    Away,
    /// The model's own content filter stopped the answer (`LLM_GUARDRAIL_BLOCKED` in other hosts).
    LlmGuardrailBlocked,
    /// The model or the policy rejects the conversation.
    Rejected,
    /// Something failed, or a later host's cause.
    #[serde(other)]
    Failed,
}

/// A step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// Its number in the task, from 1.
    pub step_count: u32,
}

/// Most steps are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepLimit {
    /// Steps so far.
    pub step_count: u32,
    /// Steps that the task may have.
    pub max_steps: u32,
}

/// A piece of the model's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextChunk {
    /// The piece.
    pub text: String,
    /// Bytes of text before it that the client read too slowly to be sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The model is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LlmStarted {
    /// The model.
    pub model: String,
    /// Tokens of the request, about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_input_tokens: Option<u64>,
}

/// The model has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LlmCompleted {
    /// The model.
    pub model: String,
    /// Tokens that it read.
    pub input_tokens: u64,
    /// Tokens that it wrote.
    pub output_tokens: u64,
    /// How long it took.
    pub latency_ms: u64,
}

/// The model proposes a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequested {
    /// The call.
    pub call_id: String,
    /// What the model calls the tool.
    pub tool_name: String,
    /// The capability that it calls, by the name in the session.
    #[serde(default)]
    pub capability: String,
    /// What the tool does, as in [`Call`](crate::result::Call).
    #[serde(default)]
    pub category: String,
    /// JSON, or what the model takes for it.
    #[serde(default)]
    pub arguments: String,
}

/// A call begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStarted {
    /// The call.
    pub call_id: String,
}

/// A call has its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCompleted {
    /// The call.
    pub call_id: String,
    /// What the model calls the tool.
    pub tool_name: String,
    /// The outcome's name; `ok` if it was done.
    pub status: String,
    /// How long it took.
    #[serde(default)]
    pub latency_ms: u64,
    /// What the model sees of it.
    #[serde(default)]
    pub text: String,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Names it in `ApproveAction` and `GetPatchPreview`.
    pub approval_id: String,
    /// What is asked about.
    #[serde(default)]
    pub kind: Kind,
    /// What the question is about, in a few words.
    pub title: String,
    /// What will happen after a yes.
    pub action_summary: String,
    /// What may come of it.
    pub risk_level: Risk,
    /// How far a yes may reach.
    #[serde(default)]
    pub reaches: Vec<Reach>,
    /// When it times out, from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// The call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Whether a call may run.
    #[default]
    ToolCall,
    /// Whether a task may go on beyond a limit, or a later host's question.
    #[serde(other)]
    GoOn,
}

/// What may come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Risk {
    Low,
    Medium,
    #[serde(other)]
    High,
}

/// The call that a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The capability that it calls.
    #[serde(default)]
    pub capability: String,
    /// What the tool does, as in [`Call`](crate::result::Call).
    #[serde(default)]
    pub category: String,
    /// The tool's description.
    #[serde(default)]
    pub description: String,
    /// All arguments that will be used, as canonical JSON.
    pub arguments: String,
    /// What the person has to know besides: what the broker says, what the model has read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A question was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolved {
    /// The question.
    pub approval_id: String,
    /// The answer.
    pub decision: Decision,
    /// Why nobody's answer was waited for: the task was cancelled, the policy expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it was open.
    #[serde(default)]
    pub latency_ms: u64,
}

/// Nobody answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalTimeout {
    /// The question.
    pub approval_id: String,
}

/// Something the person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The text.
    pub text: String,
}

//! What the agent host answers.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::event::ApprovalRequest;
use crate::request::{ClientInfo, Empty};

/// The answer to a request that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// To `CreateSession`.
    Created(Created),
    /// To `StartTask` and `ContinueTask`.
    Started(Started),
    /// To `ResumeSession` and `GetMessages`.
    Messages(Messages),
    /// To `GetSessionState`.
    State(SessionState),
    /// To `GetPatchPreview`.
    Patch(PatchPreview),
    /// To `ListSessions`.
    Conversations(Conversations),
    /// To `CancelTask`, `ApproveAction` and `Shutdown`.
    Nothing(Empty),
}

/// A session that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    /// The session.
    pub session_id: String,
    /// The user's home, as events name it: a digest of the user's name.
    #[serde(default)]
    pub workspace_id: String,
    /// Whose session it is.
    pub principal: String,
    /// The conversation that its tasks continue. `ResumeSession` takes it later.
    pub conversation_id: String,
    /// The model.
    #[serde(default)]
    pub model: String,
    /// The host's version of the protocol.
    pub protocol_version: u32,
    /// The host.
    #[serde(default)]
    pub agent_info: ClientInfo,
}

/// A task that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The task.
    pub task_id: String,
}

/// Messages of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// The conversation.
    pub conversation_id: String,
    /// As many as a line has room for.
    pub messages: Vec<Message>,
    /// The number of the first that it had no room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// Its last task was cut off or is paused: `ContinueTask` continues it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub can_continue: bool,
}

/// A message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// Its text: what was said, or a call's result as the model saw it.
    #[serde(default)]
    pub text: String,
    /// Whether the text was cut to have room in a line.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cut: bool,
    /// Calls that the model proposed in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The call that it is the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The outcome of that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// Whose message it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person's.
    User,
    /// The model's.
    Assistant,
    /// A tool's.
    Tool,
    /// The system's, or one of a later host.
    #[default]
    #[serde(other)]
    System,
}

/// A call that the model proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool_name: String,
    /// What the tool does, by the schema's name: `readOnly`, `mutating`, `destructive`, `outbound`, `admin`; empty if it is
    /// not known.
    #[serde(default)]
    pub category: String,
    /// JSON, or what the model took for it.
    #[serde(default)]
    pub arguments: String,
}

/// How session and task stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// The session.
    pub session_status: SessionStatus,
    /// Its id, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The task that runs, or ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskState>,
    /// Questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_approvals: Vec<ApprovalRequest>,
}

/// States of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionStatus {
    /// There is none.
    #[serde(rename = "SESSION_NONE")]
    None,
    /// It begins.
    #[serde(rename = "SESSION_CREATED")]
    Created,
    /// It takes tasks.
    #[serde(rename = "SESSION_RUNNING")]
    Running,
    /// It waits for something.
    #[serde(rename = "SESSION_PAUSED")]
    Paused,
    /// It was shut down.
    #[serde(rename = "SESSION_COMPLETED")]
    Completed,
    /// It failed.
    #[serde(rename = "SESSION_FAILED")]
    Failed,
    /// It was shut down while a task ran.
    #[serde(rename = "SESSION_CANCELLED")]
    Cancelled,
}

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    /// The task.
    pub task_id: String,
    /// Its state.
    pub status: TaskStatus,
    /// How often the model was asked.
    pub step_count: u32,
    /// How often it may be.
    pub max_steps: u32,
}

/// States of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum TaskStatus {
    TaskRunning,
    WaitingForLlm,
    ProcessingResponse,
    CheckingPolicy,
    WaitingForApproval,
    ExecutingTools,
    PausedForApproval,
    PausedForEvent,
    TaskCompleted,
    TaskFailed,
    TaskCancelled,
}

/// What a call that waits for approval would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchPreview {
    /// Files; none if it is not known what the call changes.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// What would change in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The file, as the call names it.
    pub path: String,
    /// What it holds; absent if there is no such file, or `omitted` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// Why `oldText` is absent although there is a file: it is too long, or no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<String>,
    /// What it would hold.
    pub new_text: String,
    /// SHA-256 of that in hexadecimal: of the bytes that an approved call writes.
    pub new_sha256: String,
}

/// Saved conversations, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversations {
    /// As many as were asked for and a line has room for.
    #[serde(default)]
    pub conversations: Vec<Saved>,
    /// What `after` is for those that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A saved conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    /// The conversation.
    pub conversation_id: String,
    /// What it is called.
    #[serde(default)]
    pub title: String,
    /// When it was changed last, in seconds since 1970; 0 if the machine does not know the time.
    #[serde(default)]
    pub updated_at: u64,
    /// How many messages it has.
    #[serde(default)]
    pub message_count: u32,
}

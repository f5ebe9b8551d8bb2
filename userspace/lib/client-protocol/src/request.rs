//! What a client asks for.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::limits::{self, text};
use crate::secret::Secret;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Logs in and begins the session.
    CreateSession(CreateSession),
    /// Gives the agent a prompt. The answer comes at once, the work is told in events.
    StartTask(StartTask),
    /// Continues the last task of the conversation.
    ContinueTask(Empty),
    /// Stops the running task.
    CancelTask(CancelTask),
    /// Continues a saved conversation.
    ResumeSession(ResumeSession),
    /// Reads on in the conversation that was resumed.
    GetMessages(GetMessages),
    /// Asks how session and task stand.
    GetSessionState(Empty),
    /// Asks what a call that waits for approval would change.
    GetPatchPreview(GetPatchPreview),
    /// Answers a question.
    ApproveAction(ApproveAction),
    /// Lists the saved conversations.
    ListSessions(ListSessions),
    /// Ends the session.
    Shutdown(Empty),
}

/// No parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Parameters of `CreateSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateSession {
    /// The version of the protocol, [`VERSION`](crate::VERSION).
    pub protocol_version: u32,
    /// The client.
    pub client_info: ClientInfo,
    /// The user; absent where the machine knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The user's passphrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Secret>,
}

/// A program and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// What it is called.
    pub name: String,
    /// Which version it is.
    #[serde(default)]
    pub version: String,
}

/// Parameters of `StartTask`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTask {
    /// What the person wants.
    pub prompt: String,
}

/// Parameters of `CancelTask`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelTask {
    /// The task; absent: the one that runs. One that ended already is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

/// Parameters of `ResumeSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeSession {
    /// The conversation.
    pub conversation_id: String,
}

/// Parameters of `GetMessages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetMessages {
    /// The first message's number: `next` of the answer before.
    pub from: u32,
}

/// Parameters of `GetPatchPreview`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPatchPreview {
    /// The approval that is open.
    pub approval_id: String,
}

/// Parameters of `ApproveAction`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApproveAction {
    /// The approval that is open.
    pub approval_id: String,
    /// The person's word.
    pub decision: Decision,
    /// How far a yes reaches.
    #[serde(default)]
    pub reach: Reach,
    /// What the person says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A person's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes.
    Approved,
    /// No.
    Denied,
}

/// How far a yes reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// This call.
    #[default]
    Once,
    /// The same call again in this turn.
    Turn,
    /// The same call again in this session.
    Session,
}

/// Parameters of `ListSessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSessions {
    /// How many at most; absent: [`CONVERSATIONS`](limits::CONVERSATIONS), which is also the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Those after this one: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Request {
    /// The method's name.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::CreateSession(_) => "CreateSession",
            Self::StartTask(_) => "StartTask",
            Self::ContinueTask(_) => "ContinueTask",
            Self::CancelTask(_) => "CancelTask",
            Self::ResumeSession(_) => "ResumeSession",
            Self::GetMessages(_) => "GetMessages",
            Self::GetSessionState(_) => "GetSessionState",
            Self::GetPatchPreview(_) => "GetPatchPreview",
            Self::ApproveAction(_) => "ApproveAction",
            Self::ListSessions(_) => "ListSessions",
            Self::Shutdown(_) => "Shutdown",
        }
    }

    /// Checks the lengths of all texts.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::CreateSession(params) => {
                text("clientInfo.name", &params.client_info.name, limits::NAME)?;
                text("clientInfo.version", &params.client_info.version, limits::NAME)?;
                text("user", params.user.as_deref().unwrap_or_default(), limits::NAME)?;
                let passphrase = params.passphrase.as_ref().map_or("", Secret::reveal);
                text("passphrase", passphrase, limits::PASSPHRASE)
            }
            Self::StartTask(params) => text("prompt", &params.prompt, limits::PROMPT),
            Self::CancelTask(params) => text("taskId", params.task_id.as_deref().unwrap_or_default(), limits::ID),
            Self::ResumeSession(params) => text("conversationId", &params.conversation_id, limits::ID),
            Self::GetPatchPreview(params) => text("approvalId", &params.approval_id, limits::ID),
            Self::ApproveAction(params) => {
                text("approvalId", &params.approval_id, limits::ID)?;
                text("reason", params.reason.as_deref().unwrap_or_default(), limits::REASON)
            }
            Self::ListSessions(params) => text("after", params.after.as_deref().unwrap_or_default(), limits::ID),
            Self::ContinueTask(_) | Self::GetMessages(_) | Self::GetSessionState(_) | Self::Shutdown(_) => Ok(()),
        }
    }
}

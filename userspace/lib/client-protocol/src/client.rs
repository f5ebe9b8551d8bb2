//! The client's side: requests out, answers and events in.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::envelope::{Member, RawId, WithParams, WithResult, envelope, shortened};
use crate::event::{Chain, Event, SessionEvent};
use crate::request::Request;
use crate::rpc::{Id, RpcError, TooLong, line, why};

/// What the agent host sent.
#[derive(Clone, Debug)]
pub enum FromHost<'a> {
    /// The answer to a request.
    Answer(Answer<'a>),
    /// An event.
    Event(Box<SessionEvent>),
    /// A notification or event of a later host, by name: leave it alone.
    Unknown(String),
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The request's id; none: the host could not read it.
    pub id: Option<Id>,
    line: &'a [u8],
    error: Option<RpcError>,
}

impl Answer<'_> {
    /// Reads the result as what the method answers with, one of [`result`](crate::result).
    ///
    /// # Errors
    /// The host's, or the result is no such thing.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        if let Some(error) = &self.error {
            return Err(AnswerError::Host(error.clone()));
        }
        let result = serde_json::from_slice::<WithResult<T>>(self.line);
        result.map(|line| line.result).map_err(|error| AnswerError::Malformed(Malformed(why(&error))))
    }

    /// The host's error, if it is one.
    #[must_use]
    pub fn error(&self) -> Option<&RpcError> {
        self.error.as_ref()
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The host did not do it.
    Host(RpcError),
    /// The host's answer is not the method's.
    Malformed(Malformed),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => error.fmt(formatter),
            Self::Malformed(error) => error.fmt(formatter),
        }
    }
}

impl core::error::Error for AnswerError {}

/// Why a line is nothing that an agent host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl core::error::Error for Malformed {}

/// Reads a line of the agent host.
///
/// # Errors
/// It is neither an answer nor a notification.
pub fn decode_from_host(line: &[u8]) -> Result<FromHost<'_>, Malformed> {
    let envelope = envelope(line).map_err(|error| Malformed(error.message))?;
    match (&envelope.method, &envelope.id) {
        (Some(method), RawId::Absent) if method == "SessionEvent" => event(line),
        (Some(method), RawId::Absent) => Ok(FromHost::Unknown(shortened(method))),
        (Some(method), _) => Err(Malformed(format!("the host sends a request, {}", shortened(method)))),
        (None, id) => {
            let id = match id {
                RawId::Id(id) => Some(id.clone()),
                RawId::Null if envelope.error.is_some() => None,
                _ => return Err(Malformed("the answer has no id".to_string())),
            };
            if envelope.error.is_some() == !matches!(envelope.result, Member::Absent) {
                return Err(Malformed("the answer has to have either result or error".to_string()));
            }
            Ok(FromHost::Answer(Answer { id, line, error: envelope.error }))
        }
    }
}

fn event(line: &[u8]) -> Result<FromHost<'_>, Malformed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        event_type: String,
        #[serde(default)]
        workspace_id: String,
        #[serde(default)]
        session_id: String,
        #[serde(default)]
        task_id: String,
        #[serde(default)]
        step_id: String,
    }
    let malformed = |error: &serde_json::Error| Malformed(format!("the event cannot be read: {}", why(error)));
    let head: WithParams<Head> = serde_json::from_slice(line).map_err(|error| malformed(&error))?;
    let Head { event_type, workspace_id, session_id, task_id, step_id } = head.params;
    let chain = Chain { workspace_id, session_id, task_id, step_id };
    match Event::read(&event_type, line) {
        None => Ok(FromHost::Unknown(shortened(&event_type))),
        Some(Ok(event)) => Ok(FromHost::Event(Box::new(SessionEvent { chain, event }))),
        Some(Err(error)) => Err(malformed(&error)),
    }
}

#[derive(Serialize)]
struct RequestLine<'a, T> {
    jsonrpc: &'static str,
    id: &'a Id,
    method: &'static str,
    params: T,
}

/// The line of a request.
///
/// # Errors
/// It has no room in a line. Ask for less.
pub fn encode_request(id: &Id, request: &Request) -> Result<String, TooLong> {
    fn of<T: Serialize>(id: &Id, request: &Request, params: T) -> Result<String, TooLong> {
        line(&RequestLine { jsonrpc: "2.0", id, method: request.method(), params })
    }
    match request {
        Request::CreateSession(params) => of(id, request, params),
        Request::StartTask(params) => of(id, request, params),
        Request::CancelTask(params) => of(id, request, params),
        Request::ResumeSession(params) => of(id, request, params),
        Request::GetMessages(params) => of(id, request, params),
        Request::GetPatchPreview(params) => of(id, request, params),
        Request::ApproveAction(params) => of(id, request, params),
        Request::ListSessions(params) => of(id, request, params),
        Request::ContinueTask(params) | Request::GetSessionState(params) | Request::Shutdown(params) => {
            of(id, request, params)
        }
    }
}

//! The agent host's side: requests in, answers and events out.

use alloc::format;
use alloc::string::String;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::envelope::{Member, RawId, WithParams, envelope, shortened};
use crate::event::SessionEvent;
use crate::request::{CancelTask, Empty, ListSessions, Request};
use crate::result::Done;
use crate::rpc::{Id, RpcError, TooLong, code, line, why};

/// A request that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its id; none: the client wants no answer.
    pub id: Option<Id>,
    /// What it asks for.
    pub request: Request,
}

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The id to answer with: the request's, or none where it could not be read.
    pub id: Option<Id>,
    /// What is wrong.
    pub error: RpcError,
    /// Whether the client gets an answer: not to a notification.
    pub is_answered: bool,
}

/// Reads a line of the client.
///
/// # Errors
/// The line is no request of this protocol. Answer with [`encode_error`] if `is_answered`.
pub fn decode_request(line: &[u8]) -> Result<Incoming, Rejected> {
    let invalid =
        |message: &str| Rejected { id: None, error: RpcError::new(code::INVALID_REQUEST, message), is_answered: true };
    let envelope = envelope(line).map_err(|error| Rejected { id: None, error, is_answered: true })?;
    let id = match envelope.id {
        RawId::Absent => None,
        RawId::Id(id) => Some(id),
        RawId::Null => return Err(invalid("the id is null: use a number or a text")),
        RawId::Bad => return Err(invalid("the id is neither a whole number nor a text of at most 128 bytes")),
    };
    let rejected = |error: RpcError| Rejected { is_answered: id.is_some(), id: id.clone(), error };
    let Some(method) = &envelope.method else {
        return Err(Rejected { id, ..invalid("the member method is missing") });
    };
    let has_params = match envelope.params {
        Member::Object => true,
        Member::Absent => false,
        Member::Null | Member::Other => {
            let message = format!("the parameters of {} are no object: name each", shortened(method));
            return Err(rejected(RpcError::new(code::INVALID_PARAMS, message)));
        }
    };
    let request = match method.as_ref() {
        "CreateSession" => params(line).map(Request::CreateSession),
        "StartTask" => params(line).map(Request::StartTask),
        "ContinueTask" => Ok(Request::ContinueTask(Empty {})),
        "CancelTask" if has_params => params(line).map(Request::CancelTask),
        "CancelTask" => Ok(Request::CancelTask(CancelTask::default())),
        "ResumeSession" => params(line).map(Request::ResumeSession),
        "GetMessages" => params(line).map(Request::GetMessages),
        "GetSessionState" => Ok(Request::GetSessionState(Empty {})),
        "GetPatchPreview" => params(line).map(Request::GetPatchPreview),
        "ApproveAction" => params(line).map(Request::ApproveAction),
        "ListSessions" if has_params => params(line).map(Request::ListSessions),
        "ListSessions" => Ok(Request::ListSessions(ListSessions::default())),
        "Shutdown" => Ok(Request::Shutdown(Empty {})),
        _ => {
            let message = format!("there is no method {}", shortened(method));
            return Err(rejected(RpcError::new(code::METHOD_NOT_FOUND, message)));
        }
    };
    let request = request.and_then(|request| request.check().map(|()| request)).map_err(|why| {
        rejected(RpcError::new(code::INVALID_PARAMS, format!("parameters of {}: {why}", shortened(method))))
    })?;
    Ok(Incoming { id, request })
}

fn params<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice::<WithParams<T>>(line).map(|line| line.params).map_err(|error| why(&error))
}

#[derive(Serialize)]
struct ResultLine<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: &'a Done,
}

/// The line that answers a request.
///
/// # Errors
/// It has no room in a line. Answer with less.
pub fn encode_result(id: &Id, result: &Done) -> Result<String, TooLong> {
    line(&ResultLine { jsonrpc: "2.0", id, result })
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    error: RpcError,
}

/// The line that says why a request was not done. A message of more than 4 KiB is cut.
#[must_use]
pub fn encode_error(id: Option<&Id>, error: &RpcError) -> String {
    let end = error.message.floor_char_boundary(4096);
    let message: String = error.message.get(..end).unwrap_or_default().into();
    let error = RpcError { code: error.code, message };
    // What was cut has room.
    line(&ErrorLine { jsonrpc: "2.0", id, error }).unwrap_or_default()
}

#[derive(Serialize)]
struct EventLine<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a SessionEvent,
}

/// The line of an event.
///
/// # Errors
/// It has no room in a line. Send less.
pub fn encode_event(event: &SessionEvent) -> Result<String, TooLong> {
    line(&EventLine { jsonrpc: "2.0", method: "SessionEvent", params: event })
}

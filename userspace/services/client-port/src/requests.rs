//! Requests of the client protocol as the types that the agent host takes.

use alloc::format;
use alloc::string::{String, ToString};

use capos_client_protocol::request::{self, Decision, Reach};
use capos_client_protocol::{Id, Request, Secret, limits};
use capos_schema::clients::{
    ClientAnswer, ClientId, ClientReach, ClientRequest, ClientRequestNewSession, ClientRequestPage,
};

/// The id of a request, which may have none.
pub fn id(id: Option<Id>) -> ClientId {
    match id {
        None => ClientId::None,
        Some(Id::Number(number)) => ClientId::Number(number),
        Some(Id::Text(text)) => ClientId::Text(text),
    }
}

/// The request.
pub fn request(request: Request) -> ClientRequest {
    match request {
        Request::CreateSession(given) => ClientRequest::CreateSession(new_session(&given)),
        Request::StartTask(given) => ClientRequest::StartTask(given.prompt),
        Request::ContinueTask(_) => ClientRequest::ContinueTask,
        Request::CancelTask(given) => ClientRequest::CancelTask(given.task_id.unwrap_or_default()),
        Request::ResumeSession(given) => ClientRequest::ResumeSession(given.conversation_id),
        Request::GetMessages(given) => ClientRequest::GetMessages(given.from),
        Request::GetSessionState(_) => ClientRequest::GetSessionState,
        Request::GetPatchPreview(given) => ClientRequest::GetPatchPreview(given.approval_id),
        Request::ApproveAction(given) => ClientRequest::ApproveAction(ClientAnswer {
            question: given.approval_id,
            approved: given.decision == Decision::Approved,
            reach: match given.reach {
                Reach::Once => ClientReach::Once,
                Reach::Turn => ClientReach::Turn,
                Reach::Session => ClientReach::Session,
            },
        }),
        Request::ListSessions(given) => ClientRequest::ListSessions(ClientRequestPage {
            most: given.limit.unwrap_or(limits::CONVERSATIONS).clamp(1, limits::CONVERSATIONS),
            after: given.after.unwrap_or_default(),
        }),
        Request::Shutdown(_) => ClientRequest::Shutdown,
    }
}

fn new_session(given: &request::CreateSession) -> ClientRequestNewSession {
    let client = format!("{} {}", given.client_info.name, given.client_info.version);
    ClientRequestNewSession {
        version: given.protocol_version,
        client: client.trim().to_string(),
        user: given.user.clone().unwrap_or_default(),
        passphrase: given.passphrase.as_ref().map_or(String::new(), |secret| Secret::reveal(secret).to_string()),
    }
}

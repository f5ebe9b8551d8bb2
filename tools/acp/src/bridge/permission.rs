//! Questions to the person.

use std::collections::{BTreeMap, BTreeSet};

use agent_client_protocol_schema::v1::{
    CancelRequestNotification, PROTOCOL_LEVEL_METHOD_NAMES, RequestId, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use capos_client_protocol::event::ApprovalRequest;
use capos_client_protocol::request::{ApproveAction, Decision, GetPatchPreview, Reach};
use capos_client_protocol::result::PatchPreview;
use capos_client_protocol::{Request, RpcError, code};
use serde_json::value::RawValue;

use super::{Bridge, Pending};
use crate::{calls, wire};

/// Questions that are open at a time.
const OPEN: usize = 64;

/// A question.
struct Question {
    request: ApprovalRequest,
    /// The editor's id of the call.
    call: String,
    /// Whether the call is there for the question only.
    is_own: bool,
    /// The request to the editor, if it was sent.
    asked: Option<i64>,
}

/// The questions that are open.
#[derive(Default)]
pub struct Permissions {
    open: BTreeMap<String, Question>,
    /// Calls that are shown with a diff.
    with_diff: BTreeSet<String>,
    next: i64,
}

impl Permissions {
    /// Forgets all: what is answered later does nothing.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Whether the call is shown with a diff.
    pub(super) fn has_diff(&self, call: &str) -> bool {
        self.with_diff.contains(call)
    }
}

impl Bridge {
    /// The machine asks.
    pub(super) fn approval_requested(&mut self, request: ApprovalRequest) {
        let id = request.approval_id.clone();
        let is_cancelled = self.prompt.as_ref().is_none_or(|prompt| prompt.deadline().is_some());
        if is_cancelled || self.open.is_none() || self.permissions.open.len() >= OPEN {
            // Nobody is there who could say yes.
            return self.decide(id, None);
        }
        let shown = request.details.as_ref().and_then(|details| self.editor_call(&details.call_id));
        let is_own = shown.is_none();
        let call = shown.unwrap_or_else(|| {
            // A question about no call that was shown. The editor shows questions at calls only.
            let call = self.call_id("question");
            let shown = ToolCall::new(call.clone(), capos_terminal::escape_for_prompt(&request.title));
            self.update(SessionUpdate::ToolCall(shown));
            call
        });
        let has_call = request.details.is_some();
        self.permissions.open.insert(id.clone(), Question { request, call, is_own, asked: None });
        if has_call {
            let preview = GetPatchPreview { approval_id: id.clone() };
            self.ask(Pending::Preview(id), &Request::GetPatchPreview(preview));
        } else {
            self.put(&id, &PatchPreview::default());
        }
    }

    /// Asks the editor's person.
    pub(super) fn put(&mut self, id: &str, preview: &PatchPreview) {
        let Some(session) = self.open.clone() else { return };
        let Some(question) = self.permissions.open.get_mut(id) else { return };
        if question.asked.is_some() {
            return;
        }
        self.permissions.next = self.permissions.next.wrapping_add(1);
        let number = self.permissions.next;
        question.asked = Some(number);
        if !preview.changes.is_empty() && self.permissions.with_diff.len() < 10_000 {
            self.permissions.with_diff.insert(question.call.clone());
        }
        let update = ToolCallUpdate::new(question.call.clone(), calls::question(&question.request, preview));
        let options = calls::options(&question.request.reaches);
        let request = RequestPermissionRequest::new(session, update, options);
        self.out.editor.push(wire::request_line(number, "session/request_permission", &request));
    }

    /// The editor answers one of our requests.
    pub(super) fn answered(&mut self, id: &RequestId, result: Result<&RawValue, String>) {
        let RequestId::Number(number) = id else { return };
        let open = &self.permissions.open;
        let found = open.iter().find(|(_, question)| question.asked == Some(*number)).map(|(id, _)| id.clone());
        // A late answer does nothing.
        let Some(id) = found else { return };
        let Some(question) = self.permissions.open.remove(&id) else { return };
        let response = result.and_then(|result| {
            serde_json::from_str::<RequestPermissionResponse>(result.get()).map_err(|why| why.to_string())
        });
        let reach = match response {
            Ok(RequestPermissionResponse { outcome: RequestPermissionOutcome::Selected(selected), .. }) => {
                calls::reach(&selected.option_id.0, &question.request.reaches)
            }
            Ok(_) => None,
            Err(why) => {
                self.out.log.push(format!("the editor could not ask, so the call is rejected: {why}"));
                None
            }
        };
        self.settle(&question, reach.is_some());
        self.decide(id, reach);
    }

    /// Ends the call that was there for the question only.
    fn settle(&mut self, question: &Question, is_allowed: bool) {
        if question.is_own {
            let status = if is_allowed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
            let fields = ToolCallUpdateFields::new().status(status);
            self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(question.call.clone(), fields)));
        }
    }

    /// Gives the machine the person's word.
    fn decide(&mut self, approval_id: String, reach: Option<Reach>) {
        let (decision, reach) = match reach {
            Some(reach) => (Decision::Approved, reach),
            None => (Decision::Denied, Reach::Once),
        };
        let action = ApproveAction { approval_id, decision, reach, reason: None };
        self.ask(Pending::Approve, &Request::ApproveAction(action));
    }

    /// The machine did not take the word.
    pub(super) fn not_decided(&mut self, why: &RpcError) {
        if why.code == code::APPROVAL_NOT_OPEN && self.prompt.is_none() {
            return;
        }
        self.tell(&format!("The answer was not taken: {}", why.message));
    }

    /// Nobody has to answer any more.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        let Some(question) = self.permissions.open.remove(id) else { return false };
        if let Some(number) = question.asked {
            let cancel = CancelRequestNotification::new(RequestId::Number(number));
            let method = PROTOCOL_LEVEL_METHOD_NAMES.cancel_request;
            self.out.editor.push(wire::notification_line(method, &cancel));
        }
        self.settle(&question, false);
        true
    }

    /// Nobody has to answer anything any more.
    pub(super) fn withdraw_all(&mut self) {
        let ids: Vec<String> = self.permissions.open.keys().cloned().collect();
        for id in ids {
            self.withdraw(&id);
        }
        self.permissions.with_diff.clear();
    }
}

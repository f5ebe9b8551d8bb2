//! A prompt and the task that works on it.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    ContentChunk, Error, PromptRequest, PromptResponse, RequestId, SessionUpdate, StopReason, ToolCall, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields,
};
use capos_client_protocol::event::{Cause, TaskCompleted, ToolCompleted, ToolRequested};
use capos_client_protocol::request::{CancelTask, Empty, StartTask};
use capos_client_protocol::result::Started;
use capos_client_protocol::{Request, RpcError, code, limits};

use super::session::editor_error;
use super::{Bridge, Pending};
use crate::wire::error;
use crate::{calls, content};

/// How long a task may take to end after it was cancelled. A call that cannot be cut off runs to its end.
const CANCEL: Duration = Duration::from_secs(30);
/// The prompt that continues a task that was cut off.
pub const CONTINUE: &str = "/continue";
/// Calls of one task that are shown.
const CALLS: usize = 2000;

/// A prompt that is being worked on.
pub struct Prompt {
    request: RequestId,
    /// The task, when the machine has said which it is.
    task: Option<String>,
    /// A task that ended before the machine had said that it is this prompt's.
    ended: Option<(String, TaskCompleted)>,
    /// Until when a cancel may take.
    cancelled: Option<Duration>,
    /// The calls by the machine's id, with the editor's.
    calls: BTreeMap<String, String>,
    shown: usize,
}

impl Prompt {
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.cancelled
    }
}

/// An update with text of the agent.
pub fn said(text: String) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

/// An update with text of the person.
pub fn asked(text: String) -> SessionUpdate {
    SessionUpdate::UserMessageChunk(ContentChunk::new(text.into()))
}

impl Bridge {
    /// Begins to work on a prompt.
    pub(super) fn start(&mut self, id: &RequestId, request: &PromptRequest) -> Result<(), Error> {
        self.of_open(&request.session_id.0)?;
        if self.prompt.is_some() {
            let message = "a prompt is being worked on: wait for its end or cancel it";
            return Err(error(code::INVALID_REQUEST, message));
        }
        let prompt = content::prompt(&request.prompt)?;
        let wanted = match prompt.trim() {
            CONTINUE => Request::ContinueTask(Empty {}),
            _ => Request::StartTask(StartTask { prompt }),
        };
        self.prompt = Some(Prompt {
            request: id.clone(),
            task: None,
            ended: None,
            cancelled: None,
            calls: BTreeMap::new(),
            shown: 0,
        });
        self.ask(Pending::Start, &wanted);
        Ok(())
    }

    /// The machine works on it, or does not.
    pub(super) fn started(&mut self, started: Result<Started, RpcError>) {
        let Some(prompt) = &mut self.prompt else { return };
        match started {
            Ok(Started { task_id }) => {
                let ended = prompt.ended.take().filter(|(task, _)| *task == task_id);
                prompt.task = Some(task_id);
                if let Some((_, how)) = ended {
                    self.finish(&how);
                }
            }
            Err(why) => self.end_prompt_with(&why),
        }
    }

    /// The editor cancels. What waits for its person's word is settled: later words do nothing.
    pub(super) fn cancel(&mut self) {
        let until = self.now.saturating_add(CANCEL);
        let Some(prompt) = &mut self.prompt else { return };
        if prompt.cancelled.is_some() {
            return;
        }
        prompt.cancelled = Some(until);
        let task_id = prompt.task.clone();
        self.permissions.clear();
        // Without an id the task that runs is meant. That is this prompt's, since the machine reads in order.
        self.ask(Pending::Cancel, &Request::CancelTask(CancelTask { task_id }));
    }

    /// The prompt was cancelled long ago and the machine has not said that the task ended.
    pub(super) fn give_up_cancelling(&mut self) {
        let is_late = self.prompt.as_ref().and_then(|prompt| prompt.cancelled).is_some_and(|until| until <= self.now);
        if is_late {
            self.tell("The machine has not stopped yet: a call that cannot be cut off still runs.");
            self.stop(StopReason::Cancelled);
        }
    }

    /// A task ended.
    pub(super) fn task_ended(&mut self, task: &str, how: TaskCompleted) {
        let Some(prompt) = &mut self.prompt else { return };
        match &prompt.task {
            Some(own) if own == task => self.finish(&how),
            Some(_) => {}
            None => prompt.ended = Some((task.to_owned(), how)),
        }
    }

    fn finish(&mut self, how: &TaskCompleted) {
        let reason = match how.cause {
            _ if self.prompt.as_ref().is_some_and(|prompt| prompt.cancelled.is_some()) => StopReason::Cancelled,
            Cause::Answered => StopReason::EndTurn,
            Cause::Cancelled => StopReason::Cancelled,
            Cause::Steps | Cause::Limit => StopReason::MaxTurnRequests,
            Cause::Tokens => StopReason::MaxTokens,
            Cause::LlmGuardrailBlocked => StopReason::Refusal,
            // No refusal: an editor takes the prompt out of its thread then, and the conversation keeps it.
            Cause::Rejected | Cause::Failed | Cause::Away => {
                let message = if how.message.is_empty() { "the task failed" } else { &how.message };
                return self.end_prompt_with(&RpcError::new(code::INTERNAL, message));
            }
        };
        if !how.message.is_empty() && reason != StopReason::Cancelled {
            self.tell(&how.message);
        }
        self.stop(reason);
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        self.withdraw_all();
        if let Some(prompt) = self.prompt.take() {
            self.answer(&prompt.request, &PromptResponse::new(reason));
        }
    }

    /// Ends the prompt, if there is one, with an error; after a cancel, as cancelled.
    pub(super) fn end_prompt_with(&mut self, why: &RpcError) {
        self.withdraw_all();
        match self.prompt.take() {
            Some(Prompt { request, cancelled: Some(_), .. }) => {
                self.answer(&request, &PromptResponse::new(StopReason::Cancelled));
            }
            Some(Prompt { request, .. }) => self.reject(&request, &editor_error(why)),
            None => {}
        }
    }

    /// The model proposes a call.
    pub(super) fn call_requested(&mut self, call: ToolRequested) {
        let Some(prompt) = &mut self.prompt else { return };
        if prompt.shown >= CALLS || call.call_id.len() > limits::NAME {
            return;
        }
        prompt.shown = prompt.shown.saturating_add(1);
        let id = self.call_id(&call.call_id);
        if let Some(prompt) = &mut self.prompt {
            prompt.calls.insert(call.call_id, id.clone());
        }
        let input = calls::input(&call.arguments);
        let shown = ToolCall::new(id, calls::title(&call.tool_name, &input))
            .kind(calls::kind(&call.tool_name, &call.category))
            .name(call.tool_name)
            .locations(calls::locations(&input))
            .raw_input(input);
        self.update(SessionUpdate::ToolCall(shown));
    }

    /// The editor's id of a call.
    pub(super) fn editor_call(&self, call: &str) -> Option<String> {
        self.prompt.as_ref()?.calls.get(call).cloned()
    }

    /// A call begins.
    pub(super) fn call_started(&mut self, call: &str) {
        if let Some(id) = self.editor_call(call) {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
            self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
        }
    }

    /// A call has its outcome.
    pub(super) fn call_completed(&mut self, call: &ToolCompleted) {
        let Some(prompt) = &mut self.prompt else { return };
        let Some(id) = prompt.calls.remove(&call.call_id) else { return };
        let mut fields = ToolCallUpdateFields::new().status(calls::status(&call.status));
        // An edit that was done keeps the diff that was shown.
        let text = if call.text.is_empty() { &call.status } else { &call.text };
        if call.status != "ok" || !self.permissions.has_diff(&id) {
            fields = fields.content(vec![calls::result(text)]);
        }
        self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
    }
}

//! A machine that speaks the client protocol, with a model that does what the prompt says.
//!
//! | prompt | what happens |
//! |---|---|
//! | `write PATH` | a call of `write_file` that needs approval |
//! | `twice PATH` | the same with the same call id again |
//! | `wait` | nothing, until it is cancelled |
//! | `end CAUSE` | the task ends with that cause |
//! | anything else | it is said again |
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use capos_client_protocol::event::{
    ApprovalRequest, ApprovalResolved, Cause, Chain, Details, Kind, Notice, Risk, TaskCompleted, TextChunk,
    ToolCompleted, ToolRequested, ToolStarted,
};
use capos_client_protocol::request::{ApproveAction, CreateSession, Decision, Empty, Reach};
use capos_client_protocol::result::{
    Call, Change, Conversations, Created, Done, Message, Messages, PatchPreview, Role, Saved, SessionState,
    SessionStatus, Started,
};
use capos_client_protocol::{
    Event, Id, Incoming, Request, RpcError, Secret, SessionEvent, code, decode_request, encode_error, encode_event,
    encode_result,
};

pub const PASSPHRASE: &str = "correct horse";

/// A call that waits for approval.
#[derive(Clone)]
struct Waiting {
    id: String,
    path: String,
}

/// The machine.
#[derive(Default)]
pub struct Machine {
    /// Files of the user.
    pub files: BTreeMap<String, String>,
    /// Saved conversations.
    pub saved: BTreeMap<String, Vec<Message>>,
    /// Answers `Shutdown` and login only after this many tries.
    pub restarting: u32,
    /// Requests that arrived, by method.
    pub seen: Vec<String>,
    /// Decisions that arrived in time.
    pub decisions: Vec<ApproveAction>,
    /// Whether the last task was done to its end.
    pub is_done: bool,
    session: Option<String>,
    task: Option<String>,
    waiting: Option<Waiting>,
    count: u32,
    left: Vec<String>,
}

impl Machine {
    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Leaves a session open, as a client does that was killed.
    pub fn left_over(&mut self) {
        self.session = Some("old".into());
    }

    fn event(&self, event: Event) -> String {
        let chain = Chain {
            session_id: self.session.clone().unwrap_or_default(),
            task_id: self.task.clone().unwrap_or_default(),
            ..Chain::default()
        };
        encode_event(&SessionEvent { chain, event }).unwrap()
    }

    /// Takes a line; the lines that it sends.
    pub fn line(&mut self, line: &[u8]) -> Vec<String> {
        match decode_request(line) {
            Ok(Incoming { id: Some(id), request }) => {
                self.seen.push(request.method().into());
                let mut lines = Vec::new();
                match self.done(request, &mut lines) {
                    Ok(done) => lines.insert(0, encode_result(&id, &done).unwrap()),
                    Err(why) => lines.insert(0, encode_error(Some(&id), &why)),
                }
                lines
            }
            Ok(Incoming { id: None, .. }) => Vec::new(),
            Err(rejected) => vec![encode_error(rejected.id.as_ref(), &rejected.error)],
        }
    }

    fn done(&mut self, request: Request, lines: &mut Vec<String>) -> Result<Done, RpcError> {
        let none = || Err(RpcError::new(code::NO_SESSION, "there is no session: send CreateSession"));
        match request {
            Request::GetSessionState(_) => {
                let session_status = if self.session.is_some() { SessionStatus::Running } else { SessionStatus::None };
                let session_id = self.session.clone();
                Ok(Done::State(SessionState {
                    session_status,
                    session_id,
                    conversation_id: None,
                    task: None,
                    open_approvals: vec![],
                }))
            }
            Request::CreateSession(create) => self.create(&create),
            Request::Shutdown(_) => {
                self.session = None;
                self.task = None;
                self.waiting = None;
                Ok(Done::Nothing(Empty {}))
            }
            _ if self.session.is_none() => none(),
            Request::StartTask(start) => self.start(&start.prompt, lines),
            Request::ContinueTask(_) if self.is_done => Err(RpcError::new(code::NO_TASK, "it was done to its end")),
            Request::ContinueTask(_) => self.start("the rest of it", lines),
            Request::CancelTask(_) => {
                if let Some(waiting) = self.waiting.take() {
                    lines.push(self.event(Event::ApprovalResolved(ApprovalResolved {
                        approval_id: waiting.id,
                        decision: Decision::Denied,
                        reason: Some("the task was cancelled".into()),
                        latency_ms: 1,
                    })));
                }
                self.end(Cause::Cancelled, "", lines);
                Ok(Done::Nothing(Empty {}))
            }
            Request::ApproveAction(action) => self.approve(action, lines),
            Request::GetPatchPreview(preview) => match &self.waiting {
                Some(waiting) if waiting.id == preview.approval_id => {
                    let change = Change {
                        path: waiting.path.clone(),
                        old_text: self.files.get(&waiting.path).cloned(),
                        omitted: None,
                        new_text: "new text\n".into(),
                        new_sha256: "00".into(),
                    };
                    Ok(Done::Patch(PatchPreview { changes: vec![change] }))
                }
                _ => Err(RpcError::new(code::APPROVAL_NOT_OPEN, "the question is not open any more")),
            },
            Request::ListSessions(list) => {
                let after = list.after.unwrap_or_default();
                let mut saved = self.saved.keys().filter(|id| **id > after).map(|id| Saved {
                    conversation_id: id.clone(),
                    title: format!("about {id}"),
                    updated_at: 1_700_000_000,
                    message_count: 2,
                });
                let conversations: Vec<Saved> = saved.by_ref().take(2).collect();
                let next = saved.next().and_then(|_| conversations.last().map(|last| last.conversation_id.clone()));
                Ok(Done::Conversations(Conversations { conversations, next }))
            }
            Request::ResumeSession(resume) => self.page(&resume.conversation_id, 0),
            Request::GetMessages(get) => {
                let conversation = self.left.first().cloned().unwrap_or_default();
                self.page(&conversation, get.from)
            }
        }
    }

    fn create(&mut self, create: &CreateSession) -> Result<Done, RpcError> {
        if self.restarting > 0 {
            self.restarting -= 1;
            return Err(RpcError::new(code::UNAVAILABLE, "the broker is restarting"));
        }
        if self.session.is_some() {
            return Err(RpcError::new(code::SESSION_EXISTS, "there is a session"));
        }
        if create.user.as_deref() != Some("ada") || create.passphrase.as_ref().map(Secret::reveal) != Some(PASSPHRASE) {
            return Err(RpcError::new(code::LOGIN_FAILED, "the user or the passphrase is wrong"));
        }
        self.count += 1;
        self.session = Some(format!("session-{}", self.count));
        Ok(Done::Created(Created {
            session_id: format!("session-{}", self.count),
            workspace_id: "home".into(),
            principal: "ada".into(),
            conversation_id: format!("conversation-{}", self.count),
            model: "scripted".into(),
            protocol_version: 1,
            agent_info: Default::default(),
        }))
    }

    fn page(&mut self, conversation: &str, from: u32) -> Result<Done, RpcError> {
        let Some(messages) = self.saved.get(conversation) else {
            return Err(RpcError::new(code::NOT_FOUND, "there is no such conversation: list them"));
        };
        self.left = vec![conversation.to_owned()];
        let start = from as usize;
        let found: Vec<Message> = messages.iter().skip(start).take(2).cloned().collect();
        let end = start + found.len();
        let next = (end < messages.len()).then_some(end as u32);
        Ok(Done::Messages(Messages {
            conversation_id: conversation.into(),
            messages: found,
            next,
            can_continue: from == 0 && conversation == "cut",
        }))
    }

    fn start(&mut self, prompt: &str, lines: &mut Vec<String>) -> Result<Done, RpcError> {
        if self.task.is_some() {
            return Err(RpcError::new(code::TASK_RUNNING, "a task runs: wait for it or cancel it"));
        }
        self.count += 1;
        let task_id = format!("task-{}", self.count);
        self.task = Some(task_id.clone());
        match prompt.split_once(' ') {
            Some(("write" | "twice", path)) => self.ask(path, lines),
            Some(("end", cause)) => {
                let cause: Cause = serde_json::from_value(cause.into()).unwrap();
                self.end(cause, "the message of the end", lines);
            }
            _ if prompt == "wait" => {}
            _ => {
                for word in prompt.split_inclusive(' ') {
                    lines.push(self.event(Event::TextChunk(TextChunk { text: word.into(), lost_bytes: 0 })));
                }
                lines.push(self.event(Event::Notice(Notice { text: "a notice".into() })));
                self.end(Cause::Answered, "", lines);
            }
        }
        Ok(Done::Started(Started { task_id }))
    }

    fn ask(&mut self, path: &str, lines: &mut Vec<String>) {
        let arguments = serde_json::json!({"path": path, "text": "new text\n"}).to_string();
        lines.push(self.event(Event::ToolRequested(ToolRequested {
            call_id: "call_1".into(),
            tool_name: "write_file".into(),
            capability: "home".into(),
            category: "mutating".into(),
            arguments: arguments.clone(),
        })));
        self.count += 1;
        let waiting = Waiting { id: format!("approval-{}", self.count), path: path.into() };
        lines.push(self.event(Event::ApprovalRequested(ApprovalRequest {
            approval_id: waiting.id.clone(),
            kind: Kind::ToolCall,
            title: "write_file asks for your consent".into(),
            action_summary: "Writes a whole text file in the home directory.".into(),
            risk_level: Risk::Medium,
            reaches: vec![Reach::Once, Reach::Turn, Reach::Session],
            expires_in_ms: Some(300_000),
            details: Some(Details {
                call_id: "call_1".into(),
                tool_name: "write_file".into(),
                capability: "home".into(),
                category: "mutating".into(),
                description: "Writes a whole text file.".into(),
                arguments,
                notes: vec![],
            }),
        })));
        self.waiting = Some(waiting);
    }

    fn approve(&mut self, action: ApproveAction, lines: &mut Vec<String>) -> Result<Done, RpcError> {
        let Some(waiting) = self.waiting.take_if(|waiting| waiting.id == action.approval_id) else {
            return Err(RpcError::new(code::APPROVAL_NOT_OPEN, "the question is not open any more"));
        };
        let is_yes = action.decision == Decision::Approved;
        lines.push(self.event(Event::ApprovalResolved(ApprovalResolved {
            approval_id: waiting.id,
            decision: action.decision,
            reason: None,
            latency_ms: 1,
        })));
        self.decisions.push(action);
        if is_yes {
            self.files.insert(waiting.path, "new text\n".into());
            lines.push(self.event(Event::ToolStarted(ToolStarted { call_id: "call_1".into() })));
        }
        lines.push(self.event(Event::ToolCompleted(ToolCompleted {
            call_id: "call_1".into(),
            tool_name: "write_file".into(),
            status: if is_yes { "ok" } else { "denied" }.into(),
            latency_ms: 1,
            text: if is_yes { "" } else { "denied: the person said no" }.into(),
        })));
        let text = if is_yes { "It is written." } else { "It is not written." };
        lines.push(self.event(Event::TextChunk(TextChunk { text: text.into(), lost_bytes: 0 })));
        self.end(Cause::Answered, "", lines);
        Ok(Done::Nothing(Empty {}))
    }

    fn end(&mut self, cause: Cause, message: &str, lines: &mut Vec<String>) {
        if self.task.is_some() {
            lines.push(self.event(Event::TaskCompleted(TaskCompleted { cause, message: message.into() })));
            self.task = None;
        }
    }

    /// Saves a conversation with a call in it.
    pub fn save(&mut self, conversation: &str) {
        let call = Call {
            call_id: "call_1".into(),
            tool_name: "read_file".into(),
            category: "readOnly".into(),
            arguments: r#"{"path":"notes.txt"}"#.into(),
        };
        let messages = vec![
            Message { role: Role::User, text: "what do my notes say?".into(), ..Message::default() },
            Message { role: Role::Assistant, calls: vec![call], ..Message::default() },
            Message {
                role: Role::Tool,
                text: "buy milk".into(),
                call_id: Some("call_1".into()),
                outcome: Some("ok".into()),
                ..Message::default()
            },
            Message { role: Role::Assistant, text: "They say: buy milk.".into(), ..Message::default() },
        ];
        self.saved.insert(conversation.into(), messages);
    }
}

/// The id of an answer, for tests that look at lines.
pub fn number(id: i64) -> Id {
    Id::Number(id)
}

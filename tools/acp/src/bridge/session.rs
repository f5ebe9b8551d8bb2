//! The machine's session: greeting, login, conversations, end.

use std::path::PathBuf;

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandsUpdate, CloseSessionResponse, Error, ErrorCode, ListSessionsResponse,
    LoadSessionResponse, NewSessionResponse, RequestId, ResumeSessionResponse, SessionInfo, SessionUpdate, StopReason,
    ToolCall, ToolCallContent, ToolCallUpdate, ToolCallUpdateFields,
};
use capos_client_protocol::request::{ClientInfo, CreateSession, Empty, GetMessages, ListSessions, ResumeSession};
use capos_client_protocol::result::{Conversations, Created, Message, Messages, Role, SessionState, SessionStatus};
use capos_client_protocol::{Request, RpcError, VERSION, code};
use std::time::Duration;

use super::{AGAIN, BOOT, Bridge, LEFT, Machine, Pending, SLOW, prompt};
use crate::calls;
use crate::wire::error;

/// Calls of a conversation that is being loaded, without their results.
const REPLAYED: usize = 10_000;
/// Logins in a row that the machine was not ready for.
const TRIES: u32 = 20;

/// What a request of the editor needs a session for.
pub enum Wanted {
    /// `session/new`.
    New { has_servers: bool },
    /// `session/load`, or `session/resume`, which does not show what was said.
    Load { conversation: String, is_load: bool },
    /// `session/list`.
    List { after: Option<String>, cwd: Option<PathBuf> },
    /// `authenticate`.
    Authenticated,
}

/// The machine's error for the editor.
pub fn editor_error(why: &RpcError) -> Error {
    let code = match why.code {
        code::LOGIN_FAILED => ErrorCode::AuthRequired.into(),
        code::NOT_FOUND => ErrorCode::ResourceNotFound.into(),
        code::INVALID_PARAMS => code::INVALID_PARAMS,
        code::NO_TASK => code::INVALID_REQUEST,
        _ => code::INTERNAL,
    };
    error(code, why.message.clone())
}

impl Bridge {
    /// Asks whether the machine is there.
    pub(super) fn greet(&mut self) {
        self.greet_again(self.now);
    }

    /// Asks again. A machine that boots may have dropped a part of the question before.
    pub(super) fn greet_again(&mut self, since: Duration) {
        if self.now.saturating_sub(since) >= BOOT {
            let message = format!(
                "the machine does not answer at its client port after {} seconds: look at its console; the \
                 machine may still boot, or another client may use the port",
                BOOT.as_secs()
            );
            return self.lose(&message);
        }
        if self.now.saturating_sub(since) >= SLOW && !std::mem::replace(&mut self.is_slow, true) {
            self.out.log.push(format!(
                "the machine has not answered at its client port for {} seconds: it may still boot, or another client \
                 may use the port; it is asked for {} seconds in all",
                SLOW.as_secs(),
                BOOT.as_secs()
            ));
        }
        self.machine = Machine::Greeting { since, again: self.now.saturating_add(AGAIN) };
        // Ends what another client left unfinished.
        self.out.machine.push("\n".into());
        self.ask(Pending::Greeting, &Request::GetSessionState(Empty {}));
    }

    /// The machine is there.
    pub(super) fn greeted(&mut self, state: &Result<SessionState, RpcError>) {
        if !matches!(self.machine, Machine::Greeting { .. }) {
            return;
        }
        let is_left = matches!(
            state,
            Ok(SessionState {
                session_status: SessionStatus::Created | SessionStatus::Running | SessionStatus::Paused,
                ..
            })
        );
        self.pending.retain(|_, (pending, _)| !matches!(pending, Pending::Greeting));
        self.is_slow = false;
        match state {
            // A client before this one has left without a word.
            _ if is_left && self.left < LEFT => {
                self.left = self.left.saturating_add(1);
                self.leave(None);
            }
            _ if is_left => self.lose("a session on the machine does not end: start the machine again"),
            Ok(_) | Err(RpcError { code: code::NO_SESSION, .. }) => {
                self.machine = Machine::Ready;
                if !self.waiting.is_empty() {
                    self.log_in(0);
                }
            }
            // It is asked again in a moment.
            Err(_) => {}
        }
    }

    fn leave(&mut self, request: Option<RequestId>) {
        self.machine = Machine::Leaving;
        self.ask(Pending::Leave(request), &Request::Shutdown(Empty {}));
    }

    /// The session has ended, or could not be.
    pub(super) fn left(&mut self, request: Option<RequestId>) {
        if let Some(request) = request {
            self.answer(&request, &CloseSessionResponse::new());
        }
        // The host may be restarting.
        self.greet();
    }

    /// The session has ended by itself.
    pub(super) fn ended(&mut self, why: &str) {
        if !matches!(self.machine, Machine::In(_)) {
            return;
        }
        let message = format!("the session on the machine has ended: {why}. Begin a new session");
        self.end_prompt_with(&RpcError::new(code::NO_SESSION, message.clone()));
        self.out.log.push(message);
        self.open = None;
        self.greet();
    }

    /// Does what needs a session, now or when there is one.
    pub(super) fn want(&mut self, request: RequestId, wanted: Wanted) {
        match &self.machine {
            Machine::In(created) => {
                let created = created.clone();
                self.with_session(&created, request, wanted);
            }
            Machine::Gone(why) => {
                let why = error(code::INTERNAL, why.clone());
                self.reject(&request, &why);
            }
            Machine::Ready => {
                self.waiting.push_back((request, wanted));
                self.log_in(0);
            }
            Machine::Greeting { .. } | Machine::LoggingIn { .. } | Machine::Leaving => {
                self.waiting.push_back((request, wanted));
            }
        }
    }

    pub(super) fn log_in(&mut self, tries: u32) {
        let passphrase = match (self.login.passphrase)() {
            Ok(passphrase) => passphrase,
            Err(why) => {
                self.machine = Machine::Ready;
                return self.fail_waiting(&error(ErrorCode::AuthRequired.into(), why));
            }
        };
        self.machine = Machine::LoggingIn { tries, again: None };
        let client_info = ClientInfo { name: "capos acp".into(), version: env!("CARGO_PKG_VERSION").into() };
        let user = self.login.user.clone();
        let request = CreateSession { protocol_version: VERSION, client_info, user, passphrase };
        self.ask(Pending::Login, &Request::CreateSession(request));
    }

    /// The machine has answered the login.
    pub(super) fn logged_in(&mut self, created: Result<Created, RpcError>) {
        let Machine::LoggingIn { tries, .. } = self.machine else { return };
        match created {
            Ok(created) => {
                self.left = 0;
                self.machine = Machine::In(created.clone());
                for (request, wanted) in std::mem::take(&mut self.waiting) {
                    self.with_session(&created, request, wanted);
                }
            }
            // A service is restarting.
            Err(RpcError { code: code::UNAVAILABLE, .. }) if tries < TRIES => {
                let again = self.now.saturating_add(Duration::from_secs(1));
                self.machine = Machine::LoggingIn { tries: tries.saturating_add(1), again: Some(again) };
            }
            Err(RpcError { code: code::SESSION_EXISTS, .. }) if self.left < LEFT => {
                self.left = self.left.saturating_add(1);
                self.leave(None);
            }
            Err(why) => {
                self.machine = Machine::Ready;
                self.fail_waiting(&editor_error(&why));
            }
        }
    }

    pub(super) fn fail_waiting(&mut self, why: &Error) {
        for (request, _) in std::mem::take(&mut self.waiting) {
            self.reject(&request, why);
        }
    }

    fn with_session(&mut self, created: &Created, request: RequestId, wanted: Wanted) {
        match wanted {
            Wanted::Authenticated => self.authenticated(&request),
            Wanted::List { after, cwd } => {
                let list = ListSessions { limit: None, after };
                self.ask(Pending::List { request, cwd }, &Request::ListSessions(list));
            }
            Wanted::New { has_servers } => {
                if !self.is_free(&request, None) {
                    return;
                }
                // Without a conversation that is saved, the session has a name of its own.
                let id = [&created.conversation_id, &created.session_id].into_iter().find(|id| !id.is_empty());
                let id = id.cloned().unwrap_or_else(|| "session".into());
                self.open = Some(id.clone());
                self.answer(&request, &NewSessionResponse::new(id));
                if has_servers {
                    self.tell("The MCP servers of this editor are not used: the agent's tools are the machine's.");
                }
            }
            Wanted::Load { conversation, is_load } => {
                if !self.is_free(&request, Some(&conversation)) {
                    return;
                }
                let resume = ResumeSession { conversation_id: conversation.clone() };
                let pending = Pending::Resume { request, conversation, is_load };
                self.ask(pending, &Request::ResumeSession(resume));
            }
        }
    }

    /// Whether no other conversation is open; otherwise the editor is told.
    fn is_free(&mut self, request: &RequestId, conversation: Option<&str>) -> bool {
        let is_loading =
            |(pending, _): &(Pending, Duration)| matches!(pending, Pending::Resume { .. } | Pending::Page { .. });
        let is_loading = self.pending.values().any(is_loading);
        let is_other = self.open.as_deref().is_some_and(|open| conversation != Some(open));
        let is_free = !is_other && !is_loading && self.prompt.is_none();
        if !is_free {
            let message = "a machine has one session at a time, and this one has a session open: close it \
                           (session/close), or start this agent again, with another machine for another session";
            self.reject(request, &error(code::INVALID_REQUEST, message));
        }
        is_free
    }

    /// Ends the open session.
    pub(super) fn close(&mut self, request: &RequestId, session: &str) -> Result<(), Error> {
        self.of_open(session)?;
        self.stop(StopReason::Cancelled);
        self.open = None;
        self.leave(Some(request.clone()));
        Ok(())
    }

    /// Checks that a request is of the open session.
    ///
    /// # Errors
    /// It is of another.
    pub(super) fn of_open(&self, session: &str) -> Result<(), Error> {
        if self.open.as_deref() == Some(session) {
            return Ok(());
        }
        let message = "there is no such session: begin one with session/new, or load it with session/load";
        Err(error(ErrorCode::ResourceNotFound.into(), message))
    }

    /// Saved conversations have come.
    pub(super) fn listed(&mut self, request: &RequestId, cwd: Option<PathBuf>, found: Conversations) {
        // Conversations are not of any folder of the editor's computer.
        let cwd = cwd.unwrap_or_else(|| "/".into());
        let sessions = found.conversations.into_iter().map(|saved| {
            let time = i64::try_from(saved.updated_at).ok().filter(|time| *time > 0);
            let time = time.and_then(|time| jiff::Timestamp::from_second(time).ok());
            let title = Some(saved.title).filter(|title| !title.is_empty());
            SessionInfo::new(saved.conversation_id, cwd.clone())
                .title(title)
                .updated_at(time.map(|time| time.to_string()))
        });
        let response = ListSessionsResponse::new(sessions.collect()).next_cursor(found.next);
        self.answer(request, &response);
    }

    /// Messages of a conversation that is being loaded have come.
    pub(super) fn messages(&mut self, request: RequestId, conversation: String, from: u32, found: Messages) {
        // Only the first page says so.
        if from == 0 {
            self.can_continue = found.can_continue;
        }
        for message in found.messages {
            self.replay(&conversation, message);
        }
        match found.next {
            Some(next) if next > from => {
                let pending = Pending::Page { request, conversation, from: next };
                self.ask(pending, &Request::GetMessages(GetMessages { from: next }));
            }
            _ => {
                self.replayed.clear();
                self.open = Some(conversation);
                self.answer(&request, &LoadSessionResponse::new());
                self.tell_cut_off();
            }
        }
    }

    /// The conversation is there and is not to be shown.
    pub(super) fn resumed(&mut self, request: &RequestId, conversation: String, found: &Messages) {
        self.can_continue = found.can_continue;
        self.open = Some(conversation);
        self.answer(request, &ResumeSessionResponse::new());
        self.tell_cut_off();
    }

    /// Tells that the last task has no answer yet, and offers the command that continues it.
    fn tell_cut_off(&mut self) {
        if !std::mem::take(&mut self.can_continue) {
            return;
        }
        let name = prompt::CONTINUE.trim_start_matches('/');
        let command = AvailableCommand::new(name, "Continue the last task");
        self.update(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(vec![command])));
        self.tell("The last task of this conversation has no answer yet. The prompt /continue continues it.");
    }

    /// Shows a message again.
    fn replay(&mut self, conversation: &str, message: Message) {
        let Message { role, mut text, cut, calls, call_id, outcome } = message;
        if cut {
            text.push_str("\n[capOS] The rest of this message is not shown.\n");
        }
        match role {
            Role::User => self.update_of(conversation.to_owned(), prompt::asked(text)),
            Role::Assistant => {
                if !text.is_empty() {
                    self.update_of(conversation.to_owned(), prompt::said(text));
                }
                for call in calls {
                    let input = calls::input(&call.arguments);
                    let id = self.call_id(&call.call_id);
                    if self.replayed.len() < REPLAYED {
                        self.replayed.insert(call.call_id, id.clone());
                    }
                    let call = ToolCall::new(id, calls::title(&call.tool_name, &input))
                        .kind(calls::kind(&call.tool_name, &call.category))
                        .name(call.tool_name)
                        .locations(calls::locations(&input))
                        .raw_input(input);
                    self.update_of(conversation.to_owned(), SessionUpdate::ToolCall(call));
                }
            }
            Role::Tool => {
                let status = calls::status(outcome.as_deref().unwrap_or("ok"));
                let content: Vec<ToolCallContent> = vec![calls::result(&text)];
                let fields = ToolCallUpdateFields::new().status(status).content(content);
                let Some(id) = call_id.and_then(|id| self.replayed.remove(&id)) else { return };
                let update = ToolCallUpdate::new(id, fields);
                self.update_of(conversation.to_owned(), SessionUpdate::ToolCallUpdate(update));
            }
            Role::System => {}
        }
    }
}

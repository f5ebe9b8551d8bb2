//! Requests, and the session from its beginning to its end.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_agent::Course;
use capos_agent::world::{Audit, RunState};
use capos_async_lock::Waiters;
use capos_client_protocol::event::{Details, Event, Failed};
use capos_client_protocol::request::ClientInfo;
use capos_client_protocol::request::{Empty, Reach};
use capos_client_protocol::result::{Conversations, Created, Done, Saved, SessionStatus, Started};
use capos_client_protocol::{RpcError, VERSION, code};
use capos_rt::{Either, log, select};
use capos_run_state::SessionState;
use capos_runner::change::{PATIENCE, PendingWrite};
use capos_runner::cut_off::{self, Found};
use capos_runner::history::{self, Evidence};
use capos_runner::keeper::PURPOSE;
use capos_runner::{Capabilities, Runner, Session};
use capos_schema::audit::{GeneralEvent, GeneralEventField};
use capos_schema::authority::ApprovalClientClient;
use capos_schema::cap::{CallError, ExceptionKind};
use capos_schema::clients::{ClientAnswer, ClientPortClient, ClientReach, ClientRequest, ClientRequestPage};
use capos_schema::conversations::{ConversationInfo, ConversationStoreClient};

use crate::client::Client;
use crate::questions::{Said, not_open};
use crate::shared::Shared;
use crate::{create, messages, task};

const SECOND: u64 = 1_000_000_000;
/// Least life of a process, in nanoseconds. init starts a service at most 20 times a minute, and short sessions must not use
/// that up.
const LIFE: u64 = 4 * SECOND;
/// How long the last lines may take to leave, in nanoseconds.
const LEAVING: u64 = 2 * SECOND;
/// How long a task that was cancelled may take to end, in nanoseconds.
const ENDING: u64 = 30 * SECOND;
/// Between two tries to reach a port that does not answer, in nanoseconds.
const PAUSE: u64 = SECOND;
/// The kind of the record before a client is shown what a call would change.
const PREVIEWED: &str = "client.previewed";
/// The wait after a refused login doubles so often; the first one is a second.
const MOST_DOUBLINGS: u32 = 5;

type Answer = Result<Done, RpcError>;

/// The session, which a running task has.
#[derive(Default)]
struct Slot {
    session: RefCell<Option<Session<Client>>>,
    back: Waiters,
}

impl Slot {
    fn put(&self, session: Session<Client>) {
        *self.session.borrow_mut() = Some(session);
        self.back.wake();
    }

    fn take(&self) -> Option<Session<Client>> {
        self.session.borrow_mut().take()
    }
}

/// The host.
pub struct Host {
    held: Capabilities,
    port: ClientPortClient,
    shared: Rc<Shared>,
    slot: Rc<Slot>,
    /// Of the session, once there is one.
    runner: Option<Rc<Runner<Client>>>,
    course: Rc<Course>,
    /// Logins that were refused.
    refused: u32,
    began: u64,
}

fn no_session() -> RpcError {
    RpcError::new(code::NO_SESSION, "there is no session: send CreateSession first")
}

fn unavailable(why: impl ToString) -> RpcError {
    RpcError::new(code::UNAVAILABLE, why.to_string())
}

fn silent(why: &dyn core::fmt::Display) -> RpcError {
    unavailable(format!("the broker does not answer: {why}"))
}

impl Host {
    /// For the client of this port.
    pub fn new(held: Capabilities, port: ClientPortClient) -> Self {
        let shared = Rc::new(Shared::new(held.clock.clone()));
        let began = held.clock.now();
        Self { held, port, shared, slot: Rc::default(), runner: None, course: Rc::default(), refused: 0, began }
    }

    /// Serves one session, to its end.
    pub async fn serve(mut self) {
        let (shared, port) = (self.shared.clone(), self.port.clone());
        capos_rt::spawn(async move { shared.send(&port).await });
        let mut asked = self.held.clock.now();
        loop {
            let silence = self.silence(asked);
            let next = select(self.port.next(), select(self.shared.over(), silence)).await;
            let next = match next {
                Either::First(next) => next,
                Either::Second(Either::First(why)) => {
                    self.fail(&why).await;
                    break;
                }
                Either::Second(Either::Second(minutes)) => {
                    self.fail(&format!("the client has asked for nothing for {minutes} minutes")).await;
                    break;
                }
            };
            match next {
                Ok(next) => {
                    asked = self.held.clock.now();
                    let is_last = matches!(next.request, ClientRequest::Shutdown) && self.runner.is_some();
                    let answer = self.answer(next.request).await;
                    if matches!(&answer, Err(why) if why.code == code::LOGIN_FAILED || why.code == code::LIMIT) {
                        // Each attempt leaves a record in the audit log, which is bounded.
                        self.held.clock.sleep(SECOND << self.refused.min(MOST_DOUBLINGS)).await;
                        self.refused = self.refused.saturating_add(1);
                    }
                    self.shared.answer(&next.id, answer);
                    if is_last {
                        break;
                    }
                }
                Err(why) => {
                    log::warning!("the client port does not answer: {why}");
                    self.held.clock.sleep(PAUSE).await;
                }
            }
        }
        let _ = select(self.shared.flushed(), self.held.clock.sleep(LEAVING)).await;
        self.held.clock.sleep_until(self.began.saturating_add(LIFE)).await;
    }

    /// Waits until the client has asked for nothing for as long as an idle console stays open: that many minutes. A task that
    /// runs counts as use.
    async fn silence(&self, asked: u64) -> u32 {
        let seconds = self.runner.as_ref().map_or(0, |runner| runner.info.lock_seconds);
        if seconds == 0 {
            return core::future::pending().await;
        }
        let most = u64::from(seconds).saturating_mul(SECOND);
        let mut end = asked.saturating_add(most);
        loop {
            self.held.clock.sleep_until(end).await;
            if self.shared.task().is_none() {
                return seconds.div_ceil(60);
            }
            end = self.held.clock.now().saturating_add(most);
        }
    }

    async fn answer(&mut self, request: ClientRequest) -> Answer {
        match request {
            ClientRequest::CreateSession(_) if self.runner.is_some() => {
                let text = "this machine serves one client session at a time, and there is one: Shutdown ends it";
                Err(RpcError::new(code::SESSION_EXISTS, text))
            }
            ClientRequest::CreateSession(given) => self.create(given).await,
            ClientRequest::GetSessionState => Ok(Done::State(self.shared.state())),
            ClientRequest::Shutdown if self.runner.is_none() => Ok(Done::Nothing(Empty {})),
            _ if self.runner.is_none() => Err(no_session()),
            ClientRequest::StartTask(prompt) => self.start(prompt),
            ClientRequest::ContinueTask => self.go_on(),
            ClientRequest::CancelTask(id) => self.cancel(&id),
            ClientRequest::ResumeSession(id) => self.resume(&id).await,
            ClientRequest::GetMessages(from) => self.messages(from),
            ClientRequest::GetPatchPreview(id) => self.preview(&id).await,
            ClientRequest::ApproveAction(said) => self.approve(&said),
            ClientRequest::ListSessions(page) => self.list(&page).await,
            ClientRequest::Shutdown => Ok(self.shut_down().await),
        }
    }

    async fn create(&mut self, given: capos_schema::clients::ClientRequestNewSession) -> Answer {
        self.shared.set_status(SessionStatus::Created);
        let session = match create::create(&self.held, &self.shared, given).await {
            Ok(session) => session,
            Err(error) => {
                self.shared.set_status(SessionStatus::None);
                return Err(error);
            }
        };
        let (info, conversation) = (&session.runner.info, session.agent.conversation().id.clone());
        let model = session.runner.model.info().map(|model| model.id).unwrap_or_default();
        self.shared.begin_session(&info.id, &conversation);
        let created = Created {
            session_id: info.id.clone(),
            workspace_id: session.course.ids().machine.to_string(),
            principal: info.principal.clone(),
            conversation_id: conversation,
            model,
            protocol_version: VERSION,
            agent_info: ClientInfo { name: "capOS".to_string(), version: env!("CARGO_PKG_VERSION").to_string() },
        };
        for notice in [&info.notice].into_iter().filter(|notice| !notice.is_empty()) {
            self.shared.notice(notice);
        }
        self.runner = Some(session.runner.clone());
        self.course = session.course.clone();
        self.slot.put(session);
        Ok(Done::Created(created))
    }

    /// The session, while no task has it.
    fn idle(&self) -> Result<Session<Client>, RpcError> {
        self.slot.take().ok_or_else(|| {
            RpcError::new(code::TASK_RUNNING, "a task runs: wait for its task_completed, or send CancelTask")
        })
    }

    fn start(&mut self, prompt: String) -> Answer {
        if prompt.trim().is_empty() {
            return Err(RpcError::new(code::INVALID_PARAMS, "the prompt is empty: say what is to be done"));
        }
        let session = self.idle()?;
        let task_id = session.agent.next_run();
        Ok(self.begin(session, task_id, Some(prompt)))
    }

    /// Continues the last task of the conversation, with what is left of its budget.
    fn go_on(&mut self) -> Answer {
        let session = self.idle()?;
        let why_not = match (session.agent.can_go_on(), session.agent.is_at_limit()) {
            (false, _) => Some("the last task was done to its end, so there is nothing to continue: begin a new one"),
            // Only a person permits more, at a question of the task itself.
            (true, true) => Some("the last task has made all the model calls that it may: begin a new one"),
            (true, false) => None,
        };
        if let Some(text) = why_not {
            self.slot.put(session);
            return Err(RpcError::new(code::NO_TASK, text));
        }
        let task_id = session.agent.last_run();
        Ok(self.begin(session, task_id, None))
    }

    fn begin(&self, mut session: Session<Client>, task_id: String, prompt: Option<String>) -> Done {
        self.shared.begin_task(&task_id, session.runner.info.limits.max_iterations);
        let (shared, slot) = (self.shared.clone(), self.slot.clone());
        capos_rt::spawn(async move {
            task::run(&mut session, &shared, prompt.as_deref()).await;
            slot.put(session);
        });
        Done::Started(Started { task_id })
    }

    fn cancel(&self, id: &str) -> Answer {
        match self.shared.task() {
            Some(task) if id.is_empty() || task == id => {
                self.shared.cancel();
                Ok(Done::Nothing(Empty {}))
            }
            Some(_) => Ok(Done::Nothing(Empty {})),
            None if id.is_empty() => Err(RpcError::new(code::NO_TASK, "no task runs: there is nothing to cancel")),
            // It has ended by itself.
            None => Ok(Done::Nothing(Empty {})),
        }
    }

    async fn resume(&mut self, id: &str) -> Answer {
        let mut session = self.idle()?;
        let result = self.resumed(&mut session, id).await;
        self.shared.set_conversation(&session.agent.conversation().id);
        self.slot.put(session);
        result
    }

    async fn resumed(&self, session: &mut Session<Client>, id: &str) -> Answer {
        let runner = session.runner.clone();
        runner.refresh().await.map_err(|why| silent(&why))?;
        // What cannot be continued renews nothing.
        let other = self.other(session, id).await?;
        if session.has_expired() {
            for change in session.renew().await.map_err(unavailable)? {
                self.shared.notice(&format!("the policy has changed: {change}"));
            }
            self.shared.set_status(SessionStatus::Running);
        }
        session.refresh().await.map_err(|why| silent(&why))?;
        if let Some(info) = other {
            let store = runner.grants.find::<ConversationStoreClient>(PURPOSE).map_err(unavailable)?;
            let conversation = history::load(&runner, store.clone(), &info.id).await.map_err(unavailable)?;
            let found = cut_off::find(&runner, &store, &conversation).await.map_err(unavailable)?;
            if let Found::Aside(why) = &found {
                self.shared.notice(why);
            }
            // Consents for further calls were given in another conversation.
            let consents = runner.grants.find::<ApprovalClientClient>("end consents").map_err(unavailable)?;
            let ended = runner.within(consents.revoke("")).await;
            ended.map_err(|why| unavailable(format!("the consents so far cannot be ended: {why}")))?;
            let evidence = Evidence::of(&runner, &conversation, &info, &found).await.map_err(unavailable)?;
            let kept = cut_off::kept(conversation, &found);
            let resumed = session.resume(kept, |call| evidence.fate(call)).await;
            resumed.map_err(|why| unavailable(format!("the conversation cannot be continued: {why}")))?;
            for deed in evidence.unsaved(session.agent.conversation()) {
                self.shared.notice(&format!(
                    "{}: it began, and the conversation does not hold it; the model may propose it again",
                    deed.tool
                ));
            }
        }
        let can_continue = session.agent.can_go_on() && !session.agent.is_at_limit();
        Ok(Done::Messages(capos_client_protocol::result::Messages { can_continue, ..self.of(session, 0) }))
    }

    /// The saved conversation that an id or its beginning names; none if it is the present one, which may not be saved.
    async fn other(&self, session: &Session<Client>, id: &str) -> Result<Option<ConversationInfo>, RpcError> {
        let present = &session.agent.conversation().id;
        if id == present {
            return Ok(None);
        }
        let store = session.runner.grants.find::<ConversationStoreClient>(PURPOSE).map_err(unavailable)?;
        let info = session.runner.audited(store.info(id)).await;
        let info = info.map_err(|why| RpcError::new(code::NOT_FOUND, why))?;
        Ok(Some(info).filter(|info| info.id != *present))
    }

    fn of(&self, session: &Session<Client>, from: u32) -> capos_client_protocol::result::Messages {
        let tools = session.snapshot.tools();
        messages::messages(session.agent.conversation(), from, |name| {
            let found = tools.iter().find(|tool| tool.descriptor.name == name);
            found.map(|tool| tool.descriptor.category.clone()).unwrap_or_default()
        })
    }

    fn messages(&self, from: u32) -> Answer {
        let session = self.idle()?;
        let messages = self.of(&session, from);
        self.slot.put(session);
        Ok(Done::Messages(messages))
    }

    async fn preview(&self, id: &str) -> Answer {
        let Some(write) = self.shared.questions.write(id) else {
            return Err(RpcError::new(code::APPROVAL_NOT_OPEN, not_open(id)));
        };
        match write {
            // It is not known what the call changes.
            None => Ok(Done::Patch(Default::default())),
            Some((write, call)) => {
                let Some(runner) = &self.runner else { return Err(no_session()) };
                self.record(runner, id, &write).await?;
                self.show(runner, id, write, &call).await
            }
        }
    }

    /// Records that a file is looked at for a client, before it is.
    async fn record(&self, runner: &Runner<Client>, question: &str, write: &PendingWrite) -> Result<(), RpcError> {
        let field = |name: &str, value: &str| GeneralEventField { name: name.into(), value: value.into() };
        let event = GeneralEvent {
            kind: PREVIEWED.to_string(),
            session: runner.info.id.clone(),
            principal: runner.info.principal.clone(),
            fields: Vec::from([field("approvalId", question), field("path", write.path())]),
        };
        let recorded = runner.general(&event).await;
        recorded.map(drop).map_err(|why| unavailable(format!("no preview: it could not be recorded: {why}")))
    }

    /// What a call would change: it makes that change, or none. No other request is answered meanwhile.
    async fn show(&self, runner: &Runner<Client>, question: &str, write: PendingWrite, call: &Details) -> Answer {
        match select(write.look(), self.held.clock.sleep(PATIENCE)).await {
            Either::First(shown) => {
                let change = shown.map_err(unavailable)?;
                // After the answer it would be the change of another call.
                if self.shared.questions.write(question).is_some() {
                    runner.writes.shown((&call.call_id, &call.arguments), &change);
                }
                Ok(Done::Patch(messages::patch(change)))
            }
            Either::Second(()) => Err(unavailable("the file's server does not answer; decide without a preview")),
        }
    }

    fn approve(&self, said: &ClientAnswer) -> Answer {
        let word = match said.approved {
            false => Said::No,
            true => Said::Yes(match said.reach {
                ClientReach::Once => Reach::Once,
                ClientReach::Turn => Reach::Turn,
                ClientReach::Session => Reach::Session,
            }),
        };
        match self.shared.questions.say(&said.question, word, self.held.clock.now()) {
            true => Ok(Done::Nothing(Empty {})),
            false => Err(RpcError::new(code::APPROVAL_NOT_OPEN, not_open(&said.question))),
        }
    }

    async fn list(&self, page: &ClientRequestPage) -> Answer {
        let Some(runner) = &self.runner else { return Err(no_session()) };
        let store = runner.grants.find::<ConversationStoreClient>(PURPOSE).map_err(unavailable)?;
        let found = runner.in_time(store.list(&page.after, page.most)).await.map_err(|why| match why {
            CallError::Exception(exception) if exception.kind == ExceptionKind::InvalidArgument => {
                RpcError::new(code::INVALID_PARAMS, "no page of the list begins there: begin without a cursor")
            }
            why => unavailable(why),
        })?;
        let conversations = found.conversations.into_iter().map(|info| Saved {
            conversation_id: info.id,
            title: info.title,
            updated_at: info.changed / 1000,
            message_count: info.messages,
        });
        let next = Some(found.next).filter(|next| !next.is_empty());
        Ok(Done::Conversations(Conversations { conversations: conversations.collect(), next }))
    }

    /// Ends the session, which has failed if there is a reason why. A task that runs ends first. Its calls that run are not
    /// stopped, and it begins no other step.
    async fn end(&self, failed: Option<&str>) {
        let shared = &self.shared;
        let in_calls = matches!(self.course.run_state(), RunState::CheckingPolicy | RunState::ExecutingTools);
        if shared.task().is_some() && in_calls {
            self.course.end_after_step();
        } else if shared.task().is_some() {
            shared.cancel();
        }
        let mut session = self.back(ENDING).await;
        if session.is_none() {
            // A call takes too long.
            shared.cancel();
            session = self.back(LEAVING).await;
        }
        if let Some(mut session) = session {
            if let Some(why) = failed {
                session.failed(why);
            }
            session.end().await;
            shared.set_status(status(session.course.session_state()));
        } else {
            let reason = failed.unwrap_or("the task that was cancelled does not end").to_string();
            shared.set_status(SessionStatus::Failed);
            shared.tell(Event::SessionFailed(Failed { reason }));
        }
    }

    /// Waits until no task has the session, for so long at most.
    async fn back(&self, limit: u64) -> Option<Session<Client>> {
        let back = self.slot.back.until(|| self.slot.take());
        match select(Box::pin(back), self.held.clock.sleep(limit)).await {
            Either::First(session) => Some(session),
            Either::Second(()) => None,
        }
    }

    async fn shut_down(&self) -> Done {
        self.end(None).await;
        Done::Nothing(Empty {})
    }

    /// Ends a session that cannot go on.
    async fn fail(&self, why: &str) {
        log::warning!("the client's session ends: {why}");
        if self.runner.is_some() {
            self.end(Some(&format!("{why}; begin a new session"))).await;
        } else {
            self.shared.tell(Event::SessionFailed(Failed { reason: why.to_string() }));
        }
    }
}

/// The status of a session, as a client reads it.
pub fn status(state: SessionState) -> SessionStatus {
    match state {
        SessionState::Created => SessionStatus::Created,
        SessionState::Running => SessionStatus::Running,
        SessionState::Paused => SessionStatus::Paused,
        SessionState::Completed => SessionStatus::Completed,
        SessionState::Failed => SessionStatus::Failed,
        SessionState::Cancelled => SessionStatus::Cancelled,
    }
}

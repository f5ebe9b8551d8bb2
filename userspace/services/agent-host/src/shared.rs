//! What requests and the running task share: lines to the client, questions, and how the session stands.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};

use capos_async_lock::{Happenings, Waiters};
use capos_client_protocol::event::{Chain, Event, Notice, TextChunk};
use capos_client_protocol::result::{Done, SessionState, SessionStatus, TaskState, TaskStatus};
use capos_client_protocol::{Id, RpcError, SessionEvent, code, encode_error, encode_event, encode_result};
use capos_rt::{Clock, log};
use capos_schema::clients::{ClientId, ClientPortClient};

use crate::outbox::Outbox;
use crate::questions::Questions;

/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// The tools of a turn, by name, each with the name of the capability that it calls.
pub type Tools = BTreeMap<String, String>;

/// The state of the process.
pub struct Shared {
    /// Time.
    pub clock: Clock,
    out: RefCell<Outbox>,
    moved: Waiters,
    /// A line is being handed to the port.
    is_sending: Cell<bool>,
    chain: RefCell<Chain>,
    /// The task that has the session. Its run may be paused for a question meanwhile.
    running: RefCell<Option<String>>,
    state: RefCell<SessionState>,
    /// Questions that wait.
    pub questions: Questions,
    /// Cancellations, and how many there were when the task began.
    cancelled: Happenings,
    known: Cell<u64>,
    tools: RefCell<Tools>,
    /// The session ended by itself, or the client is lost: why.
    over: RefCell<Option<String>>,
}

impl Shared {
    /// Without a session.
    pub fn new(clock: Clock) -> Self {
        let state = SessionState {
            session_status: SessionStatus::None,
            session_id: None,
            conversation_id: None,
            task: None,
            open_approvals: Default::default(),
        };
        Self {
            clock,
            out: RefCell::default(),
            moved: Waiters::default(),
            is_sending: Cell::new(false),
            chain: RefCell::default(),
            running: RefCell::default(),
            state: RefCell::new(state),
            questions: Questions::default(),
            cancelled: Happenings::default(),
            known: Cell::new(0),
            tools: RefCell::default(),
            over: RefCell::default(),
        }
    }

    /// Sends lines, for ever.
    pub async fn send(&self, port: &ClientPortClient) {
        loop {
            let line = self.moved.until(|| self.out.borrow_mut().pop()).await;
            self.is_sending.set(true);
            let sent = port.send(&line).await;
            self.is_sending.set(false);
            if let Err(why) = sent {
                // The port restarts; the line is lost with what it had to send.
                log::warning!("a line to the client was lost: {why}");
            }
            self.moved.wake();
        }
    }

    /// Waits until all lines are on their way.
    pub async fn flushed(&self) {
        self.moved.until(|| (self.out.borrow().is_empty() && !self.is_sending.get()).then_some(())).await;
    }

    fn push(&self, line: String) {
        self.out.borrow_mut().push(line);
        if self.out.borrow().is_lost() {
            self.end("the client reads nothing");
        }
        self.moved.wake();
    }

    /// Answers a request.
    pub fn answer(&self, id: &ClientId, result: Result<Done, RpcError>) {
        let id = match id {
            ClientId::None => return,
            ClientId::Number(number) => Id::Number(*number),
            ClientId::Text(text) => Id::Text(text.clone()),
        };
        let line = result.and_then(|done| {
            encode_result(&id, &done).map_err(|why| RpcError::new(code::LIMIT, format!("{why}; ask for less")))
        });
        self.push(line.unwrap_or_else(|error| encode_error(Some(&id), &error)));
    }

    /// Tells of something, with the ids of what it happened in. False if it has no room in a line.
    pub fn tell(&self, event: Event) -> bool {
        let event = SessionEvent { chain: self.chain.borrow().clone(), event };
        match encode_event(&event) {
            Ok(line) => {
                self.push(line);
                true
            }
            Err(why) => {
                log::warning!("{} is not told: {why}", event.event.name());
                false
            }
        }
    }

    /// Tells the person something.
    pub fn notice(&self, text: &str) {
        self.tell(Event::Notice(Notice { text: text.to_string() }));
    }

    /// The session cannot go on.
    pub fn end(&self, why: &str) {
        self.over.borrow_mut().get_or_insert_with(|| why.to_string());
        self.moved.wake();
    }

    /// Waits until the session cannot go on: why.
    pub async fn over(&self) -> String {
        self.moved.until(|| self.over.borrow().clone()).await
    }

    /// How session and task stand.
    pub fn state(&self) -> SessionState {
        let mut state = self.state.borrow().clone();
        state.open_approvals = self.questions.all(self.clock.now());
        if self.questions.is_any()
            && let Some(task) = &mut state.task
        {
            task.status = TaskStatus::WaitingForApproval;
        }
        state
    }

    /// The session's status.
    pub fn set_status(&self, status: SessionStatus) {
        self.state.borrow_mut().session_status = status;
    }

    /// There is a session.
    pub fn begin_session(&self, session: &str, conversation: &str) {
        let mut state = self.state.borrow_mut();
        state.session_id = Some(session.to_string());
        state.conversation_id = Some(conversation.to_string());
        state.session_status = SessionStatus::Running;
    }

    /// Names the conversation.
    pub fn set_conversation(&self, conversation: &str) {
        self.state.borrow_mut().conversation_id = Some(conversation.to_string());
    }

    /// The task that runs, if one does.
    pub fn task(&self) -> Option<String> {
        self.running.borrow().clone()
    }

    /// A task begins: cancellations from now on are about it.
    pub fn begin_task(&self, task: &str, max_steps: u32) {
        self.known.set(self.cancelled.count());
        *self.running.borrow_mut() = Some(task.to_string());
        self.chain.borrow_mut().task_id = task.to_string();
        let (task_id, status) = (task.to_string(), TaskStatus::TaskRunning);
        self.state.borrow_mut().task = Some(TaskState { task_id, status, step_count: 0, max_steps });
    }

    /// The tools of the task's turn.
    pub fn set_tools(&self, tools: Tools) {
        *self.tools.borrow_mut() = tools;
    }

    /// The name of the capability that a tool calls; empty if there is no such tool.
    pub fn tool(&self, name: &str) -> String {
        self.tools.borrow().get(name).cloned().unwrap_or_default()
    }

    /// The task is in this state.
    pub fn set_task(&self, status: TaskStatus) {
        if let Some(task) = &mut self.state.borrow_mut().task {
            task.status = status;
        }
    }

    /// The task has come to this step.
    pub fn set_step(&self, count: u32) {
        if let Some(task) = &mut self.state.borrow_mut().task {
            task.step_count = count;
        }
    }

    /// The task does not have the session any more.
    pub fn end_task(&self) {
        *self.running.borrow_mut() = None;
    }

    /// The task may have more steps.
    pub fn add_steps(&self, more: u32) {
        if let Some(task) = &mut self.state.borrow_mut().task {
            task.max_steps = task.max_steps.saturating_add(more);
        }
    }

    /// What is told from now on happens in this.
    pub fn set_chain(&self, chain: Chain) {
        *self.chain.borrow_mut() = chain;
    }

    /// What is told from now on happens in no task.
    pub fn leave_task(&self) {
        let mut chain = self.chain.borrow_mut();
        chain.task_id.clear();
        chain.step_id.clear();
    }

    /// A piece of the model's text. A client that reads slowly gets fewer of them.
    pub fn text(&self, text: String) {
        let room = self.out.borrow_mut().room_for_text(text.len());
        if let Some(lost_bytes) = room {
            self.tell(Event::TextChunk(TextChunk { text, lost_bytes }));
        }
    }

    /// Cancels the task.
    pub fn cancel(&self) {
        self.cancelled.happen();
    }

    /// Waits until the task is cancelled.
    pub async fn cancelled(&self) {
        self.cancelled.after(self.known.get()).await;
    }
}

//! What requests and the running task share: lines to the client, questions, and how the session stands.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};

use capos_async_lock::{Happenings, Waiters};
use capos_client_protocol::event::{Chain, Event, LlmCompleted, LlmStarted, Notice, Step, StepLimit, TextChunk};
use capos_client_protocol::result::{Done, SessionState, SessionStatus, TaskState, TaskStatus};
use capos_client_protocol::{Id, RpcError, SessionEvent, code, encode_error, encode_event, encode_result};
use capos_rt::{Clock, log};
use capos_schema::clients::{ClientId, ClientPortClient};
use capos_schema::models::TokenUsage;

use crate::outbox::Outbox;
use crate::questions::Questions;

/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// The tools of a turn, by name: the capability that each calls, and its category.
pub type Tools = BTreeMap<String, (String, String)>;

/// The state of the process.
pub struct Shared {
    /// Time.
    pub clock: Clock,
    out: RefCell<Outbox>,
    moved: Waiters,
    /// A line is being handed to the port.
    is_sending: Cell<bool>,
    chain: RefCell<Chain>,
    state: RefCell<SessionState>,
    /// Questions that wait.
    pub questions: Questions,
    /// Cancellations, and how many there were when the task began.
    cancelled: Happenings,
    known: Cell<u64>,
    tools: RefCell<Tools>,
    /// When calls were proposed.
    proposed: RefCell<BTreeMap<String, u64>>,
    /// The session ended by itself, or the client is lost: why.
    over: RefCell<Option<String>>,
    asked: Cell<u64>,
    in_step: Cell<bool>,
    is_warned: Cell<bool>,
    tokens: Cell<u64>,
    tasks: Cell<u32>,
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
            state: RefCell::new(state),
            questions: Questions::default(),
            cancelled: Happenings::default(),
            known: Cell::new(0),
            tools: RefCell::default(),
            proposed: RefCell::default(),
            over: RefCell::default(),
            asked: Cell::new(0),
            in_step: Cell::new(false),
            is_warned: Cell::new(false),
            tokens: Cell::new(0),
            tasks: Cell::new(0),
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

    /// Names the session in what follows.
    pub fn begin_session(&self, session: &str, workspace: &str, conversation: &str) {
        {
            let mut chain = self.chain.borrow_mut();
            chain.session_id = session.to_string();
            chain.workspace_id = workspace.to_string();
        }
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
        let state = self.state.borrow();
        let runs = |task: &&TaskState| {
            !matches!(task.status, TaskStatus::TaskCompleted | TaskStatus::TaskFailed | TaskStatus::TaskCancelled)
        };
        state.task.as_ref().filter(runs).map(|task| task.task_id.clone())
    }

    /// A task begins: cancellations from now on are about it.
    pub fn begin_task(&self, task: &str, max_steps: u32) {
        self.known.set(self.cancelled.count());
        self.tasks.set(self.tasks.get().saturating_add(1));
        self.in_step.set(false);
        self.is_warned.set(false);
        self.chain.borrow_mut().task_id = task.to_string();
        let (task_id, status) = (task.to_string(), TaskStatus::TaskRunning);
        self.state.borrow_mut().task = Some(TaskState { task_id, status, step_count: 0, max_steps });
    }

    /// The tools of the task's turn.
    pub fn set_tools(&self, tools: Tools) {
        *self.tools.borrow_mut() = tools;
    }

    /// The capability and category of a tool; empty if there is none of that name.
    pub fn tool(&self, name: &str) -> (String, String) {
        self.tools.borrow().get(name).cloned().unwrap_or_default()
    }

    /// The task is in this state.
    pub fn set_task(&self, status: TaskStatus) {
        if let Some(task) = &mut self.state.borrow_mut().task {
            task.status = status;
        }
    }

    /// The task may have more steps.
    pub fn add_steps(&self, more: u32) {
        self.is_warned.set(false);
        if let Some(task) = &mut self.state.borrow_mut().task {
            task.max_steps = task.max_steps.saturating_add(more);
        }
    }

    /// The task has ended in this state. Its events so far name it, those that follow do not.
    pub fn end_task(&self, status: TaskStatus) {
        self.end_step();
        self.set_task(status);
        self.proposed.borrow_mut().clear();
    }

    /// Forgets the ids of the task.
    pub fn leave_task(&self) {
        self.chain.borrow_mut().task_id.clear();
    }

    /// The model is asked: a step begins.
    pub fn begin_step(&self, model: &str) {
        self.end_step();
        let (count, most) = {
            let mut state = self.state.borrow_mut();
            let Some(task) = &mut state.task else { return };
            task.step_count = task.step_count.saturating_add(1);
            task.status = TaskStatus::WaitingForLlm;
            (task.step_count, task.max_steps)
        };
        {
            let mut chain = self.chain.borrow_mut();
            chain.step_id = format!("{}.{count}", chain.task_id);
        }
        self.in_step.set(true);
        self.tell(Event::StepStarted(Step { step_count: count }));
        let is_near = count.saturating_mul(5) >= most.saturating_mul(4);
        if is_near && !self.is_warned.replace(true) {
            self.tell(Event::StepLimitApproaching(StepLimit { step_count: count, max_steps: most }));
        }
        self.asked.set(self.clock.now());
        self.tell(Event::LlmRequestStarted(LlmStarted { model: model.to_string(), estimated_input_tokens: None }));
    }

    fn end_step(&self) {
        if self.in_step.replace(false) {
            let step_count = self.state.borrow().task.as_ref().map_or(0, |task| task.step_count);
            self.tell(Event::StepCompleted(Step { step_count }));
            self.chain.borrow_mut().step_id.clear();
        }
    }

    /// The model has answered.
    pub fn answered(&self, model: &str, usage: &TokenUsage) {
        self.set_task(TaskStatus::ProcessingResponse);
        let (input, output) = (u64::from(usage.prompt_tokens), u64::from(usage.completion_tokens));
        self.tokens.set(self.tokens.get().saturating_add(input).saturating_add(output));
        self.tell(Event::LlmRequestCompleted(LlmCompleted {
            model: model.to_string(),
            input_tokens: input,
            output_tokens: output,
            latency_ms: self.clock.now().saturating_sub(self.asked.get()) / MILLISECOND,
        }));
    }

    /// A piece of the model's text. A client that reads slowly gets fewer of them.
    pub fn text(&self, text: &str) {
        let room = self.out.borrow_mut().room_for_text(text.len());
        if let Some(lost_bytes) = room {
            self.tell(Event::TextChunk(TextChunk { text: text.to_string(), lost_bytes }));
        }
    }

    /// A call was proposed now.
    pub fn propose(&self, call: &str) {
        self.proposed.borrow_mut().insert(call.to_string(), self.clock.now());
    }

    /// Milliseconds since a call was proposed.
    pub fn since_proposed(&self, call: &str) -> u64 {
        let proposed = self.proposed.borrow_mut().remove(call);
        proposed.map_or(0, |at| self.clock.now().saturating_sub(at) / MILLISECOND)
    }

    /// Cancels the task.
    pub fn cancel(&self) {
        self.cancelled.happen();
    }

    /// Waits until the task is cancelled.
    pub async fn cancelled(&self) {
        self.cancelled.after(self.known.get()).await;
    }

    /// Tasks and tokens of the session.
    pub fn totals(&self) -> (u32, u64) {
        (self.tasks.get(), self.tokens.get())
    }
}

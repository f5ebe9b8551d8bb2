//! A simulated world: every operation takes one millisecond of a clock that nothing but the simulation moves, and
//! everything that happens is traced in order.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use capos_agent::world::*;
use capos_agent::{Agent, Backlog, Brought, Conversation, Patch, Session, Snapshot, Tool, TurnEnd, handle_text};
use capos_audit::{Chain, Event};
use capos_run_state::Checkpoint;
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::authority::{ConsentReach, Decision, Label, Reply, Risk, SessionLimits, Span, ToolQuestion};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::*;
use serde_json::Value;

use crate::machine::Machine;

pub const MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub enum Piece {
    Text(&'static str),
    Say(String),
    Call { id: String, name: String, handle: String, arguments: String },
    Loose { tool: &'static str, why: &'static str },
    Wait(u64),
    Removed(u32),
    Finish(FinishReason),
    Usage(u32),
    Break,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Trace {
    Before(u64, String),
    Effect(String),
    EffectEnd(String),
    After(u64, String, Outcome),
    Refused(String, Option<Decision>, Outcome),
}

pub struct Sim {
    pub clock: Cell<u64>,
    /// How long a program waits for an answer.
    pub gives_up: Cell<Option<u64>>,
    /// Whether a program asks about all of its steps at the same time.
    pub at_once: Cell<bool>,
    /// Whether checkpoints are kept.
    pub keeps: Cell<bool>,
    /// Of each question, whether the turn has not read the file that it is about.
    pub unread: RefCell<Vec<bool>>,
    /// Whether the broker keeps a consent for the session.
    pub stands: Cell<bool>,
    /// When the policy expires.
    pub policy_expires: Rc<Cell<u64>>,
    timers: RefCell<Vec<u64>>,
    tasks: RefCell<Vec<LocalBoxFuture<'static, ()>>>,
    pub script: RefCell<VecDeque<Vec<Piece>>>,
    /// What is answered to requests for summaries; none if the model is not able to make any.
    pub summaries: RefCell<Option<VecDeque<Vec<Piece>>>>,
    /// Tokens that the model can read and write together.
    pub window: Cell<u32>,
    pub requests: RefCell<Vec<InferenceRequest>>,
    pub events: RefCell<Vec<ToolEvent>>,
    pub messages: RefCell<Vec<GeneralEvent>>,
    /// What was kept beside the conversation: name, what is said of it, text. None: the session keeps nothing.
    pub kept: RefCell<Option<Result<Vec<[String; 3]>, String>>>,
    /// What was saved of the conversation.
    pub saved: RefCell<Vec<String>>,
    /// What runs had used when they began or went on.
    pub begun_with: RefCell<Vec<Amounts>>,
    /// What their first requests were estimated to take, in tokens.
    pub estimated: RefCell<Vec<(u64, u64)>>,
    /// Where runs were, and whether they could be continued.
    pub points: RefCell<Vec<(Checkpoint, bool)>>,
    /// What outlasts a power cut, and when there is one.
    pub machine: RefCell<Option<Rc<Machine>>>,
    /// Whose messages were saved, with the effects in between.
    pub order: RefCell<Vec<&'static str>>,
    /// The tool whose call turns the machine off, whether one has asked for that, and why the machine stays on.
    pub switch: Cell<Option<&'static str>>,
    pub leaving: Cell<bool>,
    pub stays_on: Cell<Option<&'static str>>,
    pub trace: RefCell<Vec<Trace>>,
    /// When effects began, by their arguments.
    pub began: RefCell<BTreeMap<String, u64>>,
    pub answers: RefCell<VecDeque<Answer>>,
    pub secrets: RefCell<VecDeque<Secret>>,
    /// How long the person takes to answer.
    pub thinks: Cell<u64>,
    /// What is found when a condition is checked.
    pub looks: RefCell<VecDeque<Result<String, String>>>,
    pub shown: RefCell<Vec<String>>,
    pub prompts: RefCell<Vec<String>>,
    /// What the broker heard of the person's replies where they did not agree.
    pub replies: RefCell<Vec<Reply>>,
    /// Whether the model takes a conversation with calls.
    pub takes_calls: Cell<bool>,
    pub interrupt_at: Cell<Option<u64>>,
    /// The broker's own map, by tool.
    pub modes: RefCell<BTreeMap<String, PermissionMode>>,
    /// What the person is told of a tool's calls, by tool.
    pub notes: RefCell<BTreeMap<String, String>>,
    /// Tools whose calls an earlier answer covers, and its number.
    pub approvals: RefCell<BTreeMap<String, String>>,
    /// Whether they end before the decision.
    pub revoked: Cell<bool>,
    /// How far the person's consents reach, and what the broker heard of that.
    pub reach: RefCell<ConsentReach>,
    pub reaches: RefCell<Vec<ConsentReach>>,
    pub decisions: Cell<u32>,
    pub budget: Cell<u64>,
    /// Why the next requests are not answered.
    pub faults: RefCell<VecDeque<Unasked>>,
    /// Requests that may still be made.
    pub rate: Cell<u32>,
    pub audit_down: Cell<bool>,
    /// Until then the log answers nothing.
    pub audit_hangs: Cell<u64>,
    /// The log itself: what the service would hold.
    pub chain: RefCell<Chain>,
    pub backlog: Rc<Backlog>,
    /// How long the broker takes before it records a decision, and after that.
    pub broker_takes: Cell<(u64, u64)>,
    pub broker_down: Cell<bool>,
    /// Whether the broker says why it rules as it does.
    pub gives_reasons: Cell<bool>,
    /// The labels that came with calls.
    pub given: RefCell<Vec<Label>>,
    /// The budget of the run.
    pub run: RefCell<crate::budget::Steps>,
    seed: Cell<u8>,
    cancelled_streams: Cell<u32>,
}

/// The simulation, and what a child run has for itself.
#[derive(Clone)]
pub struct World(pub Rc<Sim>, pub Option<Rc<crate::children::Inner>>);

struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl World {
    pub fn new(script: Vec<Vec<Piece>>) -> Self {
        Self(
            Rc::new(Sim {
                clock: Cell::new(0),
                gives_up: Cell::new(None),
                at_once: Cell::new(false),
                keeps: Cell::new(true),
                unread: RefCell::default(),
                stands: Cell::new(false),
                policy_expires: Rc::new(Cell::new(u64::MAX)),
                timers: RefCell::default(),
                tasks: RefCell::default(),
                script: RefCell::new(script.into()),
                summaries: RefCell::default(),
                window: Cell::new(0),
                requests: RefCell::default(),
                events: RefCell::default(),
                messages: RefCell::default(),
                kept: RefCell::default(),
                saved: RefCell::default(),
                begun_with: RefCell::default(),
                estimated: RefCell::default(),
                points: RefCell::default(),
                machine: RefCell::default(),
                order: RefCell::default(),
                switch: Cell::default(),
                leaving: Cell::default(),
                stays_on: Cell::default(),
                trace: RefCell::default(),
                began: RefCell::default(),
                answers: RefCell::default(),
                secrets: RefCell::default(),
                thinks: Cell::new(3 * MS),
                looks: RefCell::default(),
                shown: RefCell::default(),
                prompts: RefCell::default(),
                replies: RefCell::default(),
                takes_calls: Cell::new(true),
                interrupt_at: Cell::new(None),
                modes: RefCell::new(TOOLS.iter().map(|(name, mode, ..)| ((*name).to_string(), *mode)).collect()),
                notes: RefCell::default(),
                approvals: RefCell::default(),
                revoked: Cell::new(false),
                reach: RefCell::default(),
                reaches: RefCell::default(),
                decisions: Cell::new(0),
                budget: Cell::new(1_000_000),
                run: RefCell::default(),
                audit_down: Cell::new(false),
                audit_hangs: Cell::new(0),
                chain: RefCell::new(Chain::new(8 << 20)),
                backlog: Rc::default(),
                broker_takes: Cell::new((0, MS)),
                faults: RefCell::default(),
                rate: Cell::new(u32::MAX),
                broker_down: Cell::new(false),
                gives_reasons: Cell::new(true),
                given: RefCell::default(),
                seed: Cell::new(0),
                cancelled_streams: Cell::new(0),
            }),
            None,
        )
    }

    /// What outlasts a power cut, in tests of that.
    pub fn machine(&self) -> Option<Rc<Machine>> {
        self.0.machine.borrow().clone()
    }

    /// A place at which the power may go: then nothing comes after it.
    pub async fn boundary(&self) {
        if let Some(machine) = self.machine() {
            machine.boundary().await;
        }
    }

    pub fn pause(&self, duration: u64) -> LocalBoxFuture<'static, ()> {
        self.sleep_until(self.0.clock.get() + duration)
    }

    /// Runs a future and all tasks; the clock jumps to the next timer when nothing else can go on.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.run_for(future, usize::MAX).expect("it ends")
    }

    /// The same for this many steps at most: nothing comes of a future that has not ended then.
    pub fn run_for<T>(&self, future: impl Future<Output = T>, steps: usize) -> Option<T> {
        let mut future = Box::pin(future);
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(flag.clone());
        let cx = &mut Context::from_waker(&waker);
        for _ in 0..steps {
            // Whatever still waits says so again; timers of futures that were dropped are gone.
            self.0.timers.borrow_mut().clear();
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Some(value);
            }
            let before = self.0.tasks.borrow().len();
            self.poll_tasks(cx);
            let ended = self.0.tasks.borrow().len() != before;
            if self.machine().is_some_and(|machine| machine.is_dead()) {
                return None;
            }
            if !ended && !flag.0.swap(false, Ordering::Relaxed) {
                assert!(self.advance(), "nothing can go on: {:?}", self.0.shown.borrow());
            }
        }
        None
    }

    /// Whatever still runs stops where it is.
    pub fn power_off(&self) {
        self.0.tasks.borrow_mut().clear();
        self.0.timers.borrow_mut().clear();
    }

    fn poll_tasks(&self, cx: &mut Context<'_>) {
        let mut tasks = self.0.tasks.take();
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        self.0.tasks.borrow_mut().append(&mut tasks);
    }

    fn advance(&self) -> bool {
        let now = self.0.clock.get();
        let timers = self.0.timers.borrow();
        assert!(timers.iter().all(|at| *at > now));
        let Some(next) = timers.iter().min() else { return false };
        self.0.clock.set(*next);
        true
    }

    /// Lets what still runs beside come to its end.
    pub fn drain(&self) {
        let world = self.clone();
        self.run(poll_fn(move |_| if world.0.tasks.borrow().is_empty() { Poll::Ready(()) } else { Poll::Pending }));
    }

    pub fn outcomes(&self) -> Vec<Outcome> {
        let events = self.0.events.borrow();
        events.iter().filter(|event| event.phase != Phase::Before).map(|event| event.outcome).collect()
    }

    pub fn effects(&self) -> Vec<String> {
        let trace = self.0.trace.borrow();
        trace.iter().filter_map(|entry| if let Trace::Effect(a) = entry { Some(a.clone()) } else { None }).collect()
    }

    pub fn cancelled_streams(&self) -> u32 {
        self.0.cancelled_streams.get()
    }

    /// Records and effects belong together one to one, in the right order.
    pub fn check_audit(&self) {
        let trace = self.0.trace.borrow();
        let at = |wanted: &dyn Fn(&Trace) -> bool| {
            trace.iter().enumerate().filter(|(_, entry)| wanted(entry)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        for (place, entry) in trace.iter().enumerate() {
            match entry {
                Trace::Before(sequence, arguments) => {
                    let after = at(&|entry| matches!(entry, Trace::After(before, ..) if before == sequence));
                    assert_eq!(after.len(), 1, "{entry:?} in {trace:#?}");
                    let effects = at(&|entry| matches!(entry, Trace::Effect(done) if done == arguments));
                    let not_begun = matches!(&trace[after[0]],
                        Trace::After(_, error, Outcome::Cancelled | Outcome::RefusedByPolicy)
                        if error.contains("did not start"));
                    // What a child run does is recorded by itself. A step is done by its program.
                    let of_program = |event: &&ToolEvent| event.descriptor.name == "ask_before_step";
                    let events = self.0.events.borrow();
                    let is_step = events.iter().filter(of_program).any(|event| event.arguments == *arguments);
                    let is_elsewhere = is_step || arguments.contains("\"task\":");
                    let is_effect = !not_begun && !is_elsewhere;
                    assert_eq!(effects.len(), usize::from(is_effect), "{entry:?} in {trace:#?}");
                    for effect in effects {
                        assert!(place < effect && effect < after[0], "{entry:?} in {trace:#?}");
                    }
                }
                Trace::Effect(arguments) => {
                    let before = at(&|entry| matches!(entry, Trace::Before(_, found) if found == arguments));
                    assert_eq!(before.len(), 1, "{entry:?} in {trace:#?}");
                }
                Trace::After(sequence, ..) => {
                    let before = at(&|entry| matches!(entry, Trace::Before(found, _) if found == sequence));
                    assert_eq!(before.len(), 1, "{entry:?} in {trace:#?}");
                }
                Trace::EffectEnd(_) | Trace::Refused(..) => {}
            }
        }
    }
}

/// Name, mode, abortable, time limit in milliseconds, capability.
pub const TOOLS: [(&str, PermissionMode, bool, u32, u64); 12] = [
    ("read", PermissionMode::Auto, true, 100, 1),
    ("read_other", PermissionMode::Auto, true, 100, 2),
    ("read_third", PermissionMode::Auto, true, 100, 3),
    ("write", PermissionMode::Consent, false, 100, 1),
    ("delete", PermissionMode::StepUp, false, 100, 1),
    ("power_off", PermissionMode::Forbidden, false, 100, 4),
    ("slow", PermissionMode::Auto, false, 100, 5),
    ("fails", PermissionMode::Auto, true, 100, 6),
    ("secret", PermissionMode::Auto, true, 100, 7),
    ("copy", PermissionMode::Auto, true, 100, 8),
    ("change", PermissionMode::Auto, true, 100, 1),
    ("careful", PermissionMode::Auto, true, 600_000, 9),
];

pub fn handle(name: &str) -> String {
    let at = TOOLS.iter().position(|tool| tool.0 == name).expect("a tool of the simulation");
    handle_text([at as u8 + 1; 16])
}

pub fn snapshot() -> Snapshot {
    let tools = TOOLS.iter().map(|&(name, permission, abortable, timeout_ms, capability)| Tool {
        descriptor: ToolDescriptor {
            name: name.into(),
            description: format!("Does {name}."),
            param_schema: "{}".into(),
            permission,
            handle: handle(name),
            abortable,
            timeout_ms,
            category: if name == "change" { "mutating" } else { "readOnly" }.into(),
            ..ToolDescriptor::default()
        },
        capability,
        method: 0,
        touches: vec![capability],
        max_result: 64,
        untrusted: name.starts_with("read"),
        pieces: false,
        label: Label { classes: if name == "secret" { vec!["secret.key".into()] } else { vec![] } },
    });
    Snapshot::new(tools.collect()).unwrap()
}

pub fn session(limits: SessionLimits) -> Session {
    Session {
        id: "s1".into(),
        principal: "ada".into(),
        limits,
        started: 0,
        policy_expires: Rc::new(Cell::new(u64::MAX)),
    }
}

pub fn agent(world: &World, limits: SessionLimits) -> Agent<World> {
    Agent::new(
        Rc::new(world.clone()),
        Session { policy_expires: world.0.policy_expires.clone(), ..session(limits) },
        "You are careful.".into(),
        Conversation::new("c1".into()),
        world.0.backlog.clone(),
    )
}

pub fn turn(world: &World) -> (TurnEnd, Agent<World>) {
    let mut agent = agent(world, SessionLimits::default());
    let end = world.run(agent.turn("please", &snapshot()));
    (end, agent)
}

pub fn call(id: &str, name: &str, arguments: &str) -> Piece {
    Piece::Call { id: id.into(), name: name.into(), handle: handle(name), arguments: arguments.into() }
}

/// Whether a request asks for a summary: its system prompt is another one.
pub fn is_for_summary(request: &InferenceRequest) -> bool {
    request.messages[0].content.starts_with("You shorten conversations")
}

impl Model for World {
    type Stream = Stream;

    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "sha256:1-scripted".into(),
            backend: "local-scripted".into(),
            context_tokens: self.0.window.get(),
            summarises: self.0.summaries.borrow().is_some(),
            ..ModelInfo::default()
        }
    }

    async fn stream(&self, request: &InferenceRequest) -> Result<Stream, Unasked> {
        let left = self.0.rate.get().checked_sub(1);
        self.0.rate.set(left.ok_or(Unasked::Limit("too many requests".into()))?);
        self.0.requests.borrow_mut().push(request.clone());
        self.pause(MS).await;
        if let Some(machine) = self.machine() {
            machine.ask_model(self).await;
        }
        if let Some(fault) = self.0.faults.borrow_mut().pop_front() {
            return Err(fault);
        }
        if !self.0.takes_calls.get() && request.messages.iter().any(|message| message.role == Role::Tool) {
            return Err(Unasked::Rejected("it takes no calls".into()));
        }
        let pieces = match is_for_summary(request) {
            true => self.0.summaries.borrow_mut().as_mut().and_then(VecDeque::pop_front),
            false => self.0.script.borrow_mut().pop_front(),
        };
        let pieces = pieces.ok_or(Unasked::Failed("the script is over".into()))?;
        Ok(Stream { world: self.clone(), pieces: pieces.into(), next: 0, usage: TokenUsage::default() })
    }
}

pub struct Stream {
    world: World,
    pieces: VecDeque<Piece>,
    next: u32,
    usage: TokenUsage,
}

impl ModelStream for Stream {
    async fn next(&mut self) -> Result<(StreamChunk, bool), Broken> {
        loop {
            self.world.pause(MS).await;
            match self.pieces.pop_front() {
                Some(Piece::Say(text)) => return Ok((StreamChunk::TextDelta(text), false)),
                Some(Piece::Text(text)) => return Ok((StreamChunk::TextDelta(text.into()), false)),
                Some(Piece::Call { id, name, handle, arguments }) => {
                    let index = self.next;
                    self.next += 1;
                    let delta = ToolCallDelta { index, id, name, handle, arguments };
                    return Ok((StreamChunk::ToolCallDelta(delta), false));
                }
                Some(Piece::Loose { tool, why }) => {
                    let (tool, why) = (tool.into(), why.into());
                    return Ok((StreamChunk::Loose(StreamChunkLoose { tool, why }), false));
                }
                Some(Piece::Removed(messages)) => return Ok((StreamChunk::Removed(messages), false)),
                Some(Piece::Wait(ms)) => self.world.pause(ms * MS).await,
                Some(Piece::Usage(tokens)) => self.usage.completion_tokens = tokens,
                Some(Piece::Break) => return Err(Broken::Off("the worker died".into())),
                Some(Piece::Finish(reason)) => {
                    let finish = StreamChunkFinish { usage: self.usage.clone(), reason };
                    return Ok((StreamChunk::Finish(finish), true));
                }
                None => {
                    let left = self.world.0.budget.get().saturating_sub(u64::from(self.usage.completion_tokens));
                    self.world.0.budget.set(left);
                    let finish = StreamChunkFinish { usage: self.usage.clone(), reason: FinishReason::Stop };
                    return Ok((StreamChunk::Finish(finish), true));
                }
            }
        }
    }

    fn cancel(self) {
        self.world.0.cancelled_streams.set(self.world.0.cancelled_streams.get() + 1);
    }
}

impl Tools for World {
    type Prepared = Value;

    fn prepare(&self, _tool: &Tool, arguments: &str, label: &Label) -> Result<(Value, String), String> {
        self.0.given.borrow_mut().push(label.clone());
        let mut value: Value = serde_json::from_str(arguments).map_err(|bad| format!("not valid JSON: {bad}"))?;
        value.sort_all_objects();
        for (key, value) in value.as_object().ok_or("not an object")? {
            match key.as_str() {
                "ms" | "n" if value.is_u64() => {}
                "tokens" | "modelCalls" | "toolCalls" | "seconds" if value.is_u64() => {}
                "action" | "from" | "pad" | "path" | "program" | "task" | "to" if value.is_string() => {}
                "arguments" | "tools" if value.is_array() => {}
                _ => return Err(format!("`{key}` is not a parameter")),
            }
        }
        let canonical = value.to_string();
        Ok((value, canonical))
    }

    fn invoke(
        &self,
        tool: &Tool,
        prepared: Value,
        asker: Option<Rc<dyn Asker>>,
    ) -> LocalBoxFuture<'static, Result<Brought, String>> {
        let (world, name) = (self.clone(), tool.descriptor.name.clone());
        Box::pin(async move {
            let text = prepared.to_string();
            world.boundary().await;
            if let Some(machine) = world.machine() {
                machine.effect();
            }
            world.0.trace.borrow_mut().push(Trace::Effect(text.clone()));
            world.0.began.borrow_mut().insert(text.clone(), world.now());
            world.0.order.borrow_mut().push("effect");
            world.pause(prepared.get("ms").and_then(Value::as_u64).unwrap_or(2) * MS).await;
            world.0.trace.borrow_mut().push(Trace::EffectEnd(text));
            world.0.leaving.set(world.0.leaving.get() || world.0.switch.get() == Some(&*name));
            world.boundary().await;
            match name.as_str() {
                "fails" => Err("disk on fire, password=hunter2".into()),
                // A program that asks before each of its steps, and tells what it was told.
                "careful" => {
                    let asker = asker.ok_or("nobody can be asked")?;
                    let mut told = Vec::new();
                    let steps = 1..=prepared.get("n").and_then(Value::as_u64).unwrap_or(1);
                    let mut asked: Vec<_> =
                        steps.map(|step| (step, Some(asker.ask("cleaner", &format!("delete file {step}"))))).collect();
                    if world.0.at_once.get() {
                        poll_fn(|context| {
                            for (_, question) in &mut asked {
                                let question = question.as_mut().expect("a question that was not polled to its end");
                                assert!(question.as_mut().poll(context).is_pending());
                            }
                            Poll::Ready(())
                        })
                        .await;
                    }
                    if world.0.gives_up.get().is_some() {
                        // First on what waits behind the others.
                        asked.reverse();
                    }
                    for (step, question) in asked {
                        let patience = world.pause(world.0.gives_up.get().unwrap_or(u64::MAX / 4));
                        let answer = match capos_agent::race(question.expect("a question"), patience).await {
                            capos_agent::Either::Left(answer) => answer,
                            capos_agent::Either::Right(()) => Err("it gave up".to_string()),
                        };
                        told.push(answer.map_or_else(|why| format!("{step}: {why}"), |()| format!("{step}: done")));
                    }
                    Ok(told.join("; ").into())
                }
                "secret" => Ok("token=abcdef".to_string().into()),
                "look" => {
                    world.0.looks.borrow_mut().pop_front().unwrap_or(Err("nothing is there".into())).map(Into::into)
                }
                "copy" => {
                    let label = Label { classes: vec!["pii.log".into()] };
                    Ok(Brought { text: "as it was".into(), label, ..Brought::default() })
                }
                name => {
                    let pad = prepared.get("pad").and_then(Value::as_str).filter(|pad| pad.starts_with("password"));
                    let text = format!("result of {name}: {}{}", "é".repeat(100), pad.unwrap_or_default());
                    let path = prepared.get("path").and_then(Value::as_str).filter(|_| name == "write");
                    let patch = path.map(|path| Patch {
                        path: path.to_string(),
                        text: "-old\n+new\n".to_string(),
                        label: Label { classes: vec!["pii.log".into()] },
                    });
                    Ok(Brought { text, patch, ..Brought::default() })
                }
            }
        })
    }

    fn is_leaving(&self) -> bool {
        self.0.leaving.get()
    }

    async fn leave(&self) -> Result<(), String> {
        self.0.leaving.set(false);
        self.0.order.borrow_mut().push("off");
        self.0.stays_on.get().map_or(Ok(()), |why| Err(why.to_string()))
    }
}

impl Gate for World {
    type Lease = String;

    async fn review(&self, question: &ToolQuestion) -> Result<Review, String> {
        self.pause(MS).await;
        if self.0.broker_down.get() {
            return Err("it is gone".into());
        }
        let mode = self.0.modes.borrow().get(&question.tool).copied().unwrap_or(PermissionMode::Forbidden);
        let note = self.0.notes.borrow().get(&question.tool).cloned().unwrap_or_default();
        let approval = self.0.approvals.borrow().get(&question.tool).cloned().unwrap_or_default();
        let risk = if question.category == "destructive" { Risk::High } else { Risk::Medium };
        Ok(Review { mode, note, approval, risk })
    }

    async fn decide(
        &self,
        question: &ToolQuestion,
        mode: PermissionMode,
        reply: Reply,
        reach: &ConsentReach,
    ) -> Result<Ruling<String>, String> {
        let covered = self.0.approvals.borrow().contains_key(&question.tool) && !self.0.revoked.get();
        if reply == Reply::Agreed {
            self.0.reaches.borrow_mut().push(reach.clone());
            if reach.span == Span::Session && self.0.stands.get() {
                self.0.approvals.borrow_mut().entry(question.tool.clone()).or_insert("#1".into());
            }
        }
        let own = self.0.modes.borrow().get(&question.tool).copied().unwrap_or(PermissionMode::Forbidden);
        if !matches!(reply, Reply::NotAsked | Reply::Agreed) {
            self.0.replies.borrow_mut().push(reply);
        }
        let decision = match own {
            PermissionMode::Auto => Decision::Auto,
            PermissionMode::Consent if (covered || reply == Reply::Agreed) && mode == own => Decision::Consented,
            PermissionMode::Consent => Decision::Denied,
            PermissionMode::StepUp => Decision::StepUpFailed,
            PermissionMode::Forbidden => Decision::Forbidden,
        };
        let reason = if self.0.gives_reasons.get() { format!("the map says {own}") } else { String::new() };
        self.broker(question, Ruling { decision, reason, lease: None }).await
    }

    async fn step_up(&self, question: &ToolQuestion, passphrase: &str) -> Result<Ruling<String>, String> {
        let good = passphrase == "open sesame";
        let ruling = Ruling {
            decision: if good { Decision::StepUpSucceeded } else { Decision::StepUpFailed },
            reason: "the passphrase".into(),
            lease: good.then(|| question.arguments.clone()),
        };
        self.broker(question, ruling).await
    }

    async fn redeem(&self, lease: String, question: &ToolQuestion) -> Result<(), String> {
        self.pause(MS).await;
        if lease == question.arguments { Ok(()) } else { Err("for another call".into()) }
    }

    async fn remaining(&self) -> Result<u64, BudgetError> {
        self.pause(MS).await;
        match self.0.budget.get() {
            _ if self.0.broker_down.get() => Err(BudgetError::Unavailable("it is gone".into())),
            0 => Err(BudgetError::Exhausted("the budget is used up".into())),
            left => Ok(left),
        }
    }
}

/// A question that is open.
struct Open(World);

impl Open {
    fn new(world: &World, ask: &Ask<'_>) -> Self {
        let prompt = prompt(ask);
        world.0.shown.borrow_mut().push(format!("asked {prompt}"));
        world.0.unread.borrow_mut().push(ask.is_unread);
        world.0.prompts.borrow_mut().push(prompt);
        Self(world.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.shown.borrow_mut().push("answered".into());
    }
}

/// What the person sees of a question.
fn prompt(ask: &Ask<'_>) -> String {
    format!("{} {} {}", ask.tool.descriptor.name, ask.arguments, ask.note).trim_end().to_string()
}

impl Approver for World {
    async fn consent(&self, ask: &Ask<'_>) -> Result<ConsentReach, Reply> {
        let _open = Open::new(self, ask);
        let interrupted = self.interrupt();
        let thinks = self.0.thinks.get();
        match capos_agent::race(interrupted, self.pause(thinks)).await {
            capos_agent::Either::Left(()) => Err(Reply::Interrupted),
            capos_agent::Either::Right(()) => match self.0.answers.borrow_mut().pop_front() {
                Some(Answer::Yes) => Ok(self.0.reach.borrow().clone()),
                Some(Answer::Interrupted) => Err(Reply::Interrupted),
                Some(Answer::Lost) => Err(Reply::Lost),
                Some(Answer::No) | None => Err(Reply::Declined),
            },
        }
    }

    async fn go_on(&self, calls: u32, more: u32) -> Answer {
        self.0.prompts.borrow_mut().push(format!("{calls} made, {more} more"));
        let interrupted = self.interrupt();
        match capos_agent::race(interrupted, self.pause(self.0.thinks.get())).await {
            capos_agent::Either::Left(()) => Answer::Interrupted,
            capos_agent::Either::Right(()) => self.0.answers.borrow_mut().pop_front().unwrap_or(Answer::No),
        }
    }

    async fn more(&self, excess: &Excess) -> More {
        self.0.prompts.borrow_mut().push(excess.text.clone());
        let interrupted = self.interrupt();
        match capos_agent::race(interrupted, self.pause(self.0.thinks.get())).await {
            capos_agent::Either::Left(()) => More::Interrupted,
            capos_agent::Either::Right(()) => self.0.run.borrow_mut().answers.pop_front().unwrap_or(More::No),
        }
    }

    async fn passphrase(&self, ask: &Ask<'_>) -> Secret {
        let _open = Open::new(self, ask);
        let interrupted = self.interrupt();
        let thinks = self.0.thinks.get();
        match capos_agent::race(interrupted, self.pause(thinks)).await {
            capos_agent::Either::Left(()) => Secret::Interrupted,
            capos_agent::Either::Right(()) => self.0.secrets.borrow_mut().pop_front().unwrap_or(Secret::Declined),
        }
    }
}

impl Audit for World {
    async fn tool(&self, event: &ToolEvent) -> Result<u64, AuditError> {
        let (world, event) = (self.clone(), event.clone());
        self.append(move |chain, now| {
            let head = chain.append_tool(now, event)?;
            let Some(Event::Tool(event)) = chain.get(head.sequence).map(|record| record.event.clone()) else {
                panic!("what was just recorded is no tool call")
            };
            world.0.trace.borrow_mut().push(match event.phase {
                Phase::Before => Trace::Before(head.sequence, event.arguments.clone()),
                Phase::After => Trace::After(event.before, event.error.clone(), event.outcome),
                Phase::Refused => Trace::Refused(
                    event.descriptor.name.clone(),
                    event.decided.then_some(event.decision),
                    event.outcome,
                ),
            });
            world.0.events.borrow_mut().push(*event);
            Ok(head)
        })
        .await
    }

    async fn general(&self, event: &GeneralEvent) -> Result<u64, AuditError> {
        let (world, event) = (self.clone(), event.clone());
        let written = self.append(move |chain, now| {
            let head = chain.append_general(now, event.clone())?;
            world.0.messages.borrow_mut().push(event);
            Ok(head)
        });
        match capos_agent::race(written, self.pause(10_000 * MS)).await {
            capos_agent::Either::Left(written) => written,
            capos_agent::Either::Right(()) => Err(AuditError::Unavailable("no answer".into())),
        }
    }
}

impl Keeper for World {
    async fn keep(&self, name: &str, about: &str, text: &str) -> Result<bool, String> {
        match self.0.kept.borrow_mut().as_mut() {
            None => Ok(false),
            Some(Ok(kept)) => {
                kept.push([name, about, text].map(str::to_string));
                Ok(true)
            }
            Some(Err(why)) => Err(why.clone()),
        }
    }

    async fn save(&self, conversation: &Conversation, run: Option<(&Checkpoint, bool)>) -> bool {
        if self.1.is_some() {
            return false;
        }
        self.pause(MS).await;
        if let Some((checkpoint, open)) = run {
            self.0.points.borrow_mut().push((checkpoint.clone(), open));
        }
        if let Some(machine) = self.machine() {
            machine.save(self, conversation, run).await;
        }
        let mut saved = self.0.saved.borrow_mut();
        for entry in conversation.entries().get(saved.len()..).unwrap_or_default() {
            saved.push(entry.dump());
            self.0.order.borrow_mut().push(entry.message.role.name());
        }
        run.is_some() && self.0.keeps.get()
    }
}

impl Host for World {
    fn now(&self) -> u64 {
        self.0.clock.get()
    }

    fn sleep_until(&self, at: u64) -> LocalBoxFuture<'static, ()> {
        let world = self.clone();
        Box::pin(poll_fn(move |_| {
            if world.0.clock.get() >= at {
                return Poll::Ready(());
            }
            world.0.timers.borrow_mut().push(at);
            Poll::Pending
        }))
    }

    fn random(&self) -> [u8; 16] {
        self.0.seed.set(self.0.seed.get().wrapping_add(1));
        [self.0.seed.get(); 16]
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        self.0.tasks.borrow_mut().push(task);
    }

    fn interrupt(&self) -> LocalBoxFuture<'static, ()> {
        if let Some(child) = &self.1 {
            return child.interrupt();
        }
        match self.0.interrupt_at.get() {
            Some(at) => self.sleep_until(at),
            None => Box::pin(std::future::pending()),
        }
    }
}

impl Renderer for World {
    async fn show(&self, show: Show<'_>) {
        let text = match show {
            Show::State(state) => format!("state {state:?}"),
            Show::Text(text) => format!("text {text}"),
            Show::Proposed { name, arguments, .. } => format!("proposed {name} {arguments}"),
            Show::Started { tool, call_id } => format!("started {} {call_id}", tool.descriptor.name),
            Show::Finished { name, call_id, outcome, text, .. } => {
                format!("finished {name} {call_id} {outcome} {text}")
            }
            Show::Notice(text) => format!("notice {text}"),
            Show::Summarised { messages } => format!("summarised {messages}"),
            Show::Progress { .. } => "progress".into(),
            Show::CallPiece { index, name, arguments } => format!("call {index} piece {name}|{arguments}"),
            Show::Loose { tool, why } => format!("loose {tool}: {why}"),
            Show::AnswerEnd { .. } => "answer end".into(),
            Show::AnswerDropped => "answer dropped".into(),
        };
        let whose = self.1.as_ref().map(|child| format!("child {}: ", child.number)).unwrap_or_default();
        self.0.shown.borrow_mut().push(format!("{whose}{text}"));
    }
}

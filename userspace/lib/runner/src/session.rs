//! One session: its capabilities as tools, and its conversation.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Host;
use capos_agent::{Agent, Backlog, Condition, Conversation, Course, Fate, Going, Handles, Snapshot, TurnEnd};
use capos_plural::count;
use capos_rt::{Error, log};
use capos_run_state::{Declared, Event, Predicate, SessionEvent, SessionState};
use capos_schema::audit::{GeneralEvent, GeneralEventField};
use capos_schema::authority::{Profile, UserSessionClient};
use capos_schema::models::ToolCall;
use capos_schema::terminal::Style;

use crate::escape::escape;
use crate::gate::PATIENCE;
use crate::runner::{Capabilities, Runner};
use crate::skills::InUse;
use crate::surface::Surface;
use crate::table;

/// What the model is told first. Only text of this program stands there; data has its place in the messages.
const SYSTEM: &str = include_str!("system-message.txt").trim_ascii_end();

/// The kind of a session's first record, which says by which surface it came.
pub const OPENED: &str = "session.opened";

/// A conversation, and how many of its messages are saved.
pub struct Kept {
    /// The conversation.
    pub conversation: Conversation,
    /// Its saved messages.
    pub saved: usize,
    /// The run of its last turn, with its conditions.
    pub run: Option<(Going, Vec<Declared>)>,
}

/// A session.
pub struct Session<S: Surface> {
    /// What its loop runs on.
    pub runner: Rc<Runner<S>>,
    /// The loop.
    pub agent: Agent<Runner<S>>,
    pub(crate) backlog: Rc<Backlog>,
    /// Where it and its runs are.
    pub course: Rc<Course>,
    /// What has to hold before the next run is done.
    pub conditions: Vec<Condition>,
    handles: Handles,
    /// Its tools.
    pub snapshot: Snapshot,
    /// The skills that it uses.
    pub skills: Vec<InUse>,
}

impl<S: Surface> Session<S> {
    /// Opens what the broker issued, with the conversation of an earlier session where there is one.
    ///
    /// # Errors
    /// The broker or the kernel's entropy does not answer.
    pub async fn open(
        held: &Capabilities,
        surface: S,
        user: UserSessionClient,
        kept: Option<Kept>,
    ) -> Result<Self, Error> {
        let info = user.info().await?;
        let runner = Runner::new(held, surface, user, info);
        let new = || Kept { conversation: Conversation::new(hex::encode(runner.random())), saved: 0, run: None };
        let Kept { conversation, saved, run } = kept.unwrap_or_else(new);
        runner.saving.begin(&conversation.id, saved);
        let backlog = Rc::<Backlog>::default();
        let course = Rc::new(runner.course());
        let agent = agent(&runner, conversation, (&backlog, &course));
        let (handles, snapshot) = (Handles::default(), Snapshot::default());
        let (conditions, skills) = Default::default();
        let mut session = Self { runner, agent, backlog, course, conditions, handles, snapshot, skills };
        session.refresh().await?;
        if let Some((going, declared)) = run {
            session.restore(going, declared).await;
        }
        if session.runner.info.model_allowed {
            session.runner.begin_with_model().await;
        }
        session.advance(SessionEvent::Open);
        let environment = session.runner.surface.name();
        session.course.emit(session.runner.now(), Event::SessionStarted { environment });
        Ok(session)
    }

    /// The session takes an event of its table.
    fn advance(&self, event: SessionEvent) {
        if let Err(why) = self.course.session_event(event) {
            log::error!("session {}: {why}; this is a fault of the runner", self.runner.info.id);
        }
    }

    /// The session has ended by itself, and `why`.
    pub fn failed(&self, why: &str) {
        self.advance(SessionEvent::Fail);
        self.course.emit(self.runner.now(), Event::SessionFailed { reason: why.to_string() });
    }

    /// The session's profile.
    pub fn profile(&self) -> Profile {
        self.runner.info.profile
    }

    /// The conversation, for another session. This one's pending records are written with its own writer: no other may
    /// record them.
    pub async fn into_conversation(self) -> Kept {
        self.flush_pending().await;
        let (conversation, saved) = (self.agent.conversation().clone(), self.runner.saving.saved());
        let declared = |conditions: &[Condition]| conditions.iter().map(Condition::declared).collect();
        let run = self.agent.going().map(|(going, conditions)| (going, declared(conditions)));
        Kept { conversation, saved, run }
    }

    /// Writes the pending records; if the audit log does not take them, the person is told.
    async fn flush_pending(&self) {
        let Err(why) = self.agent.flush_pending().await else { return };
        let text = {
            let (waiting, verb) = (self.backlog.waiting(), if self.backlog.waiting() == 1 { "is" } else { "are" });
            format!("{} of this session {verb} not in the audit log ({why})", count(waiting, "record"))
        };
        log::error!("{text}");
        self.runner.tell(Style::Warning, &text).await;
    }

    /// Rebuilds the tool table from the capabilities that the session has now.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn refresh(&mut self) -> Result<(), Error> {
        self.runner.refresh().await?;
        let runner = self.runner.clone();
        let grants = runner.grants.all();
        let offered = table::offered(&grants, |interface, tool| !runner.grants.offers(interface, tool));
        let questions = table::questions(&offered);
        let answers = self.runner.within(self.runner.user.permissions(&questions)).await?;
        // A capability of which no tool is offered any more has other handles when one is offered again.
        let has_tool = |at: usize| offered.iter().any(|tool| usize::try_from(tool.capability) == Ok(at));
        self.handles.retain(|name| grants.iter().enumerate().any(|(at, grant)| grant.name == name && has_tool(at)));
        self.snapshot =
            table::snapshot(offered, &answers, &grants, &mut self.handles, || runner.random()).map_err(Error::new)?;
        self.agent.set_policy(self.runner.policy_version.borrow().clone());
        Ok(())
    }

    /// Answers the person's request.
    pub async fn turn(&mut self, request: &str) -> TurnEnd {
        self.agent.until(core::mem::take(&mut self.conditions));
        let end = self.agent.turn(request, &self.snapshot).await;
        self.look_at(end)
    }

    /// Continues with the last turn.
    pub async fn go_on(&mut self) -> TurnEnd {
        let end = self.agent.go_on(&self.snapshot).await;
        self.look_at(end)
    }

    /// What the end of a turn means for the session: when its policy has expired, nothing runs in it any more.
    fn look_at(&self, end: TurnEnd) -> TurnEnd {
        if matches!(end, TurnEnd::Time(_) | TurnEnd::Policy) && self.course.session_state() == SessionState::Running {
            self.advance(SessionEvent::Pause);
        }
        end
    }

    /// Whether nothing runs until the policy is renewed.
    pub fn has_expired(&self) -> bool {
        self.course.session_state() == SessionState::Paused || self.runner.now() >= self.runner.policy_expires.get()
    }

    /// Has the broker renew the policy, after which a session that is paused runs again. Returns what is permitted otherwise
    /// now, one difference a line.
    ///
    /// # Errors
    /// The broker does not renew it: the person has to log in again.
    pub async fn renew(&mut self) -> Result<Vec<String>, String> {
        let renewed = self.runner.within(self.runner.user.renew_policy()).await.map_err(|why| why.to_string())?;
        self.runner.policy_expires.set(renewed.policy.expires);
        *self.runner.policy_version.borrow_mut() = renewed.policy.version;
        self.refresh().await.map_err(|why| format!("the policy is renewed, and the broker does not answer: {why}"))?;
        if self.course.session_state() == SessionState::Paused {
            self.advance(SessionEvent::Resume);
        }
        Ok(renewed.changes)
    }

    /// Begins a new conversation.
    pub fn forget(&mut self) {
        let id = hex::encode(self.runner.random());
        self.continue_with(Kept { conversation: Conversation::new(id), saved: 0, run: None });
    }

    /// Takes the id of the fork below which the conversation is saved, after another session has continued it.
    pub async fn follow_fork(&mut self) {
        let (id, saved) = (self.runner.saving.id(), self.runner.saving.saved());
        let conversation = self.agent.conversation();
        if conversation.id == id {
            return;
        }
        let messages = conversation.entries().len();
        let kept = Kept { conversation: conversation.fork(id.clone(), messages), saved, run: None };
        let run = self.agent.going().map(|(going, conditions)| (going, conditions.to_vec()));
        self.continue_with(kept);
        if let Some((going, conditions)) = run {
            self.agent.continue_run(going, conditions);
        }
        self.record("conversation.forked", &id).await;
    }

    /// Continues another conversation, in which no run continues.
    pub fn continue_with(&mut self, kept: Kept) {
        let Kept { conversation, saved, .. } = kept;
        self.runner.saving.begin(&conversation.id, saved);
        self.agent = agent(&self.runner, conversation, (&self.backlog, &self.course));
        self.agent.set_policy(self.runner.policy_version.borrow().clone());
        self.teach();
        self.runner.told_of.set(0);
    }

    /// Continues a conversation of an earlier session: no handle of that one names anything here.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn resume(
        &mut self,
        mut kept: Kept,
        fate: impl Fn(&ToolCall) -> Fate,
    ) -> Result<Vec<(ToolCall, Fate)>, Error> {
        self.handles = Handles::default();
        self.refresh().await?;
        let tools = self.snapshot.tools();
        let find = |name: &str| tools.iter().find(|tool| tool.descriptor.name == name);
        let now = self.runner.now();
        let handle = |name: &str| find(name).map(|tool| tool.descriptor.handle.clone());
        self.agent.leave_run().await;
        let open = kept.conversation.resume(now, handle, fate);
        let run = kept.run.take();
        self.continue_with(kept);
        if let Some((going, declared)) = run {
            self.restore(going, declared).await;
            self.agent.save().await;
        }
        self.record("conversation.resumed", &self.agent.conversation().id).await;
        Ok(open)
    }

    /// Continues the run of the last turn. Its conditions are declared again: what this session may not check does not hold.
    async fn restore(&mut self, going: Going, declared: Vec<Declared>) {
        let grants = self.runner.grants.all();
        let mut conditions = Vec::new();
        for Declared { condition, schema } in declared {
            let predicate = match Predicate::parse(&condition) {
                Ok(predicate) => predicate,
                Err(why) => {
                    let text = format!("a condition of this run is lost, as it cannot be read: {why}");
                    self.runner.tell(Style::Warning, &text).await;
                    continue;
                }
            };
            let tool = predicate.call().and_then(|(name, _)| table::own(&grants, name));
            let found = self.agent.declare(&conditions, predicate.clone(), tool, schema.clone()).await;
            conditions.push(match found {
                Ok(condition) => condition,
                Err(why) => {
                    let text = format!("the condition `{}` cannot be checked now: {why}", escape(&condition));
                    self.runner.tell(Style::Warning, &text).await;
                    Condition::unchecked(predicate, schema, why)
                }
            });
        }
        self.agent.continue_run(going, conditions);
    }

    /// Waits for calls that still run, and tells the broker that the session is over.
    pub async fn end(&mut self) {
        let limit = self.runner.now().saturating_add(PATIENCE);
        while self.backlog.running() > 0 && self.runner.now() < limit {
            self.runner.sleep_until(self.runner.now().saturating_add(PATIENCE / 100)).await;
        }
        if self.backlog.waiting() > 0 {
            // The log may have been restarted since the last turn; then it has a writer of its own.
            if let Err(why) = self.runner.refresh().await {
                log::warning!("the session's capabilities could not be fetched again: {why}");
            }
            self.flush_pending().await;
        }
        let is_paused = self.course.run_state().is_paused();
        self.agent.close_run().await;
        self.record("session.closed", &self.agent.conversation().id).await;
        let (course, now) = (&self.course, self.runner.now());
        let is_active = is_paused || course.run_state().is_active() || course.session_state() == SessionState::Paused;
        if !course.session_state().is_over() {
            self.advance(if is_active { SessionEvent::Cancel } else { SessionEvent::Close });
            let (runs, tokens, duration) = (course.runs(), course.tokens(), now.saturating_sub(self.runner.started));
            course.emit(now, Event::SessionCompleted { runs, tokens, duration });
        }
        if let Err(why) = self.runner.within(self.runner.user.end()).await {
            log::warning!("the session could not be ended: {why}");
        }
    }

    /// Records what the session has now, and which conversation something was done with, in the audit log. Returns the
    /// log's head after it.
    pub async fn record(&self, kind: &str, conversation: &str) -> Option<(u64, Vec<u8>)> {
        let field = |name: &str, value: String| GeneralEventField { name: name.into(), value };
        let model = self.runner.model.info().map(|info| info.id).unwrap_or_default();
        let tools: Vec<String> = self.snapshot.tools().iter().map(|tool| tool.descriptor.name.clone()).collect();
        let grants: Vec<String> = self.runner.grants.all().into_iter().map(|grant| grant.name).collect();
        let mut fields = Vec::from([
            field("conversation", conversation.to_string()),
            field("model", model),
            field("tools", tools.join(" ")),
            field("capabilities", grants.join(" ")),
        ]);
        if kind == OPENED {
            fields.push(field("surface", self.runner.surface.name()));
        }
        let event = GeneralEvent {
            kind: kind.to_string(),
            session: self.runner.info.id.clone(),
            principal: self.runner.info.principal.clone(),
            fields,
        };
        let written = match self.runner.grants.writer() {
            Ok(writer) => self.runner.audited(writer.general(&event)).await,
            Err(why) => Err(why),
        };
        match written {
            Ok(written) => Some((written.sequence, written.hash)),
            Err(why) => {
                let text = format!("the audit log takes no records ({why}); no tool runs until it does");
                self.runner.tell(Style::Warning, &text).await;
                None
            }
        }
    }
}

/// A loop of the session, on this conversation.
pub(crate) fn agent<S: Surface>(
    runner: &Rc<Runner<S>>,
    conversation: Conversation,
    (backlog, course): (&Rc<Backlog>, &Rc<Course>),
) -> Agent<Runner<S>> {
    let info = &runner.info;
    let session = capos_agent::Session {
        id: info.id.clone(),
        principal: info.principal.clone(),
        limits: info.limits.clone(),
        started: runner.started,
        policy_expires: runner.policy_expires.clone(),
    };
    let agent = Agent::new(runner.clone(), session, SYSTEM.to_string(), conversation, backlog.clone());
    agent.with_course(course.clone())
}

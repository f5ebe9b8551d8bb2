//! The loop: turns, responses, limits.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

use capos_plural::count;
use capos_run_state::{Event, RunEvent};
use capos_schema::audit::GeneralEvent;
use capos_schema::authority::{Label, Provenance, SessionLimits};
use capos_schema::models::{ChatMessage, FinishReason, InferenceRequest, Role, ToolCall, ToolResult};

use crate::answer::infer::Inferred;
use crate::answer::proposals::proposals;
use crate::backlog::Backlog;
use crate::budget::{Failures, Reserved};
use crate::call::Context;
use crate::conversation::plain::{is_plain, plain};
use crate::conversation::sendable::sendable;
use crate::conversation::{Conversation, hex};
use crate::course::Course;
use crate::curtain::Curtain;
use crate::evidence::{Allowance, Unexamined, general_size};
use crate::execute::execute;
use crate::limits::Bounds;
use crate::race::{Either, race};
use crate::record::flush_pending;
use crate::result::text;
use crate::signal::Signal;
use crate::snapshot::{Mark, Snapshot};
use crate::turn_end::TurnEnd;
use crate::until::{Completion, Condition};
use crate::world::{Answer, AuditError, BudgetError, Show, World, field, names};

/// The session, as the broker issued it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The principal that it is for.
    pub principal: String,
    /// What it may use up.
    pub limits: SessionLimits,
    /// When it began, in nanoseconds since boot.
    pub started: u64,
    /// When its policy expires, in nanoseconds since boot. The broker moves it when it renews the policy.
    pub policy_expires: Rc<Cell<u64>>,
}

impl Session {
    /// When its time is over, in nanoseconds since boot.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.started.saturating_add(self.limits.max_seconds.saturating_mul(1_000_000_000))
    }

    /// Whether its policy has expired, or its time is over, so that nothing may begin.
    #[must_use]
    pub fn has_expired(&self, now: u64) -> bool {
        now >= self.end() || now >= self.policy_expires.get()
    }
}

/// A conversation with a model that may propose tool calls.
pub struct Agent<W: World> {
    world: Rc<W>,
    session: Rc<Session>,
    system: String,
    conversation: Conversation,
    bounds: Bounds,
    left: Option<u64>,
    exhausted: Option<String>,
    /// Calls and results of turns up to this one are sent as text.
    plain_until: u32,
    /// How many messages were not sent, and how many the model's worker left out besides, when the person was last told so.
    pub(crate) removed: (usize, usize),
    backlog: Rc<Backlog>,
    course: Rc<Course>,
    /// What has to hold before the run is done.
    pub(crate) conditions: Vec<Condition>,
    /// How often the model of this run was told that something does not hold.
    pub(crate) reminders: u32,
    /// What the present turn may still leave in the audit log without the person's word.
    allowance: Rc<Allowance>,
}

impl<W: World> Agent<W> {
    /// Continues `conversation`. `system` is the system prompt: text of the program, never data. All
    /// conversations of a session share its `backlog`.
    #[must_use]
    pub fn new(
        world: Rc<W>,
        session: Session,
        system: String,
        conversation: Conversation,
        backlog: Rc<Backlog>,
    ) -> Self {
        Self {
            world,
            session: Rc::new(session),
            system,
            conversation,
            bounds: Bounds::default(),
            left: None,
            exhausted: None,
            plain_until: 0,
            removed: (0, 0),
            backlog,
            course: Rc::default(),
            conditions: Vec::new(),
            reminders: 0,
            allowance: Rc::new(Allowance::of_person()),
        }
    }

    /// Follows this course, which all conversations of a session share.
    #[must_use]
    pub fn with_course(self, course: Rc<Course>) -> Self {
        Self { course, ..self }
    }

    /// The course of the session and its run.
    #[must_use]
    pub fn course(&self) -> &Rc<Course> {
        &self.course
    }

    /// The conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The conditions of the next run.
    pub fn until(&mut self, conditions: Vec<Condition>) {
        self.conditions = conditions;
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn world(&self) -> &Rc<W> {
        &self.world
    }

    pub(crate) fn session(&self) -> &Rc<Session> {
        &self.session
    }

    pub(crate) fn backlog(&self) -> &Rc<Backlog> {
        &self.backlog
    }

    /// Whether the conversation holds what [`tell_plainly`](Self::tell_plainly) would send as text.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        let entries = self.conversation.entries();
        let later = entries.iter().position(|entry| entry.turn > self.plain_until).unwrap_or(entries.len());
        !is_plain(entries.get(later..).unwrap_or_default())
    }

    /// Sends the calls and results of all turns so far as text from now on, which any template takes; or as what they are,
    /// which the conversation itself keeps in any case.
    pub fn tell_plainly(&mut self, plainly: bool) {
        self.plain_until = if plainly { self.conversation.last_turn() } else { 0 };
    }

    /// How many calls still run although their turn is over.
    #[must_use]
    pub fn background(&self) -> usize {
        self.backlog.running()
    }

    /// Writes the records that the audit log does not have yet.
    ///
    /// # Errors
    /// It does not take it now.
    pub async fn flush_pending(&self) -> Result<(), AuditError> {
        flush_pending(&*self.world, &self.session, &self.backlog).await
    }

    /// One turn, which is a run: the person's message, and whatever the model does about it with these tools.
    pub async fn turn(&mut self, message: &str, snapshot: &Snapshot) -> TurnEnd {
        let course = self.course.clone();
        if course.run_state().is_paused() {
            // Another request takes its place.
            course.advance(&*self.world, RunEvent::Cancel).await;
            course.advance(&*self.world, RunEvent::Saved).await;
        }
        self.reminders = 0;
        course.begin_run(&self.conversation.id, self.conversation.last_turn().saturating_add(1));
        course.advance(&*self.world, RunEvent::Start).await;
        let end = self.iterate(Some(message), snapshot).await;
        self.settle(end).await
    }

    /// Whether there is something to go on with: a request without an answer, or a run that is paused.
    #[must_use]
    pub fn can_go_on(&self) -> bool {
        !self.conversation.is_answered() || self.course.run_state().is_paused()
    }

    /// Goes on with the last turn, which was cut off: by its session's end, the person or a limit. A run that is paused
    /// continues.
    pub async fn go_on(&mut self, snapshot: &Snapshot) -> TurnEnd {
        if !self.can_go_on() {
            return TurnEnd::Answered;
        }
        let course = self.course.clone();
        let is_paused = course.run_state().is_paused();
        if is_paused && self.conversation.is_answered() {
            let last = self.conversation.entries().last().map(|entry| entry.message.content.clone());
            let mut interrupt = self.world.interrupt();
            if let Completion::End(end) = self.complete(&last.unwrap_or_default(), &mut interrupt).await {
                return self.settle(end).await;
            }
        }
        if !is_paused {
            self.reminders = 0;
            course.begin_run(&self.conversation.id, self.conversation.last_turn());
        }
        course.advance(&*self.world, if is_paused { RunEvent::Resume } else { RunEvent::Start }).await;
        let end = self.iterate(None, snapshot).await;
        self.settle(end).await
    }

    /// Brings the run into the state in which it ends or pauses.
    async fn settle(&mut self, end: TurnEnd) -> TurnEnd {
        let (course, state) = (self.course.clone(), self.course.run_state());
        let event = match &end {
            TurnEnd::Answered => RunEvent::Done,
            TurnEnd::Interrupted | TurnEnd::Budget { cancelled: true, .. } => RunEvent::Cancel,
            TurnEnd::Unanswered(_) => return end,
            TurnEnd::Time(_) | TurnEnd::Policy => {
                course.emit(self.world.now(), Event::PolicyExpired);
                RunEvent::AwaitEvent
            }
            TurnEnd::Scheduled(_) | TurnEnd::Rate(_) => RunEvent::AwaitEvent,
            TurnEnd::Iterations(_)
            | TurnEnd::Evidence(_)
            | TurnEnd::SessionEvidence(_)
            | TurnEnd::Tokens(_)
            | TurnEnd::Budget { cancelled: false, .. }
            | TurnEnd::Unmet(_)
            | TurnEnd::Repeated
            | TurnEnd::Model(_)
            | TurnEnd::Rejected(_)
            | TurnEnd::Refused(_) => RunEvent::Fail,
        };
        // It waits already.
        if event != RunEvent::AwaitEvent || !state.is_paused() {
            course.advance(&*self.world, event).await;
        }
        if course.run_state().is_over() {
            // They were those of this run.
            self.conditions.clear();
            course.advance(&*self.world, RunEvent::Saved).await;
        }
        end
    }

    async fn iterate(&mut self, message: Option<&str>, snapshot: &Snapshot) -> TurnEnd {
        let end = self.run(message, snapshot).await;
        self.end_run(&end).await;
        end
    }

    async fn run(&mut self, message: Option<&str>, snapshot: &Snapshot) -> TurnEnd {
        let turn = self.conversation.last_turn().saturating_add(u32::from(message.is_some()));
        let mut interrupt = self.world.interrupt();
        // What is left is the broker's to say, whatever this conversation remembers.
        if let Err(why) = self.look_at_budget().await {
            return TurnEnd::Refused(format!("the broker did not report the remaining budget of the session: {why}"));
        }
        if let Some(end) = self.over() {
            return end;
        }
        // What the log could not take goes there before what comes now. Where it cannot, the first record of this turn
        // says so.
        let _ = self.flush_pending().await;
        if let Some(message) = message {
            let message = ChatMessage { role: Role::User, content: message.to_string(), ..ChatMessage::default() };
            self.append(message, turn, snapshot.marks()).await;
        }
        self.allowance = Rc::new(Allowance::new(self.bounds.evidence, &self.backlog.evidence));
        let (mut asked, mut most) = (0_u32, self.session.limits.max_iterations);
        let failures = Failures::new(self.bounds.failures);
        if let Err(end) = self.begin_run(turn, self.size(snapshot).min(self.bounds.request)).await {
            return end;
        }
        loop {
            if let Some(end) = self.over() {
                return end;
            }
            if let Err(end) = self.may_ask().await {
                return end;
            }
            if self.allowance.is_spent() {
                return TurnEnd::Evidence(self.bounds.evidence);
            }
            if asked >= most {
                match self.ask_to_go_on(asked).await {
                    Answer::Yes => most = most.saturating_add(self.session.limits.max_iterations),
                    Answer::No => return TurnEnd::Iterations(asked),
                    Answer::Lost => return TurnEnd::Unanswered(asked),
                    Answer::Interrupted => return TurnEnd::Interrupted,
                }
            }
            asked = asked.saturating_add(1);
            let count = self.course.begin_step();
            self.course.emit(self.world.now(), Event::StepStarted { count });
            let model = self.world.info();
            let (label, untrusted) = self.conversation.label();
            let nonce = self.world.random().to_vec();
            let (request, removed) = self.request(snapshot, &nonce);
            self.tell_removed((removed, self.removed.1), "to be sent").await;
            self.course.advance(&*self.world, RunEvent::Ask).await;
            let response = match self.infer(&request, &model.id, &mut interrupt).await {
                Inferred::Whole(response) => response,
                Inferred::Interrupted => return TurnEnd::Interrupted,
                Inferred::Time => return TurnEnd::Time(self.session.limits.max_seconds),
                // The broker looks again, a moment later.
                Inferred::Limit(_) if self.session.has_expired(self.world.now()) => return TurnEnd::Policy,
                Inferred::Limit(why) => return TurnEnd::Rate(why),
                Inferred::Repeated => return TurnEnd::Repeated,
                Inferred::Rejected(why) => return TurnEnd::Rejected(why),
                Inferred::Failed(why) => return TurnEnd::Model(why),
            };
            self.course.advance(&*self.world, RunEvent::Answer).await;
            if let Err(why) = self.look_at_budget().await {
                return TurnEnd::Refused(format!(
                    "the broker did not report the remaining budget after this answer: {why}"
                ));
            }
            // The answer is whole and in the conversation before any of its calls is looked at.
            let proposals = proposals(&self.conversation, &response, turn, &self.bounds);
            let calls: Vec<ToolCall> = proposals.iter().map(|proposal| proposal.call.clone()).collect();
            let (role, provenance) = (Role::Assistant, Provenance::Untrusted);
            let said = if proposals.is_empty() { response.text.clone() } else { String::new() };
            let (content, tool_calls) = (response.text, calls);
            let tool_call_id = String::new();
            let answer = ChatMessage { role, content, tool_call_id, tool_calls, provenance, label: label.clone() };
            self.append(answer, turn, Vec::new()).await;
            if proposals.is_empty() {
                // An answer that was cut is continued by the next call, which counts as a step.
                if response.finish == Some(FinishReason::Length) {
                    self.end_step((count, asked), most).await;
                    self.course.advance(&*self.world, RunEvent::Continue).await;
                    continue;
                }
                match self.complete(&said, &mut interrupt).await {
                    Completion::End(end) => {
                        self.course.emit(self.world.now(), Event::StepCompleted { count });
                        return end;
                    }
                    Completion::Continue => {
                        self.end_step((count, asked), most).await;
                        self.course.advance(&*self.world, RunEvent::Continue).await;
                        continue;
                    }
                }
            }
            self.course.advance(&*self.world, RunEvent::Propose).await;
            let context = Rc::new(Context {
                world: self.world.clone(),
                session: self.session.clone(),
                conversation: self.conversation.id.clone(),
                turn,
                model,
                nonce,
                advertised: names(snapshot.tools().iter()),
                label,
                untrusted,
                cancel: Signal::default(),
                backlog: self.backlog.clone(),
                allowance: self.allowance.clone(),
                unexamined: Unexamined::default(),
                curtain: Curtain::default(),
                reserved: Reserved::default(),
                failures: failures.clone(),
                course: self.course.clone(),
            });
            let end = self.reserve(snapshot, &proposals, &context.reserved).await;
            let work = execute(&context, snapshot, (&proposals, &self.bounds), &mut interrupt);
            let (results, interrupted) = work.await;
            context.refuse_unexamined().await;
            self.settle_rest(&context.reserved).await;
            for (result, proposal) in results.iter().zip(&proposals) {
                failures.count(&proposal.call.name, result.outcome);
            }
            for result in results {
                let is_recorded = !context.unexamined.has(&result.call_id);
                self.append_result(result, turn, is_recorded).await;
            }
            if interrupted {
                return TurnEnd::Interrupted;
            }
            self.end_step((count, asked), most).await;
            self.course.advance(&*self.world, RunEvent::StepEnd).await;
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// A step has ended. The person and telemetry hear when four fifths of those that a run may have are used.
    async fn end_step(&self, (count, asked): (u32, u32), most: u32) {
        self.course.emit(self.world.now(), Event::StepCompleted { count });
        let near = most.saturating_mul(4) / 5;
        if asked == near && asked > 0 {
            self.course.emit(self.world.now(), Event::StepLimitApproaching { count: asked, most });
            let text = format!("{asked} of the {} of this turn are used", capos_plural::count(most, "model call"));
            self.world.show(Show::Notice(&text)).await;
        }
    }

    /// Bytes of the next request, about.
    fn size(&self, snapshot: &Snapshot) -> usize {
        let said = self.conversation.entries().iter().map(|entry| entry.message.content.len());
        let tools = snapshot.tools().iter().map(|tool| {
            let found = &tool.descriptor;
            found.param_schema.len().saturating_add(found.description.len())
        });
        said.chain(tools).fold(self.system.len(), usize::saturating_add)
    }

    /// Asks the person whether the turn continues. If the limit is 0 model calls, it ends without a question.
    async fn ask_to_go_on(&self, calls: u32) -> Answer {
        let SessionLimits { max_iterations: more, approval_timeout_ms, .. } = self.session.limits;
        if more == 0 {
            return Answer::No;
        }
        self.course.advance(&*self.world, RunEvent::AwaitApproval).await;
        let limit = u64::from(approval_timeout_ms).saturating_mul(1_000_000);
        let patience = self.world.sleep_until(self.world.now().saturating_add(limit));
        let answer = match race(self.world.go_on(calls, more), patience).await {
            Either::Left(answer) => answer,
            Either::Right(()) => Answer::Lost,
        };
        if answer == Answer::Yes {
            self.course.advance(&*self.world, RunEvent::Resume).await;
        }
        answer
    }

    /// Whether a limit of the session is reached.
    fn over(&self) -> Option<TurnEnd> {
        if self.backlog.evidence.get() == 0 {
            return Some(TurnEnd::SessionEvidence(self.bounds.session_evidence));
        }
        if self.world.now() >= self.session.end() {
            return Some(TurnEnd::Time(self.session.limits.max_seconds));
        }
        if self.session.has_expired(self.world.now()) {
            return Some(TurnEnd::Policy);
        }
        self.exhausted.clone().map(TurnEnd::Tokens)
    }

    /// What the model is asked, and how many messages of the conversation are not in it.
    fn request(&self, snapshot: &Snapshot, nonce: &[u8]) -> (InferenceRequest, usize) {
        let system = ChatMessage { role: Role::System, content: self.system.clone(), ..ChatMessage::default() };
        let mut messages = Vec::from([system]);
        messages.extend(plain(self.conversation.entries(), self.plain_until));
        let (messages, removed) = sendable(messages, self.bounds.request);
        let left = self.left.map_or(u32::MAX, |left| u32::try_from(left).unwrap_or(u32::MAX));
        let request = InferenceRequest {
            messages,
            tools: snapshot.descriptors(),
            max_tokens: self.session.limits.max_tokens_per_call.min(left),
            nonce: nonce.to_vec(),
            // No person reads such an answer to its end.
            end_repetition: true,
            ..InferenceRequest::default()
        };
        (request, removed)
    }

    /// Tells the person that the model does not see so many messages of the conversation, whenever that is another number.
    pub(crate) async fn tell_removed(&mut self, (unsent, unread): (usize, usize), why: &str) {
        let messages = unsent.saturating_add(unread);
        if self.removed == (unsent, unread) || messages == 0 {
            return;
        }
        self.removed = (unsent, unread);
        let text = format!(
            "the conversation is too long {why}: the model does not see {} of it; /stop begins a new one",
            count(messages, "older message")
        );
        self.world.show(Show::Notice(&text)).await;
    }

    /// Asks the broker what is left.
    async fn look_at_budget(&mut self) -> Result<(), String> {
        match self.world.remaining().await {
            Ok(left) => self.left = Some(left),
            // The step that used up the budget is finished; no other begins.
            Err(BudgetError::Exhausted(why)) => self.exhausted = Some(why),
            Err(BudgetError::Unavailable(why)) => return Err(why),
        }
        Ok(())
    }

    async fn append_result(&mut self, result: ToolResult, turn: u32, is_recorded: bool) {
        let message = ChatMessage {
            role: Role::Tool,
            content: text(&result),
            tool_call_id: result.call_id,
            tool_calls: Vec::new(),
            provenance: result.provenance,
            label: result.label,
        };
        if is_recorded {
            self.append(message, turn, Vec::new()).await;
        } else {
            self.keep(message, turn, Vec::new()).await;
        }
    }

    /// Appends a message and has it saved.
    async fn keep(&mut self, message: ChatMessage, turn: u32, tools: Vec<Mark>) {
        self.conversation.push(message, (turn, self.world.now()), &self.world.info().id, tools);
        self.world.save(&self.conversation).await;
    }

    /// Appends what the model is told in the middle of a turn that is not the person's word.
    pub(crate) async fn remind(&mut self, message: ChatMessage) {
        self.append(message, self.conversation.last_turn(), Vec::new()).await;
    }

    /// Appends a message and records that there is one: its role, time, length and hash, not what it says.
    async fn append(&mut self, message: ChatMessage, turn: u32, tools: Vec<Mark>) {
        self.keep(message, turn, tools).await;
        let Some(entry) = self.conversation.entries().last() else { return };
        let message = &entry.message;
        let Label { classes } = &message.label;
        let event = GeneralEvent {
            kind: "message".to_string(),
            session: self.session.id.clone(),
            principal: self.session.principal.clone(),
            fields: Vec::from([
                field("conversation", self.conversation.id.as_str()),
                field("turn", turn.to_string()),
                field("role", message.role.name()),
                field("atNanoseconds", entry.at.to_string()),
                field("length", message.content.len().to_string()),
                field("hash", hex(&entry.hash)),
                field("provenance", message.provenance.name()),
                field("label", classes.join(" ")),
                field("toolCallId", message.tool_call_id.as_str()),
            ]),
        };
        // The person's own message is the person's word.
        if message.role != Role::User || message.provenance == Provenance::Untrusted {
            self.allowance.count(general_size(&event));
        }
        if let Err(why) = self.world.general(&event).await
            && message.role == Role::User
        {
            let text = format!("the audit log takes no records ({why}); no tool runs until it does");
            self.world.show(Show::Notice(&text)).await;
        }
    }
}

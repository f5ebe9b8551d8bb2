//! The loop: turns, responses, limits.

pub(crate) mod known;
pub mod lessons;
mod messages;
mod request;
mod summary;
pub mod window;
pub mod wishes;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::ControlFlow;

use capos_async_lock::AsyncMutex;
use capos_run_state::{Event, RunEvent};
use capos_schema::authority::{Provenance, SessionLimits};
use capos_schema::models::{ChatMessage, FinishReason, Role, ToolCall};

use self::window::Scale;

use crate::answer::infer::{Inferred, Manner};
use crate::answer::proposals::proposals;
use crate::backlog::Backlog;
use crate::budget::Reserved;
use crate::call::Context;
use crate::conversation::Conversation;
use crate::conversation::plain::is_plain;
use crate::conversation::shown::Shown;
use crate::course::Course;
use crate::curtain::Curtain;
use crate::delegate::Origin;
use crate::evidence::{Allowance, Unexamined};
use crate::execute::execute;
use crate::going::Going;
use crate::limits::Bounds;
use crate::record::{Traces, flush_pending};
use crate::signal::Signal;
use crate::snapshot::Snapshot;
use crate::turn_end::{TurnEnd, leave};
use crate::until::{Completion, Condition};
use crate::world::{AuditError, BudgetError, World, names};

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
    /// What the worker said of the last request from which it left nothing out.
    pub(crate) scale: Scale,
    /// The worker left messages out of the last request.
    pub(crate) was_cut: bool,
    /// How many requests in a row had no whole answer.
    pub(crate) broken: u32,
    /// Estimated tokens of messages from which on a summary is tried.
    next_summary: u64,
    /// How many messages were not sent, and how many the model's worker left out besides, when the person was last told so.
    pub(crate) removed: (usize, usize),
    backlog: Rc<Backlog>,
    /// Held while a question is open.
    pub(crate) questions: Rc<AsyncMutex>,
    course: Rc<Course>,
    /// What has to hold before the run is done, and the next one.
    pub(crate) conditions: Vec<Condition>,
    next_conditions: Vec<Condition>,
    /// How many segments the next run may have.
    pub(crate) segments: u32,
    /// The run of the last turn.
    pub(crate) going: Option<Going>,
    /// What the session permits, as a digest.
    pub(crate) policy: String,
    /// What the present turn may still leave in the audit log without the person's word.
    allowance: Rc<Allowance>,
    /// What it is taught besides.
    lessons: Vec<lessons::Lesson>,
    /// Of a child run: what it has of its parent.
    pub(crate) origin: Option<Origin>,
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
            scale: Scale::default(),
            was_cut: false,
            broken: 0,
            next_summary: 0,
            removed: (0, 0),
            backlog,
            questions: Rc::default(),
            course: Rc::default(),
            conditions: Vec::new(),
            next_conditions: Vec::new(),
            segments: 1,
            going: None,
            policy: String::new(),
            allowance: Rc::new(Allowance::of_person()),
            lessons: Vec::new(),
            origin: None,
        }
    }

    /// The run is a child of another one.
    pub(crate) fn within(self, origin: Origin) -> Self {
        Self { origin: Some(origin), ..self }
    }

    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    pub(crate) fn system(&self) -> &str {
        &self.system
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
        self.next_conditions = conditions;
    }

    /// The next run may have this many segments: after each but the last it continues by itself.
    pub fn in_segments(&mut self, segments: u32) {
        self.segments = segments.max(1);
    }

    /// What the session permits now, as a digest that checkpoints name.
    pub fn set_policy(&mut self, policy: String) {
        self.policy = policy;
    }

    /// What the session permits now, as a digest.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
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
        let shown = Shown::of(self.conversation.entries()).entries;
        !is_plain(shown.into_iter().map(|(_, entry)| entry).filter(|entry| entry.turn > self.plain_until))
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
        self.going = None;
        self.conditions = core::mem::take(&mut self.next_conditions);
        course.begin_run(&self.conversation.id, self.conversation.last_turn().saturating_add(1), 0);
        course.advance(&*self.world, RunEvent::Start).await;
        let end = self.iterate(Some(message), snapshot).await;
        self.settle(end).await
    }

    /// Whether there is something to go on with: a request without an answer, or a run that is paused.
    #[must_use]
    pub fn can_go_on(&self) -> bool {
        !self.conversation.is_answered() || self.course.run_state().is_paused() || self.is_cut_off()
    }

    /// Continues with the last turn, which was cut off: by its session's end, the person or a limit. A run that is paused
    /// continues.
    pub async fn go_on(&mut self, snapshot: &Snapshot) -> TurnEnd {
        if !self.can_go_on() {
            return TurnEnd::Answered;
        }
        let course = self.course.clone();
        let was_cut = self.is_cut_off();
        if was_cut || !course.run_state().is_paused() {
            let (turn, steps) = (self.conversation.last_turn(), self.going.as_ref().map_or(0, |going| going.steps().0));
            course.begin_run(&self.conversation.id, turn, steps);
        }
        if was_cut && self.conversation.is_answered() {
            // Only whether it is done was not looked at.
            course.advance(&*self.world, RunEvent::Start).await;
            course.advance(&*self.world, RunEvent::AwaitEvent).await;
        }
        match course.run_state().is_paused() {
            // Whether it is done is looked at first.
            true if self.conversation.is_answered() => {}
            true => course.advance(&*self.world, RunEvent::Resume).await,
            false => course.advance(&*self.world, RunEvent::Start).await,
        }
        let end = self.iterate(None, snapshot).await;
        self.settle(end).await
    }

    /// Brings the run into the state in which it ends or pauses, and keeps that.
    async fn settle(&mut self, end: TurnEnd) -> TurnEnd {
        let end = match end {
            // Nothing continues a child run, so it fails where another one would be paused.
            TurnEnd::Away(why) | TurnEnd::Rate(why) if self.origin.is_some() => TurnEnd::Model(why),
            TurnEnd::Time(_) if self.origin.is_some() => TurnEnd::Model("the session's time is over".to_string()),
            TurnEnd::Policy if self.origin.is_some() => TurnEnd::Model("the policy has expired".to_string()),
            end => end,
        };
        let end = self.end_or_pause(end).await;
        let last = self.course.last();
        if let Some(going) = self.going.as_mut().filter(|going| !going.unbegun) {
            going.state = last;
        }
        match end {
            TurnEnd::Off => self.close_run().await,
            _ => self.keep_point().await,
        }
        if self.origin.is_none() {
            leave(&*self.world).await;
        }
        end
    }

    async fn end_or_pause(&mut self, end: TurnEnd) -> TurnEnd {
        let (course, state) = (self.course.clone(), self.course.run_state());
        let event = match &end {
            TurnEnd::Answered => RunEvent::Done,
            TurnEnd::Interrupted | TurnEnd::Stopped | TurnEnd::Off | TurnEnd::Budget { cancelled: true, .. } => {
                RunEvent::Cancel
            }
            TurnEnd::Unanswered(_) => return end,
            TurnEnd::Time(_) | TurnEnd::Policy => {
                course.emit(self.world.now(), Event::PolicyExpired);
                RunEvent::AwaitEvent
            }
            TurnEnd::Scheduled(_) | TurnEnd::Rate(_) | TurnEnd::Away(_) => RunEvent::AwaitEvent,
            TurnEnd::Iterations(_)
            | TurnEnd::Evidence(_)
            | TurnEnd::SessionEvidence(_)
            | TurnEnd::Tokens(_)
            | TurnEnd::Budget { cancelled: false, .. }
            | TurnEnd::Unmet(_)
            | TurnEnd::Repeated
            | TurnEnd::Model(_)
            | TurnEnd::Filtered
            | TurnEnd::Rejected(_)
            | TurnEnd::Refused(_) => RunEvent::Fail,
        };
        // It waits already.
        if event != RunEvent::AwaitEvent || !state.is_paused() {
            course.advance(&*self.world, event).await;
        }
        if course.run_state().is_over() {
            course.advance(&*self.world, RunEvent::Saved).await;
        }
        end
    }

    async fn iterate(&mut self, message: Option<&str>, snapshot: &Snapshot) -> TurnEnd {
        let end = self.run(message, snapshot).await;
        self.count_use().await;
        self.end_run(&end).await;
        end
    }

    async fn run(&mut self, message: Option<&str>, snapshot: &Snapshot) -> TurnEnd {
        let turn = self.conversation.last_turn().saturating_add(u32::from(message.is_some()));
        self.broken = 0;
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
        self.set_going(turn, message.is_some());
        if let Some(message) = message {
            let mut message = ChatMessage { role: Role::User, content: message.to_string(), ..ChatMessage::default() };
            if let Some(origin) = &self.origin {
                // A model wrote it, and not a person.
                (message.label, message.provenance) = (origin.label.clone(), Provenance::Untrusted);
            }
            self.append(message, turn, snapshot.marks()).await;
        }
        self.allowance = match &self.origin {
            Some(origin) => origin.allowance.clone(),
            None => Rc::new(Allowance::new(self.bounds.evidence, &self.backlog.evidence)),
        };
        let failures = self.going.as_ref().map(|going| going.failures.clone()).unwrap_or_default();
        if let Err(end) = self.begin_run(turn, self.size(snapshot).min(self.bounds.request)).await {
            return end;
        }
        if let Some(end) = self.end_answered(&mut interrupt).await {
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
            if self.course.is_ending() {
                return TurnEnd::Stopped;
            }
            match self.summarise(snapshot, &mut interrupt).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => continue,
                Err(end) => return end,
            }
            if let Err(end) = self.may_begin_step().await {
                return end;
            }
            let count = self.begin_model_call().await;
            let model = self.world.info();
            let (label, untrusted) = self.seen();
            let nonce = self.world.random().to_vec();
            let (request, removed) = match self.request(snapshot, &model, &nonce) {
                Ok(request) => request,
                Err(end) => return end,
            };
            self.tell_removed((removed, self.removed.1), "to be sent").await;
            self.course.advance(&*self.world, RunEvent::Ask).await;
            let deadline = self.session.end();
            let response = match self.infer(&request, &model.id, &mut interrupt, (Manner::Shown, deadline)).await {
                Inferred::Whole(response) => response,
                Inferred::Interrupted => return TurnEnd::Interrupted,
                Inferred::Time => return TurnEnd::Time(self.session.limits.max_seconds),
                // The broker looks again, a moment later.
                Inferred::Limit(_) if self.session.has_expired(self.world.now()) => return TurnEnd::Policy,
                Inferred::Limit(why) => return TurnEnd::Rate(why),
                Inferred::Repeated => return TurnEnd::Repeated,
                Inferred::Rejected(why) => return TurnEnd::Rejected(why),
                Inferred::Broken(what, why) => {
                    if let Some(end) = self.ask_again((what, why), &mut interrupt).await {
                        return end;
                    }
                    self.course.advance(&*self.world, RunEvent::Answer).await;
                    if let Err(why) = self.look_at_budget().await {
                        return TurnEnd::Refused(format!(
                            "the broker did not report the remaining budget after an answer that broke off: {why}"
                        ));
                    }
                    self.count_use().await;
                    self.step_done(count);
                    self.end_step(count).await;
                    self.course.advance(&*self.world, RunEvent::Continue).await;
                    continue;
                }
                Inferred::Filtered => {
                    self.say_filtered(label).await;
                    return TurnEnd::Filtered;
                }
                Inferred::Failed(why) => return TurnEnd::Model(why),
            };
            self.measure(&model.id, response.usage.prompt_tokens, &request);
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
            let usage = (response.usage.prompt_tokens, response.usage.completion_tokens);
            self.answered(usage, count, proposals.is_empty()).await;
            let (content, tool_calls) = (response.text, calls);
            let tool_call_id = String::new();
            let answer = ChatMessage { role, content, tool_call_id, tool_calls, provenance, label: label.clone() };
            let is_cut = proposals.is_empty() && response.finish == Some(FinishReason::Length);
            self.append_answer(answer, turn, (usage.1, is_cut)).await;
            if proposals.is_empty() {
                // An answer that was cut is continued by the next call, which counts as a step.
                if is_cut {
                    self.end_step(count).await;
                    self.course.advance(&*self.world, RunEvent::Continue).await;
                    continue;
                }
                match self.complete(&said, &mut interrupt).await {
                    Completion::End(end) => {
                        self.course.emit(self.world.now(), Event::StepCompleted { count });
                        return end;
                    }
                    Completion::Continue => {
                        self.end_step(count).await;
                        self.course.advance(&*self.world, RunEvent::Continue).await;
                        continue;
                    }
                }
            }
            self.course.advance(&*self.world, RunEvent::Propose).await;
            let given = self.give(snapshot, &proposals).await;
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
                questions: self.questions.clone(),
                reserved: Reserved::default(),
                failures: failures.clone(),
                traces: Traces::default(),
                course: self.course.clone(),
                task: self.origin.as_ref().map(|origin| origin.task.clone()),
                given,
            });
            let end = self.reserve(snapshot, &proposals, &context.reserved).await;
            if end == Some(TurnEnd::Interrupted) {
                context.cancel.set();
            }
            let work = execute(&context, snapshot, (&proposals, &self.bounds), &mut interrupt);
            let (results, interrupted) = work.await;
            context.refuse_unexamined().await;
            self.settle_rest(&context.reserved).await;
            self.forget_unbegun();
            for (result, proposal) in results.iter().zip(&proposals) {
                failures.count(&proposal.call.name, result.outcome);
                if let Ok(tool) = snapshot.find(&proposal.call.name, &proposal.call.handle) {
                    failures.known.settle(tool, &proposal.call, result);
                }
            }
            failures.known.answered();
            self.count_use().await;
            let last = results.len().saturating_sub(1);
            for (at, result) in results.into_iter().enumerate() {
                let is_recorded = !context.unexamined.has(&result.call_id);
                let records = context.records_of(&result.call_id);
                if at == last {
                    self.step_done(count);
                }
                self.append_result(result, turn, is_recorded, &records).await;
            }
            if interrupted {
                return TurnEnd::Interrupted;
            }
            self.end_step(count).await;
            self.course.advance(&*self.world, RunEvent::StepEnd).await;
            if self.world.is_leaving() {
                return TurnEnd::Off;
            }
            if let Some(end) = end {
                return end;
            }
        }
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

    /// Asks the broker what is left.
    async fn look_at_budget(&mut self) -> Result<(), String> {
        match self.world.remaining().await {
            // A day may have begun meanwhile, after which there are tokens again.
            Ok(left) => (self.left, self.exhausted) = (Some(left), None),
            // The step that used up the budget is finished; no other begins.
            Err(BudgetError::Exhausted(why)) => self.exhausted = Some(why),
            Err(BudgetError::Unavailable(why)) => return Err(why),
        }
        Ok(())
    }
}

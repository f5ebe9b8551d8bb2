//! The run at hand: what of it continues when its turn does, in this session or a later one.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_budget::Amounts;
use capos_run_state::{Checkpoint, Children, Progress, RunEvent, RunState};
use capos_schema::audit::GeneralEvent;

use crate::agent::Agent;
use crate::budget::Failures;
use crate::course::run_id;
use crate::turn_end::TurnEnd;
use crate::until::Condition;
use crate::world::{Show, World, field};

/// A run that has begun. It outlasts the session if its conversation does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Going {
    /// The conversation in which it began, which names it and its budget.
    conversation: String,
    pub(crate) turn: u32,
    /// Its first message.
    from: u32,
    /// The last step whose results are all in the conversation.
    pub(crate) done: u32,
    pub(crate) asked: u32,
    /// How many model calls its last checkpoint counts, with those that are reserved there.
    kept: Cell<u32>,
    /// For which limit of model calls the person was told that it comes near.
    pub(crate) told: Cell<u32>,
    pub(crate) most: u32,
    pub(crate) segments: (u32, u32),
    pub(crate) reminders: u32,
    tokens: (u64, u64),
    used: Amounts,
    granted: Amounts,
    spent: Amounts,
    pub(crate) failures: Failures,
    /// Its child runs.
    pub(crate) children: Rc<RefCell<Children>>,
    /// Where it was when it ended, paused or was cut off.
    pub(crate) state: RunState,
    /// It cannot be continued any more.
    closed: bool,
    /// It continues, and the broker has not begun it here yet. It may still run in another session, which keeps where it is.
    pub(crate) unbegun: bool,
}

impl Going {
    /// A run that begins.
    pub(crate) fn new(
        conversation: &str,
        (turn, from): (u32, usize),
        (most, segments): (u32, u32),
        failures: u32,
    ) -> Self {
        Self {
            conversation: conversation.to_string(),
            turn,
            from: u32::try_from(from).unwrap_or(u32::MAX),
            most,
            segments: (1, segments.max(1)),
            failures: Failures::new(failures),
            ..Self::default()
        }
    }

    /// The run of a checkpoint, in which a tool may fail so often.
    #[must_use]
    pub fn of(checkpoint: &Checkpoint, failures: u32) -> Self {
        let Progress {
            state,
            step,
            asked,
            reserved,
            most,
            segments,
            reminders,
            messages,
            tokens,
            used,
            granted,
            mut children,
            ..
        } = checkpoint.progress.clone();
        // Whether those that were reserved have begun is not known.
        let asked = asked.saturating_add(reserved);
        children.cut_off(most.saturating_sub(asked).saturating_sub(children.asked));
        Self {
            conversation: checkpoint.conversation.clone(),
            turn: checkpoint.turn,
            from: messages.0,
            done: step,
            asked,
            kept: Cell::default(),
            told: Cell::default(),
            most,
            segments,
            reminders,
            tokens,
            used,
            granted,
            spent: Amounts::default(),
            failures: Failures::new(failures),
            children: Rc::new(RefCell::new(children)),
            state,
            closed: false,
            unbegun: false,
        }
    }

    /// What names its budget, and what it has used of it.
    pub(crate) fn budget(&self) -> (String, Amounts) {
        (self.conversation.clone(), self.used)
    }

    /// How many model calls it has begun itself, without its child runs, and how many it may begin with those.
    #[must_use]
    pub fn steps(&self) -> (u32, u32) {
        (self.asked, self.most)
    }

    /// Model calls that it has begun, those of its child runs among them.
    pub(crate) fn calls(&self) -> u32 {
        self.asked.saturating_add(self.children.borrow().asked)
    }

    /// It has begun all the model calls that it may, and a person has to permit more.
    fn is_at_limit(&self) -> bool {
        self.calls() >= self.most && self.segments.0 >= self.segments.1
    }

    /// Model calls that are reserved in a checkpoint of this moment. The next one is, if the run is between two steps: then it
    /// need not be kept once more when that call begins.
    fn reserved(&self, state: RunState) -> u32 {
        u32::from(state.is_active() && self.done == self.asked && self.calls() < self.most)
    }

    /// Tokens that models read and wrote in it.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens.0.saturating_add(self.tokens.1)
    }

    pub(crate) fn answered(&mut self, (read, written): (u32, u32)) {
        self.tokens.0 = self.tokens.0.saturating_add(read.into());
        self.tokens.1 = self.tokens.1.saturating_add(written.into());
    }
}

impl<W: World> Agent<W> {
    /// The id of the run that the next request begins.
    #[must_use]
    pub fn next_run(&self) -> String {
        run_id(&self.conversation().id, self.conversation().last_turn().saturating_add(1))
    }

    /// The id of the run of the last request.
    #[must_use]
    pub fn last_run(&self) -> String {
        run_id(&self.conversation().id, self.conversation().last_turn())
    }

    /// The run at hand, with its conditions, for another agent that continues its conversation.
    #[must_use]
    pub fn going(&self) -> Option<(Going, &[Condition])> {
        self.going.clone().map(|going| (going, self.conditions.as_slice()))
    }

    /// Continues this run, under these conditions, with the turn that it belongs to. Each call of the turn has a result: the step
    /// in which it was cut off is complete with what is known of it.
    pub fn continue_run(&mut self, going: Going, conditions: Vec<Condition>) {
        if going.turn == self.conversation().last_turn() {
            let done = going.asked;
            (self.going, self.conditions) = (Some(Going { done, ..going }), conditions);
        }
    }

    /// Whether the run at hand was cut off within a step, in an earlier session.
    pub(crate) fn is_cut_off(&self) -> bool {
        let is_active = |going: &Going| going.state.is_active() && !going.closed;
        self.course().run_state() == RunState::Idle && self.going.as_ref().is_some_and(is_active)
    }

    /// Whether the run at hand has begun all the model calls that it may. Going on with it permits more.
    #[must_use]
    pub fn is_at_limit(&self) -> bool {
        self.going.as_ref().is_some_and(Going::is_at_limit)
    }

    /// Saves what was added to a conversation that continues, and where its run is.
    pub async fn save(&self) {
        self.keep_point().await;
    }

    /// A run that is paused is left as it is, since another conversation continues.
    pub async fn leave_run(&self) {
        let course = self.course();
        if course.run_state().is_paused() {
            course.advance(&**self.world(), RunEvent::Cancel).await;
            course.advance(&**self.world(), RunEvent::Saved).await;
        }
    }

    /// The run of this turn continues, or begins.
    pub(crate) fn set_going(&mut self, turn: u32, is_new: bool) {
        let max = self.session().limits.max_iterations;
        if !is_new && let Some(going) = self.going.as_mut().filter(|going| going.turn == turn) {
            // Who continues with a run at its limit permits more.
            if going.is_at_limit() {
                going.most = going.calls().saturating_add(max);
            }
            (going.closed, going.unbegun) = (false, true);
            return;
        }
        let entries = self.conversation().entries();
        let from = entries.iter().position(|entry| entry.turn == turn).unwrap_or(entries.len());
        let segments = core::mem::replace(&mut self.segments, 1);
        let name = self.conversation().id.clone();
        let going = Going::new(&name, (turn, from), (max, segments), self.bounds().failures);
        self.going = Some(Going { unbegun: !is_new, ..going });
    }

    /// Where the run is now, and whether it can be continued; none if there is none, or another session may run it.
    pub(crate) fn checkpoint(&self) -> Option<(Checkpoint, bool)> {
        let going = self.going.as_ref().filter(|going| !going.unbegun)?;
        let (course, session) = (self.course(), self.session());
        let state = match course.run_state() {
            RunState::Idle => going.state,
            state => state,
        };
        let checkpoint = Checkpoint {
            session: session.id.clone(),
            workspace: course.ids().machine.to_string(),
            principal: session.principal.clone(),
            conversation: going.conversation.clone(),
            turn: going.turn,
            conditions: self.conditions.iter().map(Condition::declared).collect(),
            model: self.world().info().id,
            policy: self.policy.clone(),
            progress: Progress {
                state,
                step: going.done,
                asked: going.asked,
                reserved: going.reserved(course.run_state()),
                most: going.most,
                segments: going.segments,
                reminders: going.reminders,
                messages: (going.from, u32::try_from(self.conversation().entries().len()).unwrap_or(u32::MAX)),
                missing: 0,
                tokens: going.tokens,
                session_tokens: course.tokens(),
                used: going.used,
                granted: going.granted,
                spent: going.spent,
                labels: self.conversation().label().0.classes,
                children: going.children.borrow().clone(),
                at: 0,
            },
        };
        Some((checkpoint, state != RunState::Completed && !going.closed))
    }

    /// Keeps where the run is, without a message.
    pub(crate) async fn keep_point(&self) {
        if let Some(point) = self.checkpoint() {
            self.keep_with(Some(point)).await;
        }
    }

    /// Has what was added to the conversation saved, and with it where the run is.
    pub(crate) async fn keep_with(&self, point: Option<(Checkpoint, bool)>) {
        let run = point.as_ref().map(|(checkpoint, open)| (checkpoint, *open));
        let is_kept = self.world().save(self.conversation(), run).await;
        if let (true, Some(going), Some((Checkpoint { progress, .. }, _))) = (is_kept, &self.going, &point) {
            going.kept.set(progress.asked.saturating_add(progress.reserved));
        }
    }

    /// Keeps where the run is before a model call begins that its last checkpoint does not count.
    pub(crate) async fn keep_model_call(&self) {
        if self.going.as_ref().is_some_and(|going| going.asked > going.kept.get()) {
            self.keep_point().await;
        }
    }

    /// Asks the broker what the run has used. What was used since the end of the step before is this step's.
    pub(crate) async fn count_use(&mut self) {
        let Some((used, granted)) = self.world().used().await else { return };
        if let Some(going) = &mut self.going {
            going.spent = used.minus(going.used);
            (going.used, going.granted) = (used, granted);
        }
    }

    /// The calls of an answer have ended: child runs that were proposed and not permitted are none.
    pub(crate) fn forget_unbegun(&self) {
        if let Some(going) = &self.going {
            going.children.borrow_mut().forget_idle();
        }
    }

    /// A run that is paused or was cut off ends here, since its session does: nothing continues it.
    pub async fn close_run(&mut self) {
        let course = self.course().clone();
        let is_paused = course.run_state().is_paused();
        self.leave_run().await;
        let Some(going) = &mut self.going else { return };
        if !going.closed && going.state != RunState::Completed {
            going.closed = true;
            if is_paused {
                going.state = course.last();
            }
            self.keep_point().await;
        }
    }

    /// The run has used up its segment. The next one begins if the person has permitted one: with a checkpoint and a record in
    /// between. False if there is none.
    pub(crate) async fn next_segment(&mut self) -> Result<bool, TurnEnd> {
        let more = self.session().limits.max_iterations;
        let Some(going) = self.going.as_ref().filter(|going| going.segments.0 < going.segments.1) else {
            return Ok(false);
        };
        let (turn, asked, (segment, most)) = (going.turn, going.asked, going.segments);
        let course = self.course().clone();
        course.advance(&**self.world(), RunEvent::AwaitEvent).await;
        self.keep_point().await;
        let fields = Vec::from([
            field("conversation", self.conversation().id.as_str()),
            field("turn", turn.to_string()),
            field("segment", segment.to_string()),
            field("of", most.to_string()),
            field("steps", asked.to_string()),
            field("outcome", "ended: its model calls are used up; the next one begins"),
        ]);
        let (session, principal) = (self.session().id.clone(), self.session().principal.clone());
        let event = GeneralEvent { kind: "run.segment".to_string(), session, principal, fields };
        if let Err(why) = self.world().general(&event).await {
            let text =
                format!("the audit log takes no records ({why}), so the next segment of this run does not begin");
            return Err(TurnEnd::Refused(text));
        }
        let text = format!("segment {segment} of {most} has ended after {asked} model calls; the next one begins");
        self.world().show(Show::Notice(&text)).await;
        if let Some(going) = &mut self.going {
            going.segments.0 = segment.saturating_add(1);
            going.most = going.calls().saturating_add(more);
        }
        course.advance(&**self.world(), RunEvent::Resume).await;
        Ok(true)
    }
}

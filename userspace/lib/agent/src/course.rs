//! Where a session and its run are, and who is told of it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_run_state::{
    Event, Ids, NotPermitted, Nowhere, Record, Run, RunEvent, RunState, Session, SessionEvent, SessionState, Sink,
};

use crate::world::{Renderer, Show};

/// The id of the run that is this turn of a conversation.
#[must_use]
pub fn run_id(conversation: &str, turn: u32) -> String {
    format!("{conversation}-{turn}")
}

/// The course of a session: its state and that of its run, by their tables, and the events that tell of both. All
/// conversations of a session share one.
pub struct Course {
    session: Cell<Session>,
    run: Cell<Run>,
    /// How the last run ended or paused.
    last: Cell<RunState>,
    ids: RefCell<Ids>,
    sink: Rc<dyn Sink>,
    runs: Cell<u32>,
    /// The run ends before its next step.
    ending: Rc<Cell<bool>>,
    /// The same of the run that it is a child of.
    outer: Option<Rc<Cell<bool>>>,
    steps: Cell<u32>,
    tokens: Cell<u64>,
    /// Calls of the run that still run although their results were due.
    late: Rc<Cell<usize>>,
    /// The same of its child runs.
    inner: RefCell<Vec<Rc<Cell<usize>>>>,
    /// When calls were proposed, by their ids.
    proposed: RefCell<BTreeMap<String, u64>>,
}

impl Default for Course {
    fn default() -> Self {
        Self::new("", "", Rc::new(Nowhere))
    }
}

impl Course {
    /// The course of this session on this machine, which `sink` is told of.
    #[must_use]
    pub fn new(machine: &str, session: &str, sink: Rc<dyn Sink>) -> Self {
        let ids = Ids { machine: machine.into(), session: session.into(), ..Ids::default() };
        Self {
            session: Cell::default(),
            run: Cell::default(),
            last: Cell::default(),
            ids: RefCell::new(ids),
            sink,
            runs: Cell::new(0),
            ending: Rc::default(),
            outer: None,
            steps: Cell::new(0),
            tokens: Cell::new(0),
            late: Rc::default(),
            inner: RefCell::default(),
            proposed: RefCell::default(),
        }
    }

    /// The course of a run in parallel with the session's own, which the same are told of.
    #[must_use]
    pub fn beside(&self) -> Self {
        let Ids { machine, session, .. } = self.ids();
        Self::new(&machine, &session, self.sink.clone())
    }

    /// Counts the runs and tokens of a course that has come to its end.
    pub fn count(&self, ended: &Self) {
        self.runs.set(self.runs.get().saturating_add(ended.runs()));
        self.used(ended.tokens());
    }

    /// The course of a child run of the run at hand. It ends no later than that, and calls that outlast it outlast that.
    pub(crate) fn within(parent: &Self) -> Self {
        let Ids { machine, session, .. } = parent.ids();
        let course = Self::new(&machine, &session, parent.sink.clone());
        parent.inner.borrow_mut().push(course.late.clone());
        Self { outer: Some(parent.ending.clone()), ..course }
    }

    /// Where the session is.
    #[must_use]
    pub fn session_state(&self) -> SessionState {
        self.session.get().state()
    }

    /// Where the run is; idle if there is none.
    #[must_use]
    pub fn run_state(&self) -> RunState {
        self.run.get().state()
    }

    /// How the last run ended or paused; idle if there was none.
    #[must_use]
    pub fn last(&self) -> RunState {
        self.last.get()
    }

    /// Steps of the run, or of the last one.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.steps.get()
    }

    /// Runs of the session.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.runs.get()
    }

    /// Tokens that models used in the session, as their workers count.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens.get()
    }

    /// The ids of the run and its step.
    #[must_use]
    pub fn ids(&self) -> Ids {
        self.ids.borrow().clone()
    }

    /// Tells of an event. It does not wait.
    pub fn emit(&self, at: u64, event: Event) {
        self.sink.emit(Record { at, ids: self.ids(), event });
    }

    /// The session takes an event.
    ///
    /// # Errors
    /// Its table does not permit it. The state stays.
    pub fn session_event(&self, event: SessionEvent) -> Result<SessionState, NotPermitted<SessionState, SessionEvent>> {
        let mut session = self.session.get();
        let state = session.apply(event)?;
        self.session.set(session);
        Ok(state)
    }

    /// The run takes an event, and the surface is told the state after it. An event that the table does not permit changes
    /// nothing, and the person is told.
    pub async fn advance(&self, surface: &impl Renderer, event: RunEvent) {
        let mut run = self.run.get();
        match run.apply(event) {
            Ok(state) => {
                self.run.set(run);
                if state != RunState::Idle {
                    self.last.set(state);
                }
                surface.show(Show::State(state)).await;
            }
            Err(why) => surface.show(Show::Notice(&format!("{why}; this is a fault of the runner"))).await,
        }
    }

    /// The run ends as cancelled when its current step has ended: no call of it is stopped.
    pub fn end_after_step(&self) {
        self.ending.set(true);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get() || self.outer.as_ref().is_some_and(|outer| outer.get())
    }

    /// A run begins, or continues after this many steps.
    pub(crate) fn begin_run(&self, conversation: &str, turn: u32, steps: u32) {
        let mut ids = self.ids.borrow_mut();
        ids.run = run_id(conversation, turn).into();
        ids.step = "".into();
        self.runs.set(self.runs.get().saturating_add(1));
        self.steps.set(steps);
        self.ending.set(false);
        self.inner.borrow_mut().retain(|late| late.get() > 0);
        self.proposed.borrow_mut().clear();
    }

    /// The next step begins; its number.
    pub(crate) fn begin_step(&self) -> u32 {
        let step = self.steps.get().saturating_add(1);
        self.steps.set(step);
        let mut ids = self.ids.borrow_mut();
        ids.step = format!("{}-{step}", ids.run).into();
        step
    }

    pub(crate) fn used(&self, tokens: u64) {
        self.tokens.set(self.tokens.get().saturating_add(tokens));
    }

    /// A call is proposed.
    pub(crate) fn propose(&self, call_id: &str, at: u64) {
        self.proposed.borrow_mut().insert(call_id.into(), at);
    }

    /// A proposed call has its outcome; when it was proposed.
    pub(crate) fn settle(&self, call_id: &str) -> Option<u64> {
        self.proposed.borrow_mut().remove(call_id)
    }

    /// Calls of the run that still run although their results were due.
    #[must_use]
    pub fn late(&self) -> usize {
        let inner = self.inner.borrow().iter().map(|late| late.get()).fold(0, usize::saturating_add);
        self.late.get().saturating_add(inner)
    }

    /// A call outlasts its result. It counts as long as the guard lives.
    pub(crate) fn outlasts(self: &Rc<Self>) -> Late {
        self.late.set(self.late.get().saturating_add(1));
        Late(self.clone())
    }
}

/// A call that outlasts its result.
pub(crate) struct Late(Rc<Course>);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.late.set(self.0.late.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement I15.
    #[test]
    fn i15_a_late_call_of_a_child_run_counts_until_it_has_ended() {
        let course = Course::default();
        let child = Rc::new(Course::within(&course));
        let call = child.outlasts();
        course.begin_run("c1", 2, 0);
        assert_eq!(course.late(), 1);
        drop(call);
        assert_eq!(course.late(), 0);
        // Of a child run without any, nothing is kept.
        course.begin_run("c1", 3, 0);
        assert!(course.inner.borrow().is_empty());
    }
}

//! The budget of a turn: reservations before calls, and what happens at a limit.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_budget::Amounts;
use capos_plural::count;
use capos_run_state::{RunEvent, RunState};
use capos_schema::annotations::Category;
use capos_schema::authority::{BudgetDimension, Reply};
use capos_schema::models::{Outcome, ToolCall};

use crate::agent::Agent;
use crate::agent::known::Known;
use crate::call::{Context, NANOSECONDS, Proposal};
use crate::curtain::Line;
use crate::going::Going;
use crate::race::{Either, race};
use crate::snapshot::{Snapshot, Tool};
use crate::turn_end::TurnEnd;
use crate::world::{Show, World};

/// Bytes of a token at least and at most, for an estimate.
const LONGEST_TOKEN: u64 = 16;
const SHORTEST_TOKEN: u64 = 3;

/// A limit for which a step does not begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excess {
    /// Which limit it is and how to raise it; or the question to the person.
    pub text: String,
    /// The person may allow more.
    pub asks: bool,
    /// The limit is the session's and not the run's.
    pub session: bool,
    /// What is used up.
    pub dimension: BudgetDimension,
    /// How much more to ask for, in the unit of the dimension.
    pub suggested: u64,
}

/// What the broker says to a step that is about to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Names the reservation; 0 if nothing was reserved.
    pub number: u64,
    /// What the person is told of limits that come near.
    pub notices: Vec<String>,
    /// Why the step may not begin.
    pub excess: Option<Excess>,
}

/// The person's answer to the question about more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// This much, in the unit of the dimension.
    Granted(u64),
    /// No, or just Enter.
    No,
    /// Ctrl-C.
    Interrupted,
    /// The terminal is gone, and the question with it.
    Lost,
}

/// The budget of the session's run, which the broker keeps. A run is a turn with its steps.
#[allow(async_fn_in_trait)]
pub trait Budget {
    /// Begins a run, or continues it: what it has used counts on, as the broker knows it or the checkpoint does, whichever is
    /// more. The tokens are an estimate of its next request.
    ///
    /// # Errors
    /// The broker does not answer; no run begins then.
    async fn begin_run(
        &self,
        conversation: &str,
        turn: u32,
        tokens: (u64, u64),
        used: Amounts,
    ) -> Result<Standing, String>;

    /// What the run has used, and what was added to its limits; none if the broker does not answer.
    async fn used(&self) -> Option<(Amounts, Amounts)>;

    /// Whether the next request to the model may begin.
    ///
    /// # Errors
    /// The broker does not answer; it does not begin then.
    async fn look(&self) -> Result<Standing, String>;

    /// Reserves one tool call, and the bytes that it writes if its arguments tell that.
    ///
    /// # Errors
    /// The broker does not answer; the call does not run then.
    async fn reserve(&self, tool: &str, call_id: &str, writes: u64) -> Result<Standing, String>;

    /// A call has ended, or never began: what is told of limits that come near.
    async fn settle(&self, number: u64, began: bool) -> Vec<String>;

    /// Tells the broker the person's reply.
    ///
    /// # Errors
    /// Why no more is granted.
    async fn extend(&self, excess: &Excess, more: u64, reply: Reply) -> Result<(), String>;

    /// Ends the run: what is told of limits that come near. One that is not `over` may be continued.
    async fn end_run(&self, outcome: &str, over: bool) -> Vec<String>;
}

/// The calls of one answer for which a step is reserved.
#[derive(Debug, Default)]
pub struct Reserved {
    /// The call's id, and its reservation.
    open: RefCell<Vec<(String, u64)>>,
    /// Why calls without a reservation do not run.
    pub refused: RefCell<String>,
}

impl Reserved {
    /// The reservation of a call, if it has one.
    pub fn of(&self, call_id: &str) -> Option<u64> {
        self.open.borrow().iter().find(|(id, _)| id == call_id).map(|(_, number)| *number)
    }

    /// The same, which is settled now.
    pub fn take(&self, call_id: &str) -> Option<u64> {
        let mut open = self.open.borrow_mut();
        let at = open.iter().position(|(id, _)| id == call_id)?;
        Some(open.swap_remove(at).1)
    }

    fn rest(&self) -> Vec<(String, u64)> {
        self.open.take()
    }
}

/// How often each tool has failed in a run, since it last succeeded, and what else the calls of the run have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    most: u32,
    /// What the calls have shown.
    pub known: Known,
    of: Rc<RefCell<BTreeMap<String, u32>>>,
}

impl Failures {
    /// Of a run in which a tool may fail so often.
    pub fn new(most: u32) -> Self {
        Self { most, ..Self::default() }
    }

    /// Counts how a call of a tool ended.
    pub fn count(&self, tool: &str, outcome: Outcome) {
        let mut of = self.of.borrow_mut();
        match outcome {
            Outcome::Ok => drop(of.remove(tool)),
            Outcome::ExecutionError | Outcome::TimedOut | Outcome::InvalidArguments => {
                let count = of.entry(tool.to_string()).or_default();
                *count = count.saturating_add(1);
            }
            _ => {}
        }
    }

    /// How often a tool has failed, if that is as often as it may.
    fn spent(&self, tool: &str) -> Option<u32> {
        self.of.borrow().get(tool).copied().filter(|count| *count >= self.most)
    }
}

impl<W: World> Context<W> {
    /// Why a call is not run by the limits of its run; nothing if it may.
    pub(crate) fn limited(&self, tool: &Tool, call: &ToolCall) -> String {
        if let Some(times) = self.failures.spent(&tool.descriptor.name) {
            return format!(
                "{} has failed {} in this run, one after the other, and is not run again in it; do something else, or end \
                 with an answer",
                tool.descriptor.name,
                count(times, "time")
            );
        }
        if self.reserved.of(&call.id).is_none() {
            let why = self.reserved.refused.borrow();
            return if why.is_empty() { "no step of this run is reserved for it".to_string() } else { why.clone() };
        }
        String::new()
    }

    /// A call has ended: what it has reserved is settled.
    pub(crate) async fn settle(&self, call_id: &str) {
        let Some(number) = self.reserved.take(call_id) else { return };
        for text in self.world.settle(number, true).await {
            self.tell(Line::Notice(text)).await;
        }
    }
}

/// Bytes that a call writes, as far as its arguments tell.
fn writes(snapshot: &Snapshot, proposal: &Proposal) -> u64 {
    let call = &proposal.call;
    match snapshot.find(&call.name, &call.handle) {
        Ok(tool) if tool.descriptor.category == Category::Mutating.name() => call.arguments.len() as u64,
        _ => 0,
    }
}

impl<W: World> Agent<W> {
    /// Shows what is told of limits that come near.
    async fn tell_limits(&self, notices: &[String]) {
        for text in notices {
            self.world().show(Show::Notice(text)).await;
        }
    }

    /// Begins the run of a turn.
    pub(crate) async fn begin_run(&mut self, turn: u32, bytes: usize) -> Result<(), TurnEnd> {
        let bytes = bytes as u64;
        let least = bytes / LONGEST_TOKEN;
        let most = (bytes / SHORTEST_TOKEN).saturating_add(self.session().limits.max_tokens_per_call.into());
        let (name, used) =
            self.going.as_ref().map_or((self.conversation().id.clone(), Amounts::default()), Going::budget);
        let begun = self.world().begin_run(&name, turn, (least, most), used).await;
        if let Some(going) = self.going.as_mut().filter(|_| begun.is_ok()) {
            going.unbegun = false;
        }
        self.go_on_after(begun).await.map(drop)
    }

    /// Waits until the next request to the model may begin.
    pub(crate) async fn may_ask(&self) -> Result<(), TurnEnd> {
        loop {
            let standing = self.world().look().await;
            if self.go_on_after(standing).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// What a standing says: the number of a reservation, or none if the person has allowed more.
    async fn go_on_after(&self, standing: Result<Standing, String>) -> Result<Option<u64>, TurnEnd> {
        let silent = |why| TurnEnd::Refused(format!("the broker did not report the budget of this run: {why}"));
        let Standing { number, notices, excess } = standing.map_err(silent)?;
        self.tell_limits(&notices).await;
        let Some(excess) = excess else { return Ok(Some(number)) };
        if !excess.asks {
            return Err(TurnEnd::Budget { why: excess.text, cancelled: false });
        }
        self.ask_for_more(&excess).await.map(|()| None)
    }

    /// Asks the person for more of a budget that is used up.
    async fn ask_for_more(&self, excess: &Excess) -> Result<(), TurnEnd> {
        let limit = u64::from(self.session().limits.approval_timeout_ms).saturating_mul(NANOSECONDS);
        let patience = self.world().sleep_until(self.world().now().saturating_add(limit));
        // Between its steps the run is paused. A question about the calls of an answer is a part of its step.
        let pauses = self.course().run_state() == RunState::Running;
        if pauses {
            self.course().advance(&**self.world(), RunEvent::AwaitApproval).await;
        }
        let (more, reply) = match race(self.world().more(excess), patience).await {
            Either::Left(More::Granted(more)) => (more, Reply::Agreed),
            Either::Left(More::No) => (excess.suggested, Reply::Declined),
            Either::Left(More::Interrupted) => (excess.suggested, Reply::Interrupted),
            Either::Left(More::Lost) => (excess.suggested, Reply::Lost),
            Either::Right(()) => (excess.suggested, Reply::Late),
        };
        let told = self.world().extend(excess, more, reply).await;
        if pauses && reply == Reply::Agreed {
            self.course().advance(&**self.world(), RunEvent::Resume).await;
        }
        let why = match (reply, told) {
            (Reply::Agreed, Ok(())) => return Ok(()),
            (Reply::Agreed, Err(why)) => return Err(TurnEnd::Budget { why, cancelled: false }),
            (Reply::Interrupted, _) => return Err(TurnEnd::Interrupted),
            (Reply::Late, _) => format!("nobody answered within {} s", limit / 1_000_000_000),
            _ => "you allowed no more".to_string(),
        };
        let question = excess.text.split(". Allow ").next().unwrap_or_default();
        Err(TurnEnd::Budget { why: format!("{question}; {why}"), cancelled: true })
    }

    /// Reserves a step for each call of an answer, before any of them runs. The end of the turn, if a limit is reached: calls
    /// without a reservation do not run.
    pub(crate) async fn reserve(
        &self,
        snapshot: &Snapshot,
        proposals: &[Proposal],
        reserved: &Reserved,
    ) -> Option<TurnEnd> {
        for proposal in proposals.iter().filter(|proposal| proposal.flaw.is_none()) {
            let call = &proposal.call;
            loop {
                let standing = self.world().reserve(&call.name, &call.id, writes(snapshot, proposal)).await;
                match self.go_on_after(standing).await {
                    Ok(Some(number)) => {
                        reserved.open.borrow_mut().push((call.id.clone(), number));
                        break;
                    }
                    Ok(None) => {}
                    Err(end) => {
                        *reserved.refused.borrow_mut() = match &end {
                            TurnEnd::Budget { why, .. } | TurnEnd::Refused(why) => why.clone(),
                            _ => "cancelled by the person".to_string(),
                        };
                        return Some(end);
                    }
                }
            }
        }
        None
    }

    /// Settles what was reserved for calls that never began.
    pub(crate) async fn settle_rest(&self, reserved: &Reserved) {
        for (_, number) in reserved.rest() {
            let notices = self.world().settle(number, false).await;
            self.tell_limits(&notices).await;
        }
    }

    /// Ends the run of a turn.
    pub(crate) async fn end_run(&self, end: &TurnEnd) {
        let notices = self.world().end_run(end.outcome(), *end == TurnEnd::Answered).await;
        self.tell_limits(&notices).await;
    }
}

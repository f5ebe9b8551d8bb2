//! The calls of one answer: checked in order, asked about one at a time, run where their capabilities are free.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::pin;

use capos_run_state::{Event, RunEvent};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{ToolCall, ToolResult};

use crate::asking::{Asks, touches};
use crate::call::{Checked, Context, Proposal, Ready, cancelled};
use crate::delegate::delegates;
use crate::lanes::{Lanes, Touches};
use crate::limits::Bounds;
use crate::race::{Either, race};
use crate::snapshot::Snapshot;
use crate::world::{Show, World};

/// How long a decision that is under way when the person interrupts may still take, in nanoseconds.
const GRACE: u64 = 1_000_000_000;

/// What the calls of one answer have come to.
struct Calls<'a, W: World> {
    context: &'a Rc<Context<W>>,
    bounds: &'a Bounds,
    lanes: Lanes<ToolResult>,
    interrupted: bool,
    refused: usize,
}

/// A call whose turn comes when those before it have ended.
enum Later<W: World> {
    /// The person is asked about it.
    Asks(Box<Asks<W>>),
    /// It begins a child run, which may ask the person: so no other question is open then.
    Delegates(Box<Ready<W>>),
}

/// Checks the calls in order, and then asks the person about those that need it, one after the other. A call that needs no
/// answer begins as soon as it is checked and its capabilities are free. If an earlier one may still change something there, it
/// is decided when that one has ended. Returns one result for each call, in their order; and whether the person interrupted.
/// The person is asked about a call, and a child run begins, when those before it have ended.
pub async fn execute<W: World>(
    context: &Rc<Context<W>>,
    snapshot: &Snapshot,
    (proposals, bounds): (&[Proposal], &Bounds),
    interrupt: &mut LocalBoxFuture<'static, ()>,
) -> (Vec<ToolResult>, bool) {
    // The person may have interrupted at a question before, about the calls' budget.
    let interrupted = context.cancel.is_set();
    let mut calls = Calls { context, bounds, lanes: Lanes::default(), interrupted, refused: 0 };
    let mut later: Vec<(usize, &Proposal, Later<W>)> = Vec::new();
    for proposal in proposals {
        if calls.is_too_many() {
            calls.lanes.push_done(context.skip(proposal, calls.refused));
            continue;
        }
        if calls.interrupted {
            calls.lanes.push_done(context.refuse(cancelled(snapshot, proposal)).await);
            continue;
        }
        let touched = snapshot.find(&proposal.call.name, &proposal.call.handle).map(touches);
        let waits = touched.is_ok_and(|touched| calls.lanes.may_change(&touched));
        let checking = async {
            let call = &proposal.call;
            context.propose(snapshot, call);
            context
                .world
                .show(Show::Proposed { call_id: &call.id, name: &call.name, arguments: &call.arguments })
                .await;
            context.check(snapshot, proposal, waits).await
        };
        match calls.attend(interrupt, checking).await {
            Some(Checked::Asks(asks)) => {
                later.push((calls.lanes.reserve(asks.touches()), proposal, Later::Asks(asks)));
            }
            Some(Checked::Ready(ready)) if delegates(&ready.tool) => {
                later.push((calls.lanes.reserve(touches(&ready.tool)), proposal, Later::Delegates(ready)));
            }
            checked => {
                let place = calls.lanes.reserve(touches_of(checked.as_ref()));
                calls.place(place, checked, (snapshot, proposal)).await;
            }
        }
    }
    if later.iter().any(|(.., later)| matches!(later, Later::Asks(_))) && !calls.interrupted {
        context.course.advance(&*context.world, RunEvent::Question).await;
    }
    for (place, proposal, later) in later {
        if calls.is_too_many() {
            calls.lanes.settle(place, context.skip(proposal, calls.refused));
            continue;
        }
        if calls.interrupted {
            calls.lanes.settle(place, context.refuse(cancelled(snapshot, proposal)).await);
            continue;
        }
        let quiet = calls.lanes.quiet();
        let found = async {
            match later {
                Later::Asks(asks) => context.answer(*asks, (&quiet, place)).await,
                Later::Delegates(ready) => {
                    quiet.before(place).await;
                    Checked::Ready(ready)
                }
            }
        };
        let answered = calls.attend(interrupt, found).await;
        calls.place(place, answered, (snapshot, proposal)).await;
    }
    let Calls { mut lanes, mut interrupted, .. } = calls;
    context.course.advance(&*context.world, RunEvent::Execute).await;
    if !interrupted && let Either::Left(()) = race(interrupt.as_mut(), lanes.finish()).await {
        interrupted = true;
        context.cancel.set();
    }
    lanes.finish().await;
    // A child run may have been interrupted at a question of its own.
    interrupted |= context.cancel.is_set();
    (lanes.into_values().collect(), interrupted)
}

impl<W: World> Context<W> {
    /// Tells that a call is proposed.
    fn propose(&self, snapshot: &Snapshot, call: &ToolCall) {
        let now = self.world.now();
        self.course.propose(&call.id, now);
        let found = snapshot.find(&call.name, &call.handle);
        let category = found.map(|tool| tool.descriptor.category.clone()).unwrap_or_default();
        let (call_id, tool, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
        self.course.emit(now, Event::ToolRequested { call_id, tool, category, arguments });
    }
}

/// What a call touches that may run.
fn touches_of<W: World>(checked: Option<&Checked<W>>) -> Touches {
    match checked {
        Some(Checked::Ready(ready)) => touches(&ready.tool),
        Some(Checked::Asks(asks) | Checked::Waits(asks)) => asks.touches(),
        _ => Touches::default(),
    }
}

impl<W: World> Calls<'_, W> {
    /// Whether so many calls of this answer were refused that no other is looked at.
    fn is_too_many(&self) -> bool {
        self.refused >= self.bounds.refused || (self.refused > 0 && self.context.allowance.is_spent())
    }

    /// Waits for what is found about a call, while the others run. None if the person interrupted, and it took too long then.
    async fn attend(
        &mut self,
        interrupt: &mut LocalBoxFuture<'static, ()>,
        finding: impl Future<Output = Checked<W>>,
    ) -> Option<Checked<W>> {
        let mut finding = pin!(finding);
        if let Either::Right(found) = race(interrupt.as_mut(), self.lanes.beside(finding.as_mut())).await {
            return Some(found);
        }
        self.interrupted = true;
        self.context.cancel.set();
        // What is being decided now is worth knowing, if it does not take long.
        let world = &self.context.world;
        let patience = world.sleep_until(world.now().saturating_add(GRACE));
        let found = race(self.lanes.beside(finding), patience).await;
        // The question has ended, if one was open.
        self.context.open_curtain().await;
        match found {
            Either::Left(found) => Some(found),
            Either::Right(()) => None,
        }
    }

    /// Puts a call to its place, by what was found about it.
    async fn place(&mut self, place: usize, found: Option<Checked<W>>, (snapshot, proposal): (&Snapshot, &Proposal)) {
        let refusal = match found {
            Some(Checked::Ready(ready)) => {
                self.lanes.permit(place, Box::pin(self.context.clone().run(*ready)));
                return;
            }
            Some(Checked::Waits(asks)) => {
                self.lanes.permit(place, Box::pin(self.context.clone().run_late(*asks)));
                return;
            }
            Some(Checked::Refused(refusal)) => {
                self.refused = self.refused.saturating_add(1);
                refusal
            }
            Some(Checked::Interrupted(refusal)) => {
                self.interrupted = true;
                self.context.cancel.set();
                refusal
            }
            // It is asked about once.
            Some(Checked::Asks(_)) | None => cancelled(snapshot, proposal),
        };
        let result = self.lanes.beside(self.context.refuse(refusal)).await;
        self.lanes.settle(place, result);
    }
}

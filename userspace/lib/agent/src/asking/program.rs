//! A question that a program asks before a step, while a call runs it.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};
use core::future::ready;

use capos_async_lock::Waiters;
use capos_policy::STEP;
use capos_schema::audit::Phase;
use capos_schema::authority::Decision;
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{Outcome, PermissionMode, ToolCall};
use capos_schema::reflection;
use capos_schema::system::ProgramApprovalClient;
use serde_json::json;

use super::Asks;
use crate::call::{Context, Gated, close, refusal};
use crate::conversation::hex;
use crate::race::{Either, race};
use crate::result::{Why, answered, hash};
use crate::signal::Signal;
use crate::snapshot::Tool;
use crate::world::{Asker, Gate, Ruling, World};

/// The method by which a program asks, as a tool. No model is offered it.
const TOOL: &str = "ask_before_step";
/// Questions of one call at most: a person is not asked without end.
const MOST: u32 = 16;
/// Bytes of a call's id in the ids of its questions.
const ID: usize = 200;
/// Stands in each question.
const CLAIM: &str = "The program wrote `action`. capOS does not check what the step does.";

/// The method, as a tool that needs consent at least.
fn step() -> Option<Tool> {
    let (method, mut descriptor) = reflection::interface(ProgramApprovalClient::INTERFACE_ID)?.tool(TOOL)?;
    descriptor.permission = PermissionMode::Consent;
    Some(Tool { descriptor, method: method.ordinal, ..Tool::default() })
}

/// The id of a call, or of a long one its beginning and a digest of all of it.
fn shortened(id: &str) -> String {
    if id.len() <= ID {
        return id.to_string();
    }
    let digest: String = hex(&hash(id)).chars().take(32).collect();
    format!("{}~{digest}", id.get(..id.floor_char_boundary(ID)).unwrap_or_default())
}

/// Asks for the programs of one call.
pub struct OfCall<W: World> {
    context: Rc<Context<W>>,
    call_id: String,
    asked: Cell<u32>,
    /// Questions that are not recorded to their end.
    open: Rc<Open>,
}

#[derive(Default)]
struct Open {
    count: Cell<u32>,
    /// When the first of them was asked.
    since: Cell<u64>,
    /// For how long at least one has been open, in nanoseconds.
    waited: Cell<u64>,
    changed: Waiters,
}

impl Open {
    fn begin(&self, now: u64) {
        if self.count.replace(self.count.get().saturating_add(1)) == 0 {
            self.since.set(now);
        }
    }

    fn end(&self, now: u64) {
        self.count.set(self.count.get().saturating_sub(1));
        if self.count.get() == 0 {
            self.waited.set(self.waited.get().saturating_add(now.saturating_sub(self.since.get())));
        }
        self.changed.wake();
    }
}

/// A program that waits for an answer. When it does so no more, its question is over.
struct Waiting(Signal);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl<W: World> OfCall<W> {
    /// Waits until each question of the call has its records. Call it when no program of the call runs any more.
    pub async fn settled(&self) {
        self.open.changed.until(|| (self.open.count.get() == 0).then_some(())).await;
    }

    /// Ends when the call is out of time, in nanoseconds since boot: at the deadline, later by as long as questions were open, and with the
    /// session.
    pub async fn out_of_time(&self, deadline: u64, end: u64) {
        loop {
            let until = deadline.saturating_add(self.open.waited.get()).min(end);
            self.context.world.sleep_until(until).await;
            if until == end {
                return;
            }
            let is_over = race(self.settled(), self.context.world.sleep_until(end)).await;
            if matches!(is_over, Either::Right(())) {
                return;
            }
            if until >= deadline.saturating_add(self.open.waited.get()) {
                return;
            }
        }
    }
}

impl<W: World> Asker for OfCall<W> {
    fn ask(&self, program: &str, action: &str) -> LocalBoxFuture<'static, Result<(), String>> {
        let number = self.asked.get().saturating_add(1);
        self.asked.set(number);
        if number > MOST {
            let why = format!("the person has been asked {MOST} times in this call, and is not asked again");
            return Box::pin(ready(Err(why)));
        }
        let id = format!("{}{STEP}{number}", shortened(&self.call_id));
        let arguments = json!({ "action": action, "program": program }).to_string();
        let (context, open) = (self.context.clone(), self.open.clone());
        Box::pin(async move {
            let (over, answered) = (Signal::default(), Signal::default());
            let none = || Err("the question was not answered".to_string());
            let answer: Rc<RefCell<Result<(), String>>> = Rc::new(RefCell::new(none()));
            open.begin(context.world.now());
            let (told, is_told, is_over) = (answer.clone(), answered.clone(), over.clone());
            // Its records are written to the end, whatever becomes of the program.
            let world = context.world.clone();
            world.clone().spawn(Box::pin(async move {
                let found = context.ask_before_step(id, &arguments, &is_over).await;
                *told.borrow_mut() = found;
                open.end(world.now());
                is_told.set();
            }));
            let _waiting = Waiting(over);
            answered.wait().await;
            answer.replace(none())
        })
    }
}

impl<W: World> Context<W> {
    /// Asks the person for programs that this call runs.
    pub(crate) fn asker(self: &Rc<Self>, call: &ToolCall) -> Rc<OfCall<W>> {
        let (asked, open) = Default::default();
        Rc::new(OfCall { context: self.clone(), call_id: call.id.clone(), asked, open })
    }

    /// Asks whether a program may go on: a call of its own, with the decision and the records of one. If `over` is set, the program
    /// does not wait any more.
    async fn ask_before_step(self: Rc<Self>, id: String, arguments: &str, over: &Signal) -> Result<(), String> {
        let tool = step().ok_or("this system's schema has no such question")?;
        let (prepared, arguments) = self.world.prepare(&tool, arguments, &self.label)?;
        let call = ToolCall { id, name: tool.descriptor.name.clone(), handle: String::new(), arguments };
        let question = self.question(&tool, &call);
        let asks: Asks<W> = Asks { tool, call, prepared, question };
        if let Err(why) = self.may_go_on(over) {
            return self.turn_away(asks, None, why.into(), Outcome::RefusedByPolicy).await;
        }
        let gated = match self.unasked(&asks.tool, &asks.question).await {
            Ok(gated) => gated,
            Err(review) => self.ask(&asks, review, (CLAIM, over)).await,
        };
        let (decision, why, outcome) = match gated {
            Gated::Open(ruling) => match self.may_go_on(over) {
                Ok(()) => return self.grant(asks, ruling, over).await,
                Err(why) => (Some(ruling.decision), why.into(), Outcome::Cancelled),
            },
            Gated::Closed(decision, why, outcome) => (decision, why, outcome),
            Gated::Interrupted(decision) => (decision, "by the person at the question".into(), Outcome::Cancelled),
        };
        self.turn_away(asks, decision, why, outcome).await
    }

    /// Whether steps are done at all now.
    fn may_go_on(&self, over: &Signal) -> Result<(), &'static str> {
        if over.is_set() {
            return Err("the program that asked has ended");
        }
        if self.cancel.is_set() {
            return Err("cancelled by the person");
        }
        if self.session.has_expired(self.world.now()) {
            return Err("the session's policy has expired; nothing runs until the person resumes the session");
        }
        Ok(())
    }

    /// Records that the step may be done.
    async fn grant(
        self: Rc<Self>,
        asks: Asks<W>,
        mut ruling: Ruling<<W as Gate>::Lease>,
        over: &Signal,
    ) -> Result<(), String> {
        if let Some(lease) = ruling.lease.take()
            && let Err(why) = self.world.redeem(lease, &asks.question).await
        {
            return self.turn_away(asks, Some(ruling.decision), why.into(), Outcome::StepUpFailed).await;
        }
        if let Err(why) = self.may_go_on(over) {
            return self.turn_away(asks, Some(ruling.decision), why.into(), Outcome::Cancelled).await;
        }
        let Asks { tool, call, .. } = asks;
        let mut event = self.before(&tool, &call, (ruling.decision, &ruling.reason));
        match self.begin(&event).await {
            Ok(sequence) => event.before = sequence,
            Err(result) => {
                self.show_end(&call, &result).await;
                return Err("the step could not be recorded, so it is not granted".to_string());
            }
        }
        event.phase = Phase::After;
        // While it was recorded the program may have ended, and the person may have cancelled.
        let granted = self.may_go_on(over);
        let result = match granted {
            Ok(()) => answered(&call.id, Outcome::Ok, String::new()),
            Err(why) => answered(&call.id, Outcome::Cancelled, why),
        };
        close(&mut event, &result);
        self.write(&event).await;
        granted.map_err(String::from)
    }

    /// Records that the step may not be done.
    async fn turn_away(
        &self,
        asks: Asks<W>,
        decision: Option<Decision>,
        why: Why,
        outcome: Outcome,
    ) -> Result<(), String> {
        let Asks { tool, call, .. } = asks;
        let text = why.text().to_string();
        self.refuse(refusal(tool.descriptor, call, decision, &text, outcome, why)).await;
        Err(text)
    }
}

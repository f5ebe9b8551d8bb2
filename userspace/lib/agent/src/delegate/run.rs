//! A child run, from its call to its result.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_policy::join;
use capos_run_state::{Event, RunState};
use capos_schema::audit::{GeneralEvent, ToolEvent};
use capos_schema::authority::SessionLimits;
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{Outcome, ToolCall, ToolResult};

use super::{ChildRun, Given, Order, Origin};
use crate::agent::{Agent, Session};
use crate::call::{Context, NANOSECONDS, time_limit};
use crate::conversation::{Conversation, hex};
use crate::course::{Course, run_id};
use crate::curtain::Line;
use crate::race::{Either, race};
use crate::result::{Brought, Why, answered, ended, hash};
use crate::signal::Signal;
use crate::snapshot::{Snapshot, Tool, quote};
use crate::turn_end::TurnEnd;
use crate::world::{World, field, names};

/// Follows the system prompt in a child run. Text of this program alone.
const SYSTEM: &str = include_str!("system-message.txt").trim_ascii_end();

/// Why a child run is ended from outside.
enum Stop {
    Cancelled,
    TimedOut,
}

/// A child run that has begun.
struct Begun<W: World> {
    agent: Agent<W>,
    order: Order,
    tools: Snapshot,
    number: u32,
    /// Model calls that its parent's checkpoint reserves for it.
    reserved: u32,
    given: Rc<Given>,
    cancel: Signal,
    /// Its id and its parent's.
    run: String,
    parent: String,
}

impl<W: World> Context<W> {
    /// Makes the child run that a call asks for.
    ///
    /// # Errors
    /// Why it does not begin.
    fn begin_child(&self, call: &ToolCall) -> Result<Begun<W>, String> {
        let order = Order::read(&call.arguments, self.given.as_deref())?;
        let given = self.given.clone().ok_or("this run has no child runs")?;
        let model_calls = order.calls(given.left())?;
        let announced = given.announced.iter().find(|(id, ..)| *id == call.id);
        let (_, number, reserved) = announced.cloned().ok_or("the call is not one of this answer")?;
        let tools = Snapshot::new(order.tools.clone())?;
        let cancel = Signal::default();
        let world =
            self.world.child(ChildRun { turn: self.turn, number, shares: order.shares, cancel: cancel.clone() })?;
        let limits = SessionLimits { max_iterations: model_calls, ..self.session.limits.clone() };
        let parent = run_id(&self.conversation, self.turn);
        // The id says whose child it is: all records of the child have it.
        let conversation = Conversation::new(format!("{parent}.{number}"));
        let run = run_id(&conversation.id, 1);
        let system = format!("{}\n\n{SYSTEM}", given.system);
        let session = Session { limits, ..Session::clone(&self.session) };
        let origin = Origin {
            task: order.task.clone(),
            label: self.label.clone(),
            untrusted: self.untrusted,
            allowance: self.allowance.clone(),
        };
        let course = Rc::new(Course::within(&self.course));
        let mut agent =
            Agent::new(world, session, system, conversation, self.backlog.clone()).with_course(course).within(origin);
        // One question of the two is open at a time.
        agent.questions = self.questions.clone();
        agent.set_bounds(given.bounds);
        agent.set_policy(given.policy.clone());
        given.children.borrow_mut().begin(number);
        Ok(Begun { agent, order, tools, number, reserved, given, cancel, run, parent })
    }

    /// The effect of a call that begins a child run, and the record of its end. The child run has ended when this returns.
    pub(crate) async fn delegate(self: Rc<Self>, tool: &Tool, call: &ToolCall, event: &ToolEvent) -> ToolResult {
        let Begun { mut agent, order, tools, number, reserved, given, cancel, run, parent } =
            match self.begin_child(call) {
                Ok(begun) => begun,
                Err(why) => return self.after(event, answered(&call.id, Outcome::ExecutionError, why)).await,
            };
        let ids = [field("run", run.as_str()), field("parent", parent.as_str()), field("callId", call.id.as_str())];
        let most = agent.session().limits.max_iterations;
        let fields = [
            field("tools", names(tools.tools().iter()).join(" ")),
            field("taskBytes", order.task.len().to_string()),
            field("taskHash", hex(&hash(&order.task))),
            field("modelCalls", most.to_string()),
        ];
        self.note_child("run.child.begin", ids.iter().cloned().chain(fields)).await;
        self.course.emit(self.world.now(), Event::ToolStarted { call_id: call.id.clone() });
        let text = format!("child run {number} begins, with {}: {}", count(most, "model call"), quote(&order.task));
        self.tell(Line::Notice(text)).await;
        let limit = match order.seconds {
            0 => time_limit(&tool.descriptor, &self.session.limits).into(),
            seconds => seconds.saturating_mul(1000),
        };
        let deadline = self.world.now().saturating_add(limit.saturating_mul(NANOSECONDS)).min(self.session.end());
        let (end, stop) = {
            let mut turn: LocalBoxFuture<'_, TurnEnd> = Box::pin(agent.turn(&order.task, &tools));
            let stop = race(self.cancel.wait(), self.world.sleep_until(deadline));
            let ended = race(turn.as_mut(), stop).await;
            match ended {
                Either::Left(end) => (end, None),
                Either::Right(stop) => {
                    // It ends as it would by Ctrl-C, so each of its calls has its outcome and its record.
                    cancel.set();
                    let stop = if matches!(stop, Either::Left(())) { Stop::Cancelled } else { Stop::TimedOut };
                    (turn.await, Some(stop))
                }
            }
        };
        if stop.is_none() && end == TurnEnd::Interrupted {
            // Ctrl-C at a question of the child ends the turn.
            self.cancel.set();
        }
        let (asked, tokens) = agent.going.as_ref().map(|going| (going.steps().0, going.tokens())).unwrap_or_default();
        let state = match end {
            // It has its answer. What still runs is waited for by its parent.
            TurnEnd::Scheduled(_) => RunState::Completed,
            _ => agent.course().last(),
        };
        given.children.borrow_mut().end(number, state, (asked, reserved), tokens);
        if let Some(going) = &agent.going {
            self.failures.known.child_ended(&going.failures.known);
        }
        self.course.used(agent.course().tokens());
        let fields = [
            field("state", state.name()),
            field("outcome", end.outcome()),
            field("modelCalls", asked.to_string()),
            field("tokens", tokens.to_string()),
        ];
        self.note_child("run.child.end", ids.into_iter().chain(fields)).await;
        let text = format!("child run {number} {}, after {}", state.words(), count(asked, "model call"));
        self.tell(Line::Notice(text)).await;
        let label = agent.conversation().label().0;
        let mut result = match (stop, &end) {
            (Some(Stop::Cancelled), _) | (None, TurnEnd::Interrupted) => {
                answered(&call.id, Outcome::Cancelled, "cancelled by the person")
            }
            (Some(Stop::TimedOut), _) => {
                let why = format!("the child run did not end within {limit} ms");
                answered(&call.id, Outcome::TimedOut, Why::own(why))
            }
            (None, TurnEnd::Answered | TurnEnd::Scheduled(_)) => {
                let last = agent.conversation().entries().last();
                let text = last.map(|entry| entry.message.content.clone()).unwrap_or_default();
                ended(tool, call, Ok(Brought::from(text)))
            }
            (None, end) => ended(tool, call, Err(format!("the child run has no answer: {}", end.why()))),
        };
        // Whatever it says was made of what the child has seen.
        result.label = join(&result.label, &label);
        self.after(event, result).await
    }

    async fn note_child(&self, kind: &str, fields: impl Iterator<Item = capos_schema::audit::GeneralEventField>) {
        let (session, principal) = (self.session.id.clone(), self.session.principal.clone());
        let fields: Vec<_> = fields.collect();
        self.note(GeneralEvent { kind: kind.to_string(), session, principal, fields }).await;
    }
}

//! Child runs: the model of a run hands out a task, and another conversation works on it.
//!
//! A child run is a run like any other: the same loop, gate, person and records. What is different:
//!
//! * Its conversation begins with the task alone, and has the label of what the model had seen that wrote it.
//! * Its tools are some of its parent's, and never the one that delegates. So there are no grandchildren. It sets no reminders either.
//! * Its budget and its model calls are a part of what its parent has left. At a limit it ends; nobody is asked for more.
//! * Child runs of a run run one after the other, so no two questions are open at one time.
//! * It ends when its parent is cancelled. It is not continued: the call that began it has the fate of any other call.

mod order;
mod run;

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_run_state::Children;
use capos_schema::authority::{ChildRunsClient, Label, RemindersClient};
use serde_json::Value;

use crate::agent::Agent;
use crate::call::Proposal;
use crate::evidence::Allowance;
use crate::limits::Bounds;
use crate::signal::Signal;
use crate::snapshot::{Snapshot, Tool};
use crate::world::{Amounts, World};

pub(crate) use order::Order;

/// Whether a tool begins a child run.
pub(crate) fn delegates(tool: &Tool) -> bool {
    tool.descriptor.interface_id == ChildRunsClient::INTERFACE_ID
}

/// Whether a tool stays with the run, and no child run has it. It begins child runs, or it sets a reminder for the person, who sees
/// little of what a child run does.
fn stays(tool: &Tool) -> bool {
    delegates(tool) || tool.descriptor.interface_id == RemindersClient::INTERFACE_ID
}

/// A child run that begins.
#[derive(Clone, Debug)]
pub struct ChildRun {
    /// The turn of its parent.
    pub turn: u32,
    /// Its number in its parent, from 1.
    pub number: u32,
    /// Its parts of what the parent has left, in the units of the dimensions; 0 is half of it.
    pub shares: Amounts,
    /// Its person's Ctrl-C, or its parent's end.
    pub cancel: Signal,
}

/// Worlds of runs within runs.
pub trait Parent: Sized {
    /// The world of a child run of the run at hand: the same session, model and person, and a budget of its own, which begins with
    /// the child's run. It has no checkpoint.
    ///
    /// # Errors
    /// No run has begun.
    fn child(&self, child: ChildRun) -> Result<Rc<Self>, String>;
}

/// What a child run has of its parent.
pub(crate) struct Origin {
    /// The task.
    pub task: String,
    /// The label of what the model that wrote it had seen, and how many tool results of that were untrusted.
    pub label: Label,
    pub untrusted: usize,
    /// What the parent's turn may still leave in the audit log.
    pub allowance: Rc<Allowance>,
}

/// What the calls of one answer may give child runs.
pub(crate) struct Given {
    /// The tools of the run that a child run may have.
    tools: Vec<Tool>,
    system: String,
    bounds: Bounds,
    /// What the session permits, as a digest.
    policy: String,
    /// Model calls that the run may still make together with its child runs so far.
    room: u32,
    /// Of each call that asks for a child run, its id; the child run's number; and the model calls that are reserved for it.
    announced: Vec<(String, u32, u32)>,
    children: Rc<RefCell<Children>>,
}

impl Given {
    /// Model calls that are left of the run.
    fn left(&self) -> u32 {
        self.room.saturating_sub(self.children.borrow().asked)
    }
}

impl<W: World> Agent<W> {
    /// What the calls of an answer may give child runs; none if no call asks for one. They are in the checkpoint from here on.
    pub(crate) async fn give(&self, snapshot: &Snapshot, proposals: &[Proposal]) -> Option<Rc<Given>> {
        let going = self.going.as_ref().filter(|_| self.origin.is_none())?;
        let found = &snapshot.tools().iter().find(|tool| delegates(tool))?.descriptor;
        let (asked, most) = going.steps();
        let mut given = Given {
            tools: snapshot.tools().iter().filter(|tool| !stays(tool)).cloned().collect(),
            system: self.system().to_string(),
            bounds: *self.bounds(),
            policy: self.policy.clone(),
            room: most.saturating_sub(asked),
            announced: Vec::new(),
            children: going.children.clone(),
        };
        let left = given.left();
        for Proposal { call, .. } in proposals.iter().filter(|proposal| proposal.flaw.is_none()) {
            if call.name == found.name && call.handle == found.handle {
                let arguments = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
                let task = arguments.get("task").and_then(Value::as_str).unwrap_or_default();
                // One that is refused makes none.
                let order = Order::read(&call.arguments, Some(&given));
                let calls = order.and_then(|order| order.calls(left)).unwrap_or_default();
                let number = going.children.borrow_mut().announce(task, calls);
                given.announced.push((call.id.clone(), number, calls));
            }
        }
        if given.announced.is_empty() {
            return None;
        }
        self.keep_point().await;
        Some(Rc::new(given))
    }
}

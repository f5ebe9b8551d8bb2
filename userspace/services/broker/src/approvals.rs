//! What a session's person was asked, and answered.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_schema::authority::{Approval, ApprovalClientServer, Decision, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

/// How many are remembered.
const MOST: usize = 128;
/// Bytes of arguments that are remembered of each.
const ARGUMENTS: usize = 1024;

/// The questions of one session, newest last.
#[derive(Default)]
pub struct Asked {
    list: RefCell<VecDeque<Approval>>,
    count: Cell<u64>,
}

impl Asked {
    /// Remembers a question and how it was decided.
    pub fn add(&self, question: &ToolQuestion, decision: Decision) {
        let state = match decision {
            Decision::Consented => "allowed once",
            Decision::StepUpSucceeded => "allowed once, with passphrase",
            Decision::StepUpFailed => "refused: no passphrase, or a wrong one",
            Decision::Denied => "refused",
            // Nobody was asked.
            Decision::Auto | Decision::Forbidden => return,
        };
        self.count.set(self.count.get().saturating_add(1));
        let mut list = self.list.borrow_mut();
        if list.len() >= MOST {
            list.pop_front();
        }
        list.push_back(Approval {
            id: format!("#{}", self.count.get()),
            title: format!("turn {}: {}", question.turn, question.tool),
            tool: question.tool.clone(),
            arguments: question.arguments.chars().take(ARGUMENTS).collect(),
            risk: question.category.clone(),
            state: state.to_string(),
        });
    }
}

/// The list as a session sees it.
pub struct ApprovalObject(pub Rc<Asked>);

impl ApprovalClientServer for ApprovalObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<Approval>, CallError> {
        Ok(self.0.list.borrow().iter().cloned().collect())
    }
}

//! What a session's person was asked, and answered.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_schema::authority::{Approval, ApprovalClientServer, Decision, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

/// How many are remembered.
const MOST: usize = 128;
/// Bytes of texts that are remembered, of all of them: the list fits into the results of a call.
const TEXTS: usize = 48 << 10;
/// Characters that are remembered of a question's arguments, and of its tool's and its category's name.
const ARGUMENTS: usize = 1024;
const NAME: usize = 64;
/// The same of the reason.
const REASON: usize = 200;

/// The questions of one session, newest last.
#[derive(Default)]
pub struct Asked {
    list: RefCell<VecDeque<Approval>>,
    count: Cell<u64>,
}

impl Asked {
    /// Remembers a question, how it was decided, and the reason that is recorded.
    pub fn add(&self, question: &ToolQuestion, decision: Decision, reason: &str) {
        let state = match decision {
            Decision::Consented => "allowed once".to_string(),
            Decision::StepUpSucceeded => "allowed once, with passphrase".to_string(),
            Decision::StepUpFailed | Decision::Denied => format!("not allowed: {}", short(reason, REASON)),
            // The person was not asked.
            Decision::Auto | Decision::Forbidden => return,
        };
        self.count.set(self.count.get().saturating_add(1));
        let tool = short(&question.tool, NAME);
        let mut list = self.list.borrow_mut();
        list.push_back(Approval {
            id: format!("#{}", self.count.get()),
            title: format!("turn {}: {tool}", question.turn),
            tool,
            arguments: short(&question.arguments, ARGUMENTS),
            risk: short(&question.category, NAME),
            state,
        });
        let mut texts: usize = list.iter().map(bytes).sum();
        while list.len() > MOST || texts > TEXTS {
            let Some(oldest) = list.pop_front() else { break };
            texts = texts.saturating_sub(bytes(&oldest));
        }
    }
}

fn short(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn bytes(approval: &Approval) -> usize {
    let Approval { id, title, tool, arguments, risk, state } = approval;
    [id, title, tool, arguments, risk, state].into_iter().map(String::len).sum()
}

/// The list as a session sees it.
pub struct ApprovalObject(pub Rc<Asked>);

impl ApprovalClientServer for ApprovalObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<Approval>, CallError> {
        Ok(self.0.list.borrow().iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_policy::unagreed;
    use capos_schema::authority::ApprovalClientClient;
    use capos_schema::authority::Reply;
    use capos_schema::local::{Local, run};
    use capos_schema::models::PermissionMode;

    /// However long what is asked is, what is remembered of it fits into the results of a call.
    #[test]
    fn the_newest_are_remembered_and_fit_into_an_answer() {
        let asked = Rc::new(Asked::default());
        let long = "\u{1f512}".repeat(64 << 10);
        for turn in 0..300 {
            let tool = if turn < 200 { long.clone() } else { "write_file".into() };
            let arguments = if turn < 200 { long.clone() } else { "{}".into() };
            let question = ToolQuestion { turn, tool, arguments, category: long.clone(), ..ToolQuestion::default() };
            asked.add(&question, Decision::Consented, "");
        }
        let client = ApprovalClientClient::serve(&Local::default(), Rc::new(ApprovalObject(asked))).unwrap();
        let list = run(client.list()).unwrap().unwrap();
        assert!(list.iter().map(bytes).sum::<usize>() <= TEXTS);
        assert_eq!(list.last().map(|last| last.id.as_str()), Some("#300"));
        assert!((100..=MOST).contains(&list.len()), "{}", list.len());
        let message = capos_schema::wire::encode_value(&list[0]).unwrap();
        let overhead = message.words.len() * 8 - bytes(&list[0]);
        assert!(TEXTS + MOST * (overhead + 8) <= capos_schema::cap::RESULTS as usize, "{overhead} bytes besides texts");
    }

    /// A question that expired is not listed as one that the person refused.
    #[test]
    fn what_came_of_a_question_is_told_from_its_reason() {
        let asked = Asked::default();
        for (decision, reply) in [
            (Decision::Denied, Reply::Declined),
            (Decision::Denied, Reply::Late),
            (Decision::Denied, Reply::Lost),
            (Decision::StepUpFailed, Reply::Declined),
        ] {
            let mode = if decision == Decision::Denied { PermissionMode::Consent } else { PermissionMode::StepUp };
            asked.add(&ToolQuestion::default(), decision, unagreed(reply, mode));
        }
        asked.add(&ToolQuestion::default(), Decision::StepUpFailed, "the passphrase is wrong");
        asked.add(&ToolQuestion::default(), Decision::Consented, "");
        let list = asked.list.borrow();
        let states: Vec<&str> = list.iter().map(|found| found.state.as_str()).collect();
        let expected = [
            "not allowed: the person said no",
            "not allowed: nobody answered in time",
            "not allowed: the terminal was lost before anybody answered",
            "not allowed: no passphrase was entered",
            "not allowed: the passphrase is wrong",
            "allowed once",
        ];
        assert_eq!(states, expected);
    }
}

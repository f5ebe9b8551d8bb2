//! Questions that wait for the client's answer.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_async_lock::Waiters;
use capos_client_protocol::event::{ApprovalRequest, Details};
use capos_client_protocol::request::Reach;
use capos_runner::change::PendingWrite;

/// What a client said to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Yes, as far as this.
    Yes(Reach),
    /// No.
    No,
}

struct Open {
    request: ApprovalRequest,
    /// First time at which nobody has answered, in nanoseconds since boot.
    expires: u64,
    write: Option<PendingWrite>,
    said: Option<Said>,
}

/// Questions by their ids. An answer counts once, for a question that is open.
#[derive(Default)]
pub struct Questions {
    open: RefCell<BTreeMap<String, Open>>,
    changed: Waiters,
}

impl Questions {
    /// Opens a question.
    pub fn open(&self, request: ApprovalRequest, expires: u64, write: Option<PendingWrite>) {
        let id = request.approval_id.clone();
        self.open.borrow_mut().insert(id, Open { request, expires, write, said: None });
    }

    /// Waits for the answer.
    pub async fn answer(&self, id: &str) -> Said {
        self.changed.until(|| self.open.borrow().get(id).and_then(|open| open.said)).await
    }

    /// Takes an answer; false if the question is not open.
    pub fn say(&self, id: &str, said: Said, now: u64) -> bool {
        let mut questions = self.open.borrow_mut();
        let Some(open) = questions.get_mut(id).filter(|open| open.said.is_none() && now < open.expires) else {
            return false;
        };
        let may_reach = |reach| open.request.reaches.contains(&reach);
        open.said = Some(match said {
            Said::Yes(reach) if !may_reach(reach) => Said::Yes(Reach::Once),
            said => said,
        });
        self.changed.wake();
        true
    }

    /// Closes a question; false if it was closed already.
    pub fn close(&self, id: &str) -> bool {
        self.open.borrow_mut().remove(id).is_some()
    }

    /// The write that is asked about, if it is one, with the call; none if the question is not open.
    pub fn write(&self, id: &str) -> Option<Option<(PendingWrite, Details)>> {
        self.open.borrow().get(id).map(|open| open.write.clone().zip(open.request.details.clone()))
    }

    /// All that are open, with the time that is left of each.
    pub fn all(&self, now: u64) -> Vec<ApprovalRequest> {
        let questions = self.open.borrow();
        let open = questions.values().filter(|open| open.said.is_none());
        open.map(|open| {
            let left = open.expires.saturating_sub(now) / 1_000_000;
            ApprovalRequest { expires_in_ms: Some(left), ..open.request.clone() }
        })
        .collect()
    }

    /// Whether any waits.
    pub fn is_any(&self) -> bool {
        !self.open.borrow().is_empty()
    }
}

/// The message for an answer that has no effect.
pub fn not_open(id: &str) -> String {
    let id: String = id.chars().take(64).collect();
    ["no question ", &id, " is open: it was answered, timed out or was cancelled; this answer has no effect"]
        .concat()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_client_protocol::event::{Kind, Risk};

    fn question(id: &str, reaches: &[Reach]) -> ApprovalRequest {
        ApprovalRequest {
            approval_id: id.into(),
            kind: Kind::ToolCall,
            title: String::new(),
            action_summary: String::new(),
            risk_level: Risk::Low,
            reaches: reaches.to_vec(),
            expires_in_ms: None,
            details: None,
        }
    }

    #[test]
    fn c16_an_answer_counts_once_and_only_in_time() {
        let questions = Questions::default();
        questions.open(question("a", &[Reach::Once, Reach::Turn]), 100, None);
        questions.open(question("b", &[Reach::Once]), 100, None);
        assert!(!questions.say("c", Said::Yes(Reach::Once), 0), "there is no such question");
        assert!(!questions.say("a", Said::Yes(Reach::Once), 100), "it is too late");
        assert!(questions.say("a", Said::Yes(Reach::Turn), 99));
        assert!(!questions.say("a", Said::No, 99), "it is answered");
        assert_eq!(capos_schema::local::run(questions.answer("a")), Some(Said::Yes(Reach::Turn)));
        assert_eq!(capos_schema::local::run(questions.answer("b")), None);
        // It reaches no further than the question says.
        assert!(questions.say("b", Said::Yes(Reach::Session), 99));
        assert_eq!(capos_schema::local::run(questions.answer("b")), Some(Said::Yes(Reach::Once)));
        assert!(questions.all(0).is_empty());
        assert!(questions.close("a") && !questions.close("a"));
        assert!(!questions.say("a", Said::Yes(Reach::Once), 0), "it is closed");
    }

    #[test]
    fn c16_what_is_open_tells_how_long_it_is() {
        let questions = Questions::default();
        questions.open(question("a", &[Reach::Once]), 300_000_000, None);
        assert_eq!(questions.all(100_000_000)[0].expires_in_ms, Some(200));
        assert!(questions.is_any() && questions.write("a") == Some(None) && questions.write("b").is_none());
    }
}

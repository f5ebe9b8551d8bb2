//! Open questions of background runs. Their person answers them by commands, when they like.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_agent::world::{Approval, Ask};
use capos_agent::{Signal, Tool};
use capos_schema::authority::Label;
use capos_schema::models::PermissionMode;

/// What the person has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The call runs once.
    Agreed,
    /// It does if this is their passphrase.
    Passphrase(String),
    Declined,
}

/// What was on the screen, and the screen's columns and rows.
pub type Seen = ((usize, usize), String);

/// A question that is open, or was. It never changes: what is answered is what it says.
pub struct Question {
    pub number: u32,
    /// The background run that asks.
    pub run: u32,
    /// What the call needs.
    pub mode: PermissionMode,
    /// Of how many results that others wrote the person was told before.
    pub told: Cell<usize>,
    tool: Tool,
    arguments: String,
    call_id: String,
    label: Label,
    untrusted: usize,
    note: String,
    is_unread: bool,
    approval: Approval,
    seen: RefCell<Option<Seen>>,
    given: RefCell<Option<Given>>,
    answered: Signal,
    closed: Cell<bool>,
}

impl Question {
    /// The question as its run asks it.
    pub fn ask(&self) -> Ask<'_> {
        Ask {
            tool: &self.tool,
            arguments: &self.arguments,
            call_id: &self.call_id,
            label: &self.label,
            untrusted: self.untrusted,
            note: &self.note,
            is_unread: self.is_unread,
            by_hand: false,
            approval: &self.approval,
        }
    }

    /// Whether an answer counts: none was given, it has not expired, and its run still waits.
    pub fn is_open(&self) -> bool {
        !self.closed.get() && self.given.borrow().is_none()
    }

    /// The person has seen all of it.
    pub fn show(&self, seen: Seen) {
        *self.seen.borrow_mut() = Some(seen);
    }

    /// What the person has seen of it; none if they have not looked.
    pub fn seen(&self) -> Option<Seen> {
        self.seen.borrow().clone()
    }

    /// Takes the person's answer; false if it comes too late, and has no effect.
    pub fn answer(&self, given: Given) -> bool {
        if !self.is_open() {
            return false;
        }
        *self.given.borrow_mut() = Some(given);
        self.answered.set();
        true
    }
}

/// The open questions of a session's background runs, in the order in which they were asked.
#[derive(Default)]
pub struct Questions {
    list: RefCell<Vec<Rc<Question>>>,
    number: Cell<u32>,
}

impl Questions {
    /// Opens a question of a background run. It is open as long as its run waits.
    pub fn open(self: &Rc<Self>, run: u32, (ask, mode, told): (&Ask<'_>, PermissionMode, usize)) -> Waiting {
        let number = self.number.get().saturating_add(1);
        self.number.set(number);
        let question = Rc::new(Question {
            number,
            run,
            mode,
            told: Cell::new(told),
            tool: ask.tool.clone(),
            arguments: ask.arguments.to_string(),
            call_id: ask.call_id.to_string(),
            label: ask.label.clone(),
            untrusted: ask.untrusted,
            note: ask.note.to_string(),
            is_unread: ask.is_unread,
            approval: ask.approval.clone(),
            seen: RefCell::default(),
            given: RefCell::default(),
            answered: Signal::default(),
            closed: Cell::new(false),
        });
        self.list.borrow_mut().push(question.clone());
        Waiting { questions: self.clone(), question }
    }

    /// Those that are open.
    pub fn all(&self) -> Vec<Rc<Question>> {
        self.list.borrow().iter().filter(|question| question.is_open()).cloned().collect()
    }

    /// The open question with this number.
    pub fn find(&self, number: u32) -> Option<Rc<Question>> {
        self.all().into_iter().find(|question| question.number == number)
    }
}

/// A run that waits for the answer to its question. When it does so no more, the question is over.
pub struct Waiting {
    questions: Rc<Questions>,
    pub question: Rc<Question>,
}

impl Waiting {
    /// Waits for the answer.
    pub async fn answer(&self) -> Given {
        self.question.answered.wait().await;
        self.question.given.borrow().clone().unwrap_or(Given::Declined)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.question.closed.set(true);
        self.questions.list.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.question));
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use super::*;
    use capos_schema::authority::Risk;

    fn open(questions: &Rc<Questions>, run: u32) -> Waiting {
        let (tool, label) = (Tool::default(), Label::default());
        let approval = Approval {
            id: String::new(),
            title: String::new(),
            summary: String::new(),
            risk: Risk::Low,
            tool: String::new(),
            category: String::new(),
            arguments: String::new(),
            call_id: String::new(),
            expires: 0,
        };
        let ask = Ask {
            tool: &tool,
            arguments: "{}",
            call_id: "call-1",
            label: &label,
            untrusted: 0,
            note: "",
            is_unread: false,
            by_hand: false,
            approval: &approval,
        };
        questions.open(run, (&ask, PermissionMode::Consent, 0))
    }

    fn poll(waiting: &Waiting) -> Poll<Given> {
        pin!(waiting.answer()).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Requirement D30: an answer reaches its question, once, and no other.
    #[test]
    fn d30_an_answer_reaches_its_question_once() {
        let questions = Rc::<Questions>::default();
        let (first, second) = (open(&questions, 1), open(&questions, 2));
        assert_eq!(questions.all().iter().map(|one| (one.number, one.run)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
        assert!(poll(&first).is_pending());
        let found = questions.find(2).unwrap();
        assert!(found.answer(Given::Agreed) && !found.answer(Given::Declined), "the first answer counts");
        assert_eq!(poll(&second), Poll::Ready(Given::Agreed));
        assert!(poll(&first).is_pending() && questions.find(2).is_none() && questions.find(3).is_none());
    }

    /// A question whose run does not wait any more takes no answer: it has expired, or the run was cancelled.
    #[test]
    fn d30_a_late_answer_does_nothing() {
        let questions = Rc::<Questions>::default();
        let waiting = open(&questions, 1);
        let known = questions.find(1).unwrap();
        drop(waiting);
        assert!(!known.is_open() && !known.answer(Given::Agreed));
        assert!(questions.all().is_empty());
        // Its number is not given again.
        assert_eq!(open(&questions, 1).question.number, 2);
    }
}

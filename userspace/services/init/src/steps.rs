//! A program's questions before a step, passed on to the runner of its session.

use alloc::format;
use alloc::string::{String, ToString};
use core::cell::Cell;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::system::{ProgramApprovalAskResults, ProgramApprovalClient, ProgramApprovalServer};

/// Bytes of a step's description at most.
const MOST: usize = 1000;

/// The questions of one process.
#[derive(Default)]
pub struct Steps {
    program: String,
    /// The runner's object, which asks the person. A process that no session waits for has none.
    approval: Option<ProgramApprovalClient>,
    /// A question waits for its answer.
    asks: Cell<bool>,
}

/// A question that waits for its answer.
struct Asking<'a>(&'a Cell<bool>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Steps {
    /// The questions of this program, which `approval` puts to the person.
    pub fn of(program: &str, approval: Option<ProgramApprovalClient>) -> Self {
        Self { program: program.to_string(), approval, asks: Cell::new(false) }
    }
}

impl ProgramApprovalServer for Steps {
    async fn ask(
        &self,
        _cx: &CallContext,
        action: String,
        _program: String,
    ) -> Result<ProgramApprovalAskResults, CallError> {
        if action.trim().is_empty() || action.len() > MOST {
            let why = format!(
                "`action` has {} bytes; say in 1 to {MOST} bytes what the step does, not only spaces",
                action.len()
            );
            return Err(CallError::invalid_argument(why));
        }
        if self.asks.replace(true) {
            return Err(CallError::overloaded("a question of this program waits for its answer; ask when it has come"));
        }
        let _asking = Asking(&self.asks);
        match &self.approval {
            Some(approval) => approval.ask(&action, &self.program).await,
            None => Ok(ProgramApprovalAskResults {
                granted: false,
                why: "no person can be asked: the program was started by a service, or runs in the background"
                    .to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::rc::Rc;
    use core::cell::RefCell;
    use core::future::Future;
    use core::task::{Context, Waker};

    use capos_schema::local::{Local, run};

    /// Grants each step, and keeps who asked for what.
    #[derive(Default)]
    struct Person(Rc<RefCell<String>>);

    impl ProgramApprovalServer for Person {
        async fn ask(
            &self,
            _cx: &CallContext,
            action: String,
            program: String,
        ) -> Result<ProgramApprovalAskResults, CallError> {
            *self.0.borrow_mut() = format!("{program}: {action}");
            Ok(ProgramApprovalAskResults { granted: true, why: String::new() })
        }
    }

    /// Requirement J12: the question names the program that asks, whatever that says. Without a person nothing is granted.
    #[test]
    fn j12_the_launcher_says_who_asks() {
        let local = Local::default();
        let asked = Rc::<RefCell<String>>::default();
        let person = ProgramApprovalClient::serve(&local, Rc::new(Person(asked.clone()))).unwrap();
        let client = |approval| ProgramApprovalClient::serve(&local, Rc::new(Steps::of("clean", approval))).unwrap();
        let answer = run(client(Some(person.clone())).ask("delete a.txt", "capos")).unwrap().unwrap();
        assert!(answer.granted && *asked.borrow() == "clean: delete a.txt");
        let answer = run(client(None).ask("delete a.txt", "")).unwrap().unwrap();
        assert!(!answer.granted && answer.why.contains("no person can be asked"));
        for action in ["", " \n ", &"x".repeat(1001)] {
            asked.borrow_mut().clear();
            let error = run(client(Some(person.clone())).ask(action, "")).unwrap().unwrap_err().to_string();
            assert!(error.contains("1 to 1000 bytes") && asked.borrow().is_empty(), "{error}");
        }
        assert!(run(client(Some(person)).ask(&"x".repeat(1000), "")).unwrap().unwrap().granted);
    }

    /// Never answers.
    struct Silent;

    impl ProgramApprovalServer for Silent {
        async fn ask(
            &self,
            _cx: &CallContext,
            _action: String,
            _program: String,
        ) -> Result<ProgramApprovalAskResults, CallError> {
            core::future::pending().await
        }
    }

    /// A program takes one place of the first process, however much it asks.
    #[test]
    fn j12_one_question_of_a_program_is_open() {
        let local = Local::default();
        let silent = ProgramApprovalClient::serve(&local, Rc::new(Silent)).unwrap();
        let client = ProgramApprovalClient::serve(&local, Rc::new(Steps::of("clean", Some(silent)))).unwrap();
        let mut first = Box::pin(client.ask("delete a.txt", ""));
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let error = run(client.ask("delete b.txt", "")).unwrap().unwrap_err().to_string();
        assert!(error.contains("waits for its answer"), "{error}");
        drop(first);
        assert!(run(client.ask("delete b.txt", "")).is_none(), "it is asked now");
    }
}

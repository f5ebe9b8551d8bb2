//! Picks the line of the script that answers a request.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::event::{ErrorKind, Finish};
use crate::request::RequestView;
use crate::response::Response;
use crate::turn::{Script, Selection, Step, Turn};

/// Plays one script for the life of a worker process.
///
/// At each request, the first line from the top that is still available and whose condition holds gives the answer.
/// A line is available until it has answered, or until a later line answers instead of it. A line with `repeat`, and
/// every line of a stateless script, is always available.
#[derive(Debug)]
pub struct Player {
    script: Script,
    /// Per line: used up or passed over.
    spent: Vec<bool>,
    requests: u64,
}

impl Player {
    #[must_use]
    pub fn new(script: Script) -> Self {
        let spent = vec![false; script.turns.len()];
        Self { script, spent, requests: 0 }
    }

    /// A player without a script: it answers each request with an exception that gives the reason.
    #[must_use]
    pub fn broken(why: String) -> Self {
        Self::new(Script { selection: Selection::Stateless, summarises: false, turns: vec![Arc::new(failing(why))] })
    }

    /// How many requests have been answered.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The answer to the next request. A script that has no line for it answers with an exception.
    pub fn respond(&mut self, request: &RequestView<'_>) -> Response {
        self.requests = self.requests.saturating_add(1);
        let ordinal = self.requests;
        let found = self
            .script
            .turns
            .iter()
            .zip(&self.spent)
            .position(|(turn, spent)| !spent && turn.condition.holds(request, ordinal));
        let turn = found.and_then(|at| self.script.turns.get(at).cloned());
        let Some((at, turn)) = found.zip(turn) else {
            return Response::new(exhausted(ordinal), request);
        };
        if self.script.selection == Selection::Sequence {
            let through = self.spent.iter_mut().zip(&self.script.turns).take(at.saturating_add(1));
            for (spent, passed) in through {
                *spent = !passed.repeat;
            }
        }
        Response::new(turn, request)
    }
}

fn exhausted(ordinal: u64) -> Arc<Turn> {
    let why = format!("model.jsonl has no line that answers request {ordinal}; add one, or mark a line \"repeat\"");
    Arc::new(failing(why))
}

/// A line that fails with a reason.
fn failing(message: String) -> Turn {
    Turn { finish: Some(Finish::Error), ..Turn::of(vec![Step::Error { kind: ErrorKind::Failed, message }]) }
}

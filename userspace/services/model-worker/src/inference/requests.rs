//! The requests that are in flight, and the engine that works on them together.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use capos_inference::{Assistant, Event, InferenceError, RequestId};
use capos_schema::cap::CallError;
use capos_schema::models::InferenceRequest;

use super::answer::Answer;
use super::{cannot_be_run, conversation};

/// The engine with one model, and its output that has not been read yet.
///
/// A step of the engine advances all requests. It is made only while a caller waits for a piece of an answer. So an
/// unread answer does not grow, except by the steps of others, which the answer's own limit bounds.
pub struct Requests {
    /// Why there is none, if the file cannot be run.
    assistant: RefCell<Result<Assistant<'static>, String>>,
    unread: RefCell<BTreeMap<RequestId, VecDeque<Event>>>,
}

impl Requests {
    /// For the model that answers, or the reason why none does.
    pub fn new(assistant: Result<Assistant<'static>, String>) -> Rc<Self> {
        Rc::new(Self { assistant: RefCell::new(assistant), unread: RefCell::default() })
    }

    /// Takes a request.
    ///
    /// # Errors
    /// Why the model cannot be run, or cannot answer this.
    pub fn submit(self: &Rc<Self>, request: &InferenceRequest) -> Result<Answer, CallError> {
        let request = conversation::request(request)?;
        let mut assistant = self.assistant.borrow_mut();
        let assistant = assistant.as_mut().map_err(|why| cannot_be_run(why))?;
        let id = assistant.request(request).map_err(|error| refused(&error))?;
        self.unread.borrow_mut().insert(id, VecDeque::new());
        Ok(Answer::new(self.clone(), id))
    }

    /// The next output of a request; none if the engine has not got there.
    pub fn take(&self, id: RequestId) -> Option<Event> {
        self.unread.borrow_mut().get_mut(&id)?.pop_front()
    }

    /// Does a bounded piece of the work on all requests.
    pub fn step(&self) {
        let events = match &mut *self.assistant.borrow_mut() {
            Ok(assistant) => assistant.step(),
            Err(_) => Vec::new(),
        };
        let mut unread = self.unread.borrow_mut();
        for (id, event) in events {
            // The end of a dropped answer is never read.
            if let Some(unread) = unread.get_mut(&id) {
                unread.push_back(event);
            }
        }
    }

    /// Ends the work on a request; the next step reports its end.
    pub fn cancel(&self, id: RequestId) {
        if let Ok(assistant) = &mut *self.assistant.borrow_mut() {
            assistant.cancel(id);
        }
    }

    /// Ends the work on a request whose answer is no longer read.
    pub fn forget(&self, id: RequestId) {
        self.cancel(id);
        self.unread.borrow_mut().remove(&id);
    }
}

/// Why a request was not taken.
pub fn refused(error: &InferenceError) -> CallError {
    match error {
        InferenceError::Chat(_)
        | InferenceError::TooLong { .. }
        | InferenceError::TextBytes { .. }
        | InferenceError::TextTokens { .. } => CallError::invalid_argument(error.to_string()),
        InferenceError::File(_)
        | InferenceError::Engine(_)
        | InferenceError::Tokenizer(_)
        | InferenceError::Family { .. } => CallError::failed(error.to_string()),
    }
}

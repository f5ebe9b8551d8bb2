//! One answer, as its caller draws it out.

use std::cell::Cell;
use std::rc::Rc;

use capos_schema::cap::{CallContext, CallError, Dispatch};
use capos_schema::models::{StreamChunk, TokenStreamNextResults, TokenStreamServer, TokenStreamService};

use super::answer::Answer;
use crate::stream::{Reading, ended};

/// The stream of one answer.
pub struct Stream {
    answer: Answer,
    ended: Cell<bool>,
    /// A second reader at the same time is refused.
    reading: Cell<bool>,
}

impl Stream {
    /// The stream of an answer, to be exported.
    pub fn serve(answer: Answer) -> Rc<dyn Dispatch> {
        let stream = Self { answer, ended: Cell::new(false), reading: Cell::new(false) };
        Rc::new(TokenStreamService(Rc::new(stream)))
    }
}

impl TokenStreamServer for Stream {
    async fn next(&self, _cx: &CallContext) -> Result<TokenStreamNextResults, CallError> {
        if self.ended.get() {
            return Err(ended());
        }
        let _reading = Reading::begin(&self.reading)?;
        let chunk = self.answer.next().await;
        let done = !matches!(&chunk, Ok(chunk) if !matches!(chunk, StreamChunk::Finish(_)));
        self.ended.set(done);
        Ok(TokenStreamNextResults { chunk: chunk?, done })
    }

    async fn cancel(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.answer.cancel();
        Ok(())
    }
}

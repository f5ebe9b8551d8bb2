//! One response, as its caller draws it out.

use crate::chunk::{self, Said};
use crate::stage::Stage;
use capos_rt::CancelToken;
use capos_schema::cap::{Before, CallContext, CallError, Dispatch, Message};
use capos_schema::models::{StreamChunk, TokenStreamNextResults, TokenStreamServer, TokenStreamService};
use capos_script::{Event, Response};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The stream of one response.
pub struct Stream {
    response: RefCell<Response>,
    stage: Rc<Stage>,
    cancelled: CancelToken,
    ended: Cell<bool>,
    /// A second reader at the same time is refused.
    reading: Cell<bool>,
    /// Sent to the reader instead of the next chunk.
    forged: RefCell<Option<Message>>,
}

/// The answer to a reader after the end.
pub fn ended() -> CallError {
    CallError::invalid_argument("this response has ended")
}

/// A read in progress, until it has ended or was dropped.
pub struct Reading<'a>(&'a Cell<bool>);

impl<'a> Reading<'a> {
    /// Begins a read if none is in progress.
    ///
    /// # Errors
    /// One is.
    pub fn begin(reading: &'a Cell<bool>) -> Result<Self, CallError> {
        if reading.replace(true) {
            return Err(CallError::overloaded("the stream is being read by another call"));
        }
        Ok(Self(reading))
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Stream {
    /// The stream of a response, to be exported.
    pub fn serve(response: Response, stage: Rc<Stage>) -> Rc<dyn Dispatch> {
        let stream = Rc::new(Self {
            response: RefCell::new(response),
            stage,
            cancelled: CancelToken::new(),
            ended: Cell::new(false),
            reading: Cell::new(false),
            forged: RefCell::default(),
        });
        // The stream's service, except for answers that the script forges, as a hostile worker would: texts that are
        // not UTF-8, or a finish reason that the schema does not know.
        Rc::new(Before::new(Rc::new(TokenStreamService(stream.clone())), move |service, cx, method, message| {
            let stream = stream.clone();
            let answer = service.dispatch(cx, method, message);
            Box::pin(async move {
                let answer = answer.await?;
                Ok(stream.forged.take().unwrap_or(answer))
            })
        }))
    }

    async fn advance(&self) -> Result<TokenStreamNextResults, CallError> {
        loop {
            if self.cancelled.is_cancelled() {
                self.response.borrow_mut().cancel();
            }
            let event = self.response.borrow_mut().next();
            let Some(event) = event else {
                self.ended.set(true);
                return Err(ended());
            };
            if event.is_last() && !matches!(event, Event::Hang) {
                self.ended.set(true);
            }
            let Some(event) = self.stage.play(event, &self.cancelled).await? else { continue };
            return match chunk::of(event) {
                Said::Chunk(chunk) => {
                    let done = matches!(chunk, StreamChunk::Finish(_));
                    Ok(TokenStreamNextResults { chunk, done })
                }
                Said::Bytes(bytes) => self.forge(chunk::raw_text(&bytes)?),
                Said::Finish(number, usage) => self.forge(chunk::raw_finish(number, &usage)?),
            };
        }
    }

    /// Sends a message that no value represents. The returned part is not sent.
    fn forge(&self, message: Message) -> Result<TokenStreamNextResults, CallError> {
        self.forged.replace(Some(message));
        Ok(TokenStreamNextResults { chunk: StreamChunk::TextDelta(String::new()), done: false })
    }
}

impl TokenStreamServer for Stream {
    async fn next(&self, _cx: &CallContext) -> Result<TokenStreamNextResults, CallError> {
        if self.ended.get() {
            return Err(ended());
        }
        let _reading = Reading::begin(&self.reading)?;
        self.advance().await
    }

    async fn cancel(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.cancelled.cancel();
        Ok(())
    }
}

//! One response, as its caller draws it out.

use crate::misbehave;
use crate::scripted::Said;
use crate::weights::Weights;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capos_rt::CancelToken;
use capos_schema::cap::{CallContext, CallError, Dispatch, IncomingMessage, LocalBoxFuture, Message};
use capos_schema::models::{StreamChunk, TokenStreamClient, TokenStreamNextResults, TokenUsage};
use capos_schema::models_capnp::token_stream::next_results;
use capos_schema::wire;
use capos_script::{ErrorKind, Event, Response, weights_text};
use core::cell::{Cell, RefCell};

/// `TokenStream.next`.
const NEXT: u16 = 0;
/// A millisecond in nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// `TokenStream.cancel`.
const CANCEL: u16 = 1;

/// The stream of one response.
///
/// It is dispatched by hand, for one reason: a script can say what no well-formed value holds
/// (text that is not UTF-8, a finish reason that the schema does not know), as a hostile worker would.
pub struct Stream {
    response: RefCell<Response>,
    weights: Rc<Weights>,
    held: Rc<str>,
    cancelled: CancelToken,
    ended: Cell<bool>,
    /// A second reader at the same time is refused.
    reading: Cell<bool>,
}

/// A read that is under way, until it has ended or was dropped.
struct Reading<'a>(&'a Cell<bool>);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Stream {
    /// The stream of a response.
    pub fn new(response: Response, weights: Rc<Weights>, held: Rc<str>) -> Rc<Self> {
        Rc::new(Self {
            response: RefCell::new(response),
            weights,
            held,
            cancelled: CancelToken::new(),
            ended: Cell::new(false),
            reading: Cell::new(false),
        })
    }

    async fn next(&self) -> Result<Message, CallError> {
        if self.ended.get() {
            return Err(CallError::invalid_argument("this response has ended"));
        }
        if self.reading.replace(true) {
            return Err(CallError::overloaded("the stream is being read by another call"));
        }
        let _reading = Reading(&self.reading);
        self.advance().await
    }

    async fn advance(&self) -> Result<Message, CallError> {
        loop {
            if self.cancelled.is_cancelled() {
                self.response.borrow_mut().cancel();
            }
            let event = self.response.borrow_mut().next();
            let Some(event) = event else {
                self.ended.set(true);
                return Err(CallError::invalid_argument("this response has ended"));
            };
            if event.is_last() && !matches!(event, Event::Hang) {
                self.ended.set(true);
            }
            let event = match event {
                Event::Weights { offset, bytes } => Event::Text(weights_text(self.weights.bytes(), offset, bytes)),
                Event::Capabilities => Event::Text(self.held.as_ref().into()),
                other => other,
            };
            match Said::from(event) {
                Said::Chunk(chunk) => {
                    let done = matches!(chunk, StreamChunk::Finish(_));
                    return Ok(wire::encode_value(&TokenStreamNextResults { chunk, done })?);
                }
                Said::Bytes(bytes) => return raw_text(&bytes),
                Said::Finish(number, usage) => return raw_finish(number, usage),
                Said::Act(event) => self.act(event).await?,
            }
        }
    }

    async fn act(&self, event: Event) -> Result<(), CallError> {
        match event {
            Event::Delay(milliseconds) => {
                let wait = capos_rt::sleep(u64::from(milliseconds).saturating_mul(MILLISECOND));
                // Cancelled or not, the next event tells.
                let _ended = capos_rt::or_cancelled(&self.cancelled, wait).await;
                Ok(())
            }
            Event::Hang => {
                self.cancelled.cancelled().await;
                Ok(())
            }
            Event::Error { kind, message } => Err(exception(kind, message)),
            Event::Exit(code) => misbehave::exit(code),
            Event::Crash(crash) => misbehave::crash(crash),
            Event::Text(_)
            | Event::TextBytes(_)
            | Event::Call(_)
            | Event::Weights { .. }
            | Event::Capabilities
            | Event::Finish { .. } => Ok(()),
        }
    }
}

/// The exception that a script asks for.
pub fn exception(kind: ErrorKind, message: alloc::string::String) -> CallError {
    match kind {
        ErrorKind::Failed => CallError::failed(message),
        ErrorKind::Overloaded => CallError::overloaded(message),
        ErrorKind::Disconnected => CallError::disconnected(message),
        ErrorKind::Unimplemented => CallError::unimplemented(message),
        ErrorKind::InvalidArgument => CallError::invalid_argument(message),
    }
}

/// A text chunk of any bytes.
fn raw_text(bytes: &[u8]) -> Result<Message, CallError> {
    let words = bytes.len().div_ceil(8).saturating_add(16);
    Ok(wire::encode::<next_results::Owned>(words, |builder, _| {
        builder.init_chunk().set_text_delta(capnp::text::Reader(bytes));
        Ok(())
    })?)
}

/// A finish chunk whose reason is any number: encoded as a known one, then changed in place.
fn raw_finish(number: u16, usage: TokenUsage) -> Result<Message, CallError> {
    let make = |reason| {
        let chunk = StreamChunk::Finish(capos_schema::models::StreamChunkFinish { usage: usage.clone(), reason });
        wire::encode_value(&TokenStreamNextResults { chunk, done: true })
    };
    // The one byte in which two encodings with the reasons 0 and 1 differ is where the reason lies.
    let mut message = make(capos_schema::models::FinishReason::Stop)?;
    let other = make(capos_schema::models::FinishReason::ToolCalls)?;
    let at: Vec<usize> =
        message.bytes().iter().zip(other.bytes()).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect();
    if let [at] = at.as_slice() {
        let bytes = capnp::Word::words_to_bytes_mut(&mut message.words);
        for (place, value) in bytes.iter_mut().skip(*at).zip(number.to_le_bytes()) {
            *place = value;
        }
    }
    Ok(message)
}

impl Dispatch for Stream {
    fn interface_id(&self) -> u64 {
        TokenStreamClient::INTERFACE_ID
    }

    fn implements(&self, interface: u64) -> bool {
        interface == TokenStreamClient::INTERFACE_ID
    }

    fn is_abortable(&self, _interface: u64, method: u16) -> bool {
        method == NEXT
    }

    fn dispatch(
        self: Rc<Self>,
        cx: CallContext,
        method: u16,
        _message: IncomingMessage,
    ) -> LocalBoxFuture<'static, Result<Message, CallError>> {
        Box::pin(async move {
            match method {
                NEXT => self.next().await,
                CANCEL => {
                    self.cancelled.cancel();
                    Ok(wire::encode::<capos_schema::models_capnp::token_stream::cancel_results::Owned>(1, |_, _| {
                        Ok(())
                    })?)
                }
                _ => Err(CallError::no_such_method("TokenStream", cx.interface, method)),
            }
        })
    }
}

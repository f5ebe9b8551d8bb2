//! Receiving calls at an endpoint, and answering them.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{MessageHeader, Status};
use capos_async_lock::Waiters;
use capos_ring::message::{Lent, address, transport};
use capos_schema::cap::{Answer, AsCap, CallContext, CallError, Exception, LocalBoxFuture, Message, MessageView};
use capos_schema::kernel::EndpointClient;

use super::{ServeOptions, Server};
use crate::capability::{KernelCap, release};
use crate::error::Error;
use crate::operation::Pending;
use crate::runtime;
use crate::task::TaskGroup;
use crate::watch::{Watch, unless_cancelled};

impl Server {
    /// Receives and answers calls for ever, with one buffer.
    pub(super) async fn receive(
        self: &Rc<Self>,
        endpoint: &EndpointClient,
        options: ServeOptions,
        limit: &Rc<Gate>,
        calls: &TaskGroup,
    ) -> Result<(), Error> {
        let cap = endpoint.as_cap().id();
        let told = |status| Error::new(format!("cannot receive calls at the endpoint `serve`: {status}"));
        loop {
            let pass = limit.enter().await;
            let endpoint = (cap, options.message_bytes);
            match (Receiving { server: self, endpoint, operation: None, answers: None }).await {
                Received::Nothing(status) => return Err(told(status)),
                // A call that was answered already rejects another answer; an error that keeps this process from
                // receiving does so again.
                Received::Unsure(reply, words) => reply.send(Ok(Message { words, caps: Vec::new() })).await,
                Received::Call(Work::Done(result), Some(reply)) => {
                    let mut answer: LocalBoxFuture<'static, ()> = Box::pin(async move {
                        reply.send(result.map_err(CallError::into_exception)).await;
                        drop(pass);
                    });
                    // Queued here and now: no later call's answer precedes it, and it precedes all effects of tasks
                    // that the handler has woken, the process's end included.
                    if poll_first(answer.as_mut()).is_pending() {
                        calls.spawn(answer);
                    }
                }
                Received::Call(Work::Done(_), None) => drop(pass),
                Received::Call(Work::Going(work, abortable), reply) => calls.spawn(async move {
                    finish(work, reply, abortable).await;
                    drop(pass);
                }),
            }
        }
    }

    /// Finds the object that a call is for, and has it begin to answer. Also returns whether that ends with its caller.
    fn begin(&self, header: &MessageHeader, message: MessageView<'_>) -> Result<(Answer, bool), CallError> {
        let object = self.find(header.badge)?;
        if !object.implements(header.interface) {
            let interface = header.interface;
            return Err(CallError::unimplemented(format!("the object does not offer interface {interface:#018x}")));
        }
        let abortable = object.is_abortable(header.interface, header.method);
        let cx = CallContext { badge: header.badge, interface: header.interface, reply: header.reply };
        Ok((object.dispatch(cx, header.method, message), abortable))
    }
}

/// Receives calls with one buffer. Those whose handlers wait for nothing are answered here, each by the operation that
/// offers the buffer for the next one. Ends with a call that is answered separately.
struct Receiving<'s> {
    server: &'s Server,
    /// The endpoint, and the largest parameters in bytes.
    endpoint: (u64, u32),
    operation: Option<Pending>,
    /// The call that the operation answers before it receives, if it answers one.
    answers: Option<Reply>,
}

/// How receiving ended.
enum Received {
    /// With a call that is answered separately, if its caller waits for an answer.
    Call(Work, Option<Reply>),
    /// The operation failed that answers this call with these words: one of its two parts was refused.
    Unsure(Reply, Vec<Word>),
    /// No call can be received.
    Nothing(Status),
}

impl Future for Receiving<'_> {
    type Output = Received;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Received> {
        let this = &mut *self;
        loop {
            let operation = this.operation.get_or_insert_with(|| receive(this.endpoint, Some(context)));
            let (completion, mut lent) = ready!(Pin::new(operation).poll(context));
            if let Err(status) = transport(&completion) {
                let words = core::mem::take(&mut lent.sent);
                give_back(lent);
                return Poll::Ready(match this.answers.take() {
                    Some(reply) => Received::Unsure(reply, words),
                    None => Received::Nothing(status),
                });
            }
            if let Some(reply) = &mut this.answers {
                reply.unused = false;
                lent.sent = Vec::new();
            }
            let header = lent.header().unwrap_or_default();
            let reply = (header.reply != 0).then_some(Reply { id: header.reply, unused: true });
            let caps = lent.handles(&completion, KernelCap::own);
            let begun = this.server.begin(&header, MessageView { words: lent.message(&header), caps: &caps });
            // Before the handler runs: capabilities that it was not given are released.
            drop(caps);
            let work = match begun {
                Ok((mut work, abortable)) => match poll_first(work.as_mut()) {
                    Poll::Ready(result) => Work::Done(result),
                    Poll::Pending => Work::Going(work, abortable),
                },
                Err(error) => Work::Done(Err(error)),
            };
            match (work, reply) {
                (Work::Done(Ok(results)), Some(reply)) if goes_along(&results) => {
                    let operation = answer_and_receive(&reply, results.words, this.endpoint, &mut lent);
                    let operation = Pending::lending(lent, operation, Some(context));
                    let waits = operation.is_in_flight();
                    this.answers = Some(reply);
                    this.operation = Some(operation);
                    if waits {
                        return Poll::Pending;
                    }
                }
                (work, reply) => {
                    give_back(lent);
                    return Poll::Ready(Received::Call(work, reply));
                }
            }
        }
    }
}

/// Polls a future that becomes a task of its own if it waits; it is polled by that again. Were the receiver woken in
/// its place, it would get its turn before the receivers of earlier calls. So it must wake all waiting tasks, or those
/// that were polled last: a future that misses its turn once would wait for ever.
fn poll_first<T>(work: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}

/// The state of a handler.
enum Work {
    Done(Result<Message, CallError>),
    /// It waits; whether it ends with its caller.
    Going(Answer, bool),
}

/// Makes a waiting handler end and answer.
async fn finish(work: Answer, reply: Option<Reply>, abortable: bool) {
    let Some(reply) = reply else {
        drop(work.await);
        return;
    };
    // Kept until the answer was sent, which ends the wait without a CANCEL.
    let mut watch = Watch::new(reply.id);
    let result = if abortable {
        let Some(result) = unless_cancelled(&mut watch, work).await else { return };
        result
    } else {
        work.await
    };
    reply.send(result.map_err(CallError::into_exception)).await;
    drop(watch);
}

/// Receives every call that comes to an endpoint and refuses it as disconnected, with these words:
/// for an endpoint whose service is gone. Ends when the endpoint does.
pub async fn refuse_calls(endpoint: &EndpointClient, reason: &str) {
    let cap = endpoint.as_cap().id();
    loop {
        let (completion, lent) = receive((cap, MAX_MESSAGE), None).await;
        if transport(&completion).is_err() {
            return give_back(lent);
        }
        drop(lent.handles(&completion, KernelCap::own));
        let reply = lent.header().map_or(0, |header| header.reply);
        let reply = (reply != 0).then_some(Reply { id: reply, unused: true });
        give_back(lent);
        if let Some(reply) = reply {
            reply.send(Err(Exception::disconnected(String::from(reason)))).await;
        }
    }
}

/// Bytes of an answer that are kept until the next call comes; a larger one is sent separately.
const GOES_ALONG: usize = 4 << 10;

/// Whether an answer can be given by the entry that offers a buffer again. Its data are kept until the next call, which
/// may be long: so they are small and contain no capabilities.
fn goes_along(results: &Message) -> bool {
    results.caps.is_empty() && results.words.len() <= GOES_ALONG / 8
}

fn give_back(lent: Box<Lent>) {
    runtime::with(|rt| rt.give_back(lent));
}

/// Bytes of a buffer for calls with `bytes` bytes of parameters.
#[inline]
fn room_for(bytes: u32) -> u32 {
    bytes.saturating_add(64).min(MAX_MESSAGE).next_multiple_of(8)
}

/// A buffer of `length` bytes to receive into, and the array, as an entry names them.
#[inline]
fn room(lent: &mut Lent, length: u32) -> (Buffer, CapArray) {
    (Buffer { address: address(&mut lent.received), length }, lent.array(MAX_CAPS))
}

/// The operation that receives one call, with at most `bytes` bytes of parameters.
fn receive((endpoint, bytes): (u64, u32), context: Option<&Context<'_>>) -> Pending {
    let length = room_for(bytes);
    let size = usize::try_from(length).unwrap_or(0);
    let mut lent = runtime::with(|rt| rt.lend(size)).unwrap_or_default();
    let (buffer, caps) = room(&mut lent, length);
    Pending::lending(lent, Operation::Recv { endpoint, buffer, caps }, context)
}

/// The operation that answers a call with results that have no capabilities, and receives the next one.
#[inline]
fn answer_and_receive(reply: &Reply, results: Vec<Word>, (endpoint, bytes): (u64, u32), lent: &mut Lent) -> Operation {
    lent.sent = results;
    let (buffer, caps) = room(lent, room_for(bytes));
    let length = u32::try_from(lent.sent.len().saturating_mul(8)).unwrap_or(u32::MAX);
    let results = Buffer { address: address(&mut lent.sent), length };
    Operation::ReturnRecv { reply: reply.id, endpoint, exception: 0, results, buffer, caps }
}

/// The right to answer one call. Dropping it unused reports to the caller that the call was dropped.
struct Reply {
    id: u64,
    unused: bool,
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.unused {
            release(self.id);
        }
    }
}

impl Reply {
    /// Answers the call. The caller learns of an error that keeps the answer from arriving.
    async fn send(self, result: Result<Message, Exception>) {
        let result = result.and_then(|message| {
            let bytes = message.words.len().saturating_mul(8);
            if bytes > usize::try_from(MAX_MESSAGE).unwrap_or(0) || message.caps.len() > usize::from(MAX_CAPS) {
                return Err(Exception::failed(
                    "the results are larger than a message may be (1 MiB, 16 capabilities); the service should send memory",
                ));
            }
            Ok((message, bytes))
        });
        let (exception, message, bytes) = match result {
            Ok((message, bytes)) => (0, message, bytes),
            Err(error) => {
                let reason = error.reason_bytes();
                let mut words = Word::allocate_zeroed_vec(reason.len().div_ceil(8));
                for (to, from) in Word::words_to_bytes_mut(&mut words).iter_mut().zip(reason) {
                    *to = *from;
                }
                let exception = u8::try_from(error.kind as i32).unwrap_or(1);
                (exception, Message { words, caps: Vec::new() }, reason.len())
            }
        };
        self.give(exception, message, bytes).await;
    }

    /// Gives an answer of `bytes` bytes.
    async fn give(mut self, exception: u8, message: Message, bytes: usize) {
        let mut lent = runtime::with(|rt| rt.lend(0)).unwrap_or_default();
        (lent.sent, lent.sent_caps) = (message.words, message.caps);
        let caps = lent.array(0);
        let results = Buffer { address: address(&mut lent.sent), length: u32::try_from(bytes).unwrap_or(0) };
        let operation = Operation::Return { reply: self.id, exception, results, caps };
        let (completion, lent) = Pending::lending(lent, operation, None).await;
        // The reply capability is used up by an accepted RETURN, whatever happened to the results.
        if transport(&completion).is_ok() || completion.status == Status::TooLarge as i32 {
            lent.moved_away();
            self.unused = false;
        }
        give_back(lent);
    }
}

/// Lets a number of calls through at a time.
pub(super) struct Gate {
    free: Cell<u16>,
    waiting: Waiters,
}

/// One place inside the gate, given back when dropped.
struct Pass(Rc<Gate>);

impl Gate {
    pub(super) fn new(places: u16) -> Self {
        Self { free: Cell::new(places), waiting: Waiters::default() }
    }

    async fn enter(self: &Rc<Self>) -> Pass {
        self.waiting
            .until(|| {
                self.free.set(self.free.get().checked_sub(1)?);
                Some(Pass(self.clone()))
            })
            .await
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get().saturating_add(1));
        self.0.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;

    use capos_async_lock::Woken;

    use super::*;

    #[test]
    fn a_call_before_a_full_gate_is_woken_once() {
        let gate = Rc::new(Gate::new(0));
        let (woken, waker) = Woken::new();
        let mut call = pin!(gate.enter());
        for _ in 0..1000 {
            assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(Pass(gate.clone()));
        assert_eq!(woken.count(), 1);
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
}

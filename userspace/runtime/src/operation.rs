//! The future of one operation.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use capos_abi::{Completion, Status, entry};
use capos_ring::message::Lent;

use crate::reactor::{self, Class, Key, Request};
use crate::runtime;

/// An operation in flight, or one that has held up its thread and ended. Dropping it cancels the operation.
#[derive(Debug)]
pub(crate) struct Pending(State);

#[derive(Debug)]
enum State {
    InFlight(Key),
    Ended(Completion, Box<Lent>),
    /// Outside a runtime nothing is ever answered.
    Nowhere,
}

impl Pending {
    /// Starts an operation that borrows what `lent` holds, and that gives it back with its completion. The polling task is
    /// woken when it has ended; without a context, the task that first polls this.
    #[inline(always)]
    pub(crate) fn lending(lent: Box<Lent>, operation: entry::Operation, context: Option<&Context<'_>>) -> Self {
        Self::start_as(lent, &Request::new(operation, Class::of(&operation)), context)
    }

    /// Whether it has not ended, as far as its task knows.
    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.0, State::InFlight(_))
    }

    /// Queues an operation that borrows nothing; runs it to its end if the thread's executor does not run.
    pub(crate) fn start(operation: entry::Operation) -> Self {
        Self::start_as(Box::default(), &Request::new(operation, Class::of(&operation)), None)
    }

    /// The same with the wait for the end of a received call.
    pub(crate) fn watch(reply: u64) -> Self {
        let request = Request::new(entry::Operation::Wait { cap: reply }, Class::Watch);
        Self::start_as(Box::default(), &request, None)
    }

    #[inline]
    fn start_as(lent: Box<Lent>, request: &Request, context: Option<&Context<'_>>) -> Self {
        if let Some(ring) = runtime::idle_ring() {
            let (completion, lent) = reactor::run(&ring, lent, request);
            return Self(State::Ended(completion, lent));
        }
        let waker = context.map(|context| context.waker().clone());
        let key = runtime::with(|rt| rt.start(lent, request, waker));
        Self(key.flatten().map_or(State::Nowhere, State::InFlight))
    }
}

impl Future for Pending {
    type Output = (Completion, Box<Lent>);

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::InFlight(key) = self.0 {
            let ended = runtime::with(|rt| rt.reactor(|reactor, _| reactor.poll(key, context.waker()))).flatten();
            if ended.is_some() {
                self.0 = State::Nowhere;
            }
            return ended.map_or(Poll::Pending, Poll::Ready);
        }
        match core::mem::replace(&mut self.0, State::Nowhere) {
            State::Ended(completion, lent) => Poll::Ready((completion, lent)),
            State::InFlight(_) | State::Nowhere => {
                let status = Status::Disconnected as i32;
                Poll::Ready((Completion { status, ..Completion::default() }, Box::default()))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let State::InFlight(key) = self.0 {
            runtime::with(|rt| rt.abandon(key));
        }
    }
}

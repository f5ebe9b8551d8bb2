//! The future of one operation.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use capos_abi::{Completion, Status, entry};
use capos_ring::message::Lent;

use crate::reactor::{self, Class, Key};
use crate::runtime;

/// An operation in flight, or one that has held up its thread and ended. Dropping it cancels the operation.
#[derive(Debug)]
pub(crate) struct Pending(State);

#[derive(Debug)]
enum State {
    InFlight(Key),
    Ended(Completion, Lent),
    /// Outside a runtime nothing is ever answered.
    Nowhere,
}

impl Pending {
    /// Queues an operation that borrows what `lent` holds; runs it to its end where the thread's executor does not run.
    pub(crate) fn start(lent: Lent, operation: entry::Operation) -> Self {
        let class = Class::of(&operation);
        Self::start_as(class, lent, operation)
    }

    /// The same with the wait for the end of a received call.
    pub(crate) fn watch(reply: u64) -> Self {
        Self::start_as(Class::Watch, Lent::default(), entry::Operation::Wait { cap: reply })
    }

    fn start_as(class: Class, lent: Lent, operation: entry::Operation) -> Self {
        if let Some(ring) = runtime::idle_ring() {
            let (completion, lent) = reactor::run(&ring, lent, operation);
            return Self(State::Ended(completion, lent));
        }
        let key = runtime::with(|rt| rt.reactor(|reactor, ring| reactor.start(ring, lent, operation, class)));
        Self(key.flatten().map_or(State::Nowhere, State::InFlight))
    }
}

impl Future for Pending {
    type Output = (Completion, Lent);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match core::mem::replace(&mut self.0, State::Nowhere) {
            State::InFlight(key) => {
                let ended = runtime::with(|rt| rt.reactor(|reactor, _| reactor.poll(key, context.waker()))).flatten();
                if let Some(ended) = ended {
                    return Poll::Ready(ended);
                }
                self.0 = State::InFlight(key);
                Poll::Pending
            }
            State::Ended(completion, lent) => Poll::Ready((completion, lent)),
            State::Nowhere => {
                let status = Status::Disconnected as i32;
                Poll::Ready((Completion { status, ..Completion::default() }, Lent::default()))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let State::InFlight(key) = self.0 else { return };
        runtime::with(|rt| {
            if let Some((lent, completion, receives)) = rt.reactor(|reactor, ring| reactor.abandon(ring, key)) {
                rt.discard(lent, completion, receives);
            }
        });
    }
}

//! The future of one operation.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use capos_abi::{Completion, Status, entry};
use capos_ring::message::Lent;

use crate::reactor::{Class, Key};
use crate::runtime;

/// An operation in flight. Dropping it cancels the operation.
#[derive(Debug)]
pub(crate) struct Pending {
    key: Option<Key>,
}

impl Pending {
    /// Queues an operation that borrows what `lent` holds.
    pub(crate) fn start(lent: Lent, operation: entry::Operation) -> Self {
        let class = Class::of(&operation);
        let key = runtime::with(|rt| rt.reactor(|reactor, ring| reactor.start(ring, lent, operation, class)));
        Self { key: key.flatten() }
    }

    /// Queues the wait for the end of a received call.
    pub(crate) fn watch(reply: u64) -> Self {
        let operation = entry::Operation::Wait { cap: reply };
        let (lent, class) = (Lent::default(), Class::Watch);
        let key = runtime::with(|rt| rt.reactor(|reactor, ring| reactor.start(ring, lent, operation, class)));
        Self { key: key.flatten() }
    }
}

impl Future for Pending {
    type Output = (Completion, Lent);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(key) = self.key else {
            // Outside a runtime nothing is ever answered.
            let status = Status::Disconnected as i32;
            return Poll::Ready((Completion { status, ..Completion::default() }, Lent::default()));
        };
        match runtime::with(|rt| rt.reactor(|reactor, _| reactor.poll(key, context.waker()))).flatten() {
            Some(done) => {
                self.key = None;
                Poll::Ready(done)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        runtime::with(|rt| {
            if let Some((lent, completion, receives)) = rt.reactor(|reactor, ring| reactor.abandon(ring, key)) {
                rt.discard(lent, completion, receives);
            }
        });
    }
}

//! Calls through a capability.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capos_abi::Status;
use capos_abi::entry::MAX_MESSAGE;
use capos_ring::message;
use capos_schema::cap::{Begun, CallError, CallResult, IncomingMessage, Message};

use crate::capability::KernelCap;
use crate::pool::Pool;
use crate::reactor::{Class, Key};
use crate::runtime::{self, Wait};

/// Without a runtime nothing is ever answered.
const NOWHERE: CallError = CallError::Transport(Status::Disconnected);

/// Begins to call a method of the capability with this identifier; at most `capacity` bytes of results. The polling
/// task is woken when it has ended.
pub(crate) fn begin(
    cap: u64,
    (interface, method): (u64, u16),
    message: Message,
    capacity: u32,
    context: &Context<'_>,
) -> Begun {
    if let Some(ring) = runtime::idle_ring() {
        return Begun::Ended(ring.call(cap, interface, method, message, capacity, KernelCap::own));
    }
    // Checked before anything is borrowed: a rejected message is dropped, and the capabilities in it may belong to
    // other code.
    if let Err(error) = message::fitting(&message) {
        return Begun::Ended(Err(error));
    }
    let room = usize::try_from(capacity.min(MAX_MESSAGE)).unwrap_or(0);
    let waker = Some(context.waker().clone());
    let begun = runtime::with(|rt| {
        rt.reactor(|reactor, ring| {
            let mut lent = reactor.pool.lend(room);
            let operation = message::call(cap, (interface, method), message, capacity, &mut lent)?;
            match reactor.start(ring, lent, operation, Class::Slow, waker) {
                Some(key) => Ok(key),
                None => Err(NOWHERE),
            }
        })
    });
    match begun {
        Some(Ok(key)) => Begun::Kept(key.number()),
        Some(Err(error)) => Begun::Ended(Err(error)),
        None => Begun::Ended(Err(NOWHERE)),
    }
}

/// How a call ended that was begun.
pub(crate) fn poll(number: u64, context: &Context<'_>) -> Poll<CallResult> {
    let polled = runtime::with(|rt| {
        let found = rt.reactor(|reactor, _| reactor.poll(Key::known(number), context.waker()));
        let Some((completion, mut lent)) = found else { return Poll::Pending };
        let answer = lent.answer(&completion, KernelCap::own);
        let answer = answer.map(|(bytes, caps)| IncomingMessage { words: Pool::cut(&mut lent.received, bytes), caps });
        rt.give_back(lent);
        Poll::Ready(answer)
    });
    polled.unwrap_or_else(|| Poll::Ready(Err(NOWHERE)))
}

/// Cancels a call that was begun.
pub(crate) fn abandon(number: u64) {
    runtime::with(|rt| rt.abandon(Key::known(number)));
}

/// Runs a future to its end while all other tasks of the process are stopped. For kernel objects,
/// which answer at once; a call to a service that waits for this process would never end.
pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        if runtime::with(|rt| rt.turn(Wait::Completion)).is_none() {
            // No runtime: `Pending` answers Disconnected at its next poll.
            core::hint::spin_loop();
        }
    }
}

//! Calls through a capability.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capos_abi::Status;
use capos_abi::entry::MAX_MESSAGE;
use capos_ring::message::{self, whole_words};
use capos_schema::cap::{Begun, CallError, Message, MessageView, ReadResult};

use crate::capability::KernelCap;
use crate::reactor::{Class, Key, Request};
use crate::runtime::{self, Wait};

/// Without a runtime nothing is ever answered.
const NOWHERE: CallError = CallError::Transport(Status::Disconnected);

/// Begins to call a method of the capability with this identifier; at most `capacity` bytes of results. The polling
/// task is woken when it has ended, unless it ends at once and is read.
pub(crate) fn begin(
    cap: u64,
    method: (u64, u16),
    message: Message,
    capacity: u32,
    (context, read): (&Context<'_>, ReadResult<'_>),
) -> Begun {
    if let Some(ring) = runtime::idle_ring() {
        runtime::with_spare(|lent| ring.call((cap, method), message, capacity, lent, KernelCap::own, read));
        return Begun::Read;
    }
    // Checked before anything is borrowed: a rejected message is dropped, and the capabilities in it may belong to
    // other code.
    let length = match message::fitting(&message) {
        Ok(length) => length,
        Err(error) => return Begun::Ended(Err(error)),
    };
    let capacity = capacity.min(MAX_MESSAGE);
    let room = usize::try_from(capacity).unwrap_or(0);
    let Some(mut lent) = runtime::with(|rt| rt.lend(room)) else { return Begun::Ended(Err(NOWHERE)) };
    let operation = lent.call(cap, method, message, (length, capacity));
    let request = Request::new(operation, Class::Slow);
    let waker = Some(context.waker().clone());
    match runtime::with(|rt| rt.start(lent, &request, waker)).flatten() {
        Some(key) => Begun::Kept(key.number()),
        None => Begun::Ended(Err(NOWHERE)),
    }
}

/// Has `read` read how a call ended that was begun, in the memory that the results came into.
pub(crate) fn poll(number: u64, context: &Context<'_>, read: ReadResult<'_>) -> Poll<()> {
    let polled = runtime::with(|rt| {
        let found = rt.reactor(|reactor, _| reactor.poll(Key::known(number), context.waker()));
        let Some((completion, lent)) = found else { return Poll::Pending };
        match lent.answer(&completion, KernelCap::own) {
            Ok((bytes, caps)) => {
                let words = lent.received.get(..whole_words(bytes)).unwrap_or(&lent.received);
                read(Ok(MessageView { words, caps: &caps }));
            }
            Err(error) => read(Err(error)),
        }
        rt.give_back(lent);
        Poll::Ready(())
    });
    polled.unwrap_or_else(|| {
        read(Err(NOWHERE));
        Poll::Ready(())
    })
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

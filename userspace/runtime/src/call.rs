//! Calls through a capability.

use alloc::vec::Vec;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capnp::Word;
use capos_abi::Status;
use capos_ring::message;
use capos_schema::cap::{CallError, IncomingMessage, Message};

use crate::capability::KernelCap;
use crate::operation::Pending;
use crate::runtime::{self, Wait};

/// Calls a method of the capability with this identifier; at most `capacity` bytes of results.
pub(crate) async fn call(
    cap: u64,
    interface: u64,
    method: u16,
    message: Message,
    capacity: u32,
) -> Result<IncomingMessage, CallError> {
    if let Some(ring) = runtime::idle_ring() {
        return ring.call(cap, interface, method, message, capacity, KernelCap::own);
    }
    let prepared = runtime::with(|rt| {
        rt.reactor(|reactor, _| {
            message::call(cap, interface, method, message, capacity, |bytes| reactor.pool.take(bytes))
        })
    });
    let (operation, lent) = prepared.ok_or(CallError::Transport(Status::Disconnected))??;
    let (completion, lent) = Pending::start(lent, operation).await;
    match lent.answer(&completion, KernelCap::own) {
        Ok((length, caps)) => {
            let words = runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.cut(lent.received, length)));
            Ok(IncomingMessage { words: words.unwrap_or_default(), caps })
        }
        Err(error) => {
            give_back(lent.received);
            Err(error)
        }
    }
}

pub(crate) fn give_back(buffer: Vec<Word>) {
    runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.give(buffer)));
}

/// Runs a future to its end while all other tasks of the process stand still. For kernel objects,
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

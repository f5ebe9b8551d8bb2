//! Calls through a capability.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{ExceptionKind, Status};
use capos_schema::cap::{CallError, Cap, Exception, IncomingMessage, Message};

use crate::capability::KernelCap;
use crate::operation::{Pending, transport};
use crate::reactor::{Lent, address, cap_array, received_caps};
use crate::runtime::{self, Wait};

/// Calls a method of the capability with this identifier; at most `capacity` bytes of results.
pub(crate) async fn call(
    cap: u64,
    interface: u64,
    method: u16,
    message: Message,
    capacity: u32,
) -> Result<IncomingMessage, CallError> {
    let mut words = message.words;
    let length = u32::try_from(words.len().saturating_mul(8)).unwrap_or(u32::MAX);
    if length > MAX_MESSAGE || message.caps.len() > usize::from(MAX_CAPS) {
        return Err(CallError::Transport(Status::TooLarge));
    }
    let capacity = capacity.min(MAX_MESSAGE);
    let Some(mut received) =
        runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.take(usize::try_from(capacity).unwrap_or(0))))
    else {
        return Err(CallError::Transport(Status::Disconnected));
    };
    let mut caps = cap_array(&message.caps, MAX_CAPS);
    let operation = Operation::Call {
        cap,
        interface,
        method,
        params: Buffer { address: address(&mut words), length },
        results: Buffer { address: address(&mut received), length: capacity },
        caps: CapArray {
            address: address(&mut caps),
            sent: u8::try_from(message.caps.len()).unwrap_or(MAX_CAPS),
            accepted: MAX_CAPS,
        },
    };
    let lent = Lent { sent: words, sent_caps: message.caps, received, caps };
    let (completion, lent) = Pending::start(lent, operation).await;
    if let Err(status) = transport(&completion) {
        give_back(lent.received);
        return Err(CallError::Transport(status));
    }
    moved_away(&lent);
    let caps: Vec<Cap> =
        received_caps(&lent.caps, completion.caps).map(|(id, interface)| KernelCap::own(id, interface)).collect();
    let length = usize::try_from(completion.length).unwrap_or(0);
    if let Some(kind) = ExceptionKind::from_raw(completion.status) {
        let reason = reason(&lent.received, length);
        give_back(lent.received);
        return Err(CallError::Exception(Exception::new(kind, reason)));
    }
    let words = runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.cut(lent.received, length)));
    Ok(IncomingMessage { words: words.unwrap_or_default(), caps })
}

fn reason(words: &[Word], length: usize) -> String {
    let bytes = Word::words_to_bytes(words);
    String::from_utf8_lossy(bytes.get(..length).unwrap_or(bytes)).into_owned()
}

pub(crate) fn give_back(buffer: Vec<Word>) {
    runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.give(buffer)));
}

/// The capabilities that this message gave away are no longer in the table: nothing to release.
pub(crate) fn moved_away(lent: &Lent) {
    for arg in &lent.sent_caps {
        if arg.mode == capos_abi::TransferMode::Move
            && let Some(cap) = arg.cap.transport().as_any().downcast_ref::<KernelCap>()
        {
            cap.forget();
        }
    }
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

//! Calls of kernel objects: the parameters are read, the method runs at once, its results are
//! written, or the operation stays in flight until the object answers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem::ManuallyDrop;

use capnp::{Word, any_pointer, word};
use capos_abi::entry::{Buffer, CapArray};
use capos_abi::{CapId, Rights, Status};
use capos_schema::sync::{self, Completion, Output};

use crate::cpu::kernel_lock::{Exclusive, Held};
use crate::ipc;
use crate::object::capability::{Capability, Object};
use crate::object::invocation::{self, Invocation};
use crate::object::operation::{Call, Outcome, Progress};
use crate::object::thread::Thread;
use crate::object::transfer::{self, Offer, Refusal};
use crate::sched::scheduler;
use crate::syscall::methods::{self, dispatch};

/// The longest parameters that a kernel object reads, in bytes.
const MAX_PARAMS: usize = 64 * 1024;
/// Words of parameters that are read without allocating.
const SMALL: usize = 32;

/// The two forms of a message without content: no struct, and one of no words.
const EMPTY: [u64; 2] = [0, 0xffff_fffc];
/// The first word of a message that is a struct of one word of data.
const ONE_WORD: u64 = 1 << 32;
/// Bytes of such a message.
const NUMBER: usize = 16;

/// What a method of an interface answers that has no parameters and answers with one number. `None` where it is none of those, or
/// refuses; nothing has happened then.
#[inline(always)]
pub fn number(
    lock: Held<'_>,
    thread: &Arc<Thread>,
    cap: CapId,
    capability: &Capability,
    (interface, method): (u64, u16),
) -> Option<u64> {
    let call =
        Call { interface, method, params: Buffer::default(), results: Buffer::default(), caps: CapArray::default() };
    // Such a method gives nothing, starts nothing and waits for nothing, so there is nothing to drop.
    let invocation = Invocation::new(lock, thread, (capability.rights, capability.node), (0, cap), call, &[]);
    methods::number(&capability.object, &mut ManuallyDrop::new(invocation), (interface, method))?.ok()
}

/// CALL of a method that has no parameters and answers with one number, whose messages need neither reader nor builder.
/// `None` where it has to take the slow path: nothing has happened then.
#[inline]
pub fn call_for_number(
    lock: Held<'_>,
    thread: &Arc<Thread>,
    cap: CapId,
    call: &Call,
    capability: &Capability,
) -> Option<Outcome> {
    if call.params.length != 8 || (call.results.length as usize) < NUMBER {
        return None;
    }
    // Where it refuses, nothing has changed. The reason may need a page of its own, for which the kernel lock is needed exclusively.
    let answer = |message: u64| {
        if !EMPTY.contains(&message) {
            return None;
        }
        Some([ONE_WORD, number(lock, thread, cap, capability, (call.interface, call.method))?])
    };
    thread.process.space.exchange(lock, call.params.address, call.results.address, answer)?;
    Some(Outcome { length: NUMBER as u32, ..Outcome::default() })
}

/// CALL.
pub fn call(lock: &mut Exclusive, thread: &Arc<Thread>, tag: u64, cap: CapId, call: Call) -> Progress {
    check_and_call(lock, thread, tag, cap, call).unwrap_or_else(Progress::from)
}

/// The same.
///
/// # Errors
/// The capability, the parameters or what is sent along is not what the entry says. Nothing has happened.
fn check_and_call(
    lock: &mut Exclusive,
    thread: &Arc<Thread>,
    tag: u64,
    cap: CapId,
    call: Call,
) -> Result<Progress, Refusal> {
    let capability = thread.process.get(cap)?;
    if !capability.rights.contains(Rights::CALL) {
        return Err(Status::MissingRight.into());
    }
    if let Object::Client(client) = capability.object {
        return Ok(ipc::call(lock, thread, tag, cap, client, call));
    }
    if call.interface != capability.object.interface() {
        return Err(Status::WrongInterface.into());
    }
    let mut small = [word(0, 0, 0, 0, 0, 0, 0, 0); SMALL];
    let mut large = Vec::new();
    let length = call.params.length as usize;
    let words = length.div_ceil(8);
    let buffer: &mut [Word] = if words <= SMALL {
        &mut small
    } else if length <= MAX_PARAMS {
        large.try_reserve_exact(words).map_err(|_| Status::OutOfMemory)?;
        large.resize(words, word(0, 0, 0, 0, 0, 0, 0, 0));
        &mut large
    } else {
        return Err(Status::TooLarge.into());
    };
    let params = buffer.get_mut(..words).unwrap_or_default();
    let bytes = Word::words_to_bytes_mut(params).get_mut(..length).unwrap_or_default();
    thread.process.space.read(call.params.address, bytes)?;
    let offers = transfer::offers(&thread.process, call.caps, false)?;
    Ok(invoke(lock, thread, (tag, cap), capability, call, params, &offers))
}

fn invoke(
    lock: &mut Exclusive,
    thread: &Arc<Thread>,
    named: (u64, CapId),
    capability: Capability,
    call: Call,
    params: &[Word],
    offers: &[Offer],
) -> Progress {
    let Capability { object, rights, node } = capability;
    let mut invocation = Invocation::new(lock, thread, (rights, node), named, call, offers);
    let mut scratch = [word(0, 0, 0, 0, 0, 0, 0, 0); SMALL];
    let cell = RefCell::new(&mut invocation);
    let made = |params: any_pointer::Reader<'_>, results: any_pointer::Builder<'_>| {
        dispatch(&object, &mut cell.borrow_mut(), call.method, params, results)
    };
    let outcome = sync::call_in(params, &mut scratch, made, |answer| match answer {
        _ if cell.borrow().is_unfinished => None,
        Ok(Output { completion: Completion::Pending, .. }) => None,
        Ok(Output { bytes, order, .. }) => {
            let mut invocation = cell.borrow_mut();
            let given = core::mem::take(&mut invocation.given);
            Some(invocation::respond(invocation.lock, &thread.process, &call, bytes, &order, given))
        }
        Err(exception) => Some(invocation::except(cell.borrow_mut().lock, &thread.process, &call, &exception)),
    });
    if invocation.is_unfinished {
        return Progress::Unfinished;
    }
    if outcome.is_none_or(|outcome| outcome.status <= 0) {
        transfer::consume(invocation.lock, &thread.process, offers);
    }
    if let Some(started) = invocation.starts.take() {
        match outcome {
            Some(Outcome { status: 0, .. }) => scheduler::wake(invocation.lock, &started),
            _ => started.abandon(invocation.lock),
        }
    }
    match (outcome, invocation.deferred) {
        (None, _) => Progress::Pending,
        // It was noted as being in flight.
        (Some(outcome), Some(ticket)) => thread.end_begun(invocation.lock, ticket, outcome),
        (Some(outcome), None) => outcome.into(),
    }
}

//! Calls of kernel objects: the parameters are read, the method runs at once, its results are
//! written, or the operation stays in flight until the object answers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem::ManuallyDrop;

use capnp::{Word, any_pointer, word};
use capos_abi::entry::{Buffer, CapArray};
use capos_abi::{CapId, ExceptionKind, Rights, Status};
use capos_captable::NodeId;
use capos_paging::PAGE;
use capos_schema::sync::{self, Completion, Exception, Output};

use crate::ipc;
use crate::memory::heap;
use crate::object::address_space::Unreachable;
use crate::object::capability::{Capability, Object};
use crate::object::memory::user_memory::Absent;
use crate::object::operation::{Call, Kind, OperationRef, Outcome, Ticket};
use crate::object::process::Process;
use crate::object::thread::Thread;
use crate::object::transfer::{self, Offer, Refusal, Slots};
use crate::sched::scheduler;
use crate::syscall::methods::{self, dispatch};

/// The longest parameters that a kernel object reads, in bytes.
const MAX_PARAMS: usize = 64 * 1024;
/// What a result takes beside its data, in bytes, generously.
const OVERHEAD: usize = 256;
/// Words of parameters that are read without allocating.
const SMALL: usize = 32;

/// A capability that a method gives to its caller.
struct Given {
    object: Object,
    rights: Rights,
    parent: Option<NodeId>,
}

/// What a method of a kernel object knows about its call.
pub struct Invocation<'a> {
    pub thread: &'a Arc<Thread>,
    /// Rights of the capability that was invoked.
    pub rights: Rights,
    /// Its place in the derivation forest.
    pub node: Option<NodeId>,
    cap: CapId,
    tag: u64,
    call: Call,
    offers: &'a [Offer],
    given: Vec<Given>,
    /// Runs once the caller has its capability.
    starts: Option<Arc<Thread>>,
    deferred: Option<Ticket>,
    /// Memory for results that are large.
    secured: Option<heap::Secured>,
}

impl<'a> Invocation<'a> {
    #[inline]
    fn new(
        thread: &'a Arc<Thread>,
        (rights, node): (Rights, Option<NodeId>),
        (tag, cap): (u64, CapId),
        call: Call,
        offers: &'a [Offer],
    ) -> Self {
        let (given, starts, deferred, secured) = (Vec::new(), None, None, None);
        Self { thread, rights, node, cap, tag, call, offers, given, starts, deferred, secured }
    }

    /// Who calls.
    pub fn process(&self) -> &'a Arc<Process> {
        &self.thread.process
    }

    /// The next capability parameter.
    ///
    /// # Errors
    /// The caller sent too few.
    pub fn capability(&mut self) -> Result<&'a Capability, Exception> {
        let (first, rest) = self
            .offers
            .split_first()
            .ok_or_else(|| Exception::invalid_argument("the call lacks a capability parameter"))?;
        self.offers = rest;
        Ok(&first.capability)
    }

    /// Refuses the call unless the invoked capability has these rights.
    ///
    /// # Errors
    /// It lacks one.
    pub fn need(&self, rights: Rights) -> Result<(), Exception> {
        if self.rights.contains(rights) {
            Ok(())
        } else {
            Err(Exception::failed("the capability lacks the right that this method needs"))
        }
    }

    /// Gives a new capability to the caller: the next one of the results. It derives from `parent`.
    pub fn give(&mut self, object: Object, rights: Rights, parent: Option<NodeId>) {
        self.given.push(Given { object, rights, parent });
    }

    /// Lets a thread run once the caller has been answered. Where the answer does not reach it, the thread
    /// never runs: the caller, who is told of a failure, must be able to take back the thread's stack.
    pub fn start(&mut self, thread: Arc<Thread>) {
        self.starts = Some(thread);
    }

    /// Makes sure of the memory for results with so many bytes of data, lists and texts. A method says so before it
    /// writes results that may take more than a frame.
    ///
    /// # Errors
    /// There is none.
    pub fn expect(&mut self, bytes: usize) -> Result<(), Exception> {
        self.secured = secure(bytes).map_err(refused)?;
        Ok(())
    }

    /// Bytes of results that the caller accepts.
    pub fn capacity(&self) -> usize {
        self.call.results.length as usize
    }

    /// Leaves the call in flight. `kind` says what it waits for.
    ///
    /// # Errors
    /// The thread has no place for it.
    pub fn defer(&mut self, kind: impl FnOnce(Call) -> Kind) -> Result<OperationRef, Exception> {
        // Asked first, since it may lock what comes before the thread.
        let kind = kind(self.call);
        let ticket = self.thread.begin(self.tag, self.cap, || kind);
        let ticket = ticket.ok_or_else(|| Exception::overloaded("too many operations in flight"))?;
        self.deferred = Some(ticket);
        Ok(OperationRef { thread: Arc::clone(self.thread), ticket })
    }
}

/// Memory for a message with so many bytes of content, as long as the value is there.
///
/// # Errors
/// There is none.
pub fn secure(bytes: usize) -> Result<Option<heap::Secured>, Status> {
    if bytes <= PAGE as usize / 2 {
        // No piece is longer than a frame.
        return Ok(None);
    }
    // The data itself, two segments of the message, the one that they are brought into, and its copy.
    let frames = bytes.saturating_add(OVERHEAD).div_ceil(PAGE as usize).saturating_mul(5);
    heap::secure(frames).map(Some).ok_or(Status::OutOfMemory)
}

/// The two forms of a message without content: no struct, and one of no words.
const EMPTY: [u64; 2] = [0, 0xffff_fffc];
/// The first word of a message that is a struct of one word of data.
const ONE_WORD: u64 = 1 << 32;
/// Bytes of such a message.
const NUMBER: usize = 16;

/// What a method answers that has no parameters and answers with one number. `None` where it is none of those, or refuses;
/// nothing has happened then.
#[inline(always)]
pub fn number(thread: &Arc<Thread>, cap: CapId, capability: &Capability, method: u16) -> Option<u64> {
    let call =
        Call { interface: 0, method, params: Buffer::default(), results: Buffer::default(), caps: CapArray::default() };
    // Such a method gives nothing, starts nothing and waits for nothing, so there is nothing to drop.
    let invocation = Invocation::new(thread, (capability.rights, capability.node), (0, cap), call, &[]);
    methods::number(&capability.object, &mut ManuallyDrop::new(invocation), method)?.ok()
}

/// CALL of a method that has no parameters and answers with one number, whose messages need neither reader nor builder.
/// `None` where it has to go the long way: nothing has happened then.
#[inline]
pub fn call_for_number(thread: &Arc<Thread>, cap: CapId, call: &Call, capability: &Capability) -> Option<Outcome> {
    if call.params.length != 8
        || (call.results.length as usize) < NUMBER
        || call.interface != capability.object.interface()
    {
        return None;
    }
    // Where it refuses, nothing has changed. The reason may need a page of its own, where the kernel's lock is needed alone.
    let answer = |message: u64| {
        if !EMPTY.contains(&message) {
            return None;
        }
        Some([ONE_WORD, number(thread, cap, capability, call.method)?])
    };
    thread.process.space.exchange(call.params.address, call.results.address, answer)?;
    Some(Outcome { length: NUMBER as u32, ..Outcome::default() })
}

/// CALL.
///
/// # Errors
/// A part of the parameters must be paged in; nothing has happened then.
pub fn call(thread: &Arc<Thread>, tag: u64, cap: CapId, call: Call) -> Result<(), Absent> {
    let capability = match thread.process.get(cap) {
        Ok(capability) if capability.rights.contains(Rights::CALL) => capability,
        Ok(_) => {
            thread.post(tag, Status::MissingRight);
            return Ok(());
        }
        Err(status) => {
            thread.post(tag, status);
            return Ok(());
        }
    };
    if let Object::Client(client) = capability.object {
        return ipc::call(thread, tag, cap, client, call);
    }
    if call.interface != capability.object.interface() {
        thread.post(tag, Status::WrongInterface);
        return Ok(());
    }
    let mut small = [word(0, 0, 0, 0, 0, 0, 0, 0); SMALL];
    let mut large = Vec::new();
    let length = call.params.length as usize;
    let words = length.div_ceil(8);
    let buffer: &mut [Word] = if words <= SMALL {
        &mut small
    } else if length <= MAX_PARAMS {
        if large.try_reserve_exact(words).is_err() {
            thread.post(tag, Status::OutOfMemory);
            return Ok(());
        }
        large.resize(words, word(0, 0, 0, 0, 0, 0, 0, 0));
        &mut large
    } else {
        thread.post(tag, Status::TooLarge);
        return Ok(());
    };
    let params = buffer.get_mut(..words).unwrap_or_default();
    let bytes = Word::words_to_bytes_mut(params).get_mut(..length).unwrap_or_default();
    let offers = match thread.process.space.read(call.params.address, bytes) {
        Ok(()) => transfer::offers(&thread.process, call.caps, false),
        Err(unreachable) => Err(Refusal::Memory(unreachable)),
    };
    let offers = match offers {
        Ok(offers) => offers,
        Err(Refusal::Memory(Unreachable::Absent(address))) => return Err(Absent(address)),
        Err(Refusal::Memory(Unreachable::Forbidden)) => {
            thread.post(tag, Status::BadAddress);
            return Ok(());
        }
        Err(Refusal::Status(status)) => {
            thread.post(tag, status);
            return Ok(());
        }
    };
    invoke(thread, tag, cap, capability, call, params, &offers);
    Ok(())
}

fn invoke(
    thread: &Arc<Thread>,
    tag: u64,
    cap: CapId,
    capability: Capability,
    call: Call,
    params: &[Word],
    offers: &[Offer],
) {
    let Capability { object, rights, node } = capability;
    let mut invocation = Invocation::new(thread, (rights, node), (tag, cap), call, offers);
    let mut scratch = [word(0, 0, 0, 0, 0, 0, 0, 0); SMALL];
    let cell = RefCell::new(&mut invocation);
    let made = |params: any_pointer::Reader<'_>, results: any_pointer::Builder<'_>| {
        dispatch(&object, &mut cell.borrow_mut(), call.method, params, results)
    };
    let outcome = sync::call_in(params, &mut scratch, made, |answer| match answer {
        Ok(Output { completion: Completion::Pending, .. }) => None,
        Ok(Output { bytes, order, .. }) => {
            let given = core::mem::take(&mut cell.borrow_mut().given);
            Some(respond(&thread.process, &call, bytes, &order, given))
        }
        Err(exception) => Some(except(&thread.process, &call, &exception)),
    });
    if outcome.is_none_or(|outcome| outcome.status <= 0) {
        transfer::consume(&thread.process, offers);
    }
    if let Some(started) = invocation.starts.take() {
        match outcome {
            Some(Outcome { status: 0, .. }) => scheduler::wake(&started),
            _ => started.abandon(),
        }
    }
    if let Some(outcome) = outcome {
        finish(thread, tag, invocation.deferred, outcome);
    }
}

/// Answers a call that was, or was not, noted as being in flight.
fn finish(thread: &Arc<Thread>, tag: u64, deferred: Option<Ticket>, outcome: Outcome) {
    match deferred {
        Some(ticket) => {
            thread.complete(ticket, outcome);
        }
        None => thread.post(tag, outcome),
    }
}

/// Writes results and gives capabilities.
fn respond(process: &Arc<Process>, call: &Call, bytes: &[u8], order: &[usize], given: Vec<Given>) -> Outcome {
    if bytes.len() > call.results.length as usize || given.len() > usize::from(call.caps.accepted) {
        return Status::TooLarge.into();
    }
    if process.space.write(call.results.address, bytes).is_err() {
        return Status::BadAddress.into();
    }
    let mut caps = 0;
    if !given.is_empty() {
        if process.space.check(call.caps.address, given.len().saturating_mul(16), true).is_err() {
            return Status::BadAddress.into();
        }
        match insert_all(process, order, given) {
            Ok(slots) => {
                caps = slots.as_slice().len() as u8;
                // Checked above.
                let _ = transfer::write(process, call.caps.address, slots.as_slice());
            }
            Err(status) => return status.into(),
        }
    }
    Outcome { status: 0, length: bytes.len() as u32, value: 0, caps }
}

/// Puts the given capabilities into the caller's table, all or none, in the order of the message.
fn insert_all(process: &Arc<Process>, order: &[usize], given: Vec<Given>) -> Result<Slots, Status> {
    let mut slots = Slots::default();
    for index in order {
        let Some(Given { object, rights, parent }) = given.get(*index) else { continue };
        let interface = object.interface();
        match process.insert(object.clone(), *rights, *parent) {
            Ok(id) => slots.push(capos_abi::CapSlot { word0: id.0, word1: interface }),
            Err(status) => {
                for slot in slots.as_slice() {
                    // Just inserted by this thread.
                    let _ = process.release(CapId(slot.word0));
                }
                return Err(status);
            }
        }
    }
    Ok(slots)
}

/// Writes the reason of an exception, as far as there is room.
fn except(process: &Process, call: &Call, exception: &Exception) -> Outcome {
    except_with(process, call, exception.kind, exception.reason_bytes())
}

fn except_with(process: &Process, call: &Call, kind: ExceptionKind, reason: &[u8]) -> Outcome {
    let length = reason.len().min(call.results.length as usize);
    match process.space.write(call.results.address, reason.get(..length).unwrap_or_default()) {
        Ok(()) => Outcome { status: kind as i32, length: length as u32, ..Outcome::default() },
        Err(_) => Status::BadAddress.into(),
    }
}

/// Answers a call that was deferred with the message that `write` makes.
pub fn answer_later(
    operation: &OperationRef,
    write: impl FnOnce(capnp::any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) {
    answer_with(operation, Vec::new(), write);
}

/// The same with a new capability for the caller, with all rights.
pub fn give_later(
    operation: &OperationRef,
    object: Object,
    write: impl FnOnce(capnp::any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) {
    answer_with(operation, alloc::vec![Given { object, rights: Rights::ALL, parent: None }], write);
}

fn answer_with(
    operation: &OperationRef,
    given: Vec<Given>,
    write: impl FnOnce(capnp::any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) {
    let Some(call) = operation.thread.peek_call(operation.ticket) else { return };
    let process = &operation.thread.process;
    let outcome = match sync::results(write) {
        Ok(answer) => respond(process, &call, Word::words_to_bytes(&answer.words), &answer.order, given),
        Err(exception) => except(process, &call, &exception),
    };
    operation.complete(outcome);
}

/// Answers a call that was deferred with an exception.
pub fn except_later(operation: &OperationRef, kind: ExceptionKind, reason: &[u8]) {
    let Some(call) = operation.thread.peek_call(operation.ticket) else { return };
    operation.complete(except_with(&operation.thread.process, &call, kind, reason));
}

/// Answers a call that was deferred and has no results.
pub fn answer_empty(operation: &OperationRef) {
    answer_later(operation, |results| {
        results.init_as::<capos_schema::kernel_capnp::timer::sleep_until_results::Builder<'_>>();
        Ok(Completion::Done)
    });
}

/// A status as the exception of a method.
pub fn refused(status: Status) -> Exception {
    let kind = match status {
        Status::QuotaExceeded | Status::OutOfMemory | Status::Overloaded => ExceptionKind::Overloaded,
        Status::Disconnected => ExceptionKind::Disconnected,
        Status::InvalidArgument | Status::BadCapability | Status::StaleCapability | Status::WrongInterface => {
            ExceptionKind::InvalidArgument
        }
        _ => ExceptionKind::Failed,
    };
    Exception::new(kind, status.words())
}

//! What a method of a kernel object knows about its call, and how a call is answered, at once or later.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capnp::Word;
use capos_abi::{CapId, ExceptionKind, Rights, Status};
use capos_captable::NodeId;
use capos_paging::PAGE;
use capos_schema::sync::{self, Completion, Exception};

use crate::cpu::budget::Budget;
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::heap;
use crate::object::Answer;
use crate::object::capability::{Capability, Object};
use crate::object::operation::{Call, Kind, OperationRef, Outcome, Ticket};
use crate::object::process::Process;
use crate::object::thread::{Thread, Unfinished};
use crate::object::transfer::{self, Offer, Slots};

/// What a result takes beside its data, in bytes, generously.
pub const OVERHEAD: usize = 256;
/// A capability that a method gives to its caller.
pub struct Given {
    object: Object,
    rights: Rights,
    parent: Option<NodeId>,
}

/// What a method of a kernel object knows about its call. Most methods run with the kernel lock held exclusively. Methods of the fast path
/// take any `L`, which is [`Held`](crate::cpu::kernel_lock::Held) there.
pub struct Invocation<'a, L = &'a mut Exclusive> {
    pub lock: L,
    pub thread: &'a Arc<Thread>,
    /// Rights of the capability that was invoked.
    pub rights: Rights,
    /// Its place in the derivation forest.
    pub node: Option<NodeId>,
    cap: CapId,
    tag: u64,
    call: Call,
    offers: &'a [Offer],
    pub given: Vec<Given>,
    /// Runs once the caller has its capability.
    pub starts: Option<Arc<Thread>>,
    pub deferred: Option<Ticket>,
    /// Only a step of it is done, see [`Invocation::pause`].
    pub is_unfinished: bool,
    /// Memory for results that are large.
    secured: Option<heap::Secured>,
}

impl<'a, L> Invocation<'a, L> {
    /// A call that is about to be made.
    #[inline]
    pub fn new(
        lock: L,
        thread: &'a Arc<Thread>,
        (rights, node): (Rights, Option<NodeId>),
        (tag, cap): (u64, CapId),
        call: Call,
        offers: &'a [Offer],
    ) -> Self {
        let (given, starts, deferred, is_unfinished, secured) = (Vec::new(), None, None, false, None);
        Self { lock, thread, rights, node, cap, tag, call, offers, given, starts, deferred, is_unfinished, secured }
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
    /// never runs: the caller, which is told of a failure, must be able to take back the thread's stack.
    pub fn start(&mut self, thread: Arc<Thread>) {
        self.starts = Some(thread);
    }

    /// Does a part of long work as far as the budget of this step allows.
    pub fn within_budget<R>(&mut self, act: impl FnOnce(&mut Self, &mut Budget) -> R) -> R {
        let mut budget = self.thread.budget();
        let result = act(self, &mut budget);
        self.thread.set_budget(budget);
        result
    }

    /// Leaves the call unfinished: it is made once more when others have had their turn.
    pub fn pause(&mut self) -> Answer {
        self.is_unfinished = true;
        Ok(Completion::Pending)
    }

    /// The same; what is done so far is there then ([`Thread::take_unfinished`]).
    pub fn go_on_later(&mut self, unfinished: Unfinished) -> Answer {
        self.thread.keep(unfinished);
        self.pause()
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

/// Writes results and gives capabilities.
pub fn respond(
    lock: &mut Exclusive,
    process: &Arc<Process>,
    call: &Call,
    bytes: &[u8],
    order: &[usize],
    given: Vec<Given>,
) -> Outcome {
    if bytes.len() > call.results.length as usize || given.len() > usize::from(call.caps.accepted) {
        return Status::TooLarge.into();
    }
    if process.space.write(lock, call.results.address, bytes).is_err() {
        return Status::BadAddress.into();
    }
    let mut caps = 0;
    if !given.is_empty() {
        if process.space.check(lock, call.caps.address, given.len().saturating_mul(16), true).is_err() {
            return Status::BadAddress.into();
        }
        match insert_all(lock, process, order, given) {
            Ok(slots) => {
                caps = slots.as_slice().len() as u8;
                // Checked above.
                let _ = transfer::write(lock, process, call.caps.address, slots.as_slice());
            }
            Err(status) => return status.into(),
        }
    }
    Outcome { status: 0, length: bytes.len() as u32, value: 0, caps }
}

/// Puts the given capabilities into the caller's table, all or none, in the order of the message.
fn insert_all(
    lock: &mut Exclusive,
    process: &Arc<Process>,
    order: &[usize],
    given: Vec<Given>,
) -> Result<Slots, Status> {
    let mut slots = Slots::default();
    for index in order {
        let Some(Given { object, rights, parent }) = given.get(*index) else { continue };
        let interface = object.interface();
        match process.insert(object.clone(), *rights, *parent) {
            Ok(id) => slots.push(capos_abi::CapSlot { word0: id.0, word1: interface }),
            Err(status) => {
                for slot in slots.as_slice() {
                    // Just inserted by this thread.
                    let _ = process.release(lock, CapId(slot.word0));
                }
                return Err(status);
            }
        }
    }
    Ok(slots)
}

/// Writes the reason of an exception, as far as there is room.
pub fn except(lock: &mut Exclusive, process: &Process, call: &Call, exception: &Exception) -> Outcome {
    except_with(lock, process, call, exception.kind, exception.reason_bytes())
}

fn except_with(lock: &mut Exclusive, process: &Process, call: &Call, kind: ExceptionKind, reason: &[u8]) -> Outcome {
    let length = reason.len().min(call.results.length as usize);
    match process.space.write(lock, call.results.address, reason.get(..length).unwrap_or_default()) {
        Ok(()) => Outcome { status: kind as i32, length: length as u32, ..Outcome::default() },
        Err(_) => Status::BadAddress.into(),
    }
}

/// Answers a call that was deferred with the message that `write` makes.
pub fn answer_later(
    lock: &mut Exclusive,
    operation: &OperationRef,
    write: impl FnOnce(capnp::any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) {
    answer_with(lock, operation, Vec::new(), write);
}

/// The same with a new capability for the caller, with all rights.
pub fn give_later(
    lock: &mut Exclusive,
    operation: &OperationRef,
    object: Object,
    write: impl FnOnce(capnp::any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) {
    answer_with(lock, operation, alloc::vec![Given { object, rights: Rights::ALL, parent: None }], write);
}

fn answer_with(
    lock: &mut Exclusive,
    operation: &OperationRef,
    given: Vec<Given>,
    write: impl FnOnce(capnp::any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) {
    let Some(call) = operation.thread.peek_call(operation.ticket) else { return };
    let process = &operation.thread.process;
    let outcome = match sync::results(write) {
        Ok(answer) => respond(lock, process, &call, Word::words_to_bytes(&answer.words), &answer.order, given),
        Err(exception) => except(lock, process, &call, &exception),
    };
    operation.complete(lock, outcome);
}

/// Answers a call that was deferred with an exception.
pub fn except_later(lock: &mut Exclusive, operation: &OperationRef, kind: ExceptionKind, reason: &[u8]) {
    let Some(call) = operation.thread.peek_call(operation.ticket) else { return };
    let outcome = except_with(lock, &operation.thread.process, &call, kind, reason);
    operation.complete(lock, outcome);
}

/// Answers a call that was deferred and has no results.
pub fn answer_empty(lock: &mut Exclusive, operation: &OperationRef) {
    answer_later(lock, operation, |results| {
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

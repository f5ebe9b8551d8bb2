//! Calls between processes: CALL meets RECV, RETURN ends it. And notifications.
//!
//! Parameters are copied once, from the caller's memory to the receiver's, when the two have met.
//! Nothing here depends on how many processes, capabilities or calls there are, and the way of a
//! call without capabilities allocates nothing.

pub mod word;

use alloc::sync::Arc;

use capos_abi::entry::{Buffer, CapArray};
use capos_abi::{CapId, ExceptionKind, MessageHeader, Rights, Status};

use crate::cpu::kernel_lock::Exclusive;
use crate::object::capability::{Capability, Object};
use crate::object::delivery::{Delivery, deliver, put_back, set_receive_key, take_reply};
use crate::object::endpoint::{Client, Endpoint, Met, PlaceKeeper};
use crate::object::memory::page_request::PageIn;
use crate::object::memory::user_memory::{self, CopyFailure};
use crate::object::notification::{Notification, Waited};
use crate::object::operation::{Call, Kind, OperationRef, Outcome, Progress};
use crate::object::process::Process;
use crate::object::reply::Caller;
use crate::object::thread::Thread;
use crate::object::transfer::{self, Refusal};

/// CALL on the calling side of an endpoint.
pub fn call(lock: &mut Exclusive, thread: &Arc<Thread>, tag: u64, cap: CapId, client: Client, call: Call) -> Progress {
    if call.interface != client.interface {
        return Status::WrongInterface.into();
    }
    let Some(ticket) = thread.begin(tag, cap, || Kind::Delivered { call }) else {
        return Status::Overloaded.into();
    };
    let caller = OperationRef { thread: Arc::clone(thread), ticket };
    loop {
        let endpoint = &client.endpoint;
        let met = endpoint.meet(
            || Caller::Thread(caller.clone()),
            |key| thread.update(ticket, |kind| *kind = Kind::Queued { call, client: client.clone(), key }),
        );
        let (receiver, place) = match met {
            Met::Receiver(receiver, place) => (receiver, place),
            Met::Queued => return Progress::Pending,
            Met::Refused(status) => return thread.end_begun(lock, ticket, status),
        };
        match deliver(lock, &Caller::Thread(caller.clone()), &client, &call, &receiver) {
            Delivery::Done => return Progress::Pending,
            Delivery::CallFails(status) => {
                put_back(place, receiver);
                return thread.end_begun(lock, ticket, status);
            }
            Delivery::Absent(address) => {
                put_back(place, receiver);
                thread.drop_operation(ticket);
                return Progress::Absent(address);
            }
            Delivery::ReceiverFails(status) => {
                receiver.complete(lock, status);
            }
        }
    }
}

/// RECV.
pub fn receive(
    lock: &mut Exclusive,
    thread: &Arc<Thread>,
    tag: u64,
    cap: CapId,
    buffer: Buffer,
    caps: CapArray,
) -> Progress {
    match thread.process.with(cap, |capability| receiving_end(capability, buffer)).flatten() {
        Ok(endpoint) => offer(lock, thread, tag, (cap, &endpoint), buffer, caps),
        Err(status) => status.into(),
    }
}

/// The endpoint that a capability is for, where calls may be received through it into such a buffer.
///
/// # Errors
/// It is for something else; it lacks the right; no message fits.
#[inline(always)]
pub fn receiving_end(capability: &Capability, buffer: Buffer) -> Result<Arc<Endpoint>, Status> {
    let Object::Endpoint(endpoint) = &capability.object else { return Err(Status::WrongInterface) };
    if !capability.rights.contains(Rights::RECEIVE) {
        return Err(Status::MissingRight);
    }
    if (buffer.length as usize) < MessageHeader::SIZE { Err(Status::TooLarge) } else { Ok(Arc::clone(endpoint)) }
}

/// Offers a buffer to an endpoint.
fn offer(
    lock: &mut Exclusive,
    thread: &Arc<Thread>,
    tag: u64,
    (cap, endpoint): (CapId, &Arc<Endpoint>),
    buffer: Buffer,
    caps: CapArray,
) -> Progress {
    let kind = || Kind::Receive { endpoint: Arc::clone(endpoint), buffer, caps, key: None };
    let Some(ticket) = thread.begin(tag, cap, kind) else { return Status::Overloaded.into() };
    let receiver = OperationRef { thread: Arc::clone(thread), ticket };
    loop {
        let offered = endpoint.offer(receiver.clone(), |key| set_receive_key(thread, ticket, key));
        let (caller, place) = match offered {
            Ok(Some(offered)) => offered,
            Ok(None) => return Progress::Pending,
            Err(status) => return thread.end_begun(lock, ticket, status),
        };
        let Some((client, call)) = queued(&caller, endpoint) else { continue };
        match deliver(lock, &caller, &client, &call, &receiver) {
            Delivery::Done => return Progress::Pending,
            Delivery::CallFails(status) => caller.refuse(lock, status),
            Delivery::Absent(_) => caller.refuse(lock, Status::BadAddress),
            Delivery::ReceiverFails(status) => {
                requeue(place, caller, client, call);
                return thread.end_begun(lock, ticket, status);
            }
        }
    }
}

/// What a queued call says. `None` where it has ended meanwhile.
fn queued(caller: &Caller, endpoint: &Arc<Endpoint>) -> Option<(Client, Call)> {
    match caller {
        Caller::Thread(operation) => match operation.peek()?.kind {
            Kind::Queued { call, client, .. } => {
                operation.thread.update(operation.ticket, |kind| *kind = Kind::Delivered { call });
                Some((client, call))
            }
            _ => None,
        },
        Caller::PageIn(request) => {
            let (badge, call) = request.message();
            Some((Client { endpoint: Arc::clone(endpoint), badge, interface: call.interface }, call))
        }
    }
}

/// Puts a call back to where it was: first in line.
fn requeue(place: PlaceKeeper<'_, Caller>, caller: Caller, client: Client, call: Call) {
    match caller.clone() {
        Caller::Thread(operation) => place.put_back(caller, |key| {
            operation.thread.update(operation.ticket, |kind| *kind = Kind::Queued { call, client, key });
        }),
        Caller::PageIn(request) => place.put_back(caller, |key| request.queued_at(key)),
    }
}

/// RETURN.
pub fn answer(
    lock: &mut Exclusive,
    thread: &Thread,
    reply: CapId,
    exception: u8,
    results: Buffer,
    caps: CapArray,
) -> Progress {
    match give_answer(lock, &thread.process, reply, exception, results, caps) {
        Ok(status) => status.into(),
        Err(refusal) => refusal.into(),
    }
}

/// RETURN_RECV: a RETURN whose success has no completion, and a RECV.
pub fn answer_and_receive(
    lock: &mut Exclusive,
    thread: &Arc<Thread>,
    tag: u64,
    (reply, exception, results): (CapId, u8, Buffer),
    (cap, buffer): (CapId, Buffer),
    caps: CapArray,
) -> Progress {
    // Checked first: a server whose RECV is rejected still has the call to answer.
    let endpoint = match thread.process.with(cap, |capability| receiving_end(capability, buffer)).flatten() {
        Ok(endpoint) => endpoint,
        Err(status) => return status.into(),
    };
    match give_answer(lock, &thread.process, reply, exception, results, CapArray { accepted: 0, ..caps }) {
        Ok(Status::Ok) => offer(lock, thread, tag, (cap, &endpoint), buffer, CapArray { sent: 0, ..caps }),
        Ok(refused) => refused.into(),
        Err(refusal) => refusal.into(),
    }
}

/// Answers a call: the status that the server gets.
///
/// # Errors
/// The server's entry is at fault, and the call is not answered.
fn give_answer(
    lock: &mut Exclusive,
    server: &Arc<Process>,
    reply: CapId,
    exception: u8,
    results: Buffer,
    caps: CapArray,
) -> Result<Status, Refusal> {
    let caller = server.with(reply, |capability| match &capability.object {
        Object::Reply(reply) => Ok(reply.caller()),
        _ => Err(Status::WrongInterface),
    });
    let status = match &caller.flatten()? {
        Some(Caller::Thread(operation)) => return_results(lock, server, operation, exception, results, caps)?,
        Some(Caller::PageIn(request)) => return_page_in(lock, server, request, exception, results)?,
        // The caller has died: the results go nowhere.
        None => Status::Ok,
    };
    take_reply(lock, server, reply);
    Ok(status)
}

/// Gives a thread its results: the status that the server gets.
///
/// # Errors
/// The server's entry is at fault, and the call stays unanswered.
fn return_results(
    lock: &mut Exclusive,
    server: &Arc<Process>,
    operation: &OperationRef,
    exception: u8,
    results: Buffer,
    caps: CapArray,
) -> Result<Status, Refusal> {
    let Some(call) = operation.thread.peek_call(operation.ticket) else {
        // Cancelled, or the caller is dead: the results go nowhere.
        return Ok(Status::Ok);
    };
    let client = &operation.thread.process;
    let capacity = call.results.length;
    let length = if exception == 0 { results.length } else { results.length.min(capacity) };
    if length > capacity || caps.sent > call.caps.accepted {
        operation.complete(lock, Status::TooLarge);
        return Ok(Status::TooLarge);
    }
    let (from, to) = ((&*server.space, results.address), (&*client.space, call.results.address));
    let copied = user_memory::copy(lock, from, to, length as usize);
    match copied {
        Ok(()) => {}
        Err(CopyFailure::Source(unreachable)) => return Err(unreachable.into()),
        Err(CopyFailure::Target(_)) => {
            operation.complete(lock, Status::BadAddress);
            return Ok(Status::Ok);
        }
    }
    if caps.sent > 0 {
        if client.space.check(lock, call.caps.address, 16 * usize::from(caps.sent), true).is_err() {
            operation.complete(lock, Status::BadAddress);
            return Ok(Status::Ok);
        }
        let offers = transfer::offers(server, caps, true)?;
        match transfer::hand_over(lock, server, &offers, client) {
            Ok(slots) => {
                // Checked above.
                let _ = transfer::write(lock, client, call.caps.address, slots.as_slice());
            }
            Err(status) => {
                operation.complete(lock, status);
                return Ok(Status::Overloaded);
            }
        }
    }
    operation.complete(lock, Outcome { status: i32::from(exception), length, value: 0, caps: caps.sent });
    Ok(Status::Ok)
}

/// Tells the kernel that a page request has ended.
///
/// # Errors
/// As [`return_results`].
fn return_page_in(
    lock: &mut Exclusive,
    server: &Process,
    request: &Arc<PageIn>,
    exception: u8,
    results: Buffer,
) -> Result<Status, Refusal> {
    match ExceptionKind::from_raw(i32::from(exception)) {
        None => request.finish(lock),
        Some(kind) => {
            let mut reason = [0_u8; 256];
            let length = (results.length as usize).min(reason.len());
            let bytes = reason.get_mut(..length).unwrap_or_default();
            server.space.read(results.address, bytes)?;
            let said = core::str::from_utf8(bytes).unwrap_or("the pager's reason is no text");
            request.fail(lock, if said.is_empty() { kind.words() } else { said });
        }
    }
    Ok(Status::Ok)
}

/// NOTIFY.
pub fn notify(lock: &mut Exclusive, thread: &Thread, cap: CapId, bits: u64) -> Status {
    let notification = thread.process.with(cap, |capability| match &capability.object {
        Object::Notification(notification) if capability.rights.contains(Rights::CALL) => Ok(Arc::clone(notification)),
        Object::Notification(_) => Err(Status::MissingRight),
        _ => Err(Status::WrongInterface),
    });
    match notification.flatten() {
        Ok(notification) => {
            notification.signal(lock, bits);
            Status::Ok
        }
        Err(status) => status,
    }
}

/// What a WAIT may wait for.
enum Awaited {
    Bits(Arc<Notification>),
    /// That no thread waits for the answer to this call any more.
    End(OperationRef),
    /// The same, and the caller has died.
    Nothing,
}

/// WAIT.
pub fn wait(lock: &mut Exclusive, thread: &Arc<Thread>, tag: u64, cap: CapId) -> Progress {
    let awaited = thread.process.with(cap, |capability| match &capability.object {
        Object::Reply(reply) => match reply.caller() {
            Some(Caller::Thread(call)) => Ok(Awaited::End(call)),
            // The kernel never gives up waiting for pages.
            Some(Caller::PageIn(_)) => Err(Status::WrongInterface),
            None => Ok(Awaited::Nothing),
        },
        _ if !capability.rights.contains(Rights::RECEIVE) => Err(Status::MissingRight),
        Object::Notification(notification) => Ok(Awaited::Bits(Arc::clone(notification))),
        Object::Interrupt(interrupt) => Ok(Awaited::Bits(interrupt.own_notification())),
        _ => Err(Status::WrongInterface),
    });
    match awaited.flatten() {
        Ok(Awaited::Bits(notification)) => wait_for_bits(lock, thread, tag, cap, notification),
        Ok(Awaited::End(call)) => wait_for_end(lock, thread, tag, cap, call),
        Ok(Awaited::Nothing) => Status::Ok.into(),
        Err(status) => status.into(),
    }
}

fn wait_for_bits(
    lock: &mut Exclusive,
    thread: &Arc<Thread>,
    tag: u64,
    cap: CapId,
    notification: Arc<Notification>,
) -> Progress {
    // What it waits for is noted once its place is known.
    let call = Call {
        interface: 0,
        method: 0,
        params: Buffer::default(),
        results: Buffer::default(),
        caps: CapArray::default(),
    };
    let Some(ticket) = thread.begin(tag, cap, || Kind::Delivered { call }) else {
        return Status::Overloaded.into();
    };
    let waiter = OperationRef { thread: Arc::clone(thread), ticket };
    let object = Arc::clone(&notification);
    let waited = notification.wait(waiter, |key| {
        thread.update(ticket, |kind| *kind = Kind::Wait { notification: object, key });
    });
    match waited {
        Waited::Queued => Progress::Pending,
        Waited::Bits(value) => thread.end_begun(lock, ticket, Outcome { value, ..Outcome::default() }),
        Waited::NoMemory => thread.end_begun(lock, ticket, Status::OutOfMemory),
    }
}

/// Waits until the caller has cancelled, has died, or lost the capability that it called through.
fn wait_for_end(lock: &mut Exclusive, thread: &Arc<Thread>, tag: u64, cap: CapId, call: OperationRef) -> Progress {
    let Some(ticket) = thread.begin(tag, cap, || Kind::Watch { call: call.clone() }) else {
        return Status::Overloaded.into();
    };
    match call.thread.watch(call.ticket, OperationRef { thread: Arc::clone(thread), ticket }) {
        Some(status) => thread.end_begun(lock, ticket, status),
        None => Progress::Pending,
    }
}

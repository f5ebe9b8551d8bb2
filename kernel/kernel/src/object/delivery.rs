//! Delivery: a call and a receiver have met, and the message is copied from one to the other.

use alloc::sync::Arc;

use capos_abi::{CapId, MessageHeader, Status};
use capos_captable::ListKey;

use crate::cpu::kernel_lock::Exclusive;
use crate::object::address_space::Unreachable;
use crate::object::capability::Object;
use crate::object::endpoint::{Client, Met, PlaceKeeper};
use crate::object::memory::page_request::PageIn;
use crate::object::memory::user_memory::{self, CopyFailure};
use crate::object::operation::{Call, Kind, OperationRef, Outcome, Ticket};
use crate::object::process::Process;
use crate::object::reply::Caller;
use crate::object::thread::{State, Thread};
use crate::object::transfer::{self, Refusal};

/// How a delivery went.
pub enum Delivery {
    Done,
    /// The call cannot be delivered; the receiver is as it was.
    CallFails(Status),
    /// The caller's memory must come in first; all is as it was.
    Absent(u64),
    /// The receiver's memory is not what it said.
    ReceiverFails(Status),
}

impl From<Refusal> for Delivery {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Memory(Unreachable::Absent(address)) => Self::Absent(address),
            Refusal::Memory(Unreachable::Forbidden) => Self::CallFails(Status::BadAddress),
            Refusal::Status(status) => Self::CallFails(status),
        }
    }
}

impl Client {
    /// Sends a page request to its pager, which this is for.
    pub fn send_page_in(&self, lock: &mut Exclusive, request: &Arc<PageIn>) {
        let (_, call) = request.message();
        loop {
            let met = self.endpoint.meet(|| Caller::PageIn(Arc::clone(request)), |key| request.queued_at(key));
            let (receiver, place) = match met {
                Met::Receiver(receiver, place) => (receiver, place),
                Met::Queued => return,
                Met::Refused(status) => return request.fail(lock, status.words()),
            };
            match deliver(lock, &Caller::PageIn(Arc::clone(request)), self, &call, &receiver) {
                Delivery::Done => return,
                Delivery::CallFails(status) => {
                    put_back(place, receiver);
                    return request.fail(lock, status.words());
                }
                Delivery::Absent(_) => return request.fail(lock, Status::BadAddress.words()),
                Delivery::ReceiverFails(status) => {
                    receiver.complete(lock, status);
                }
            }
        }
    }
}

/// Brings a call to a receiver.
pub fn deliver(
    lock: &mut Exclusive,
    caller: &Caller,
    client: &Client,
    call: &Call,
    receiver: &OperationRef,
) -> Delivery {
    // A thread that has been ended takes no call, also before the step that ends its receives: the call is the next one's.
    let peeked = receiver.thread.peek_receive(receiver.ticket).filter(|_| receiver.thread.state() != State::Dead);
    let Some((buffer, accepted)) = peeked else {
        return Delivery::ReceiverFails(Status::Cancelled);
    };
    let server = &receiver.thread.process;
    let Some(length) = call.received(buffer).filter(|_| call.caps.sent <= accepted.accepted) else {
        return Delivery::CallFails(Status::TooLarge);
    };
    let bad = Delivery::ReceiverFails(Status::BadAddress);
    let array = 16 * usize::from(call.caps.sent);
    if array > 0 && server.space.check(lock, accepted.address, array, true).is_err() {
        return bad;
    }
    let Ok(reply) = server.insert_reply(Object::Reply(caller.reply())) else {
        return Delivery::CallFails(Status::Overloaded);
    };
    if let Err(failure) = copy_message(lock, caller, call, (server, buffer.address), &call.header(client.badge, reply))
    {
        take_reply(lock, server, reply);
        return match failure {
            CopyFailure::Target(_) => bad,
            CopyFailure::Source(unreachable) => Refusal::Memory(unreachable).into(),
        };
    }
    if call.caps.sent > 0
        && let Err(refusal) = send_caps(lock, caller, call, server, accepted.address)
    {
        take_reply(lock, server, reply);
        return refusal.into();
    }
    if !receiver.complete(lock, Outcome { length, caps: call.caps.sent, ..Outcome::default() }) {
        take_reply(lock, server, reply);
        return Delivery::ReceiverFails(Status::Cancelled);
    }
    Delivery::Done
}

/// Takes a reply out of a table without answering.
pub fn take_reply(lock: &mut Exclusive, server: &Process, reply: CapId) {
    // It was just put there; were it gone, its owner would have been answered.
    let _ = server.take(lock, reply);
}

/// Writes a message into a receiver's buffer: header, then parameters.
fn copy_message(
    lock: &mut Exclusive,
    caller: &Caller,
    call: &Call,
    (server, to): (&Process, u64),
    header: &MessageHeader,
) -> Result<(), CopyFailure> {
    let header = header.encode();
    match caller {
        Caller::Thread(operation) => user_memory::copy_behind(
            lock,
            (&operation.thread.process.space, call.params.address),
            (&server.space, to),
            &header,
            call.params.length as usize,
        ),
        Caller::PageIn(request) => {
            server.space.write(lock, to, &header).map_err(CopyFailure::Target)?;
            let body = to.saturating_add(MessageHeader::SIZE as u64);
            server.space.write(lock, body, request.params()).map_err(CopyFailure::Target)
        }
    }
}

fn send_caps(
    lock: &mut Exclusive,
    caller: &Caller,
    call: &Call,
    server: &Arc<Process>,
    array: u64,
) -> Result<(), Refusal> {
    let slots = match caller {
        Caller::Thread(operation) => {
            let process = &operation.thread.process;
            let offers = transfer::offers(process, call.caps, true)?;
            transfer::hand_over(lock, process, &offers, server).map_err(not_handed_over)?
        }
        Caller::PageIn(request) => {
            let mut slots = transfer::Slots::default();
            slots.push(request.hand_window(server).map_err(not_handed_over)?);
            slots
        }
    };
    // The array was checked before; a receiver that takes it away meanwhile has harmed itself.
    let _ = transfer::write(lock, server, array, slots.as_slice());
    Ok(())
}

/// A call fails whose capabilities could not be handed over. The receiver has no room, there is no memory, or a capability is being
/// revoked, or could be. All of that may be over soon. Programs take [`Status::StaleCapability`] for the end of the server.
fn not_handed_over(_: Status) -> Refusal {
    Refusal::Status(Status::Overloaded)
}

/// Lets a receiver that a call could not use wait on where it was.
pub fn put_back(place: PlaceKeeper<'_, OperationRef>, receiver: OperationRef) {
    let (thread, ticket) = (Arc::clone(&receiver.thread), receiver.ticket);
    place.put_back(receiver, |key| set_receive_key(&thread, ticket, key));
}

/// Notes where a receive waits.
pub fn set_receive_key(thread: &Thread, ticket: Ticket, place: ListKey) {
    thread.update(ticket, |kind| {
        if let Kind::Receive { key, .. } = kind {
            *key = Some(place);
        }
    });
}

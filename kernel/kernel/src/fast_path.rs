//! The short way of calls between two processes: what [`crate::ipc`] does, for the case that nothing has to be waited for,
//! queued, paged in or refused, and no capability travels. Everything is looked at under its lock before anything is
//! changed. Where a condition does not hold, `false` says that nothing has happened, and the entry goes the long way, which
//! knows every case.
//!
//! Locks are taken as everywhere, and those that come earlier in the order by trying: where another has one, the call goes the
//! long way. The two processes are different ones, so nothing is locked twice.

use alloc::sync::Arc;

use capos_abi::entry::{Buffer, CapArray, Opcode, Operation};
use capos_abi::{CapId, Entry, MessageHeader, RawEntry, Rights, Status};

use crate::memory::{frames, reserve};
use crate::object::account::Resource;
use crate::object::answers_with_numbers;
use crate::object::capability::{Capability, Object};
use crate::object::reply::Reply;
use crate::object::thread::Thread;
use crate::operation::{Call, Kind, OperationRef, Outcome};
use crate::{kernel_call, user_memory};

/// An entry, by its first byte. False where it has to go the long way.
#[inline]
pub fn entry(thread: &Arc<Thread>, raw: &RawEntry) -> bool {
    const NOP: u8 = Opcode::Nop as u8;
    const CALL: u8 = Opcode::Call as u8;
    const RECV: u8 = Opcode::Recv as u8;
    const RETURN: u8 = Opcode::Return as u8;
    // Where memory is short, the long way decides what may still be done.
    if frames::free_count() < reserve::kept() {
        return false;
    }
    let [opcode, ..] = *raw;
    match opcode {
        CALL => {
            if let Ok(Entry { user_data, operation }) = Entry::decode_as(raw, CALL)
                && let Operation::Call { cap, interface, method, params, results, caps } = operation
            {
                return call(thread, user_data, CapId(cap), &Call { interface, method, params, results, caps });
            }
        }
        RETURN => {
            if let Ok(Entry { user_data, operation }) = Entry::decode_as(raw, RETURN)
                && let Operation::Return { reply, exception: 0, results, caps } = operation
                && caps.sent == 0
            {
                return answer(thread, user_data, CapId(reply), results);
            }
        }
        RECV => {
            if let Ok(Entry { user_data, operation }) = Entry::decode_as(raw, RECV)
                && let Operation::Recv { endpoint, buffer, caps } = operation
            {
                return receive(thread, user_data, CapId(endpoint), buffer, caps);
            }
        }
        NOP => {
            if let Ok(Entry { user_data, .. }) = Entry::decode_as(raw, NOP) {
                thread.post(user_data, Status::Ok);
                return true;
            }
        }
        _ => {}
    }
    false
}

/// CALL without capabilities: of an object that answers with a number, or one which a thread of another process waits
/// for. False where it has to go the long way.
#[inline]
fn call(thread: &Arc<Thread>, tag: u64, cap: CapId, call: &Call) -> bool {
    let process = &thread.process;
    let table = process.capability_table();
    let Ok(capability) = table.get(cap) else { return false };
    let Capability { object: Object::Client(client), rights, .. } = capability else {
        if !answers_with_numbers(&capability.object) {
            return false;
        }
        // What a method does may need the table.
        let capability = capability.clone();
        drop(table);
        return kernel_call::call_for_number(thread, tag, cap, call, &capability);
    };
    if call.caps.sent > 0 || !rights.contains(Rights::CALL) || call.interface != client.interface {
        return false;
    }
    let mut waiting = client.endpoint.lock();
    let Some(receiver) = waiting.receivers.front() else { return false };
    let (ticket, server) = (receiver.ticket, &receiver.thread.process);
    if Arc::ptr_eq(server, process) {
        return false;
    }
    let mut theirs = receiver.thread.lock();
    let Some(Kind::Receive { buffer, .. }) = theirs.plain(ticket) else { return false };
    let length = call.params.length as usize;
    if length + MessageHeader::SIZE > buffer.length as usize {
        return false;
    }
    let to = buffer.address;
    let mut own = thread.lock();
    let Some(next) = own.next_ticket() else { return false };
    let Some(mut table_of_server) = server.try_capability_table() else { return false };
    let Ok(reply) = table_of_server.next_id() else { return false };
    let header = MessageHeader {
        badge: client.badge,
        interface: call.interface,
        reply: reply.0,
        method: call.method,
        caps: 0,
        length: call.params.length,
        results_capacity: call.results.length,
        caps_accepted: call.caps.accepted,
    };
    let from = (&*process.space, call.params.address);
    if server.account.charge(Resource::Capabilities, 1).is_err() {
        return false;
    }
    // The server has a thread that waits, so it has not ended, and its table holds what is put there.
    let object = Object::Reply(Reply::Thread(Arc::clone(&thread.origin), next));
    if !user_memory::copy_short(from, (&*server.space, to), &header.words(), length)
        || table_of_server.insert(Capability { object, rights: Rights::GRANT, node: None }).is_err()
    {
        server.account.refund(Resource::Capabilities, 1);
        return false;
    }
    drop(table_of_server);
    own.begin(tag, cap, || Kind::Delivered { call: *call });
    drop(own);
    let length = call.params.length + MessageHeader::SIZE as u32;
    let awake = theirs.end_plain(ticket, Outcome { length, ..Outcome::default() });
    drop(theirs);
    let met = waiting.receivers.pop();
    drop(waiting);
    drop(table);
    if let Some(receiver) = met {
        receiver.thread.tell(awake);
    }
    true
}

/// RETURN without capabilities to a thread of another process. False where it has to go the long way.
#[inline]
fn answer(thread: &Arc<Thread>, tag: u64, reply: CapId, results: Buffer) -> bool {
    let process = &thread.process;
    let mut table = process.capability_table();
    let Ok(Capability { object: Object::Reply(Reply::Thread(origin, ticket)), .. }) = table.get(reply) else {
        return false;
    };
    let Some(client) = origin.thread() else { return false };
    if Arc::ptr_eq(&client.process, process) {
        return false;
    }
    let ticket = *ticket;
    let mut theirs = client.lock();
    let Some(Kind::Delivered { call }) = theirs.plain(ticket) else { return false };
    let (to, length) = (call.results, results.length);
    if length > to.length
        || (length > 0
            && !user_memory::copy_short(
                (&*process.space, results.address),
                (&*client.process.space, to.address),
                &[],
                length as usize,
            ))
    {
        return false;
    }
    let awake = theirs.end_plain(ticket, Outcome { length, ..Outcome::default() });
    drop(theirs);
    let used = table.remove(reply);
    drop(table);
    process.account.refund(Resource::Capabilities, 1);
    drop(used);
    client.tell(awake);
    thread.post(tag, Status::Ok);
    true
}

/// RECV where no call waits. False where it has to go the long way.
#[inline]
fn receive(thread: &Arc<Thread>, tag: u64, cap: CapId, buffer: Buffer, caps: CapArray) -> bool {
    let table = thread.process.capability_table();
    let Ok(Capability { object: Object::Endpoint(endpoint), rights, .. }) = table.get(cap) else { return false };
    if !rights.contains(Rights::RECEIVE) || (buffer.length as usize) < MessageHeader::SIZE {
        return false;
    }
    let mut waiting = endpoint.lock();
    let mut own = thread.lock();
    let Some(ticket) = own.next_ticket().filter(|_| waiting.calls.is_empty()) else { return false };
    let Some(key) = waiting.receivers.push(OperationRef { thread: Arc::clone(thread), ticket }) else { return false };
    own.begin(tag, cap, || Kind::Receive { endpoint: Arc::clone(endpoint), buffer, caps, key: Some(key) });
    true
}

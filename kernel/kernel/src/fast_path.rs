//! The short way of calls between two processes: what [`crate::ipc`] does, for the case that nothing has to be waited for,
//! queued, paged in or refused, and no capability travels. Everything is looked at under its lock before anything is
//! changed. Where a condition does not hold, `None` says that nothing has happened, and the entry goes the long way, which
//! knows every case.
//!
//! Locks are taken as everywhere, and those that come earlier in the order by trying: where another has one, the call goes the
//! long way. The two processes are different ones, so nothing is locked twice.

use alloc::sync::Arc;

use capos_abi::entry::{CapArray, Opcode, Operation};
use capos_abi::{CapId, Entry, MessageHeader, RawEntry, Rights, Status};

use crate::memory::{frames, reserve};
use crate::object::account::Resource;
use crate::object::answers_with_numbers;
use crate::object::capability::{Capability, Object};
use crate::object::reply::Reply;
use crate::object::thread::Thread;
use crate::operation::{Call, Kind, OperationRef, Outcome};
use crate::{kernel_call, user_memory};

const NOP: u8 = Opcode::Nop as u8;
const CALL: u8 = Opcode::Call as u8;
const RECV: u8 = Opcode::Recv as u8;
const RETURN: u8 = Opcode::Return as u8;

/// An entry, by its first byte: how many completions were written for it just now. `None` where it has to go the long way.
#[inline(always)]
pub fn entry(thread: &Arc<Thread>, raw: &RawEntry) -> Option<u32> {
    // Where memory is short, the long way decides what may still be done.
    if frames::free_count() < reserve::kept() {
        return None;
    }
    let [opcode, ..] = *raw;
    match opcode {
        CALL => call(thread, raw),
        RETURN => answer(thread, raw),
        RECV => receive(thread, raw),
        NOP => {
            let Entry { user_data, .. } = Entry::decode_as(raw, NOP).ok()?;
            thread.post(user_data, Status::Ok);
            Some(1)
        }
        _ => None,
    }
}

/// CALL without capabilities: of an object that answers with a number, or one which a thread of another process waits
/// for. `None` where it has to go the long way.
#[inline(never)]
fn call(thread: &Arc<Thread>, raw: &RawEntry) -> Option<u32> {
    let Entry { user_data: tag, operation } = Entry::decode_as(raw, CALL).ok()?;
    let Operation::Call { cap, interface, method, params, results, caps } = operation else { return None };
    let (cap, call) = (CapId(cap), Call { interface, method, params, results, caps });
    let process = &thread.process;
    let table = process.capability_table();
    let capability = table.get(cap).ok()?;
    if call.caps.sent > 0 || !capability.rights.contains(Rights::CALL) {
        return None;
    }
    let Object::Client(client) = &capability.object else {
        if !answers_with_numbers(&capability.object) {
            return None;
        }
        let outcome = kernel_call::call_for_number(thread, (tag, cap), &call, capability)?;
        drop(table);
        thread.post(tag, outcome);
        return Some(1);
    };
    if call.interface != client.interface {
        return None;
    }
    let mut waiting = client.endpoint.lock();
    let receiver = waiting.receivers.front()?;
    let (ticket, server) = (receiver.ticket, &receiver.thread.process);
    if Arc::ptr_eq(server, process) {
        return None;
    }
    let mut theirs = receiver.thread.lock();
    let Kind::Receive { buffer, .. } = theirs.plain(ticket)? else { return None };
    let length = call.params.length as usize;
    if length.wrapping_add(MessageHeader::SIZE) > buffer.length as usize {
        return None;
    }
    let to = buffer.address;
    let mut own = thread.lock();
    let next = own.next_ticket()?;
    let mut table_of_server = server.try_capability_table()?;
    let reply = table_of_server.next_id().ok()?;
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
    server.account.charge(Resource::Capabilities, 1).ok()?;
    // The server has a thread that waits, so it has not ended, and its table holds what is put there.
    let object = Object::Reply(Reply::Thread(Arc::clone(&thread.origin), next));
    if !user_memory::copy_short(from, (&*server.space, to), &header.words(), length)
        || table_of_server.insert(Capability { object, rights: Rights::GRANT, node: None }).is_err()
    {
        server.account.refund(Resource::Capabilities, 1);
        return None;
    }
    drop(table_of_server);
    own.begin(tag, cap, || Kind::Delivered { call });
    drop(own);
    // It is not more than the buffer's, which has 32 bits.
    let length = call.params.length.wrapping_add(MessageHeader::SIZE as u32);
    let awake = theirs.end_plain(ticket, Outcome { length, ..Outcome::default() });
    drop(theirs);
    let met = waiting.receivers.pop();
    drop(waiting);
    drop(table);
    if let Some(receiver) = met {
        receiver.thread.tell(awake);
    }
    Some(0)
}

/// RETURN without capabilities to a thread of another process. `None` where it has to go the long way.
#[inline(never)]
fn answer(thread: &Arc<Thread>, raw: &RawEntry) -> Option<u32> {
    let Entry { user_data: tag, operation } = Entry::decode_as(raw, RETURN).ok()?;
    let Operation::Return { reply, exception: 0, results, caps: CapArray { sent: 0, .. } } = operation else {
        return None;
    };
    let reply = CapId(reply);
    let process = &thread.process;
    let mut table = process.capability_table();
    let Capability { object: Object::Reply(Reply::Thread(origin, ticket)), .. } = table.get(reply).ok()? else {
        return None;
    };
    let client = origin.thread()?;
    if Arc::ptr_eq(&client.process, process) {
        return None;
    }
    let ticket = *ticket;
    let mut theirs = client.lock();
    let Kind::Delivered { call } = theirs.plain(ticket)? else { return None };
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
        return None;
    }
    let awake = theirs.end_plain(ticket, Outcome { length, ..Outcome::default() });
    drop(theirs);
    let used = table.remove(reply);
    drop(table);
    process.account.refund(Resource::Capabilities, 1);
    drop(used);
    client.tell(awake);
    thread.post(tag, Status::Ok);
    Some(1)
}

/// RECV where no call waits. `None` where it has to go the long way.
#[inline(never)]
fn receive(thread: &Arc<Thread>, raw: &RawEntry) -> Option<u32> {
    let Entry { user_data: tag, operation } = Entry::decode_as(raw, RECV).ok()?;
    let Operation::Recv { endpoint, buffer, caps } = operation else { return None };
    let cap = CapId(endpoint);
    let table = thread.process.capability_table();
    let Capability { object: Object::Endpoint(endpoint), rights, .. } = table.get(cap).ok()? else { return None };
    if !rights.contains(Rights::RECEIVE) || (buffer.length as usize) < MessageHeader::SIZE {
        return None;
    }
    let mut waiting = endpoint.lock();
    let mut own = thread.lock();
    let ticket = own.next_ticket().filter(|_| waiting.calls.is_empty())?;
    let key = waiting.receivers.push(OperationRef { thread: Arc::clone(thread), ticket })?;
    own.begin(tag, cap, || Kind::Receive { endpoint: Arc::clone(endpoint), buffer, caps, key: Some(key) });
    Some(0)
}

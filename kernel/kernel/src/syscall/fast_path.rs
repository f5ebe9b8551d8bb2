//! The fast path of calls between two processes. It does what [`crate::ipc`] does, for entries that need not wait, be queued, be
//! rejected or page anything in, and that send a copy of at most one capability. It checks each object under its lock before
//! it changes anything. If a condition does not hold, it returns `None`: no object has changed, and the slow path processes the entry.
//! If the receiver cannot pay for a capability, or there is no memory for one, the message's bytes may already be in its buffer.
//!
//! Locks are acquired in the usual order. A lock that is earlier in the order is only tried: if another processor holds it, the call takes
//! the slow path. Caller and receiver are different processes, so nothing is locked twice.
//!
//! Several processors may run this code at once, because they share the kernel lock ([`crate::cpu::kernel_lock`]). An entry may
//! therefore use only what it has locked, its own thread, and structures with locks of their own (accounts, the heap, the
//! derivation forest, deadlines). Meanwhile no processor holds the kernel lock exclusively, so nothing is mapped or unmapped, no page
//! is inserted or evicted, no process or thread ends, and no capability is revoked.
//! A thread that is woken here may still be current on the processor where it began to wait; [`crate::sched::scheduler`] handles that.

use alloc::sync::Arc;

use capos_abi::entry::{Buffer, CapArray, EntryWords, Opcode};
use capos_abi::plain::{MAX_SENT, PlainCall, PlainRecv, PlainReturn, PlainReturnRecv};
use capos_abi::{CapId, CapSlot, MessageHeader, Rights, TransferMode};
use capos_captable::{NodeId, Table};
use spin::MutexGuard;

use crate::cpu::kernel_lock::{Held, Shared};
use crate::ipc;
use crate::object::account::Resource;
use crate::object::capability::{Capability, Object};
use crate::object::derivation;
use crate::object::memory::user_memory::{self, Spot, WritableWords};
use crate::object::operation::{Call, Kind, OperationRef, Outcome};
use crate::object::process::Process;
use crate::object::reply::Reply;
use crate::object::ring::Corrupt;
use crate::object::thread::{Awake, Inner, State, Thread};
use crate::syscall::admission;
use crate::syscall::kernel_call;
use crate::syscall::methods::answers_with_numbers;

const NOP: u64 = Opcode::Nop as u64;
const CALL: u64 = Opcode::Call as u64;
const RECV: u64 = Opcode::Recv as u64;
const RETURN: u64 = Opcode::Return as u64;
const RETURN_RECV: u64 = Opcode::ReturnRecv as u64;

/// What has become of an entry.
pub enum Step<'a> {
    /// It has ended with this outcome: the caller posts its completion to the ring of the thread that made it, which is locked. If it
    /// answered a call, who made that is woken then.
    Ended(MutexGuard<'a, Inner>, Outcome, Woken),
    /// It is in flight, and has no completion yet. If it met a thread that waited for it, that is woken.
    Begun(Woken),
}

/// A thread of which an operation has ended.
pub enum Woken {
    /// There is none, or it waits for more.
    Nobody,
    /// What it waits for is there: it is to go on.
    GoesOn(Arc<Thread>),
    /// Its rings are corrupt. [`Thread::look_again`] decides, under the exclusive lock.
    Corrupt(Arc<Thread>),
}

impl Woken {
    #[inline(always)]
    fn of(thread: Arc<Thread>, awake: Result<Awake, Corrupt>) -> Self {
        match thread.settle_wait(awake) {
            Ok(true) => Self::GoesOn(thread),
            Ok(false) => Self::Nobody,
            Err(_) => Self::Corrupt(thread),
        }
    }
}

/// Whether an entry does nothing except end.
#[inline(always)]
pub fn is_nop(words: &EntryWords) -> bool {
    let [first, _, rest @ ..] = words;
    *first == NOP && rest.iter().fold(0, |all, word| all | word) == 0
}

/// Does what an entry of a thread says, whose operations the caller has locked. `None` where it has to take the slow path: nothing has
/// happened.
#[inline(always)]
pub fn entry<'a>(
    lock: Held<'_>,
    thread: &'a Arc<Thread>,
    own: MutexGuard<'a, Inner>,
    words: &EntryWords,
) -> Option<Step<'a>> {
    let [first, ..] = words;
    match *first & 0xff {
        CALL => call(lock, thread, own, words),
        RETURN_RECV => answer_and_receive(lock, thread, own, words).map(Step::Begun),
        RETURN => answer(lock, thread, own, words),
        RECV => receive(thread, own, words).map(|()| Step::Begun(Woken::Nobody)),
        _ => None,
    }
}

/// A copy of a capability that a message takes along: judged, not yet given.
struct Offer<'a> {
    source: &'a Capability,
    node: NodeId,
    mask: Rights,
    /// Where the receiver is told of it.
    told: WritableWords<'a, 2>,
}

/// The one capability that a process sends along to one that accepts this many. `None` where it has to take the slow path.
#[inline(never)]
fn offer<'a>(
    lock: Held<'a>,
    (from, own): (&Process, &'a Table<Capability>),
    sent: CapArray,
    (to, accepted): (&'a Process, CapArray),
) -> Option<Offer<'a>> {
    const { assert!(MAX_SENT == 1) };
    if accepted.accepted < MAX_SENT {
        return None;
    }
    let [word0, word1] = from.space.peek(lock, sent.address)?;
    let (id, mask, TransferMode::Copy) = (CapSlot { word0, word1 }).sent().ok()? else { return None };
    let source = own.get(CapId(id)).ok()?;
    let node = source.node.filter(|_| source.rights.contains(Rights::GRANT))?;
    Some(Offer { source, node, mask, told: to.space.place(lock, accepted.address)? })
}

/// Gives it. Its receiver has an operation in flight, so its table is not emptied yet. `None`, and the receiver has nothing of
/// it, where it cannot pay or there is no memory.
#[inline(never)]
fn give(offer: Offer<'_>, to: &Process, table: &mut Table<Capability>) -> Option<()> {
    let Offer { source: Capability { object, rights, .. }, node, mask, told } = offer;
    to.account.charge(Resource::Capabilities, 1).ok()?;
    let given = table.next_id().ok().and_then(|id| {
        let node = derivation::add(Some(node), to.slot(id)).ok()?;
        let copy = || Capability { object: object.clone(), rights: rights.intersection(mask), node: Some(node) };
        table.insert_with(|_| copy()).inspect_err(|_| derivation::forget(node)).ok()
    });
    let Some(id) = given else {
        to.account.refund(Resource::Capabilities, 1);
        return None;
    };
    object.enter_slot();
    told.write([id.0, object.interface()]);
    Some(())
}

/// Brings a message over, of this many bytes behind its header, and with it a copy of a capability. `None` where that has to take the slow
/// path: the receiver may have been written the message's bytes then, and has nothing else.
#[inline(never)]
pub fn send_one(
    lock: &Shared,
    ((from, sent), (to, accepted)): ((&Process, CapArray), (&Process, CapArray)),
    (source, target): (&Spot<false>, &Spot<true>),
    header: &MessageHeader,
    length: u32,
) -> Option<()> {
    if !admission::allows_shared() {
        return None;
    }
    let own = from.try_capability_table()?;
    let mut theirs = to.try_capability_table()?;
    let offer = offer(lock.held(), (from, &own), sent, (to, accepted))?;
    user_memory::copy_between(lock, source, target, &header.words(), length).then_some(())?;
    give(offer, to, &mut theirs)
}

/// CALL: of an object that answers with a number, or one which a thread of another process waits for. `None` where it has to
/// take the slow path.
#[inline(never)]
fn call<'a>(
    lock: Held<'_>,
    thread: &'a Arc<Thread>,
    mut own: MutexGuard<'a, Inner>,
    words: &EntryWords,
) -> Option<Step<'a>> {
    let PlainCall { user_data: tag, cap, interface, method, params, results, caps } = PlainCall::read(words)?;
    let (cap, process) = (CapId(cap), &thread.process);
    let table = process.try_capability_table()?;
    let capability = table.get(cap).ok()?;
    if !capability.rights.contains(Rights::CALL) {
        return None;
    }
    let Object::Client(client) = &capability.object else {
        if caps.sent > 0 || !answers_with_numbers(&capability.object) {
            return None;
        }
        // What the method does needs nothing of the thread's.
        drop(own);
        let call = Call { interface, method, params, results, caps };
        let outcome = kernel_call::call_for_number(lock, thread, cap, &call, capability)?;
        return Some(Step::Ended(thread.lock(), outcome, Woken::Nobody));
    };
    if interface != client.interface {
        return None;
    }
    let mut waiting = client.endpoint.try_lock()?;
    let receiver = waiting.receivers.front()?;
    let (ticket, server) = (receiver.ticket, &receiver.thread.process);
    if Arc::ptr_eq(server, process) || receiver.thread.state() == State::Dead {
        return None;
    }
    let mut theirs = receiver.thread.try_lock()?;
    let Kind::Receive { buffer, caps: accepted, .. } = theirs.plain(ticket)? else { return None };
    let call = Call { interface, method, params, results, caps };
    let received = call.received(*buffer)?;
    let to = buffer.address;
    let next = own.next_ticket()?;
    let mut table_of_server = server.try_capability_table()?;
    let reply = table_of_server.next_id().ok()?;
    let sent = if caps.sent > 0 { Some(offer(lock, (process, &table), caps, (server, *accepted))?) } else { None };
    let header = call.header(client.badge, reply);
    let from = (&*process.space, params.address);
    server.account.charge(Resource::Capabilities, 1).ok()?;
    // The server has a thread that waits, so it has not ended, and its table holds what is put there.
    let given = || Capability {
        object: Object::Reply(Reply::Thread(Arc::clone(&thread.origin), next)),
        rights: Rights::GRANT,
        node: None,
    };
    if !user_memory::copy_short(lock, from, (&*server.space, to), &header.words(), params.length as usize)
        || table_of_server.insert_with(|_| given()).is_err()
    {
        server.account.refund(Resource::Capabilities, 1);
        return None;
    }
    if let Some(sent) = sent
        && give(sent, server, &mut table_of_server).is_none()
    {
        // It was just put there, so no process has to be told of its end.
        drop(table_of_server.remove(reply));
        server.account.refund(Resource::Capabilities, 1);
        return None;
    }
    drop(table_of_server);
    own.begin(tag, cap, || Kind::Delivered { call });
    drop(own);
    let awake = theirs.end_plain(ticket, Outcome { length: received, caps: caps.sent, ..Outcome::default() });
    drop(theirs);
    let met = waiting.receivers.pop();
    drop(waiting);
    drop(table);
    Some(Step::Begun(match met {
        Some(OperationRef { thread, .. }) => Woken::of(thread, awake),
        None => Woken::Nobody,
    }))
}

/// A call that was answered: who made it, and whether that continues.
type Answered = (Arc<Thread>, Result<Awake, Corrupt>);

/// Answers a call of a thread of another process. `None` where the answer has to take the slow path.
#[inline(always)]
fn give_answer(
    lock: Held<'_>,
    thread: &Arc<Thread>,
    table: &mut Table<Capability>,
    reply: CapId,
    results: Buffer,
    caps: CapArray,
) -> Option<Answered> {
    let process = &thread.process;
    let Capability { object: Object::Reply(Reply::Thread(origin, ticket)), .. } = table.get(reply).ok()? else {
        return None;
    };
    let client = origin.thread()?;
    if Arc::ptr_eq(&client.process, process) {
        return None;
    }
    let ticket = *ticket;
    let mut theirs = client.try_lock()?;
    let Kind::Delivered { call } = theirs.plain(ticket)? else { return None };
    let (to, length) = (call.results, results.length);
    let sent =
        if caps.sent > 0 { Some(offer(lock, (process, table), caps, (&client.process, call.caps))?) } else { None };
    if length > to.length
        || (length > 0
            && !user_memory::copy_short(
                lock,
                (&*process.space, results.address),
                (&*client.process.space, to.address),
                &[],
                length as usize,
            ))
    {
        return None;
    }
    if let Some(sent) = sent {
        give(sent, &client.process, &mut *client.process.try_capability_table()?)?;
    }
    let awake = theirs.end_plain(ticket, Outcome { length, caps: caps.sent, ..Outcome::default() });
    drop(theirs);
    drop(table.remove(reply));
    process.account.refund(Resource::Capabilities, 1);
    Some((client, awake))
}

/// RETURN to a thread of another process. `None` where it has to take the slow path.
#[inline(never)]
fn answer<'a>(
    lock: Held<'_>,
    thread: &Arc<Thread>,
    own: MutexGuard<'a, Inner>,
    words: &EntryWords,
) -> Option<Step<'a>> {
    let PlainReturn { reply, results, caps, .. } = PlainReturn::read(words)?;
    let mut table = thread.process.try_capability_table()?;
    let (client, awake) = give_answer(lock, thread, &mut table, CapId(reply), results, caps)?;
    Some(Step::Ended(own, Outcome::default(), Woken::of(client, awake)))
}

/// RECV where no call waits. `None` where it has to take the slow path.
#[inline(never)]
fn receive(thread: &Arc<Thread>, mut own: MutexGuard<'_, Inner>, words: &EntryWords) -> Option<()> {
    let PlainRecv { user_data: tag, endpoint: cap, buffer, caps } = PlainRecv::read(words)?;
    let cap = CapId(cap);
    let table = thread.process.try_capability_table()?;
    let endpoint = ipc::receiving_end(table.get(cap).ok()?, buffer).ok()?;
    let mut waiting = endpoint.try_lock()?;
    let ticket = own.next_ticket().filter(|_| waiting.calls.is_empty())?;
    let key = Some(waiting.receivers.push_first(OperationRef { thread: Arc::clone(thread), ticket })?);
    drop(waiting);
    own.begin(tag, cap, || Kind::Receive { endpoint, buffer, caps, key });
    Some(())
}

/// RETURN_RECV on the fast path: the caller, if it is to run. `None` leaves the entry to the slow path.
#[inline(never)]
fn answer_and_receive(
    lock: Held<'_>,
    thread: &Arc<Thread>,
    mut own: MutexGuard<'_, Inner>,
    words: &EntryWords,
) -> Option<Woken> {
    let PlainReturnRecv { user_data: tag, reply, results, endpoint: cap, buffer, caps } = PlainReturnRecv::read(words)?;
    let cap = CapId(cap);
    let mut table = thread.process.try_capability_table()?;
    // Nothing can keep the buffer from being offered once the call is answered.
    let endpoint = ipc::receiving_end(table.get(cap).ok()?, buffer).ok()?;
    let mut waiting = endpoint.try_lock()?;
    let ticket = own.next_ticket().filter(|_| waiting.calls.is_empty() && waiting.receivers.make_room())?;
    let (client, awake) =
        give_answer(lock, thread, &mut table, CapId(reply), results, CapArray { accepted: 0, ..caps })?;
    let caps = CapArray { sent: 0, ..caps };
    let key = waiting.receivers.push_first(OperationRef { thread: Arc::clone(thread), ticket });
    drop(waiting);
    own.begin(tag, cap, || Kind::Receive { endpoint, buffer, caps, key });
    drop(own);
    drop(table);
    Some(Woken::of(client, awake))
}

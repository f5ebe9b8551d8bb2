//! Bound calls: a client and a server that call and answer each other repeatedly on one processor
//! (decision 17).
//!
//! A call and its answer change many objects and change them back: operations in flight, the endpoint's receivers,
//! a Reply and its charge. If two threads call and answer each other a few times on a processor, that processor removes the
//! call from these objects and caches it. From then on an entry that continues the call copies the message, writes the
//! completion and switches to the other thread, and touches nothing else.
//!
//! Code that acquires the kernel lock exclusively first flushes all bound calls ([`close_all`]): it writes them back into their
//! objects. So revocation, cancellation, limits, ends of processes and reports never observe one.
//! A processor that shares the lock finds neither the receiver at the endpoint nor an answerable Reply. If there is no other
//! receiver, its entry takes the slow path, under the exclusive lock.
//!
//! What is true as long as a call is bound:
//!
//! - The operation in flight, the client's call or the server's receive, is counted by its thread, so that its completion finds
//!   room, and lies here. Each has all others where they always are.
//! - Nothing was mapped, unmapped or revoked, no capability that the call goes through was given up, no limit was set and nothing
//!   ended: only the exclusive holder of the lock does that. So what was checked when the call was bound still holds. What an
//!   entry can say differently is checked again: tag, method, lengths, addresses, the Reply, and the capability that is sent along.
//!   The thread
//!   that is to continue must wait for this and be on no processor. That is checked each time under its lock, because another processor
//!   may have woken it for something else that it has in flight.
//! - One slot of the server's table is taken, and paid for, by a Reply to nothing. Replies have later identifiers of that slot,
//!   none of which is given out twice.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use capos_abi::entry::{Buffer, CapArray, EntryWords, Opcode};
use capos_abi::plain::{PlainCall, PlainReturnRecv};
use capos_abi::{CapId, Rights, syscall};
use capos_captable::KeptPlace;
use spin::Mutex;

use crate::arch::context::Context;
use crate::arch::percpu::{Local, PerCpu};
use crate::arch::processors;
use crate::cpu::kernel_lock::{self, Exclusive, Shared};
use crate::object::account::Resource;
use crate::object::capability::{Capability, Object};
use crate::object::cpu_time;
use crate::object::endpoint::Endpoint;
use crate::object::memory::user_memory::{self, Spot};
use crate::object::operation::{Call, Kind, OperationRef, Outcome};
use crate::object::reply::Reply;
use crate::object::thread::Thread;
use crate::sched::{self, switching};
use crate::syscall::admission;
use crate::syscall::fast_path;

/// This many times two threads have to let each other run, and no third one, before their calls are noted.
const FEWEST: u32 = 4;
/// The same where bound calls of the same two were flushed soon.
const MOST: u32 = 1 << 12;
/// This many calls and answers make up for the cost of binding a call and of flushing it.
const WORTH: u32 = 4;

/// What a processor has seen of calls.
pub struct RecentCalls {
    /// Which thread let which one run last, by an entry that met it.
    from: AtomicPtr<Thread>,
    to: AtomicPtr<Thread>,
    /// How often these two took turns without a break.
    turns: AtomicU32,
    /// How often they have to.
    patience: AtomicU32,
    /// Entries by which they do are noted.
    notes: AtomicBool,
    noted: Mutex<Noted>,
    /// Whose next entry may continue the call that is bound here; null where none may.
    turn: AtomicPtr<Thread>,
    bound: Mutex<Option<BoundCall>>,
}

/// Entries by which two threads took turns.
struct Noted {
    call: Option<EntryWords>,
    /// The answer behind it, where that came last.
    answer: Option<EntryWords>,
}

// SAFETY: the start gives each processor one.
unsafe impl Local for RecentCalls {
    const OFFSET: usize = sched::ROOM;
}

impl RecentCalls {
    /// That of a processor.
    #[inline(always)]
    pub fn of(cpu: &PerCpu) -> &Self {
        cpu.local()
    }

    /// That of a processor that has not run anything.
    pub const fn new() -> Self {
        let nobody = core::ptr::null_mut();
        Self {
            from: AtomicPtr::new(nobody),
            to: AtomicPtr::new(nobody),
            turns: AtomicU32::new(0),
            patience: AtomicU32::new(FEWEST),
            notes: AtomicBool::new(false),
            noted: Mutex::new(Noted { call: None, answer: None }),
            turn: AtomicPtr::new(nobody),
            bound: Mutex::new(None),
        }
    }

    /// Whether the next entry of this thread may continue the call that is bound here.
    #[inline(always)]
    pub fn is_turn_of(&self, thread: &Arc<Thread>) -> bool {
        core::ptr::eq(self.turn.load(Ordering::Relaxed), Arc::as_ptr(thread))
    }

    /// An entry has met the thread that waited for it, on the fast path.
    #[inline(always)]
    pub fn met(&self, words: &EntryWords) {
        if self.notes.load(Ordering::Relaxed) {
            self.note(words);
        }
    }

    #[cold]
    #[inline(never)]
    fn note(&self, words: &EntryWords) {
        if self.turns.load(Ordering::Relaxed) == 0 {
            // Others had a turn between: nothing is noted until there are enough again.
            self.notes.store(false, Ordering::Relaxed);
            return;
        }
        let [first, ..] = *words;
        let mut noted = self.noted.lock();
        if first & 0xff == Opcode::Call as u64 {
            *noted = Noted { call: Some(*words), answer: None };
        } else {
            noted.answer = Some(*words);
        }
    }

    /// A thread waits now, and has let another one run. Whether they have taken turns often enough.
    #[inline(always)]
    pub fn have_turns(&self, from: &Arc<Thread>, to: &Arc<Thread>) -> bool {
        let (from, to) = (Arc::as_ptr(from).cast_mut(), Arc::as_ptr(to).cast_mut());
        let (earlier, later) = (self.from.load(Ordering::Relaxed), self.to.load(Ordering::Relaxed));
        self.from.store(from, Ordering::Relaxed);
        self.to.store(to, Ordering::Relaxed);
        if earlier != to || later != from {
            self.turns.store(0, Ordering::Relaxed);
            self.patience.store(FEWEST, Ordering::Relaxed);
            return false;
        }
        // Long before they are too many, they are looked at.
        let turns = self.turns.load(Ordering::Relaxed).wrapping_add(1);
        self.turns.store(turns, Ordering::Relaxed);
        turns >= self.patience.load(Ordering::Relaxed)
    }

    /// A bound call was flushed, or could not be bound: the next one has to repeat more often where that was not worth it.
    fn learn(&self, uses: u32) {
        let patience = self.patience.load(Ordering::Relaxed).saturating_mul(2).min(MOST);
        self.patience.store(if uses < WORTH { patience } else { FEWEST }, Ordering::Relaxed);
        self.turns.store(0, Ordering::Relaxed);
        self.notes.store(false, Ordering::Relaxed);
    }
}

/// A bound call.
struct BoundCall {
    client: Arc<Thread>,
    server: Arc<Thread>,
    endpoint: Arc<Endpoint>,
    /// The server's place among the endpoint's receivers.
    kept: KeptPlace,
    /// Whether the server works on a call; otherwise it waits for one.
    works: bool,
    /// The entry of the call, as it was made last.
    call: PlainCall,
    /// That entry's last word.
    call_last: u64,
    badge: u64,
    /// The entry of the answer that also receives, as it was made last, except its results.
    answer: PlainReturnRecv,
    /// That entry's last word.
    answer_last: u64,
    /// Where the parameters were, and where they go.
    params: Spot<false>,
    buffer: Spot<true>,
    /// Where the results were, and where they go.
    answered: Spot<false>,
    results: Spot<true>,
    /// The identifier by which the slot of the server's table is taken.
    slot: CapId,
    /// The last one that was given out for a Reply.
    reply: CapId,
    /// Calls and answers; were they ever too many to be counted, the count starts over.
    uses: u32,
}

/// If this thread's entry continues the call that is bound here, does what it says; the context of the thread that runs next.
/// `None` where it does not: then nothing has happened that anybody sees, but that the server may have been written the message's
/// bytes.
#[inline(always)]
pub fn go(lock: &Shared, thread: &Thread) -> Option<*mut Context> {
    let recent = RecentCalls::of(lock.cpu());
    let mut bound = recent.bound.lock();
    let bound = bound.as_mut()?;
    let entered = thread.with_context(|context| (context.rax, context.rdi, context.rsi, context.rdx));
    if entered != (syscall::ENTER, 1, 1, syscall::NO_DEADLINE) {
        return None;
    }
    let next = if bound.works { bound.answer(lock)? } else { bound.call(lock)? };
    bound.uses = bound.uses.wrapping_add(1);
    let turn = if bound.works { &bound.server } else { &bound.client };
    recent.turn.store(Arc::as_ptr(turn).cast_mut(), Ordering::Relaxed);
    Some(next)
}

impl BoundCall {
    /// The client's turn.
    #[inline(always)]
    fn call(&mut self, lock: &Shared) -> Option<*mut Context> {
        let mut own = self.client.lock();
        let mut theirs = self.server.try_lock()?;
        let words = own.lone_entry()?;
        let [first, tag, cap, interface, params, results, caps, last] = words;
        let Self { call, answer, .. } = self;
        // The last generation is left to the slot.
        let generation = self.reply.generation().wrapping_add(1);
        if first & 0xffff != Opcode::Call as u64
            || (cap ^ call.cap) | (interface ^ call.interface) | (caps ^ call.caps.address) | (last ^ self.call_last)
                != 0
            || generation == u32::MAX
            || !theirs.waits_for_one()
            || !switching::may_pass_on(lock, &self.server)
        {
            return None;
        }
        if params != self.params.address() || results != self.results.address() {
            PlainCall::read(&words)?;
            let space = &self.client.process.space;
            (self.params, self.results) = (Spot::find(lock, space, params)?, Spot::find(lock, space, results)?);
        }
        let (method, length) = ((first >> 16) as u16, (first >> 32) as u32);
        let (from, to) = (Buffer { address: params, length }, Buffer { address: results, ..call.results });
        let now = Call { interface, method, params: from, results: to, caps: call.caps };
        let received = now.received(answer.buffer)?;
        let reply = CapId::new(self.reply.index(), generation);
        let header = now.header(self.badge, reply);
        let spots = (&self.params, &self.buffer);
        let copied = if call.caps.sent == 0 {
            user_memory::copy_between(lock, spots.0, spots.1, &header.words(), length)
        } else {
            let ends = ((&*self.client.process, call.caps), (&*self.server.process, answer.caps));
            fast_path::send_one(lock, ends, spots, &header, length).is_some()
        };
        if !copied {
            return None;
        }
        (call.user_data, call.method, call.params, call.results) = (tag, method, from, to);
        // The last that is done with its registers: once it is switched out, another processor may switch it in. Its state says that it
        // waits only behind the locks: whoever ends its wait before that finds that it is on this processor, and waits for exclusive access.
        self.client.with_context(|context| context.rax = 1);
        own.begin_to_wait();
        theirs.end_wait(Outcome { length: received, caps: call.caps.sent, ..Outcome::default() }, answer.user_data);
        drop((own, theirs));
        self.reply = reply;
        self.works = true;
        Some(switching::pass_on(lock, &self.client, &self.server))
    }

    /// The server's turn.
    #[inline(always)]
    fn answer(&mut self, lock: &Shared) -> Option<*mut Context> {
        let mut own = self.server.lock();
        let mut theirs = self.client.try_lock()?;
        let words = own.lone_entry()?;
        let [first, tag, reply, endpoint, results, buffer, caps, last] = words;
        let Self { call, answer, .. } = self;
        if first & 0xffff_ffff != Opcode::ReturnRecv as u64
            || (reply ^ self.reply.0) | (endpoint ^ answer.endpoint) | (buffer ^ answer.buffer.address) != 0
            || (caps ^ answer.caps.address) | (last ^ self.answer_last) != 0
            || !theirs.waits_for_one()
            || !switching::may_pass_on(lock, &self.client)
        {
            return None;
        }
        if results != self.answered.address() {
            PlainReturnRecv::read(&words)?;
            self.answered = Spot::find(lock, &self.server.process.space, results)?;
        }
        let length = (first >> 32) as u32;
        if length > call.results.length || !user_memory::copy_between(lock, &self.answered, &self.results, &[], length)
        {
            return None;
        }
        answer.user_data = tag;
        // As in `call`.
        self.server.with_context(|context| context.rax = 1);
        own.begin_to_wait();
        theirs.end_wait(Outcome { length, ..Outcome::default() }, call.user_data);
        drop((own, theirs));
        self.works = false;
        Some(switching::pass_on(lock, &self.server, &self.client))
    }

    /// Takes a call out of the objects that it concerns: `server` has just answered `client`, and waits. `None` where it cannot
    /// be bound, and nothing has happened.
    fn open(
        lock: &Shared,
        client: &Arc<Thread>,
        server: &Arc<Thread>,
        call: &EntryWords,
        answer: &EntryWords,
    ) -> Option<Self> {
        let (called, answered) = (PlainCall::read(call)?, PlainReturnRecv::read(answer)?);
        let ([.., call_last], [.., answer_last]) = (*call, *answer);
        let limited = |thread: &Thread| thread.process.account.is_cpu_limited();
        if answered.caps.sent > 0
            || called.caps.sent > answered.caps.accepted
            || Arc::ptr_eq(&client.process, &server.process)
            || cpu_time::is_any_limited() && (limited(client) || limited(server))
        {
            return None;
        }
        let (of_client, of_server) = (&client.process.space, &server.process.space);
        let (params, results) =
            (Spot::find(lock, of_client, called.params.address)?, Spot::find(lock, of_client, called.results.address)?);
        let (sent, buffer) = (
            Spot::find(lock, of_server, answered.results.address)?,
            Spot::find(lock, of_server, answered.buffer.address)?,
        );
        let (endpoint, badge) = {
            let table = client.process.try_capability_table()?;
            let Capability { object: Object::Client(found), rights, .. } = table.get(CapId(called.cap)).ok()? else {
                return None;
            };
            if !rights.contains(Rights::CALL) || found.interface != called.interface {
                return None;
            }
            (Arc::clone(&found.endpoint), found.badge)
        };
        let mut table = server.process.try_capability_table()?;
        let mut waiting = endpoint.try_lock()?;
        let mut theirs = server.try_lock()?;
        // What it offered just now is the first.
        let ticket = waiting.receivers.front().filter(|first| Arc::ptr_eq(&first.thread, server))?.ticket;
        let (user_data, cap) = theirs.entry_of(ticket)?;
        // Nothing else than this capability's end ends it, and no thread waits for that.
        let Kind::Receive { buffer: offered, caps, .. } = theirs.plain(ticket)? else { return None };
        let is_meant = (cap, *offered, *caps)
            == (CapId(answered.endpoint), answered.buffer, CapArray { sent: 0, ..answered.caps });
        if !is_meant || !waiting.calls.is_empty() || !theirs.waits_for_one() {
            return None;
        }
        // No process can answer by it: no operation ever has this ticket again.
        let nothing = || Capability {
            object: Object::Reply(Reply::Thread(Arc::clone(&server.origin), ticket)),
            rights: Rights::GRANT,
            node: None,
        };
        let account = &server.process.account;
        account.charge(Resource::Capabilities, 1).ok()?;
        let Ok(slot) = table.insert_with(|_| nothing()) else {
            account.refund(Resource::Capabilities, 1);
            return None;
        };
        // There is one: it was looked at.
        let (_, kept) = waiting.receivers.take()?;
        theirs.lend_operation(ticket);
        drop((theirs, waiting, table));
        Some(Self {
            client: Arc::clone(client),
            server: Arc::clone(server),
            endpoint,
            kept,
            works: false,
            call: called,
            call_last,
            badge,
            answer: PlainReturnRecv { user_data, ..answered },
            answer_last,
            params,
            buffer,
            answered: sent,
            results,
            slot,
            reply: slot,
            uses: 0,
        })
    }

    /// Flushes it: every object is as if it had never been bound.
    fn close(self) {
        let Self { client, server, endpoint, kept, works, call, answer, slot, reply, .. } = self;
        let mut table = server.process.capability_table();
        // It cannot fail: the slot was taken all the time, and its generations rise.
        let _ = table.advance(slot, reply);
        let mut waiting = endpoint.lock();
        if works {
            let PlainCall { user_data, cap, interface, method, params, results, caps } = call;
            let call = Call { interface, method, params, results, caps };
            let ticket = client.lock().return_operation(user_data, CapId(cap), || Kind::Delivered { call });
            let answers = ticket.map(|ticket| Object::Reply(Reply::Thread(Arc::clone(&client.origin), ticket)));
            let nothing = match (answers, table.get_mut(reply)) {
                (Some(answers), Ok(capability)) => Some(core::mem::replace(&mut capability.object, answers)),
                _ => None,
            };
            waiting.receivers.let_go(kept);
            drop((waiting, table));
            drop(nothing);
            return;
        }
        let nothing = table.remove(reply);
        drop(table);
        drop(nothing);
        server.process.account.refund(Resource::Capabilities, 1);
        let PlainReturnRecv { user_data, endpoint: cap, buffer, caps, .. } = answer;
        let at = Arc::clone(&endpoint);
        let kind = || Kind::Receive { endpoint: at, buffer, caps, key: None };
        let ticket = server.lock().return_operation(user_data, CapId(cap), kind);
        if let Some(ticket) = ticket {
            let key = waiting.receivers.put_back(kept, OperationRef { thread: Arc::clone(&server), ticket });
            server.update(ticket, |kind| {
                if let Kind::Receive { key: place, .. } = kind {
                    *place = Some(key);
                }
            });
        }
    }
}

/// Two threads have taken turns often enough, the last time from the first to the second: their entries are noted, or what was noted
/// is bound from now on, where it can be.
#[cold]
#[inline(never)]
pub fn open(lock: &Shared, from: &Arc<Thread>, to: &Arc<Thread>) {
    let recent = RecentCalls::of(lock.cpu());
    if !recent.notes.swap(true, Ordering::Relaxed) {
        *recent.noted.lock() = Noted { call: None, answer: None };
        return;
    }
    // Whoever's they are: they are judged as the client's and the server's own.
    let Noted { call: Some(call), answer: Some(answer) } = &*recent.noted.lock() else { return };
    // It was an answer.
    let (server, client) = (from, to);
    let mut bound = recent.bound.lock();
    let may = bound.is_none() && admission::allows_shared();
    let opened = if may { BoundCall::open(lock, client, server, call, answer) } else { None };
    if opened.is_none() {
        return recent.learn(0);
    }
    *bound = opened;
    kernel_lock::cached(lock, close_all);
    recent.turn.store(Arc::as_ptr(client).cast_mut(), Ordering::Relaxed);
}

/// Flushes every bound call. No other lock is held.
fn close_all(lock: &mut Exclusive) {
    for processor in processors::all() {
        let recent = RecentCalls::of(processor);
        let Some(bound) = recent.bound.lock().take() else { continue };
        kernel_lock::flushed(lock);
        recent.turn.store(core::ptr::null_mut(), Ordering::Relaxed);
        if bound.works {
            // The answer is the next turn.
            recent.from.store(Arc::as_ptr(&bound.client).cast_mut(), Ordering::Relaxed);
            recent.to.store(Arc::as_ptr(&bound.server).cast_mut(), Ordering::Relaxed);
        }
        recent.learn(bound.uses);
        bound.close();
    }
}

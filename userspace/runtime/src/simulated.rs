//! A kernel for host tests: one process, its ring and a handful of kernel objects, in the memory of
//! the test.
//!
//! It judges entries with the same validator as the kernel and follows the same rules for calls,
//! replies, cancellation, waits and capabilities. Time is virtual: it moves when everything waits. Objects:
//! endpoints and capabilities minted on them, notifications, the timer, the capability table, the
//! debug log. A test serves anything else that it needs at an endpoint.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::Future;
use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use std::cell::RefCell;
use std::rc::Rc;

use capnp::Word;
use capos_abi::completion::COMPLETION_SIZE;
use capos_abi::entry::{Buffer, CapArray, ENTRY_SIZE, Operation};
use capos_abi::ring::{
    COMPLETION_ENTRIES, COMPLETION_HEAD, COMPLETION_TAIL, SUBMISSION_ENTRIES, SUBMISSION_HEAD, SUBMISSION_TAIL,
};
use capos_abi::{CapSlot, Completion, Entry, ExceptionKind, MessageHeader, RingLayout, Status, TransferMode};
use capos_ring::Ring;
use capos_schema::cap::Client;
use capos_schema::kernel::{
    CapabilityTableClient, DebugLogClient, EndpointClient, LaunchRecord, NamedCapability, NotificationClient,
    TimerClient,
};

use crate::env::Env;
use crate::runtime::{self, Runtime};

/// A kernel object that a test's process can be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// An endpoint, to receive at and to mint on.
    Endpoint,
    /// The timer.
    Timer,
    /// The process's own capability table.
    Table,
    /// The debug log; see [`log_lines`].
    DebugLog,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Endpoint(usize),
    Client { endpoint: usize, badge: u64 },
    Reply(u64),
    Notification(usize),
    Timer,
    Table,
    DebugLog,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    kind: Kind,
    interface: u64,
    parent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    user_data: u64,
    cap: Held,
    cap_id: u64,
    interface: u64,
    method: u16,
    params: Buffer,
    results: Buffer,
    caps: CapArray,
}

#[derive(Clone, Copy, Debug)]
struct Receiver {
    user_data: u64,
    buffer: Buffer,
    caps: CapArray,
}

#[derive(Debug, Default)]
struct Endpoint {
    receivers: VecDeque<Receiver>,
    calls: VecDeque<Call>,
}

#[derive(Debug, Default)]
struct Notification {
    bits: u64,
    waiting: VecDeque<u64>,
}

struct Kernel {
    base: NonNull<u8>,
    layout: RingLayout,
    head: u32,
    tail: u32,
    in_flight: u32,
    now: u64,
    next_cap: u32,
    next_call: u64,
    caps: BTreeMap<u64, Held>,
    endpoints: Vec<Endpoint>,
    notifications: Vec<Notification>,
    /// Calls that a server has and has not answered; `None` if the caller has given up.
    delivered: BTreeMap<u64, Option<Call>>,
    /// Waits for the end of these calls.
    watches: BTreeMap<u64, u64>,
    sleeping: Vec<(u64, u64)>,
    log: Vec<String>,
    entered: u64,
    taken: u64,
    answered: u64,
}

std::thread_local! {
    static PLACE: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
}

/// Runs a test's process: `main` gets an [`Env`] with these capabilities. Returns what it returns.
///
/// # Panics
/// If every task of the process waits for something that never comes.
#[expect(clippy::panic, reason = "a test that cannot end fails")]
pub fn run<T, F: Future<Output = T>>(grants: &[(&str, Object)], main: impl FnOnce(Env) -> F) -> T {
    let Ok(layout) = RingLayout::new(16, 32) else { panic!("the ring sizes are wrong") };
    let mut memory = Word::allocate_zeroed_vec(layout.bytes() / 8);
    let Some(base) = NonNull::new(memory.as_mut_ptr().cast::<u8>()) else { panic!("no ring memory") };
    let mut kernel = Kernel {
        base,
        layout,
        head: 0,
        tail: 0,
        in_flight: 0,
        now: 0,
        next_cap: 1,
        next_call: 1,
        caps: BTreeMap::new(),
        endpoints: Vec::new(),
        notifications: Vec::new(),
        delivered: BTreeMap::new(),
        watches: BTreeMap::new(),
        sleeping: Vec::new(),
        log: Vec::new(),
        entered: 0,
        taken: 0,
        answered: 0,
    };
    kernel.index(SUBMISSION_ENTRIES).store(layout.submission_entries(), Ordering::Release);
    kernel.index(COMPLETION_ENTRIES).store(layout.completion_entries(), Ordering::Release);
    let mut record = LaunchRecord { name: "test".into(), ..LaunchRecord::default() };
    for (name, object) in grants {
        let (kind, interface) = kernel.make(*object);
        let id = kernel.insert(kind, interface, 0);
        record.capabilities.push(NamedCapability { name: (*name).into(), id, interface });
    }
    // SAFETY: the memory lives until the end of this function, where the runtime has gone.
    let ring = unsafe { Ring::new(base) };
    let Ok(ring) = ring else { panic!("the simulated ring is malformed") };
    KERNEL.with(|place| *place.borrow_mut() = Some(kernel));
    capos_ring::host::set_enter(enter);
    PLACE.set(Some(Rc::new(Runtime::new(ring))));
    let env = Env::new(record);
    runtime::with(|rt| rt.facts.borrow_mut().learn(&env));
    let server = env.server().clone();
    let main = main(env);
    let result = runtime::with(|rt| rt.block_on(main));
    server.let_go();
    drop((server, PLACE.take()));
    match result {
        Some(Ok(value)) => value,
        Some(Err(error)) => panic!("{error}"),
        None => panic!("the runtime was not in place"),
    }
}

/// The runtime of the test's process, while it runs.
pub(crate) fn with_runtime<R>(act: impl FnOnce(&Runtime) -> R) -> Option<R> {
    let runtime = PLACE.try_with(|place| place.borrow().clone()).ok().flatten()?;
    Some(act(&runtime))
}

fn with<R>(act: impl FnOnce(&mut Kernel) -> R) -> Option<R> {
    KERNEL.with(|place| place.borrow_mut().as_mut().map(act))
}

/// How many capabilities the process holds.
#[must_use]
pub fn capabilities() -> usize {
    with(|kernel| kernel.caps.len()).unwrap_or(0)
}

/// How often the process has entered the kernel.
#[must_use]
pub fn entered() -> u64 {
    with(|kernel| kernel.entered).unwrap_or(0)
}

/// How many entries the kernel has taken.
#[must_use]
pub fn taken() -> u64 {
    with(|kernel| kernel.taken).unwrap_or(0)
}

/// How many calls the process has answered whose callers still waited.
#[must_use]
pub fn answered() -> u64 {
    with(|kernel| kernel.answered).unwrap_or(0)
}

/// The lines that were written to the debug log.
#[must_use]
pub fn log_lines() -> Vec<String> {
    with(|kernel| kernel.log.clone()).unwrap_or_default()
}

/// The system call `ENTER`.
#[expect(clippy::panic, reason = "a test that cannot end fails")]
fn enter(to_submit: u32, min_complete: u32, deadline: u64) -> u64 {
    with(|kernel| {
        kernel.entered = kernel.entered.saturating_add(1);
        let mut taken = 0;
        while taken < to_submit && kernel.take() {
            taken = taken.saturating_add(1);
        }
        while kernel.unread() < min_complete.min(kernel.layout.completion_entries()) {
            if deadline <= kernel.now {
                break;
            }
            let next = kernel.sleeping.iter().map(|(until, _)| *until).min();
            match next.filter(|next| *next <= deadline) {
                Some(next) => kernel.wake_at(next),
                None if deadline == u64::MAX => {
                    panic!("the process waits for ever: {} operations are in flight", kernel.in_flight)
                }
                None => kernel.now = deadline,
            }
        }
        u64::from(taken)
    })
    .unwrap_or(0)
}

fn bytes_at(buffer: Buffer) -> Vec<u8> {
    let length = usize::try_from(buffer.length).unwrap_or(0);
    if length == 0 {
        return Vec::new();
    }
    let from: *const u8 = with_exposed_provenance(usize::try_from(buffer.address).unwrap_or(0));
    // SAFETY: the process of the test exposed this buffer and keeps it until the entry completes.
    unsafe { core::slice::from_raw_parts(from, length) }.to_vec()
}

fn put_at(address: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        let to: *mut u8 = with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0));
        // SAFETY: as in `bytes_at`; the callers check lengths against the entry's.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

impl Kernel {
    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of the ring memory, which lives as long as the kernel is used.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn make(&mut self, object: Object) -> (Kind, u64) {
        match object {
            Object::Endpoint => {
                self.endpoints.push(Endpoint::default());
                (Kind::Endpoint(self.endpoints.len().saturating_sub(1)), EndpointClient::INTERFACE_ID)
            }
            Object::Timer => (Kind::Timer, TimerClient::INTERFACE_ID),
            Object::Table => (Kind::Table, CapabilityTableClient::INTERFACE_ID),
            Object::DebugLog => (Kind::DebugLog, DebugLogClient::INTERFACE_ID),
        }
    }

    fn insert(&mut self, kind: Kind, interface: u64, parent: u64) -> u64 {
        let id = capos_abi::CapId::new(self.next_cap, 1).0;
        self.next_cap = self.next_cap.saturating_add(1);
        self.caps.insert(id, Held { kind, interface, parent });
        id
    }

    fn unread(&self) -> u32 {
        self.tail.wrapping_sub(self.index(COMPLETION_HEAD).load(Ordering::Acquire))
    }

    fn take(&mut self) -> bool {
        let published = self.index(SUBMISSION_TAIL).load(Ordering::Acquire);
        let room = self.in_flight.saturating_add(self.unread()) < self.layout.completion_entries();
        if published == self.head || !room {
            return false;
        }
        let offset = self.layout.submission_offset(self.head);
        // SAFETY: inside the ring memory.
        let raw = unsafe { self.base.as_ptr().add(offset).cast::<[u8; ENTRY_SIZE]>().read() };
        self.head = self.head.wrapping_add(1);
        self.index(SUBMISSION_HEAD).store(self.head, Ordering::Release);
        self.in_flight = self.in_flight.saturating_add(1);
        self.taken = self.taken.saturating_add(1);
        match Entry::decode(&raw) {
            Ok(entry) => self.run(&entry),
            Err(error) => self.fail(error.user_data, error.status),
        }
        true
    }

    fn complete(&mut self, completion: Completion) {
        let offset = self.layout.completion_offset(self.tail);
        // SAFETY: inside the ring memory.
        unsafe { self.base.as_ptr().add(offset).cast::<[u8; COMPLETION_SIZE]>().write(completion.encode()) };
        self.tail = self.tail.wrapping_add(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.index(COMPLETION_TAIL).store(self.tail, Ordering::Release);
    }

    fn fail(&mut self, user_data: u64, status: Status) {
        self.complete(Completion { user_data, status: status as i32, ..Completion::default() });
    }

    fn run(&mut self, entry: &Entry) {
        let tag = entry.user_data;
        match entry.operation {
            Operation::Nop => self.fail(tag, Status::Ok),
            Operation::Call { cap, interface, method, params, results, caps } => {
                let Some(held) = self.caps.get(&cap).copied() else {
                    return self.fail(tag, Status::StaleCapability);
                };
                if held.interface != interface {
                    return self.fail(tag, Status::WrongInterface);
                }
                let call = Call { user_data: tag, cap: held, cap_id: cap, interface, method, params, results, caps };
                if let Kind::Client { endpoint, .. } = held.kind {
                    if let Some(place) = self.endpoints.get_mut(endpoint) {
                        place.calls.push_back(call);
                    }
                    self.deliver(endpoint);
                } else {
                    self.call_object(&call);
                }
            }
            Operation::Recv { endpoint, buffer, caps } => self.receive(tag, endpoint, buffer, caps),
            Operation::Return { reply, exception, results, caps } => {
                let status = self.return_results(reply, exception, results, caps);
                self.fail(tag, status);
            }
            Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps } => {
                let receives = self.caps.get(&endpoint).is_some_and(|held| matches!(held.kind, Kind::Endpoint(_)));
                if !receives {
                    return self.fail(tag, Status::BadCapability);
                }
                if usize::try_from(buffer.length).unwrap_or(0) < MessageHeader::SIZE {
                    return self.fail(tag, Status::TooLarge);
                }
                match self.return_results(reply, exception, results, CapArray { accepted: 0, ..caps }) {
                    Status::Ok => self.receive(tag, endpoint, buffer, CapArray { sent: 0, ..caps }),
                    refused => self.fail(tag, refused),
                }
            }
            Operation::Release { cap } => {
                let status = self.release(cap);
                self.fail(tag, status);
            }
            Operation::Cancel { target } => {
                let status = self.cancel(target);
                self.fail(tag, status);
            }
            Operation::Notify { notification, bits } => match self.caps.get(&notification).map(|held| held.kind) {
                Some(Kind::Notification(index)) => {
                    if let Some(place) = self.notifications.get_mut(index) {
                        place.bits |= bits;
                    }
                    self.fail(tag, Status::Ok);
                    self.signal(index);
                }
                _ => self.fail(tag, Status::BadCapability),
            },
            Operation::Wait { cap } => match self.caps.get(&cap).map(|held| held.kind) {
                Some(Kind::Notification(index)) => {
                    if let Some(place) = self.notifications.get_mut(index) {
                        place.waiting.push_back(tag);
                    }
                    self.signal(index);
                }
                Some(Kind::Reply(call)) => match self.delivered.get(&call) {
                    Some(Some(_)) if self.watches.contains_key(&call) => self.fail(tag, Status::Overloaded),
                    Some(Some(_)) => drop(self.watches.insert(call, tag)),
                    _ => self.fail(tag, Status::Ok),
                },
                _ => self.fail(tag, Status::BadCapability),
            },
            // There is one thread here, and no processor's registers.
            Operation::WaitWord { .. } | Operation::WakeWord { .. } | Operation::ThreadPointer { .. } => {
                self.fail(tag, Status::BadOpcode);
            }
        }
    }

    fn receive(&mut self, tag: u64, endpoint: u64, buffer: Buffer, caps: CapArray) {
        let Some(Kind::Endpoint(index)) = self.caps.get(&endpoint).map(|held| held.kind) else {
            return self.fail(tag, Status::BadCapability);
        };
        if let Some(place) = self.endpoints.get_mut(index) {
            place.receivers.push_back(Receiver { user_data: tag, buffer, caps });
        }
        self.deliver(index);
    }

    fn return_results(&mut self, reply: u64, exception: u8, results: Buffer, caps: CapArray) -> Status {
        let Some(Kind::Reply(call)) = self.caps.get(&reply).map(|held| held.kind) else {
            return Status::StaleCapability;
        };
        self.caps.remove(&reply);
        self.answer(call, exception, results, caps)
    }

    fn signal(&mut self, index: usize) {
        let Some(place) = self.notifications.get_mut(index) else { return };
        if place.bits != 0
            && let Some(tag) = place.waiting.pop_front()
        {
            let value = core::mem::take(&mut place.bits);
            self.complete(Completion { user_data: tag, value, ..Completion::default() });
        }
    }

    /// Moves or copies capabilities from one array to another. `None` if they do not fit.
    fn transfer(&mut self, from: CapArray, to: CapArray) -> Option<u8> {
        if from.sent > to.accepted {
            return None;
        }
        for at in 0..u64::from(from.sent) {
            let offset = at.saturating_mul(16);
            let raw = bytes_at(Buffer { address: from.address.saturating_add(offset), length: 16 });
            let slot = raw.first_chunk().map(CapSlot::decode)?;
            let (id, _, mode) = slot.sent().ok()?;
            let held = self.caps.get(&id).copied()?;
            let parent = if mode == TransferMode::Move {
                self.caps.remove(&id);
                if let Kind::Reply(number) = held.kind {
                    self.end_watch(number, Status::StaleCapability);
                }
                held.parent
            } else {
                id
            };
            let new = self.insert(held.kind, held.interface, parent);
            let slot = CapSlot { word0: new, word1: held.interface };
            put_at(to.address.saturating_add(offset), &slot.encode());
        }
        Some(from.sent)
    }

    fn deliver(&mut self, endpoint: usize) {
        while let Some(place) = self.endpoints.get_mut(endpoint) {
            let (Some(call), Some(receiver)) = (place.calls.front().copied(), place.receivers.front().copied()) else {
                return;
            };
            place.calls.pop_front();
            let header_size = u32::try_from(MessageHeader::SIZE).unwrap_or(0);
            let too_large = call.params.length.saturating_add(header_size) > receiver.buffer.length;
            if too_large || call.caps.sent > receiver.caps.accepted {
                self.fail(call.user_data, Status::TooLarge);
                continue;
            }
            place.receivers.pop_front();
            let Kind::Client { badge, .. } = call.cap.kind else { continue };
            let number = self.next_call;
            self.next_call = self.next_call.saturating_add(1);
            let Some(caps) = self.transfer(call.caps, receiver.caps) else {
                self.fail(call.user_data, Status::BadCapability);
                continue;
            };
            let reply = self.insert(Kind::Reply(number), 0, 0);
            self.delivered.insert(number, Some(call));
            let header = MessageHeader {
                badge,
                interface: call.interface,
                reply,
                method: call.method,
                caps,
                length: call.params.length,
                results_capacity: call.results.length,
                caps_accepted: call.caps.accepted,
            };
            put_at(receiver.buffer.address, &header.encode());
            let params = bytes_at(call.params);
            put_at(receiver.buffer.address.saturating_add(u64::from(header_size)), &params);
            self.complete(Completion {
                user_data: receiver.user_data,
                length: header_size.saturating_add(call.params.length),
                caps,
                ..Completion::default()
            });
        }
    }

    /// The wait for the end of a call ends.
    fn end_watch(&mut self, number: u64, status: Status) {
        if let Some(tag) = self.watches.remove(&number) {
            self.fail(tag, status);
        }
    }

    fn answer(&mut self, number: u64, exception: u8, results: Buffer, caps: CapArray) -> Status {
        self.end_watch(number, Status::StaleCapability);
        let Some(Some(call)) = self.delivered.remove(&number) else { return Status::Ok };
        self.answered = self.answered.saturating_add(1);
        if results.length > call.results.length || caps.sent > call.caps.accepted {
            self.fail(call.user_data, Status::TooLarge);
            return Status::TooLarge;
        }
        let bytes = bytes_at(results);
        put_at(call.results.address, &bytes);
        let received = self.transfer(caps, call.caps).unwrap_or(0);
        self.complete(Completion {
            user_data: call.user_data,
            status: i32::from(exception),
            length: results.length,
            caps: received,
            ..Completion::default()
        });
        Status::Ok
    }

    fn release(&mut self, cap: u64) -> Status {
        let Some(held) = self.caps.remove(&cap) else { return Status::StaleCapability };
        for other in self.caps.values_mut() {
            if other.parent == cap {
                other.parent = held.parent;
            }
        }
        if let Kind::Reply(number) = held.kind
            && let Some(Some(call)) = self.delivered.remove(&number)
        {
            self.end_watch(number, Status::StaleCapability);
            self.fail(call.user_data, Status::Disconnected);
        }
        Status::Ok
    }

    fn cancel(&mut self, target: u64) -> Status {
        for endpoint in &mut self.endpoints {
            let before = endpoint.calls.len().saturating_add(endpoint.receivers.len());
            endpoint.calls.retain(|call| call.user_data != target);
            endpoint.receivers.retain(|receiver| receiver.user_data != target);
            if endpoint.calls.len().saturating_add(endpoint.receivers.len()) != before {
                self.fail(target, Status::Cancelled);
                return Status::Ok;
            }
        }
        let delivered = self.delivered.iter_mut();
        let is_it = |call: &Option<Call>| call.is_some_and(|call| call.user_data == target);
        if let Some((number, call)) = delivered.map(|(number, call)| (*number, call)).find(|(_, call)| is_it(call)) {
            *call = None;
            self.fail(target, Status::Cancelled);
            self.end_watch(number, Status::Ok);
            return Status::Ok;
        }
        let watches = self.watches.len();
        self.watches.retain(|_, tag| *tag != target);
        if self.watches.len() != watches {
            self.fail(target, Status::Cancelled);
            return Status::Ok;
        }
        let sleeping = self.sleeping.len();
        self.sleeping.retain(|(_, tag)| *tag != target);
        let mut found = self.sleeping.len() != sleeping;
        for place in &mut self.notifications {
            let waiting = place.waiting.len();
            place.waiting.retain(|tag| *tag != target);
            found |= place.waiting.len() != waiting;
        }
        if found {
            self.fail(target, Status::Cancelled);
            Status::Ok
        } else {
            Status::NotFound
        }
    }

    fn wake_at(&mut self, time: u64) {
        self.now = time;
        let due: Vec<u64> = self.sleeping.iter().filter(|(until, _)| *until <= time).map(|(_, tag)| *tag).collect();
        self.sleeping.retain(|(until, _)| *until > time);
        for tag in due {
            self.succeed_tag(tag);
        }
    }

    fn succeed_tag(&mut self, tag: u64) {
        self.complete(Completion { user_data: tag, ..Completion::default() });
    }

    fn succeed(&mut self, call: &Call, words: &[u64], cap: Option<(Kind, u64, u64)>) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        put_at(call.results.address, &bytes);
        let caps = cap.map_or(0, |(kind, interface, parent)| {
            let id = self.insert(kind, interface, parent);
            put_at(call.caps.address, &CapSlot { word0: id, word1: interface }.encode());
            1
        });
        self.complete(Completion {
            user_data: call.user_data,
            length: u32::try_from(bytes.len()).unwrap_or(0),
            caps,
            ..Completion::default()
        });
    }

    fn call_object(&mut self, call: &Call) {
        let params: Vec<u64> =
            bytes_at(call.params).as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let word = |at: usize| params.get(at).copied().unwrap_or(0);
        const ONE_WORD: u64 = 1 << 32;
        const ONE_POINTER: u64 = 1 << 48;
        const CAP_0: u64 = 3;
        match (call.cap.kind, call.method) {
            (Kind::Endpoint(endpoint), 0) => {
                let client = (Kind::Client { endpoint, badge: word(1) }, word(2), call.cap_id);
                self.succeed(call, &[ONE_POINTER, CAP_0], Some(client));
            }
            (Kind::Timer, 0) => self.succeed(call, &[ONE_WORD, self.now], None),
            (Kind::Timer, 1) if word(1) > self.now => self.sleeping.push((word(1), call.user_data)),
            (Kind::Timer, 1) => self.succeed(call, &[0], None),
            (Kind::Table, 0) => self.list(call),
            (Kind::Table, 3) => {
                let count = self.revoke(word(1));
                self.succeed(call, &[ONE_WORD, count], None);
            }
            (Kind::DebugLog, 0) => {
                let length = usize::try_from(word(1) >> 35).unwrap_or(0).saturating_sub(1);
                let bytes = bytes_at(call.params);
                let text = bytes.get(16..16_usize.saturating_add(length)).unwrap_or_default();
                self.log.push(String::from_utf8_lossy(text).to_string());
                self.succeed(call, &[0], None);
            }
            _ => {
                let reason = b"the simulated kernel does not do this";
                put_at(call.results.address, reason);
                self.complete(Completion {
                    user_data: call.user_data,
                    status: ExceptionKind::Unimplemented as i32,
                    length: u32::try_from(reason.len()).unwrap_or(0),
                    ..Completion::default()
                });
            }
        }
    }

    fn revoke(&mut self, cap: u64) -> u64 {
        let mut count = 0_u64;
        while let Some(child) = self.caps.iter().find(|(_, held)| held.parent == cap).map(|(id, _)| *id) {
            count = count.saturating_add(1).saturating_add(self.revoke(child));
            self.caps.remove(&child);
        }
        count
    }

    fn has_derived(&self, cap: u64) -> bool {
        self.caps.values().any(|held| held.parent == cap)
    }

    fn list(&mut self, call: &Call) {
        let caps: Vec<(u64, u64, bool)> =
            self.caps.iter().map(|(id, held)| (*id, held.interface, self.has_derived(*id))).collect();
        let message = capos_schema::wire::encode::<capos_schema::kernel_capnp::capability_table::list_results::Owned>(
            1024,
            |builder, _| {
                let mut list = builder.init_capabilities(capos_schema::wire::length("capabilities", caps.len())?);
                for (at, (id, interface, derived)) in (0_u32..).zip(&caps) {
                    let mut info = list.reborrow().get(at);
                    info.set_id(*id);
                    info.set_interface(*interface);
                    info.set_derived(*derived);
                }
                Ok(())
            },
        );
        match message {
            Ok(message) => {
                put_at(call.results.address, message.bytes());
                self.complete(Completion {
                    user_data: call.user_data,
                    length: u32::try_from(message.bytes().len()).unwrap_or(0),
                    ..Completion::default()
                });
            }
            Err(_) => self.fail(call.user_data, Status::TooLarge),
        }
    }
}

/// A notification of the simulated kernel, which tests make here since the process of a test has
/// no account.
#[must_use]
pub fn notification() -> NotificationClient {
    let id = with(|kernel| {
        kernel.notifications.push(Notification::default());
        let kind = Kind::Notification(kernel.notifications.len().saturating_sub(1));
        kernel.insert(kind, NotificationClient::INTERFACE_ID, 0)
    });
    NotificationClient::from_cap(crate::capability::KernelCap::own(id.unwrap_or(0), NotificationClient::INTERFACE_ID))
}

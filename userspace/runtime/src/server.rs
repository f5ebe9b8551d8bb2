//! The server's side: receiving calls, finding the object they are for, answering.
//!
//! Badges of capabilities that the manifest made hold the ordinal of the provided interface (bits
//! 0 to 15) and the client's number (bits 16 to 31). Badges that the service makes itself have bit
//! 63 set, the instance's epoch in bits 32 to 62 and a counter below. So a capability of a dead
//! instance differs from one of this instance. Badges with bit 62 alone are durable: the rest is a
//! key of the service's own, from which any instance finds the object again.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{Completion, MessageHeader, Status};
use capos_async_lock::Waiters;
use capos_ring::message::{Lent, address, transport, whole_words};
use capos_schema::cap::{
    CallContext, CallError, Cap, Client, Dispatch, Exception, Export, IncomingMessage, LocalBoxFuture, Message,
};
use capos_schema::kernel::{CapabilityTableClient, EndpointClient};

use crate::call::wait_for;
use crate::capability::{KernelCap, release};
use crate::env::ClientInfo;
use crate::error::Error;
use crate::operation::run;
use crate::runtime;
use crate::task::TaskGroup;
use crate::watch::{Watch, unless_cancelled};

/// Set in badges that a service makes itself.
const EXPORTED: u64 = 1 << 63;
/// Set, without bit 63, in badges that outlive the instance.
const DURABLE: u64 = 1 << 62;
/// Exports before the first search for objects without holders.
const FIRST_SWEEP: usize = 32;

/// How a service receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServeOptions {
    /// Buffers that wait for calls, and so the calls taken from the endpoint in one go; 1 to an
    /// eighth of the completion ring.
    pub buffers: u16,
    /// Largest parameters, in bytes, up to 1 MiB. A larger call fails at the caller.
    pub message_bytes: u32,
    /// Calls that are answered at the same time; further ones wait at the endpoint.
    pub concurrent: u16,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { buffers: 4, message_bytes: 16 << 10, concurrent: 64 }
    }
}

type Factory = Box<dyn Fn(&ClientInfo) -> Rc<dyn Dispatch>>;
type Finder = Box<dyn Fn(u64) -> Option<Rc<dyn Dispatch>>>;

/// The handler of one provided interface.
enum Provided {
    One(Rc<dyn Dispatch>),
    PerClient { make: Factory, made: BTreeMap<u16, Rc<dyn Dispatch>> },
}

struct Exported {
    object: Rc<dyn Dispatch>,
    /// The capability that all others to the object derive from.
    cap: Cap,
}

/// The objects that a process answers for at its endpoint.
pub struct Server {
    endpoint: Option<EndpointClient>,
    /// Whether the process was started with the endpoint, which its threads share.
    #[cfg(all(capos_guest, feature = "std"))]
    granted: bool,
    table: Option<CapabilityTableClient>,
    epoch: u64,
    clients: BTreeMap<u16, String>,
    provided: RefCell<BTreeMap<u16, Provided>>,
    durable: RefCell<Option<Finder>>,
    exported: RefCell<BTreeMap<u64, Exported>>,
    counter: Cell<u64>,
    sweep_at: Cell<usize>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("endpoint", &self.endpoint)
            .field("exported", &self.exported.borrow().len())
            .finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(endpoint: Option<Cap>, table: Option<Cap>, environment: &BTreeMap<String, String>) -> Self {
        let clients = environment
            .iter()
            .filter_map(|(key, name)| Some((key.strip_prefix("CLIENT_")?.parse().ok()?, name.clone())))
            .collect();
        let epoch: u64 = environment.get("EPOCH").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Self {
            endpoint: endpoint.map(EndpointClient::from_cap),
            #[cfg(all(capos_guest, feature = "std"))]
            granted: true,
            table: table.map(CapabilityTableClient::from_cap),
            epoch: epoch & 0x7fff_ffff,
            clients,
            provided: RefCell::default(),
            durable: RefCell::default(),
            exported: RefCell::default(),
            counter: Cell::new(0),
            sweep_at: Cell::new(FIRST_SWEEP),
        }
    }

    /// A server at an endpoint that the process has made itself. `table` is the process's own.
    #[must_use]
    pub fn at(endpoint: EndpointClient, table: CapabilityTableClient) -> Self {
        Self {
            endpoint: Some(endpoint),
            #[cfg(all(capos_guest, feature = "std"))]
            granted: false,
            table: Some(table),
            epoch: 0,
            clients: BTreeMap::new(),
            provided: RefCell::default(),
            durable: RefCell::default(),
            exported: RefCell::default(),
            counter: Cell::new(0),
            sweep_at: Cell::new(FIRST_SWEEP),
        }
    }

    /// Releases the objects that it answers with. They may hold the surroundings of their process, and those this
    /// server: in a test, whose memory does not go with a process, they would keep each other.
    #[cfg(not(capos_guest))]
    pub(crate) fn let_go(&self) {
        let provided = core::mem::take(&mut *self.provided.borrow_mut());
        let durable = self.durable.borrow_mut().take();
        let exported = core::mem::take(&mut *self.exported.borrow_mut());
        drop((provided, durable, exported));
    }

    /// See [`crate::Env::serve`].
    pub fn serve(&self, ordinal: u16, object: Rc<dyn Dispatch>) {
        self.provided.borrow_mut().insert(ordinal, Provided::One(object));
    }

    /// See [`crate::Env::serve_clients`].
    pub fn serve_clients(&self, ordinal: u16, make: impl Fn(&ClientInfo) -> Rc<dyn Dispatch> + 'static) {
        let provided = Provided::PerClient { make: Box::new(make), made: BTreeMap::new() };
        self.provided.borrow_mut().insert(ordinal, provided);
    }

    /// Says how to find the objects of durable capabilities, those of earlier instances of the
    /// service included: `find` gets the key and makes or finds the object.
    pub fn serve_durable(&self, find: impl Fn(u64) -> Option<Rc<dyn Dispatch>> + 'static) {
        *self.durable.borrow_mut() = Some(Box::new(find));
    }

    /// A capability that outlives this instance of the service: calls through it reach, in this
    /// instance and in every later one, what [`Server::serve_durable`] finds under `key` (62 bits).
    ///
    /// # Errors
    /// The process has no endpoint or no room for a capability, or the key is too large.
    pub fn durable(&self, key: u64, interface: u64) -> Result<Cap, CallError> {
        let Some(endpoint) = &self.endpoint else {
            return Err(CallError::failed("this process was given no endpoint `serve` and cannot export objects"));
        };
        if key >= DURABLE {
            return Err(CallError::invalid_argument("the key of a durable capability has 62 bits"));
        }
        Ok(wait_for(endpoint.mint(DURABLE | key, interface))?.into_cap())
    }

    /// A capability to an object of this process.
    ///
    /// The object lives as long as it has a holder: this process with a clone of the returned
    /// capability, or another process that was sent one. Objects without holders are found when the
    /// number of exported objects has doubled, or by [`Server::sweep`]; [`Server::unexport`] ends an
    /// object at once. The kernel, if it calls an object as a pager, does not count as a holder:
    /// keep a capability here.
    ///
    /// On `std` the thread that exports an object must also answer its calls. If another thread answers at the
    /// process's endpoint, callers get the error that the object has ended.
    ///
    /// # Errors
    /// The process has no endpoint, or no room for a capability; another thread of it answers at the endpoint.
    pub fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        let Some(endpoint) = &self.endpoint else {
            return Err(CallError::failed("this process was given no endpoint `serve` and cannot export objects"));
        };
        if self.exported.borrow().len() >= self.sweep_at.get() {
            self.sweep();
        }
        #[cfg(all(capos_guest, feature = "std"))]
        if self.granted && !crate::on_std::may_answer() {
            return Err(CallError::failed(
                "another thread of the process answers at its endpoint `serve`; export the object from that one",
            ));
        }
        let counter = self.next_number();
        let badge = EXPORTED | (self.epoch << 32) | (counter & 0xffff_ffff);
        let cap = wait_for(endpoint.mint(badge, object.interface_id()))?.into_cap();
        self.exported.borrow_mut().insert(badge, Exported { object, cap: cap.clone() });
        Ok(cap)
    }

    /// A number that no other object at the endpoint has.
    fn next_number(&self) -> u64 {
        // Threads have a server each at the endpoint that the process was started with.
        #[cfg(all(capos_guest, feature = "std"))]
        if self.granted {
            return crate::on_std::next_exported();
        }
        let number = self.counter.get().wrapping_add(1);
        self.counter.set(number);
        number
    }

    /// Drops the exported objects without holders. Returns their number.
    pub fn sweep(&self) -> usize {
        let held: BTreeSet<u64> = match self.table.as_ref().map(|table| wait_for(table.list())) {
            Some(Ok(infos)) => infos.into_iter().filter(|info| info.descendants > 0).map(|info| info.id).collect(),
            // Without its table a process cannot know, so everything stays.
            _ => return 0,
        };
        let unheld: Vec<Exported> = {
            let mut exported = self.exported.borrow_mut();
            let badges: Vec<u64> = exported
                .iter()
                .filter(|(_, entry)| Rc::strong_count(entry.cap.transport()) == 1 && !held.contains(&entry.cap.id()))
                .map(|(badge, _)| *badge)
                .collect();
            badges.iter().filter_map(|badge| exported.remove(badge)).collect()
        };
        self.sweep_at.set(self.exported.borrow().len().saturating_mul(2).max(FIRST_SWEEP));
        unheld.len()
    }

    /// Ends an exported object at once: every capability to it dies, wherever it went, and so do
    /// calls that wait for it.
    pub fn unexport(&self, cap: &Cap) {
        self.unexport_id(cap.id());
    }

    /// The same, of the capability with this identifier, which this process need not hold any more.
    pub fn unexport_id(&self, id: u64) {
        let badge = self.exported.borrow().iter().find(|(_, entry)| entry.cap.id() == id).map(|(badge, _)| *badge);
        if let Some(badge) = badge {
            if let Some(table) = &self.table {
                drop(wait_for(table.revoke(id)));
            }
            let entry = self.exported.borrow_mut().remove(&badge);
            drop(entry);
        }
    }

    /// How many exported objects there are.
    #[must_use]
    pub fn exported(&self) -> usize {
        self.exported.borrow().len()
    }

    fn find(&self, badge: u64) -> Result<Rc<dyn Dispatch>, CallError> {
        if badge & EXPORTED != 0 {
            if let Some(entry) = self.exported.borrow().get(&badge) {
                return Ok(entry.object.clone());
            }
            return Err(CallError::disconnected(if (badge >> 32) & 0x7fff_ffff == self.epoch {
                "the object of this capability has ended"
            } else {
                "the object of this capability was lost when the service restarted"
            }));
        }
        if badge & DURABLE != 0 {
            let found = self.durable.borrow().as_ref().and_then(|find| find(badge & !DURABLE));
            return found.ok_or_else(|| CallError::disconnected("the object of this capability has ended"));
        }
        let ordinal = u16::try_from(badge & 0xffff).unwrap_or(u16::MAX);
        let number = u16::try_from((badge >> 16) & 0xffff).unwrap_or(u16::MAX);
        match self.provided.borrow_mut().get_mut(&ordinal) {
            Some(Provided::One(object)) => Ok(object.clone()),
            Some(Provided::PerClient { make, made }) => Ok(made
                .entry(number)
                .or_insert_with(|| {
                    let name = self.clients.get(&number).cloned().unwrap_or_default();
                    make(&ClientInfo { number, name })
                })
                .clone()),
            None => Err(CallError::unimplemented(format!(
                "the service does not serve the interface with ordinal {ordinal} of its manifest entry"
            ))),
        }
    }

    /// Receives and answers calls for ever.
    ///
    /// # Errors
    /// There is no endpoint, it is gone, or a received message is malformed.
    pub async fn run(self: &Rc<Self>, options: ServeOptions) -> Result<(), Error> {
        let Some(endpoint) = &self.endpoint else {
            return Err(Error::new("this process was given no endpoint `serve`; say in the manifest what it provides"));
        };
        #[cfg(all(capos_guest, feature = "std"))]
        let _serving = if self.granted { Some(crate::on_std::Serving::begin()?) } else { None };
        let limit = Rc::new(Gate::new(options.concurrent.max(1)));
        let calls = Rc::new(TaskGroup::new());
        let most = runtime::with(runtime::Runtime::receivers).unwrap_or(1);
        // A task for each buffer: tasks run in the order in which they are woken, so calls are
        // answered in the order in which they came.
        let receivers = TaskGroup::new();
        let failure: Rc<RefCell<Option<Error>>> = Rc::default();
        for _ in 0..u32::from(options.buffers).clamp(1, most) {
            let (server, limit, calls, failure) = (self.clone(), limit.clone(), calls.clone(), failure.clone());
            let endpoint = endpoint.clone();
            receivers.spawn(async move {
                let result = server.receive(&endpoint, options, &limit, &calls).await;
                if let Err(error) = result {
                    *failure.borrow_mut() = Some(error);
                }
            });
        }
        receivers.join().await;
        let failure = failure.borrow_mut().take();
        failure.map_or(Ok(()), Err)
    }

    async fn receive(
        self: &Rc<Self>,
        endpoint: &EndpointClient,
        options: ServeOptions,
        limit: &Rc<Gate>,
        calls: &TaskGroup,
    ) -> Result<(), Error> {
        let cap = capos_schema::cap::AsCap::as_cap(endpoint).id();
        let told = |status| Error::new(format!("cannot receive calls at the endpoint `serve`: {status}"));
        loop {
            let pass = limit.enter().await;
            let mut received = receive(cap, options.message_bytes).await.map_err(told)?;
            // Calls whose handlers wait for nothing are answered here, each with the buffer for the next one.
            loop {
                let Received { header, message, reply, lent } = received;
                let (work, abortable) = match self.begin(&header, message) {
                    Ok((mut work, abortable)) => match poll_first(work.as_mut()) {
                        Poll::Ready(result) => (Work::Done(result), false),
                        Poll::Pending => (Work::Going(work), abortable),
                    },
                    Err(error) => (Work::Done(Err(error)), false),
                };
                match (work, reply) {
                    (Work::Done(Ok(results)), Some(reply)) if goes_along(&results) => {
                        let Some(next) =
                            answer_and_receive(reply, results.words, (cap, options.message_bytes), lent).await
                        else {
                            break;
                        };
                        received = next;
                        continue;
                    }
                    (Work::Done(result), Some(reply)) => {
                        let mut answer: LocalBoxFuture<'static, ()> = Box::pin(async move {
                            reply.send(result.map_err(CallError::into_exception)).await;
                            drop(pass);
                        });
                        // Queued here and now: no later call's answer precedes it, and it precedes all effects of tasks
                        // that the handler has woken, the process's end included.
                        if poll_first(answer.as_mut()).is_pending() {
                            calls.spawn(answer);
                        }
                    }
                    (Work::Done(_), None) => drop(pass),
                    (Work::Going(work), reply) => calls.spawn(async move {
                        finish(work, reply, abortable).await;
                        drop(pass);
                    }),
                }
                give_back(lent);
                break;
            }
        }
    }

    /// Finds the object that a call is for, and has it begin to answer. Also returns whether that ends with its caller.
    fn begin(&self, header: &MessageHeader, message: IncomingMessage) -> Result<(Handler, bool), CallError> {
        let object = self.find(header.badge)?;
        if !object.implements(header.interface) {
            let interface = header.interface;
            return Err(CallError::unimplemented(format!("the object does not offer interface {interface:#018x}")));
        }
        let abortable = object.is_abortable(header.interface, header.method);
        let cx = CallContext { badge: header.badge, interface: header.interface, reply: header.reply };
        Ok((object.dispatch(cx, header.method, message), abortable))
    }
}

/// Polls a future that becomes a task of its own if it waits; it is polled by that again. Were the receiver woken in
/// its place, it would get its turn before the receivers of earlier calls. So it must wake all waiting tasks, or those
/// that were polled last: a future that misses its turn once would wait for ever.
fn poll_first<T>(work: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}

/// A handler that answers a call.
type Handler = LocalBoxFuture<'static, Result<Message, CallError>>;

/// The state of a handler.
enum Work {
    Done(Result<Message, CallError>),
    Going(Handler),
}

/// Makes a waiting handler end and answer.
async fn finish(work: Handler, reply: Option<Reply>, abortable: bool) {
    let Some(reply) = reply else {
        drop(work.await);
        return;
    };
    // Kept until the answer was sent, which ends the wait without a CANCEL.
    let mut watch = Watch::new(reply.id);
    let result = if abortable {
        let Some(result) = unless_cancelled(&mut watch, work).await else { return };
        result
    } else {
        work.await
    };
    reply.send(result.map_err(CallError::into_exception)).await;
    drop(watch);
}

impl Export for Server {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        Server::export(self, object)
    }
}

/// Receives every call that comes to an endpoint and refuses it as disconnected, with these words:
/// for an endpoint whose service is gone. Ends when the endpoint does.
pub async fn refuse_calls(endpoint: &EndpointClient, reason: &str) {
    let cap = capos_schema::cap::AsCap::as_cap(endpoint).id();
    while let Ok(received) = receive(cap, MAX_MESSAGE).await {
        give_back(received.lent);
        if let Some(reply) = received.reply {
            reply.send(Err(Exception::disconnected(String::from(reason)))).await;
        }
    }
}

/// A call that came.
struct Received {
    header: MessageHeader,
    message: IncomingMessage,
    reply: Option<Reply>,
    /// With the buffer that it came into, which can be offered again.
    lent: Box<Lent>,
}

/// Bytes of an answer that are kept until the next call comes; a larger one is sent separately.
const GOES_ALONG: usize = 4 << 10;

/// Whether an answer can be given by the entry that offers a buffer again. Its data are kept until the next call, which
/// may be long: so they are small and contain no capabilities.
fn goes_along(results: &Message) -> bool {
    results.caps.is_empty() && results.words.len() <= GOES_ALONG / 8
}

fn give_back(lent: Box<Lent>) {
    runtime::with(|rt| rt.give_back(lent));
}

/// Bytes of a buffer for calls with `bytes` bytes of parameters.
fn room_for(bytes: u32) -> u32 {
    bytes.saturating_add(64).min(MAX_MESSAGE).next_multiple_of(8)
}

/// A buffer of `length` bytes to receive into, and the array, as an entry names them.
fn room(lent: &mut Lent, length: u32) -> (Buffer, CapArray) {
    (Buffer { address: address(&mut lent.received), length }, lent.array(MAX_CAPS))
}

/// Receives one call, with at most `bytes` bytes of parameters.
async fn receive(endpoint: u64, bytes: u32) -> Result<Received, Status> {
    let length = room_for(bytes);
    let size = usize::try_from(length).unwrap_or(0);
    let mut lent = runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.lend(size))).unwrap_or_default();
    let (buffer, caps) = room(&mut lent, length);
    let operation = Operation::Recv { endpoint, buffer, caps };
    let (completion, lent) = run(lent, operation).await;
    match transport(&completion) {
        Ok(()) => Ok(received(&completion, lent)),
        Err(status) => {
            give_back(lent);
            Err(status)
        }
    }
}

/// The call that came.
fn received(completion: &Completion, lent: Box<Lent>) -> Received {
    let caps = lent.handles(completion, KernelCap::own);
    let header = lent.header().unwrap_or_default();
    let reply = (header.reply != 0).then_some(Reply { id: header.reply, unused: true });
    let start = MessageHeader::SIZE / 8;
    let words = whole_words(usize::try_from(header.length).unwrap_or(0));
    let words = lent.received.get(start..start.saturating_add(words)).unwrap_or_default().to_vec();
    Received { header, message: IncomingMessage { words, caps }, reply, lent }
}

/// Answers a call with results that have no capabilities, and receives the next one. `None` if that has to be tried
/// again separately; the call is still answered.
async fn answer_and_receive(
    mut reply: Reply,
    results: Vec<Word>,
    (endpoint, bytes): (u64, u32),
    mut lent: Box<Lent>,
) -> Option<Received> {
    lent.sent = results;
    let (buffer, caps) = room(&mut lent, room_for(bytes));
    let length = u32::try_from(lent.sent.len().saturating_mul(8)).unwrap_or(u32::MAX);
    let results = Buffer { address: address(&mut lent.sent), length };
    let operation = Operation::ReturnRecv { reply: reply.id, endpoint, exception: 0, results, buffer, caps };
    let (completion, mut lent) = run(lent, operation).await;
    let words = core::mem::take(&mut lent.sent);
    if transport(&completion).is_ok() {
        reply.unused = false;
        return Some(received(&completion, lent));
    }
    // One of the two was refused. A call that was answered already rejects another answer; an error that keeps this
    // process from receiving does so again.
    give_back(lent);
    reply.send(Ok(Message { words, caps: Vec::new() })).await;
    None
}

/// The right to answer one call. Dropping it unused reports to the caller that the call was dropped.
struct Reply {
    id: u64,
    unused: bool,
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.unused {
            release(self.id);
        }
    }
}

impl Reply {
    /// Answers the call. The caller learns of an error that keeps the answer from arriving.
    async fn send(self, result: Result<Message, Exception>) {
        let result = result.and_then(|message| {
            let bytes = message.words.len().saturating_mul(8);
            if bytes > usize::try_from(MAX_MESSAGE).unwrap_or(0) || message.caps.len() > usize::from(MAX_CAPS) {
                return Err(Exception::failed(
                    "the results are larger than a message may be (1 MiB, 16 capabilities); the service should send memory",
                ));
            }
            Ok((message, bytes))
        });
        let (exception, message, bytes) = match result {
            Ok((message, bytes)) => (0, message, bytes),
            Err(error) => {
                let reason = error.reason_bytes();
                let mut words = Word::allocate_zeroed_vec(reason.len().div_ceil(8));
                for (to, from) in Word::words_to_bytes_mut(&mut words).iter_mut().zip(reason) {
                    *to = *from;
                }
                let exception = u8::try_from(error.kind as i32).unwrap_or(1);
                (exception, Message { words, caps: Vec::new() }, reason.len())
            }
        };
        self.give(exception, message, bytes).await;
    }

    /// Gives an answer of `bytes` bytes.
    async fn give(mut self, exception: u8, message: Message, bytes: usize) {
        let mut lent = runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.lend(0))).unwrap_or_default();
        (lent.sent, lent.sent_caps) = (message.words, message.caps);
        let caps = lent.array(0);
        let results = Buffer { address: address(&mut lent.sent), length: u32::try_from(bytes).unwrap_or(0) };
        let operation = Operation::Return { reply: self.id, exception, results, caps };
        let (completion, lent) = run(lent, operation).await;
        // The reply capability is used up by an accepted RETURN, whatever happened to the results.
        if transport(&completion).is_ok() || completion.status == Status::TooLarge as i32 {
            lent.moved_away();
            self.unused = false;
        }
        give_back(lent);
    }
}

/// Lets a number of calls through at a time.
struct Gate {
    free: Cell<u16>,
    waiting: Waiters,
}

/// One place inside the gate, given back when dropped.
struct Pass(Rc<Gate>);

impl Gate {
    fn new(places: u16) -> Self {
        Self { free: Cell::new(places), waiting: Waiters::default() }
    }

    async fn enter(self: &Rc<Self>) -> Pass {
        self.waiting
            .until(|| {
                self.free.set(self.free.get().checked_sub(1)?);
                Some(Pass(self.clone()))
            })
            .await
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get().saturating_add(1));
        self.0.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;

    use capos_async_lock::Woken;

    use super::*;

    #[test]
    fn a_call_before_a_full_gate_is_woken_once() {
        let gate = Rc::new(Gate::new(0));
        let (woken, waker) = Woken::new();
        let mut call = pin!(gate.enter());
        for _ in 0..1000 {
            assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(Pass(gate.clone()));
        assert_eq!(woken.count(), 1);
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
}

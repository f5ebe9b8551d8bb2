//! The server's side: receiving calls, finding the object they are for, answering.
//!
//! Badges of capabilities that the manifest made hold the ordinal of the provided interface (bits
//! 0 to 15) and the client's number (bits 16 to 31). Badges that the service makes itself have bit
//! 63 set, the instance's epoch in bits 32 to 62 and a counter below, so that a capability of an
//! instance that died is told from one of this instance. Badges with bit 62 alone are durable: the
//! rest is a key of the service's own, from which any instance finds the object again.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{ExceptionKind, MessageHeader, Status};
use capos_ring::message::{Lent, address, cap_array, transport, whole_words};
use capos_schema::cap::{CallContext, CallError, Cap, Client, Dispatch, Exception, Export, IncomingMessage, Message};
use capos_schema::kernel::{CapabilityTableClient, EndpointClient};

use crate::call::{give_back, wait_for};
use crate::capability::KernelCap;
use crate::env::ClientInfo;
use crate::error::Error;
use crate::operation::Pending;
use crate::runtime;
use crate::task::TaskGroup;
use crate::watch::{Watch, unless_cancelled};

/// Set in badges that a service makes itself.
const EXPORTED: u64 = 1 << 63;
/// Set, without bit 63, in badges that outlive the instance.
const DURABLE: u64 = 1 << 62;
/// Exports before the first look for those that nobody holds any more.
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

/// What answers for one provided interface.
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

    /// Lets go of the objects that it answers with. They may hold the surroundings of their process, and those this server:
    /// in a test, whose memory does not go with a process, they would keep each other.
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

    /// Says how to find the objects behind durable capabilities, those of earlier instances of the
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
    /// The object lives as long as anybody holds a capability to it: this process a clone of what
    /// is returned, or another process one that it was sent. What nobody holds any more is found
    /// from time to time, when the number of exported objects has doubled, or by
    /// [`Server::sweep`]; [`Server::unexport`] ends an object at once. The kernel, where it calls an
    /// object as a pager, holds no capability that counts: keep one here.
    ///
    /// On `std` the thread that exports an object is the one that has to answer for it: where another answers at the
    /// process's endpoint, calls through the capability learn that the object has ended.
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

    /// Drops the exported objects that nobody holds any more. Says how many.
    pub fn sweep(&self) -> usize {
        let held: BTreeSet<u64> = match self.table.as_ref().map(|table| wait_for(table.list())) {
            Some(Ok(infos)) => infos.into_iter().filter(|info| info.descendants > 0).map(|info| info.id).collect(),
            // Without its table a process cannot tell, so everything stays.
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
        let badge =
            self.exported.borrow().iter().find(|(_, entry)| entry.cap.id() == cap.id()).map(|(badge, _)| *badge);
        if let Some(badge) = badge {
            if let Some(table) = &self.table {
                drop(wait_for(table.revoke(cap.id())));
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
                "the object behind this capability has ended"
            } else {
                "the object behind this capability was lost when the service restarted"
            }));
        }
        if badge & DURABLE != 0 {
            let found = self.durable.borrow().as_ref().and_then(|find| find(badge & !DURABLE));
            return found.ok_or_else(|| CallError::disconnected("the object behind this capability has ended"));
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
    /// There is no endpoint, it is gone, or a received message makes no sense.
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
        loop {
            let pass = limit.enter().await;
            let received = receive(cap, options.message_bytes)
                .await
                .map_err(|status| Error::new(format!("cannot receive calls at the endpoint `serve`: {status}")))?;
            let server = self.clone();
            calls.spawn(async move {
                server.answer(received).await;
                drop(pass);
            });
        }
    }

    async fn answer(&self, received: Received) {
        let Received { header, message, reply } = received;
        let cx = CallContext { badge: header.badge, interface: header.interface, reply: header.reply };
        // Kept until the answer was sent, which ends the wait without a CANCEL.
        let mut watch = Watch::new(header.reply);
        let result = match self.find(header.badge) {
            Ok(object) if !object.implements(header.interface) => {
                Err(CallError::unimplemented(format!("the object does not offer interface {:#018x}", header.interface)))
            }
            Ok(object) if reply.is_some() && object.is_abortable(header.interface, header.method) => {
                let work = object.dispatch(cx, header.method, message);
                match unless_cancelled(&mut watch, work).await {
                    Some(result) => result,
                    None => return,
                }
            }
            Ok(object) => object.dispatch(cx, header.method, message).await,
            Err(error) => Err(error),
        };
        if let Some(reply) = reply {
            reply.send(result.map_err(CallError::into_exception)).await;
        }
    }
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
}

/// The right to answer one call. Dropping it unused tells the caller that the call was dropped.
struct Reply(Cap);

async fn receive(endpoint: u64, bytes: u32) -> Result<Received, Status> {
    let length = bytes.saturating_add(64).min(MAX_MESSAGE).next_multiple_of(8);
    let mut buffer =
        runtime::with(|rt| rt.reactor(|reactor, _| reactor.pool.take(usize::try_from(length).unwrap_or(0))))
            .unwrap_or_default();
    let mut caps = cap_array(&[], MAX_CAPS);
    let operation = Operation::Recv {
        endpoint,
        buffer: Buffer { address: address(&mut buffer), length },
        caps: CapArray { address: address(&mut caps), sent: 0, accepted: MAX_CAPS },
    };
    let lent = Lent { received: buffer, caps, ..Lent::default() };
    let (completion, lent) = Pending::start(lent, operation).await;
    if let Err(status) = transport(&completion) {
        give_back(lent.received);
        return Err(status);
    }
    let caps: Vec<Cap> =
        lent.received_caps(completion.caps).map(|(id, interface)| KernelCap::own(id, interface)).collect();
    let header = lent.header().unwrap_or_default();
    let reply = (header.reply != 0).then(|| Reply(KernelCap::own(header.reply, 0)));
    let start = MessageHeader::SIZE / 8;
    let words = whole_words(usize::try_from(header.length).unwrap_or(0));
    let message = lent.received.get(start..start.saturating_add(words)).unwrap_or_default().to_vec();
    give_back(lent.received);
    Ok(Received { header, message: IncomingMessage { words: message, caps }, reply })
}

impl Reply {
    /// Answers the call. What keeps the answer from arriving is the caller's to learn.
    async fn send(self, result: Result<Message, Exception>) {
        let reply = self.0.id();
        let (exception, message) = match result {
            Ok(message) => (0, message),
            Err(error) => {
                let bytes = error.reason_bytes();
                let mut words = Word::allocate_zeroed_vec(bytes.len().div_ceil(8));
                for (to, from) in Word::words_to_bytes_mut(&mut words).iter_mut().zip(bytes) {
                    *to = *from;
                }
                let length = bytes.len();
                self.finish(reply, error.kind, words, length).await;
                return;
            }
        };
        let mut words = message.words;
        let length = u32::try_from(words.len().saturating_mul(8)).unwrap_or(u32::MAX);
        if length > MAX_MESSAGE || message.caps.len() > usize::from(MAX_CAPS) {
            let error = Exception::failed(
                "the results are larger than a message may be (1 MiB, 16 capabilities); the service should send memory",
            );
            let mut words = Word::allocate_zeroed_vec(error.reason_bytes().len().div_ceil(8));
            for (to, from) in Word::words_to_bytes_mut(&mut words).iter_mut().zip(error.reason_bytes()) {
                *to = *from;
            }
            let length = error.reason_bytes().len();
            self.finish(reply, error.kind, words, length).await;
            return;
        }
        let mut caps = cap_array(&message.caps, 0);
        let operation = Operation::Return {
            reply,
            exception,
            results: Buffer { address: address(&mut words), length },
            caps: CapArray {
                address: address(&mut caps),
                sent: u8::try_from(message.caps.len()).unwrap_or(MAX_CAPS),
                accepted: 0,
            },
        };
        let lent = Lent { sent: words, sent_caps: message.caps, caps, ..Lent::default() };
        self.returned(Pending::start(lent, operation)).await;
    }

    async fn finish(self, reply: u64, kind: ExceptionKind, mut words: Vec<Word>, length: usize) {
        let operation = Operation::Return {
            reply,
            exception: u8::try_from(kind as i32).unwrap_or(1),
            results: Buffer { address: address(&mut words), length: u32::try_from(length).unwrap_or(0) },
            caps: CapArray::default(),
        };
        let lent = Lent { sent: words, ..Lent::default() };
        self.returned(Pending::start(lent, operation)).await;
    }

    /// The reply capability is used up by a RETURN that was taken, whatever became of the results.
    async fn returned(self, pending: Pending) {
        let (completion, lent) = pending.await;
        let used = transport(&completion).is_ok() || completion.status == Status::TooLarge as i32;
        if used {
            lent.moved_away();
            self.0.transport().forget();
        }
    }
}

/// Lets a number of calls through at a time.
struct Gate {
    free: Cell<u16>,
    waiting: RefCell<Vec<core::task::Waker>>,
}

/// One place behind the gate, given back when dropped.
struct Pass(Rc<Gate>);

impl Gate {
    fn new(places: u16) -> Self {
        Self { free: Cell::new(places), waiting: RefCell::default() }
    }

    async fn enter(self: &Rc<Self>) -> Pass {
        core::future::poll_fn(|context| match self.free.get().checked_sub(1) {
            Some(left) => {
                self.free.set(left);
                core::task::Poll::Ready(Pass(self.clone()))
            }
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                core::task::Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get().saturating_add(1));
        let waiting = core::mem::take(&mut *self.0.waiting.borrow_mut());
        for waker in waiting {
            waker.wake();
        }
    }
}

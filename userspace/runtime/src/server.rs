//! The server's side: receiving calls, finding the object they are for, answering.
//!
//! Badges of capabilities that the manifest made hold the ordinal of the provided interface (bits
//! 0 to 15) and the client's number (bits 16 to 31). Badges that the service makes itself have bit
//! 63 set, the instance's epoch in bits 32 to 62 and a counter below. So a capability of a dead
//! instance differs from one of this instance. Badges with bit 62 alone are durable: the rest is a
//! key of the service's own, from which any instance finds the object again.

mod calls;

pub use calls::refuse_calls;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

use calls::Gate;
use capos_schema::cap::{CallError, Cap, Client, Dispatch, Export};
use capos_schema::kernel::{CapabilityTableClient, EndpointClient};

use crate::call::wait_for;
use crate::capability::capabilities;
use crate::env::ClientInfo;
use crate::error::Error;
use crate::runtime;
use crate::task::TaskGroup;

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
        let held: BTreeSet<u64> = match self.table.as_ref().map(|table| wait_for(capabilities(table))) {
            Some(Ok(infos)) => infos.into_iter().filter(|info| info.derived).map(|info| info.id).collect(),
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
}

impl Export for Server {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        Server::export(self, object)
    }
}

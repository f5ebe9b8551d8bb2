//! A process's grants: its name, its arguments, its capabilities.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_schema::cap::{CallError, Cap, Client, Dispatch, Export};
use capos_schema::kernel::LaunchRecord;

use crate::capability::{KernelCap, interface_of};
use crate::clock::Clock;
use crate::error::Error;
use crate::server::{ServeOptions, Server};

#[derive(Debug)]
struct Inner {
    name: String,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    caps: BTreeMap<String, Cap>,
    server: Rc<Server>,
}

/// A process's surroundings. Clones are the same.
#[derive(Clone, Debug)]
pub struct Env {
    inner: Rc<Inner>,
}

/// A client that the manifest gave a capability to this service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its number in the manifest's order.
    pub number: u16,
    /// Its service's name; empty if the launch record does not have it.
    pub name: String,
}

static PROCESSORS: AtomicU32 = AtomicU32::new(1);

/// How many processors run threads: for programs that share work among threads.
#[must_use]
pub fn processors() -> u32 {
    PROCESSORS.load(Ordering::Relaxed)
}

impl Env {
    /// The surroundings that a launch record describes.
    pub(crate) fn new(record: LaunchRecord) -> Self {
        PROCESSORS.store(record.processors.max(1), Ordering::Relaxed);
        let mut caps = BTreeMap::new();
        for named in record.capabilities {
            caps.insert(named.name, KernelCap::granted(named.id, named.interface));
        }
        let environment: BTreeMap<String, String> = record
            .environment
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let server = Server::new(caps.get("serve").cloned(), caps.get("table").cloned(), &environment);
        Self {
            inner: Rc::new(Inner {
                name: record.name,
                arguments: record.arguments,
                environment,
                caps,
                server: Rc::new(server),
            }),
        }
    }

    /// The process's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its arguments, without its name.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.inner.arguments
    }

    /// A variable of its environment.
    #[must_use]
    pub fn variable(&self, key: &str) -> Option<&str> {
        self.inner.environment.get(key).map(String::as_str)
    }

    /// A capability that it was given, by name.
    ///
    /// # Errors
    /// There is none with this name, or it offers another interface.
    pub fn cap<C: Client>(&self, name: &str) -> Result<C, Error> {
        let Some(cap) = self.inner.caps.get(name) else {
            let held: Vec<&str> = self.inner.caps.keys().map(String::as_str).collect();
            return Err(Error::new(format!(
                "`{}` was given no capability `{name}` ({}); it holds: {}. Grant it in the manifest",
                self.inner.name,
                C::NAME,
                held.join(", ")
            )));
        };
        let found = interface_of(cap);
        if found != C::INTERFACE_ID && !is_untyped(C::INTERFACE_ID) {
            return Err(Error::new(format!(
                "capability `{name}` of `{}` offers interface {found:#018x}, not {} ({:#018x}); correct the grant in the manifest",
                self.inner.name,
                C::NAME,
                C::INTERFACE_ID
            )));
        }
        Ok(C::from_cap(cap.clone()))
    }

    /// The same, for an optional capability.
    ///
    /// # Errors
    /// It is there and offers another interface.
    pub fn optional<C: Client>(&self, name: &str) -> Result<Option<C>, Error> {
        if self.inner.caps.contains_key(name) { self.cap(name).map(Some) } else { Ok(None) }
    }

    /// All capabilities that one grant of the manifest became. If it is of a driver of several devices there is one for
    /// each: `NAME`, `NAME-2`, `NAME-3` and so on.
    ///
    /// # Errors
    /// As [`Env::cap`], for one that is there.
    pub fn each<C: Client>(&self, name: &str) -> Result<Vec<C>, Error> {
        let mut all = Vec::new();
        let mut next = self.optional(name)?;
        while let Some(found) = next {
            all.push(found);
            next = self.optional(&format!("{name}-{}", all.len().saturating_add(1)))?;
        }
        Ok(all)
    }

    /// A capability of whatever interface.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<Cap> {
        self.inner.caps.get(name).cloned()
    }

    /// Names of all that it was given, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.caps.keys().map(String::as_str)
    }

    /// The clock.
    ///
    /// # Errors
    /// The process was given no `timer`.
    pub fn clock(&self) -> Result<Clock, Error> {
        Ok(Clock::new(self.cap("timer")?))
    }

    /// The server at the endpoint `serve`.
    #[must_use]
    pub fn server(&self) -> &Rc<Server> {
        &self.inner.server
    }

    /// Answers the calls of all manifest-made capabilities of one provided interface, by its
    /// ordinal in the manifest's `provides`, with one object.
    pub fn serve(&self, ordinal: u16, object: Rc<dyn Dispatch>) {
        self.inner.server.serve(ordinal, object);
    }

    /// The same with an object for each client, made at its first call.
    pub fn serve_clients(&self, ordinal: u16, make: impl Fn(&ClientInfo) -> Rc<dyn Dispatch> + 'static) {
        self.inner.server.serve_clients(ordinal, make);
    }

    /// A capability to an object of this process. See [`Server::export`] for how long it lives.
    ///
    /// # Errors
    /// The process has no endpoint, or no room for a capability.
    pub fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        self.inner.server.export(object)
    }

    /// Receives and answers calls for ever, with the usual buffers.
    ///
    /// # Errors
    /// The process has no endpoint `serve`, or it is gone.
    pub async fn run(&self) -> Result<(), Error> {
        self.inner.server.run(ServeOptions::default()).await
    }

    /// The same with buffers of the service's choice.
    ///
    /// # Errors
    /// The process has no endpoint `serve`, or it is gone.
    pub async fn run_with(&self, options: ServeOptions) -> Result<(), Error> {
        self.inner.server.run(options).await
    }
}

impl Export for Env {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        self.inner.server.export(object)
    }
}

/// `Object` stands for any interface.
fn is_untyped(interface: u64) -> bool {
    interface == <capos_schema::kernel::ObjectClient as Client>::INTERFACE_ID
}

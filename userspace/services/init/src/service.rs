//! One service: its manifest entry, and its state.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, RefCell};

use capos_async_lock::Waiters;
use capos_process::{Image, Started};
use capos_schema::kernel::{EndpointClient, ProcessClient};
use capos_schema::manifest::Service as Entry;
use capos_schema::system::{ServiceInfo, ServiceState};

use crate::restarts::Restarts;

/// The requested state of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// That it runs.
    Run,
    /// That it does not.
    Stop,
}

/// A service of the manifest.
#[derive(Debug)]
pub struct Service {
    /// Its manifest entry.
    pub entry: Entry,
    /// Where its clients' calls arrive, over all its lives.
    pub endpoint: EndpointClient,
    /// Its program, once it was read.
    pub image: RefCell<Option<Rc<Image>>>,
    /// Its process, while it runs.
    pub running: RefCell<Option<Started>>,
    /// The requested state.
    pub wish: Cell<Wish>,
    /// Whether its next death was requested.
    pub expected: Cell<bool>,
    /// Notified at every change of the request or of the state.
    pub changed: Waiters,
    /// Processes that its present life has had started, by number, until they end.
    pub spawned: RefCell<BTreeMap<u64, ProcessClient>>,
    /// The number of the next one.
    pub next_spawned: Cell<u64>,
    state: Cell<ServiceState>,
    starts: Cell<u32>,
    last_exit: RefCell<String>,
    restarts: RefCell<Restarts>,
}

impl Service {
    /// A service that has not been started.
    pub fn new(entry: Entry, endpoint: EndpointClient) -> Self {
        Self {
            restarts: RefCell::new(Restarts::new(entry.max_restarts, entry.per_seconds)),
            entry,
            endpoint,
            image: RefCell::default(),
            running: RefCell::default(),
            wish: Cell::new(Wish::Run),
            expected: Cell::new(false),
            changed: Waiters::default(),
            spawned: RefCell::default(),
            next_spawned: Cell::new(0),
            state: Cell::new(ServiceState::Stopped),
            starts: Cell::new(0),
            last_exit: RefCell::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its state.
    pub fn state(&self) -> ServiceState {
        self.state.get()
    }

    /// Notes a new state.
    pub fn set_state(&self, state: ServiceState) {
        self.state.set(state);
        self.changed.wake();
    }

    /// Counts a start; says how many there were before.
    pub fn count_start(&self) -> u32 {
        let before = self.starts.get();
        self.starts.set(before.saturating_add(1));
        before
    }

    /// How often it was started.
    pub fn starts(&self) -> u32 {
        self.starts.get()
    }

    /// How it last ended, as text.
    pub fn last_exit(&self) -> String {
        self.last_exit.borrow().clone()
    }

    /// Notes how it ended.
    pub fn set_last_exit(&self, words: String) {
        *self.last_exit.borrow_mut() = words;
    }

    /// Notes a death at this time. Whether another start is within bounds.
    pub fn may_restart(&self, now: u64) -> bool {
        self.restarts.borrow_mut().may_follow(now)
    }

    /// Forgets its deaths: a restart by hand is a new chance.
    pub fn forgive(&self) {
        self.restarts.borrow_mut().forgive();
    }

    /// Its description for clients.
    pub async fn info(&self) -> ServiceInfo {
        let account = self.running.borrow().as_ref().map(|started| started.account.clone());
        let frames = match account {
            Some(account) => account.usage().await.map_or(0, |usage| usage.usage.frames),
            None => 0,
        };
        ServiceInfo {
            name: self.entry.name.clone(),
            state: self.state(),
            restarts: self.starts.get().saturating_sub(1),
            max_restarts: self.entry.max_restarts,
            last_exit: self.last_exit(),
            frames,
            description: self.entry.description.clone(),
        }
    }
}

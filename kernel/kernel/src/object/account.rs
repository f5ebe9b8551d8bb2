//! ResourceAccount: who pays for kernel resources, and how much it may hold.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_abi::Status;

use crate::run_queue;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Resource {
    /// 4 KiB frames.
    Frames,
    /// Capability slots.
    Capabilities,
    Threads,
    Processes,
    /// Other kernel objects.
    Objects,
}

/// How many kinds of resource there are.
pub const RESOURCES: usize = 5;

const ALL: [Resource; RESOURCES] =
    [Resource::Frames, Resource::Capabilities, Resource::Threads, Resource::Processes, Resource::Objects];

/// Amounts of each resource, in the order of [`Resource`].
pub type Amounts = [u64; RESOURCES];

/// An account. Its limits are carved out of its parent's and go back when the last use of it ends.
#[derive(Debug)]
pub struct Account {
    parent: Option<Arc<Account>>,
    limits: Amounts,
    /// What the parent has paid for it: its limits and, where nothing else bounds how many accounts there
    /// are, itself.
    cost: Amounts,
    used: [AtomicU64; RESOURCES],
    /// The highest priority that its threads may have.
    priority: i8,
    /// Processor time used by this account's threads, nanoseconds.
    pub cpu_nanoseconds: AtomicU64,
}

impl Account {
    /// The account that everything is carved from.
    pub fn root(limits: Amounts) -> Arc<Self> {
        Self::with(None, limits, [0; RESOURCES], run_queue::HIGHEST)
    }

    fn with(parent: Option<Arc<Account>>, limits: Amounts, cost: Amounts, priority: i8) -> Arc<Self> {
        Arc::new(Self { parent, limits, cost, used: Default::default(), priority, cpu_nanoseconds: AtomicU64::new(0) })
    }

    /// A child with these limits, which count as used here from now on. Something else that is paid for
    /// must hold it: a process. Its threads' priorities are `priority` at most, and never above what this
    /// account's may be.
    ///
    /// # Errors
    /// [`Status::QuotaExceeded`] where this account cannot cover them.
    pub fn carve(self: &Arc<Self>, limits: Amounts, priority: i8) -> Result<Arc<Self>, Status> {
        self.carve_at(limits, limits, priority)
    }

    /// A child with these limits that is an object of its own. Since an account keeps its parent, a chain of
    /// them that cost nothing could take all of the kernel's heap.
    ///
    /// # Errors
    /// As [`Account::carve`].
    pub fn carve_object(self: &Arc<Self>, limits: Amounts, priority: i8) -> Result<Arc<Self>, Status> {
        let [frames, capabilities, threads, processes, objects] = limits;
        self.carve_at(limits, [frames, capabilities, threads, processes, objects.saturating_add(1)], priority)
    }

    fn carve_at(self: &Arc<Self>, limits: Amounts, cost: Amounts, priority: i8) -> Result<Arc<Self>, Status> {
        for (done, (resource, amount)) in ALL.into_iter().zip(cost).enumerate() {
            if let Err(status) = self.charge(resource, amount) {
                for (resource, amount) in ALL.into_iter().zip(cost).take(done) {
                    self.refund(resource, amount);
                }
                return Err(status);
            }
        }
        let priority = priority.clamp(run_queue::LOWEST, self.priority);
        Ok(Self::with(Some(Arc::clone(self)), limits, cost, priority))
    }

    fn counter(&self, resource: Resource) -> (&AtomicU64, u64) {
        let [frames, capabilities, threads, processes, objects] = &self.used;
        let [f, c, t, p, o] = self.limits;
        match resource {
            Resource::Frames => (frames, f),
            Resource::Capabilities => (capabilities, c),
            Resource::Threads => (threads, t),
            Resource::Processes => (processes, p),
            Resource::Objects => (objects, o),
        }
    }

    /// Takes an amount out of what is left.
    ///
    /// # Errors
    /// [`Status::QuotaExceeded`]; nothing is taken then.
    pub fn charge(&self, resource: Resource, amount: u64) -> Result<(), Status> {
        let (counter, limit) = self.counter(resource);
        counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(amount).filter(|sum| *sum <= limit)
            })
            .map(|_| ())
            .map_err(|_| Status::QuotaExceeded)
    }

    /// Gives back what was charged.
    pub fn refund(&self, resource: Resource, amount: u64) {
        self.counter(resource).0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Charges until the returned value is dropped.
    ///
    /// # Errors
    /// [`Status::QuotaExceeded`].
    pub fn hold(self: &Arc<Self>, resource: Resource, amount: u64) -> Result<Charge, Status> {
        self.charge(resource, amount)?;
        Ok(Charge { account: Arc::clone(self), resource, amount })
    }

    /// Whether this account was carved out of `other`, at however many removes.
    pub fn is_below(&self, other: &Account) -> bool {
        let mut parent = self.parent.as_deref();
        while let Some(account) = parent {
            if core::ptr::eq(account, other) {
                return true;
            }
            parent = account.parent.as_deref();
        }
        false
    }

    /// What is held now, children's limits included.
    pub fn usage(&self) -> Amounts {
        ALL.map(|resource| self.counter(resource).0.load(Ordering::Relaxed))
    }

    /// The highest priority that its threads may have.
    pub fn priority(&self) -> i8 {
        self.priority
    }

    /// What may be held.
    pub fn limits(&self) -> Amounts {
        self.limits
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let (mut parent, mut cost) = (self.parent.take(), self.cost);
        let mut used = *self.cpu_nanoseconds.get_mut();
        // Where this was the last use of the parent, that ends as well: in this loop, since the kernel's
        // stack has no room for a long chain of ends in each other.
        while let Some(account) = parent {
            for (resource, amount) in ALL.into_iter().zip(cost) {
                account.refund(resource, amount);
            }
            account.cpu_nanoseconds.fetch_add(used, Ordering::Relaxed);
            let Some(mut last) = Arc::into_inner(account) else { return };
            (parent, cost) = (last.parent.take(), last.cost);
            used = *last.cpu_nanoseconds.get_mut();
        }
    }
}

/// Something paid for; given back on drop.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    resource: Resource,
    amount: u64,
}

impl Charge {
    /// Who pays.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.refund(self.resource, self.amount);
    }
}

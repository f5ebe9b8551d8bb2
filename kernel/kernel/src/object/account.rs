//! ResourceAccount: who pays for kernel resources, and how much it may hold.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use capos_abi::Status;
use spin::Mutex;

use crate::object::cpu_time::CpuTime;
use crate::object::priority;

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

/// How many accounts may lie above one. Each is gone through where a process ends, by every process that there is.
pub const DEEPEST: u32 = 32;

/// Why no account can be carved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CarveError {
    /// The account that it would be carved from cannot cover its limits.
    QuotaExceeded,
    /// [`DEEPEST`] accounts lie above the one that it would be carved from.
    TooDeep,
}

impl From<Status> for CarveError {
    fn from(_: Status) -> Self {
        Self::QuotaExceeded
    }
}

/// In a counter: the account has retired, and what is counted there is its parent's by now. Limits stay below.
const RETIRED: u64 = 1 << 63;

/// An account. Its limits are carved out of its parent's.
///
/// It *retires* with its process, or with the last capability to it where it is an object of its own. It then
/// gives back what of its limits is not in use, and is one with its parent from then on: nothing more can be
/// charged to it, and what is still in use is given back to the parent as it ends. So whoever keeps an object of
/// a process that is gone keeps that object from who paid for the process, and nothing else.
#[derive(Debug)]
pub struct Account {
    /// Of one that has retired, this may be an ancestor: what lies between has retired as well.
    parent: Mutex<Option<Arc<Account>>>,
    /// How many accounts lay above it when it was carved. Nearer to the root it is less.
    depth: u32,
    limits: [AtomicU64; RESOURCES],
    /// Objects that the parent has paid for beside the limits: itself, where nothing else bounds how many
    /// accounts there are.
    own: u64,
    used: [AtomicU64; RESOURCES],
    /// Its process must end: nothing is carved out of it any more.
    closed: AtomicBool,
    /// All of its counters say that it has retired, and the parent has what was left.
    retired: AtomicBool,
    /// Capability slots that designate it, and the process that it was carved for.
    holders: AtomicU32,
    /// The highest priority that its threads may have.
    priority: i8,
    /// CPU time used by this account's threads, ticks of the time-stamp counter.
    pub cpu_ticks: AtomicU64,
    /// How much of it there may be.
    pub(super) cpu: CpuTime,
}

impl Account {
    /// The account that everything is carved from.
    pub fn root(limits: Amounts) -> Arc<Self> {
        Self::with(None, limits, 0, priority::HIGHEST)
    }

    fn with(parent: Option<Arc<Account>>, limits: Amounts, own: u64, priority: i8) -> Arc<Self> {
        let limited = parent.as_ref().is_some_and(|parent| parent.cpu_limiter().is_some());
        Arc::new(Self {
            depth: parent.as_ref().map_or(0, |parent| parent.depth.saturating_add(1)),
            parent: Mutex::new(parent),
            limits: limits.map(AtomicU64::new),
            own,
            used: Default::default(),
            closed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            holders: AtomicU32::new(0),
            priority,
            cpu_ticks: AtomicU64::new(0),
            cpu: CpuTime::new(limited),
        })
    }

    /// A child with these limits, which count as used here from now on. Something else that is paid for
    /// must hold it: a process. Its threads' priorities are `priority` at most, and never above what this
    /// account's may be.
    ///
    /// # Errors
    /// [`CarveError`]; nothing is carved then.
    pub fn carve(self: &Arc<Self>, limits: Amounts, priority: i8) -> Result<Arc<Self>, CarveError> {
        self.carve_with(limits, 0, priority)
    }

    /// A child with these limits that is an object of its own. Since an account keeps its parent, a chain of
    /// them that cost nothing could take all of the kernel's heap.
    ///
    /// # Errors
    /// As [`Account::carve`].
    pub fn carve_object(self: &Arc<Self>, limits: Amounts, priority: i8) -> Result<Arc<Self>, CarveError> {
        self.carve_with(limits, 1, priority)
    }

    fn carve_with(self: &Arc<Self>, limits: Amounts, own: u64, priority: i8) -> Result<Arc<Self>, CarveError> {
        if self.depth >= DEEPEST {
            return Err(CarveError::TooDeep);
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(CarveError::QuotaExceeded);
        }
        let cost = cost(limits, own);
        for (done, (resource, amount)) in ALL.into_iter().zip(cost).enumerate() {
            if let Err(status) = self.charge(resource, amount) {
                for (resource, amount) in ALL.into_iter().zip(cost).take(done) {
                    self.refund(resource, amount);
                }
                return Err(status.into());
            }
        }
        let priority = priority.clamp(priority::LOWEST, self.priority);
        Ok(Self::with(Some(Arc::clone(self)), limits, own, priority))
    }

    /// How many accounts lay above it when it was carved.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Nothing is carved out of it any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn counter(&self, resource: Resource) -> (&AtomicU64, &AtomicU64) {
        let [frames, capabilities, threads, processes, objects] = &self.used;
        let [f, c, t, p, o] = &self.limits;
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
    /// [`Status::QuotaExceeded`]; nothing is taken then. An account that has retired has nothing left.
    pub fn charge(&self, resource: Resource, amount: u64) -> Result<(), Status> {
        let (counter, limit) = self.counter(resource);
        let limit = limit.load(Ordering::Relaxed);
        counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(amount).filter(|sum| *sum <= limit)
            })
            .map(|_| ())
            .map_err(|_| Status::QuotaExceeded)
    }

    /// Gives back what was charged.
    pub fn refund(&self, resource: Resource, amount: u64) {
        let before = self.counter(resource).0.fetch_sub(amount, Ordering::Relaxed);
        if before & RETIRED != 0 {
            self.pass_on(resource, amount);
        }
    }

    /// Gives back to whoever this account is one with.
    #[cold]
    fn pass_on(&self, resource: Resource, amount: u64) {
        let mut heir = self.heir();
        while let Some(account) = heir {
            let before = account.counter(resource).0.fetch_sub(amount, Ordering::Relaxed);
            if before & RETIRED == 0 {
                return;
            }
            // It was retiring just now.
            heir = account.heir();
        }
    }

    /// The nearest account above that has not retired. Those between are passed by from then on, so that a
    /// long chain of them is gone through once; but not where one of them may have the limit of CPU time that holds here.
    fn heir(&self) -> Option<Arc<Account>> {
        let heir = self.nearest()?;
        if self.above()?.cpu_limiter().is_none() {
            self.pass_by(&heir);
        }
        Some(heir)
    }

    /// The account that it was carved from, or one further up where that has retired.
    pub(super) fn above(&self) -> Option<Arc<Account>> {
        self.parent.lock().clone()
    }

    /// Lowers the limits to these at most. None goes below what is in use; the parent has the difference.
    pub fn cut(&self, wanted: Amounts) {
        let Some(parent) = self.above() else { return };
        for (resource, wanted) in ALL.into_iter().zip(wanted) {
            let (counter, limit) = self.counter(resource);
            let needed = counter.load(Ordering::Relaxed).max(wanted);
            let less = limit.load(Ordering::Relaxed).saturating_sub(needed);
            // What is taken out cannot be charged meanwhile. An account that has retired has nothing left to take.
            if less > 0 && self.charge(resource, less).is_ok() {
                limit.fetch_sub(less, Ordering::Relaxed);
                self.refund(resource, less);
                parent.refund(resource, less);
            }
        }
    }

    /// The way up.
    pub fn nearest(&self) -> Option<Arc<Account>> {
        let mut heir = self.parent.lock().clone()?;
        while heir.retired.load(Ordering::Acquire) {
            let above = heir.parent.lock().clone();
            heir = above?;
        }
        Some(heir)
    }

    /// Makes an account that was found on the way up the parent of this one and of those between.
    pub fn pass_by(&self, heir: &Arc<Account>) {
        let mut passed = self.adopt(heir);
        while let Some(account) = passed {
            passed = account.adopt(heir);
        }
    }

    /// Makes an ancestor the parent, where it is nearer to the root than the one before, which is returned then.
    /// Otherwise the ancestor has retired meanwhile, and another processor has passed it by: that stays, and so
    /// does what lies further up. A parent is always nearer to the root, so no chain closes to a circle. Nothing is
    /// locked when this ends.
    fn adopt(&self, heir: &Arc<Account>) -> Option<Arc<Account>> {
        let mut parent = self.parent.lock();
        match &mut *parent {
            Some(parent) if parent.depth > heir.depth => Some(core::mem::replace(parent, Arc::clone(heir))),
            _ => None,
        }
    }

    /// A capability slot designates it from now on, or it is a process's.
    pub fn enter_slot(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// One slot less does; after the last one no capability names it any more.
    pub fn leave_slot(&self) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.retire();
        }
    }

    /// Gives back what is not in use, and becomes one with the parent.
    pub fn retire(&self) {
        for (resource, limit) in ALL.into_iter().zip(&self.limits) {
            let limit = limit.load(Ordering::Relaxed);
            let used = self.counter(resource).0.fetch_or(RETIRED, Ordering::Relaxed);
            if used & RETIRED == 0 {
                self.pass_on(resource, limit.saturating_sub(used));
            }
        }
        self.retired.store(true, Ordering::Release);
    }

    /// Charges until the returned value is dropped.
    ///
    /// # Errors
    /// [`Status::QuotaExceeded`].
    pub fn hold(self: &Arc<Self>, resource: Resource, amount: u64) -> Result<Charge, Status> {
        self.charge(resource, amount)?;
        Ok(Charge { account: Arc::clone(self), resource, amount })
    }

    /// Whether this account was carved out of `other`, at however many removes. `other` has not retired.
    pub fn is_below(&self, other: &Account) -> bool {
        let above = |account: &Account| account.parent.lock().clone().filter(|parent| parent.depth >= other.depth);
        let mut nearest = above(self);
        while let Some(account) = nearest {
            if core::ptr::eq(Arc::as_ptr(&account), other) {
                return true;
            }
            nearest = above(&account);
        }
        false
    }

    /// What is held now, children's limits included. One that has retired holds nothing.
    pub fn usage(&self) -> Amounts {
        ALL.map(|resource| self.counter(resource).0.load(Ordering::Relaxed))
            .map(|used| if used & RETIRED == 0 { used } else { 0 })
    }

    /// The highest priority that its threads may have.
    pub fn priority(&self) -> i8 {
        self.priority
    }

    /// What may be held: nothing, once it has retired.
    pub fn limits(&self) -> Amounts {
        if self.has_retired() {
            [0; RESOURCES]
        } else {
            self.limits.each_ref().map(|limit| limit.load(Ordering::Relaxed))
        }
    }

    /// Whether it pays for nothing any more.
    pub fn has_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// What the parent gets back at the end, and the CPU time that is its own from then on.
    fn rest(&mut self) -> (Option<Arc<Account>>, Amounts, u64) {
        // While the parent is there, and with it all those above.
        self.cpu.give_back();
        (self.parent.get_mut().take(), cost(self.limits(), self.own), *self.cpu_ticks.get_mut())
    }
}

/// What an account costs its parent.
fn cost([frames, capabilities, threads, processes, objects]: Amounts, own: u64) -> Amounts {
    [frames, capabilities, threads, processes, objects.saturating_add(own)]
}

impl Drop for Account {
    fn drop(&mut self) {
        let (mut parent, mut rest, mut time) = self.rest();
        // Where this was the last use of the parent, that ends as well: in this loop, since the kernel's
        // stack has no room for a long chain of ends in each other.
        while let Some(account) = parent {
            for (resource, amount) in ALL.into_iter().zip(rest) {
                account.refund(resource, amount);
            }
            account.cpu_ticks.fetch_add(time, Ordering::Relaxed);
            let Some(mut last) = Arc::into_inner(account) else { return };
            (parent, rest, time) = last.rest();
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

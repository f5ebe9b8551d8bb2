//! CPU time of accounts: how much their threads may use in all, and what has been used of it.
//!
//! A limit is set for one account, and is carved out of the nearest limit above, if there is one. An account without a
//! limit of its own uses that of the nearest account above that has one. Where there is none, time is not counted here
//! at all, which keeps the ordinary switch of threads short.
//!
//! A limit stays in its place when its account retires, for those below who use it: no process gets rid of a limit by
//! keeping an account of a process that is gone.

use alloc::format;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use capos_abi::Status;
use spin::Once;

use crate::arch::time;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::Account;
use crate::object::process::{self, Cause, End};
use crate::object::reaper;

/// Whether any account's CPU time was ever limited: where it was not, nothing looks at accounts for it.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether any account's CPU time was ever limited.
#[inline(always)]
pub fn is_any_limited() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// No limit.
const NONE: u64 = u64::MAX;

/// What an account knows of CPU time, in nanoseconds. It changes only while the kernel lock is held exclusively; drops, which have no guard,
/// give back what is left of a limit.
#[derive(Debug)]
pub struct CpuTime {
    /// What may be used; [`NONE`] where nothing bounds it here.
    limit: AtomicU64,
    /// What was used of the limit, and what was carved out of it and has not come back.
    used: AtomicU64,
    /// The account above out of whose limit this one was carved. It lives as long: limits are not passed by.
    from: Once<Weak<Account>>,
    /// There is a limit, here or above, so that threads' time counts. Known for the accounts of processes; one that was
    /// carved as an object may have got one above it later.
    limited: AtomicBool,
    /// Its process has ended: what is left is the parent's, and so is what comes back.
    closed: AtomicBool,
}

impl CpuTime {
    /// No limit of its own; `limited` where there is one above.
    pub fn new(limited: bool) -> Self {
        Self {
            limit: AtomicU64::new(NONE),
            used: AtomicU64::new(0),
            from: Once::new(),
            limited: AtomicBool::new(limited),
            closed: AtomicBool::new(false),
        }
    }

    fn own_limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    fn left(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Counts what was used. What goes beyond the limit, since no entry is interrupted, is used of the limit that this one was
    /// carved out of: who carves time in small pieces has no more of it.
    fn add(&self, amount: u64) {
        let used = self.used.load(Ordering::Relaxed).saturating_add(amount);
        let over = used.saturating_sub(self.limit.load(Ordering::Relaxed));
        self.used.store(used.saturating_sub(over), Ordering::Relaxed);
        if over > 0
            && let Some(from) = self.from.get().and_then(Weak::upgrade)
        {
            from.cpu.add(over);
        }
    }

    /// Lowers a limit; whose it was carved out of has that back.
    fn lower(&self, amount: u64) {
        self.limit.store(self.limit.load(Ordering::Relaxed).saturating_sub(amount), Ordering::Relaxed);
        if let Some(from) = self.from.get().and_then(Weak::upgrade) {
            from.cpu.take_back(amount);
        }
    }

    fn take_back(&self, amount: u64) {
        self.used.store(self.used.load(Ordering::Relaxed).saturating_sub(amount), Ordering::Relaxed);
        if self.closed.load(Ordering::Relaxed) {
            self.lower(amount);
        }
    }

    /// Gives back what is left of a limit: nothing can be used any more.
    pub fn give_back(&self) {
        if self.own_limit().is_some() {
            self.lower(self.left());
        }
    }
}

impl Account {
    /// Whether its threads' time counts against a limit.
    #[inline(always)]
    pub fn is_cpu_limited(&self) -> bool {
        is_any_limited() && self.cpu.limited.load(Ordering::Relaxed)
    }

    /// Its threads' time counts from now on.
    pub fn count_cpu_time(&self, _: &Exclusive) {
        ANY.store(true, Ordering::Relaxed);
        self.cpu.limited.store(true, Ordering::Relaxed);
    }

    /// The account whose limit holds for this one: itself, or the nearest above that has one.
    pub fn cpu_limiter(self: &Arc<Self>) -> Option<Arc<Account>> {
        let mut account = Arc::clone(self);
        while account.cpu.own_limit().is_none() {
            account = account.above()?;
        }
        Some(account)
    }

    /// The limit that is its own, as it was set.
    pub fn cpu_limit(&self) -> Option<u64> {
        self.cpu.own_limit()
    }

    /// What its threads may still use; `None` where nothing limits it.
    pub fn cpu_left(self: &Arc<Self>) -> Option<u64> {
        self.cpu_limiter().map(|limiter| limiter.cpu.left())
    }

    /// Its threads have used so much. Where nothing is left, the processes that used of the same limit end when the
    /// kernel is next left.
    #[cold]
    #[inline(never)]
    pub fn spend(self: &Arc<Self>, _: &Exclusive, amount: u64) {
        if let Some(limiter) = self.cpu_limiter() {
            limiter.cpu.add(amount);
            if limiter.cpu.left() == 0 {
                reaper::end_spent();
            }
        }
    }

    /// Lets its threads use so much from now on, and no more: out of what its parent may use. It has no limit of its
    /// own yet.
    ///
    /// # Errors
    /// [`Status::QuotaExceeded`]: its parent has not so much left; nothing has changed then.
    pub fn limit_cpu(self: &Arc<Self>, lock: &Exclusive, amount: u64) -> Result<(), Status> {
        if let Some(above) = self.above().and_then(|above| above.cpu_limiter()) {
            if above.cpu.left() < amount {
                return Err(Status::QuotaExceeded);
            }
            above.cpu.add(amount);
            self.cpu.from.call_once(|| Arc::downgrade(&above));
        }
        // The largest limit is less than none.
        self.cpu.limit.store(amount.min(NONE - 1), Ordering::Relaxed);
        self.count_cpu_time(lock);
        Ok(())
    }

    /// Lets its threads use so much from now on, or less where they may not use so much.
    ///
    /// # Errors
    /// As [`Account::limit_cpu`]; not where there was a limit, here or above.
    pub fn cut_cpu(self: &Arc<Self>, lock: &Exclusive, amount: u64) -> Result<(), Status> {
        if self.cpu.own_limit().is_some() {
            self.cpu.lower(self.cpu.left().saturating_sub(amount));
        } else {
            self.limit_cpu(lock, self.cpu_left().map_or(amount, |left| left.min(amount)))?;
            process::count_cpu_time_below(lock, self);
        }
        if self.cpu.left() == 0 {
            reaper::end_spent();
        }
        Ok(())
    }

    /// Its process has ended: what is left of a limit of its own is its parent's. A drop that calls this has no guard.
    pub fn close_cpu(&self) {
        self.cpu.give_back();
        self.cpu.closed.store(true, Ordering::Relaxed);
    }

    /// The end of a process of this account, where nothing is left to be used.
    pub fn cpu_end(self: &Arc<Self>) -> Option<End> {
        let limiter = self.cpu_limiter().filter(|limiter| limiter.cpu.left() == 0)?;
        let whose = match Arc::ptr_eq(self, &limiter) {
            true => "its limit of CPU time",
            false => "the limit of CPU time that it shares with its parent",
        };
        let ran = time::lasting(self.cpu_ticks.load(Ordering::Relaxed)) / 1_000_000;
        let report = format!("{whose} is used up; its own threads have run for {}.{:03} s", ran / 1000, ran % 1000);
        Some(End { cause: Cause::CpuTime, code: 0, report })
    }
}

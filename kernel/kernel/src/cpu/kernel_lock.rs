//! The kernel lock: one processor holds it exclusively, or several share it on the fast path of system calls.
//!
//! A processor that enters by a system call waits until no processor holds the lock exclusively, then shares it ([`enter`]). If a later
//! arrival has held it meanwhile, or its thread was ended, it acquires the lock exclusively and processes all entries so. A processor that
//! enters by INVOKE does not wait: the call is made by an entry then ([`try_enter`]). A processor that enters by a fault, or by an interrupt
//! that leaves it something to do, acquires the lock exclusively ([`acquire`]). It releases the lock as the last step before it returns to
//! user mode or idles.
//!
//! # Guards
//!
//! How this processor holds the lock is a type. [`Shared`] and [`Exclusive`] are guards that carry the processor's data. There is one
//! guard at a time on each processor, and only this module makes them.
//!
//! - Code that needs the lock exclusively takes `&mut Exclusive`, or `&Exclusive` where it only looks or only needs the proof. Code in
//!   `memory`, an earlier layer, takes `&mut impl` [`ExclusiveGuard`].
//! - Code that never runs under the exclusive lock takes `&Shared`: direct switches and bound calls.
//! - Code that needs the lock held in either way takes [`Held`], which both lend: the fast path of entries
//!   ([`crate::syscall::fast_path`]), the copies that it makes, and the exit that looks only at the processor's own state
//!   ([`crate::sched::switching::stay_or_switch`]).
//! - A drop has no guard. What it does that needs the lock exclusively says so.
//! - [`Shared::upgrade`] consumes the guard. So nothing that was borrowed from it survives: neither the current thread
//!   ([`crate::sched::lent`]) nor places in user memory.
//! - Functions that do not return take the guard by value.
//!
//! A processor may cache values apart from the objects that they belong to. Code that acquires the lock exclusively first flushes all
//! of them ([`cached`]), so it never observes one.
//!
//! Processors that wait for exclusive access are served in the order of arrival. While they wait, they carry out the requests of the
//! exclusive holder, such as TLB shootdown ([`shootdown::answer`]). Between two exclusive holders, others may share the lock.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_sync::{Presence, SharedLock};
use spin::Once;

#[cfg(feature = "tests")]
use crate::arch::percpu;
use crate::arch::percpu::PerCpu;
use crate::arch::processors::{self, Request};
use crate::memory::shootdown::{self, ExclusiveGuard};

static LOCK: SharedLock = SharedLock::new();

/// How often a processor came to hold it exclusively.
static EXCLUSIVE: AtomicU64 = AtomicU64::new(0);

/// This processor shares the kernel lock.
#[must_use = "the lock stays shared until the guard is released or upgraded"]
pub struct Shared {
    cpu: &'static PerCpu,
    stays: Stays,
}

/// This processor holds the kernel lock exclusively.
#[must_use = "the lock stays held until the guard is released"]
pub struct Exclusive {
    cpu: &'static PerCpu,
    stays: Stays,
}

/// A guard belongs to one processor, so it is neither `Send` nor `Sync`.
type Stays = PhantomData<*const ()>;

/// Proof that this processor shares the kernel lock or holds it exclusively, for as long as the guard is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Held<'lock>(PhantomData<&'lock Stays>);

/// How a processor has entered.
pub enum Entered {
    Shared(Shared),
    Exclusive(Exclusive),
}

impl Shared {
    /// This processor's data.
    #[inline(always)]
    pub fn cpu(&self) -> &'static PerCpu {
        self.cpu
    }

    /// Proof that the lock is held.
    #[inline(always)]
    pub fn held(&self) -> Held<'_> {
        Held(PhantomData)
    }

    /// Waits until this processor has the kernel to itself. Others may have had it before: they may have ended the current thread. No
    /// other lock may be held. Before that `switch_out` switches out the current thread if it waits, which the scheduler's
    /// [`upgrade`](crate::sched::scheduler::upgrade) does; nothing else calls this.
    #[cold]
    pub fn upgrade(self, switch_out: impl FnOnce(&PerCpu)) -> Exclusive {
        switch_out(self.cpu);
        LOCK.exclude(&self.cpu.presence, presences, || wait(self.cpu));
        begin_exclusive(self.cpu)
    }

    /// Releases the lock.
    #[inline(always)]
    pub fn release(self) {
        self.cpu.presence.leave();
    }
}

impl Exclusive {
    /// This processor's data.
    #[inline(always)]
    pub fn cpu(&self) -> &'static PerCpu {
        self.cpu
    }

    /// Proof that the lock is held.
    #[inline(always)]
    pub fn held(&self) -> Held<'_> {
        Held(PhantomData)
    }

    /// Releases the lock.
    #[inline(always)]
    pub fn release(self) {
        LOCK.give();
    }

    /// The guard again, where it could not be passed on as a value.
    ///
    /// # Safety
    /// The processor that runs this is `cpu`. It holds the lock exclusively, and the guard that it had is gone.
    pub unsafe fn assume(cpu: &'static PerCpu) -> Self {
        Self { cpu, stays: PhantomData }
    }
}

// SAFETY: only this module makes guards, where the lock was acquired, or its caller vouches for that (`Exclusive::assume`).
unsafe impl ExclusiveGuard for Exclusive {}

/// The guard of this processor, which holds the lock: the tests of the kernel call functions of several layers in turn, and have no
/// event that a guard could be passed along.
#[cfg(feature = "tests")]
pub fn of_tests() -> Entered {
    let cpu = percpu::current();
    match cpu.presence.is_in() {
        true => Entered::Shared(Shared { cpu, stays: PhantomData }),
        false => Entered::Exclusive(Exclusive { cpu, stays: PhantomData }),
    }
}

/// This processor, whose data these are, enters by a system call: it shares the lock, or holds it exclusively.
#[inline(always)]
pub fn enter(cpu: &'static PerCpu) -> Entered {
    match try_enter(cpu) {
        Some(shared) => Entered::Shared(shared),
        None => wait_to_enter(cpu),
    }
}

/// The same if no processor holds it exclusively. If one does: `None`, and this processor does not share it.
#[inline(always)]
pub fn try_enter(cpu: &'static PerCpu) -> Option<Shared> {
    LOCK.try_share(&cpu.presence).then_some(Shared { cpu, stays: PhantomData })
}

#[cold]
#[inline(never)]
fn wait_to_enter(cpu: &'static PerCpu) -> Entered {
    let may_share = || {
        // The processor that asks holds the lock, and continues once this one is in the line. So whoever learns of the end
        // looks after this processor has released what has ended.
        let asked = processors::asked(cpu);
        let ends = asked == Request::Leave;
        if !ends {
            shootdown::answer_to(cpu, asked);
            core::hint::spin_loop();
        }
        !ends
    };
    match LOCK.share_in_time(&cpu.presence, may_share) {
        true => Entered::Shared(Shared { cpu, stays: PhantomData }),
        false => Entered::Exclusive(acquire(cpu)),
    }
}

/// Those of all processors, where there are others.
fn presences() -> Option<impl Iterator<Item = &'static Presence>> {
    (processors::count() > 1).then(|| processors::all().map(|processor| &processor.presence))
}

/// What a processor does while it waits.
fn wait(cpu: &PerCpu) {
    shootdown::answer(cpu);
    core::hint::spin_loop();
}

/// Waits until this processor, whose data these are, has the kernel to itself. It must not share the lock.
pub fn acquire(cpu: &'static PerCpu) -> Exclusive {
    LOCK.take(presences, || wait(cpu));
    begin_exclusive(cpu)
}

/// This processor, whose data these are, has come to hold the lock exclusively.
#[inline(always)]
fn begin_exclusive(cpu: &'static PerCpu) -> Exclusive {
    // No other code writes to it now.
    EXCLUSIVE.store(times_exclusive().wrapping_add(1), Ordering::Relaxed);
    let mut lock = Exclusive { cpu, stays: PhantomData };
    if CACHED.load(Ordering::Relaxed) > 0 {
        flush_all(&mut lock);
    }
    lock
}

/// How many values processors cache apart from the objects that they belong to.
static CACHED: AtomicU64 = AtomicU64::new(0);
/// What flushes all of them.
static FLUSH: Once<fn(&mut Exclusive)> = Once::new();

#[cold]
#[inline(never)]
fn flush_all(lock: &mut Exclusive) {
    if let Some(flush) = FLUSH.get() {
        flush(lock);
    }
}

/// Notes that this processor caches one more value. `flush`, the same each time, flushes all such values. The processor that acquires the
/// lock exclusively calls it with no other lock held. It calls [`flushed`] for each.
pub fn cached(_: &Shared, flush: fn(&mut Exclusive)) {
    FLUSH.call_once(|| flush);
    CACHED.fetch_add(1, Ordering::Relaxed);
}

/// Notes that a [cached] value has been flushed.
pub fn flushed(_: &mut Exclusive) {
    CACHED.fetch_sub(1, Ordering::Relaxed);
}

/// How often a processor came to hold the lock exclusively. As long as it is the same number nothing was unmapped, revoked or ended.
#[inline(always)]
pub fn times_exclusive() -> u64 {
    EXCLUSIVE.load(Ordering::Relaxed)
}

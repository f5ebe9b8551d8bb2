//! The kernel lock: one processor holds it exclusively, or several share it on the fast path of system calls.
//!
//! A processor that enters by a system call shares the lock ([`enter`]), unless another holds it exclusively. A processor that enters by
//! a fault, or by an interrupt that leaves it something to do, acquires it exclusively ([`take`]). Under the shared lock only the fast path
//! may run ([`crate::syscall::fast_path`], INVOKE and bound calls included), and the exit that looks only at the processor's own state
//! ([`crate::sched::switching`]). Before anything else the processor upgrades to exclusive ([`exclude`]). It releases the lock as the last step before it returns to user mode or
//! idles.
//!
//! A processor may cache values apart from the objects that they belong to. Code that acquires the lock exclusively first flushes all
//! of them ([`cached`]), so it never observes one.
//!
//! Processors that wait for exclusive access are served in the order of arrival. While they wait, they carry out the requests of the
//! exclusive holder, such as TLB shootdown ([`shootdown::answer`]). Between two exclusive holders, others may share the lock.

use core::sync::atomic::{AtomicU64, Ordering};

use capos_sync::{Presence, SharedLock};
use spin::Once;

use crate::arch::percpu::{self, PerCpu};
use crate::arch::processors::{self, Request};
use crate::memory::shootdown;

static LOCK: SharedLock = SharedLock::new();

/// How often a processor came to hold it exclusively.
static EXCLUSIVE: AtomicU64 = AtomicU64::new(0);

/// This processor, whose data these are, enters by a system call: it shares the lock, or holds it exclusively.
#[inline(always)]
pub fn enter(own: &PerCpu) {
    if !try_enter(own) {
        wait_to_enter(own);
    }
}

/// The same if no processor holds it exclusively. If one does: false, and this processor does not share it.
#[inline(always)]
pub fn try_enter(own: &PerCpu) -> bool {
    LOCK.try_share(&own.presence)
}

#[cold]
#[inline(never)]
fn wait_to_enter(own: &PerCpu) {
    let may_share = || {
        // The processor that asks holds the lock, and continues once this one is in the line. So whoever learns of the end
        // looks after this processor has released what has ended.
        let asked = processors::asked();
        let ends = asked == Request::Leave;
        if !ends {
            shootdown::answer_to(asked);
            core::hint::spin_loop();
        }
        !ends
    };
    if !LOCK.share_in_time(&own.presence, may_share) {
        take();
    }
}

/// Those of all processors, where there are others.
fn presences() -> Option<impl Iterator<Item = &'static Presence>> {
    (processors::count() > 1).then(|| processors::all().map(|processor| &processor.presence))
}

/// What a processor does while it waits.
fn wait() {
    shootdown::answer();
    core::hint::spin_loop();
}

/// Waits until this processor has the kernel to itself. It must not share the lock.
pub fn take() {
    LOCK.take(presences, wait);
    begin_exclusive();
}

/// This processor has come to hold the lock exclusively.
#[inline(always)]
fn begin_exclusive() {
    // No other code writes to it now.
    EXCLUSIVE.store(times_exclusive().wrapping_add(1), Ordering::Relaxed);
    if CACHED.load(Ordering::Relaxed) > 0 {
        flush_all();
    }
}

/// How many values processors cache apart from the objects that they belong to.
static CACHED: AtomicU64 = AtomicU64::new(0);
/// What flushes all of them.
static FLUSH: Once<fn()> = Once::new();

#[cold]
#[inline(never)]
fn flush_all() {
    if let Some(flush) = FLUSH.get() {
        flush();
    }
}

/// Notes that a processor, which shares the lock, caches one more value. `flush`, the same each time, flushes all such values. The
/// processor that acquires the lock exclusively calls it with no other lock held. It calls [`flushed`] for each.
pub fn cached(flush: fn()) {
    FLUSH.call_once(|| flush);
    CACHED.fetch_add(1, Ordering::Relaxed);
}

/// Notes that a [cached] value has been flushed.
pub fn flushed() {
    CACHED.fetch_sub(1, Ordering::Relaxed);
}

/// How often a processor came to hold the lock exclusively. As long as it is the same number nothing was unmapped, revoked or ended.
#[inline(always)]
pub fn times_exclusive() -> u64 {
    EXCLUSIVE.load(Ordering::Relaxed)
}

/// Whether this processor shares the lock, which it has.
#[inline(always)]
pub fn is_shared() -> bool {
    percpu::current().presence.is_in()
}

/// Waits until this processor, which shares the lock, has the kernel to itself. Others may have had it before: they may have
/// ended the current thread. No lock may be held.
#[cold]
pub fn exclude() {
    LOCK.exclude(&percpu::current().presence, presences, wait);
    begin_exclusive();
}

/// Gives the lock up, as this processor has it, whose data these are.
#[inline(always)]
pub fn give(own: &PerCpu) {
    if own.presence.is_in() {
        own.presence.leave();
    } else {
        LOCK.give();
    }
}

/// Gives the lock up, which this processor, whose data these are, shares.
#[inline(always)]
pub fn give_shared(own: &PerCpu) {
    own.presence.leave();
}

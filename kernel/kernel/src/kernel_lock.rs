//! The kernel's lock: one processor works in the kernel alone, or several go the short way of system calls beside each other.
//!
//! A processor that comes in with a system call shares the lock ([`enter`]) as long as nobody has it alone; with all else it
//! takes it alone ([`take`]). What can be done by those who share it is what [`crate::fast_path`] says, and the way out where
//! nothing is to be looked at ([`crate::scheduler`]). Where more is to be done, the processor has to have the lock alone first
//! ([`exclude`]). It gives the lock up as the last thing before it goes back.
//!
//! Who waits to have it alone is served in the order of arrival, and does meanwhile what the processor that has it asks for
//! ([`processors::answer`]). Nobody begins to share it then.

use capos_sync::SharedLock;

use crate::percpu::{self, PerCpu};
use crate::processors;

static LOCK: SharedLock = SharedLock::new();

/// This processor, whose data these are, comes in for a system call: beside others that do the same, or alone.
#[inline(always)]
pub fn enter(own: &PerCpu) {
    if !LOCK.try_share(&own.presence) {
        wait_to_enter(own);
    }
}

#[cold]
#[inline(never)]
fn wait_to_enter(own: &PerCpu) {
    if !LOCK.share_in_time(&own.presence, wait) {
        take();
    }
}

/// What a processor does while it waits.
fn wait() {
    processors::answer();
    core::hint::spin_loop();
}

/// Waits until this processor has the kernel to itself. It must not share the lock.
pub fn take() {
    LOCK.take(|| (processors::count() > 1).then(|| processors::all().map(|processor| &processor.presence)), wait);
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
    percpu::current().presence.leave();
    take();
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

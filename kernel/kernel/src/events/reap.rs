//! Reaping: processes that must end give back what they held.

use crate::cpu::kernel_lock::Exclusive;
use crate::object::memory::cache;
use crate::object::{process, reaper};
use crate::sched::scheduler;

/// Ends the processes that must end. No lock may be held.
#[inline]
pub fn reap(lock: &mut Exclusive) {
    if reaper::has_work() {
        reap_all(lock);
    }
}

#[cold]
#[inline(never)]
fn reap_all(lock: &mut Exclusive) {
    if reaper::begin() {
        process::doom_spent(lock);
    }
    let mut any = false;
    while let Some((process, end)) = reaper::take() {
        // What the process's end may need is there where the cache has it.
        cache::refill_reserve();
        process.end(lock, end);
        drop(process);
        scheduler::forget_dead(lock);
        any = true;
    }
    if any {
        // What many threads made grow becomes small again.
        scheduler::shrink_queue(lock);
    }
}

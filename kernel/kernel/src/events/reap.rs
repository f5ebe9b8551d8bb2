//! Reaping: processes that must end give back what they held.

use crate::object::memory::cache;
use crate::object::{process, reaper};
use crate::sched::scheduler;

/// Ends the processes that must end. No lock may be held.
#[inline]
pub fn reap() {
    if reaper::has_work() {
        reap_all();
    }
}

#[cold]
#[inline(never)]
fn reap_all() {
    if reaper::begin() {
        process::doom_spent();
    }
    let mut any = false;
    while let Some((process, end)) = reaper::take() {
        // What the process's end may need is there where the cache has it.
        cache::refill_reserve();
        process.end(end);
        drop(process);
        scheduler::forget_dead();
        any = true;
    }
    if any {
        // What many threads made grow becomes small again.
        scheduler::shrink_queue();
    }
}

//! Reaping: what must end gives back what it held, in steps.

use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use crate::arch::time;
use crate::cpu::budget::Budget;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::deadline::{self, Due};
use crate::object::memory::{cache, emptying};
use crate::object::process;
use crate::object::reaper::{self, Doomed};
use crate::sched::scheduler;

/// How long threads run between two steps, where there are any to run, nanoseconds. A step is a tenth of that, so processes that end take
/// no more than this share of a processor.
const BETWEEN: u64 = 200_000;

/// The deadline of the next step, where something is left.
static NEXT: Mutex<Option<(u64, u64)>> = Mutex::new(None);

/// Whether the next step begins with memory.
static EMPTYING: AtomicBool = AtomicBool::new(false);

/// Does a step, if there is something new to end, or it is time for the next step. No lock may be held.
#[inline]
pub fn reap(lock: &mut Exclusive) {
    if reaper::has_work() {
        step(lock);
    }
}

/// Does a step. Where something is left, the next one follows after [`BETWEEN`].
#[cold]
#[inline(never)]
pub fn step(lock: &mut Exclusive) {
    if reaper::begin() {
        process::doom_spent(lock);
    }
    let mut budget = Budget::new();
    // Every second step begins with memory, so that neither waits for the other.
    if EMPTYING.fetch_xor(true, Ordering::Relaxed) {
        emptying::go_on(&mut budget);
    }
    let mut any = false;
    while budget.allows()
        && let Some(doomed) = reaper::take()
    {
        // What an end may need is there where the cache has it.
        cache::refill_reserve(lock);
        let ended = match &doomed {
            Doomed::Process(process) => process.end(lock, &mut budget),
            Doomed::Thread(thread) => {
                let ended = thread.end_alone(lock, &mut budget);
                if ended {
                    thread.process.thread_has_ended();
                }
                ended
            }
            Doomed::Endpoint(endpoint) => endpoint.close(lock, &mut budget),
        };
        match ended {
            true => drop(doomed),
            false => reaper::put_back(doomed),
        }
        scheduler::forget_dead(lock);
        any = true;
    }
    emptying::go_on(&mut budget);
    if any {
        // What many threads made grow becomes small again.
        scheduler::shrink_queue(lock);
    }
    let mut next = NEXT.lock();
    match (reaper::end(), *next) {
        (true, None) => *next = Some(deadline::add(time::now().saturating_add(BETWEEN), Due::Reap)),
        (false, Some(key)) => {
            deadline::remove(key);
            *next = None;
        }
        _ => {}
    }
}

/// It is time for the next step.
pub fn go_on(_: &mut Exclusive) {
    *NEXT.lock() = None;
    reaper::disclaim();
    if reaper::has_rest() {
        reaper::note_work();
    }
}

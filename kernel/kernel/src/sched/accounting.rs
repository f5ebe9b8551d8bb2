//! Processor time: what threads have run, limits of accounts, and what processors had nothing to do.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::percpu::{self, PerCpu};
use crate::arch::{processors, time};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::reaper;
use crate::object::thread::{State, Thread};
use crate::sched::{CpuState, state};

/// The shortest time after which a limit of CPU time is looked at again, in nanoseconds: so much more than its limit can an
/// account use on each processor.
pub(super) const SHORTEST: u64 = 50_000;

/// Time that processors had nothing to do, ticks of the time-stamp counter.
pub static IDLE: AtomicU64 = AtomicU64::new(0);

impl CpuState {
    /// Accounts for the time until now.
    #[inline(always)]
    pub(super) fn settle_time(&mut self, lock: &Exclusive, now: u64) {
        if let Some(current) = self.current.as_ref().or(self.laid_down.as_ref()) {
            charge(lock, current, self.since, now);
            self.since = now;
        } else if let Some(since) = &mut self.idle_since {
            IDLE.fetch_add(now.saturating_sub(*since), Ordering::Relaxed);
            *since = now;
        }
    }

    /// Whether the CPU time of the thread in whose name the kernel works here is limited.
    pub(super) fn is_limited(&self) -> bool {
        self.current
            .as_ref()
            .or(self.laid_down.as_ref())
            .is_some_and(|current| current.process.account.is_cpu_limited())
    }

    /// Whether a thread whose CPU time is limited has any left. Notes when to look again: before those who use of the
    /// same limit can have used it up, however many processors they run on.
    fn has_time(&mut self, lock: &Exclusive, thread: &Thread, now: u64) -> bool {
        for processor in processors::others() {
            let mut other = state(processor).lock();
            if other.is_limited() {
                other.settle_time(lock, now);
            }
        }
        let left = thread.process.account.cpu_left().unwrap_or(u64::MAX);
        let share = left.checked_div(processors::count() as u64).unwrap_or(left).max(SHORTEST).min(left);
        self.limit_end = time::at(now).saturating_add(share);
        left > 0
    }

    /// Whether a thread whose CPU time is limited may run; the timer is set for the end of that. Where it has none left it
    /// never runs again: its process is to end.
    #[cold]
    #[inline(never)]
    pub(super) fn admit(&mut self, lock: &Exclusive, thread: &Thread, now: u64) -> bool {
        if !self.has_time(lock, thread, now) {
            thread.change(State::Running, State::Blocked);
            reaper::end_spent();
            note_idle(lock.cpu());
            return false;
        }
        if self.armed == 0 || self.limit_end < self.armed {
            self.armed = self.limit_end;
            time::arm(self.limit_end);
        }
        true
    }

    /// Looks again at what CPU time the current thread has, where it is limited.
    #[inline(never)]
    pub(super) fn look_at_limit(&mut self, lock: &Exclusive, now: u64) {
        if let Some(current) = self.current.as_ref().filter(|_| self.is_limited()).cloned() {
            self.settle_time(lock, now);
            if !self.has_time(lock, &current, now) {
                reaper::end_spent();
            }
            self.set_timer();
        }
    }
}

/// Counts the time that a thread has run between two counts of the time-stamp counter.
#[inline(always)]
pub(super) fn count(thread: &Thread, since: u64, now: u64) {
    let ran = now.saturating_sub(since);
    thread.handle.cpu_ticks.fetch_add(ran, Ordering::Relaxed);
    thread.process.account.cpu_ticks.fetch_add(ran, Ordering::Relaxed);
}

/// The same, and takes it from what its account may use.
#[inline(always)]
pub(super) fn charge(lock: &Exclusive, thread: &Thread, since: u64, now: u64) {
    count(thread, since, now);
    let account = &thread.process.account;
    if account.is_cpu_limited() {
        account.spend(lock, time::at(now).saturating_sub(time::at(since)));
    }
}

/// No thread runs on this processor, which is `cpu`.
pub(super) fn note_idle(cpu: &PerCpu) {
    cpu.running.store(percpu::IDLE, Ordering::Relaxed);
    cpu.thread.store(0, Ordering::Relaxed);
}

/// This processor has nothing to do.
pub fn begin_idle(lock: &Exclusive) {
    state(lock.cpu()).lock().idle_since.get_or_insert_with(time::tsc);
}

/// This processor has something to do again.
pub fn end_idle(lock: &Exclusive) {
    let mut state = state(lock.cpu()).lock();
    if state.idle_since.is_some() {
        state.settle_time(lock, time::tsc());
        state.idle_since = None;
    }
}

/// Looks again at what CPU time the current thread of this processor has, if that is limited.
pub fn look_at_limit(lock: &Exclusive) {
    state(lock.cpu()).lock().look_at_limit(lock, time::tsc());
}

/// Limits of CPU time have changed: every processor looks at that of the thread that it runs.
pub fn limits_changed(lock: &Exclusive) {
    look_at_limit(lock);
    processors::others().for_each(processors::call);
}

/// Accounts for the time until now on all processors, so that what is read next is true.
pub fn settle_times(lock: &Exclusive) {
    let now = time::tsc();
    processors::all().for_each(|processor| state(processor).lock().settle_time(lock, now));
}

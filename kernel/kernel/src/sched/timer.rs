//! The timer of a processor: the end of a slice, the next deadline, or the end of a limit.

use crate::arch::percpu::PerCpu;
use crate::arch::time;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::deadline;
use crate::sched::{CpuState, accounting, state};

impl CpuState {
    /// Sets the timer to the end of the slice, where somebody waits for it, or to the next deadline.
    #[inline]
    pub(super) fn arm(&mut self) {
        if !self.ready.queue.is_empty() || self.ready.handoff.is_some() || deadline::is_uncovered() {
            self.set_timer();
        }
    }

    pub(super) fn set_timer(&mut self) {
        let alone = self.current.as_ref().is_none_or(|current| self.ready.is_free_for(current.priority()));
        let slice = if alone { u64::MAX } else { self.slice_end() };
        let slice = if self.is_limited() { slice.min(self.limit_end) } else { slice };
        let due = if deadline::cover() {
            self.covers = deadline::earliest();
            self.covers
        } else {
            u64::MAX
        };
        let wanted = slice.min(due);
        if wanted != u64::MAX && (self.armed == 0 || wanted < self.armed) {
            self.armed = wanted;
            time::arm(wanted);
        }
    }

    /// Nothing runs here: the timer is set for a deadline or not at all, whatever it was set for before.
    #[cold]
    #[inline(never)]
    pub(super) fn rest_timer(&mut self, cpu: &PerCpu, now: u64) {
        accounting::note_idle(cpu);
        if self.covers != 0 && deadline::earliest() > self.covers {
            // It was taken back.
            deadline::uncover(core::mem::take(&mut self.covers));
        }
        if deadline::cover() {
            self.covers = deadline::earliest();
        }
        // One that is due comes.
        if self.armed != self.covers && (self.armed == 0 || self.armed > time::at(now)) {
            self.armed = self.covers;
            match self.covers {
                0 => time::disarm(),
                covers => time::arm(covers),
            }
        }
    }
}

/// The timer of this processor has come as it was set last.
pub fn timer_came(lock: &Exclusive) {
    let mut state = state(lock.cpu()).lock();
    state.armed = 0;
    deadline::uncover(core::mem::take(&mut state.covers));
}

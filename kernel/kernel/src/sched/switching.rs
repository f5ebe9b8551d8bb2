//! Switches: a thread leaves a processor, and another one is current from then on.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use crate::arch::context::Context;
use crate::arch::percpu::PerCpu;
use crate::arch::time;
#[cfg(feature = "tests")]
use crate::cpu::kernel_lock::Entered;
use crate::cpu::kernel_lock::{Exclusive, Held, Shared};
use crate::object::thread::{State, Thread};
use crate::object::{cpu_time, deadline, reaper};
use crate::sched::{CpuState, SLICE, SWITCHES, WAITING, accounting, set_lent, state};

impl CpuState {
    /// The current thread of this processor stops running, unless it was laid down already.
    #[inline(always)]
    pub(super) fn put_down(&mut self, lock: &Exclusive, now: u64) -> Option<Arc<Thread>> {
        self.settle_time(lock, now);
        self.laid_down.take().or_else(|| self.release(lock.cpu()))
    }

    /// Puts the current thread down, and nothing else.
    #[inline(always)]
    pub(super) fn release(&mut self, cpu: &PerCpu) -> Option<Arc<Thread>> {
        let thread = self.current.take()?;
        // SAFETY: it is named no longer.
        unsafe { set_lent(cpu, None) };
        thread.put_down();
        Some(thread)
    }

    /// Puts the current thread down, where it waits. What this processor does until it is decided what runs next is still its
    /// time.
    #[cold]
    pub(super) fn lay_down(&mut self, cpu: &PerCpu) {
        if self.current.as_ref().is_some_and(|current| current.state() == State::Blocked) {
            self.laid_down = self.release(cpu);
        }
    }

    /// The context of the current thread, or, if it waits, of the thread that was made ready. `None` if a thread in a queue
    /// goes before it, or something else has to be looked at.
    #[inline(always)]
    pub(super) fn stay_or_switch<const WAITED: bool>(&mut self, cpu: &PerCpu) -> Option<*mut Context> {
        let current = self.current.as_ref()?;
        match self.ready.handoff.take() {
            None if current.state() == State::Running
                && current.handle.may_run_on(cpu.index)
                && !(WAITED && WAITING.outranks(current.priority())) =>
            {
                cpu.called.store(false, Ordering::Relaxed);
                Some(current.context())
            }
            None => None,
            Some(next) => {
                let may = current.state() == State::Blocked
                    && may_begin(&next)
                    && !is_either_limited(current, &next)
                    && !(WAITED && WAITING.outranks(next.priority()));
                if may && next.change(State::Ready, State::Running) {
                    return Some(self.exchange::<WAITED>(cpu, next));
                }
                self.ready.handoff = Some(next);
                None
            }
        }
    }

    /// Lets a blocked thread run in place of the current one, which waits, as [`CpuState::decide`] would. It does so only
    /// if no thread in a queue goes before it and nothing else has to be looked at.
    ///
    /// # Errors
    /// The thread, with which nothing has happened.
    #[inline(always)]
    pub(super) fn switch_to<const WAITED: bool>(
        &mut self,
        cpu: &PerCpu,
        next: Arc<Thread>,
    ) -> Result<*mut Context, Arc<Thread>> {
        let may = self.ready.handoff.is_none()
            && self
                .current
                .as_ref()
                .is_some_and(|current| current.state() == State::Blocked && !is_either_limited(current, &next))
            && may_begin(&next)
            && next.handle.may_run_on(cpu.index)
            && !(WAITED && WAITING.outranks(next.priority()));
        if may && next.change(State::Blocked, State::Running) {
            Ok(self.exchange::<WAITED>(cpu, next))
        } else {
            Err(next)
        }
    }

    /// Puts the current thread down, which waits, and takes another one up, which is running by its state. Where others wait
    /// for their turn, they share one slice.
    #[inline(always)]
    pub(super) fn exchange<const WAITED: bool>(&mut self, cpu: &PerCpu, next: Arc<Thread>) -> *mut Context {
        let now = time::tsc();
        if let Some(left) = self.current.take() {
            // Its account has no limit.
            accounting::count(&left, self.since, now);
            left.put_down();
            // It waits, so its process has it: it does not end here.
            drop(left);
        }
        self.had_current = true;
        if !WAITED {
            self.slice = (now, SLICE);
        }
        let context = next.context();
        self.take_up(cpu, next, now);
        cpu.called.store(false, Ordering::Relaxed);
        context
    }

    /// A thread that is running by its state is current from now on.
    #[inline(always)]
    pub(super) fn take_up(&mut self, cpu: &PerCpu, next: Arc<Thread>, now: u64) {
        SWITCHES.fetch_add(1, Ordering::Relaxed);
        self.since = now;
        cpu.running.store(next.priority(), Ordering::Relaxed);
        cpu.thread.store(next.handle.id, Ordering::Relaxed);
        next.process.space.activate(cpu);
        self.load_fpu(cpu, &next);
        // SAFETY: it is held here from now on, and named by nothing once it is taken out: `put_down` sees to that, and who
        // exchanges it for another names that one.
        unsafe { set_lent(cpu, Some(&next)) };
        self.current = Some(next);
    }

    /// Takes a thread up: the processor holds its vector registers then.
    #[inline(always)]
    pub(super) fn load_fpu(&mut self, cpu: &PerCpu, next: &Thread) {
        let stayed = next.take_up(cpu.index);
        if !(stayed && self.loaded == next.handle.id) {
            next.restore_fpu();
            self.loaded = next.handle.id;
        }
    }
}

/// Whether a thread can be switched in without looking at anything else. The processor on which it began to wait has then
/// switched it out, which it does before it releases the kernel lock.
#[inline(always)]
pub fn may_begin(next: &Thread) -> bool {
    next.processor().is_none() && !next.has_resume()
}

/// Whether the CPU time of one of two threads is limited, so that it has to be looked at when they take turns.
#[inline(always)]
pub(super) fn is_either_limited(current: &Thread, next: &Thread) -> bool {
    cpu_time::is_any_limited() && [current, next].iter().any(|thread| thread.process.account.is_cpu_limited())
}

/// Has a thread current on this processor while something is done, and switches it out then, if that has not been done before: for
/// tests. Whether there was one to switch out.
#[cfg(feature = "tests")]
#[inline(never)]
pub fn with_current(cpu: &PerCpu, thread: &Arc<Thread>, act: impl FnOnce()) -> bool {
    state(cpu).lock().take_up(cpu, Arc::clone(thread), time::tsc());
    act();
    let left = match crate::cpu::kernel_lock::of_tests() {
        Entered::Exclusive(lock) => state(cpu).lock().put_down(&lock, time::tsc()),
        Entered::Shared(_) => state(cpu).lock().release(cpu),
    };
    crate::memory::kernel_space::activate(cpu);
    left.is_some()
}

/// Whether a thread that waits may run in place of the current one, once that waits: no thread in a queue goes before it, and
/// nothing else has to be looked at. It stays so as long as `next` is locked and waits. The caller holds its lock, since another
/// processor may let it run otherwise.
#[inline(always)]
pub fn may_pass_on(lock: &Shared, next: &Thread) -> bool {
    is_undisturbed()
        && !(WAITING.is_any() && WAITING.outranks(next.priority()))
        && next.state() == State::Blocked
        && may_begin(next)
        && next.handle.may_run_on(lock.cpu().index)
        && state(lock.cpu()).lock().ready.handoff.is_none()
}

/// Has the current thread wait and the other one run, where it [may](may_pass_on): the context of that one. Another processor may
/// take the first up from then on, so nothing of it is touched any more.
#[inline(always)]
pub fn pass_on(lock: &Shared, current: &Thread, next: &Arc<Thread>) -> *mut Context {
    // Neither fails. Whoever ends a thread, or wakes one whose wait is over, holds the kernel lock exclusively, and this processor shares
    // it. A wait has but one who ends it, which was this one.
    current.change(State::Running, State::Blocked);
    next.change(State::Blocked, State::Running);
    let cpu = lock.cpu();
    let mut state = state(cpu).lock();
    if WAITING.is_any() {
        pass_on_among_others(cpu, &mut state, next)
    } else {
        state.exchange::<false>(cpu, Arc::clone(next))
    }
}

/// [`CpuState::exchange`], while others wait for their turn.
#[inline(never)]
pub(super) fn pass_on_among_others(cpu: &PerCpu, state: &mut CpuState, next: &Arc<Thread>) -> *mut Context {
    state.exchange::<true>(cpu, Arc::clone(next))
}

/// Lets `next` run where the current thread has begun to wait for it: the context of `next`, which is current from now on.
///
/// # Errors
/// `next`, with which nothing has happened, where something else is to be looked at first.
#[inline(always)]
pub fn hand_over(lock: &Shared, next: Arc<Thread>) -> Result<*mut Context, Arc<Thread>> {
    let cpu = lock.cpu();
    match is_undisturbed() {
        true if WAITING.is_any() => switch_among_others(cpu, next),
        true => state(cpu).lock().switch_to::<false>(cpu, next),
        false => Err(next),
    }
}

/// The context of the thread that came in, where nothing has changed for it, or of the one that it made ready, where it waits.
/// `None` where something else is to be looked at first.
#[inline(always)]
pub fn stay_or_switch(cpu: &PerCpu, _lock: Held<'_>) -> Option<*mut Context> {
    match is_undisturbed() {
        true if WAITING.is_any() => stay_among_others(cpu),
        true => state(cpu).lock().stay_or_switch::<false>(cpu),
        false => None,
    }
}

/// [`CpuState::switch_to`], while others wait for their turn.
#[inline(never)]
pub(super) fn switch_among_others(cpu: &PerCpu, next: Arc<Thread>) -> Result<*mut Context, Arc<Thread>> {
    state(cpu).lock().switch_to::<true>(cpu, next)
}

/// [`CpuState::stay_or_switch`], while others wait for their turn.
#[inline(never)]
pub(super) fn stay_among_others(cpu: &PerCpu) -> Option<*mut Context> {
    state(cpu).lock().stay_or_switch::<true>(cpu)
}

/// Whether there is nothing to do on the way out except the thread that continues. Where one is [paused](crate::sched::scheduler::pause), none is current.
#[inline(always)]
pub(super) fn is_undisturbed() -> bool {
    !reaper::has_work() && !crate::object::log::has_to_serve() && !deadline::is_uncovered()
}

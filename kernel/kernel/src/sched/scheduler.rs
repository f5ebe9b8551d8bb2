//! Which thread runs next.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Status;
use capos_sched::Turn;

use crate::arch::context::Context;
use crate::arch::percpu::{self, PerCpu};
use crate::arch::{processors, time};
use crate::cpu::kernel_lock;
use crate::object::process::Process;
use crate::object::thread::{self, Start, State, Thread};
use crate::sched::{CpuState, Others, SLICE, state};

/// What to do on the way out of the kernel.
pub enum Choice {
    Run(*mut Context),
    /// An ENTER continues first.
    Resume(Arc<Thread>),
    /// Nothing yet: a process has to end first.
    Again,
    Idle,
}

impl CpuState {
    /// The next thread that can run, with its slice.
    fn next(&mut self, now: u64) -> Option<Arc<Thread>> {
        let (thread, turn) = self.ready.next(self.had_current, &Others)?;
        match turn {
            Turn::Shared => {}
            Turn::Whole => self.slice = (now, SLICE),
            Turn::Rest(left) => self.slice = (now, left),
        }
        Some(thread)
    }

    /// When the current slice ends, nanoseconds.
    pub(super) fn slice_end(&self) -> u64 {
        let (began, length) = self.slice;
        time::at(began).saturating_add(length)
    }

    /// Decides what runs, and lets others have what waits here. What is dropped in the end is given back, to be dropped
    /// without the lock.
    pub(super) fn choose(&mut self, cpu: &PerCpu) -> (Choice, Option<Arc<Thread>>) {
        let chosen = self.decide(cpu);
        cpu.called.store(false, Ordering::Relaxed);
        if !self.ready.queue.is_empty() && processors::count() > 1 {
            let current = self.current.as_ref().map_or(percpu::IDLE, |current| current.priority());
            self.ready.share(current, &Others);
        }
        chosen
    }

    pub(super) fn decide(&mut self, cpu: &PerCpu) -> (Choice, Option<Arc<Thread>>) {
        if let Some(current) = &self.current
            && current.state() == State::Running
        {
            let may_stay = current.handle.may_run_on(self.ready.own());
            if may_stay && !self.ready.is_outranked(current.priority(), &Others) {
                let pointer = current.context();
                // It keeps its place where no thread waits longer, and no other processor could take it.
                if processors::count() > 1 || !self.ready.queue.is_empty() {
                    self.ready.queue_kept();
                }
                self.arm();
                return (Choice::Run(pointer), None);
            }
            self.preempt(cpu, time::tsc(), true);
        }
        let now = time::tsc();
        let left = self.put_down(cpu, now);
        self.had_current = left.is_some();
        let Some(next) = self.next(now) else {
            self.rest_timer(cpu, now);
            return (Choice::Idle, left);
        };
        if next.process.account.is_cpu_limited() && !self.admit(cpu, &next, now) {
            return (Choice::Again, left);
        }
        let choice = match next.has_resume() {
            true => Choice::Resume(Arc::clone(&next)),
            false => Choice::Run(next.context()),
        };
        self.take_up(cpu, next, now);
        self.arm();
        (choice, left)
    }

    /// The running thread of this processor, which is `cpu`, goes back into the queue: to its front if it has not used up
    /// its slice.
    pub(super) fn preempt(&mut self, cpu: &PerCpu, now: u64, front: bool) {
        if self.current.as_ref().is_some_and(|thread| thread.change(State::Running, State::Ready))
            && let Some(thread) = self.put_down(cpu, now)
        {
            let left = self.slice_end().saturating_sub(time::at(now));
            if !front {
                self.ready.queue_kept();
            }
            self.ready.put_back(thread, Some(left).filter(|left| front && *left > SLICE / 8), &Others);
        }
    }
}

/// Gives back the memory of a run queue that was long.
pub fn shrink_queue() {
    let threads = thread::ALIVE.load(Ordering::Relaxed) as usize;
    for processor in processors::all() {
        state(processor).lock().ready.queue.shrink(threads);
    }
}

/// Makes room for so many threads in each run queue. False where there is no memory.
pub(super) fn make_room(threads: usize) -> bool {
    processors::all().all(|processor| state(processor).lock().ready.queue.make_room(threads))
}

/// Holds the kernel lock exclusively from here on, where this processor shared it. No other lock may be held. The current thread may
/// be dead afterwards; where it waits it may be gone, so nothing may have borrowed it.
///
/// A thread that waits is switched out before others enter: once its wait is over they switch it in, on another processor.
#[inline]
pub fn exclude() {
    if kernel_lock::is_shared() {
        exclude_others();
    }
}

#[cold]
#[inline(never)]
pub(super) fn exclude_others() {
    let cpu = percpu::current();
    state(cpu).lock().lay_down(cpu);
    kernel_lock::exclude();
}

/// Makes a blocked thread ready. Where this processor shares the kernel lock, no other lock may be held.
pub fn wake(thread: &Arc<Thread>) {
    exclude();
    if thread.change(State::Blocked, State::Ready) {
        state(percpu::current()).lock().ready.make_ready(Arc::clone(thread), &Others);
    }
}

/// The thread whose turn it is among those that wait, taken out of the queue: for tests.
#[cfg(feature = "tests")]
#[inline(never)]
pub fn take_waiting() -> Option<Arc<Thread>> {
    let cpu = percpu::current();
    state(cpu).lock().ready.queue.pop(cpu.index).map(|(thread, _)| thread)
}

/// Lets go of dead threads.
pub fn forget_dead() {
    for processor in processors::all() {
        loop {
            let dead = state(processor).lock().ready.take_dead();
            if !dead.is_full() {
                break;
            }
        }
    }
}

/// Puts the current thread behind those that wait, in the middle of a system call that it continues with
/// when its turn comes.
pub fn pause() {
    let cpu = percpu::current();
    cpu.paused.store(true, Ordering::Relaxed);
    state(cpu).lock().preempt(cpu, time::tsc(), false);
}

/// Lets go of one thread that has ended.
pub(super) fn forget(thread: &Arc<Thread>) {
    // One that runs waits in no queue.
    if thread.processor().is_none() {
        forget_dead();
    }
    shrink_queue();
}

/// Decides what runs on this processor, which is `cpu`. The thread that is given back is dropped without a lock.
pub fn choose(cpu: &PerCpu) -> (Choice, Option<Arc<Thread>>) {
    state(cpu).lock().choose(cpu)
}

/// Puts the thread that was kept next to the current one of this processor, which is `cpu`, into the queue.
pub fn queue_kept(cpu: &PerCpu) {
    state(cpu).lock().ready.queue_kept();
}

/// Lets others have their turn if the slice of the current thread of this processor, which is `cpu`, is over.
pub fn end_slice(cpu: &PerCpu) {
    let mut state = state(cpu).lock();
    let now = time::tsc();
    state.look_at_limit(now);
    let priority = state.current.as_ref().map(|current| current.priority());
    let waiting = priority.is_some_and(|priority| !state.ready.queue.is_free_for(priority));
    if (waiting || state.ready.handoff.is_some()) && time::at(now) >= state.slice_end() {
        state.preempt(cpu, now, false);
    }
}

/// Lets the thread that was made ready just now on this processor, which is `cpu`, run at once, unless the current one
/// goes before it.
pub fn give_way(cpu: &PerCpu) {
    let mut state = state(cpu).lock();
    let ready = state.ready.handoff.as_ref().map(|ready| ready.priority());
    let current = state.current.as_ref().map(|current| current.priority());
    if ready.is_some() && ready >= current {
        state.preempt(cpu, time::tsc(), true);
    }
}

/// Makes a thread, and room for it in each run queue, so that it can always wait there.
///
/// # Errors
/// Those of [`Thread::new`].
pub fn new_thread(process: &Arc<Process>, start: Start) -> Result<Arc<Thread>, Status> {
    let threads = thread::ALIVE.load(Ordering::Relaxed).saturating_add(1) as usize;
    if make_room(threads) { Thread::new(process, start) } else { Err(Status::OutOfMemory) }
}

/// Ends the current thread alone.
pub fn exit(thread: &Arc<Thread>, code: i32) {
    if thread.exit(code) {
        forget(thread);
    }
}

/// Ends a thread alone, in the name of a process.
pub fn kill(thread: &Arc<Thread>, killer: &Process) {
    if thread.kill(killer) {
        forget(thread);
    }
}

/// Gives a thread another priority, from now on: one that waits in a queue waits behind those that have it already.
#[inline(never)]
pub fn rank(thread: &Arc<Thread>, priority: i8) {
    let own = percpu::current().index;
    if thread.priority() == priority {
        return;
    }
    thread.handle.set_priority(priority);
    let Some(number) = thread.processor() else {
        for processor in processors::all() {
            let mut cpu = state(processor).lock();
            if let Some(thread) = cpu.ready.queue.remove(thread) {
                cpu.ready.queue.push(thread);
                // This one looks when it leaves the kernel.
                if processor.index != own {
                    processors::call(processor);
                }
                return;
            }
        }
        return;
    };
    if let Some(processor) = processors::all().find(|processor| processor.index == number) {
        processor.running.store(thread.priority(), Ordering::Relaxed);
        if number != own {
            processors::call(processor);
        }
    }
}

/// The processors that a thread may run on are others now.
pub fn settle(thread: &Arc<Thread>) {
    if let Some(number) = thread.processor() {
        // This one looks when it leaves the kernel.
        processors::others().filter(|other| other.index == number).for_each(processors::call);
        return;
    }
    let waiting = processors::all().find_map(|processor| state(processor).lock().ready.remove(thread));
    if let Some(thread) = waiting {
        state(percpu::current()).lock().ready.make_ready(thread, &Others);
    }
}

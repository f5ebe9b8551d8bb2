//! Which thread runs next.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Status;
use capos_sched::Turn;

use crate::arch::context::Context;
use crate::arch::percpu;
use crate::arch::{processors, time};
use crate::cpu::budget::Budget;
use crate::cpu::kernel_lock::{Exclusive, Shared};
use crate::object::process::Process;
use crate::object::thread::{self, Rings, Start, State, Thread};
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
    fn next(&mut self, lock: &Exclusive, now: u64) -> Option<Arc<Thread>> {
        let (thread, turn) = self.ready.next(self.had_current, &Others::of(lock))?;
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
    fn choose(&mut self, lock: &Exclusive) -> (Choice, Option<Arc<Thread>>) {
        let chosen = self.decide(lock);
        lock.cpu().called.store(false, Ordering::Relaxed);
        if !self.ready.queue.is_empty() && processors::count() > 1 {
            let current = self.current.as_ref().map_or(percpu::IDLE, |current| current.priority());
            self.ready.share(current, &Others::of(lock));
        }
        chosen
    }

    fn decide(&mut self, lock: &Exclusive) -> (Choice, Option<Arc<Thread>>) {
        let cpu = lock.cpu();
        if let Some(current) = &self.current
            && current.state() == State::Running
        {
            let may_stay = current.handle.may_run_on(self.ready.own());
            if may_stay && !self.ready.is_outranked(current.priority(), &Others::of(lock)) {
                let pointer = current.context();
                // It keeps its place where no thread waits longer, and no other processor could take it.
                if processors::count() > 1 || !self.ready.queue.is_empty() {
                    self.ready.queue_kept();
                }
                self.arm();
                return (Choice::Run(pointer), None);
            }
            self.preempt(lock, time::tsc(), true);
        }
        let now = time::tsc();
        let left = self.put_down(lock, now);
        self.had_current = left.is_some();
        let Some(next) = self.next(lock, now) else {
            self.rest_timer(cpu, now);
            return (Choice::Idle, left);
        };
        if next.process.account.is_cpu_limited() && !self.admit(lock, &next, now) {
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

    /// The running thread of this processor goes back into the queue: to its front if it has not used up its slice.
    fn preempt(&mut self, lock: &Exclusive, now: u64, front: bool) {
        if self.current.as_ref().is_some_and(|thread| thread.change(State::Running, State::Ready))
            && let Some(thread) = self.put_down(lock, now)
        {
            let left = self.slice_end().saturating_sub(time::at(now));
            if !front {
                self.ready.queue_kept();
            }
            self.ready.put_back(thread, Some(left).filter(|left| front && *left > SLICE / 8), &Others::of(lock));
        }
    }
}

/// Gives back the memory of a run queue that was long.
pub fn shrink_queue(_: &mut Exclusive) {
    let threads = thread::ALIVE.load(Ordering::Relaxed) as usize;
    for processor in processors::all() {
        state(processor).lock().ready.queue.shrink(threads);
    }
}

/// Makes room for so many threads in each run queue. False where there is no memory.
fn make_room(_: &mut Exclusive, threads: usize) -> bool {
    processors::all().all(|processor| state(processor).lock().ready.queue.make_room(threads))
}

/// Holds the kernel lock exclusively from here on, where this processor shared it. No other lock may be held. The thread that was
/// current may be dead afterwards; where it waits it may be gone.
///
/// A thread that waits is switched out before others enter: once its wait is over they switch it in, on another processor.
#[cold]
#[inline(never)]
pub fn upgrade(lock: Shared) -> Exclusive {
    lock.upgrade(|cpu| state(cpu).lock().lay_down(cpu))
}

/// Makes a blocked thread ready.
pub fn wake(lock: &mut Exclusive, thread: &Arc<Thread>) {
    if thread.change(State::Blocked, State::Ready) {
        state(lock.cpu()).lock().ready.make_ready(Arc::clone(thread), &Others::of(lock));
    }
}

/// The thread whose turn it is among those that wait, taken out of the queue: for tests.
#[cfg(feature = "tests")]
#[inline(never)]
pub fn take_waiting(lock: &mut Exclusive) -> Option<Arc<Thread>> {
    let cpu = lock.cpu();
    state(cpu).lock().ready.queue.pop(cpu.index).map(|(thread, _)| thread)
}

/// Lets go of dead threads.
pub fn forget_dead(_: &mut Exclusive) {
    for processor in processors::all() {
        loop {
            let dead = state(processor).lock().ready.take_dead();
            if !dead.is_full() {
                break;
            }
        }
    }
}

/// Puts the current thread into the queue, in the middle of a system call that it continues with: at once, as long as its slice lasts, or
/// when its turn comes. Before that other processors may acquire the lock, and interrupts come in.
pub fn pause(lock: &mut Exclusive) {
    let cpu = lock.cpu();
    cpu.paused.store(true, Ordering::Relaxed);
    let mut state = state(cpu).lock();
    state.ready.queue_kept();
    state.preempt(lock, time::tsc(), true);
}

/// Lets go of one thread that has ended.
fn forget(lock: &mut Exclusive, thread: &Arc<Thread>) {
    // One that runs waits in no queue.
    if thread.processor().is_none() {
        forget_dead(lock);
    }
    shrink_queue(lock);
}

/// Decides what runs on this processor. The thread that is given back is dropped without a lock.
pub fn choose(lock: &mut Exclusive) -> (Choice, Option<Arc<Thread>>) {
    state(lock.cpu()).lock().choose(lock)
}

/// Puts the thread that was kept next to the current one of this processor into the queue.
pub fn queue_kept(lock: &mut Exclusive) {
    state(lock.cpu()).lock().ready.queue_kept();
}

/// Lets others have their turn if the slice of the current thread of this processor is over.
pub fn end_slice(lock: &mut Exclusive) {
    let mut state = state(lock.cpu()).lock();
    let now = time::tsc();
    state.look_at_limit(lock, now);
    let priority = state.current.as_ref().map(|current| current.priority());
    let waiting = priority.is_some_and(|priority| !state.ready.queue.is_free_for(priority));
    if (waiting || state.ready.handoff.is_some()) && time::at(now) >= state.slice_end() {
        state.preempt(lock, now, false);
    }
}

/// Lets the thread that was made ready just now on this processor run at once, unless the current one goes before it.
pub fn give_way(lock: &mut Exclusive) {
    let mut state = state(lock.cpu()).lock();
    let ready = state.ready.handoff.as_ref().map(|ready| ready.priority());
    let current = state.current.as_ref().map(|current| current.priority());
    if ready.is_some() && ready >= current {
        state.preempt(lock, time::tsc(), true);
    }
}

/// Makes a thread, and room for it in each run queue, so that it can always wait there.
///
/// # Errors
/// Those of [`Thread::new`].
pub fn new_thread(lock: &mut Exclusive, process: &Arc<Process>, start: Start) -> Result<Arc<Thread>, Status> {
    let mut rings = Rings::new(&process.account, start.layout)?;
    while !rings.fill(lock, &mut Budget::new())? {}
    new_thread_with(lock, process, start, rings)
}

/// The same with these rings, which have been filled.
///
/// # Errors
/// Those of [`Thread::new`].
pub fn new_thread_with(
    lock: &mut Exclusive,
    process: &Arc<Process>,
    start: Start,
    rings: Rings,
) -> Result<Arc<Thread>, Status> {
    let threads = thread::ALIVE.load(Ordering::Relaxed).saturating_add(1) as usize;
    if make_room(lock, threads) { Thread::new(lock, process, start, rings) } else { Err(Status::OutOfMemory) }
}

/// Ends the current thread alone.
pub fn exit(lock: &mut Exclusive, thread: &Arc<Thread>, code: i32) {
    if thread.exit(lock, code) {
        forget(lock, thread);
    }
}

/// Ends a thread alone, in the name of a process.
pub fn kill(lock: &mut Exclusive, thread: &Arc<Thread>, killer: &Process, budget: &mut Budget) {
    if thread.kill(lock, killer, budget) {
        forget(lock, thread);
    }
}

/// Gives a thread another priority, from now on: one that waits in a queue waits behind those that have it already.
#[inline(never)]
pub fn rank(lock: &mut Exclusive, thread: &Arc<Thread>, priority: i8) {
    let own = lock.cpu().index;
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
pub fn settle(lock: &mut Exclusive, thread: &Arc<Thread>) {
    if let Some(number) = thread.processor() {
        // This one looks when it leaves the kernel.
        processors::others().filter(|other| other.index == number).for_each(processors::call);
        return;
    }
    let waiting = processors::all().find_map(|processor| state(processor).lock().ready.remove(thread));
    if let Some(thread) = waiting {
        state(lock.cpu()).lock().ready.make_ready(thread, &Others::of(lock));
    }
}

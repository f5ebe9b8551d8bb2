//! Which thread runs next.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Status;

use crate::arch::context::Context;
use crate::arch::percpu::{self, PerCpu};
use crate::arch::{processors, time};
use crate::cpu::kernel_lock;
use crate::object::process::Process;
use crate::object::thread::{self, Start, State, Thread};
use crate::sched::run_queue::{self, Dead};
use crate::sched::{CpuState, SLICE, state};

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
    /// A thread can run: the next one, unless an earlier one that was made ready goes before it.
    pub(super) fn make_ready(&mut self, thread: Arc<Thread>) {
        if !thread.handle.may_run_on(self.own) {
            return self.place(thread);
        }
        let later = match self.handoff.take() {
            Some(earlier) if earlier.priority() > thread.priority() => {
                self.handoff = Some(earlier);
                Some(thread)
            }
            earlier => {
                self.handoff = Some(thread);
                earlier
            }
        };
        if let Some(later) = later {
            self.queue.push(later);
        }
    }

    /// A thread that must wait goes to the queue where fewest do, of those processors that it may run on.
    pub(super) fn place(&mut self, thread: Arc<Thread>) {
        let own = thread.handle.may_run_on(self.own).then(|| self.queue.len());
        let other = processors::others()
            .filter(|other| thread.handle.may_run_on(other.index))
            .min_by_key(|other| state(other).lock().queue.len());
        match other {
            Some(other) if own.is_none_or(|own| state(other).lock().queue.len() < own) => {
                state(other).lock().queue.push(thread);
                processors::call(other);
            }
            _ => self.queue.push(thread),
        }
    }

    /// The next thread that can run. Threads that hand over to each other share one slice, so that
    /// those in the queue have their turn.
    pub(super) fn next(&mut self, now: u64) -> Option<Arc<Thread>> {
        if let Some(thread) = self.handoff.take() {
            if self.queue.highest().is_some_and(|highest| highest > thread.priority()) {
                self.queue.push(thread);
            } else if thread.change(State::Ready, State::Running) {
                if self.queue.is_free_for(thread.priority()) || !self.had_current {
                    self.slice = (now, SLICE);
                }
                return Some(thread);
            }
        }
        loop {
            let (thread, slice) = self.pop()?;
            if thread.change(State::Ready, State::Running) {
                self.slice = (now, slice.unwrap_or(SLICE));
                return Some(thread);
            }
        }
    }

    /// The first thread of this processor's queue, or of another's where that is more urgent.
    pub(super) fn pop(&mut self) -> Option<(Arc<Thread>, Option<u64>)> {
        let processor = self.own;
        if run_queue::waiting() > self.queue.len() {
            let own = self.queue.highest_for(processor);
            let highest = |other: &&PerCpu| state(other).lock().queue.highest_for(processor);
            if let Some(other) = processors::others().max_by_key(highest).filter(|other| highest(other) > own) {
                return state(other).lock().queue.pop(processor);
            }
        }
        self.queue.pop(processor)
    }

    /// The highest priority of the threads that wait for this processor, or for any.
    pub(super) fn highest(&self) -> Option<i8> {
        if !run_queue::is_waited() {
            return None;
        }
        let own = self.queue.highest();
        if run_queue::waiting() == self.queue.len() {
            return own;
        }
        let processor = self.own;
        processors::others().map(|other| state(other).lock().queue.highest_for(processor)).fold(own, Option::max)
    }

    /// Whether a thread that can run goes before one with this priority.
    pub(super) fn is_outranked(&self, priority: i8) -> bool {
        self.highest().is_some_and(|highest| highest > priority)
            || self.handoff.as_ref().is_some_and(|ready| ready.priority() > priority)
    }

    /// When the current slice ends, nanoseconds.
    pub(super) fn slice_end(&self) -> u64 {
        let (began, length) = self.slice;
        time::at(began).saturating_add(length)
    }

    /// Puts the thread that was kept next to the current one into the queue: what is next to it from then on was made ready
    /// since.
    pub(super) fn queue_kept(&mut self) {
        if let Some(kept) = self.handoff.take() {
            self.queue.push(kept);
        }
    }

    /// Whether no thread waits here with this priority or a higher one.
    pub(super) fn is_free_for(&self, priority: i8) -> bool {
        self.queue.is_free_for(priority) && self.handoff.as_ref().is_none_or(|ready| ready.priority() < priority)
    }

    /// Decides what runs, and lets others have what waits here. What is dropped in the end is given back, to be dropped
    /// without the lock.
    pub(super) fn choose(&mut self, cpu: &PerCpu) -> (Choice, Option<Arc<Thread>>) {
        let chosen = self.decide(cpu);
        cpu.called.store(false, Ordering::Relaxed);
        if self.queue.len() > 0 && processors::count() > 1 {
            self.share();
        }
        chosen
    }

    /// Lets other processors have what waits here: each that has less to do one thread. Where none has, but the first
    /// that waits is less urgent than what runs here, it takes turns with what runs elsewhere.
    pub(super) fn share(&mut self) {
        let mut offered: usize = 0;
        for thread in self.queue.waiting().take(processors::count()) {
            if !offer(thread) {
                break;
            }
            offered = offered.saturating_add(1);
        }
        let own = self.current.as_ref().map_or(percpu::IDLE, |current| current.priority());
        let first = self.queue.waiting().next().filter(|first| offered == 0 && first.priority() < own).cloned();
        let Some(first) = first else { return };
        let other = processors::others()
            .filter(|other| first.handle.may_run_on(other.index))
            .filter(|other| other.running.load(Ordering::Relaxed) <= first.priority())
            .min_by_key(|other| state(other).lock().queue.len());
        if let Some(other) = other
            && let Some(first) = self.queue.remove(&first)
        {
            state(other).lock().queue.push(first);
            processors::call(other);
        }
    }

    pub(super) fn decide(&mut self, cpu: &PerCpu) -> (Choice, Option<Arc<Thread>>) {
        if let Some(current) = &self.current
            && current.state() == State::Running
        {
            let may_stay = current.handle.may_run_on(self.own);
            if may_stay && !self.is_outranked(current.priority()) {
                let pointer = current.context();
                // It keeps its place where no thread waits longer, and no other processor could take it.
                if (processors::count() > 1 || self.queue.len() > 0)
                    && let Some(ready) = self.handoff.take()
                {
                    self.queue.push(ready);
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
            if front && left > SLICE / 8 && thread.handle.may_run_on(self.own) {
                self.queue.push_front(thread, left);
            } else {
                if !front && let Some(ready) = self.handoff.take() {
                    self.queue.push(ready);
                }
                self.place(thread);
            }
        }
    }

    /// Takes out dead threads, so that their memory can go back: as many as there is room for.
    pub(super) fn take_dead(&mut self) -> Dead {
        let mut dead = Dead::default();
        if let Some(thread) = self.handoff.take_if(|thread| thread.state() == State::Dead) {
            dead.push(thread);
        }
        self.queue.take_dead(&mut dead);
        dead
    }
}

/// Gives back the memory of a run queue that was long.
pub fn shrink_queue() {
    let threads = thread::ALIVE.load(Ordering::Relaxed) as usize;
    for processor in processors::all() {
        state(processor).lock().queue.shrink(threads);
    }
}

/// Makes room for so many threads in each run queue. False where there is no memory.
pub(super) fn make_room(threads: usize) -> bool {
    processors::all().all(|processor| state(processor).lock().queue.make_room(threads))
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
        state(percpu::current()).lock().make_ready(Arc::clone(thread));
    }
}

/// The thread whose turn it is among those that wait, taken out of the queue: for tests.
#[cfg(feature = "tests")]
#[inline(never)]
pub fn take_waiting() -> Option<Arc<Thread>> {
    let cpu = percpu::current();
    state(cpu).lock().queue.pop(cpu.index).map(|(thread, _)| thread)
}

/// A thread waits in this processor's queue: lets another processor that idles, or that runs something less urgent, have
/// a look. False where there is none.
pub(super) fn offer(thread: &Thread) -> bool {
    let busy = |processor: &&PerCpu| processor.running.load(Ordering::Relaxed);
    let may = |processor: &&PerCpu| !processor.is_called() && thread.handle.may_run_on(processor.index);
    let least =
        processors::others().filter(may).min_by_key(busy).filter(|processor| busy(processor) < thread.priority());
    least.map(processors::call).is_some()
}

/// Lets go of dead threads.
pub fn forget_dead() {
    for processor in processors::all() {
        loop {
            let dead = state(processor).lock().take_dead();
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
    state(cpu).lock().queue_kept();
}

/// Lets others have their turn if the slice of the current thread of this processor, which is `cpu`, is over.
pub fn end_slice(cpu: &PerCpu) {
    let mut state = state(cpu).lock();
    let now = time::tsc();
    state.look_at_limit(now);
    let priority = state.current.as_ref().map(|current| current.priority());
    let waiting = priority.is_some_and(|priority| !state.queue.is_free_for(priority));
    if (waiting || state.handoff.is_some()) && time::at(now) >= state.slice_end() {
        state.preempt(cpu, now, false);
    }
}

/// Lets the thread that was made ready just now on this processor, which is `cpu`, run at once, unless the current one
/// goes before it.
pub fn give_way(cpu: &PerCpu) {
    let mut state = state(cpu).lock();
    let ready = state.handoff.as_ref().map(|ready| ready.priority());
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
            if let Some(thread) = cpu.queue.remove(thread) {
                cpu.queue.push(thread);
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
    let waiting = processors::all().find_map(|processor| {
        let mut cpu = state(processor).lock();
        cpu.handoff.take_if(|ready| Arc::ptr_eq(ready, thread)).or_else(|| cpu.queue.remove(thread))
    });
    if let Some(thread) = waiting {
        state(percpu::current()).lock().make_ready(thread);
    }
}

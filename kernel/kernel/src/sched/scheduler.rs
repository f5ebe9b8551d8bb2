//! Which thread runs: preemptive, by priority and round robin within one, with one queue per processor.
//!
//! Processors that share the kernel's lock look at their own state alone, and leave the kernel where nothing else has to be
//! looked at. Whatever concerns another processor's state or a queue is done by who has the lock alone: see [`exclude`].
//!
//! A processor that has nothing to do, or something less urgent than what waits at another, takes the first thread that
//! waits there. At the end of its slice a thread goes to the queue of the processor where fewest wait. Thus
//! threads of one priority have about the same share, however many there are for each processor.
//!
//! A thread that another one makes ready while it works in the kernel runs next, without going
//! through the queue, if that other one then waits: this is what makes a call cost two switches and
//! nothing else. Only a thread with a higher priority goes before it.

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_abi::Status;
use spin::Mutex;

use crate::arch::context::Context;
use crate::arch::percpu::{self, Local, PerCpu};
use crate::arch::{processors, time};
use crate::cpu::kernel_lock;
use crate::object::process::Process;
use crate::object::thread::{self, Start, State, Thread};
use crate::object::{cpu_time, deadline, reaper};
use crate::sched::run_queue::{self, Dead, RunQueue};

/// How long a thread runs while others wait, in nanoseconds.
const SLICE: u64 = 10_000_000;
/// The shortest time after which a limit of CPU time is looked at again, in nanoseconds: so much more than its limit can an
/// account use on each processor.
const SHORTEST: u64 = 50_000;

/// Switches from one thread to another since the start.
pub static SWITCHES: AtomicU64 = AtomicU64::new(0);
/// Time that processors had nothing to do, ticks of the time-stamp counter.
pub static IDLE: AtomicU64 = AtomicU64::new(0);

/// What a processor knows about scheduling.
#[derive(Default)]
pub struct CpuState {
    current: Option<Arc<Thread>>,
    queue: RunQueue,
    /// Made ready while the current thread ran, and next before the queue. Where there is one processor and the queue is
    /// empty it stays here while the current thread runs on.
    handoff: Option<Arc<Thread>>,
    /// Whose vector registers the processor holds, by the thread's number.
    loaded: u64,
    /// When the current slice began, by the time-stamp counter, and how long it is, in nanoseconds.
    slice: (u64, u64),
    /// The thread that ran last hands over; otherwise the processor was idle.
    had_current: bool,
    /// The thread that ran last, which [`exclude`] has put down: in its name the kernel works here until it is decided what runs
    /// next.
    laid_down: Option<Arc<Thread>>,
    /// When the processor came to have nothing to do, while it has not, by the time-stamp counter.
    idle_since: Option<u64>,
    /// Until when the current thread's time is accounted for, by the time-stamp counter.
    since: u64,
    /// What the timer is set to; 0 where it is not.
    armed: u64,
    /// The deadline for which the timer is set here and nowhere else; 0 where it is not for one.
    covers: u64,
    /// When the current thread's account may have no CPU time left, where that is limited.
    limit_end: u64,
}

impl CpuState {
    /// That of a processor that has not run anything; `None` where there is no memory for its queue.
    pub fn new() -> Option<Self> {
        Some(Self { queue: RunQueue::new()?, ..Self::default() })
    }
}

/// Lends the thread in whose name the kernel works on this processor, which is `cpu`.
///
/// # Safety
/// What is given must not be used once the processor runs another thread, or none.
#[inline(always)]
pub unsafe fn lent(cpu: &PerCpu) -> Option<ManuallyDrop<Arc<Thread>>> {
    let thread = cpu.current.load(Ordering::Relaxed).cast_const().cast::<Thread>();
    // SAFETY: it comes from an `Arc` that the scheduler's state holds while it is named here, see `set_lent`; this one
    // is never dropped.
    (!thread.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(thread) }))
}

/// Notes in which thread's name the kernel works on this processor, which is `cpu`.
///
/// # Safety
/// The thread must be held as long as it is named.
#[inline(always)]
unsafe fn set_lent(cpu: &PerCpu, thread: Option<&Arc<Thread>>) {
    let pointer = thread.map_or(core::ptr::null(), Arc::as_ptr);
    cpu.current.store(pointer.cast_mut().cast(), Ordering::Relaxed);
}

/// The bytes that what a processor knows about scheduling takes of its room.
pub const ROOM: usize = size_of::<Mutex<CpuState>>().next_multiple_of(16);

// SAFETY: the start gives each processor one.
unsafe impl Local for Mutex<CpuState> {
    const OFFSET: usize = 0;
}

/// What a processor knows about scheduling.
#[inline(always)]
fn state(cpu: &PerCpu) -> &Mutex<CpuState> {
    cpu.local()
}

/// What to do on the way out of the kernel.
pub enum Choice {
    Run(*mut Context),
    /// An ENTER goes on first.
    Resume(Arc<Thread>),
    /// Nothing yet: a process has to end first.
    Again,
    Idle,
}

/// The thread in whose name the kernel works; none where another processor has ended it meanwhile.
pub fn current() -> Option<Arc<Thread>> {
    state(percpu::current()).lock().current.clone().filter(|thread| thread.state() == State::Running)
}

/// Gives back the memory of a run queue that was long.
pub fn shrink_queue() {
    let threads = thread::ALIVE.load(Ordering::Relaxed) as usize;
    for processor in processors::all() {
        state(processor).lock().queue.shrink(threads);
    }
}

/// Makes room for so many threads in each run queue. False where there is no memory.
fn make_room(threads: usize) -> bool {
    processors::all().all(|processor| state(processor).lock().queue.make_room(threads))
}

/// Has the kernel's lock alone from here on, where this processor shared it. No other lock may be held. The current thread may
/// be dead afterwards; where it waits it may be gone, so nobody may have borrowed it.
///
/// A thread that waits is put down before others come in: once its wait is over they take it up, on another processor.
#[inline]
pub fn exclude() {
    if kernel_lock::is_shared() {
        exclude_others();
    }
}

#[cold]
#[inline(never)]
fn exclude_others() {
    state(percpu::current()).lock().lay_down();
    kernel_lock::exclude();
}

/// Makes a blocked thread ready. Where this processor shares the kernel's lock, no other lock may be held.
pub fn wake(thread: &Arc<Thread>) {
    exclude();
    if thread.change(State::Blocked, State::Ready) {
        state(percpu::current()).lock().make_ready(Arc::clone(thread));
    }
}

impl CpuState {
    /// The current thread stops running here, where it has not been laid down already.
    #[inline(always)]
    fn put_down(&mut self, now: u64) -> Option<Arc<Thread>> {
        self.settle_time(now);
        self.laid_down.take().or_else(|| self.release())
    }

    /// Puts the current thread down, and nothing else.
    #[inline(always)]
    fn release(&mut self) -> Option<Arc<Thread>> {
        let thread = self.current.take()?;
        // SAFETY: it is named no longer.
        unsafe { set_lent(percpu::current(), None) };
        thread.put_down();
        Some(thread)
    }

    /// Puts the current thread down, where it waits. What this processor does until it is decided what runs next is still its
    /// time.
    #[cold]
    fn lay_down(&mut self) {
        if self.current.as_ref().is_some_and(|current| current.state() == State::Blocked) {
            self.laid_down = self.release();
        }
    }

    /// A thread can run: the next one, unless an earlier one that was made ready goes before it.
    fn make_ready(&mut self, thread: Arc<Thread>) {
        if !thread.handle.may_run_on(percpu::current().index) {
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
    fn place(&mut self, thread: Arc<Thread>) {
        let own = thread.handle.may_run_on(percpu::current().index).then(|| self.queue.len());
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
    fn next(&mut self, now: u64) -> Option<Arc<Thread>> {
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
    fn pop(&mut self) -> Option<(Arc<Thread>, Option<u64>)> {
        let processor = percpu::current().index;
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
    fn highest(&self) -> Option<i8> {
        if !run_queue::is_waited() {
            return None;
        }
        let own = self.queue.highest();
        if run_queue::waiting() == self.queue.len() {
            return own;
        }
        let processor = percpu::current().index;
        processors::others().map(|other| state(other).lock().queue.highest_for(processor)).fold(own, Option::max)
    }

    /// Whether a thread that can run goes before one with this priority.
    fn is_outranked(&self, priority: i8) -> bool {
        self.highest().is_some_and(|highest| highest > priority)
            || self.handoff.as_ref().is_some_and(|ready| ready.priority() > priority)
    }

    /// When the current slice ends, nanoseconds.
    fn slice_end(&self) -> u64 {
        let (began, length) = self.slice;
        time::at(began).saturating_add(length)
    }

    /// Puts the thread that was kept beside the current one into the queue: what is beside it from then on was made ready
    /// since.
    fn queue_kept(&mut self) {
        if let Some(kept) = self.handoff.take() {
            self.queue.push(kept);
        }
    }

    /// Whether nobody waits here with this priority or a higher one.
    fn is_free_for(&self, priority: i8) -> bool {
        self.queue.is_free_for(priority) && self.handoff.as_ref().is_none_or(|ready| ready.priority() < priority)
    }

    /// Sets the timer to the end of the slice, where somebody waits for it, or to the next deadline.
    #[inline]
    fn arm(&mut self) {
        if self.queue.len() > 0 || self.handoff.is_some() || deadline::is_uncovered() {
            self.set_timer();
        }
    }

    fn set_timer(&mut self) {
        let alone = self.current.as_ref().is_none_or(|current| self.is_free_for(current.priority()));
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

    /// Decides what runs, and lets others have what waits here. What is dropped in the end is given back, to be dropped
    /// without the lock.
    fn choose(&mut self) -> (Choice, Option<Arc<Thread>>) {
        let chosen = self.decide();
        percpu::current().called.store(false, Ordering::Relaxed);
        if self.queue.len() > 0 && processors::count() > 1 {
            self.share();
        }
        chosen
    }

    /// Lets other processors have what waits here: each that has less to do one thread. Where none has, but the first
    /// that waits is less urgent than what runs here, it takes turns with what runs elsewhere.
    fn share(&mut self) {
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

    /// Accounts for the time until now.
    #[inline(always)]
    fn settle_time(&mut self, now: u64) {
        if let Some(current) = self.current.as_ref().or(self.laid_down.as_ref()) {
            charge(current, self.since, now);
            self.since = now;
        } else if let Some(since) = &mut self.idle_since {
            IDLE.fetch_add(now.saturating_sub(*since), Ordering::Relaxed);
            *since = now;
        }
    }

    /// Whether the CPU time of the thread in whose name the kernel works here is limited.
    fn is_limited(&self) -> bool {
        self.current
            .as_ref()
            .or(self.laid_down.as_ref())
            .is_some_and(|current| current.process.account.is_cpu_limited())
    }

    /// Whether a thread whose CPU time is limited has any left. Notes when to look again: before those who use of the
    /// same limit can have used it up, however many processors they run on.
    fn has_time(&mut self, thread: &Thread, now: u64) -> bool {
        for processor in processors::others() {
            let mut other = state(processor).lock();
            if other.is_limited() {
                other.settle_time(now);
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
    fn admit(&mut self, thread: &Thread, now: u64) -> bool {
        if !self.has_time(thread, now) {
            thread.change(State::Running, State::Blocked);
            reaper::end_spent();
            note_idle();
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
    fn look_at_limit(&mut self, now: u64) {
        if let Some(current) = self.current.as_ref().filter(|_| self.is_limited()).cloned() {
            self.settle_time(now);
            if !self.has_time(&current, now) {
                reaper::end_spent();
            }
            self.set_timer();
        }
    }

    /// Nothing runs here: the timer is set for a deadline or not at all, whatever it was set for before.
    #[cold]
    #[inline(never)]
    fn rest_timer(&mut self, now: u64) {
        note_idle();
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

    fn decide(&mut self) -> (Choice, Option<Arc<Thread>>) {
        if let Some(current) = &self.current
            && current.state() == State::Running
        {
            let may_stay = current.handle.may_run_on(percpu::current().index);
            if may_stay && !self.is_outranked(current.priority()) {
                let pointer = current.context();
                // It keeps its place where nobody waits longer, and no other processor could take it.
                if (processors::count() > 1 || self.queue.len() > 0)
                    && let Some(ready) = self.handoff.take()
                {
                    self.queue.push(ready);
                }
                self.arm();
                return (Choice::Run(pointer), None);
            }
            preempt(self, time::tsc(), true);
        }
        let now = time::tsc();
        let left = self.put_down(now);
        self.had_current = left.is_some();
        let cpu = percpu::current();
        let Some(next) = self.next(now) else {
            self.rest_timer(now);
            return (Choice::Idle, left);
        };
        if next.process.account.is_cpu_limited() && !self.admit(&next, now) {
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

    /// Where the current thread goes on, or, where it waits, the one that was made ready: where nobody who waits in any queue
    /// goes before it, and nothing else is to be looked at.
    #[inline(always)]
    fn stay_or_switch<const WAITED: bool>(&mut self, cpu: &PerCpu) -> Option<*mut Context> {
        let current = self.current.as_ref()?;
        match self.handoff.take() {
            None if current.state() == State::Running
                && current.handle.may_run_on(cpu.index)
                && !(WAITED && run_queue::outranks(current.priority())) =>
            {
                cpu.called.store(false, Ordering::Relaxed);
                Some(current.context())
            }
            None => None,
            Some(next) => {
                let may = current.state() == State::Blocked
                    && may_begin(&next)
                    && !is_either_limited(current, &next)
                    && !(WAITED && run_queue::outranks(next.priority()));
                if may && next.change(State::Ready, State::Running) {
                    return Some(self.exchange::<WAITED>(cpu, next));
                }
                self.handoff = Some(next);
                None
            }
        }
    }

    /// Lets a blocked thread run in the place of the current one, which waits, as [`CpuState::decide`] would: where nobody
    /// who waits in any queue goes before it, and nothing else is to be looked at.
    ///
    /// # Errors
    /// The thread, with which nothing has happened.
    #[inline(always)]
    fn switch_to<const WAITED: bool>(&mut self, cpu: &PerCpu, next: Arc<Thread>) -> Result<*mut Context, Arc<Thread>> {
        let may = self.handoff.is_none()
            && self
                .current
                .as_ref()
                .is_some_and(|current| current.state() == State::Blocked && !is_either_limited(current, &next))
            && may_begin(&next)
            && next.handle.may_run_on(cpu.index)
            && !(WAITED && run_queue::outranks(next.priority()));
        if may && next.change(State::Blocked, State::Running) {
            Ok(self.exchange::<WAITED>(cpu, next))
        } else {
            Err(next)
        }
    }

    /// Puts the current thread down, which waits, and takes another one up, which is running by its state. Where others wait
    /// for their turn, they share one slice.
    #[inline(always)]
    fn exchange<const WAITED: bool>(&mut self, cpu: &PerCpu, next: Arc<Thread>) -> *mut Context {
        let now = time::tsc();
        if let Some(left) = self.current.take() {
            // Its account has no limit.
            count(&left, self.since, now);
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
    fn take_up(&mut self, cpu: &PerCpu, next: Arc<Thread>, now: u64) {
        SWITCHES.fetch_add(1, Ordering::Relaxed);
        self.since = now;
        cpu.running.store(next.priority(), Ordering::Relaxed);
        cpu.thread.store(next.handle.id, Ordering::Relaxed);
        next.process.space.activate(cpu);
        self.load_fpu(cpu, &next);
        // SAFETY: it is held here from now on, and named by nobody once it is taken out: `put_down` sees to that, and who
        // exchanges it for another names that one.
        unsafe { set_lent(cpu, Some(&next)) };
        self.current = Some(next);
    }

    /// Takes a thread up: the processor holds its vector registers then.
    #[inline(always)]
    fn load_fpu(&mut self, cpu: &PerCpu, next: &Thread) {
        let stayed = next.take_up(cpu.index);
        if !(stayed && self.loaded == next.handle.id) {
            next.restore_fpu();
            self.loaded = next.handle.id;
        }
    }

    /// Takes out dead threads, so that their memory can go back: as many as there is room for.
    fn take_dead(&mut self) -> Dead {
        let mut dead = Dead::default();
        if let Some(thread) = self.handoff.take_if(|thread| thread.state() == State::Dead) {
            dead.push(thread);
        }
        self.queue.take_dead(&mut dead);
        dead
    }
}

/// Counts the time that a thread has run between two counts of the time-stamp counter.
#[inline(always)]
fn count(thread: &Thread, since: u64, now: u64) {
    let ran = now.saturating_sub(since);
    thread.handle.cpu_ticks.fetch_add(ran, Ordering::Relaxed);
    thread.process.account.cpu_ticks.fetch_add(ran, Ordering::Relaxed);
}

/// The same, and takes it from what its account may use.
#[inline(always)]
fn charge(thread: &Thread, since: u64, now: u64) {
    count(thread, since, now);
    let account = &thread.process.account;
    if account.is_cpu_limited() {
        account.spend(time::at(now).saturating_sub(time::at(since)));
    }
}

/// Whether a thread can be taken up without looking at anything else: the processor on which it began to wait has put it
/// down, which it does before it gives the kernel's lock up.
#[inline(always)]
pub fn may_begin(next: &Thread) -> bool {
    next.processor().is_none() && !next.has_resume()
}

/// Whether the CPU time of one of two threads is limited, so that it has to be looked at when they take turns.
#[inline(always)]
fn is_either_limited(current: &Thread, next: &Thread) -> bool {
    cpu_time::is_any_limited() && [current, next].iter().any(|thread| thread.process.account.is_cpu_limited())
}

/// Has a thread current on this processor while something is done, and puts it down then, if that has not been done before: for
/// tests. Whether there was one to put down.
#[cfg(feature = "tests")]
#[inline(never)]
pub fn with_current(thread: &Arc<Thread>, act: impl FnOnce()) -> bool {
    let cpu = percpu::current();
    state(cpu).lock().take_up(cpu, Arc::clone(thread), time::tsc());
    act();
    let left = state(cpu).lock().put_down(time::tsc());
    crate::memory::kernel_space::activate();
    left.is_some()
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
fn offer(thread: &Thread) -> bool {
    let busy = |processor: &&PerCpu| processor.running.load(Ordering::Relaxed);
    let may = |processor: &&PerCpu| !processor.is_called() && thread.handle.may_run_on(processor.index);
    let least =
        processors::others().filter(may).min_by_key(busy).filter(|processor| busy(processor) < thread.priority());
    least.map(processors::call).is_some()
}

/// No thread runs on this processor.
fn note_idle() {
    let cpu = percpu::current();
    cpu.running.store(percpu::IDLE, Ordering::Relaxed);
    cpu.thread.store(0, Ordering::Relaxed);
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

/// Puts the current thread behind those that wait, in the middle of a system call that it goes on with
/// when its turn comes.
pub fn pause() {
    percpu::current().paused.store(true, Ordering::Relaxed);
    let mut cpu = state(percpu::current()).lock();
    let now = time::tsc();
    preempt(&mut cpu, now, false);
}

/// Lets go of one thread that has ended.
fn forget(thread: &Arc<Thread>) {
    // One that runs waits in no queue.
    if thread.processor().is_none() {
        forget_dead();
    }
    shrink_queue();
}

/// Decides what runs on this processor, which is `cpu`. The thread that is given back is dropped without a lock.
pub fn choose(cpu: &PerCpu) -> (Choice, Option<Arc<Thread>>) {
    state(cpu).lock().choose()
}

/// This processor, which is `cpu`, has nothing to do.
pub fn begin_idle(cpu: &PerCpu) {
    state(cpu).lock().idle_since.get_or_insert_with(time::tsc);
}

/// The processor has something to do again.
pub fn end_idle() {
    let mut cpu = state(percpu::current()).lock();
    if cpu.idle_since.is_some() {
        cpu.settle_time(time::tsc());
        cpu.idle_since = None;
    }
}

/// Looks again at what CPU time the current thread has, where it is limited.
pub fn look_at_limit() {
    state(percpu::current()).lock().look_at_limit(time::tsc());
}

/// Puts the thread that was kept beside the current one into the queue.
pub fn queue_kept() {
    state(percpu::current()).lock().queue_kept();
}

/// The timer has come that was set last.
pub fn timer_came() {
    let mut cpu = state(percpu::current()).lock();
    cpu.armed = 0;
    deadline::uncover(core::mem::take(&mut cpu.covers));
}

/// Lets others have their turn where the current thread's slice is over.
pub fn end_slice() {
    let mut cpu = state(percpu::current()).lock();
    let now = time::tsc();
    cpu.look_at_limit(now);
    let priority = cpu.current.as_ref().map(|current| current.priority());
    let waiting = priority.is_some_and(|priority| !cpu.queue.is_free_for(priority));
    if (waiting || cpu.handoff.is_some()) && time::at(now) >= cpu.slice_end() {
        preempt(&mut cpu, now, false);
    }
}

/// Lets the thread that was made ready just now run at once, unless the current one goes before it.
pub fn give_way() {
    let mut cpu = state(percpu::current()).lock();
    let ready = cpu.handoff.as_ref().map(|ready| ready.priority());
    let current = cpu.current.as_ref().map(|current| current.priority());
    if ready.is_some() && ready >= current {
        let now = time::tsc();
        preempt(&mut cpu, now, true);
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

/// Limits of CPU time have changed: every processor looks at that of the thread that it runs.
pub fn limits_changed() {
    state(percpu::current()).lock().look_at_limit(time::tsc());
    processors::others().for_each(processors::call);
}

/// Accounts for the time until now on all processors, so that what is read next is true.
pub fn settle_times() {
    let now = time::tsc();
    processors::all().for_each(|processor| state(processor).lock().settle_time(now));
}

/// Gives a thread another priority, from now on: one that waits in a queue waits behind those that have it already.
#[inline(never)]
pub fn rank(thread: &Arc<Thread>, priority: i8) {
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
                if processor.index != percpu::current().index {
                    processors::call(processor);
                }
                return;
            }
        }
        return;
    };
    if let Some(processor) = processors::all().find(|processor| processor.index == number) {
        processor.running.store(thread.priority(), Ordering::Relaxed);
        if number != percpu::current().index {
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

/// Whether a thread that waits may run in the place of the current one, once that waits: where nobody who waits in any queue goes
/// before it, and nothing else is to be looked at. It stays so as long as `next` is locked and waits: who asks holds its lock, since
/// another processor may let it go on otherwise.
#[inline(always)]
pub fn may_pass_on(cpu: &PerCpu, next: &Thread) -> bool {
    is_undisturbed()
        && !(run_queue::is_waited() && run_queue::outranks(next.priority()))
        && next.state() == State::Blocked
        && may_begin(next)
        && next.handle.may_run_on(cpu.index)
        && state(cpu).lock().handoff.is_none()
}

/// Has the current thread wait and the other one run, where it [may](may_pass_on): the context of that one. Another processor may
/// take the first up from then on, so nothing of it is touched any more.
#[inline(always)]
pub fn pass_on(cpu: &PerCpu, current: &Thread, next: &Arc<Thread>) -> *mut Context {
    // Neither fails. Whoever ends a thread, or wakes one whose wait is over, is alone, and this processor shares the lock; and a wait
    // has but one who ends it, which was this one.
    current.change(State::Running, State::Blocked);
    next.change(State::Blocked, State::Running);
    let mut state = state(cpu).lock();
    if run_queue::is_waited() {
        pass_on_among_others(cpu, &mut state, next)
    } else {
        state.exchange::<false>(cpu, Arc::clone(next))
    }
}

/// [`CpuState::exchange`], while others wait for their turn.
#[inline(never)]
fn pass_on_among_others(cpu: &PerCpu, state: &mut CpuState, next: &Arc<Thread>) -> *mut Context {
    state.exchange::<true>(cpu, Arc::clone(next))
}

/// Lets `next` run where the current thread has begun to wait for it: the context of `next`, which is current from now on.
///
/// # Errors
/// `next`, with which nothing has happened, where something else is to be looked at first.
#[inline(always)]
pub fn hand_over(cpu: &PerCpu, next: Arc<Thread>) -> Result<*mut Context, Arc<Thread>> {
    match is_undisturbed() {
        true if run_queue::is_waited() => switch_among_others(cpu, next),
        true => state(cpu).lock().switch_to::<false>(cpu, next),
        false => Err(next),
    }
}

/// The context of the thread that came in, where nothing has changed for it, or of the one that it made ready, where it waits.
/// `None` where something else is to be looked at first.
#[inline(always)]
pub fn stay_or_switch(cpu: &PerCpu) -> Option<*mut Context> {
    match is_undisturbed() {
        true if run_queue::is_waited() => stay_among_others(cpu),
        true => state(cpu).lock().stay_or_switch::<false>(cpu),
        false => None,
    }
}

/// [`CpuState::switch_to`], while others wait for their turn.
#[inline(never)]
fn switch_among_others(cpu: &PerCpu, next: Arc<Thread>) -> Result<*mut Context, Arc<Thread>> {
    state(cpu).lock().switch_to::<true>(cpu, next)
}

/// [`CpuState::stay_or_switch`], while others wait for their turn.
#[inline(never)]
fn stay_among_others(cpu: &PerCpu) -> Option<*mut Context> {
    state(cpu).lock().stay_or_switch::<true>(cpu)
}

/// Whether there is nothing to do on the way out but for the thread that goes on. Where one is [paused](pause), none is current.
#[inline(always)]
fn is_undisturbed() -> bool {
    !reaper::has_work() && !crate::object::log::has_to_serve() && !deadline::is_uncovered()
}

/// The running thread goes back into the queue: to its front where it has not used up its slice.
fn preempt(cpu: &mut CpuState, now: u64, front: bool) {
    if cpu.current.as_ref().is_some_and(|thread| thread.change(State::Running, State::Ready))
        && let Some(thread) = cpu.put_down(now)
    {
        let left = cpu.slice_end().saturating_sub(time::at(now));
        if front && left > SLICE / 8 && thread.handle.may_run_on(percpu::current().index) {
            cpu.queue.push_front(thread, left);
        } else {
            if !front && let Some(ready) = cpu.handoff.take() {
                cpu.queue.push(ready);
            }
            cpu.place(thread);
        }
    }
}

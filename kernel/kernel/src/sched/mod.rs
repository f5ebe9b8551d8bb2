//! Which thread runs. The policy is in the crate `capos_sched`; this module gives it the threads and the processors, and
//! switches.
//!
//! A processor that shares the kernel lock looks at its own state alone: direct switches take `&Shared`. It leaves the kernel if nothing
//! else has to be looked at. So does the exclusive holder after a system call, so that function takes `Held`
//! ([`switching::stay_or_switch`]). Only the exclusive holder of the lock touches another processor's state or a queue. Functions that do
//! so, or show the other processors, take an `Exclusive`. [`scheduler::upgrade`] leads from one to the other.

pub mod accounting;
pub mod scheduler;
pub mod switching;
pub mod timer;

use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_sched::{Processors, Ready, RunQueue, Schedulable, Waiting};
use spin::Mutex;

use crate::arch::percpu::{Local, PerCpu};
use crate::arch::processors;
use crate::cpu::kernel_lock::{Exclusive, Shared};
use crate::object::thread::{State, Thread};

/// How long a thread runs while others wait, in nanoseconds.
const SLICE: u64 = 10_000_000;

/// Switches from one thread to another since the start.
pub static SWITCHES: AtomicU64 = AtomicU64::new(0);

/// Threads that wait in any processor's queue.
static WAITING: Waiting = Waiting::new();

/// What a processor knows about scheduling.
pub struct CpuState {
    current: Option<Arc<Thread>>,
    ready: Ready<Thread>,
    /// Whose vector registers the processor holds, by the thread's number.
    loaded: u64,
    /// When the current slice began, by the time-stamp counter, and how long it is, in nanoseconds.
    slice: (u64, u64),
    /// The thread that ran last hands over; otherwise the processor was idle.
    had_current: bool,
    /// The thread that ran last, which [`scheduler::upgrade`] has switched out: in its name the kernel works here until it is decided what runs
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

/// The bytes that what a processor knows about scheduling takes of its room.
pub const ROOM: usize = size_of::<Mutex<CpuState>>().next_multiple_of(16);

impl CpuState {
    /// That of processor `own`, which has not run anything; `None` where there is no memory for its queue.
    pub fn new(own: u32) -> Option<Self> {
        Some(Self {
            current: None,
            ready: Ready::new(own, RunQueue::new(&WAITING)?),
            loaded: 0,
            slice: (0, 0),
            had_current: false,
            laid_down: None,
            idle_since: None,
            since: 0,
            armed: 0,
            covers: 0,
            limit_end: 0,
        })
    }
}

impl Schedulable for Thread {
    #[inline(always)]
    fn priority(&self) -> i8 {
        Self::priority(self)
    }

    #[inline(always)]
    fn may_run_on(&self, processor: u32) -> bool {
        self.handle.may_run_on(processor)
    }

    fn is_dead(&self) -> bool {
        self.state() == State::Dead
    }

    #[inline(always)]
    fn begin(&self) -> bool {
        self.change(State::Ready, State::Running)
    }
}

/// The other processors, as this one sees them, which holds the kernel lock exclusively.
struct Others<'lock>(PhantomData<&'lock Exclusive>);

impl<'lock> Others<'lock> {
    #[inline(always)]
    const fn of(_: &'lock Exclusive) -> Self {
        Self(PhantomData)
    }
}

impl Processors<Thread> for Others<'_> {
    type Processor = &'static PerCpu;

    #[inline]
    fn others(&self) -> impl Iterator<Item = &'static PerCpu> {
        processors::others()
    }

    #[inline(always)]
    fn index(&self, processor: &'static PerCpu) -> u32 {
        processor.index
    }

    #[inline]
    fn with_queue<R>(&self, processor: &'static PerCpu, act: impl FnOnce(&mut RunQueue<Thread>) -> R) -> R {
        act(&mut state(processor).lock().ready.queue)
    }

    #[inline]
    fn running(&self, processor: &'static PerCpu) -> i8 {
        processor.running.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_called(&self, processor: &'static PerCpu) -> bool {
        processor.is_called()
    }

    fn call(&self, processor: &'static PerCpu) {
        processors::call(processor);
    }

    #[inline]
    fn count(&self) -> usize {
        processors::count()
    }
}

/// The thread in whose name the kernel works on a processor, lent for as long as that shares the kernel lock.
pub struct Lent<'lock> {
    thread: ManuallyDrop<Arc<Thread>>,
    lock: PhantomData<&'lock Shared>,
}

impl Deref for Lent<'_> {
    type Target = Arc<Thread>;

    #[inline(always)]
    fn deref(&self) -> &Arc<Thread> {
        &self.thread
    }
}

/// Lends the thread in whose name the kernel works on this processor.
#[inline(always)]
pub fn lent(lock: &Shared) -> Option<Lent<'_>> {
    let thread = lock.cpu().current.load(Ordering::Relaxed).cast_const().cast::<Thread>();
    if thread.is_null() {
        return None;
    }
    // SAFETY: it comes from an `Arc` that the scheduler's state holds while it is named here, see `set_lent`; this one is never dropped.
    // If this processor begins to run another thread while it shares the lock, the one that is lent waits, and its process holds it. It
    // ends only once a processor holds the lock exclusively. Then the borrow of `lock` has ended.
    let thread = ManuallyDrop::new(unsafe { Arc::from_raw(thread) });
    Some(Lent { thread, lock: PhantomData })
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

// SAFETY: the start gives each processor one.
unsafe impl Local for Mutex<CpuState> {
    const OFFSET: usize = 0;
}

/// What a processor knows about scheduling.
#[inline(always)]
fn state(cpu: &PerCpu) -> &Mutex<CpuState> {
    cpu.local()
}

/// The thread in whose name the kernel works on this processor; none where another processor has ended it meanwhile.
pub fn current(lock: &Exclusive) -> Option<Arc<Thread>> {
    state(lock.cpu()).lock().current.clone().filter(|thread| thread.state() == State::Running)
}

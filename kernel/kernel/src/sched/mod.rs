//! Which thread runs: preemptive, by priority and round robin within one, with one queue per processor.
//!
//! Processors that share the kernel lock look at their own state alone, and leave the kernel if nothing else has to be
//! looked at. Another processor's state or a queue is touched only by the exclusive holder of the lock: see
//! [`scheduler::exclude`].
//!
//! A processor that has nothing to do, or something less urgent than what waits at another, takes the first thread that
//! waits there. At the end of its slice a thread goes to the queue of the processor where fewest wait. Thus
//! threads of one priority have about the same share, however many there are for each processor.
//!
//! If a thread makes another one ready in the kernel and then waits, the other one runs next. It does not go through the
//! queue, so a call costs two switches and nothing else. Only a thread with a higher priority goes before it.

pub mod accounting;
pub mod run_queue;
pub mod scheduler;
pub mod switching;
pub mod timer;

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

use spin::Mutex;

use crate::arch::percpu::{self, Local, PerCpu};
use crate::object::thread::{State, Thread};
use crate::sched::run_queue::RunQueue;

/// How long a thread runs while others wait, in nanoseconds.
const SLICE: u64 = 10_000_000;

/// Switches from one thread to another since the start.
pub static SWITCHES: AtomicU64 = AtomicU64::new(0);

/// What a processor knows about scheduling.
#[derive(Default)]
pub struct CpuState {
    /// The number of the processor that it belongs to.
    own: u32,
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
    /// The thread that ran last, which [`exclude`] has switched out: in its name the kernel works here until it is decided what runs
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
        Some(Self { own, queue: RunQueue::new()?, ..Self::default() })
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

// SAFETY: the start gives each processor one.
unsafe impl Local for Mutex<CpuState> {
    const OFFSET: usize = 0;
}

/// What a processor knows about scheduling.
#[inline(always)]
fn state(cpu: &PerCpu) -> &Mutex<CpuState> {
    cpu.local()
}

/// The thread in whose name the kernel works; none where another processor has ended it meanwhile.
pub fn current() -> Option<Arc<Thread>> {
    state(percpu::current()).lock().current.clone().filter(|thread| thread.state() == State::Running)
}

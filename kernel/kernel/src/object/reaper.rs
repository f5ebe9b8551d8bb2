//! What must end: processes, threads and endpoints. They end in steps, in no thread's name.
//!
//! The event loop does a step where something must end that is new, where some time has passed since the last step, and where the
//! processor has nothing else to do.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use capos_abi::Status;
use spin::Mutex;

use crate::cpu::panic::stop;
use crate::object::endpoint::Endpoint;
use crate::object::memory::emptying;
use crate::object::process::{Cause, End, Process};
use crate::object::thread::Thread;

/// What must end, or has begun to.
pub enum Doomed {
    Process(Arc<Process>),
    /// One that ends alone.
    Thread(Arc<Thread>),
    /// One at which many wait.
    Endpoint(Arc<Endpoint>),
}

struct Queue {
    doomed: VecDeque<Doomed>,
    /// Whatever can end has a place: each is in the queue once.
    places: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { doomed: VecDeque::new(), places: 0 });
/// Whether the event loop must do a step now, so that looking takes no lock.
static NOW: AtomicBool = AtomicBool::new(false);
/// Whether something is left to do later.
static LATER: AtomicBool = AtomicBool::new(false);
/// The processor that does steps while it has nothing else to do.
static IDLE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = u32::MAX;
/// Some account's CPU time is used up, and those who used of it have not been told to end.
static ANY_SPENT: AtomicBool = AtomicBool::new(false);
/// The id of the first process, once there is one.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);

/// A place in the queue, for something that will end.
#[derive(Debug)]
pub struct QueuePlace(());

impl QueuePlace {
    /// One more.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> Result<Self, Status> {
        let mut queue = QUEUE.lock();
        let wanted = room(queue.places.saturating_add(1));
        let missing = wanted.saturating_sub(queue.doomed.len());
        queue.doomed.try_reserve_exact(missing).map_err(|_| Status::OutOfMemory)?;
        queue.places = queue.places.saturating_add(1);
        Ok(Self(()))
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut queue = QUEUE.lock();
        queue.places = queue.places.saturating_sub(1);
        let wanted = room(queue.places);
        if queue.doomed.capacity() > wanted {
            let mut small = VecDeque::new();
            // If there is no memory to move into, everything stays.
            if small.try_reserve_exact(wanted).is_ok() {
                small.append(&mut queue.doomed);
                queue.doomed = small;
            }
        }
    }
}

/// The room for that many places.
fn room(places: usize) -> usize {
    places.next_power_of_two().max(16)
}

/// Something must end.
pub fn add(doomed: Doomed) {
    QUEUE.lock().doomed.push_back(doomed);
    note_work();
}

/// The same, before all others.
pub fn add_first(doomed: Doomed) {
    QUEUE.lock().doomed.push_front(doomed);
    note_work();
}

/// There is something to do.
pub fn note_work() {
    NOW.store(true, Ordering::Release);
}

/// Some account's CPU time is used up: with the next step, those who used of it are told to end.
pub fn end_spent() {
    ANY_SPENT.store(true, Ordering::Relaxed);
    note_work();
}

/// Whether the event loop must do a step now.
#[inline(always)]
pub fn has_work() -> bool {
    NOW.load(Ordering::Acquire)
}

/// Whether a step has left something to do later.
#[inline]
pub fn has_rest() -> bool {
    LATER.load(Ordering::Relaxed)
}

/// A step begins: from now on [`has_work`] tells of what comes later. Whether some account's CPU time was used up.
pub fn begin() -> bool {
    NOW.store(false, Ordering::Relaxed);
    ANY_SPENT.swap(false, Ordering::Relaxed)
}

/// A step ends. Whether it has left something. That is not done now, even where the step itself has made it: other processors, interrupts
/// and threads have their turn first.
pub fn end() -> bool {
    let rest = emptying::is_under_way() || !QUEUE.lock().doomed.is_empty();
    LATER.store(rest, Ordering::Relaxed);
    NOW.store(ANY_SPENT.load(Ordering::Relaxed), Ordering::Release);
    rest
}

/// Lets one processor at a time do the steps while it has nothing else to do: whether this one is it.
pub fn claim(processor: u32) -> bool {
    let claimed = IDLE.compare_exchange(NONE, processor, Ordering::Relaxed, Ordering::Relaxed);
    claimed.is_ok() || claimed == Err(processor)
}

/// Another processor may do them from now on.
pub fn disclaim() {
    IDLE.store(NONE, Ordering::Relaxed);
}

/// Takes out what has waited longest.
pub fn take() -> Option<Doomed> {
    QUEUE.lock().doomed.pop_front()
}

/// Puts something back that has not ended yet: others have their turn first.
pub fn put_back(doomed: Doomed) {
    QUEUE.lock().doomed.push_back(doomed);
}

/// This is the id of the first process. Everything is paid for by it, so nothing outlives it.
pub fn set_first(id: u64) {
    FIRST.store(id, Ordering::Relaxed);
}

/// Whether this is the id of the first process.
pub fn is_first(id: u64) -> bool {
    FIRST.load(Ordering::Relaxed) == id
}

/// Stops the machine where the first process has ended.
pub fn first_has_ended(end: &End) -> ! {
    match end.cause {
        Cause::Exited => stop(format_args!(
            "the first process has ended with code {}, and nothing runs without it; what it said is above",
            end.code
        )),
        Cause::Killed | Cause::Fault | Cause::CpuTime => {
            stop(format_args!("the first process has died, and nothing runs without it: {}", end.report))
        }
    }
}

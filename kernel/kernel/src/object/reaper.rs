//! Processes that must end, once nothing of theirs is in use any more.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use capos_abi::Status;
use capos_captable::shrink;
use spin::Mutex;

use crate::cpu::panic::stop;
use crate::object::process::{Cause, End, Process};

/// Processes that must end: each once. There is room for every process that there is; it changes while the list of all processes is
/// locked.
static DOOMED: Mutex<Vec<(Arc<Process>, End)>> = Mutex::new(Vec::new());
/// Whether there are any, so that looking takes no lock.
static ANY: AtomicBool = AtomicBool::new(false);
/// Some account's CPU time is used up, and those who used of it have not been told to end.
static ANY_SPENT: AtomicBool = AtomicBool::new(false);
/// The id of the first process, once there is one.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);

/// The room where there are this many processes.
fn room(processes: usize) -> usize {
    processes.next_power_of_two().max(16)
}

/// Makes room for this many processes.
///
/// # Errors
/// No memory.
pub fn make_room(processes: usize) -> Result<(), Status> {
    let mut doomed = DOOMED.lock();
    let missing = room(processes).saturating_sub(doomed.len());
    doomed.try_reserve_exact(missing).map_err(|_| Status::OutOfMemory)
}

/// Gives back room: there are this many processes left.
pub fn shrink_room(processes: usize) {
    shrink(&mut DOOMED.lock(), room(processes));
}

/// A process must end.
pub fn add(process: Arc<Process>, end: End) {
    DOOMED.lock().push((process, end));
    ANY.store(true, Ordering::Release);
}

/// Some account's CPU time is used up: the next time that processes are reaped, those who used of it end.
pub fn end_spent() {
    ANY_SPENT.store(true, Ordering::Relaxed);
    ANY.store(true, Ordering::Release);
}

/// Whether there are processes that must end.
#[inline(always)]
pub fn has_work() -> bool {
    ANY.load(Ordering::Acquire)
}

/// From now on [`has_work`] tells of what comes later. Whether some account's CPU time was used up.
pub fn begin() -> bool {
    ANY.store(false, Ordering::Relaxed);
    ANY_SPENT.swap(false, Ordering::Relaxed)
}

/// Takes out a process that must end.
pub fn take() -> Option<(Arc<Process>, End)> {
    DOOMED.lock().pop()
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

//! What is to happen at a certain time.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use spin::Mutex;

use crate::object::device::dma::DmaRegion;
use crate::object::operation::OperationRef;
use crate::object::thread::Thread;

/// The receiver that is told that a time has come.
pub enum Due {
    /// A thread that waits for completions.
    Thread(Arc<Thread>),
    /// A sleep.
    Sleep(OperationRef),
    /// Memory that a device may have been working on can go.
    Free(Arc<DmaRegion>),
    /// The next step of what must end.
    Reap,
}

static DEADLINES: Mutex<BTreeMap<(u64, u64), Due>> = Mutex::new(BTreeMap::new());
static SERIAL: AtomicU64 = AtomicU64::new(0);
/// The earliest deadline, so that looking for it takes no lock.
static EARLIEST: AtomicU64 = AtomicU64::new(u64::MAX);

fn note_earliest(deadlines: &BTreeMap<(u64, u64), Due>) {
    let earliest = deadlines.keys().next().map_or(u64::MAX, |(time, _)| *time);
    EARLIEST.store(earliest, Ordering::Relaxed);
}

/// Adds a deadline, nanoseconds since boot; gives its key.
pub fn add(time: u64, due: Due) -> (u64, u64) {
    let key = (time, SERIAL.fetch_add(1, Ordering::Relaxed));
    let mut deadlines = DEADLINES.lock();
    deadlines.insert(key, due);
    note_earliest(&deadlines);
    key
}

/// Takes a deadline back.
pub fn remove(key: (u64, u64)) {
    let due = {
        let mut deadlines = DEADLINES.lock();
        let due = deadlines.remove(&key);
        note_earliest(&deadlines);
        due
    };
    drop(due);
}

/// The earliest deadline; `u64::MAX` where there is none.
pub fn earliest() -> u64 {
    EARLIEST.load(Ordering::Relaxed)
}

/// The deadline for which a processor has set its timer, so that no other does.
static COVERED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether the earliest deadline is before that for which a timer is set.
#[inline]
pub fn is_uncovered() -> bool {
    earliest() < COVERED.load(Ordering::Relaxed)
}

/// The same; the caller sets its own then.
pub fn cover() -> bool {
    let uncovered = is_uncovered();
    if uncovered {
        COVERED.store(earliest(), Ordering::Relaxed);
    }
    uncovered
}

/// The timer that was set for a deadline is not set any more.
pub fn uncover(covered: u64) {
    if covered != 0 && COVERED.load(Ordering::Relaxed) == covered {
        COVERED.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Takes out what was due at a time or before it, the earliest first, and its key.
pub fn take_due(now: u64) -> Option<((u64, u64), Due)> {
    if earliest() > now {
        return None;
    }
    let mut deadlines = DEADLINES.lock();
    let due = deadlines.pop_first();
    note_earliest(&deadlines);
    due
}

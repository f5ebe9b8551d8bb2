//! Threads that the caller lends.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use spin::Mutex;

/// Threads that work together on one thing at a time.
pub trait Pool: Sync {
    /// How many there are, the caller's own with them.
    fn threads(&self) -> usize;

    /// Runs `work` on the caller's thread, and once at most on each of the others, and comes back when it has ended wherever
    /// it began. A thread may be busy elsewhere, so each takes work until none is left.
    fn run(&self, work: &(dyn Fn() + Sync));
}

/// The caller's own thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Pool for Single {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, work: &(dyn Fn() + Sync)) {
        work();
    }
}

/// Parts of a matrix product for each thread: some, so that a thread that was held up is waited
/// for only briefly.
const PARTS_PER_THREAD: usize = 4;

/// Lets the threads take the parts one after another. The result of a part must not depend on the
/// thread that computes it.
pub(crate) fn share<P: Send>(pool: &dyn Pool, parts: Vec<P>, work: impl Fn(P) + Sync) {
    if pool.threads() < 2 || parts.len() < 2 {
        parts.into_iter().for_each(work);
        return;
    }
    let parts: Vec<Mutex<Option<P>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
    let next = AtomicUsize::new(0);
    pool.run(&|| {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let part = part.lock().take();
            if let Some(part) = part {
                work(part);
            }
        }
    });
}

/// Rows that are worth sharing with other threads, if each is done soon.
const ROWS_SHARED: usize = 8;

/// How many of `count` rows make up a part: all, if they are few.
pub(crate) fn rows_of_part(pool: &dyn Pool, count: usize) -> usize {
    match count < ROWS_SHARED {
        true => count.max(1),
        false => part_size(pool, count, 1),
    }
}

/// How many of `count` items make up a part, in multiples of `unit`.
pub(crate) fn part_size(pool: &dyn Pool, count: usize, unit: usize) -> usize {
    let parts = match pool.threads() {
        0 | 1 => 1,
        threads => threads.saturating_mul(PARTS_PER_THREAD),
    };
    let units = count.div_ceil(unit.max(1));
    units.div_ceil(parts).max(1).saturating_mul(unit.max(1))
}

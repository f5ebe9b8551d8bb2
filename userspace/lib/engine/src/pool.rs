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

/// How many of `count` items make up a part, in multiples of `unit`. Parts that no thread shares evenly keep the others
/// waiting, so parts may be up to half as large if the threads then end sooner.
pub(crate) fn part_size(pool: &dyn Pool, count: usize, unit: usize) -> usize {
    let threads = pool.threads().max(1);
    let units = count.div_ceil(unit.max(1));
    let parts = if threads > 1 { threads.saturating_mul(PARTS_PER_THREAD) } else { 1 };
    let most = units.div_ceil(parts).max(1);
    // The units of the thread that has most of them.
    let longest = |size: &usize| units.div_ceil(*size).div_ceil(threads).saturating_mul(*size);
    let size = (most.div_ceil(2)..=most).rev().min_by_key(longest).unwrap_or(most);
    size.saturating_mul(unit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of threads, which do nothing.
    struct Idle(usize);

    impl Pool for Idle {
        fn threads(&self) -> usize {
            self.0
        }

        fn run(&self, _: &(dyn Fn() + Sync)) {}
    }

    #[test]
    fn threads_have_equal_shares_if_there_are_such() {
        // 28 units, in parts of 4, would be 16 of one thread and 12 of the other.
        assert_eq!(part_size(&Idle(2), 896, 32), 64);
        assert_eq!(part_size(&Idle(2), 1152, 32), 96);
        // As large as they may be.
        assert_eq!(part_size(&Idle(2), 2 * 4864, 32), 1216);
        assert_eq!(part_size(&Idle(1), 896, 32), 896);
        assert_eq!(part_size(&Idle(3), 0, 32), 32);
        for (threads, count) in (2..9).flat_map(|threads| (1..600).map(move |count| (threads, count))) {
            let size = part_size(&Idle(threads), count, 1);
            let parts = count.div_ceil(size);
            assert!(parts <= 2 * threads * PARTS_PER_THREAD, "{parts} parts of {size} of {count}");
            assert!(parts >= count.min(threads * (PARTS_PER_THREAD / 2)), "{parts} parts of {size} of {count}");
        }
    }
}

//! A lock on one word: a thread that finds it taken sleeps.

use crate::Futex;
use crate::primitives::{AtomicU32, Ordering, const_unless_loom};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and a thread may sleep.
const AWAITED: u32 = 2;

/// The lock, free if its word is 0.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(transparent))]
pub struct WordLock(AtomicU32);

impl WordLock {
    const_unless_loom! {
        /// A free lock.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "a lock is made where it lies")]
        pub const fn new() -> Self {
            Self(AtomicU32::new(FREE))
        }
    }

    /// Takes the lock; sleeps while others have it.
    #[inline]
    pub fn lock(&self, futex: &impl Futex) {
        if !self.try_lock() {
            while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
                futex.wait(&self.0, AWAITED);
            }
        }
    }

    /// Takes the lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the lock up. The caller must have taken it.
    #[inline]
    pub fn unlock(&self, futex: &impl Futex) {
        // The next holder may free its memory.
        let word = core::ptr::from_ref(&self.0);
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            futex.wake(word, 1);
        }
    }
}

//! The lock of the library's own data: a thread that finds it taken sleeps in the kernel.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::guest::futex;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep.
const AWAITED: u32 = 2;

/// A lock on one word, free where that is 0.
#[derive(Debug)]
#[repr(transparent)]
pub struct Raw(AtomicU32);

/// A value behind such a lock.
pub type Mutex<T> = lock_api::Mutex<Raw, T>;

// SAFETY: whoever changes the word from free holds the lock until it makes it free.
unsafe impl lock_api::RawMutex for Raw {
    const INIT: Self = Self(AtomicU32::new(FREE));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        if self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
                futex::wait(&self.0, AWAITED);
            }
        }
    }

    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(&self.0, 1);
        }
    }
}

//! The lock of the library's own data: a thread that finds it taken sleeps in the kernel.

use capos_sync::WordLock;

use crate::guest::threads::futex::Kernel;

/// A lock on one word, free if that is 0.
#[derive(Debug)]
#[repr(transparent)]
pub struct Raw(WordLock);

/// A value protected by such a lock.
pub type Mutex<T> = lock_api::Mutex<Raw, T>;

// SAFETY: a thread that changes the word from free holds the lock until it makes it free; loom has checked that.
unsafe impl lock_api::RawMutex for Raw {
    const INIT: Self = Self(WordLock::new());
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        self.0.lock(&Kernel);
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        self.0.unlock(&Kernel);
    }
}

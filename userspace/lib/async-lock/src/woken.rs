//! A waker for tests.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

/// Counts how often its waker was woken.
#[derive(Debug, Default)]
pub struct Woken(AtomicU32);

impl Woken {
    /// A count of zero, and its waker.
    #[must_use]
    pub fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::new(Self::default());
        (woken.clone(), woken.into())
    }

    /// How often the waker was woken.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

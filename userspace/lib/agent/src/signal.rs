//! A flag that tasks can wait for.

use alloc::rc::Rc;
use core::cell::Cell;

use capos_async_lock::Waiters;

/// A flag that is set once. Clones are the same flag.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    set: Cell<bool>,
    waiting: Waiters,
}

impl Signal {
    /// Sets it and wakes all who wait.
    pub fn set(&self) {
        self.inner.set.set(true);
        self.inner.waiting.wake();
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.inner.set.get()
    }

    /// Ends when it is set.
    pub async fn wait(&self) {
        self.inner.waiting.until(|| self.is_set().then_some(())).await;
    }
}

//! Waking all tasks that wait for a change.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};

/// Something that changes, and can be waited for.
#[derive(Debug, Default)]
pub struct Signal {
    changes: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Wakes all waiting tasks.
    pub fn notify(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
        let waiting = core::mem::take(&mut *self.waiting.borrow_mut());
        for waker in waiting {
            waker.wake();
        }
    }

    /// Waits until `condition` holds; looks again at every change.
    pub async fn until(&self, condition: impl Fn() -> bool) {
        poll_fn(|context| {
            if condition() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

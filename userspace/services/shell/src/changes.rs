//! Waking tasks that wait for a change.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};

/// Something that changes, and can be waited for.
#[derive(Debug, Default)]
pub struct Changes {
    waiting: RefCell<Vec<Waker>>,
}

impl Changes {
    /// Tells everybody who waits.
    pub fn happen(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits until `look` finds something; it looks again at every change.
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

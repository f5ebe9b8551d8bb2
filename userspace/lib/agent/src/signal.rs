//! A flag that tasks can wait for.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};

/// A flag that is set once. Clones are the same flag.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    set: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Sets it and wakes all who wait.
    pub fn set(&self) {
        self.inner.set.set(true);
        for waker in self.inner.waiting.take() {
            waker.wake();
        }
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.inner.set.get()
    }

    /// Ends when it is set.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_set() {
                return Poll::Ready(());
            }
            let mut waiting = self.inner.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

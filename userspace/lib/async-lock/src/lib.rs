//! One at a time, and tasks that wait.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(any(test, feature = "testing"))]
mod woken;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

#[cfg(any(test, feature = "testing"))]
pub use woken::Woken;

/// The tasks that wait for something, each once: a task is polled for other reasons as well, any number of times before that
/// happens.
#[derive(Debug, Default)]
pub struct Waiters(RefCell<Vec<Waker>>);

impl Waiters {
    /// Registers this task for the next [`Self::wake`].
    pub fn add(&self, context: &Context<'_>) {
        let mut waiting = self.0.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// Wakes all of them.
    pub fn wake(&self) {
        for waker in self.0.take() {
            waker.wake();
        }
    }

    /// Waits until `look` finds something. It looks again after every [`Self::wake`].
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                self.add(context);
                Poll::Pending
            }
        })
        .await
    }
}

/// An asynchronous mutex: one task at a time holds it.
#[derive(Debug, Default)]
pub struct AsyncMutex {
    taken: Cell<bool>,
    waiting: Waiters,
}

/// Holds the mutex until it is dropped.
#[derive(Debug)]
pub struct AsyncMutexGuard(Rc<AsyncMutex>);

impl AsyncMutex {
    /// Waits until no other task holds it, and acquires it.
    pub async fn lock(self: &Rc<Self>) -> AsyncMutexGuard {
        self.waiting.until(|| (!self.taken.replace(true)).then(|| AsyncMutexGuard(self.clone()))).await
    }
}

impl Drop for AsyncMutexGuard {
    fn drop(&mut self) {
        self.0.taken.set(false);
        // All waiting tasks, not the first alone: that one may have been cancelled meanwhile.
        self.0.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use core::future::Future;

    use super::*;

    /// A task that waits for one thing and is polled for another keeps one waker.
    #[test]
    fn a_task_waits_once() {
        let waiters = Waiters::default();
        let (woken, loud) = Woken::new();
        for _ in 0..1000 {
            waiters.add(&Context::from_waker(Waker::noop()));
            waiters.add(&Context::from_waker(&loud));
        }
        assert_eq!(waiters.0.borrow().len(), 2);
        waiters.wake();
        assert_eq!(woken.count(), 1);
        assert!(waiters.0.borrow().is_empty());
    }

    #[test]
    fn a_cancelled_task_holds_up_no_other() {
        let mutex: Rc<AsyncMutex> = Rc::default();
        let (woken, loud) = Woken::new();
        let quiet = Waker::noop();
        let first = match Box::pin(mutex.lock()).as_mut().poll(&mut Context::from_waker(quiet)) {
            Poll::Ready(turn) => turn,
            Poll::Pending => panic!("the mutex is free"),
        };
        let (mut second, mut third) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
        assert!(second.as_mut().poll(&mut Context::from_waker(quiet)).is_pending());
        assert!(third.as_mut().poll(&mut Context::from_waker(&loud)).is_pending());
        drop(second);
        drop(first);
        assert_eq!(woken.count(), 1, "the one behind the cancelled one is woken");
        assert!(third.as_mut().poll(&mut Context::from_waker(&loud)).is_ready());
    }
}

//! One at a time, and tasks that wait.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod happenings;
#[cfg(any(test, feature = "testing"))]
mod woken;

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

pub use happenings::Happenings;
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
        self.waiting.until(|| self.try_lock()).await
    }

    /// Acquires it if no other task holds it.
    #[must_use]
    pub fn try_lock(self: &Rc<Self>) -> Option<AsyncMutexGuard> {
        (!self.taken.replace(true)).then(|| AsyncMutexGuard(self.clone()))
    }
}

impl Drop for AsyncMutexGuard {
    fn drop(&mut self) {
        self.0.taken.set(false);
        // All waiting tasks, not the first alone: that one may have been cancelled meanwhile.
        self.0.waiting.wake();
    }
}

/// An asynchronous mutex for each key. Those of keys that no task holds or waits for take no memory.
#[derive(Debug)]
pub struct Turns<K: Ord + Copy>(Rc<RefCell<BTreeMap<K, Rc<AsyncMutex>>>>);

impl<K: Ord + Copy> Default for Turns<K> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

/// Holds the mutex of a key until it is dropped.
#[derive(Debug)]
pub struct Turn<K: Ord + Copy> {
    held: Option<AsyncMutexGuard>,
    turns: Turns<K>,
    key: K,
}

impl<K: Ord + Copy> Turns<K> {
    /// Waits until no other task holds the mutex of this key, and acquires it.
    pub async fn lock(&self, key: K) -> Turn<K> {
        // It goes after the mutex, so that a wait which is cancelled leaves none behind.
        let mut turn = Turn { held: None, turns: Self(self.0.clone()), key };
        let mutex = self.0.borrow_mut().entry(key).or_default().clone();
        turn.held = Some(mutex.lock().await);
        turn
    }
}

impl<K: Ord + Copy> Drop for Turn<K> {
    fn drop(&mut self) {
        self.held = None;
        let mut all = self.turns.0.borrow_mut();
        // Those who wait for it hold it, too.
        if all.get(&self.key).is_some_and(|mutex| Rc::strong_count(mutex) == 1) {
            all.remove(&self.key);
        }
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
    fn tasks_of_other_keys_do_not_wait() {
        let turns: Turns<u16> = Turns::default();
        let quiet = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(first) = Box::pin(turns.lock(1)).as_mut().poll(quiet) else { panic!("it is free") };
        let mut same = Box::pin(turns.lock(1));
        assert!(same.as_mut().poll(quiet).is_pending());
        assert!(Box::pin(turns.lock(2)).as_mut().poll(quiet).is_ready());
        drop(first);
        let Poll::Ready(second) = same.as_mut().poll(quiet) else { panic!("it is free again") };
        let mut cancelled = Box::pin(turns.lock(1));
        assert!(cancelled.as_mut().poll(quiet).is_pending());
        drop(second);
        drop(cancelled);
        drop(same);
        assert!(turns.0.borrow().is_empty());
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

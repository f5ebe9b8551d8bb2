//! Waiting for locks of files.

use capos_async_lock::Waiters;
use capos_tree::{Holder, Locks, NodeId};
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;

/// All locks of a volume, and those who wait for them.
#[derive(Default)]
pub struct LockQueue {
    locks: RefCell<Locks>,
    waiting: Waiters,
    waiters: Cell<usize>,
}

/// A place among those who wait.
pub struct Waiting<'a>(&'a LockQueue);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiters.set(self.0.waiters.get().saturating_sub(1));
    }
}

impl LockQueue {
    /// A name for a file that is opened.
    pub fn holder(&self) -> Holder {
        self.locks.borrow_mut().holder()
    }

    /// A place among those who wait, where there are fewer than `most`.
    pub fn enter(&self, most: usize) -> Option<Waiting<'_>> {
        let waiters = self.waiters.get();
        (waiters < most).then(|| {
            self.waiters.set(waiters.saturating_add(1));
            Waiting(self)
        })
    }

    /// Locks a file if no other holder's lock forbids it.
    pub fn attempt(&self, node: NodeId, holder: Holder, exclusive: bool) -> bool {
        let locked = self.locks.borrow_mut().attempt(node, holder, exclusive);
        if locked && !exclusive {
            // It may have been one alone before, and others may share it now.
            self.wake();
        }
        locked
    }

    /// Locks a file once no other holder's lock forbids it. The holder's own is given up meanwhile, so that two
    /// who share a lock and want it alone do not wait for each other.
    pub async fn wait(&self, node: NodeId, holder: Holder, exclusive: bool) {
        self.release(node, holder);
        poll_fn(|context| {
            if self.attempt(node, holder, exclusive) {
                return Poll::Ready(());
            }
            self.waiting.add(context);
            Poll::Pending
        })
        .await;
    }

    /// Gives up the holder's lock, if it has one.
    pub fn release(&self, node: NodeId, holder: Holder) {
        if self.locks.borrow_mut().release(node, holder) {
            self.wake();
        }
    }

    fn wake(&self) {
        self.waiting.wake();
    }
}

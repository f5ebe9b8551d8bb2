//! Locks of whole files: held by many who share one, or by one alone.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use capos_tree::NodeId;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};

/// Names an open file for as long as it is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder(u64);

enum Lock {
    Exclusive(Holder),
    Shared(BTreeSet<Holder>),
}

/// All locks of a volume.
#[derive(Default)]
pub struct Locks {
    held: RefCell<BTreeMap<NodeId, Lock>>,
    waiting: RefCell<Vec<Waker>>,
    waiters: Cell<usize>,
    next: Cell<u64>,
}

/// A place among those who wait.
pub struct Waiting<'a>(&'a Locks);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiters.set(self.0.waiters.get().saturating_sub(1));
    }
}

impl Locks {
    /// A name for a file that is opened.
    pub fn holder(&self) -> Holder {
        let holder = Holder(self.next.get());
        self.next.set(holder.0.wrapping_add(1));
        holder
    }

    /// Locks a file where nobody else's lock forbids it; replaces the holder's own.
    pub fn attempt(&self, node: NodeId, holder: Holder, exclusive: bool) -> bool {
        let mut held = self.held.borrow_mut();
        let free = match held.get(&node) {
            None => true,
            Some(Lock::Exclusive(other)) => *other == holder,
            Some(Lock::Shared(others)) => !exclusive || others.iter().all(|other| *other == holder),
        };
        if !free {
            return false;
        }
        match held.get_mut(&node) {
            Some(Lock::Shared(others)) if !exclusive => {
                others.insert(holder);
            }
            _ if exclusive => {
                held.insert(node, Lock::Exclusive(holder));
            }
            _ => {
                held.insert(node, Lock::Shared(BTreeSet::from([holder])));
                // Others may share it now.
                self.wake();
            }
        }
        true
    }

    /// A place among those who wait, where there are fewer than `most`.
    pub fn enter(&self, most: usize) -> Option<Waiting<'_>> {
        let waiters = self.waiters.get();
        (waiters < most).then(|| {
            self.waiters.set(waiters.saturating_add(1));
            Waiting(self)
        })
    }

    /// Locks a file when nobody else's lock forbids it any more. The holder's own is given up meanwhile, so that two
    /// who share a lock and want it alone do not wait for each other.
    pub async fn wait(&self, node: NodeId, holder: Holder, exclusive: bool) {
        if self.attempt(node, holder, exclusive) {
            return;
        }
        self.release(node, holder);
        poll_fn(|context| {
            if self.attempt(node, holder, exclusive) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Gives up the holder's lock, if it has one.
    pub fn release(&self, node: NodeId, holder: Holder) {
        let mut held = self.held.borrow_mut();
        let gone = match held.get_mut(&node) {
            Some(Lock::Exclusive(other)) => *other == holder,
            Some(Lock::Shared(others)) => {
                others.remove(&holder);
                others.is_empty()
            }
            None => return,
        };
        if gone {
            held.remove(&node);
        }
        self.wake();
    }

    fn wake(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }
}

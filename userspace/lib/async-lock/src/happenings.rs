//! Wakes tasks of this process.

use core::cell::Cell;
use core::task::Poll;

use crate::Waiters;

/// Counts happenings; tasks wait until one has happened since a count that they know.
#[derive(Default)]
pub struct Happenings {
    count: Cell<u64>,
    waiting: Waiters,
}

impl Happenings {
    /// How many there have been.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// One more.
    pub fn happen(&self) {
        self.count.set(self.count.get().wrapping_add(1));
        self.waiting.wake();
    }

    /// Waits until there have been more than `known`.
    pub async fn after(&self, known: u64) {
        core::future::poll_fn(|context| {
            if self.count.get() != known {
                return Poll::Ready(());
            }
            self.waiting.add(context);
            Poll::Pending
        })
        .await;
    }
}

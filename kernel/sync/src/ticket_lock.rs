//! A lock that serves in the order of arrival.

use crate::primitives::{AtomicU32, Ordering, const_unless_loom};

/// The lock. It keeps no value: its holder owns whatever it stands for.
#[derive(Debug)]
pub struct TicketLock {
    /// The ticket that is drawn next.
    next: AtomicU32,
    /// The ticket whose turn it is.
    served: AtomicU32,
}

impl TicketLock {
    const_unless_loom! {
        /// A free lock whose first ticket has this number; numbers wrap at 2³².
        #[must_use]
        pub const fn new(first: u32) -> Self {
            Self { next: AtomicU32::new(first), served: AtomicU32::new(first) }
        }
    }

    /// Waits until it is this one's turn, doing `meanwhile` again and again.
    #[inline]
    pub fn take(&self, meanwhile: impl FnMut()) {
        self.wait_for(self.draw(), meanwhile);
    }

    /// A place in the line, which must be waited for.
    #[inline]
    pub(crate) fn draw(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits until it is this ticket's turn.
    #[inline]
    pub(crate) fn wait_for(&self, ticket: u32, mut meanwhile: impl FnMut()) {
        while self.served.load(Ordering::Acquire) != ticket {
            meanwhile();
        }
    }

    /// The ticket that is drawn next: earlier arrivals drew those before it.
    pub(crate) fn drawn(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    /// Whether the drawer of this ticket has released the lock again.
    pub(crate) fn has_passed(&self, ticket: u32) -> bool {
        // Fewer than 2³¹ wait at once.
        self.served.load(Ordering::Relaxed).wrapping_sub(ticket).wrapping_sub(1) < 1 << 31
    }

    /// Lets the next one in. The caller must have taken the lock.
    #[inline]
    pub fn give(&self) {
        self.served.store(self.served.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

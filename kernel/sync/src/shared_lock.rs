//! A lock that many share, or one holds exclusively.
//!
//! A sharer writes only to a word of its own, so sharers never wait for each other, nor for each other's cache lines.
//! An exclusive holder reads all of these words. The field calls it a big-reader lock.

use crate::TicketLock;
use crate::primitives::{AtomicBool, Ordering, const_unless_loom, fence};

/// The lock. It keeps no value, and does not know its possible sharers: each of those has a [`Presence`].
#[derive(Debug)]
pub struct SharedLock {
    /// The exclusive holder, and the line of those that wait to be.
    alone: TicketLock,
    /// No one may begin to share it.
    closed: AtomicBool,
}

/// Whether one sharer shares a lock.
#[derive(Debug)]
pub struct Presence(AtomicBool);

impl SharedLock {
    const_unless_loom! {
        /// A free lock.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "a lock is made where it lies")]
        pub const fn new() -> Self {
            Self { alone: TicketLock::new(0), closed: AtomicBool::new(false) }
        }
    }

    /// Shares the lock, until [`Presence::leave`]. Returns false, without effect, if the lock is held exclusively, or a
    /// caller waits to hold it so.
    #[inline(always)]
    pub fn try_share(&self, own: &Presence) -> bool {
        own.0.store(true, Ordering::Relaxed);
        // Either this fence or that of `take` comes first: so either the exclusive taker sees that the lock is shared,
        // or this sharer sees that it is closed.
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) {
            own.leave();
            return false;
        }
        true
    }

    /// Shares the lock once it is not held exclusively; while it waits, it calls `meanwhile` again and again as long as
    /// that returns true. Returns false, without sharing, if `meanwhile` does, or if a later arrival has held the lock
    /// before: the caller may then take it exclusively, so that it gets its turn.
    ///
    /// If it took the lock exclusively at once, all others would have to as well, one after the other, for as long as
    /// one of them waits.
    pub fn share_in_time(&self, own: &Presence, mut meanwhile: impl FnMut() -> bool) -> bool {
        let before = self.alone.drawn();
        while !self.alone.has_passed(before) {
            if !self.closed.load(Ordering::Relaxed) && self.try_share(own) {
                return true;
            }
            if !meanwhile() {
                return false;
            }
        }
        false
    }

    /// Takes the lock exclusively, in the order of arrival; calls `meanwhile` again and again while it waits. `others`
    /// are all possible sharers, `None` if there are none; the caller must not share the lock.
    #[inline]
    pub fn take<'a, I>(&self, others: impl FnOnce() -> Option<I>, meanwhile: impl FnMut())
    where
        I: Iterator<Item = &'a Presence>,
    {
        self.close(self.alone.draw(), others, meanwhile);
    }

    /// Upgrades: the same for a sharer, which no longer shares the lock while it waits. It is in the line before it
    /// leaves, so a caller that sees what happens meanwhile gets the lock later.
    #[inline]
    pub fn exclude<'a, I>(&self, own: &Presence, others: impl FnOnce() -> Option<I>, meanwhile: impl FnMut())
    where
        I: Iterator<Item = &'a Presence>,
    {
        let ticket = self.alone.draw();
        own.leave();
        self.close(ticket, others, meanwhile);
    }

    #[inline]
    fn close<'a, I>(&self, ticket: u32, others: impl FnOnce() -> Option<I>, mut meanwhile: impl FnMut())
    where
        I: Iterator<Item = &'a Presence>,
    {
        self.alone.wait_for(ticket, &mut meanwhile);
        self.closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if let Some(others) = others() {
            wait_for(others, meanwhile);
        }
    }

    /// Releases the lock. The caller must hold it exclusively.
    #[inline]
    pub fn give(&self) {
        self.closed.store(false, Ordering::Release);
        self.alone.give();
    }
}

/// Waits until the lock is no longer shared.
#[inline(never)]
fn wait_for<'a>(others: impl Iterator<Item = &'a Presence>, mut meanwhile: impl FnMut()) {
    for other in others {
        while other.0.load(Ordering::Acquire) {
            meanwhile();
        }
    }
}

impl Presence {
    const_unless_loom! {
        /// Not sharing the lock.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "it is made where it lies")]
        pub const fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    /// Whether its owner shares the lock.
    #[inline(always)]
    pub fn is_in(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops sharing the lock.
    #[inline(always)]
    pub fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }
}

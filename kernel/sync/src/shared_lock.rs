//! A lock that many share, or one has to itself.
//!
//! Who shares it writes to a word of its own and nothing else, so those who do never wait for each other, nor for each
//! other's caches; who wants it alone looks at all of these words. The field calls it a big-reader lock.

use crate::TicketLock;
use crate::primitives::{AtomicBool, Ordering, const_unless_loom, fence};

/// The lock. It keeps no value, and does not know who may share it: each of those has a [`Presence`].
#[derive(Debug)]
pub struct SharedLock {
    /// Who has the lock alone, or waits for that.
    alone: TicketLock,
    /// Nobody may begin to share it.
    closed: AtomicBool,
}

/// Whether somebody shares a lock.
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

    /// Shares the lock, until [`Presence::leave`]. False, and nothing has happened, where somebody has it alone, or waits for
    /// those who share it.
    #[inline(always)]
    pub fn try_share(&self, own: &Presence) -> bool {
        own.0.store(true, Ordering::Relaxed);
        // Of this fence and that of `take` one comes first: either who takes the lock sees that it is shared, or this one sees
        // that it is closed.
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) {
            own.leave();
            return false;
        }
        true
    }

    /// Shares the lock once nobody has it alone, doing `meanwhile` again and again as long as it waits and that says so. False,
    /// and it does not share the lock, where it says otherwise, or somebody who came later has had the lock before: it may take
    /// it alone then, so that it has its turn.
    ///
    /// Were it to take it alone at once, all others would have to as well, one behind the other, for as long as one of them
    /// waits.
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

    /// Takes the lock alone, in the order of arrival, doing `meanwhile` again and again as long as it waits. `others` are all
    /// who may share it, `None` where there are none; this one must not share it.
    #[inline]
    pub fn take<'a, I>(&self, others: impl FnOnce() -> Option<I>, meanwhile: impl FnMut())
    where
        I: Iterator<Item = &'a Presence>,
    {
        self.close(self.alone.draw(), others, meanwhile);
    }

    /// The same for one who shares it, and does not from then on until it is alone. It is in the line before it leaves: whoever
    /// learns of what is done meanwhile has the lock later.
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

    /// Gives the lock up. The caller must have taken it alone.
    #[inline]
    pub fn give(&self) {
        self.closed.store(false, Ordering::Release);
        self.alone.give();
    }
}

/// Waits until nobody shares the lock any more.
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
        /// Of somebody who does not share the lock.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "it is made where it lies")]
        pub const fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    /// Whether the lock is shared: for the one whose presence it is.
    #[inline(always)]
    pub fn is_in(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Does not share the lock any more.
    #[inline(always)]
    pub fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }
}

//! Things that happen on one thread and that another waits for.

use crate::Futex;
use crate::primitives::{AtomicBool, AtomicU32, Ordering, const_unless_loom};

/// A step that is taken once, and that others may wait for.
#[derive(Debug)]
pub struct Step(AtomicU32);

impl Step {
    const AHEAD: u32 = 0;
    const DONE: u32 = 1;
    /// Ahead, and a thread waits for it.
    const AWAITED: u32 = 2;

    const_unless_loom! {
        /// A step that is ahead.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "a step is made where it lies")]
        pub const fn new() -> Self {
            Self(AtomicU32::new(Self::AHEAD))
        }
    }

    /// Whether it has been taken.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::DONE
    }

    /// Waits until it has been taken.
    pub fn wait(&self, futex: &impl Futex) {
        let awaited = |now| (now != Self::DONE).then_some(Self::AWAITED);
        while self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, awaited).is_ok() {
            futex.wait(&self.0, Self::AWAITED);
        }
    }

    /// Takes it. After that the waiting thread may free its memory at once.
    pub fn take(&self, futex: &impl Futex) {
        let word = core::ptr::from_ref(&self.0);
        if self.0.swap(Self::DONE, Ordering::AcqRel) == Self::AWAITED {
            futex.wake(word, u32::MAX);
        }
    }
}

/// Whether something has to be checked: raised after a change, lowered before the check.
#[derive(Debug)]
pub struct Flag(AtomicBool);

impl Flag {
    const_unless_loom! {
        /// A flag.
        #[must_use]
        pub const fn new(raised: bool) -> Self {
            Self(AtomicBool::new(raised))
        }
    }

    /// Raises it; whether it was low.
    #[inline]
    pub fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Lowers it; whether it was raised. Changes made before it was raised are visible to the task that checks it, also
    /// if it was raised already: a store alone could take effect after that check.
    #[inline]
    pub fn lower(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    /// Whether it is raised.
    #[inline]
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Where other threads knock to wake one that sleeps.
#[derive(Debug)]
pub struct Knocks(AtomicU32);

impl Knocks {
    const_unless_loom! {
        /// Without a knock.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "knocks are made where they lie")]
        pub const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Wakes the sleeper with `wake`, which must wake one thread that waits for the word. The work is in place already.
    #[inline]
    pub fn knock(&self, wake: impl FnOnce(&AtomicU32)) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0);
    }

    /// The count of knocks so far. A thread that then finds nothing to do may sleep while [`Knocks::word`] holds it.
    #[inline]
    #[must_use]
    pub fn heard(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// The word that changes with every knock.
    #[inline]
    #[must_use]
    pub const fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

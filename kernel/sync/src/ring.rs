//! The indices of a ring, at its four ends.
//!
//! The process keeps its indices in the ring alone ([`SharedProducer`], [`SharedConsumer`]). The kernel keeps its own in
//! its own memory ([`Producer`], [`Consumer`]), publishes them, and never reads them back. It uses only the other
//! side's index of the ring, and only if that is plausible.
//!
//! An index is published with release order after the slot before it was written or read, and read with acquire order
//! before the slot is accessed. So a slot belongs to one side at a time.

use capos_abi::ring::distance;

use crate::primitives::{AtomicU32, Ordering};

/// The process's end of the submission ring.
#[derive(Clone, Copy, Debug)]
pub struct SharedProducer<'r> {
    /// Next slot that the kernel takes.
    pub head: &'r AtomicU32,
    /// Next slot to fill.
    pub tail: &'r AtomicU32,
}

impl SharedProducer<'_> {
    /// The next slot to fill. It may be filled if fewer than the ring's slots are [`queued`](Self::queued).
    #[inline]
    #[must_use]
    pub fn index(self) -> u32 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Slots that were filled and are not yet taken.
    #[inline]
    #[must_use]
    pub fn queued(self) -> u32 {
        self.index().wrapping_sub(self.head.load(Ordering::Acquire))
    }

    /// The slot at [`index`](Self::index) is filled.
    #[inline]
    pub fn publish(self) {
        self.tail.store(self.index().wrapping_add(1), Ordering::Release);
    }
}

/// The process's end of the completion ring.
#[derive(Clone, Copy, Debug)]
pub struct SharedConsumer<'r> {
    /// Next slot to read.
    pub head: &'r AtomicU32,
    /// Next slot that the kernel fills.
    pub tail: &'r AtomicU32,
}

impl SharedConsumer<'_> {
    /// The next slot to read.
    #[inline]
    #[must_use]
    pub fn index(self) -> u32 {
        self.head.load(Ordering::Relaxed)
    }

    /// Slots that are filled and not yet read; none if the indices are impossible for a ring of `entries`.
    #[inline]
    #[must_use]
    pub fn unread(self, entries: u32) -> u32 {
        let tail = self.tail.load(Ordering::Acquire);
        distance(self.index(), tail, entries).unwrap_or(0)
    }

    /// The slot at [`index`](Self::index) has been read.
    #[inline]
    pub fn advance(self) {
        self.head.store(self.index().wrapping_add(1), Ordering::Release);
    }
}

/// The kernel's end of the submission ring.
#[derive(Debug)]
pub struct Consumer {
    head: u32,
}

impl Consumer {
    /// Takes from this index on.
    #[must_use]
    pub const fn new(head: u32) -> Self {
        Self { head }
    }

    /// The next slot to take.
    #[inline]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.head
    }

    /// How many slots wait to be taken, by the process's `tail` of a ring of `entries`.
    ///
    /// # Errors
    /// The tail, if it is impossible.
    #[inline]
    pub fn pending(&self, tail: &AtomicU32, entries: u32) -> Result<u32, u32> {
        let tail = tail.load(Ordering::Acquire);
        distance(self.head, tail, entries).ok_or(tail)
    }

    /// The next slot has been taken: publishes that to the process.
    #[inline]
    pub fn advance(&mut self, head: &AtomicU32) {
        self.head = self.head.wrapping_add(1);
        head.store(self.head, Ordering::Release);
    }
}

/// The kernel's end of the completion ring.
#[derive(Debug)]
pub struct Producer {
    tail: u32,
}

impl Producer {
    /// Fills from this index on.
    #[must_use]
    pub const fn new(tail: u32) -> Self {
        Self { tail }
    }

    /// The next slot to fill.
    #[inline]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.tail
    }

    /// How many slots the process has not read yet, by its `head` of a ring of `entries`.
    ///
    /// # Errors
    /// The head, if it is impossible.
    #[inline]
    pub fn unread(&self, head: &AtomicU32, entries: u32) -> Result<u32, u32> {
        let head = head.load(Ordering::Acquire);
        distance(head, self.tail, entries).ok_or(head)
    }

    /// The next slot has been filled: publishes that to the process.
    #[inline]
    pub fn publish(&mut self, tail: &AtomicU32) {
        self.tail = self.tail.wrapping_add(1);
        tail.store(self.tail, Ordering::Release);
    }
}

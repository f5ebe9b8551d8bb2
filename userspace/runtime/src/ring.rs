//! The thread's rings, as the process sees them.
//!
//! All methods take `&self` and none allocates: the allocator itself grows through the ring, also
//! while the reactor is at work above it. The indices live in the ring alone, so that two users of one
//! thread's ring, such as a C library and a program's own runtime, can take turns.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::completion::COMPLETION_SIZE;
use capos_abi::entry::{ENTRY_SIZE, RawEntry};
use capos_abi::ring::{
    COMPLETION_ENTRIES, COMPLETION_HEAD, COMPLETION_TAIL, SUBMISSION_ENTRIES, SUBMISSION_HEAD, SUBMISSION_TAIL,
    distance,
};
use capos_abi::{Completion, Entry, RingLayout, Status};

/// The process's ends of a thread's two rings.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    layout: RingLayout,
}

impl Ring {
    /// Takes over the rings at `base`.
    ///
    /// # Errors
    /// The sizes in the header are not those of a ring.
    ///
    /// # Safety
    /// `base` is a ring region that the kernel made for this thread, mapped for as long as the
    /// value lives. Whatever else uses it does so on the same thread, between calls of this one's methods.
    pub(crate) unsafe fn new(base: NonNull<u8>) -> Result<Self, Status> {
        let word = |offset: usize| -> u32 {
            // SAFETY: the header page of the region is mapped and aligned; the kernel may write it.
            unsafe { AtomicU32::from_ptr(base.as_ptr().add(offset).cast()) }.load(Ordering::Acquire)
        };
        let layout = RingLayout::new(word(SUBMISSION_ENTRIES), word(COMPLETION_ENTRIES))?;
        Ok(Self { base, layout })
    }

    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of the header page, which stays mapped (see `new`).
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Next entry to fill.
    fn tail(&self) -> u32 {
        self.index(SUBMISSION_TAIL).load(Ordering::Relaxed)
    }

    /// Next completion to read.
    fn head(&self) -> u32 {
        self.index(COMPLETION_HEAD).load(Ordering::Relaxed)
    }

    /// Entries of the completion ring.
    pub(crate) fn completion_entries(&self) -> u32 {
        self.layout.completion_entries()
    }

    /// Entries that are queued and not yet taken by the kernel.
    pub(crate) fn queued(&self) -> u32 {
        self.tail().wrapping_sub(self.index(SUBMISSION_HEAD).load(Ordering::Acquire))
    }

    /// Queues an entry; `false` where the submission ring is full.
    pub(crate) fn push(&self, entry: &Entry) -> bool {
        self.push_raw(&entry.encode())
    }

    /// The same with an entry as it lies in the ring.
    pub(crate) fn push_raw(&self, raw: &RawEntry) -> bool {
        let tail = self.tail();
        if self.queued() >= self.layout.submission_entries() {
            return false;
        }
        let offset = self.layout.submission_offset(tail);
        // SAFETY: the offset lies inside the region, and the kernel has taken what was here before.
        unsafe { self.base.as_ptr().add(offset).cast::<[u8; ENTRY_SIZE]>().write(*raw) };
        let tail = tail.wrapping_add(1);
        self.index(SUBMISSION_TAIL).store(tail, Ordering::Release);
        true
    }

    /// Completions that lie unread.
    pub(crate) fn unread(&self) -> u32 {
        let tail = self.index(COMPLETION_TAIL).load(Ordering::Acquire);
        distance(self.head(), tail, self.layout.completion_entries()).unwrap_or(0)
    }

    fn completion_at(&self, index: u32) -> NonNull<[u8; COMPLETION_SIZE]> {
        let offset = self.layout.completion_offset(index);
        // SAFETY: the offset lies inside the region.
        unsafe { self.base.add(offset).cast() }
    }

    fn advance(&self) {
        let head = self.head().wrapping_add(1);
        self.index(COMPLETION_HEAD).store(head, Ordering::Release);
    }

    /// Takes the oldest completion.
    pub(crate) fn pop(&self) -> Option<Completion> {
        if self.unread() == 0 {
            return None;
        }
        // SAFETY: the completion is unread, so the kernel has written it and will not write it
        // again before the head has passed it.
        let raw = unsafe { self.completion_at(self.head()).read() };
        let completion = Completion::decode(&raw);
        self.advance();
        Some(completion)
    }

    /// Takes the completion with this tag, wherever it lies; the others keep their order.
    #[cfg(any(capos_guest, test))]
    pub(crate) fn take(&self, user_data: u64) -> Option<Completion> {
        let head = self.head();
        let found = (0..self.unread()).map(|step| head.wrapping_add(step)).find_map(|index| {
            // SAFETY: unread, as in `pop`.
            let completion = Completion::decode(&unsafe { self.completion_at(index).read() });
            (completion.user_data == user_data).then_some((index, completion))
        });
        let (mut index, completion) = found?;
        while index != head {
            let before = index.wrapping_sub(1);
            // SAFETY: both places are unread completions, which belong to the process until the
            // head passes them.
            unsafe { self.completion_at(index).write(self.completion_at(before).read()) };
            index = before;
        }
        self.advance();
        Some(completion)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use capos_abi::entry::Operation;

    use super::*;

    /// Ring memory, and the kernel's side of it.
    struct Memory {
        words: Vec<u64>,
        layout: RingLayout,
    }

    impl Memory {
        fn new(submission: u32, completion: u32, start: u32) -> Self {
            let layout = RingLayout::new(submission, completion).unwrap();
            let mut memory = Self { words: vec![0; layout.bytes() / 8], layout };
            memory.set(SUBMISSION_ENTRIES, submission);
            memory.set(COMPLETION_ENTRIES, completion);
            for index in [SUBMISSION_HEAD, SUBMISSION_TAIL, COMPLETION_HEAD, COMPLETION_TAIL] {
                memory.set(index, start);
            }
            memory
        }

        fn base(&mut self) -> NonNull<u8> {
            NonNull::new(self.words.as_mut_ptr().cast()).unwrap()
        }

        fn set(&mut self, offset: usize, value: u32) {
            // SAFETY: the offsets are inside the header page.
            unsafe { self.base().as_ptr().add(offset).cast::<u32>().write(value) };
        }

        fn ring(&mut self) -> Ring {
            // SAFETY: the memory lives as long as the test uses the ring.
            unsafe { Ring::new(self.base()) }.unwrap()
        }

        /// What the kernel does: completes these tags from index `at` on.
        fn complete(&mut self, at: u32, tags: &[u64]) {
            let mut index = at;
            for tag in tags {
                let offset = self.layout.completion_offset(index);
                let raw = Completion { user_data: *tag, ..Completion::default() }.encode();
                // SAFETY: inside the ring memory.
                unsafe { self.base().as_ptr().add(offset).cast::<[u8; COMPLETION_SIZE]>().write(raw) };
                index = index.wrapping_add(1);
            }
            self.set(COMPLETION_TAIL, index);
        }
    }

    fn tags(ring: &Ring) -> Vec<u64> {
        core::iter::from_fn(|| ring.pop()).map(|completion| completion.user_data).collect()
    }

    #[test]
    fn completions_come_in_order_across_the_wrap() {
        let start = u32::MAX - 1;
        let mut memory = Memory::new(4, 8, start);
        let ring = memory.ring();
        memory.complete(start, &[1, 2, 3, 4, 5]);
        assert_eq!(ring.unread(), 5);
        assert_eq!(tags(&ring), [1, 2, 3, 4, 5]);
        assert_eq!(ring.unread(), 0);
    }

    #[test]
    fn one_completion_is_taken_from_between_the_others() {
        let start = u32::MAX - 1;
        let mut memory = Memory::new(4, 8, start);
        let ring = memory.ring();
        memory.complete(start, &[1, 2, 9, 3, 4]);
        assert_eq!(ring.take(7), None);
        assert_eq!(ring.take(9).map(|completion| completion.user_data), Some(9));
        assert_eq!(tags(&ring), [1, 2, 3, 4]);
        memory.complete(start.wrapping_add(5), &[9]);
        assert!(ring.take(9).is_some());
        assert_eq!(ring.unread(), 0);
    }

    #[test]
    fn entries_wait_for_room() {
        let mut memory = Memory::new(2, 4, u32::MAX);
        let ring = memory.ring();
        let entry = |user_data| Entry { user_data, operation: Operation::Nop };
        assert!(ring.push(&entry(1)) && ring.push(&entry(2)));
        assert!(!ring.push(&entry(3)));
        assert_eq!(ring.queued(), 2);
        memory.set(SUBMISSION_HEAD, 0);
        assert!(ring.push(&entry(3)));
    }

    #[test]
    fn sizes_that_are_no_ring_are_refused() {
        let mut memory = Memory::new(4, 8, 0);
        memory.set(SUBMISSION_ENTRIES, 3);
        // SAFETY: the memory lives until the end of the test.
        assert!(unsafe { Ring::new(memory.base()) }.is_err());
    }

    #[test]
    fn a_tail_out_of_reach_counts_as_nothing() {
        let mut memory = Memory::new(4, 8, 0);
        let ring = memory.ring();
        memory.set(COMPLETION_TAIL, 9);
        assert_eq!(ring.unread(), 0);
        assert!(ring.pop().is_none());
    }
}

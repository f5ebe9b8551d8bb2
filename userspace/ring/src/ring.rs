//! The thread's rings, as the process sees them.
//!
//! All methods take `&self` and none allocates: the allocator itself grows through the ring, also
//! while a runtime is at work above it. The indices live in the ring alone, so that two users of one
//! thread's ring, such as a C library and a program's own runtime, can take turns.
//!
//! A user that keeps operations in flight leaves [`BLOCKING_ROOM`] in the completion ring, and takes its own
//! completions out whenever it returns: meanwhile they stay there unread, in their order.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::completion::COMPLETION_SIZE;
use capos_abi::entry::{EntryWords, Operation, RawEntry};
use capos_abi::ring::{
    COMPLETION_ENTRIES, COMPLETION_HEAD, COMPLETION_TAIL, SUBMISSION_ENTRIES, SUBMISSION_HEAD, SUBMISSION_TAIL,
};
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{Completion, Entry, RingLayout, Status};
use capos_sync::ring::{SharedConsumer, SharedProducer};

use crate::enter;

/// Completions that blocking operations may need while others are in flight: their own, and that of a cancelling.
pub const BLOCKING_ROOM: u32 = MOST_AT_ONCE + 1;

/// Operations that [`Ring::run_any`] runs at one time.
pub const MOST_AT_ONCE: u32 = 4;

/// Tag of the one blocking operation of a thread that is in flight. A user of the ring that keeps others in flight has
/// other tags for them.
const TAG: u64 = u64::MAX;
/// Tag of its cancelling.
const CANCEL_TAG: u64 = u64::MAX - 1;
/// Tag of the first of several that run at one time; each further one has the number below.
const FIRST_TAG: u64 = u64::MAX - 2;

/// The process's ends of a thread's two rings.
#[derive(Debug)]
pub struct Ring {
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
    pub unsafe fn new(base: NonNull<u8>) -> Result<Self, Status> {
        let word = |offset: usize| -> u32 {
            // SAFETY: the header page of the region is mapped and aligned; the kernel may write it.
            unsafe { AtomicU32::from_ptr(base.as_ptr().add(offset).cast()) }.load(Ordering::Acquire)
        };
        let layout = RingLayout::new(word(SUBMISSION_ENTRIES), word(COMPLETION_ENTRIES))?;
        Ok(Self { base, layout })
    }

    /// The same, at an address as the kernel names it.
    ///
    /// # Errors
    /// There is no ring at this address.
    ///
    /// # Safety
    /// As [`Ring::new`], if the address is not 0.
    pub unsafe fn at(address: u64) -> Result<Self, Status> {
        let base = usize::try_from(address).ok();
        let base = base.and_then(|base| NonNull::new(core::ptr::with_exposed_provenance_mut(base)));
        // SAFETY: the caller's.
        unsafe { Self::new(base.ok_or(Status::BadAddress)?) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.base.as_ptr().expose_provenance() as u64
    }

    #[inline]
    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of the header page, which stays mapped (see `new`).
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    #[inline]
    fn submissions(&self) -> SharedProducer<'_> {
        SharedProducer { head: self.index(SUBMISSION_HEAD), tail: self.index(SUBMISSION_TAIL) }
    }

    #[inline]
    fn completions(&self) -> SharedConsumer<'_> {
        SharedConsumer { head: self.index(COMPLETION_HEAD), tail: self.index(COMPLETION_TAIL) }
    }

    /// Entries of the completion ring.
    #[inline]
    #[must_use]
    pub fn completion_entries(&self) -> u32 {
        self.layout.completion_entries()
    }

    /// Entries that are queued and not yet taken by the kernel.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.submissions().queued()
    }

    /// Queues an entry; `false` if the submission ring is full.
    ///
    /// # Safety
    /// Until the entry completes, the kernel may read and write the buffers that it names: memory that is exposed,
    /// valid for that, and that no reference is held to.
    #[inline]
    pub unsafe fn push(&self, entry: &Entry) -> bool {
        // SAFETY: the caller's.
        unsafe { self.push_words(&entry.words()) }
    }

    /// The same with the entry's words.
    ///
    /// # Safety
    /// As [`Ring::push`].
    #[inline]
    pub unsafe fn push_words(&self, words: &EntryWords) -> bool {
        let Some(place) = self.free_entry() else { return false };
        // SAFETY: the kernel has taken what was at this place before, and entries are aligned to 8 bytes.
        unsafe { place.cast::<EntryWords>().write(words.map(u64::to_le)) };
        self.submissions().publish();
        true
    }

    /// The same with an encoded entry.
    ///
    /// # Safety
    /// As [`Ring::push`].
    #[inline]
    pub unsafe fn push_raw(&self, raw: &RawEntry) -> bool {
        let Some(place) = self.free_entry() else { return false };
        // SAFETY: the kernel has taken what was at this place before.
        unsafe { place.cast::<RawEntry>().write(*raw) };
        self.submissions().publish();
        true
    }

    /// The place of the next entry; `None` if the submission ring is full.
    #[inline]
    fn free_entry(&self) -> Option<NonNull<u8>> {
        let submissions = self.submissions();
        if submissions.queued() >= self.layout.submission_entries() {
            return None;
        }
        let offset = self.layout.submission_offset(submissions.index());
        // SAFETY: the offset is inside the region.
        Some(unsafe { self.base.add(offset) })
    }

    /// Completions that are unread.
    #[inline]
    #[must_use]
    pub fn unread(&self) -> u32 {
        self.completions().unread(self.layout.completion_entries())
    }

    #[inline]
    fn completion_at(&self, index: u32) -> NonNull<[u8; COMPLETION_SIZE]> {
        let offset = self.layout.completion_offset(index);
        // SAFETY: the offset is inside the region.
        unsafe { self.base.add(offset).cast() }
    }

    /// Takes the oldest completion.
    #[inline]
    #[must_use]
    pub fn pop(&self) -> Option<Completion> {
        self.pop_if(|_| true)
    }

    /// Takes the oldest completion, if its tag is one that is wanted.
    #[inline]
    #[must_use]
    pub fn pop_if(&self, is_wanted: impl FnOnce(u64) -> bool) -> Option<Completion> {
        if self.unread() == 0 {
            return None;
        }
        // SAFETY: the completion is unread, so the kernel has written it and will not write it
        // again before the head has passed it.
        let raw = unsafe { self.completion_at(self.completions().index()).read() };
        let completion = Completion::decode(&raw);
        if !is_wanted(completion.user_data) {
            return None;
        }
        self.completions().advance();
        Some(completion)
    }

    /// Takes the completion with this tag, wherever it is; the others keep their order.
    #[must_use]
    pub fn take(&self, user_data: u64) -> Option<Completion> {
        let head = self.completions().index();
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
        self.completions().advance();
        Some(completion)
    }

    /// Submits the queued entries to the kernel, and waits for `minimum` unread completions or the deadline
    /// (nanoseconds since boot). Returns how many entries were taken.
    #[inline]
    pub fn enter(&self, minimum: u32, deadline: u64) -> u64 {
        enter(self.queued(), minimum, deadline)
    }

    /// Queues an entry of a blocking operation, having the kernel make room for it. `false` if it cannot.
    ///
    /// # Safety
    /// As [`Ring::push`].
    unsafe fn insist(&self, user_data: u64, operation: Operation) -> bool {
        // SAFETY: the caller's.
        unsafe { self.insist_words(&Entry { user_data, operation }.words()) }
    }

    /// The same with the entry's words.
    ///
    /// # Safety
    /// As [`Ring::push`].
    unsafe fn insist_words(&self, words: &EntryWords) -> bool {
        // SAFETY: the caller's.
        while !unsafe { self.push_words(words) } {
            if self.enter(0, 0) == 0 {
                return false;
            }
        }
        true
    }

    /// Takes the completion with this tag as soon as it has come; `None` once the deadline has passed.
    fn wait_for(&self, tag: u64, deadline: u64) -> Option<Completion> {
        loop {
            // Counted before the check, so that a later event ends the wait at once.
            let unread = self.unread();
            let found = self.take(tag);
            if found.is_some() {
                return found;
            }
            self.enter(unread.saturating_add(1), deadline);
            if deadline != NO_DEADLINE && self.unread() == unread {
                return None;
            }
        }
    }

    /// Runs one operation to its end, or until the deadline (nanoseconds since boot); then cancels it and says how it
    /// ended after all: mostly with [`Status::Cancelled`], and well if it was faster. Completions of others stay where
    /// they are. Allocates nothing.
    ///
    /// # Safety
    /// As [`Ring::push`], until this returns.
    pub unsafe fn run(&self, operation: Operation, deadline: u64) -> Completion {
        // SAFETY: the caller's.
        unsafe { self.run_words(Entry { user_data: TAG, operation }.words(), deadline) }
    }

    /// The same with the words of an entry, whatever its tag.
    ///
    /// # Safety
    /// As [`Ring::push`], until this returns.
    pub unsafe fn run_words(&self, mut words: EntryWords, deadline: u64) -> Completion {
        let [_, tag, ..] = &mut words;
        *tag = TAG;
        let failed = |status: Status| Completion { status: status as i32, ..Completion::default() };
        // SAFETY: the caller's.
        if !unsafe { self.insist_words(&words) } {
            return failed(Status::Overloaded);
        }
        if let Some(completion) = self.wait_for(TAG, deadline) {
            return completion;
        }
        // SAFETY: CANCEL names no memory.
        let cancelling = unsafe { self.insist(CANCEL_TAG, Operation::Cancel { target: TAG }) };
        let completion = self.wait_for(TAG, NO_DEADLINE);
        if cancelling {
            self.wait_for(CANCEL_TAG, NO_DEADLINE);
        }
        completion.unwrap_or_else(|| failed(Status::Cancelled))
    }

    /// Runs several operations until one of them has ended, or until the deadline; then cancels the others. Only the
    /// first [`MOST_AT_ONCE`] are run. All have ended when this returns. Allocates nothing.
    ///
    /// # Safety
    /// As [`Ring::push`], until this returns.
    pub unsafe fn run_any(&self, operations: &[Operation], deadline: u64) {
        let mut open = [false; MOST_AT_ONCE as usize];
        let tag = |at: usize| FIRST_TAG.saturating_sub(at as u64);
        for ((at, open), operation) in open.iter_mut().enumerate().zip(operations) {
            // SAFETY: the caller's.
            *open = unsafe { self.insist(tag(at), *operation) };
        }
        loop {
            // Counted before the check, as in `wait_for`.
            let unread = self.unread();
            let mut ended = open.iter().all(|open| !open);
            for (at, open) in open.iter_mut().enumerate().filter(|(_, open)| **open) {
                if self.take(tag(at)).is_some() {
                    (*open, ended) = (false, true);
                }
            }
            if ended {
                break;
            }
            self.enter(unread.saturating_add(1), deadline);
            if deadline != NO_DEADLINE && self.unread() == unread {
                break;
            }
        }
        for (at, _) in open.iter().enumerate().filter(|(_, open)| **open) {
            // SAFETY: CANCEL names no memory.
            let cancelling = unsafe { self.insist(CANCEL_TAG, Operation::Cancel { target: tag(at) }) };
            self.wait_for(tag(at), NO_DEADLINE);
            if cancelling {
                self.wait_for(CANCEL_TAG, NO_DEADLINE);
            }
        }
    }

    /// Waits until a word of memory is woken or the deadline has passed, unless the word holds something else already.
    pub fn wait_word(&self, address: u64, expected: u32, deadline: u64) -> Completion {
        // SAFETY: the kernel reads the word, and fails if there is none.
        unsafe { self.run(Operation::WaitWord { address, expected }, deadline) }
    }

    /// Wakes threads that wait for a word of memory, at most `count`; the completion's value says how many.
    pub fn wake_word(&self, address: u64, count: u32) -> Completion {
        // SAFETY: the kernel takes the address for a name and touches no memory.
        unsafe { self.run(Operation::WakeWord { address, count }, NO_DEADLINE) }
    }

    /// Releases a capability. Releasing one that is gone already succeeds.
    pub fn release(&self, cap: u64) {
        // SAFETY: RELEASE names no memory.
        unsafe { self.run(Operation::Release { cap }, NO_DEADLINE) };
    }

    /// Lets the kernel run other ready threads.
    pub fn yield_now(&self) {
        // SAFETY: NOP names no memory.
        unsafe { self.run(Operation::Nop, NO_DEADLINE) };
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::RefCell;

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

        /// Plays the kernel: completes these tags from index `at` on.
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
        // SAFETY: NOP names no memory.
        let push = |user_data| unsafe { ring.push(&entry(user_data)) };
        assert!(push(1) && push(2));
        assert!(!push(3));
        assert_eq!(ring.queued(), 2);
        memory.set(SUBMISSION_HEAD, 0);
        assert!(push(3));
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

    std::thread_local! {
        /// The kernel's completions at each ENTER, and the deadlines that it was given.
        static SCRIPT: RefCell<(VecDeque<Vec<u64>>, Vec<u64>)> = RefCell::default();
        static KERNEL: RefCell<Option<(NonNull<u8>, RingLayout)>> = const { RefCell::new(None) };
    }

    /// Takes all that is queued and completes what comes next in the script.
    fn scripted(to_submit: u32, _minimum: u32, deadline: u64) -> u64 {
        let (base, layout) = KERNEL.with_borrow(|kernel| kernel.unwrap());
        let index = |offset: usize| {
            // SAFETY: inside the header of the ring memory of the running test.
            unsafe { AtomicU32::from_ptr(base.as_ptr().add(offset).cast()) }
        };
        index(SUBMISSION_HEAD).fetch_add(to_submit, Ordering::AcqRel);
        let tags = SCRIPT.with_borrow_mut(|(steps, deadlines)| {
            deadlines.push(deadline);
            steps.pop_front().unwrap()
        });
        for user_data in tags {
            let tail = index(COMPLETION_TAIL).load(Ordering::Acquire);
            let raw = Completion { user_data, ..Completion::default() }.encode();
            // SAFETY: inside the ring memory of the running test.
            unsafe { base.as_ptr().add(layout.completion_offset(tail)).cast::<[u8; COMPLETION_SIZE]>().write(raw) };
            index(COMPLETION_TAIL).store(tail.wrapping_add(1), Ordering::Release);
        }
        u64::from(to_submit)
    }

    fn script(memory: &mut Memory, steps: &[&[u64]]) {
        KERNEL.set(Some((memory.base(), memory.layout)));
        SCRIPT.set((steps.iter().map(|tags| tags.to_vec()).collect(), Vec::new()));
        crate::host::set_enter(scripted);
    }

    #[test]
    fn a_blocking_operation_leaves_the_completions_of_others() {
        let mut memory = Memory::new(4, 8, u32::MAX - 2);
        script(&mut memory, &[&[1], &[2, TAG, 3]]);
        let ring = memory.ring();
        assert_eq!(ring.wake_word(64, 1).status, 0);
        assert_eq!(tags(&ring), [1, 2, 3]);
    }

    #[test]
    fn an_operation_that_is_late_is_cancelled_and_leaves_nothing() {
        let mut memory = Memory::new(4, 8, 0);
        // The completion of the cancel comes before that of its target.
        script(&mut memory, &[&[], &[1, CANCEL_TAG], &[], &[TAG]]);
        let ring = memory.ring();
        assert_eq!(ring.wait_word(64, 0, 5).user_data, TAG);
        assert_eq!(tags(&ring), [1]);
        let deadlines = SCRIPT.with_borrow(|(_, deadlines)| deadlines.clone());
        assert_eq!(deadlines, [5, NO_DEADLINE, NO_DEADLINE, NO_DEADLINE]);
    }

    #[test]
    fn the_first_of_several_ends_the_others() {
        let mut memory = Memory::new(8, 16, 0);
        // The second ends; then the first and the third are cancelled, each in its own order.
        let cancelled: [&[u64]; 3] = [&[1, FIRST_TAG - 1], &[CANCEL_TAG, FIRST_TAG], &[FIRST_TAG - 2, CANCEL_TAG]];
        script(&mut memory, &cancelled);
        let ring = memory.ring();
        let wait = Operation::WaitWord { address: 64, expected: 0 };
        // SAFETY: the word is never read.
        unsafe { ring.run_any(&[wait; 3], NO_DEADLINE) };
        assert_eq!(tags(&ring), [1]);
        // None ends in time.
        script(&mut memory, &[&[], &[FIRST_TAG, CANCEL_TAG]]);
        let ring = memory.ring();
        // SAFETY: as above.
        unsafe { ring.run_any(&[wait], 5) };
        assert_eq!(tags(&ring), []);
    }

    /// A kernel on a thread of its own, which completes at any time.
    #[test]
    fn a_completion_that_comes_at_any_moment_ends_the_wait() {
        const ROUNDS: u32 = 3000;
        let mut memory = Memory::new(4, 8, 0);
        let (base, layout) = (memory.base().as_ptr().expose_provenance(), memory.layout);
        let ring = memory.ring();
        let at = move |offset: usize| {
            // SAFETY: inside the header of the ring memory, which outlives both threads.
            unsafe { AtomicU32::from_ptr(core::ptr::with_exposed_provenance_mut::<u32>(base + offset)) }
        };
        let kernel = std::thread::spawn(move || {
            let mut tail = 0_u32;
            for round in 0..ROUNDS {
                while at(SUBMISSION_HEAD).load(Ordering::Acquire) == round {
                    std::thread::yield_now();
                }
                for user_data in [1, TAG] {
                    let raw = Completion { user_data, ..Completion::default() }.encode();
                    let place = base + layout.completion_offset(tail);
                    let place: *mut [u8; COMPLETION_SIZE] = core::ptr::with_exposed_provenance_mut(place);
                    // SAFETY: inside the ring memory; the other thread reads it after the tail has moved.
                    unsafe { place.write(raw) };
                    tail = tail.wrapping_add(1);
                    at(COMPLETION_TAIL).store(tail, Ordering::Release);
                    for _ in 0..round % 64 {
                        core::hint::spin_loop();
                    }
                }
            }
        });
        KERNEL.set(Some((NonNull::new(core::ptr::with_exposed_provenance_mut(base)).unwrap(), layout)));
        crate::host::set_enter(|to_submit, minimum, _| {
            let (base, _) = KERNEL.with_borrow(|kernel| kernel.unwrap());
            // SAFETY: as above.
            let at = |offset: usize| unsafe { AtomicU32::from_ptr(base.as_ptr().add(offset).cast()) };
            at(SUBMISSION_HEAD).fetch_add(to_submit, Ordering::AcqRel);
            let begun = std::time::Instant::now();
            let unread = || at(COMPLETION_TAIL).load(Ordering::Acquire) - at(COMPLETION_HEAD).load(Ordering::Acquire);
            while unread() < minimum {
                assert!(begun.elapsed().as_secs() < 20, "the wait for {minimum} completions sleeps for ever");
                std::thread::yield_now();
            }
            u64::from(to_submit)
        });
        for _ in 0..ROUNDS {
            assert_eq!(ring.wake_word(64, 1).user_data, TAG);
            assert_eq!(tags(&ring), [1]);
        }
        kernel.join().unwrap();
    }
}

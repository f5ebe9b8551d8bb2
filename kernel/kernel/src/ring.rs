//! The kernel's side of a thread's rings: raw access to the shared pages, and the kernel's own
//! indices, which nobody else can change.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::completion::COMPLETION_SIZE;
use capos_abi::entry::ENTRY_SIZE;
use capos_abi::ring::{self, RingLayout};
use capos_abi::{Completion, RawEntry, Status};
use capos_paging::PAGE;
use capos_sync::ring::{Consumer, Producer};

use crate::object::memory::MemoryObject;

/// Bytes of a page, as offsets are counted. Those of a ring have 32 bits at most.
const PAGE_BYTES: usize = PAGE as usize;

/// The process wrote an index that cannot be: its rings are not to be believed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Corrupt {
    /// The submission tail is further ahead than the ring is long.
    SubmissionTail(u32),
    /// The completion head is not between the completions that were read and those written.
    CompletionHead(u32),
}

/// The rings of one thread.
#[derive(Debug)]
pub struct Ring {
    /// Keeps the frames.
    _memory: Arc<MemoryObject>,
    /// Where its pages lie in the direct map.
    pages: Vec<*mut u8>,
    /// The first of them, which holds nothing but indices.
    header: *mut u8,
    /// Which of them holds the first entry, and which the first completion.
    entries_page: usize,
    completions_page: usize,
    layout: RingLayout,
    submissions: Consumer,
    completions: Producer,
}

impl Ring {
    /// Rings in zeroed memory of the right size.
    ///
    /// # Errors
    /// The memory is too small.
    pub fn new(memory: Arc<MemoryObject>, layout: RingLayout) -> Result<Self, Status> {
        let count = layout.bytes() as u64 / PAGE;
        let pages: Option<Vec<*mut u8>> =
            (0..count).map(|page| memory.stable_frame(page).map(|frame| frame.pointer())).collect();
        let pages = pages.ok_or(Status::InvalidArgument)?;
        let header = pages.first().copied().ok_or(Status::InvalidArgument)?;
        let page_of = |offset: usize| offset / PAGE_BYTES;
        let (entries_page, completions_page) =
            (page_of(layout.submission_offset(0)), page_of(layout.completions_offset()));
        let (submissions, completions) = (Consumer::new(0), Producer::new(0));
        let ring =
            Self { _memory: memory, pages, header, entries_page, completions_page, layout, submissions, completions };
        ring.publish(ring::SUBMISSION_ENTRIES, layout.submission_entries());
        ring.publish(ring::COMPLETION_ENTRIES, layout.completion_entries());
        Ok(ring)
    }

    /// Completions that fit.
    pub fn completion_entries(&self) -> u32 {
        self.layout.completion_entries()
    }

    /// Where the slot lies that begins `at` bytes behind the first one, which begins page `first`. Both come from
    /// [`RingLayout`] and lie in `pages`; the first page, which holds nothing but indices, stands in for any other.
    #[inline]
    fn slot(&self, first: usize, at: usize) -> *mut u8 {
        let page = self.pages.get(first.wrapping_add(at / PAGE_BYTES)).copied().unwrap_or(self.header);
        page.wrapping_add(at % PAGE_BYTES)
    }

    /// An index in the header of a ring's region.
    fn index(header: &*mut u8, offset: usize) -> &AtomicU32 {
        // SAFETY: the index offsets are multiples of 4 in the first page, a frame that the ring's `memory`
        // keeps for as long as the ring lives; atomics tolerate the process's own accesses.
        unsafe { AtomicU32::from_ptr(header.wrapping_add(offset).cast()) }
    }

    fn publish(&self, offset: usize, value: u32) {
        Self::index(&self.header, offset).store(value, Ordering::Release);
    }

    /// How many entries wait to be taken.
    ///
    /// # Errors
    /// The process's tail is corrupt.
    pub fn pending(&self) -> Result<u32, Corrupt> {
        let tail = Self::index(&self.header, ring::SUBMISSION_TAIL);
        self.submissions.pending(tail, self.layout.submission_entries()).map_err(Corrupt::SubmissionTail)
    }

    /// How many completions the process has not read yet.
    ///
    /// # Errors
    /// The process's head is corrupt.
    pub fn unread(&self) -> Result<u32, Corrupt> {
        let head = Self::index(&self.header, ring::COMPLETION_HEAD);
        self.completions.unread(head, self.layout.completion_entries()).map_err(Corrupt::CompletionHead)
    }

    /// A copy of the next entry, which is judged and used instead of the shared one.
    #[inline]
    pub fn entry(&self) -> RawEntry {
        let mask = self.layout.submission_entries().wrapping_sub(1);
        let at = ((self.submissions.index() & mask) as usize).wrapping_mul(ENTRY_SIZE);
        let from = self.slot(self.entries_page, at).cast::<[u64; ENTRY_SIZE / 8]>();
        // SAFETY: entries are 64-byte aligned and do not cross pages; the frame is kept.
        let words = unsafe { from.read_volatile() };
        // SAFETY: plain numbers of the same size; the machine is little-endian, as the ring is.
        unsafe { core::mem::transmute::<[u64; ENTRY_SIZE / 8], RawEntry>(words) }
    }

    /// Takes the next entry.
    pub fn advance(&mut self) {
        self.submissions.advance(Self::index(&self.header, ring::SUBMISSION_HEAD));
    }

    /// Appends a completion. The caller has made sure that there is room.
    #[inline]
    pub fn post(&mut self, completion: &Completion) {
        let Completion { user_data, status, length, value, caps, kind } = *completion;
        // As [`Completion::encode`] has it, eight bytes at a time.
        let words = [
            user_data,
            u64::from(status.cast_unsigned()) | u64::from(length) << 32,
            value,
            u64::from(caps) | u64::from(kind as u8) << 8,
        ];
        let mask = self.layout.completion_entries().wrapping_sub(1);
        let at = ((self.completions.index() & mask) as usize).wrapping_mul(COMPLETION_SIZE);
        let to = self.slot(self.completions_page, at);
        for (at, word) in words.into_iter().enumerate() {
            // SAFETY: completions are 32-byte aligned and do not cross pages; the frame is kept.
            unsafe { to.cast::<u64>().wrapping_add(at).write_volatile(word) };
        }
        self.completions.publish(Self::index(&self.header, ring::COMPLETION_TAIL));
    }
}

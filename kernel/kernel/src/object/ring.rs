//! The kernel's side of a thread's rings: raw access to the shared pages, and the kernel's own
//! indices, which nothing else can change.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::completion::COMPLETION_SIZE;
use capos_abi::entry::{ENTRY_SIZE, EntryWords};
use capos_abi::ring::{self, RingLayout};
use capos_abi::{Completion, Status};
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

/// The slots of one of the two rings, of `SIZE` bytes each.
#[derive(Debug)]
struct Slots<const SIZE: usize> {
    /// Where the pages that hold them lie in the direct map.
    pages: Vec<*mut u8>,
    /// Their number less one: it is a power of two.
    mask: u32,
}

impl<const SIZE: usize> Slots<SIZE> {
    /// Those that begin `offset` bytes behind the region's start, of whose pages these are all.
    fn new(pages: &[*mut u8], offset: usize, count: u32) -> Option<Self> {
        let bytes = (count as usize).checked_mul(SIZE)?;
        let pages = pages.get(offset / PAGE_BYTES..)?.get(..bytes.div_ceil(PAGE_BYTES))?;
        Some(Self { pages: pages.to_vec(), mask: count.wrapping_sub(1) })
    }

    /// Where the slot lies that a free-running index names. `other` stands in for a page that is not there, which none is.
    #[inline(always)]
    fn place(&self, index: u32, other: *mut u8) -> *mut u8 {
        let at = (index & self.mask) as usize;
        let page = at.wrapping_mul(SIZE) / PAGE_BYTES;
        let page = self.pages.get(page).copied().unwrap_or(other);
        page.wrapping_add(at.wrapping_mul(SIZE) % PAGE_BYTES)
    }
}

/// The rings of one thread.
#[derive(Debug)]
pub struct Ring {
    /// Keeps the frames.
    _memory: Arc<MemoryObject>,
    /// The first page, which holds nothing but indices.
    header: *mut u8,
    entries: Slots<ENTRY_SIZE>,
    completed: Slots<COMPLETION_SIZE>,
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
        let entries = Slots::new(&pages, layout.submission_offset(0), layout.submission_entries());
        let completed = Slots::new(&pages, layout.completions_offset(), layout.completion_entries());
        let (Some(entries), Some(completed)) = (entries, completed) else { return Err(Status::InvalidArgument) };
        let (submissions, completions) = (Consumer::new(0), Producer::new(0));
        let ring = Self { _memory: memory, header, entries, completed, layout, submissions, completions };
        ring.publish(ring::SUBMISSION_ENTRIES, layout.submission_entries());
        ring.publish(ring::COMPLETION_ENTRIES, layout.completion_entries());
        Ok(ring)
    }

    /// Completions that fit.
    #[inline]
    pub fn completion_entries(&self) -> u32 {
        self.layout.completion_entries()
    }

    /// An index in the header of a ring's region.
    #[inline(always)]
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
    #[inline(always)]
    pub fn pending(&self) -> Result<u32, Corrupt> {
        let tail = Self::index(&self.header, ring::SUBMISSION_TAIL);
        self.submissions.pending(tail, self.layout.submission_entries()).map_err(Corrupt::SubmissionTail)
    }

    /// How many completions the process has not read yet.
    ///
    /// # Errors
    /// The process's head is corrupt.
    #[inline(always)]
    pub fn unread(&self) -> Result<u32, Corrupt> {
        let head = Self::index(&self.header, ring::COMPLETION_HEAD);
        self.completions.unread(head, self.layout.completion_entries()).map_err(Corrupt::CompletionHead)
    }

    /// Whether one entry waits to be taken, and no more.
    #[inline(always)]
    pub fn has_one(&self) -> bool {
        let tail = Self::index(&self.header, ring::SUBMISSION_TAIL);
        tail.load(Ordering::Acquire) == self.submissions.index().wrapping_add(1)
    }

    /// Whether the process has read every completion.
    #[inline(always)]
    pub fn is_read(&self) -> bool {
        let head = Self::index(&self.header, ring::COMPLETION_HEAD);
        head.load(Ordering::Acquire) == self.completions.index()
    }

    /// A copy of the next entry, which is judged and used instead of the shared one.
    #[inline(always)]
    pub fn entry(&self) -> EntryWords {
        let from = self.entries.place(self.submissions.index(), self.header).cast::<EntryWords>();
        // SAFETY: entries are 64-byte aligned and do not cross pages; the frame is kept.
        unsafe { from.read_volatile() }
    }

    /// Takes the next entry.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.submissions.advance(Self::index(&self.header, ring::SUBMISSION_HEAD));
    }

    /// Appends a completion. The caller has made sure that there is room.
    #[inline(always)]
    pub fn post(&mut self, completion: &Completion) {
        let Completion { user_data, status, length, value, caps, kind } = *completion;
        // As [`Completion::encode`] has it, eight bytes at a time.
        let words = [
            user_data,
            u64::from(status.cast_unsigned()) | u64::from(length) << 32,
            value,
            u64::from(caps) | u64::from(kind as u8) << 8,
        ];
        let to = self.completed.place(self.completions.index(), self.header);
        for (place, word) in (0..COMPLETION_SIZE / 8).zip(words) {
            // SAFETY: completions are 32-byte aligned and do not cross pages; the frame is kept.
            unsafe { to.cast::<u64>().wrapping_add(place).write_volatile(word) };
        }
        self.completions.publish(Self::index(&self.header, ring::COMPLETION_TAIL));
    }
}

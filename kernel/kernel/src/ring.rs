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

use crate::memory::frames::Frame;
use crate::object::memory::MemoryObject;

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
    pages: Vec<Frame>,
    /// The first of them, which holds nothing but indices.
    header: Frame,
    layout: RingLayout,
    /// Next entry to take.
    head: u32,
    /// Next completion to write.
    tail: u32,
}

impl Ring {
    /// Rings in zeroed memory of the right size.
    ///
    /// # Errors
    /// The memory is too small.
    pub fn new(memory: Arc<MemoryObject>, layout: RingLayout) -> Result<Self, Status> {
        let count = layout.bytes() as u64 / PAGE;
        let pages: Option<Vec<Frame>> = (0..count).map(|page| memory.stable_frame(page)).collect();
        let pages = pages.ok_or(Status::InvalidArgument)?;
        let header = pages.first().copied().ok_or(Status::InvalidArgument)?;
        let ring = Self { _memory: memory, pages, header, layout, head: 0, tail: 0 };
        ring.publish(ring::SUBMISSION_ENTRIES, layout.submission_entries());
        ring.publish(ring::COMPLETION_ENTRIES, layout.completion_entries());
        Ok(ring)
    }

    /// Completions that fit.
    pub fn completion_entries(&self) -> u32 {
        self.layout.completion_entries()
    }

    /// Where an offset of the region lies. Offsets come from [`RingLayout`] and lie in `pages`; the
    /// first page, which holds nothing but indices, stands in for any other.
    fn pointer(&self, offset: usize) -> *mut u8 {
        let page = self.pages.get(offset / PAGE as usize).copied().unwrap_or(self.header);
        page.pointer().wrapping_add(offset % PAGE as usize)
    }

    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the index offsets are multiples of 4 in the first page, a frame that `memory`
        // keeps for as long as this value lives; atomics tolerate the process's own accesses.
        unsafe { AtomicU32::from_ptr(self.header.pointer().wrapping_add(offset).cast()) }
    }

    fn publish(&self, offset: usize, value: u32) {
        self.index(offset).store(value, Ordering::Release);
    }

    /// How many entries wait to be taken.
    ///
    /// # Errors
    /// The process's tail is corrupt.
    pub fn pending(&self) -> Result<u32, Corrupt> {
        let tail = self.index(ring::SUBMISSION_TAIL).load(Ordering::Acquire);
        ring::distance(self.head, tail, self.layout.submission_entries()).ok_or(Corrupt::SubmissionTail(tail))
    }

    /// How many completions the process has not read yet.
    ///
    /// # Errors
    /// The process's head is corrupt.
    pub fn unread(&self) -> Result<u32, Corrupt> {
        let head = self.index(ring::COMPLETION_HEAD).load(Ordering::Acquire);
        ring::distance(head, self.tail, self.layout.completion_entries()).ok_or(Corrupt::CompletionHead(head))
    }

    /// A copy of the next entry, which is judged and used instead of the shared one.
    #[inline]
    pub fn entry(&self) -> RawEntry {
        let from = self.pointer(self.layout.submission_offset(self.head)).cast::<[u64; ENTRY_SIZE / 8]>();
        // SAFETY: entries are 64-byte aligned and do not cross pages; the frame is kept.
        let words = unsafe { from.read_volatile() };
        // SAFETY: plain numbers of the same size; the machine is little-endian, as the ring is.
        unsafe { core::mem::transmute::<[u64; ENTRY_SIZE / 8], RawEntry>(words) }
    }

    /// Takes the next entry.
    pub fn advance(&mut self) {
        self.head = self.head.wrapping_add(1);
        self.publish(ring::SUBMISSION_HEAD, self.head);
    }

    /// Appends a completion. The caller has made sure that there is room.
    pub fn post(&mut self, completion: &Completion) {
        let Completion { user_data, status, length, value, caps, kind } = *completion;
        // As [`Completion::encode`] has it, eight bytes at a time.
        let words = [
            user_data,
            u64::from(status.cast_unsigned()) | u64::from(length) << 32,
            value,
            u64::from(caps) | u64::from(kind as u8) << 8,
        ];
        let to = self.pointer(self.layout.completion_offset(self.tail)).cast::<[u64; COMPLETION_SIZE / 8]>();
        // SAFETY: completions are 32-byte aligned and do not cross pages; the frame is kept.
        unsafe { to.write_volatile(words) };
        self.tail = self.tail.wrapping_add(1);
        self.publish(ring::COMPLETION_TAIL, self.tail);
    }
}

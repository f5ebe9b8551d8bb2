//! The kernel's heap.
//!
//! Small blocks come from frames cut into blocks of one size class, larger ones are runs of whole
//! frames. Everything lies in the direct map, so the heap needs no page tables, and a frame whose
//! blocks are all free goes back to the pool at once: a process that dies gives its memory back to
//! the byte. Pieces of up to one frame may come from the [`super::reserve`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

use capos_machine::page_entry::PAGE;
use spin::Mutex;

use super::frames::{self, Frame};
use super::hhdm;
use crate::arch::percpu;

/// Block sizes. Multiples of 16 that waste little of a frame's 4,032 bytes.
const CLASSES: [usize; 15] = [16, 32, 48, 64, 96, 128, 192, 256, 336, 448, 576, 800, 1008, 1344, 2016];
/// Bytes at the start of a frame that describe it.
const HEADER: usize = 64;
const FRAME: usize = PAGE as usize;

/// What lies at the start of a frame of small blocks.
#[repr(C)]
struct Page {
    /// Neighbours in the list of pages of this class that have a free block.
    next: *mut Page,
    previous: *mut Page,
    /// First free block, linked through the blocks; null where all are used.
    free: *mut Block,
    /// Blocks in use.
    used: usize,
    /// Blocks behind the header that were never used yet begin here (offset in the page).
    fresh: usize,
}

/// A free block.
struct Block {
    next: *mut Block,
}

struct Heap {
    /// Per class, the pages that have a free block.
    partial: [*mut Page; CLASSES.len()],
    /// What `partial` is otherwise, while requests are counted: as no page is on a list there, each request comes to where
    /// it is counted, and no other way is longer.
    hidden: [*mut Page; CLASSES.len()],
    /// Requests that are granted before one is refused, while they are counted; [`usize::MAX`] behind that one.
    granted: Option<usize>,
    /// Bytes that callers asked for and have not given back.
    used: usize,
    /// Frames that the heap holds.
    frames: usize,
    /// The most frames that it has held since `mark`.
    most: usize,
    /// Frames in a row that the processor with this number has secured, and how many are left.
    secured: Option<(u32, Frame, usize)>,
}

// SAFETY: the pointers lead to frames that the heap owns; they are used under the lock only.
unsafe impl Send for Heap {}

/// The allocator behind `alloc`.
pub struct KernelHeap(Mutex<Heap>);

#[global_allocator]
static HEAP: KernelHeap = KernelHeap(Mutex::new(Heap {
    partial: [null_mut(); CLASSES.len()],
    hidden: [null_mut(); CLASSES.len()],
    granted: None,
    used: 0,
    frames: 0,
    most: 0,
    secured: None,
}));

/// For tests: grants this many more requests, and refuses the one behind them.
#[cfg(feature = "tests")]
pub fn refuse_after(requests: usize) {
    let mut heap = HEAP.0.lock();
    heap.granted = Some(requests);
    heap.hidden = core::mem::replace(&mut heap.partial, [null_mut(); CLASSES.len()]);
}

/// Refuses nothing any more. Whether one has been refused since [`refuse_after`].
#[cfg(feature = "tests")]
pub fn refuse_none() -> bool {
    let mut heap = HEAP.0.lock();
    let Some(granted) = heap.granted.take() else { return false };
    heap.partial = core::mem::replace(&mut heap.hidden, [null_mut(); CLASSES.len()]);
    granted == usize::MAX
}

/// Bytes in use, as callers asked for them.
pub fn used() -> usize {
    HEAP.0.lock().used
}

/// Frames that the heap holds now.
pub fn frames() -> usize {
    HEAP.0.lock().frames
}

/// For tests: from now on the most frames that the heap holds are noted, see [`most_since_mark`].
#[cfg(feature = "tests")]
pub fn mark() {
    let mut heap = HEAP.0.lock();
    heap.most = heap.frames;
}

/// The most frames that the heap has held since [`mark`].
#[cfg(feature = "tests")]
pub fn most_since_mark() -> usize {
    HEAP.0.lock().most
}

/// As long as this is there, its processor's next allocations of more than a frame find what was secured.
#[derive(Debug)]
pub struct Secured(());

/// Secures `count` frames for allocations of more than a frame each, which the processor that asks makes until the
/// value is dropped. `None` where there is no such run, or another one is secured.
pub fn secure(count: usize) -> Option<Secured> {
    let mut heap = HEAP.0.lock();
    if heap.secured.is_some() {
        return None;
    }
    let first = frames::allocate_contiguous_dirty(count)?;
    heap.secured = Some((percpu::current().index, first, count));
    Some(Secured(()))
}

impl Drop for Secured {
    fn drop(&mut self) {
        if let Some((_, first, left)) = HEAP.0.lock().secured.take() {
            (0..left).for_each(|n| frames::free(first.offset(n)));
        }
    }
}

/// A value in the heap, or `None` where that has no memory.
pub fn try_box<T>(value: T) -> Option<Box<[T; 1]>> {
    let mut one = Vec::new();
    one.try_reserve_exact(1).ok()?;
    one.push(value);
    one.into_boxed_slice().try_into().ok()
}

/// Per size in steps of 16 bytes, the smallest class that holds it.
#[allow(clippy::indexing_slicing, reason = "evaluated, and so checked, by the compiler")]
const BY_SIZE: [u8; 127] = {
    let mut table = [0; 127];
    let mut step = 0;
    let mut class = 0;
    while step < table.len() {
        while CLASSES[class] < step * 16 {
            class += 1;
        }
        table[step] = class as u8;
        step += 1;
    }
    table
};

/// The class for a layout; `None` where whole frames serve it.
fn class(layout: &Layout) -> Option<usize> {
    if layout.align() <= 16 {
        return BY_SIZE.get(layout.size().div_ceil(16)).map(|class| usize::from(*class));
    }
    let fits = |size: usize| {
        size >= layout.size() && HEADER.is_multiple_of(layout.align()) && size.is_multiple_of(layout.align())
    };
    CLASSES.iter().position(|size| fits(*size))
}

// SAFETY: blocks of one page do not overlap (they lie `size` bytes apart behind the header), a
// block is handed out only while it is on no free list, and a run of frames belongs to one
// allocation. `class` depends on the layout alone, so freeing takes the way of allocating.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > FRAME {
            return null_mut();
        }
        let mut heap = self.0.lock();
        let block = match class(&layout) {
            Some(class) => heap.take(class),
            None => {
                let count = layout.size().div_ceil(FRAME);
                match heap.take_frames(count) {
                    Some(first) => {
                        heap.hold(count);
                        first.pointer()
                    }
                    None => null_mut(),
                }
            }
        };
        if !block.is_null() {
            heap.used = heap.used.saturating_add(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut heap = self.0.lock();
        heap.used = heap.used.saturating_sub(layout.size());
        match class(&layout) {
            Some(class) => heap.give(class, block),
            None => {
                let count = layout.size().div_ceil(FRAME);
                let first = Frame::from_address(hhdm::physical(block));
                for n in 0..count {
                    frames::free(first.offset(n));
                }
                heap.frames = heap.frames.saturating_sub(count);
            }
        }
    }
}

impl Heap {
    /// The first of `count` frames in a row.
    fn take_frames(&mut self, count: usize) -> Option<Frame> {
        if self.refuses() {
            return None;
        }
        if count == 1 {
            return frames::allocate_for_heap();
        }
        frames::allocate_contiguous_dirty(count).or_else(|| {
            let (processor, first, left) = self.secured.as_mut()?;
            if *left < count || *processor != percpu::current().index {
                return None;
            }
            let taken = *first;
            *first = taken.offset(count);
            *left = left.saturating_sub(count);
            Some(taken)
        })
    }

    /// This many frames more are its own.
    fn hold(&mut self, count: usize) {
        self.frames = self.frames.saturating_add(count);
        self.most = self.most.max(self.frames);
    }

    /// A block of `class`, or null.
    fn take(&mut self, class: usize) -> *mut u8 {
        let Some(size) = CLASSES.get(class).copied() else { return null_mut() };
        let mut page = self.partial.get(class).copied().unwrap_or(null_mut());
        if page.is_null() {
            page = self.another_page(class);
        }
        if page.is_null() {
            return null_mut();
        }
        // SAFETY: `page` is a page of this class on the list, so its header is valid and it has a
        // free block: one on the free list, or one behind `fresh`, which lies inside the frame. Neither count is ever more
        // than the frame's bytes.
        unsafe {
            let block = if (*page).free.is_null() {
                let block = page.cast::<u8>().add((*page).fresh);
                (*page).fresh = (*page).fresh.wrapping_add(size);
                block
            } else {
                let block = (*page).free;
                (*page).free = (*block).next;
                block.cast()
            };
            (*page).used = (*page).used.wrapping_add(1);
            if (*page).free.is_null() && (*page).fresh.wrapping_add(size) > FRAME {
                self.unlink(class, page);
            }
            block
        }
    }

    /// A page with a free block of `class` where its list shows none, or null.
    #[cold]
    #[inline(never)]
    fn another_page(&mut self, class: usize) -> *mut Page {
        if self.is_counted() {
            if self.refuses() {
                return null_mut();
            }
            let hidden = self.head(class);
            if !hidden.is_null() {
                return hidden;
            }
        }
        let Some(frame) = frames::allocate_for_heap() else { return null_mut() };
        self.hold(1);
        let page: *mut Page = frame.pointer().cast();
        // SAFETY: the frame is the heap's alone, aligned and larger than the header.
        unsafe {
            page.write(Page { next: null_mut(), previous: null_mut(), free: null_mut(), used: 0, fresh: HEADER })
        };
        // SAFETY: the page is new, so it is on no list.
        unsafe { self.link(class, page) };
        page
    }

    /// Takes a block of `class` back.
    fn give(&mut self, class: usize, block: *mut u8) {
        let Some(size) = CLASSES.get(class).copied() else { return };
        let page = block.map_addr(|address| address & !(FRAME - 1)).cast::<Page>();
        // SAFETY: the block came from `take`, so its frame begins with the header of a page of
        // this class, and the block is at least as large and aligned as a `Block`.
        unsafe {
            let was_full = (*page).free.is_null() && (*page).fresh.wrapping_add(size) > FRAME;
            let block = block.cast::<Block>();
            block.write(Block { next: (*page).free });
            (*page).free = block;
            (*page).used = (*page).used.wrapping_sub(1);
            if (*page).used == 0 {
                if !was_full {
                    self.unlink(class, page);
                }
                frames::free(Frame::from_address(hhdm::physical(page)));
                self.frames = self.frames.saturating_sub(1);
            } else if was_full {
                self.link(class, page);
            }
        }
    }

    /// Whether requests are counted for a test.
    #[inline(always)]
    fn is_counted(&self) -> bool {
        cfg!(feature = "tests") && self.granted.is_some()
    }

    /// Whether a request is the one that a test wants refused.
    fn refuses(&mut self) -> bool {
        let Some(granted) = self.granted.as_mut().filter(|_| cfg!(feature = "tests")) else { return false };
        let refused = *granted == 0;
        if *granted != usize::MAX {
            // Behind the last one granted comes "none", which is the largest number.
            *granted = granted.wrapping_sub(1);
        }
        refused
    }

    fn head(&self, class: usize) -> *mut Page {
        let lists = if self.is_counted() { &self.hidden } else { &self.partial };
        lists.get(class).copied().unwrap_or(null_mut())
    }

    fn set_head(&mut self, class: usize, page: *mut Page) {
        let lists = if self.is_counted() { &mut self.hidden } else { &mut self.partial };
        if let Some(slot) = lists.get_mut(class) {
            *slot = page;
        }
    }

    /// Puts a page on the list of those with a free block.
    ///
    /// # Safety
    /// The page is of this class and on no list.
    unsafe fn link(&mut self, class: usize, page: *mut Page) {
        let head = self.head(class);
        // SAFETY: both are pages of the heap; the head may be null.
        unsafe {
            (*page).next = head;
            (*page).previous = null_mut();
            if !head.is_null() {
                (*head).previous = page;
            }
        }
        self.set_head(class, page);
    }

    /// Takes a page off that list.
    ///
    /// # Safety
    /// The page is of this class and on its list.
    unsafe fn unlink(&mut self, class: usize, page: *mut Page) {
        // SAFETY: neighbours on the list are pages of the heap, or null at its ends.
        unsafe {
            let (next, previous) = ((*page).next, (*page).previous);
            if !next.is_null() {
                (*next).previous = previous;
            }
            if previous.is_null() {
                self.set_head(class, next);
            } else {
                (*previous).next = next;
            }
        }
    }
}

//! The program's allocator: the process's one heap, and before it a stock of small blocks that the first thread has, which is
//! where a program's code runs. Other threads use the heap.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use capos_ring::{Heap, ThreadCache};
use spin::Mutex;

use super::entry::is_first_thread;
use crate::runtime;

struct Memory {
    heap: Heap<Mutex<()>>,
    first: ThreadCache,
}

// SAFETY: only the first thread gets to its stock. Each other has a stack of its own, see `place`.
unsafe impl Sync for Memory {}

#[global_allocator]
static MEMORY: Memory = Memory { heap: Heap::new(), first: ThreadCache::new() };

/// Bytes of the allocation that was refused last; 0 if none was. No allocation is empty.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The allocation that was refused last, in bytes.
pub(super) fn refused() -> Option<usize> {
    Some(REFUSED.load(Ordering::Relaxed)).filter(|bytes| *bytes != 0)
}

/// There is no memory for `bytes` bytes.
#[cold]
fn refuse(bytes: usize) -> *mut u8 {
    REFUSED.store(bytes, Ordering::Relaxed);
    core::ptr::null_mut()
}

/// The first thread's ring. The others have none that the runtime knows of, and get what memory is there.
fn here() -> u64 {
    runtime::with(|rt| rt.ring().address()).unwrap_or(0)
}

/// Lets the heap grow at the expense of the process's account.
pub(super) fn use_kernel_memory(account: u64, space: u64) {
    // SAFETY: the ring is the runtime's, which belongs to the first thread. Addresses of mappings are taken from the
    // runtime's table, which leaves out the heap's.
    unsafe { MEMORY.heap.use_kernel_memory(account, space, here) };
}

impl Memory {
    /// The stock, for the thread that has it.
    #[inline]
    fn stock(&self) -> Option<&ThreadCache> {
        is_first_thread().then_some(&self.first)
    }

    /// A block, if none is in stock.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    #[inline(never)]
    unsafe fn alloc_anew(&self, layout: Layout) -> *mut u8 {
        if ThreadCache::keeps(layout)
            && let Some(stock) = self.stock()
        {
            return stock.allocate(&self.heap, layout).map_or_else(|| refuse(layout.size()), NonNull::as_ptr);
        }
        // SAFETY: the caller's layout.
        let found = unsafe { self.alloc_unkept(layout) };
        if found.is_null() { refuse(layout.size()) } else { found }
    }

    /// Frees a block that the stock has no room for.
    ///
    /// # Safety
    /// As [`GlobalAlloc::dealloc`].
    #[inline(never)]
    unsafe fn dealloc_beyond(&self, pointer: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(pointer) else { return };
        // SAFETY: the caller's allocation, which came from the heap with the layout that it goes back with.
        unsafe {
            match self.stock() {
                Some(stock) if ThreadCache::keeps(layout) => stock.release(&self.heap, block, layout),
                _ => self.heap.dealloc(pointer, ThreadCache::block_layout(layout).unwrap_or(layout)),
            }
        }
    }

    /// A block that comes from no stock.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    unsafe fn alloc_unkept(&self, layout: Layout) -> *mut u8 {
        let layout = ThreadCache::block_layout(layout).unwrap_or(layout);
        // SAFETY: a layout that is not empty, since the caller's is not.
        let found = unsafe { self.heap.alloc(layout) };
        if let (true, Some(stock)) = (found.is_null(), self.stock()) {
            // Kept blocks may be the memory that is lacking.
            stock.give_back(&self.heap);
            // SAFETY: as above.
            return unsafe { self.heap.alloc(layout) };
        }
        found
    }
}

// SAFETY: blocks of a layout that a stock keeps come from the heap rounded up to one of its sizes and return to it as
// such, from whichever thread. All others belong to the heap directly.
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Mostly one is in stock.
        if let Some(block) = self.stock().and_then(|stock| stock.take(layout)) {
            return block.as_ptr();
        }
        // SAFETY: the caller's layout.
        unsafe { self.alloc_anew(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let (Some(block), Some(stock)) = (NonNull::new(pointer), self.stock())
            // SAFETY: the caller's allocation.
            && unsafe { stock.keep(block, layout) }
        {
            return;
        }
        // SAFETY: the caller's allocation.
        unsafe { self.dealloc_beyond(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return core::ptr::null_mut() };
        if ThreadCache::same_size(layout, wanted) {
            return pointer;
        }
        // SAFETY: the caller's allocation; both blocks have the bytes that are copied.
        unsafe {
            if !ThreadCache::keeps(layout) && !ThreadCache::keeps(wanted) {
                let mut moved = self.heap.realloc(pointer, layout, size);
                if let (true, Some(stock)) = (moved.is_null(), self.stock()) {
                    // It is untouched if it could not be moved.
                    stock.give_back(&self.heap);
                    moved = self.heap.realloc(pointer, layout, size);
                }
                return if moved.is_null() { refuse(size) } else { moved };
            }
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(pointer, moved, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}

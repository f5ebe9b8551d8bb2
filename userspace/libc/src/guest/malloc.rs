//! `malloc` and its kin, and the allocator of the library itself.
//!
//! Small blocks come from the calling thread's own stock, others from the process's one heap. C's `free` does not get a
//! size, so each allocation is preceded by a header.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use capos_ring::{Heap, ThreadCache};

use crate::guest::errno::{self, Errno};
use crate::guest::threads::lock::Raw;
use crate::guest::threads::thread_block::{self, ThreadBlock};
use crate::guest::threads::thread_region;

/// The heap, from which each thread's stock is filled.
struct Memory(Heap<Raw>);

#[global_allocator]
static HEAP: Memory = Memory(Heap::new());

/// Lets the heap grow at the expense of the process's account.
pub fn use_kernel_memory(account: u64, space: u64) {
    // SAFETY: every thread's block contains its ring. Addresses of mappings are taken from `memory_map`'s table, which
    // leaves out the heap's.
    unsafe { HEAP.0.use_kernel_memory(account, space, thread_block::here) };
}

/// Frees the stock of the calling thread, which is about to end. It allocates nothing from here on.
pub fn give_back(thread: &ThreadBlock) {
    thread.cache.give_back(&HEAP.0);
}

impl Memory {
    /// A block of this layout, if there is memory for one.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    #[inline]
    unsafe fn find(&self, layout: Layout) -> *mut u8 {
        if ThreadCache::keeps(layout) {
            let block = thread_block::current().cache.allocate(&self.0, layout);
            return block.map_or(core::ptr::null_mut(), NonNull::as_ptr);
        }
        // SAFETY: the caller's layout.
        unsafe { self.0.alloc(layout) }
    }
}

// SAFETY: blocks of a layout that threads keep come from the heap, rounded up to one of their sizes, and go back to it as
// such; all others are the heap's own.
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        let block = unsafe { self.find(layout) };
        // The memory of ended threads is freed before an allocation fails.
        if block.is_null() && thread_region::give_up() {
            // SAFETY: as above.
            return unsafe { self.find(layout) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(pointer) else { return };
        // SAFETY: the caller's allocation.
        unsafe {
            match ThreadCache::keeps(layout) {
                true => thread_block::current().cache.release(&self.0, block, layout),
                false => self.0.dealloc(pointer, layout),
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return core::ptr::null_mut() };
        if ThreadCache::same_size(layout, wanted) {
            return pointer;
        }
        if !ThreadCache::keeps(layout) && !ThreadCache::keeps(wanted) {
            // SAFETY: the caller's allocation.
            let moved = unsafe { self.0.realloc(pointer, layout, size) };
            if !moved.is_null() || !thread_region::give_up() {
                return moved;
            }
            // SAFETY: the same; it is untouched if it could not be moved.
            return unsafe { self.0.realloc(pointer, layout, size) };
        }
        // SAFETY: the caller's allocation; both blocks have the bytes that are copied.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(pointer, moved, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}

/// The header in front of an allocation.
#[repr(C, align(16))]
struct Header {
    /// Bytes asked for.
    size: usize,
    /// Bytes from the start of the block to the allocation; also the block's alignment.
    offset: usize,
}

const HEADER: usize = size_of::<Header>();

fn layout(size: usize, offset: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(offset)?, offset).ok()
}

fn out_of_memory() -> *mut c_void {
    errno::set(Errno(libc::ENOMEM));
    core::ptr::null_mut()
}

/// `offset` is the alignment, at least a header's.
fn allocate(size: usize, offset: usize) -> Option<*mut u8> {
    let layout = layout(size, offset)?;
    // SAFETY: the layout has at least a header's bytes; header and allocation are inside the block, aligned.
    unsafe {
        let block = HEAP.alloc(layout);
        if block.is_null() {
            return None;
        }
        let pointer = block.add(offset);
        pointer.cast::<Header>().sub(1).write(Header { size, offset });
        Some(pointer)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size, HEADER).map_or_else(out_of_memory, <*mut u8>::cast)
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some((size, pointer)) = count.checked_mul(size).and_then(|size| Some((size, allocate(size, HEADER)?))) else {
        return out_of_memory();
    };
    // SAFETY: `size` bytes were just allocated here.
    unsafe { pointer.write_bytes(0, size) };
    pointer.cast()
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut c_void) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: the caller's allocation is preceded by a header, which contains its block's layout.
    unsafe {
        let header = pointer.cast::<Header>().sub(1).read();
        if let Some(layout) = layout(header.size, header.offset) {
            HEAP.dealloc(pointer.cast::<u8>().sub(header.offset), layout);
        }
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    if pointer.is_null() {
        return malloc(size);
    }
    // SAFETY: the caller's allocation has a header in front of it; the new block keeps header and content.
    unsafe {
        let header = pointer.cast::<Header>().sub(1).read();
        let (Some(old), Some(_)) = (layout(header.size, header.offset), layout(size, header.offset)) else {
            return out_of_memory();
        };
        let block = HEAP.realloc(pointer.cast::<u8>().sub(header.offset), old, size.saturating_add(header.offset));
        if block.is_null() {
            return out_of_memory();
        }
        let pointer = block.add(header.offset);
        pointer.cast::<Header>().sub(1).write(Header { size, offset: header.offset });
        pointer.cast()
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() {
        return libc::EINVAL;
    }
    match allocate(size, alignment.max(HEADER)) {
        Some(pointer) => {
            // SAFETY: the caller's place for the answer.
            unsafe { out.write(pointer.cast()) };
            0
        }
        None => libc::ENOMEM,
    }
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        errno::set(Errno(libc::EINVAL));
        return core::ptr::null_mut();
    }
    allocate(size, alignment.max(HEADER)).map_or_else(out_of_memory, <*mut u8>::cast)
}

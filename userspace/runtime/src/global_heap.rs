//! The program's allocator.

use core::alloc::{GlobalAlloc, Layout};

use capos_schema::cap::AsCap;
use spin::Mutex;
use talc::TalcLock;

use crate::heap::Growth;
use crate::raw_calls;
use crate::runtime::Facts;

struct Heap(TalcLock<Mutex<()>, Growth>);

// SAFETY: all of it is the inner allocator's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's allocation.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's allocation.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static HEAP: Heap = Heap(TalcLock::new(Growth::new()));

/// Lets the heap grow at the expense of the process's account.
pub(crate) fn use_kernel_memory(facts: &Facts) {
    if let (Some(account), Some(space)) = (&facts.account, &facts.space) {
        HEAP.0.lock().source.use_kernel_memory(account.as_cap().id(), space.as_cap().id(), raw_calls::grow);
    }
}

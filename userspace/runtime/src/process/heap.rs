//! The program's allocator.

use capos_ring::Heap;
use spin::Mutex;

use crate::runtime;

#[global_allocator]
static HEAP: Heap<Mutex<()>> = Heap::new();

/// The first thread's ring. The others have none that the runtime knows of, and get what memory is there.
fn here() -> u64 {
    runtime::with(|rt| rt.ring().address()).unwrap_or(0)
}

/// Lets the heap grow at the expense of the process's account.
pub(super) fn use_kernel_memory(account: u64, space: u64) {
    // SAFETY: the ring is the runtime's, which belongs to the first thread. Addresses of mappings are taken from the
    // runtime's table, which leaves out the heap's.
    unsafe { HEAP.use_kernel_memory(account, space, here) };
}

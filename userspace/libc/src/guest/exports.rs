//! The library's interface, besides C, for a program's own runtime: what both of them must agree on.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::guest::memory_map;
use crate::guest::threads::thread_block;

static RECORD: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static RECORD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Keeps where the launch record is mapped.
pub fn keep_record(record: &'static [u8]) {
    RECORD_BYTES.store(record.len(), Ordering::Relaxed);
    RECORD.store(record.as_ptr().cast_mut(), Ordering::Release);
}

/// The address of the calling thread's ring.
#[unsafe(no_mangle)]
extern "C" fn capos_thread_ring() -> u64 {
    thread_block::here()
}

/// The address of the launch record, which stays while the process runs. Its length in bytes is written to `length`.
///
/// # Safety
/// `length` is a place for it.
#[unsafe(no_mangle)]
unsafe extern "C" fn capos_launch_record(length: *mut usize) -> *const u8 {
    let record = RECORD.load(Ordering::Acquire);
    // SAFETY: the caller's place for the answer.
    unsafe { length.write(RECORD_BYTES.load(Ordering::Relaxed)) };
    record
}

/// Takes a range of addresses of `length` bytes, in whole pages, for a mapping; 0 if none is free.
#[unsafe(no_mangle)]
extern "C" fn capos_take_addresses(length: u64) -> u64 {
    memory_map::take(length).unwrap_or(0)
}

/// Returns a range of addresses at which nothing is mapped any more.
#[unsafe(no_mangle)]
extern "C" fn capos_give_addresses(start: u64, length: u64) {
    memory_map::give(start, length);
}

//! Weights are read once each, in order, and mostly from memory. Processors see that for themselves, but not across the
//! borders of pages of 4 KiB, in which only a few rows have room.

/// How far ahead bytes are fetched.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 4096;

/// Bytes that are fetched at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Begins to fetch as many bytes as these have, 4 KiB after them. The memory there may be something else, or may be
/// absent.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch<T>(bytes: &[T]) {
    prefetch_ahead(bytes, AHEAD);
}

/// The same, `ahead` bytes after their start.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch_ahead<T>(bytes: &[T], ahead: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let start = bytes.as_ptr().cast::<i8>().wrapping_add(ahead);
    for line in 0..size_of_val(bytes).div_ceil(LINE) {
        // SAFETY: this reads nothing, and an address at which there is nothing is passed over.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE)) };
    }
}

/// Leaves it to the processor.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch<T>(_: &[T]) {}

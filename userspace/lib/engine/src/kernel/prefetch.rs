//! Weights are read once each, in order, and mostly from memory. Processors see that for themselves, but not across the
//! borders of pages of 4 KiB, in which only a few rows have room.

/// How far ahead bytes are fetched.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 4096;

/// The same for numbers that need no unpacking, which are multiplied faster than others.
#[cfg(target_arch = "x86_64")]
const FLOATS_AHEAD: usize = 8192;

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
    fetch::<{ core::arch::x86_64::_MM_HINT_T0 }, T>(bytes, ahead);
}

/// The same for numbers that need no unpacking, 8 KiB after them and into the second-level cache. The first-level cache
/// waits for too few lines at once for these: with Zen 4 it has two thirds of the rate.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch_floats<T>(bytes: &[T]) {
    prefetch_floats_ahead(bytes, FLOATS_AHEAD);
}

/// The same, `ahead` bytes after their start.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch_floats_ahead<T>(bytes: &[T], ahead: usize) {
    fetch::<{ core::arch::x86_64::_MM_HINT_T1 }, T>(bytes, ahead);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch<const HINT: i32, T>(bytes: &[T], ahead: usize) {
    let start = bytes.as_ptr().cast::<i8>().wrapping_add(ahead);
    for line in 0..size_of_val(bytes).div_ceil(LINE) {
        // SAFETY: this reads nothing, and an address at which there is nothing is passed over.
        unsafe { core::arch::x86_64::_mm_prefetch::<HINT>(start.wrapping_add(line * LINE)) };
    }
}

/// Leaves it to the processor.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch<T>(_: &[T]) {}

//! `syscall`: the numbers that `std` and its friends call directly.

use core::ffi::{c_int, c_long, c_uint, c_void};

use crate::guest::entropy;
use crate::guest::errno::{self, unsupported};
use crate::guest::files::metadata;
use crate::guest::threads::{futex, thread};

/// An `int` that came in a whole register.
fn lower_half(register: usize) -> c_int {
    u32::try_from(register & 0xffff_ffff).unwrap_or(0).cast_signed()
}

/// # Safety
/// As the system call of that number on Linux. C declares it with as many arguments as each needs; on this processor
/// they come in the same registers.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, _f: usize) -> c_long {
    match number {
        libc::SYS_getrandom => {
            let buffer: *mut c_void = core::ptr::with_exposed_provenance_mut(a);
            // SAFETY: the caller's buffer.
            let done = unsafe { entropy::getrandom(buffer, b, c_uint::try_from(c).unwrap_or(0)) };
            c_long::try_from(done).unwrap_or(-1)
        }
        libc::SYS_futex => {
            let operation = c_int::try_from(b).unwrap_or(-1);
            // The lower half of a longer word counts.
            let value = u32::try_from(c & 0xffff_ffff).unwrap_or(0);
            // SAFETY: the caller's word and time.
            unsafe { futex::call(a, operation, value, core::ptr::with_exposed_provenance(d)) }.unwrap_or_else(|error| {
                errno::set(error);
                -1
            })
        }
        libc::SYS_statx => {
            let (path, out) = (core::ptr::with_exposed_provenance(b), core::ptr::with_exposed_provenance_mut(e));
            // SAFETY: the caller's string and place for the answer.
            unsafe { metadata::statx(lower_half(a), path, lower_half(c), 0, out) }.into()
        }
        libc::SYS_gettid => thread::number().into(),
        _ => unsupported().into(),
    }
}

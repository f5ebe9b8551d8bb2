//! Environment variables, the working directory, and what C asks about the machine.

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::guest::errno::{self, Errno};

#[unsafe(no_mangle)]
static environ: AtomicPtr<*const c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Keeps the variables that the process was started with: an array that stays, with a null at its end.
pub fn keep(variables: *mut *const c_char) {
    environ.store(variables, Ordering::Release);
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn getenv(name: *const c_char) -> *const c_char {
    // SAFETY: the caller's string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let mut next = environ.load(Ordering::Acquire).cast_const();
    // SAFETY: an array of strings with a null at its end.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            let line = CStr::from_ptr(*next).to_bytes();
            if line.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"=")) {
                return (*next).add(name.len().saturating_add(1));
            }
            next = next.add(1);
        }
    }
    core::ptr::null()
}

#[unsafe(no_mangle)]
extern "C" fn getauxval(_kind: c_ulong) -> c_ulong {
    0
}

#[unsafe(no_mangle)]
extern "C" fn gnu_get_libc_version() -> *const c_char {
    c"2.36".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        libc::_SC_PAGESIZE => 4096,
        libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF => 1,
        libc::_SC_IOV_MAX => 1024,
        _ => {
            errno::set(Errno(libc::EINVAL));
            -1
        }
    }
}

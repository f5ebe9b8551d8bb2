//! Environment variables, the working directory, and C's questions about the machine.

use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_long, c_ulong};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::guest::errno::{self, Errno, Result};
use crate::guest::grants::grants;
use crate::guest::output;
use crate::guest::threads::lock::Mutex;

#[unsafe(no_mangle)]
static environ: AtomicPtr<*const c_char> = AtomicPtr::new(core::ptr::null_mut());

/// If errors go to the log, a panic writes a full backtrace there, since the short form selects frames by names, which
/// programs do not contain. Errors of libraries stay as cheap as they are without.
const BACKTRACES: [&str; 2] = ["RUST_BACKTRACE=full", "RUST_LIB_BACKTRACE=0"];

/// The variables that a program begins with: those it was given, and [`BACKTRACES`].
pub fn first(given: &[String]) -> Vec<String> {
    let mut lines = given.to_vec();
    if output::Stream::Error.goes_to_log() && !given.iter().any(|line| line.starts_with("RUST_BACKTRACE=")) {
        lines.extend(BACKTRACES.map(String::from));
    }
    lines
}

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

/// The variables once one was changed: an array of strings with a null at its end, to which `environ` points.
struct Changed(Vec<*const c_char>);

// SAFETY: strings of the whole process, which are never written.
unsafe impl Send for Changed {}

static CHANGED: Mutex<Changed> = Mutex::new(Changed(Vec::new()));

/// A variable's name, which is not empty and has no `=`.
fn checked(name: &CStr) -> Result<&[u8]> {
    let name = name.to_bytes();
    if name.is_empty() || name.contains(&b'=') { Err(Errno(libc::EINVAL)) } else { Ok(name) }
}

/// Gives a variable another line, or none. The old value stays in memory: the program may still read it.
///
/// # Safety
/// No other thread reads `environ` at the same time, as C demands.
unsafe fn change(name: &[u8], line: Option<*const c_char>) {
    let mut changed = CHANGED.lock();
    let lines = &mut changed.0;
    let mut next = environ.load(Ordering::Acquire).cast_const();
    if lines.as_ptr() != next {
        // The first change, or the program has put another array there.
        lines.clear();
        // SAFETY: an array of strings with a null at its end.
        unsafe {
            while !next.is_null() && !(*next).is_null() {
                lines.push(*next);
                next = next.add(1);
            }
        }
    }
    lines.retain(|line| {
        // SAFETY: a string, unless it is the null at the end.
        !line.is_null()
            && !unsafe { CStr::from_ptr(*line) }.to_bytes().strip_prefix(name).is_some_and(|it| it.starts_with(b"="))
    });
    lines.extend(line);
    lines.push(core::ptr::null());
    environ.store(lines.as_mut_ptr(), Ordering::Release);
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int {
    // SAFETY: the caller's strings.
    let (text, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    errno::answer(checked(text).and_then(|text| {
        // SAFETY: the caller's string.
        if overwrite == 0 && !unsafe { getenv(name) }.is_null() {
            return Ok(0);
        }
        let line = [text, b"=", value.to_bytes()].concat();
        let line = CString::new(line).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: as the caller says.
        unsafe { change(text, Some(line.into_raw().cast_const())) };
        Ok(0)
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn unsetenv(name: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    let name = checked(unsafe { CStr::from_ptr(name) });
    errno::answer(name.map(|name| {
        // SAFETY: as the caller says.
        unsafe { change(name, None) };
        0
    }))
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
        libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF => {
            grants().map_or(1, |grants| c_long::from(grants.processors))
        }
        libc::_SC_IOV_MAX => 1024,
        _ => {
            errno::set(Errno(libc::EINVAL));
            -1
        }
    }
}

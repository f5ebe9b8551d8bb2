//! Signals. There are none: what would be one on Linux, a bad address or an illegal instruction, ends the process with
//! a report. Programs that ask for a handler are told that it is set, because none is ever called.

use core::ffi::{c_int, c_void};

use crate::guest::errno::unsupported;

#[unsafe(no_mangle)]
extern "C" fn signal(_number: c_int, _handler: usize) -> usize {
    libc::SIG_DFL
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(_number: c_int, _new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    if !old.is_null() {
        // As where a signal is ignored: so `std` sees that it need not make each thread a stack for handlers.
        // SAFETY: the caller's place for the answer; all zero is an action without flags.
        unsafe {
            old.write_bytes(0, 1);
            (*old).sa_sigaction = libc::SIG_IGN;
        }
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaltstack(_new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    if !old.is_null() {
        let none = libc::stack_t { ss_sp: core::ptr::null_mut::<c_void>(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the caller's place for the answer.
        unsafe { old.write(none) };
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigemptyset(set: *mut libc::sigset_t) -> c_int {
    // SAFETY: the caller's set.
    unsafe { set.write_bytes(0, 1) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn sigaddset(_set: *mut libc::sigset_t, _number: c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_sigmask(_how: c_int, _new: *const libc::sigset_t, _old: *mut libc::sigset_t) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn raise(_number: c_int) -> c_int {
    unsupported()
}

/// Waits for a signal: for ever, since none comes. `std` calls it where a thread must not go on.
#[unsafe(no_mangle)]
extern "C" fn pause() -> c_int {
    crate::guest::process::end(crate::guest::process::BROKEN)
}

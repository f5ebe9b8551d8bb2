//! Signals. There are none: a signal of Linux, such as a bad address or an illegal instruction, ends the process with a
//! report. So a signal may be ignored or left at its default; asking for a handler fails.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;

use capos_sync::Futex;

use crate::guest::errno::{self, Errno, Result, answer, unsupported};
use crate::guest::threads::futex::Kernel;

/// Whether this may be done when a signal comes: only that nothing is.
fn set(action: usize) -> Result<()> {
    if action == libc::SIG_DFL || action == libc::SIG_IGN { Ok(()) } else { Err(Errno(libc::ENOSYS)) }
}

#[unsafe(no_mangle)]
extern "C" fn signal(_number: c_int, handler: usize) -> usize {
    match set(handler) {
        Ok(()) => libc::SIG_DFL,
        Err(error) => {
            errno::set(error);
            libc::SIG_ERR
        }
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(_number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    if !old.is_null() {
        // As for an ignored signal: so `std` sees that it need not make each thread a stack for handlers.
        // SAFETY: the caller's place for the answer; all zero is an action without flags.
        unsafe {
            old.write_bytes(0, 1);
            (*old).sa_sigaction = libc::SIG_IGN;
        }
    }
    // SAFETY: the caller's action.
    let wanted = unsafe { new.as_ref() };
    answer(wanted.map_or(Ok(()), |action| set(action.sa_sigaction)).map(|()| 0))
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

/// Waits for a signal: for ever, since none comes. `std` calls it if a thread must not go on.
#[unsafe(no_mangle)]
extern "C" fn pause() -> c_int {
    let never = AtomicU32::new(0);
    loop {
        Kernel.wait(&never, 0);
    }
}

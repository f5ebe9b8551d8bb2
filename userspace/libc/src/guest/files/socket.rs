//! Sockets. There is no network yet that could be granted, so every call reports that none was.

use core::ffi::{c_char, c_int, c_void};

use crate::guest::errno::{Errno, answer, answer_size};

macro_rules! no_network {
    ($($name:ident),* $(,)?) => {
        $(
            /// Fails with `ENETDOWN`: no network was granted to this program.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                answer(Err(Errno(libc::ENETDOWN)))
            }
        )*
    };
    (bytes: $($name:ident),* $(,)?) => {
        $(
            /// Fails with `ENETDOWN`: no network was granted to this program.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> isize {
                answer_size(Err(Errno(libc::ENETDOWN)))
            }
        )*
    };
}

no_network!(
    accept,
    accept4,
    bind,
    connect,
    getpeername,
    getsockname,
    getsockopt,
    listen,
    setsockopt,
    shutdown,
    socket,
    socketpair,
);
no_network!(bytes: recv, recvfrom, recvmsg, send, sendmsg, sendto);

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    _node: *const c_char,
    _service: *const c_char,
    _hints: *const c_void,
    out: *mut *mut c_void,
) -> c_int {
    if !out.is_null() {
        // SAFETY: the caller's place for the answer.
        unsafe { out.write(core::ptr::null_mut()) };
    }
    libc::EAI_FAIL
}

#[unsafe(no_mangle)]
extern "C" fn freeaddrinfo(_list: *mut c_void) {}

#[unsafe(no_mangle)]
extern "C" fn gai_strerror(error: c_int) -> *const c_char {
    match error {
        libc::EAI_FAIL => c"no network was granted to this program".as_ptr(),
        _ => c"the name cannot be resolved".as_ptr(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn __res_init() -> c_int {
    0
}

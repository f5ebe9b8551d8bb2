//! Error numbers, and their texts.

use core::ffi::{c_char, c_int};

use capos_abi::{ExceptionKind, Status};
use capos_schema::cap::CallError;

use crate::guest::threads::thread_block;

/// An error number of C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

/// The result type of most of the library.
pub type Result<T> = core::result::Result<T, Errno>;

impl From<CallError> for Errno {
    fn from(error: CallError) -> Self {
        Self(match error {
            CallError::Transport(status) => match status {
                Status::Disconnected | Status::StaleCapability => libc::EPIPE,
                Status::BadCapability | Status::WrongInterface => libc::EBADF,
                Status::MissingRight => libc::EACCES,
                Status::TooLarge => libc::E2BIG,
                Status::QuotaExceeded | Status::OutOfMemory => libc::ENOMEM,
                Status::Cancelled => libc::EINTR,
                Status::Overloaded => libc::EAGAIN,
                _ => libc::EINVAL,
            },
            CallError::Exception(exception) => match exception.kind {
                ExceptionKind::Failed => libc::EIO,
                ExceptionKind::Overloaded => libc::EAGAIN,
                ExceptionKind::Disconnected => libc::EPIPE,
                ExceptionKind::Unimplemented => libc::ENOSYS,
                ExceptionKind::InvalidArgument => libc::EINVAL,
            },
            CallError::Protocol(_) => libc::EPROTO,
        })
    }
}

/// What a C function returns for a result: the value, or -1 with `errno` set.
pub fn answer(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| {
        set(error);
        -1
    })
}

/// The same for functions that count bytes.
pub fn answer_size(result: Result<isize>) -> isize {
    result.unwrap_or_else(|error| {
        set(error);
        -1
    })
}

/// Sets the thread's `errno`.
pub fn set(error: Errno) {
    thread_block::current().errno.set(error.0);
}

/// Fails with `ENOSYS`: capOS has nothing for it.
pub fn unsupported() -> c_int {
    answer(Err(Errno(libc::ENOSYS)))
}

#[unsafe(no_mangle)]
extern "C" fn __errno_location() -> *mut c_int {
    thread_block::current().errno.as_ptr()
}

/// The text of an error number.
fn words(error: c_int) -> &'static str {
    match error {
        0 => "success",
        libc::EPERM => "operation not permitted",
        libc::ENOENT => "no such file or directory in what this program was granted",
        libc::EINTR => "interrupted",
        libc::EIO => "input/output error: the file's server is gone or failed",
        libc::E2BIG => "message too large",
        libc::EBADF => "bad file descriptor",
        libc::EAGAIN => "resource temporarily unavailable",
        libc::ENOMEM => "out of memory: the program's account does not cover it",
        libc::EACCES => "permission denied: the program's capability does not allow it",
        libc::EEXIST => "file exists",
        libc::ENOTDIR => "not a directory",
        libc::EISDIR => "is a directory",
        libc::EINVAL => "invalid argument",
        libc::EMFILE => "too many open files",
        libc::EFBIG => "file too large",
        libc::ENOSPC => "no space left",
        libc::ESPIPE => "illegal seek",
        libc::EROFS => "read-only: the capability does not allow changes",
        libc::EPIPE => "the other side is gone",
        libc::ERANGE => "result too large",
        libc::ENAMETOOLONG => "file name too long",
        libc::ENOSYS => "not supported by capOS",
        libc::ENOTEMPTY => "directory not empty",
        libc::ELOOP => "too many levels of symbolic links",
        libc::EPROTO => "protocol error",
        libc::EOVERFLOW => "value too large",
        libc::ENOTTY => "not a terminal",
        libc::EFAULT => "bad address",
        libc::ENODEV => "not supported by this kind of file",
        libc::EOPNOTSUPP => "not supported here: what may be done with a file, its capability says",
        libc::ENOLCK => "locks of parts of a file are not supported; lock the whole file",
        libc::ENETDOWN => "no network was granted to this program",
        libc::ETIMEDOUT => "timed out",
        libc::EBUSY => "busy",
        libc::EDEADLK => "deadlock avoided",
        libc::EXDEV => "crosses from one granted directory to another",
        libc::EILSEQ => "not valid UTF-8",
        _ => "error",
    }
}

/// # Safety
/// As in C: `buffer` is writable for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn __xpg_strerror_r(error: c_int, buffer: *mut c_char, length: usize) -> c_int {
    let text = words(error).as_bytes();
    let Some(room) = length.checked_sub(1) else { return libc::ERANGE };
    let count = text.len().min(room);
    // SAFETY: `count` bytes of the text and a zero fit the caller's buffer.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, count);
        buffer.add(count).write(0);
    }
    if count < text.len() { libc::ERANGE } else { 0 }
}

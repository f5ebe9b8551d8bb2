//! File descriptors.

use core::ffi::{c_int, c_void};

use crate::errno::{Errno, Result, answer_size};
use crate::output::{self, Stream};

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(descriptor: c_int, data: *const c_void, length: usize) -> isize {
    // SAFETY: the caller's buffer.
    let bytes = unsafe { core::slice::from_raw_parts(data.cast::<u8>(), length) };
    answer_size(write_all(descriptor, bytes))
}

fn write_all(descriptor: c_int, bytes: &[u8]) -> Result<isize> {
    let stream = match descriptor {
        1 => Stream::Output,
        2 => Stream::Error,
        _ => return Err(Errno(libc::EBADF)),
    };
    output::write(stream, bytes)?;
    isize::try_from(bytes.len()).map_err(|_| Errno(libc::EINVAL))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(descriptor: c_int, pieces: *const libc::iovec, count: c_int) -> isize {
    let mut written = 0_isize;
    // SAFETY: the caller's array.
    let pieces = unsafe { core::slice::from_raw_parts(pieces, usize::try_from(count).unwrap_or(0)) };
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        // SAFETY: the caller's buffers.
        let done = unsafe { write(descriptor, piece.iov_base, piece.iov_len) };
        if done < 0 {
            return if written > 0 { written } else { -1 };
        }
        written = written.saturating_add(done);
    }
    written
}

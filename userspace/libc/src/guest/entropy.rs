//! Random bytes.

use core::ffi::{c_uint, c_void};

use capos_schema::kernel::EntropyClient;

use crate::guest::errno::{Errno, Result, answer_size};
use crate::guest::files::descriptor;
use crate::guest::grants::{cap, wait};

/// Random bytes that the kernel gives in one call.
const PIECE: usize = 1024;

/// Fills a buffer.
pub fn fill(buffer: &mut [u8]) -> Result<()> {
    let entropy: EntropyClient = cap("entropy").ok_or(Errno(libc::ENOSYS))?;
    for piece in buffer.chunks_mut(PIECE) {
        let random = wait(entropy.read(u16::try_from(piece.len()).unwrap_or(0)))?;
        for (to, from) in piece.iter_mut().zip(random) {
            *to = from;
        }
    }
    Ok(())
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
    // SAFETY: the caller's buffer.
    let filled = unsafe { descriptor::bytes_mut(buffer, length) }.and_then(fill);
    answer_size(filled.map(|()| isize::try_from(length).unwrap_or(isize::MAX)))
}

//! Waiting for a word of memory.

use core::ffi::{c_int, c_long};
use core::sync::atomic::AtomicU32;

use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{Completion, Status};
use capos_sync::Futex;

use crate::guest::clock;
use crate::guest::errno::{Errno, Result};
use crate::guest::threads::thread_block::ring;

/// The kernel, which words are waited for in.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

impl Futex for Kernel {
    fn wait(&self, word: &AtomicU32, expected: u32) {
        wait_until(core::ptr::from_ref(word).expose_provenance() as u64, expected, NO_DEADLINE);
    }

    fn wake(&self, word: *const AtomicU32, count: u32) {
        wake_at(word.expose_provenance() as u64, count);
    }
}

/// Waits until the word is woken, unless it holds something else already, or until a time, in nanoseconds since boot, at the latest.
pub fn wait_before(word: &AtomicU32, expected: u32, deadline: u64) {
    wait_until(core::ptr::from_ref(word).expose_provenance() as u64, expected, deadline);
}

fn wait_until(address: u64, expected: u32, deadline: u64) -> Completion {
    ring().wait_word(address, expected, deadline)
}

/// Wakes threads that wait for the word at an address, at most `count`.
fn wake_at(address: u64, count: u32) -> Completion {
    ring().wake_word(address, count)
}

/// When a wait ends, in nanoseconds since boot: never without a time.
///
/// # Safety
/// `time` is null or points to one.
unsafe fn deadline(time: *const libc::timespec, operation: c_int) -> Result<u64> {
    if time.is_null() {
        return Ok(NO_DEADLINE);
    }
    // SAFETY: the caller's.
    let nanoseconds = clock::nanoseconds(&unsafe { time.read() })?;
    let absolute = operation & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT_BITSET;
    if !absolute {
        return Ok(clock::now()?.saturating_add(nanoseconds));
    }
    if operation & libc::FUTEX_CLOCK_REALTIME != 0 {
        let left = nanoseconds.saturating_sub(clock::wall()?);
        return Ok(clock::now()?.saturating_add(left));
    }
    Ok(nanoseconds)
}

/// The system call `futex`, as `std` and others use it: words of this process, to wait and to wake.
///
/// # Safety
/// `time` is null or points to one.
pub unsafe fn call(address: usize, operation: c_int, value: u32, time: *const libc::timespec) -> Result<c_long> {
    let address = address as u64;
    match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            // SAFETY: the caller's.
            let deadline = unsafe { deadline(time, operation) }?;
            let done = wait_until(address, value, deadline);
            match Status::from_raw(done.status) {
                Some(Status::Ok) => Ok(0),
                Some(Status::Changed) => Err(Errno(libc::EAGAIN)),
                Some(Status::Cancelled) => Err(Errno(libc::ETIMEDOUT)),
                Some(Status::BadAddress) => Err(Errno(libc::EFAULT)),
                _ => Err(Errno(libc::ENOMEM)),
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let done = wake_at(address, value.min(i32::MAX.unsigned_abs()));
            if done.status < 0 {
                return Err(Errno(libc::EFAULT));
            }
            Ok(c_long::try_from(done.value).unwrap_or(c_long::MAX))
        }
        _ => Err(Errno(libc::ENOSYS)),
    }
}

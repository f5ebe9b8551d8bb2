//! Clocks.

use core::ffi::c_int;

use capos_schema::kernel::TimerClient;

use crate::errno::{Errno, Result, answer};
use crate::grants::{cap, wait};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds since boot.
pub fn now() -> Result<u64> {
    let timer: TimerClient = cap("timer").ok_or(Errno(libc::EPERM))?;
    Ok(wait(timer.now())?)
}

fn read(clock: c_int) -> Result<u64> {
    match clock {
        libc::CLOCK_REALTIME => {
            let timer: TimerClient = cap("timer").ok_or(Errno(libc::EPERM))?;
            Ok(wait(timer.wall_clock())?.saturating_mul(1_000_000))
        }
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME => now(),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, out: *mut libc::timespec) -> c_int {
    answer(read(clock).map(|nanoseconds| {
        let time = libc::timespec {
            tv_sec: i64::try_from(nanoseconds / SECOND).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanoseconds % SECOND).unwrap_or(0),
        };
        // SAFETY: the caller's place for the answer.
        unsafe { out.write(time) };
        0
    }))
}

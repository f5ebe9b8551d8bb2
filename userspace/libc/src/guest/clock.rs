//! Clocks.

use core::ffi::c_int;

use capos_schema::kernel::TimerClient;

use crate::guest::errno::{Errno, Result, answer};
use crate::guest::grants::{cap, wait};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds since boot.
pub fn now() -> Result<u64> {
    let timer: TimerClient = cap("timer").ok_or(Errno(libc::EPERM))?;
    Ok(wait(timer.now())?)
}

/// Nanoseconds since 1970.
pub fn wall() -> Result<u64> {
    let timer: TimerClient = cap("timer").ok_or(Errno(libc::EPERM))?;
    Ok(wait(timer.wall_clock())?.saturating_mul(1_000_000))
}

fn read(clock: c_int) -> Result<u64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => wall(),
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
            now()
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// A time of C as nanoseconds.
pub fn nanoseconds(time: &libc::timespec) -> Result<u64> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno(libc::EINVAL))?;
    let rest = u64::try_from(time.tv_nsec).ok().filter(|rest| *rest < SECOND).ok_or(Errno(libc::EINVAL))?;
    Ok(seconds.saturating_mul(SECOND).saturating_add(rest))
}

fn sleep_until(deadline: u64) -> Result<()> {
    let timer: TimerClient = cap("timer").ok_or(Errno(libc::EPERM))?;
    Ok(wait(timer.sleep_until(deadline))?)
}

/// # Safety
/// As in C. The sleep is never cut short, so what is left is not written.
#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const libc::timespec, _left: *mut libc::timespec) -> c_int {
    // SAFETY: the caller's time.
    let duration = nanoseconds(&unsafe { time.read() });
    answer(duration.and_then(|duration| sleep_until(now()?.saturating_add(duration))).map(|()| 0))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    time: *const libc::timespec,
    _left: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller's time.
    let given = nanoseconds(&unsafe { time.read() });
    let deadline = given.and_then(|given| {
        let now = now()?;
        if flags & libc::TIMER_ABSTIME == 0 {
            return Ok(now.saturating_add(given));
        }
        Ok(now.saturating_add(given.saturating_sub(read(clock)?)))
    });
    deadline.and_then(sleep_until).map_or_else(|error| error.0, |()| 0)
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

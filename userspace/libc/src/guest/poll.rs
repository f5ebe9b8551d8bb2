//! Waiting until something can be read or written.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::syscall::NO_DEADLINE;

use crate::guest::description::Object;
use crate::guest::errno::{Errno, Result, answer};
use crate::guest::{clock, descriptor, futex};

/// Counts what has happened to pipes and counters: those who wait for any of them wait for another number.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// How many wait, so that nobody is woken where nobody sleeps.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// What has happened so far; to be asked before looking.
pub fn seen() -> u32 {
    CHANGES.load(Ordering::SeqCst)
}

/// Waits until something happens that was not seen, or until a time (nanoseconds since boot).
pub fn wait(seen: u32, deadline: u64) {
    WAITING.fetch_add(1, Ordering::SeqCst);
    futex::wait_before(&CHANGES, seen, deadline);
    WAITING.fetch_sub(1, Ordering::SeqCst);
}

/// Something has happened.
pub fn changed() {
    CHANGES.fetch_add(1, Ordering::SeqCst);
    if WAITING.load(Ordering::SeqCst) > 0 {
        futex::wake(&CHANGES, u32::MAX);
    }
}

/// What can be done with something that is open without waiting.
fn events(object: &Object) -> i16 {
    match object {
        Object::PipeReader(pipe) => pipe.events(),
        Object::PipeWriter(pipe) => pipe.events(),
        Object::Counter(counter) => counter.events(),
        // Reading tells at once that there is nothing.
        Object::Input | Object::Random => libc::POLLIN,
        Object::Output(_) => libc::POLLOUT,
        Object::File(_) | Object::Directory(_) | Object::Null => libc::POLLIN | libc::POLLOUT,
    }
}

fn look(watched: &mut [libc::pollfd]) -> c_int {
    let mut ready = 0_i32;
    for one in watched {
        one.revents = match one.fd {
            // Left out.
            ..0 => 0,
            number => match descriptor::get(number) {
                // Errors and hang-ups are told unasked.
                Ok(open) => events(&open.object) & (one.events | libc::POLLERR | libc::POLLHUP),
                Err(_) => libc::POLLNVAL,
            },
        };
        if one.revents != 0 {
            ready = ready.saturating_add(1);
        }
    }
    ready
}

fn poll_until(watched: &mut [libc::pollfd], milliseconds: c_int) -> Result<c_int> {
    let deadline = match u64::try_from(milliseconds) {
        Ok(0) => 0,
        Ok(milliseconds) => clock::now()?.saturating_add(milliseconds.saturating_mul(1_000_000)),
        Err(_) => NO_DEADLINE,
    };
    loop {
        let seen = seen();
        let ready = look(watched);
        if ready > 0 || milliseconds == 0 {
            return Ok(ready);
        }
        wait(seen, deadline);
        if deadline != NO_DEADLINE && clock::now()? >= deadline {
            return Ok(look(watched));
        }
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(watched: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int) -> c_int {
    let count = usize::try_from(count).ok().filter(|count| *count <= crate::descriptor_table::MAX_DESCRIPTORS);
    answer(count.ok_or(Errno(libc::EINVAL)).and_then(|count| {
        let watched = match count {
            0 => &mut [],
            _ if watched.is_null() => return Err(Errno(libc::EFAULT)),
            // SAFETY: the caller's array.
            _ => unsafe { core::slice::from_raw_parts_mut(watched, count) },
        };
        poll_until(watched, milliseconds)
    }))
}

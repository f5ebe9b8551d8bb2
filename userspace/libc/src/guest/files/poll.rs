//! Waiting until something can be read or written.

use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::syscall::NO_DEADLINE;
use capos_ring::Asked;
use capos_sync::Futex;

use crate::guest::clock;
use crate::guest::errno::{Errno, Result, answer};
use crate::guest::files::description::Object;
use crate::guest::files::{descriptor, stream};
use crate::guest::threads::futex;

/// Counts what has happened to pipes and counters: a waiter for any of them waits for the count to change.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// How many threads wait, so that there is no wake-up call without a waiter.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// The count so far; to be read before looking.
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
        futex::Kernel.wake(&raw const CHANGES, u32::MAX);
    }
}

/// The operations on an open object that would not block.
fn events(object: &Object) -> i16 {
    match object {
        Object::PipeReader(pipe) => pipe.events(),
        Object::PipeWriter(pipe) => pipe.events(),
        Object::Counter(counter) => counter.events(),
        Object::Input(input) => input.events(),
        Object::Output(writer) => writer.events(),
        Object::Random => libc::POLLIN,
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
                // Errors and hang-ups are always reported.
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

/// Waits until something happens inside the process that was not seen, until one of the standard streams that are
/// watched is ready, or until a time.
fn wait_for(watched: &[libc::pollfd], seen: u32, deadline: u64) {
    let mut calls: Vec<Asked> = Vec::new();
    for one in watched {
        let Ok(open) = descriptor::get(one.fd) else { continue };
        calls.extend(match &open.object {
            Object::Input(input) if one.events & libc::POLLIN != 0 => input.asked(),
            Object::Output(writer) if one.events & libc::POLLOUT != 0 => writer.asked(),
            _ => None,
        });
    }
    // One that is watched twice is queried once: there are three standard streams.
    calls.sort_by_key(|asked| asked.cap);
    calls.dedup_by_key(|asked| asked.cap);
    if calls.is_empty() {
        return wait(seen, deadline);
    }
    WAITING.fetch_add(1, Ordering::SeqCst);
    stream::wait_for_any((core::ptr::from_ref(&CHANGES).expose_provenance() as u64, seen), calls, deadline);
    WAITING.fetch_sub(1, Ordering::SeqCst);
}

/// Waits for this many nanoseconds at most; `None` is for ever.
fn poll_for(watched: &mut [libc::pollfd], nanoseconds: Option<u64>) -> Result<c_int> {
    let deadline = match nanoseconds {
        Some(0) => 0,
        Some(nanoseconds) => clock::now()?.saturating_add(nanoseconds),
        None => NO_DEADLINE,
    };
    loop {
        let seen = seen();
        let ready = look(watched);
        if ready > 0 || nanoseconds == Some(0) {
            return Ok(ready);
        }
        wait_for(watched, seen, deadline);
        if deadline != NO_DEADLINE && clock::now()? >= deadline {
            return Ok(look(watched));
        }
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(watched: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int) -> c_int {
    let time = u64::try_from(milliseconds).ok().map(|milliseconds| milliseconds.saturating_mul(1_000_000));
    // SAFETY: the caller's array.
    answer(unsafe { array(watched, count) }.and_then(|watched| poll_for(watched, time)))
}

/// There are no signals, so none is held back meanwhile.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    watched: *mut libc::pollfd,
    count: libc::nfds_t,
    time: *const libc::timespec,
    _mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's time, if there is one.
    let time = unsafe { time.as_ref() }.map(clock::nanoseconds).transpose();
    // SAFETY: the caller's array.
    answer(time.and_then(|time| poll_for(unsafe { array(watched, count) }?, time)))
}

/// The caller's array.
///
/// # Safety
/// `watched` is null or `count` of them.
unsafe fn array<'a>(watched: *mut libc::pollfd, count: libc::nfds_t) -> Result<&'a mut [libc::pollfd]> {
    let count = usize::try_from(count).ok().filter(|count| *count <= crate::descriptor_table::MAX_DESCRIPTORS);
    match count.ok_or(Errno(libc::EINVAL))? {
        0 => Ok(&mut []),
        _ if watched.is_null() => Err(Errno(libc::EFAULT)),
        // SAFETY: the caller's array.
        count => Ok(unsafe { core::slice::from_raw_parts_mut(watched, count) }),
    }
}

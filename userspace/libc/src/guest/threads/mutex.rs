//! C's mutexes of the ordinary kind, which is not recursive: the first word is the library's own lock.

use core::ffi::{c_int, c_void};

use lock_api::RawMutex;

use crate::guest::threads::lock::Raw;

/// Index of the word in which C keeps a mutex's kind. A mutex of another kind was set up by C's initializer for it.
const KIND: usize = 4;
/// The ordinary kind.
const ORDINARY: c_int = libc::PTHREAD_MUTEX_NORMAL;

/// The lock of a mutex.
///
/// # Safety
/// It is a mutex, and stays one for as long as the answer is used.
unsafe fn lock<'a>(mutex: *mut libc::pthread_mutex_t) -> Result<&'a Raw, c_int> {
    // SAFETY: the caller's; the kind is not changed after the mutex was set up.
    let kind = unsafe { mutex.cast::<c_int>().add(KIND).read() };
    // SAFETY: the caller's; its first word is used as the lock alone, and all its bytes are 0 if it is free.
    if kind == ORDINARY { Ok(unsafe { &*mutex.cast::<Raw>() }) } else { Err(libc::ENOTSUP) }
}

/// # Safety
/// As in C. There are no attributes, so that it has the ordinary kind.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_init(mutex: *mut libc::pthread_mutex_t, attributes: *const c_void) -> c_int {
    if !attributes.is_null() {
        return libc::ENOTSUP;
    }
    // SAFETY: the caller's place for it.
    unsafe { mutex.write(libc::PTHREAD_MUTEX_INITIALIZER) };
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> c_int {
    // SAFETY: the caller's.
    match unsafe { lock(mutex) } {
        Ok(lock) => {
            lock.lock();
            0
        }
        Err(error) => error,
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut libc::pthread_mutex_t) -> c_int {
    // SAFETY: the caller's.
    match unsafe { lock(mutex) } {
        Ok(lock) if lock.try_lock() => 0,
        Ok(_) => libc::EBUSY,
        Err(error) => error,
    }
}

/// # Safety
/// As in C: the caller holds it.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut libc::pthread_mutex_t) -> c_int {
    // SAFETY: the caller's.
    match unsafe { lock(mutex) } {
        Ok(lock) => {
            // SAFETY: the caller holds it.
            unsafe { lock.unlock() };
            0
        }
        Err(error) => error,
    }
}

/// Nothing is kept of a mutex but its own bytes.
#[unsafe(no_mangle)]
extern "C" fn pthread_mutex_destroy(_mutex: *mut libc::pthread_mutex_t) -> c_int {
    0
}

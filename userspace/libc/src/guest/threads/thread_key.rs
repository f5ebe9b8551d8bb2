//! Keys of threads' own values, whose destructors run when a thread ends.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::guest::threads::lock::Mutex;
use crate::guest::threads::thread_block::{self, KEYS};

type Destructor = unsafe extern "C" fn(*mut c_void);

/// Rounds of destructors at a thread's end, since destructors may set values again.
const ROUNDS: usize = 4;

static NEXT: AtomicUsize = AtomicUsize::new(0);
static DESTRUCTORS: Mutex<[Option<Destructor>; KEYS]> = Mutex::new([None; KEYS]);

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_key_create(out: *mut c_uint, destructor: Option<Destructor>) -> c_int {
    let key = NEXT.fetch_add(1, Ordering::Relaxed);
    let Some(place) = DESTRUCTORS.lock().get_mut(key).map(|place| *place = destructor) else {
        NEXT.fetch_sub(1, Ordering::Relaxed);
        return libc::EAGAIN;
    };
    let () = place;
    // SAFETY: the caller's place for the answer.
    unsafe { out.write(c_uint::try_from(key).unwrap_or(c_uint::MAX)) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_key_delete(key: c_uint) -> c_int {
    // A key is not used again, so that nothing finds another's values in it.
    let key = usize::try_from(key).unwrap_or(KEYS);
    DESTRUCTORS.lock().get_mut(key).map_or(libc::EINVAL, |place| {
        *place = None;
        0
    })
}

#[unsafe(no_mangle)]
extern "C" fn pthread_getspecific(key: c_uint) -> *mut c_void {
    let values = &thread_block::current().values;
    usize::try_from(key).ok().and_then(|key| values.get(key)).map_or(core::ptr::null_mut(), core::cell::Cell::get)
}

#[unsafe(no_mangle)]
extern "C" fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int {
    let values = &thread_block::current().values;
    match usize::try_from(key).ok().and_then(|key| values.get(key)) {
        Some(place) => {
            place.set(value.cast_mut());
            0
        }
        None => libc::EINVAL,
    }
}

/// Runs the destructors of the calling thread's values.
pub fn run_destructors() {
    let values = &thread_block::current().values;
    for _ in 0..ROUNDS {
        for (key, value) in values.iter().enumerate() {
            let value = value.replace(core::ptr::null_mut());
            let destructor = DESTRUCTORS.lock().get(key).copied().flatten();
            if let Some(destructor) = destructor
                && !value.is_null()
            {
                // SAFETY: the program set the value for this key, whose destructor it named.
                unsafe { destructor(value) };
            }
        }
    }
}

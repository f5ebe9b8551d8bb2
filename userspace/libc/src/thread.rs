//! Threads.

use core::ffi::{c_int, c_void};

use crate::thread_block;

/// What `pthread_attr_t` holds here.
#[repr(C)]
struct Attributes {
    /// Lowest address of the stack; 0 where it is not made yet.
    stack: u64,
    stack_bytes: u64,
}

const _: () = assert!(size_of::<Attributes>() <= size_of::<libc::pthread_attr_t>());

/// Stack of a thread that does not ask for another, in bytes.
const STACK_BYTES: u64 = 2 << 20;

#[unsafe(no_mangle)]
extern "C" fn pthread_self() -> libc::pthread_t {
    core::ptr::from_ref(thread_block::current()).addr() as libc::pthread_t
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_init(out: *mut libc::pthread_attr_t) -> c_int {
    // SAFETY: the caller's place has room, as checked above.
    unsafe { out.cast::<Attributes>().write(Attributes { stack: 0, stack_bytes: STACK_BYTES }) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_destroy(_attributes: *mut libc::pthread_attr_t) -> c_int {
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setstacksize(attributes: *mut libc::pthread_attr_t, bytes: usize) -> c_int {
    let Ok(bytes) = u64::try_from(bytes) else { return libc::EINVAL };
    // SAFETY: initialised by `pthread_attr_init`.
    unsafe { (*attributes.cast::<Attributes>()).stack_bytes = bytes };
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getguardsize(_attributes: *const libc::pthread_attr_t, out: *mut usize) -> c_int {
    // SAFETY: the caller's place for the answer.
    unsafe { out.write(4096) };
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getstack(
    attributes: *const libc::pthread_attr_t,
    address: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: the caller's attributes and places for the answer.
    unsafe {
        let attributes = attributes.cast::<Attributes>().read();
        address.write(core::ptr::with_exposed_provenance_mut(usize::try_from(attributes.stack).unwrap_or(0)));
        bytes.write(usize::try_from(attributes.stack_bytes).unwrap_or(0));
    }
    0
}

/// # Safety
/// As in C; only the calling thread may be asked about.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getattr_np(thread: libc::pthread_t, out: *mut libc::pthread_attr_t) -> c_int {
    if thread != pthread_self() {
        return libc::ESRCH;
    }
    let (stack, stack_bytes) = thread_block::current().stack.get();
    // SAFETY: the caller's place has room.
    unsafe { out.cast::<Attributes>().write(Attributes { stack, stack_bytes }) };
    0
}

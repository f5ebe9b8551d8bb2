//! Where the runtime is: the process's first thread has it, and no other.

use core::cell::UnsafeCell;

use super::entry::is_first_thread;
use crate::runtime::Runtime;

/// Holds the runtime.
struct OneThread(UnsafeCell<Option<Runtime>>);

// SAFETY: only the first thread accesses the content. A process that may have more threads can start
// them, but each needs its own stack. A thread on the first thread's stack would overwrite the data of
// both, whatever they do with this crate.
unsafe impl Sync for OneThread {}

static PLACE: OneThread = OneThread(UnsafeCell::new(None));

/// Puts the runtime in place, once, before anything uses it.
pub(super) fn install(runtime: Runtime) {
    // SAFETY: called by the entry before any other code of the program, so no reference exists.
    unsafe { *PLACE.0.get() = Some(runtime) };
}

/// The runtime, if it is in place: for the process's first thread. Any other has none.
#[inline]
pub(crate) fn with<R>(act: impl FnOnce(&Runtime) -> R) -> Option<R> {
    if !is_first_thread() {
        return None;
    }
    // SAFETY: written only by `install`, before the first call; shared references only, of one thread.
    unsafe { (*PLACE.0.get()).as_ref() }.map(act)
}

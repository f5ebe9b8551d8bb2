//! The thread's rings without the executor: for tests that send what no client would send, and for
//! measurements of the kernel alone. Programs use the typed clients instead.
//!
//! Entries sent from here carry a tag with the bit [`TAG`], by which the runtime tells them from
//! its own; both may be in flight at once. All bits set is the heap's own tag.

use capos_abi::{Completion, RawEntry};

use crate::arch;
use crate::runtime;

/// The bit of the user data that keeps an entry apart from the runtime's own.
pub const TAG: u64 = 1 << 63;

/// Queues an entry as it is; `false` where the submission ring is full.
///
/// # Safety
/// Until the entry completes, the kernel may read and write what it names as buffers: memory that
/// is exposed, valid for that, and that no reference is held to.
pub unsafe fn push(entry: &RawEntry) -> bool {
    runtime::with(|rt| rt.ring().push_raw(entry)).unwrap_or(false)
}

/// Makes the system call ENTER (see [`capos_abi::syscall`]); says how many entries were taken.
pub fn enter(to_submit: u32, min_complete: u32, deadline: u64) -> u64 {
    arch::enter(to_submit, min_complete, deadline)
}

/// Takes the oldest completion of an entry with the bit [`TAG`]. Those of others go to who waits
/// for them; where nobody does, they are dropped.
#[must_use]
pub fn pop() -> Option<Completion> {
    runtime::with(|rt| {
        rt.collect();
        rt.reactor(|reactor, _| reactor.raw.pop_front())
    })
    .flatten()
}

//! The thread's rings without the executor: for tests that send what no client would send, and for
//! measurements of the kernel alone. Programs use the typed clients instead.
//!
//! Only while no future of the runtime waits for the kernel: [`pop`] takes whatever completion is
//! the oldest. Allocating in between is fine; the heap's own calls have tags with all bits set.

use capos_abi::{Completion, RawEntry};

use crate::arch;
use crate::runtime;

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

/// Takes the oldest completion.
#[must_use]
pub fn pop() -> Option<Completion> {
    runtime::with(|rt| rt.ring().pop()).flatten()
}

/// Completions that lie unread.
#[must_use]
pub fn unread() -> u32 {
    runtime::with(|rt| rt.ring().unread()).unwrap_or(0)
}

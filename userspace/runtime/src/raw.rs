//! The thread's rings without the executor: for tests that send what no client would send, and for
//! measurements of the kernel alone. Programs use the typed clients instead.
//!
//! Entries sent from here carry a tag with the bit [`TAG`], by which the runtime tells them from
//! its own; both may be in flight at once. All bits set is the heap's own tag.

use core::ptr::NonNull;

use capos_abi::{Completion, Entry, RawEntry};

use crate::arch;
use crate::ring::Ring;
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

/// The rings of a thread that the program started itself with `Process.createThread`. Such a thread
/// has no executor: the rest of the runtime belongs to the first thread alone.
#[derive(Debug)]
pub struct ThreadRing(Ring);

impl ThreadRing {
    /// Takes over the rings of the calling thread, at the address that it was started with. `None`
    /// where there are none.
    ///
    /// # Safety
    /// The address is that of the calling thread's rings, which stay mapped; nobody else uses them.
    #[must_use]
    pub unsafe fn new(address: u64) -> Option<Self> {
        let base = core::ptr::with_exposed_provenance_mut(usize::try_from(address).ok()?);
        // SAFETY: the caller's promise.
        unsafe { Ring::new(NonNull::new(base)?) }.ok().map(Self)
    }

    /// Queues an entry; `false` where the submission ring is full.
    ///
    /// # Safety
    /// As [`push`].
    pub unsafe fn push(&self, entry: &Entry) -> bool {
        self.0.push(entry)
    }

    /// Has the kernel take what is queued, and waits for `minimum` unread completions or the deadline;
    /// how many entries were taken.
    pub fn enter(&self, minimum: u32, deadline: u64) -> u64 {
        arch::enter(self.0.queued(), minimum, deadline)
    }

    /// Takes the oldest completion.
    #[must_use]
    pub fn pop(&self) -> Option<Completion> {
        self.0.pop()
    }
}

/// Ends the calling thread alone. The last thread's end is that of the process, with this code.
pub fn exit_thread(code: i32) -> ! {
    #[cfg(capos_guest)]
    arch::exit_thread(code);
    #[cfg(not(capos_guest))]
    std::process::exit(code)
}

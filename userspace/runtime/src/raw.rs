//! The thread's rings without the executor: for tests that send invalid entries, and for
//! measurements of the kernel alone. Programs use the typed clients instead.
//!
//! Entries sent from here carry a tag with the bit [`TAG`], by which the runtime distinguishes them
//! from its own; both may be in flight at once. A thread that the program starts itself has rings
//! that the runtime knows nothing of: see [`capos_ring::Ring`].

use capos_abi::{Completion, RawEntry};
use capos_ring::Ring;
pub use capos_ring::{enter, invoke};

use crate::runtime;

/// The bit of the user data that keeps an entry apart from the runtime's own.
pub const TAG: u64 = 1 << 63;

/// Queues an unchecked entry; `false` if the submission ring is full.
///
/// # Safety
/// Until the entry completes, the kernel may read and write the buffers that it names: memory that
/// is exposed, valid for that, and that no reference is held to.
pub unsafe fn push(entry: &RawEntry) -> bool {
    // SAFETY: the caller's.
    runtime::with(|rt| unsafe { rt.ring().push_raw(entry) }).unwrap_or(false)
}

/// Takes the oldest completion of an entry with the bit [`TAG`]. Those of others go to the tasks
/// that wait for them, and are dropped if none does.
#[must_use]
pub fn pop() -> Option<Completion> {
    runtime::with(|rt| {
        let known = rt.reactor(|reactor, ring| match reactor.raw.pop_front() {
            // Mostly it is the next one in the ring.
            None => ring.pop_if(|user_data| user_data & TAG != 0),
            known => known,
        });
        known.or_else(|| {
            rt.collect();
            rt.reactor(|reactor, _| reactor.raw.pop_front())
        })
    })
    .flatten()
}

/// The thread's rings themselves, for programs without the executor: a completion that is taken from them is lost to
/// the runtime. `None` if the thread has none.
///
/// # Safety
/// They are used by the thread that asks for them, as long as it runs, and only between the runtime's own turns.
#[must_use]
pub unsafe fn ring() -> Option<Ring> {
    // SAFETY: the runtime's own rings, which live as long as the thread; the rest is the caller's.
    runtime::with(|rt| unsafe { Ring::at(rt.ring().address()) }.ok()).flatten()
}

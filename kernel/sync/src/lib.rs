//! Synchronisation of processors and threads through shared words of memory: the kernel's [`SharedLock`], the indices
//! of rings ([`ring`]) and the kernel's queues of threads that wait for a word ([`WordWaits`]). On waiting are built a
//! [`WordLock`], a [`Step`], a task's [`Flag`] and an executor's [`Knocks`].
//!
//! The kernel, the C library and the runtime use this code unchanged. `make loom` compiles it with `--cfg loom`, where
//! the atomics and locks of [`primitives`] are loom's, and tries every order in which the threads of
//! `tests/interleavings` can take their steps; `cargo test` runs the same tests on threads of the host.
#![cfg_attr(not(loom), no_std)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![forbid(unsafe_code)]

extern crate alloc;

mod event;
pub mod primitives;
pub mod ring;
mod shared_lock;
mod ticket_lock;
mod word_lock;
mod word_waits;

pub use event::{Flag, Knocks, Step};
pub use shared_lock::{Presence, SharedLock};
pub use ticket_lock::TicketLock;
pub use word_lock::WordLock;
pub use word_waits::{Waited, WordWaits};

use primitives::AtomicU32;

/// How a thread waits for a word of memory that others share.
pub trait Futex {
    /// Waits until the word is woken, unless it holds something else than `expected` already. May return early.
    fn wait(&self, word: &AtomicU32, expected: u32);

    /// Wakes threads that wait for the word at this address, `count` at most. The memory need not be there any more.
    fn wake(&self, word: *const AtomicU32, count: u32);
}

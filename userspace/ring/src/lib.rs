//! A thread's access to the kernel, for the libraries that processes are built on: the runtime of async programs and
//! the C library below `std`.
//!
//! It contains the system calls, the ends of a thread's [`Ring`], the one way to send a CALL and read its result
//! ([`message`]), and calls that block their thread ([`BlockingCap`]). It also contains what a process has once: its
//! [`Heap`], with a [`ThreadCache`] for each thread that wants one, and its table of [`Addresses`].
//!
//! Nothing here keeps state for a thread: the ring's indices are in the ring. So two users of one thread's ring, such
//! as a C library and a program's own runtime, take turns and recognise their completions by tag.
//!
//! Without `cfg(capos_guest)` the crate is an ordinary library for host tests: [`enter`] calls the kernel that the test
//! has installed ([`host`]).
#![no_std]

extern crate alloc;
#[cfg(not(capos_guest))]
extern crate std;

mod addresses;
mod blocking;
mod heap;
#[cfg(not(capos_guest))]
pub mod host;
mod launch;
pub mod message;
mod raw_calls;
mod ring;
#[cfg(capos_guest)]
mod syscall;
mod thread_cache;

pub use addresses::{Addresses, PAGE};
pub use blocking::{Asked, BlockingCap, Here, wait};
pub use heap::Heap;
#[cfg(not(capos_guest))]
pub use host::{enter, exit, exit_thread, invoke};
pub use launch::{LastWords, last_words, means_to_grow};
pub use raw_calls::{MAX_TEXT, unmap, write_line};
pub use ring::{BLOCKING_ROOM, MOST_AT_ONCE, Ring};
#[cfg(capos_guest)]
pub use syscall::{enter, exit, exit_thread, invoke};
pub use thread_cache::{BlockSource, ThreadCache};

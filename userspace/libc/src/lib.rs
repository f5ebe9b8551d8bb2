//! The C library that Rust's `std`, from the stock toolchain, stands on.
//!
//! A program for capOS that uses `std` is an ordinary program of the host target, linked statically against this
//! library in place of the host's. What the library offers it does with the capabilities that the process was given,
//! and with nothing else: a path leads into a directory that was granted under a name, or nowhere.
//!
//! The library is linked into one relocatable object whose only visible names are C's. It has a heap, a panic handler
//! and a copy of `core` of its own, so nothing of the program above can reach into it but by calling.
//!
//! Functions that capOS has nothing for fail with `ENOSYS` and say so; none pretends. `docs/std.md` lists them.
#![cfg_attr(capos_guest, no_std)]

extern crate alloc;

#[cfg(capos_guest)]
mod aliases;
#[cfg(capos_guest)]
mod clock;
#[cfg(capos_guest)]
mod description;
#[cfg(capos_guest)]
mod descriptor;
#[cfg(any(capos_guest, test))]
mod descriptor_table;
#[cfg(capos_guest)]
mod directory;
#[cfg(capos_guest)]
mod entropy;
#[cfg(capos_guest)]
mod environment;
#[cfg(capos_guest)]
mod errno;
#[cfg(capos_guest)]
mod file;
#[cfg(capos_guest)]
mod futex;
#[cfg(capos_guest)]
mod grants;
#[cfg(capos_guest)]
mod handle;
#[cfg(capos_guest)]
mod lock;
#[cfg(capos_guest)]
mod malloc;
#[cfg(capos_guest)]
mod memory_map;
#[cfg(capos_guest)]
mod metadata;
#[cfg(capos_guest)]
mod names;
#[cfg(capos_guest)]
mod namespace;
#[cfg(capos_guest)]
mod output;
#[cfg(capos_guest)]
mod panic;
#[cfg(any(capos_guest, test))]
mod path;
#[cfg(capos_guest)]
mod pipe;
#[cfg(capos_guest)]
mod poll;
#[cfg(capos_guest)]
mod process;
#[cfg(capos_guest)]
mod signal;
#[cfg(capos_guest)]
mod socket;
#[cfg(capos_guest)]
mod start;
#[cfg(capos_guest)]
mod syscall;
#[cfg(capos_guest)]
mod thread;
#[cfg(capos_guest)]
mod thread_block;
#[cfg(capos_guest)]
mod thread_key;
#[cfg(capos_guest)]
mod unwind;

//! The C library that Rust's `std`, from the stock toolchain, is built on.
//!
//! A program for capOS that uses `std` is an ordinary program of the host target, linked statically against this
//! library in place of the host's. The library works with the capabilities that the process was given, and with nothing
//! else: a path leads into a directory that was granted under a name, or nowhere.
//!
//! The library is linked into one relocatable object whose only visible names are C's. It has a heap, a panic handler
//! and a copy of `core` of its own, so nothing of the program above can reach into it but by calling.
//!
//! Functions without a counterpart on capOS fail with `ENOSYS`; none pretends to work. `docs/std.md` lists them.
#![cfg_attr(capos_guest, no_std)]

extern crate alloc;

#[cfg(any(capos_guest, test))]
mod descriptor_table;
#[cfg(capos_guest)]
mod guest;
#[cfg(any(capos_guest, test))]
mod path;
#[cfg(any(capos_guest, test))]
mod transfer;

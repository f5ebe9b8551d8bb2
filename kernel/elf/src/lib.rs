//! ELF64 program loader arithmetic: which bytes of a static x86-64 program go where.
//!
//! A loader reads the file's first [`HEADER_BYTES`] bytes, or the whole file, and asks
//! [`Program::parse`]. The answer is a list of page-aligned [`Segment`]s that do not overlap, are in
//! user memory, and are never writable and executable at once. Nothing is believed: every number
//! of the file is checked before it is used.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
mod program;

pub use error::ElfError;
pub use program::{MAX_SEGMENTS, MAX_THREAD_LOCAL, PAGE, Program, Segment, ThreadLocal};

/// How much of a file's start holds all headers of a program that this crate accepts, in bytes.
pub const HEADER_BYTES: usize = 4096;

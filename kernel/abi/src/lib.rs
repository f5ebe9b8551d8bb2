//! The binary interface between the kernel and a process.
//!
//! A process talks to the kernel through system calls ([`syscall`]) and one pair of rings per
//! thread ([`ring`]). Everything else is an entry in a ring ([`entry`]) whose answer is a completion
//! ([`completion`]). The kernel, the runtime and the fuzzer judge entries with the same validator,
//! [`entry::Entry::decode`].
//!
//! This crate holds layouts and pure checks only: no allocation, no I/O, no unsafe.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod bootstrap;
pub mod capability;
pub mod completion;
pub mod entry;
pub mod message;
pub mod plain;
pub mod rights;
pub mod ring;
pub mod status;
pub mod syscall;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes of a large page, which one entry of a page directory maps.
pub const LARGE_PAGE: u64 = 2 << 20;

pub use capability::CapId;
pub use completion::{Completion, CompletionKind};
pub use entry::{Entry, EntryError, Opcode, RawEntry};
pub use message::{CapSlot, MessageHeader, TransferMode};
pub use rights::Rights;
pub use ring::RingLayout;
pub use status::{ExceptionKind, Status};

//! The call graph of the encoded manifest. It is checked when a boot package is made, and again by the first process,
//! which cannot trust its input.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod check;
mod cycle;
mod error;

pub use check::{MAX_PROCESSES, check};
pub use cycle::cycle;
pub use error::GraphError;

/// Name of the first process as a provider.
pub const FIRST: &str = "init";
/// How many interfaces the first process provides.
pub const FIRST_INTERFACES: u16 = 8;
/// The path of a service's program that comes out of the boot package.
pub const BOOT: &str = "boot:";

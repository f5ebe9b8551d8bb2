//! Which PCI functions a machine has, and which process drives which of them.
//!
//! Nothing here touches hardware: registers are read through [`Registers`], and what is read is input like any other.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod assign;
mod function;
mod scan;
mod windows;

pub use assign::{Assignment, MAX_DEVICES, assign, wanted};
pub use function::{Found, Place, describe_wanted};
pub use scan::{BATCH, MAX_FUNCTIONS, Registers, Scan, scan};
pub use windows::{Window, WritableRegisters, windows};

//! The kernel's pure logic about the machine: reading ACPI tables, the frame bitmap, page-table entries, clock
//! arithmetic, the random generator's cipher, the registers of threads.
//!
//! Nothing here touches hardware. Tables come as byte slices, which the firmware wrote and which
//! are therefore checked like any other input.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod acpi;
pub mod bitmap;
pub mod chacha;
pub mod clock;
pub mod page_entry;
pub mod range;
pub mod rtc;
pub mod vector_state;

//! The pure parts of the loader: reading the Multiboot2 information, deciding where things go in memory, filling page
//! tables, and writing the answers of the Limine boot protocol (base revision 3).
//!
//! Nothing here touches the machine: memory is passed in as slices, so all of it is tested on the host. The
//! program around it (`main.rs`) turns physical addresses into these slices and enters the kernel.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![forbid(unsafe_code)]

pub mod arena;
pub mod bytes;
pub mod clock;
pub mod image;
pub mod interrupts;
pub mod limine;
pub mod memory_map;
pub mod multiboot2;
pub mod page_tables;

/// Where the direct map of physical memory begins.
pub const HHDM: u64 = 0xffff_8000_0000_0000;

pub use capos_abi::PAGE;

/// Why the kernel cannot be started. The text is the whole sentence a person gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

/// Result of everything that can stop the boot.
pub type Result<T> = core::result::Result<T, Refusal>;

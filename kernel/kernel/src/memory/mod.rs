//! Physical and virtual memory of the kernel itself.
//!
//! [`frames`] hands out 4 KiB frames, [`heap`] makes the kernel's allocations out of them, [`hhdm`]
//! is the window through which the kernel reaches physical memory, [`kernel_space`] builds the
//! kernel half of all address spaces, [`page_table`] is the user half of one of them. [`reserve`] keeps
//! the heap from running out.

pub mod frames;
pub mod heap;
pub mod hhdm;
pub mod kernel_space;
pub mod page_table;
pub mod reserve;
pub mod shootdown;

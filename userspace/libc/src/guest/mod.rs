//! The library's code for the guest, where its functions have C's names.

mod aliases;
mod clock;
mod entropy;
mod environment;
mod errno;
mod exports;
mod files;
mod grants;
mod handle;
mod malloc;
mod math;
mod memory_map;
mod names;
mod output;
mod panic;
mod process;
mod start;
mod syscall;
mod threads;
mod unwind;

// The functions that compiled code calls are C's too.
use capos_mem as _;

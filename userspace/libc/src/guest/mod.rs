//! The library's code for the guest, where its functions have C's names.

mod aliases;
mod clock;
mod description;
mod descriptor;
mod directory;
mod entropy;
mod environment;
mod errno;
mod exports;
mod file;
mod futex;
mod grants;
mod handle;
mod lock;
mod malloc;
mod math;
mod memory_map;
mod metadata;
mod mutex;
mod names;
mod namespace;
mod output;
mod panic;
mod pipe;
mod poll;
mod process;
mod signal;
mod socket;
mod start;
mod stream;
mod syscall;
mod thread;
mod thread_block;
mod thread_key;
mod thread_region;
mod unwind;

// The functions that compiled code calls are C's too.
use capos_mem as _;

//! Threads and their waits: blocks, keys, mutexes, futexes, signals.

pub mod futex;
pub mod lock;
pub mod mutex;
pub mod signal;
pub mod thread;
pub mod thread_block;
pub mod thread_key;
pub mod thread_region;

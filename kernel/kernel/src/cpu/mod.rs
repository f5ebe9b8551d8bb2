//! What the kernel has before there are objects: its lock and how long it is held, its log, random bytes, what the boot loader said, and its end.

pub mod boot;
pub mod budget;
pub mod entropy;
pub mod kernel_lock;
pub mod log;
pub mod panic;

//! Exit codes of the runtime and the C library, besides 0.

/// `main` failed, and said why.
pub const FAILURE: i32 = 1;
/// A panic; the log says where.
pub const PANIC: i32 = 101;
/// Memory ran out: the account's limit does not cover it, or the machine has no more.
pub const OUT_OF_MEMORY: i32 = 102;
/// A program on std aborted: it panicked and could not unwind, or memory ran out. Standard error has why.
pub const ABORTED: i32 = 134;

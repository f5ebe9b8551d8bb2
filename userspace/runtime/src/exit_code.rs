//! Exit codes of the runtime and the C library, besides 0.

/// `main` failed, and said why.
pub const FAILURE: i32 = 1;
/// A panic; the log says where.
pub const PANIC: i32 = 101;
/// Memory was needed that there is none for: the account's limit does not cover it, or the machine has no more.
pub const OUT_OF_MEMORY: i32 = 102;
/// A program on std aborted: it panicked if it could not unwind, or needed memory that there is none for. Standard
/// error has why.
pub const ABORTED: i32 = 134;

//! Priorities of threads.

/// The lowest priority.
pub const LOWEST: i8 = -1;
/// Where a thread begins.
pub const ORDINARY: i8 = 0;
/// The highest priority.
pub const HIGHEST: i8 = 2;

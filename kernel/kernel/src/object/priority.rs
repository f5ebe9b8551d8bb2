//! Priorities of threads.

pub use capos_sched::{HIGHEST, LOWEST};

/// Where a thread begins.
pub const ORDINARY: i8 = 0;

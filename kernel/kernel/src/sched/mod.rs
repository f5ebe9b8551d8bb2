//! Which thread runs.

pub mod run_queue;
pub mod scheduler;

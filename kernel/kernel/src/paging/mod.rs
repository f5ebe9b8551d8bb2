//! Pages of paged memory, and faults.

pub mod fault;
pub mod pager;

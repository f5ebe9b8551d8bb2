//! What of the broker can be tested on the host: what holds no capability, or none but a clock.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod approvals;
pub mod budgets;
pub mod config;
pub mod deadlines;
pub mod in_force;
pub mod lease;
pub mod memory_budget;
pub mod model;
pub mod patience;
pub mod permit;
pub mod persisted;
pub mod request;
// The session itself holds capabilities.
#[path = "session/bundle.rs"]
pub mod session_bundle;
pub mod settings;
pub mod tally;
pub mod users;
pub mod volume;
pub mod worker;

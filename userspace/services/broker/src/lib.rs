//! What of the broker holds no capability, tested on the host.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod config;
pub mod kept;
pub mod model;

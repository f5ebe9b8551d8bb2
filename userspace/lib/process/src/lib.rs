//! From a program file to a running process.
//!
//! The caller says which capabilities the process gets, and which account pays for it; it gets
//! nothing else. The parts that a program does not write are mapped from its file if the file is
//! paged memory, and so shared by all processes that run it. The rest is copied.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod exit;
mod image;
mod launch;
mod standard;

pub use exit::describe_exit;
pub use image::Image;
pub use launch::{Granted, Launch, Started};
pub use standard::{Collector, Sink};

//! Files and programs of the host, as the tools use them.
#![forbid(unsafe_code)]

pub mod files;
pub mod program;
pub mod tool;

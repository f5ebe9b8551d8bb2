//! What is measured in the same way by several programs, on capOS and on Linux.
#![forbid(unsafe_code)]

pub mod disk;

//! Open files: descriptors, their objects, names, pipes, polling.

pub mod description;
pub mod descriptor;
pub mod directory;
pub mod file;
pub mod metadata;
pub mod namespace;
pub mod pipe;
pub mod poll;
pub mod socket;
pub mod stream;

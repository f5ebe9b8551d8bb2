//! Scratch file system in memory

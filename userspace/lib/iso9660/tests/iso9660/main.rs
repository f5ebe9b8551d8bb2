//! The tests of this crate through its public interface, in one program.

mod malformed;
mod support;
mod volume;

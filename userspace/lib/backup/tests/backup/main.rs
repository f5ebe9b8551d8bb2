//! The tests of this crate through its public interface, in one program.

mod backup;
mod store;

//! The tests of this crate through its public interface, in one program.

mod crash;
mod damage;
mod edges;
mod large;
mod log;
mod model;

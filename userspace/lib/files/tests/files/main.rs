//! The tests of this crate through its public interface, in one program.

mod amount;
mod behaviour;
mod common;
mod crash;
mod edges;
mod faults;
mod homes;
mod large;

//! The tests of this crate through its public interface, in one program.

mod archive;
mod aside;
mod chain;
mod crash;
mod damage;
mod limits;
mod members;
mod replay;
mod stored;
mod support;

//! The tests of this crate through its public interface, in one program.

mod crash;
mod fat;
mod folders;
mod hostile;
mod support;
mod times;

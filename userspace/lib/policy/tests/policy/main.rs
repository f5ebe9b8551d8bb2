//! The tests of this crate through its public interface, in one program.

mod bundle;
mod confirmed;
mod files;
mod layers;
mod policy;
mod support;

//! The tests of this crate through its public interface, in one program.

extern crate alloc;

mod calls;
mod json;
mod memory;
mod reflection;
mod round_trip;
mod support;
mod sync;

// The modules of the test schema.
include!(concat!(env!("OUT_DIR"), "/test/modules.rs"));

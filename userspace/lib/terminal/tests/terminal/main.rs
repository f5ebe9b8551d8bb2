//! The tests of this crate through its public interface, in one program.

mod console;
mod editing;
mod emulator;
mod limits;
mod sanitiser;

//! The functions that compiled code calls to move, fill and compare memory: C's `memcpy` and its kin.
//!
//! A program without `std` has them from here through its runtime; one on `std` has them from here through the C
//! library. A crate apart, so that no program has them from both.
#![no_std]

#[cfg(test)]
extern crate alloc;

#[cfg(any(capos_guest, test))]
mod functions;

//! A machine that QEMU runs: its parts, its console and what it exports.

pub mod accel;
pub mod cpio;
pub mod expect;
pub mod export;
pub mod linux;
pub mod monitor;
pub mod qemu;

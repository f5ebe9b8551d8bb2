//! A virtual machine that is booted, driven and judged by its serial console. Nothing here knows what the machine runs.
//!
//! - [`qemu::Machine`] describes a machine and starts it.
//! - [`expect::Terminal`] types at its console and waits for text there; [`script`] reads the steps from a file.
//! - [`timing`] records when each piece of output arrived, and checks that a text appeared piece by piece.
//! - [`texts`] checks what a file has to contain and what not.
//! - [`monitor`] changes its medium while it runs.
//! - [`served`] is a disk that fails, and loses its cache with the power.
//! - [`accel`] finds out whether KVM works here.
//! - [`linux`] runs a program on Linux in the same kind of machine, for comparisons.
#![forbid(unsafe_code)]

pub mod accel;
mod cpio;
pub mod disk_step;
pub mod expect;
pub mod for_client;
pub mod linux;
pub mod monitor;
pub mod qemu;
pub mod script;
pub mod served;
pub mod texts;
pub mod timing;

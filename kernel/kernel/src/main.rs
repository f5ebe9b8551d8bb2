//! The capOS microkernel.
//!
//! It knows capabilities, processes, memory, rings and time; no model, no agent, no tool, no user.
//! It handles events (a system call, a fault, an interrupt) with interrupts off and never waits. Each event ends when a thread
//! runs or the processor idles. The kernel handles one event at a time, except on the fast path of system calls, which several
//! processors take in parallel ([`cpu::kernel_lock`]).
//!
//! Each folder is a layer: `arch`, `memory`, `cpu`, `object`, `ipc`, `paging`, `sched`, `syscall`, `events`, `start`.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(clippy::arithmetic_side_effects)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod arch;
#[cfg(target_os = "none")]
mod cpu;
#[cfg(target_os = "none")]
mod events;
#[cfg(target_os = "none")]
mod ipc;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod object;
#[cfg(target_os = "none")]
mod paging;
#[cfg(target_os = "none")]
mod sched;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod syscall;
#[cfg(target_os = "none")]
mod tests_in_kernel;

/// Built for a host, as tools that look at the whole workspace do, there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it for x86_64-unknown-none and boot it");
}

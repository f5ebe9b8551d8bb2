//! The capOS microkernel.
//!
//! It knows capabilities, processes, memory, rings and time; no model, no agent, no tool, no user.
//! It takes events (a system call, a fault, an interrupt) one at a time with interrupts off, never
//! waits, and ends each by letting a thread run or idling.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod acpi;
#[cfg(target_os = "none")]
mod arch;
#[cfg(target_os = "none")]
mod boot;
#[cfg(target_os = "none")]
mod entropy;
#[cfg(target_os = "none")]
mod log;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
mod percpu;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod time;

/// Built for a host, as tools that look at the whole workspace do, there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it for x86_64-unknown-none and boot it");
}

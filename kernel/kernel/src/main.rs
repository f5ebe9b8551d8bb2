//! The capOS microkernel.
//!
//! It knows capabilities, processes, memory, rings and time; no model, no agent, no tool, no user.
//! It takes events (a system call, a fault, an interrupt) with interrupts off, never waits, and ends each by letting a thread
//! run or idling. Whichever processors they come from, it takes them one at a time, but for the short way of system calls, which
//! several processors go at once ([`kernel_lock`]).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(clippy::arithmetic_side_effects)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod acpi;
#[cfg(target_os = "none")]
mod arch;
#[cfg(target_os = "none")]
mod boot;
#[cfg(target_os = "none")]
mod cache;
#[cfg(target_os = "none")]
mod deadline;
#[cfg(target_os = "none")]
mod derivation;
#[cfg(target_os = "none")]
mod entropy;
#[cfg(target_os = "none")]
mod fast_path;
#[cfg(target_os = "none")]
mod fault;
#[cfg(target_os = "none")]
mod first_process;
#[cfg(target_os = "none")]
mod invoke;
#[cfg(target_os = "none")]
mod ipc;
#[cfg(target_os = "none")]
mod kernel_call;
#[cfg(target_os = "none")]
mod kernel_lock;
#[cfg(target_os = "none")]
mod log;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod object;
#[cfg(target_os = "none")]
mod operation;
#[cfg(target_os = "none")]
mod pager;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
mod percpu;
#[cfg(target_os = "none")]
mod processors;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod ring;
#[cfg(target_os = "none")]
mod run_queue;
#[cfg(target_os = "none")]
mod scheduler;
#[cfg(target_os = "none")]
mod standing_call;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod syscall;
#[cfg(target_os = "none")]
mod tests_in_kernel;
#[cfg(target_os = "none")]
mod time;
#[cfg(target_os = "none")]
mod transfer;
#[cfg(target_os = "none")]
mod user_memory;
#[cfg(target_os = "none")]
mod word;

/// Built for a host, as tools that look at the whole workspace do, there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it for x86_64-unknown-none and boot it");
}

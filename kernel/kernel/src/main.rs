//! The capOS microkernel.
//!
//! It knows capabilities, processes, memory, rings and time; no model, no agent, no tool, no user.
//! It handles events (a system call, a fault, an interrupt) with interrupts off and never waits. Each event ends when a thread
//! runs or the processor idles. The kernel handles one event at a time, except on the fast path of system calls, which several
//! processors take in parallel ([`cpu::kernel_lock`]).
//!
//! # Layers
//!
//! Each folder is a layer. A layer names itself and those before it in this list, and never a later one. The test
//! `kernel_layers` of `capos-tools` reads this list and the imports; it names the exceptions.
//!
//! 1. `arch`: instructions, registers, interrupt controllers, the processors and what each has for itself
//! 2. `memory`: frames, page tables, the heap and its reserve
//! 3. `cpu`: the kernel lock, budgets of long work, the log, random bytes, the boot loader's answers, panics
//! 4. `object`: kernel objects, operations in flight, messages, page requests, the page cache
//! 5. `ipc`: calls, receives and answers; notifications; waits for words
//! 6. `paging`: faults, and pages that a thread or the kernel touches
//! 7. `sched`: run queues, switches, processor time
//! 8. `syscall`: ENTER, EXIT and INVOKE; the fast path; methods of kernel objects
//! 9. `events`: traps, the event loop, the end of processes
//! 10. `start`: from the boot loader to the first process
//!
//! `tests_in_kernel` is on top of all of them. Only a kernel that is built with the feature `tests` has it.
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
#[cfg(all(target_os = "none", feature = "tests"))]
mod tests_in_kernel;

/// Built for a host, as tools that look at the whole workspace do, there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it for x86_64-unknown-none and boot it");
}

//! The loader: started by a Multiboot2 boot loader (GRUB), it makes the Limine handover and enters the kernel.
//!
//! It prints nothing unless it cannot start the kernel; then it prints one sentence on COM1 and stops.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(clippy::arithmetic_side_effects)]

#[cfg(target_os = "none")]
mod handover;
#[cfg(target_os = "none")]
mod machine;

/// The loader runs on bare machines only; on a host it only reports that.
#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    eprintln!("capos-loader is started by a boot loader; build it for x86_64-unknown-none (`make iso` does).");
    std::process::ExitCode::FAILURE
}

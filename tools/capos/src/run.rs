//! `capos run`: the system in this terminal.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::accel;
use crate::iso::{Limine, limine_dir};
use crate::qemu::{Board, Firmware, Machine, Medium};
use crate::system::{System, Variant};

/// Build and boot the system, its console in this terminal.
#[derive(clap::Args)]
pub struct Args {
    /// Boot this image in place of building one.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// QEMU's accelerator; without it, KVM where it works and TCG otherwise.
    #[arg(long, value_name = "NAME", env = "ACCEL")]
    accel: Option<String>,
    /// Firmware of the machine.
    #[arg(long, value_enum, default_value = "bios")]
    firmware: Firmware,
    /// Machine type.
    #[arg(long, value_enum, default_value = "q35")]
    board: Board,
    /// How the image is attached.
    #[arg(long, value_enum, default_value = "virtio")]
    medium: Medium,
    /// Memory, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512, env = "MEMORY")]
    memory: u32,
    /// Boot with the Limine binary release in this folder.
    #[arg(long, value_name = "DIR", env = "LIMINE_DIR", value_parser = limine_dir)]
    limine: Option<Limine>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", default_value = "")]
    command_line: String,
}

/// The byte of Ctrl-], which QEMU takes for itself; Ctrl-A and Ctrl-C go to the guest.
const ESCAPE: &str = "0x1d";

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let image = match &args.image {
        Some(image) => image.clone(),
        None => {
            let system = System::find()?;
            let limine = Limine::folder(args.limine.as_ref())?;
            let out = system.target().join("capos.iso");
            system
                .build(false)?
                .image(&Variant { limine, command_line: args.command_line.clone(), ..Variant::default() }, &out)?;
            out
        }
    };
    let accelerator = accel::choose(args.accel.as_deref())?;
    let machine = Machine {
        board: args.board,
        firmware: args.firmware,
        memory: args.memory,
        medium: args.medium,
        ..Machine::new(&image, &accelerator)
    };
    let log = std::env::temp_dir().join(format!("capos-serial-{}.log", std::process::id()));
    println!("Starting capOS ({accelerator}, {} MiB). To quit: Ctrl-] and then x. Log: {}", args.memory, log.display());
    let mut command = machine.command()?;
    command.args(["-echr", ESCAPE, "-serial", "mon:stdio", "-serial"]);
    command.arg(format!("file:{}", log.display()));
    let status = command.status().context("starting QEMU")?;
    println!();
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `capos`, the host command line of capOS: images, keys, scenarios, tests.
//!
//! Every subcommand is a module of the library with an `Args` structure and a `run` function; this file only
//! names them.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use capos_tools::{boot_package, image};
use clap::{Parser, Subcommand};

/// Builds, signs, boots and tests capOS.
#[derive(Parser)]
#[command(name = "capos", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Pack the boot package (`boot.tar`) from named files.
    BootPackage(boot_package::Args),
    /// Build a bootable image.
    Image(image::Args),
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::BootPackage(args) => boot_package::run(&args),
        Command::Image(args) => image::run(&args),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("capos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `capos bench-token`: what a token costs in the worker, compared with the same engine on Linux.
//!
//! Both answer from the same file of random numbers, on one thread, in a virtual machine whose time-stamp counter counts
//! instructions.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::build::system::System;
use crate::build::toolchain;
use crate::measure::bench;
use crate::measure::figure::{Figure, Figures};
use crate::models::extra;
use crate::scenario::Scenario;
use capos_vm::linux;

/// The package and the program that are built for Linux.
const PACKAGE: &str = "capos-infer";
const PROGRAM: &str = "token-cost";
/// Where the program looks for the model.
const MODEL: &str = "home/model.gguf";
/// The scenario, and the prefix of both figures' names.
const TOKEN: &str = "token";

/// Count the instructions per token on capOS and on Linux; write target/bench-token.json.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    linux: linux::KernelArgs,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let kernel = args.linux.kernel(&system.target())?;
    let parts = system.build(true)?;
    let program = toolchain::build_linux_program(system.root(), PACKAGE)?.join(PROGRAM);
    let scenario = Scenario::open(&bench::scenario(&system, TOKEN))?;
    let model = scenario.settings.model.first().context("the scenario has no model")?;
    let model = extra::synthetic(model)?;
    let own = figure(&bench::measure(&system, &parts, TOKEN)?)?;
    let guest = linux::Guest { files: &[(MODEL, &model)], ..linux::Guest::default() };
    let said = linux::run(&kernel, &program, guest, &bench::folder(&system, "token-linux"))?;
    let linux = figure(&said)?;
    println!("capOS: {} instructions ({})", own.value, own.how);
    println!("Linux: {} instructions ({})", linux.value, linux.how);
    println!("ratio: {:.4}", own.value as f64 / linux.value as f64);
    let figures = Figures::from([("capos_token".to_owned(), own), ("linux_token".to_owned(), linux)]);
    bench::write(&system.target().join("bench-token.json"), &figures)?;
    Ok(ExitCode::SUCCESS)
}

/// The one figure in a log.
fn figure(log: &str) -> Result<Figure> {
    bench::measured(log)?.remove(TOKEN).context("no token was measured")
}

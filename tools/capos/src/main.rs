//! `capos`, the host command line of capOS: images, keys, scenarios, tests.
//!
//! Every subcommand is a module of the library with an `Args` structure and a `run` function; this file only
//! names them.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use capos_tools::build::{boot_package, iso, lint};
use capos_tools::measure::{bench, bench_first_token, bench_std, bench_store, bench_token, profile, throughput};
use capos_tools::models::{gguf, handbook};
use capos_tools::scenario::{run_agent, symbols};
use capos_tools::sign::{keygen, sign_file, verify};
use capos_tools::suites::{self, crash, dojo, fuzz, upstream};
use capos_tools::{acp, audit, backup, manifest, run, scaffold, session_tools};
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
    /// Build a bootable image from given parts.
    Image(capos_image::Args),
    /// Build the system and its image.
    Iso(iso::Args),
    /// Build and boot the system in this terminal.
    Run(run::Args),
    /// Connect an editor to a machine: the Agent Client Protocol on standard input and output.
    Acp(acp::Args),
    /// Run a scenario in a virtual machine and collect its results.
    RunAgent(run_agent::Args),
    /// Run every test.
    Test(suites::Args),
    /// Run upstream test suites on capOS.
    TestStd(upstream::Args),
    /// Measure the system; write the figures to target/bench.json.
    Bench(bench::Args),
    /// Compare std on capOS with the bare runtime and with Linux; write target/bench-std.json.
    BenchStd(bench_std::Args),
    /// Compare durable commits and a large file with SQLite and ext4 on Linux; write target/bench-store.json.
    BenchStore(bench_store::Args),
    /// Count the instructions per token on capOS and on Linux; write target/bench-token.json.
    BenchToken(bench_token::Args),
    /// Measure the time from power-on to the first answer on capOS and on Linux; write target/bench-first-token.json.
    BenchFirstToken(bench_first_token::Args),
    /// List the functions that execute the instructions of a figure.
    Profile(profile::Args),
    /// Let the power fail under everything that lasts, on a simulated disk.
    Crash(crash::Args),
    /// Play tasks with injected goals, and score the effects.
    Dojo(dojo::Args),
    /// Fuzz the parsers, and the kernel with random operations.
    Fuzz(fuzz::Args),
    /// Resolve the addresses of backtraces in a log to functions and source lines.
    Symbols(symbols::Args),
    /// Create a service: schema, program, manifest entry and a tool for the agent.
    NewService(scaffold::ServiceArgs),
    /// Create a program on std with its manifest entry.
    NewApp(scaffold::AppArgs),
    /// Check formatting and lints of all crates.
    Lint(lint::Args),
    /// Check backups that a machine has written.
    Backup(backup::Args),
    /// Check exports of the audit log.
    Audit(audit::Args),
    /// Check, explain or encode the system manifest.
    Manifest(manifest::Args),
    /// Print the tools that a model is shown in sessions of each profile.
    Tools(session_tools::Args),
    /// Create a signing key for one purpose.
    Keygen(keygen::Args),
    /// Sign a file: write its Merkle tree and its signature next to it.
    Sign(sign_file::Args),
    /// Verify a signed file.
    Verify(verify::Args),
    /// Create a synthetic model file of any size.
    Gguf(gguf::Args),
    /// Create a model file that answers from a text.
    Handbook(handbook::Args),
    /// Compute: a process of the host with which those of capOS are compared.
    #[command(hide = true)]
    Compute(throughput::ComputeArgs),
}

fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::BootPackage(args) => boot_package::run(&args),
        Command::Image(args) => capos_image::run(&args),
        Command::Iso(args) => iso::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Acp(args) => acp::run(args),
        Command::RunAgent(args) => run_agent::run(&args),
        Command::Test(args) => suites::run(&args),
        Command::TestStd(args) => upstream::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchStd(args) => bench_std::run(&args),
        Command::BenchStore(args) => bench_store::run(&args),
        Command::BenchToken(args) => bench_token::run(&args),
        Command::BenchFirstToken(args) => bench_first_token::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Crash(args) => crash::run(&args),
        Command::Dojo(args) => dojo::run(&args),
        Command::Symbols(args) => symbols::run(&args),
        Command::NewService(args) => scaffold::run_service(&args),
        Command::NewApp(args) => scaffold::run_app(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Manifest(args) => manifest::run(&args),
        Command::Tools(args) => session_tools::run(&args),
        Command::Keygen(args) => keygen::run(&args),
        Command::Sign(args) => sign_file::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Gguf(args) => gguf::run(&args),
        Command::Handbook(args) => handbook::run(&args),
        Command::Compute(args) => throughput::compute(&args),
    }
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("capos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

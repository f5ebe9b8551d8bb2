//! `capos fuzz`: libFuzzer over the parsers that read bytes of others (`tools/fuzz`), and random operations of processes
//! that attack the kernel.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::build::system::System;
use crate::build::toolchain;
use crate::suites::fuzz_kernel;
use capos_vm::accel;

/// How the program is compiled so that libFuzzer sees which way an input takes.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// The variable with the program's target, and that with the folder of its corpus.
const TARGET: &str = "CAPOS_FUZZ_TARGET";
const CORPUS: &str = "CAPOS_FUZZ_CORPUS";

/// Give parsers inputs that libFuzzer makes up, and report the first at which one panics, hangs or takes too much
/// memory; give the kernel random operations.
#[derive(clap::Args)]
pub struct Args {
    /// Targets to fuzz, for example `kernel` [default: all].
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// First seed of the kernel's operations, in hexadecimal [default: from the clock].
    #[arg(long, value_name = "SEED", value_parser = hexadecimal)]
    seed: Option<u64>,
    /// QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
}

fn hexadecimal(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text, 16)
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let folder = system.target().join("fuzz");
    if args.targets != [fuzz_kernel::TARGET] {
        parsers(&system, args, &folder)?;
    }
    if args.targets.is_empty() || args.targets.iter().any(|target| target == fuzz_kernel::TARGET) {
        let clock = std::time::UNIX_EPOCH.elapsed().context("the clock is before 1970")?.as_secs();
        let limit = Duration::from_secs(args.seconds.into());
        fuzz_kernel::run(&system, &folder, limit, args.seed.unwrap_or(clock), args.accel.as_deref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives the parsers inputs.
fn parsers(system: &System, args: &Args, folder: &Path) -> Result<()> {
    ensure!(
        Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success()),
        "libFuzzer is compiled with a C++ compiler, and there is no c++; on Debian: apt-get install g++"
    );
    let program = toolchain::build_fuzzer(system.root(), folder, FLAGS)?;
    let targets = if args.targets.is_empty() { names(&program)? } else { args.targets.clone() };
    for target in targets.into_iter().filter(|target| target != fuzz_kernel::TARGET) {
        let (corpus, found) = (folder.join("corpus").join(&target), folder.join("found").join(&target));
        for folder in [&corpus, &found] {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        println!("{target}: {} s", args.seconds);
        let status = Command::new(&program)
            .arg(&corpus)
            .arg(format!("-artifact_prefix={}/", found.display()))
            .arg(format!("-max_total_time={}", args.seconds))
            .args(["-rss_limit_mb=4096", "-timeout=30", "-print_final_stats=1", "-verbosity=0", "-max_len=131072"])
            .env(TARGET, &target)
            .env(CORPUS, &corpus)
            .status()
            .with_context(|| format!("starting {}", program.display()))?;
        if !status.success() {
            bail!(
                "{target} failed on an input ({status}), which is stored in {}. To run it again: \
                 {TARGET}={target} {CORPUS}={} {} FILE",
                found.display(),
                corpus.display(),
                program.display()
            );
        }
    }
    Ok(())
}

/// The targets: what the program prints if none is given.
fn names(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).env_remove(TARGET).output();
    let output = output.with_context(|| format!("starting {}", program.display()))?;
    let names: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect();
    ensure!(
        output.status.success() && !names.is_empty(),
        "{} names no targets ({}): {}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(names)
}

//! `capos crash`: many more crashes of what lasts than `capos test` has time for, on a simulated disk.

use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::build::system::System;
use crate::scenario::{Scenario, run_agent};
use capos_vm::accel;
use capos_vm::disk_step::DiskStep;
use capos_vm::script::Step;
use capos_vm::served::Seed;

/// Tests that live through crashes: package and test. Each runs the one seed `CRASH_SEED` with `CRASHES` crash images.
const SIMULATED: &[(&str, &str)] = &[
    ("capos-volume", "every_crash_leaves_a_completed_sync"),
    ("capos-store", "every_crash_leaves_whole_commits"),
    ("capos-files", "every_crash_keeps_what_was_synced"),
    ("capos-conversations", "every_acknowledged_message_survives_a_crash"),
];

/// Crash images of one seed.
const IMAGES: u64 = 250;
/// How often progress is shown.
const TICK: Duration = Duration::from_secs(2);

/// The scenario in which the power of a whole machine fails, below the source folder.
const MACHINE: &str = "tests/scenarios/random-kills";
/// The scenario in which it fails within a run of the agent.
const RUN: &str = "tests/scenarios/killed-runs";
/// Requests to the disk before which the power fails within that run, counted from a step of it. The run has more than that
/// number left at each of its cuts.
const REQUESTS: u64 = 180;
/// How `/resume` tells of a call that began and has no recorded end.
const UNKNOWN: &str = "unknown: this call began";

/// Let the power fail at random places under everything that lasts, on a simulated disk and in QEMU, and check after each
/// time that all that was acknowledged is there.
#[derive(clap::Args)]
pub struct Args {
    /// Only packages with this text in their name, `qemu` or `runs`.
    #[arg(value_name = "PART")]
    only: Option<String>,
    /// Crash images, shared by the packages.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, env = "CRASHES")]
    images: u64,
    /// First seed; each has 250 crash images.
    #[arg(long, value_name = "SEED", default_value_t = 0, env = "CRASH_SEED")]
    seed: u64,
    /// Power cuts of a machine in QEMU.
    #[arg(long, value_name = "NUMBER", default_value_t = 500, env = "KILLS")]
    kills: u64,
    /// Power cuts within runs of the agent in QEMU.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, env = "RUN_KILLS")]
    run_kills: u64,
    /// QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let wanted = |package: &str| args.only.as_deref().is_none_or(|part| package.contains(part));
    let tests: Vec<_> = SIMULATED.iter().filter(|(package, _)| wanted(package)).collect();
    let (machine, in_runs) = (wanted("qemu"), wanted("runs"));
    let other = (machine || in_runs).then_some(0);
    let Some(seeds) = args.images.div_ceil(IMAGES).checked_div(tests.len() as u64).or(other) else {
        let known: Vec<&str> = SIMULATED.iter().map(|(package, _)| *package).collect();
        bail!(
            "no package has `{}` in its name; there are {}, qemu and runs",
            args.only.as_deref().unwrap_or(""),
            known.join(", ")
        );
    };
    for (package, test) in tests {
        let programs = programs(&system, package)?;
        let seeds: VecDeque<u64> = (args.seed..args.seed.saturating_add(seeds.max(1))).collect();
        live(package, test, &programs, seeds)?;
    }
    if machine && !kill(&system, args)? || in_runs && !kill_runs(&system, args)? {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Cuts the power of a machine, again and again; whether everything was there each time.
fn kill(system: &System, args: &Args) -> Result<bool> {
    let mut scenario = Scenario::open(&system.root().join(MACHINE))?;
    for line in &mut scenario.script {
        if let Step::Kills(_, count, seed) = &mut line.step {
            (*count, *seed) = (args.kills, args.seed);
        }
    }
    // A start takes as long as the host lets it: it ends when the guest makes no request for a while. The scenario's own limit,
    // which is for many starts, only bounds a run that never ends.
    let limit = scenario.settings.limit_seconds;
    scenario.settings.limit_seconds = args.kills.saturating_add(1).saturating_mul(limit);
    let out = system.target().join("crash");
    let accelerator = accel::choose(args.accel.as_deref())?;
    let report = run_agent::execute(&system.build(true)?, &scenario, None, &accelerator, &out)?;
    println!("{}", run_agent::summary(&scenario, &report, &out));
    Ok(report.passed)
}

/// Cuts the power within runs of the agent, each time before a random request to the disk. Each run is continued to its end.
/// Returns whether no effect was lost or doubled, and each unknown one was reported.
fn kill_runs(system: &System, args: &Args) -> Result<bool> {
    let mut scenario = Scenario::open(&system.root().join(RUN))?;
    let is_cut = |step: &Step| matches!(step, Step::Disk(_, DiskStep::Stop(_)));
    let cuts = scenario.script.iter().filter(|line| is_cut(&line.step)).count() as u64;
    let runs = args.run_kills.checked_div(cuts).context("the scenario cuts no power")?.max(1);
    let (out, accelerator) = (system.target().join("crash-runs"), accel::choose(args.accel.as_deref())?);
    let parts = system.build(true)?;
    let (mut kills, mut unknown) = (0_u64, 0);
    for run in 0..runs {
        let mut seed = Seed(args.seed.wrapping_mul(1_000_003).wrapping_add(run));
        for line in &mut scenario.script {
            if let Step::Disk(_, DiskStep::Stop(requests)) = &mut line.step {
                *requests = seed.below(REQUESTS);
            }
        }
        let report = run_agent::execute(&parts, &scenario, None, &accelerator, &out)?;
        if !report.passed {
            println!("run {run} of seed {}: {}", args.seed, run_agent::summary(&scenario, &report, &out));
            return Ok(false);
        }
        let records = std::fs::read(out.join("audit.jsonl"))?;
        let open =
            capos_audit::verify_lines(records.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()), None)?.open;
        let told = std::fs::read_to_string(out.join("transcript.txt"))?.matches(UNKNOWN).count();
        if told != open.len() {
            println!(
                "run {run} of seed {}: {} calls have no recorded end, and {told} were told so",
                args.seed,
                open.len()
            );
            return Ok(false);
        }
        (kills, unknown) = (kills.saturating_add(cuts), told.saturating_add(unknown));
        println!("{kills} of {} power cuts within runs, {unknown} calls told as unknown", runs.saturating_mul(cuts));
    }
    println!("runs: {kills} power cuts, no effect lost, none doubled, {unknown} told as unknown");
    Ok(true)
}

/// Builds the tests of a package; its programs.
fn programs(system: &System, package: &str) -> Result<Vec<PathBuf>> {
    let output = Command::new("cargo")
        .args(["test", "--quiet", "--no-run", "--tests", "--message-format=json", "--package", package])
        .current_dir(system.root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "the tests of {package} cannot be built");
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let programs = messages.filter(|message| message.pointer("/profile/test") == Some(&true.into()));
    let programs = programs.filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from)).collect();
    Ok(programs)
}

/// Runs all seeds of a test, as many at a time as there are processors.
fn live(package: &str, test: &str, programs: &[PathBuf], seeds: VecDeque<u64>) -> Result<()> {
    let all = seeds.len() as u64;
    let (queue, done) = (Mutex::new(seeds), AtomicU64::new(0));
    let began = Instant::now();
    let work = || -> Result<()> {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(seed) = next else { return Ok(()) };
            if let Err(error) = one(package, test, programs, seed) {
                queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return Err(error);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        let mut shown = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            if shown.elapsed() >= TICK {
                shown = Instant::now();
                progress(package, done.load(Ordering::Relaxed), all, began.elapsed());
            }
        }
        eprint!("\r\x1b[K");
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
    })?;
    println!(
        "{package}: {} crash images, none torn, nothing acknowledged lost, all opened",
        all.saturating_mul(IMAGES)
    );
    Ok(())
}

/// Runs one seed.
fn one(package: &str, test: &str, programs: &[PathBuf], seed: u64) -> Result<()> {
    let mut found = false;
    for program in programs {
        let output = Command::new(program)
            .arg(test)
            .env("CRASH_SEED", seed.to_string())
            .env("CRASHES", IMAGES.to_string())
            .output()
            .with_context(|| format!("starting {}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        found |= text.contains(" 1 passed");
        ensure!(
            output.status.success(),
            "{package} failed at seed {seed}; again with: CRASH_SEED={seed} CRASHES={IMAGES} cargo test -p {package} \
             {test}\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    ensure!(found, "{package} has no test {test}");
    Ok(())
}

fn progress(package: &str, done: u64, all: u64, time: Duration) {
    let rate = done as f64 / time.as_secs_f64();
    let left = if rate > 0.0 { format!("{:.0} s left", all.saturating_sub(done) as f64 / rate) } else { String::new() };
    eprint!(
        "\r\x1b[K{package}: {} of {} crash images, {:.0} in a second, {left}",
        done.saturating_mul(IMAGES),
        all.saturating_mul(IMAGES),
        rate * IMAGES as f64
    );
    let _ = std::io::stderr().flush();
}

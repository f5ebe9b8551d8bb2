//! `capos fuzz kernel`: random operations of processes that attack the kernel, with any number of seeds.
//!
//! The attacks are those of the scenario `hostile` whose argument is a seed. The tests run them with some seeds; this
//! runs them with others, until its time is up.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::build::system::System;
use crate::scenario::Scenario;
use crate::scenario::run_agent;
use capos_vm::accel;

/// The target's name.
pub const TARGET: &str = "kernel";
/// The scenario whose attacks they are, below the source folder.
const SCENARIO: &str = "tests/scenarios/hostile";
/// Seeds of one run of the machine.
const SEEDS: u64 = 10;

/// Gives the kernel random operations for this long, from this seed on.
///
/// # Errors
/// An attack did not end as it must. The message names its seed, and how it is tried again.
pub fn run(system: &System, folder: &Path, limit: Duration, first: u64, accelerator: Option<&str>) -> Result<()> {
    let parts = system.build(true)?;
    let accelerator = accel::choose(accelerator)?;
    let scenario = Scenario::open(&system.root().join(SCENARIO))?;
    let out = folder.join(TARGET);
    let (began, mut seed) = (Instant::now(), first);
    while seed == first || began.elapsed() < limit {
        let mut scenario = scenario.clone();
        scenario.settings.command_line = command_line(seed);
        let report = run_agent::execute(&parts, &scenario, None, &accelerator, &out)?;
        let log = std::fs::read(out.join("serial.log")).context("reading the guest's log")?;
        let log = String::from_utf8_lossy(&log);
        if let Some(reason) = report.reason {
            bail!("{}", words(&log, seed, &reason, &out));
        }
        println!("{TARGET}: seeds {seed:x} to {:x} passed", seed.saturating_add(SEEDS - 1));
        seed = seed.saturating_add(SEEDS);
    }
    Ok(())
}

/// The file that names the seeds for the guest.
fn command_line(first: u64) -> String {
    format!("fuzz={SEEDS} seed={first:x}")
}

/// What went wrong, and how to run it again.
fn words(log: &str, first: u64, reason: &str, out: &Path) -> String {
    let mut words = format!("the kernel did not withstand seeds from {first:x} on: {reason}\n");
    for line in log.lines().filter_map(|line| line.strip_prefix("init: FAILED ")) {
        words.push_str(line);
        words.push('\n');
    }
    let again = log.lines().filter_map(failed_seed).next().unwrap_or(first);
    words.push_str(&format!("see {}; again: make fuzz TARGET={TARGET} FUZZ_SEED={again:x}", out.display()));
    words
}

/// The seed of an attack that failed: the log names it `attack:seed`.
fn failed_seed(line: &str) -> Option<u64> {
    let (_, argument) = line.strip_prefix("init: FAILED ")?.split_once(':')?;
    let end = argument.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(argument.len());
    u64::from_str_radix(argument.get(..end)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_seed_and_how_to_try_again() {
        let log = "init: ok random-operations:1a with pager:honest\n\
                   init: FAILED random-operations:1b with pager:honest: what was taken did not come back\n";
        let words = words(log, 0x1a, "the machine ended with 0x11", Path::new("target/fuzz/kernel"));
        assert!(words.contains("random-operations:1b with pager:honest: what was taken"), "{words}");
        assert!(words.ends_with("make fuzz TARGET=kernel FUZZ_SEED=1b"), "{words}");
        // If the machine ended before it could say which, all of its seeds are tried again.
        let silent = super::words("init: ok nothing\n", 0x1a, "it stopped", Path::new("here"));
        assert!(silent.ends_with("FUZZ_SEED=1a"), "{silent}");
        assert_eq!(command_line(0x1a), "fuzz=10 seed=1a");
    }
}

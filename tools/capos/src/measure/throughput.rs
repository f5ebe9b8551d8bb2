//! Throughput of several processors: processes of capOS on a machine with four. As a reference, processes of the host
//! that compute the same in the same way. If two processors of the host share one core, two processes there do less
//! than twice the work of one, and capOS can do no better.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use capos_host::program::this_program;

use crate::measure::figure::{Figure, Figures};

/// Steps of each process of the host: some seconds' worth.
const STEPS: u64 = 2_000_000_000;
/// The subcommand that is one of them.
const SUBCOMMAND: &str = "compute";
/// How many work at once.
const AT_ONCE: [u64; 3] = [1, 2, 4];
/// The figure of capOS, and that of the host, by the number of processes.
const GUEST: &str = "compute_throughput";
const HOST: &str = "host_compute_throughput";

/// Compute, and print what comes out.
#[derive(clap::Args)]
pub struct ComputeArgs {
    /// How many steps.
    steps: u64,
}

/// Runs the subcommand.
pub fn compute(args: &ComputeArgs) -> Result<ExitCode> {
    println!("{}", capos_measure::compute(args.steps));
    Ok(ExitCode::SUCCESS)
}

/// How long `at_once` processes take that compute at the same time, in nanoseconds. Each must have the same result.
fn together(at_once: u64) -> Result<u64> {
    let program = this_program()?;
    let expected = capos_measure::compute(STEPS);
    let began = Instant::now();
    let start = |_| {
        let mut command = Command::new(&program);
        command.args([SUBCOMMAND, &STEPS.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().context("starting a process that computes")
    };
    let children = (0..at_once).map(start).collect::<Result<Vec<_>>>()?;
    for child in children {
        let said = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        ensure!(said == expected.to_string(), "a process of the host came to `{said}` in place of {expected}");
    }
    Ok(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Adds the host's throughput to that of capOS, and their ratio.
pub fn beside_host(guest: &mut Figures) -> Result<()> {
    let alone = together(1)?;
    for at_once in AT_ONCE {
        let took = if at_once == 1 { alone } else { together(at_once)? };
        let host = percent(u128::from(alone) * u128::from(at_once), took);
        let how = "work done by so many processes of the host at once that compute, of what one does alone";
        let figure = |value, how: &str| Figure { value, unit: "percent".into(), how: how.into() };
        guest.insert(format!("{HOST}@at_once={at_once}"), figure(host, how));
        let ours = guest.get(&format!("{GUEST}@at_once={at_once}")).context("capOS measured no throughput")?.value;
        let how = "compute_throughput in hundredths of host_compute_throughput";
        guest.insert(format!("{GUEST}_of_host@at_once={at_once}"), figure(percent(u128::from(ours), host), how));
    }
    Ok(())
}

fn percent(part: u128, of: u64) -> u64 {
    u64::try_from(part * 100 / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hundredths_are_of_the_second() {
        assert_eq!(percent(190, 200), 95);
        assert_eq!(percent(5, 0), 500);
    }
}

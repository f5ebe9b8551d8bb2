//! `capos bench`: figures of the system, with how each was measured, into `target/bench.json`.
//!
//! Sizes are looked up. The guest measures everything else in scenarios, most of them in `tests/bench`. Their machines'
//! clocks count instructions, so a figure does not depend on the host. The guest writes lines `bench NAME VALUE UNIT:
//! HOW` to its log.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use serde::Serialize;

use crate::build::system::{Parts, System, Variant};
use crate::measure::figure::{Figure, Figures};
use crate::measure::figures::{self, Outcome};
use crate::measure::throughput;
use crate::scenario::Scenario;
use crate::scenario::run_agent;
use capos_host::tool;

/// The scenarios that measure: the path to the disk, several processors, a model's worker on them, and the whole
/// system.
const DISK: &str = "disk";
const PROCESSORS: &str = "processors";
const DECODE: &str = "decode";
const SYSTEM: &str = "system";
/// Where they are.
const SCENARIOS: &str = "tests/bench";
/// Where those lie that are tests as well: the kernel alone, and the start of programs.
const TESTS: &str = "tests/scenarios";
const START: &str = "std-start";
/// Figures of earlier states: for each recorded commit one line of JSON for each figure.
const HISTORY: &str = "docs/bench/history.jsonl";

/// Measure the system; write the figures to target/bench.json.
#[derive(clap::Args)]
pub struct Args {
    /// Append the figures to docs/bench/history.jsonl under the current commit.
    #[arg(long)]
    record: bool,
    /// Measure only the kernel, and store the result as the baseline of this figure in docs/bench/baseline.json; `all`
    /// means every figure. Repeatable.
    #[arg(long, value_name = "FIGURE", requires = "because", conflicts_with = "record")]
    move_baseline: Vec<String>,
    /// Reason, in one sentence; it is stored with the baseline.
    #[arg(long, value_name = "REASON", requires = "move_baseline")]
    because: Option<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let parts = system.build(true)?;
    let kernel = measured(&measure_at(&system, &parts, &test(&system, figures::SCENARIO))?)?;
    if let Some(because) = &args.because {
        figures::move_baseline(system.root(), &kernel, &args.move_baseline, because)?;
        return Ok(ExitCode::SUCCESS);
    }
    let verdicts = figures::judge(system.root(), &kernel)?;
    let mut figures = sizes(&system, &parts)?;
    figures.extend(kernel);
    figures.extend(measured(&measure(&system, &parts, DISK)?)?);
    figures.extend(measured(&measure_at(&system, &parts, &test(&system, START))?)?);
    let mut at_once = measured(&measure(&system, &parts, PROCESSORS)?)?;
    throughput::beside_host(&mut at_once)?;
    figures.extend(at_once);
    figures.extend(measured(&measure(&system, &parts, DECODE)?)?);
    let whole = measure(&system, &parts, SYSTEM)?;
    figures.extend(at_the_prompt(&whole)?);
    write(&system.target().join("bench.json"), &figures)?;
    for (name, figure) in &figures {
        println!("{name:40} {:>14} {}", figure.value, figure.unit);
    }
    for verdict in verdicts {
        if let Outcome::Wrong(reason) = verdict.outcome {
            println!("{}: {reason}", verdict.name);
        }
    }
    if args.record {
        record(system.root(), &figures)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The part without a machine.
fn sizes(system: &System, parts: &Parts) -> Result<Figures> {
    let image = system.target().join("capos.iso");
    parts.image(&Variant::default(), &image)?;
    let size = |path: &Path| -> Result<u64> { Ok(std::fs::metadata(path)?.len()) };
    let iso = Figure::new(size(&image)?, "bytes", "size of target/capos.iso, built-in model included");
    let how = "size of the kernel's file on the image, without debugging information";
    let kernel = Figure::new(size(parts.kernel())?, "bytes", how);
    let how = "size of the file of the smallest program on std on the image";
    let hello = Figure::new(size(&parts.stage().join("bin/hello-std"))?, "bytes", how);
    let figures = [("iso_bytes", iso), ("kernel_bytes", kernel), ("std_hello_bytes", hello)];
    Ok(figures.map(|(name, figure)| (name.to_owned(), figure)).into())
}

/// Where the results of measurements go.
pub fn folder(system: &System, name: &str) -> PathBuf {
    system.target().join("bench").join(name)
}

/// The folder of a scenario that measures.
pub fn scenario(system: &System, name: &str) -> PathBuf {
    system.root().join(SCENARIOS).join(name)
}

/// The folder of one that is a test as well.
pub fn test(system: &System, name: &str) -> PathBuf {
    system.root().join(TESTS).join(name)
}

/// Runs a scenario that measures; the guest's log.
pub fn measure(system: &System, parts: &Parts, name: &str) -> Result<String> {
    measure_at(system, parts, &scenario(system, name))
}

/// As [`measure`], of a scenario in this folder.
fn measure_at(system: &System, parts: &Parts, scenario: &Path) -> Result<String> {
    let name = scenario.file_name().context("the scenario's folder has no name")?.to_string_lossy();
    let (scenario, out) = (Scenario::open(scenario)?, folder(system, &name));
    let report = run_agent::execute(parts, &scenario, None, "tcg", &out)?;
    if let Some(reason) = report.reason {
        bail!("measuring failed: {reason}\nsee {}", out.display());
    }
    let log = std::fs::read(out.join("serial.log"))?;
    Ok(String::from_utf8_lossy(&log).into_owned())
}

/// Writes figures to a file, as JSON.
pub fn write(path: &Path, figures: &Figures) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(figures)?;
    json.push(b'\n');
    std::fs::write(path, json).with_context(|| format!("writing {}", path.display()))
}

/// Adds a line for each figure to the history.
pub fn record(root: &Path, figures: &Figures) -> Result<()> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(tool::find(&["git"], "git")?).args(arguments).current_dir(root).output()?;
        ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (commit, date) = (git(&["rev-parse", "--short=12", "HEAD"])?, git(&["show", "-s", "--format=%cs", "HEAD"])?);
    let lines = history(&commit, &date, figures)?;
    let path = root.join(HISTORY);
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
    file.write_all(lines.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// The lines of a commit.
fn history(commit: &str, date: &str, figures: &Figures) -> Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        commit: &'a str,
        date: &'a str,
        figure: &'a str,
        value: u64,
    }
    let mut lines = String::new();
    for (figure, Figure { value, .. }) in figures {
        lines.push_str(&serde_json::to_string(&Line { commit, date, figure, value: *value })?);
        lines.push('\n');
    }
    Ok(lines)
}

/// Instructions from the kernel's first to the shell's mark in the log, without those when all wait.
pub fn instructions_at(log: &str, what: &str) -> Result<u64> {
    let hertz = number_between(log, "time-stamp counter ", " kHz")? * 1000;
    let told = log.split_once(&format!("at {what} ")).with_context(|| format!("the shell's output lacks {what}"))?.1;
    let (nanoseconds, told) = told.split_once(" ns after").context("the shell's output has no time")?;
    let idle = number_between(told, "the kernel began, ", " ns of which")?;
    let busy = nanoseconds.parse::<u64>()?.saturating_sub(idle);
    Ok(u64::try_from(u128::from(busy) * u128::from(hertz) / 1_000_000_000)?)
}

/// The number between `before` and `after`.
pub fn number_between(text: &str, before: &str, after: &str) -> Result<u64> {
    let found = text.split(before).skip(1).find_map(|rest| rest.split_once(after)?.0.trim().parse().ok());
    found.with_context(|| format!("`{before}…{after}` was not found"))
}

/// The time to the first process and to the prompt, and the memory in use there.
fn at_the_prompt(log: &str) -> Result<Figures> {
    let instructions = "instructions";
    let first = number_between(log, "the first process began ", " counts")?;
    let prompt = instructions_at(log, "the prompt")?;
    let used = number_between(log, "it was idle; ", " of ")? * 4096;
    let first = Figure::new(first, instructions, "from the kernel's first instruction to that of the first process");
    let how = "from the kernel's first instruction to the shell's first prompt, without the times when all wait";
    let prompt = Figure::new(prompt, instructions, how);
    let how = "memory in use at the first prompt: all that the kernel hands out, page cache included";
    let used = Figure::new(used, "bytes", how);
    Ok([("kernel_to_init", first), ("kernel_to_prompt", prompt), ("memory_at_prompt", used)]
        .map(|(name, figure)| (name.to_owned(), figure))
        .into())
}

/// The figures in a guest's log.
pub fn measured(log: &str) -> Result<Figures> {
    let mut figures = BTreeMap::new();
    for line in log.lines() {
        // The log puts its own words in front.
        let Some((_, text)) = line.split_once("bench ") else { continue };
        let Some((figure, how)) = text.split_once(": ") else { continue };
        let words: Vec<&str> = figure.split_whitespace().collect();
        let [name, value, unit] = words.as_slice() else { continue };
        let value = value.parse().with_context(|| format!("`{line}`: `{value}` is no number"))?;
        let figure = Figure { value, unit: (*unit).into(), how: how.trim().into() };
        ensure!(figures.insert((*name).to_owned(), figure).is_none(), "the guest measured `{name}` twice");
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_log() {
        let log = "hello\n[0.2] bench-program: bench null-call 812 instructions: mean of 1000, rdtsc under -icount\n";
        let found = measured(log).unwrap();
        let figure = Figure::new(812, "instructions", "mean of 1000, rdtsc under -icount");
        assert_eq!(found, BTreeMap::from([("null-call".to_owned(), figure)]));
    }

    #[test]
    fn a_figure_measured_twice_or_no_number_is_refused() {
        assert!(measured("bench a 1 x: y\nbench a 2 x: y\n").is_err());
        assert!(measured("bench a one x: y\n").is_err());
        assert!(measured("a bench without figures\n").unwrap().is_empty());
    }

    #[test]
    fn the_history_has_a_line_for_each_figure() {
        let figures = BTreeMap::from(["b", "a@n=2"].map(|name| (name.to_owned(), Figure::new(7, "x", "y"))));
        let expected = "{\"commit\":\"c\",\"date\":\"2026-01-02\",\"figure\":\"a@n=2\",\"value\":7}\n\
            {\"commit\":\"c\",\"date\":\"2026-01-02\",\"figure\":\"b\",\"value\":7}\n";
        assert_eq!(history("c", "2026-01-02", &figures).unwrap(), expected);
    }

    #[test]
    fn the_way_to_the_prompt_is_counted() {
        let log = "time-stamp counter 999972 kHz, timer\n\
            log: shell: at the prompt 3000000 ns after the kernel began, 1000000 ns of which it was idle; 7503 of 130000 \
            frames in use; the first process began 1234 counts of the time-stamp counter after the kernel\n";
        let figures = at_the_prompt(log).unwrap();
        let values: Vec<u64> = figures.values().map(|figure| figure.value).collect();
        assert_eq!(values, [1234, 1_999_944, 7503 * 4096]);
        assert!(at_the_prompt("").is_err());
    }
}

//! `capos bench`: figures of the system, with how each was measured, into `target/bench.json`.
//!
//! Sizes are looked up. Everything else is measured in the guest by the scenario `tools/scenarios/bench`, on a machine
//! whose clocks count instructions, so that a figure does not depend on the host: the guest writes lines
//! `bench NAME VALUE UNIT: HOW` to its log.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::run_agent;
use crate::scenario::Scenario;
use crate::system::{System, Variant};

/// The scenario that measures.
const SCENARIO: &str = "tools/scenarios/bench";

/// Measure, into target/bench.json.
#[derive(clap::Args)]
pub struct Args {}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figure {
    value: f64,
    unit: String,
    how: String,
}

/// Runs the subcommand.
pub fn run(_args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let parts = system.build(true)?;
    let image = system.target().join("capos.iso");
    parts.image(&Variant::default(), &image)?;
    let mut figures = BTreeMap::new();
    for (name, path, how) in [
        ("iso-size", image.as_path(), "size of target/capos.iso, built-in model included"),
        ("kernel-size", parts.kernel(), "size of the kernel's file on the image, without debugging information"),
    ] {
        let value = std::fs::metadata(path)?.len() as f64;
        figures.insert(name.to_owned(), Figure { value, unit: "bytes".into(), how: how.into() });
    }

    let scenario = Scenario::open(&system.root().join(SCENARIO))?;
    let out = system.target().join("bench");
    let report = run_agent::execute(&parts, &scenario, None, "tcg", &out)?;
    if let Some(reason) = report.reason {
        bail!("measuring failed: {reason}\nsee {}", out.display());
    }
    let log = std::fs::read(out.join("serial.log"))?;
    let measured = measured(&String::from_utf8_lossy(&log))?;
    ensure!(!measured.is_empty(), "the guest measured nothing; see {}", out.join("serial.log").display());
    figures.extend(measured);
    write(&system.target().join("bench.json"), &figures)?;
    for (name, figure) in &figures {
        println!("{name:32} {:>14} {}", figure.value, figure.unit);
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, figures: &BTreeMap<String, Figure>) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(figures)?;
    json.push(b'\n');
    std::fs::write(path, json).with_context(|| format!("writing {}", path.display()))
}

/// The figures in a guest's log.
fn measured(log: &str) -> Result<BTreeMap<String, Figure>> {
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
        let figure =
            Figure { value: 812.0, unit: "instructions".into(), how: "mean of 1000, rdtsc under -icount".into() };
        assert_eq!(found, BTreeMap::from([("null-call".to_owned(), figure)]));
    }

    #[test]
    fn a_figure_measured_twice_or_no_number_is_refused() {
        assert!(measured("bench a 1 x: y\nbench a 2 x: y\n").is_err());
        assert!(measured("bench a one x: y\n").is_err());
        assert!(measured("a bench without figures\n").unwrap().is_empty());
    }
}

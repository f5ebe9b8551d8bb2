//! `capos bench-std`: what operations of `std` cost, compared with their nearest on the bare runtime and with the same
//! program on Linux, into `target/bench-std.json` and as a table.
//!
//! All three run in the same virtual machine, whose time-stamp counter counts instructions. The program on `std` is one
//! source, built for capOS and for Linux.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::build::system::System;
use crate::build::toolchain;
use crate::measure::bench;
use crate::measure::figure::Figures;
use capos_vm::linux;

/// The package and the program that are built for both systems.
const PACKAGE: &str = "capos-std-bench";
const PROGRAM: &str = "bench-std";
/// The program's last line.
const DONE: &str = "bench-std has measured";
/// Scenarios and the prefixes of their figures' names.
const BARE: &str = "bare";
const STD: &str = "std";
const LINUX: &str = "linux";

/// Measure what std costs, into target/bench-std.json.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    linux: linux::KernelArgs,
    /// Append the figures to docs/bench/history.jsonl under the current commit.
    #[arg(long)]
    record: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let kernel = args.linux.kernel(&system.target())?;
    let parts = system.build(true)?;
    let program = toolchain::build_linux_program(system.root(), PACKAGE)?.join(PROGRAM);
    let bare = bench::measured(&bench::measure(&system, &parts, BARE)?)?;
    let std = bench::measured(&bench::measure(&system, &parts, STD)?)?;
    let said = linux::run(&kernel, &program, linux::Guest::default(), &bench::folder(&system, LINUX))?;
    ensure!(said.contains(DONE), "the program ended on Linux before it had measured all");
    let linux = bench::measured(&said)?;
    print!("{}", table(&bare, &std, &linux)?);
    let figures = named([(BARE, bare), (STD, std), (LINUX, linux)]);
    bench::write(&system.target().join("bench-std.json"), &figures)?;
    if args.record {
        bench::record(system.root(), &figures)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All figures, each named by where it was measured.
fn named(sets: [(&str, Figures); 3]) -> Figures {
    let named = |(set, figures): (&str, Figures)| -> Vec<_> {
        figures.into_iter().map(|(name, figure)| (format!("{set}_{name}"), figure)).collect()
    };
    sets.into_iter().flat_map(named).collect()
}

/// The figures in columns, with the ratios of `std` to the others, as the documentation has them.
fn table(bare: &Figures, std: &Figures, linux: &Figures) -> Result<String> {
    let mut lines = vec![
        "| operation | bare runtime | std | std on Linux | std : bare | std : Linux |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for (name, figure) in std {
        let other = linux.get(name).with_context(|| format!("`{name}` was not measured on Linux"))?;
        let (near, to_near) = match bare.get(name) {
            Some(near) => (near.value.to_string(), ratio(figure.value, near.value)),
            None => ("—".into(), "—".into()),
        };
        let to_linux = ratio(figure.value, other.value);
        lines.push(format!("| `{name}` | {near} | {} | {} | {to_near} | {to_linux} |", figure.value, other.value));
    }
    Ok(lines.join("\n") + "\n")
}

fn ratio(value: u64, to: u64) -> String {
    format!("{:.2}", value as f64 / to as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::figure::Figure;

    fn figures(values: &[(&str, u64)]) -> Figures {
        let figure = |value| Figure { value, unit: "instructions".into(), how: "so".into() };
        values.iter().map(|(name, value)| ((*name).to_owned(), figure(*value))).collect()
    }

    #[test]
    fn ratios_are_of_std_to_the_others() {
        let std = figures(&[("a", 300), ("b", 50)]);
        let table = table(&figures(&[("a", 100)]), &std, &figures(&[("a", 200), ("b", 40)])).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows, ["| `a` | 100 | 300 | 200 | 3.00 | 1.50 |", "| `b` | — | 50 | 40 | — | 1.25 |"]);
        assert!(super::table(&Figures::new(), &std, &Figures::new()).is_err());
    }

    #[test]
    fn figures_are_named_by_where_they_were_measured() {
        let all = named([(BARE, figures(&[("a", 1)])), (STD, figures(&[("a", 2)])), (LINUX, figures(&[("a", 3)]))]);
        let names: Vec<(&str, u64)> = all.iter().map(|(name, figure)| (name.as_str(), figure.value)).collect();
        assert_eq!(names, [("bare_a", 1), ("linux_a", 3), ("std_a", 2)]);
    }
}

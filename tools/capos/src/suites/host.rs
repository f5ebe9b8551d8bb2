//! The tests that run on the host, by `cargo test`.

use std::io::{BufRead, BufReader, IsTerminal as _};
use std::process::Stdio;

use anyhow::{Context, Result};

use super::Tally;
use crate::build::lint;
use crate::build::system::System;
use crate::build::toolchain;

/// Workspaces below `tools/` with host tests of their own, whose dependencies must not be built with the others.
const APART: [&str; 1] = ["gguf-check"];

/// The output of `cargo metadata` for the workspace.
#[derive(serde::Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
}

/// Which packages' host tests are wanted, as options of `cargo test`; nothing if none are. `host` means all of them,
/// with what is `linted` besides, and `host/NAME` one.
fn host_options(packages: &[Package], wanted: &dyn Fn(&str) -> bool, linted: bool) -> Vec<String> {
    let of_all = wanted("host");
    let some = packages.iter().filter(|package| wanted(&format!("host/{}", package.name)));
    let some: Vec<String> = some.flat_map(|package| ["--package".to_owned(), package.name.clone()]).collect();
    match of_all {
        true if linted => lint::HOST.map(ToOwned::to_owned).into(),
        true => vec!["--workspace".to_owned()],
        false => some,
    }
}

/// Builds the tests that run on the host: the workspace's, and those of the workspaces apart. The options of `cargo test` for
/// each group of them; none if they could not be built.
pub fn build(
    system: &System,
    wanted: &dyn Fn(&str) -> bool,
    linted: bool,
    tally: &mut Tally,
) -> Result<Vec<Vec<String>>> {
    let json = toolchain::metadata(system.root(), &["--no-deps"])?;
    let workspace: Workspace = serde_json::from_slice(&json).context("reading what cargo metadata says")?;
    let mut groups = vec![host_options(&workspace.packages, wanted, linted)];
    for name in APART.iter().filter(|name| wanted("host") || wanted(&format!("host/{name}"))) {
        let (manifest, target) = (format!("tools/{name}/Cargo.toml"), format!("target/{name}"));
        groups.push(["--manifest-path", &manifest, "--target-dir", &target].map(ToOwned::to_owned).into());
    }
    groups.retain(|options| !options.is_empty());
    let built = tally.phase("building host tests", |_| {
        groups.iter().try_fold(true, |built, options| -> Result<bool> {
            let mut command = toolchain::host_cargo();
            command.args(["test", "--no-run"]).args(options).current_dir(system.root()).stdout(Stdio::null());
            // At a terminal cargo shows how far it is; in a log it would only add a line for each crate.
            if !std::io::stderr().is_terminal() {
                command.arg("--quiet");
            }
            Ok(command.status().context("starting cargo test")?.success() && built)
        })
    })?;
    if !built {
        tally.fail("host tests", "cargo test could not build them; see above");
        groups.clear();
    }
    Ok(groups)
}

/// Runs the host tests of these groups.
pub fn run(system: &System, groups: &[Vec<String>], tally: &mut Tally) -> Result<()> {
    let before = (tally.passed, tally.failed);
    tally
        .phase("running host tests", |tally| groups.iter().try_for_each(|options| run_group(system, options, tally)))?;
    println!("host tests: {} passed, {} failed", tally.passed - before.0, tally.failed - before.1);
    Ok(())
}

fn run_group(system: &System, options: &[String], tally: &mut Tally) -> Result<()> {
    let mut command = toolchain::host_cargo();
    command.args(["test", "--no-fail-fast"]).args(options).current_dir(system.root()).stdout(Stdio::piped());
    let mut child = command.spawn().context("starting cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let before = tally.failed;
    for line in BufReader::new(output).lines() {
        let line = line.context("reading what cargo test says")?;
        match test_line(&line) {
            Some(Line::Result(passed, failed)) => {
                tally.passed += passed;
                tally.failed += failed;
            }
            Some(Line::Failure(name)) => {
                println!("{line}");
                tally.failures.push(name.to_owned());
            }
            Some(Line::LeftOut(what)) => {
                tally.left_out.insert(what.to_owned());
            }
            Some(Line::Noise) => {}
            None => println!("{line}"),
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == before {
        tally.fail("host tests", "cargo test could not run them; see above");
    }
    Ok(())
}

/// A line of cargo test's output that is not shown unchanged.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Result(u64, u64),
    Failure(&'a str),
    /// A check that a test skipped here.
    LeftOut(&'a str),
    Noise,
}

fn test_line(line: &str) -> Option<Line<'_>> {
    if let Some(counts) = line.strip_prefix("test result: ") {
        let number = |word: &str| -> Option<u64> {
            let (before, _) = counts.split_once(word)?;
            before.trim_end().rsplit(' ').next()?.parse().ok()
        };
        return Some(Line::Result(number(" passed;")?, number(" failed;")?));
    }
    if let Some(what) = line.strip_prefix("not run: ") {
        return Some(Line::LeftOut(what));
    }
    if let Some(test) = line.strip_prefix("test ") {
        return match test.strip_suffix(" ... FAILED") {
            Some(name) => Some(Line::Failure(name)),
            None => Some(Line::Noise),
        };
    }
    (line.trim().is_empty() || line.starts_with("running ")).then_some(Line::Noise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_names_packages_of_the_host_tests_too() {
        let names = ["capos-terminal", "capos-svc-terminal", "capos-engine"];
        let packages = names.map(|name| Package { name: name.to_owned() });
        let options = |only: &str| host_options(&packages, &|name: &str| name.contains(only), false).join(" ");
        assert_eq!(options("terminal"), "--package capos-terminal --package capos-svc-terminal");
        assert_eq!(options("host/capos-engine"), "--package capos-engine");
        assert_eq!(options("host"), "--workspace");
        assert_eq!(options(""), "--workspace");
        assert_eq!(options("qemu/engine"), "");
        assert_eq!(
            host_options(&packages, &|_| true, true).join(" "),
            "--workspace --features capos-audit/measure,capos-home-keys/measure"
        );
    }

    #[test]
    fn lines_of_cargo_test_are_counted() {
        let result = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s";
        assert_eq!(test_line(result), Some(Line::Result(12, 3)));
        assert_eq!(test_line("test a::b ... FAILED"), Some(Line::Failure("a::b")));
        assert_eq!(test_line("test a::b ... ok"), Some(Line::Noise));
        assert_eq!(test_line("not run: kernels amx, for a reason"), Some(Line::LeftOut("kernels amx, for a reason")));
        assert_eq!(test_line("assertion failed: x"), None);
    }
}

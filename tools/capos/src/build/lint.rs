//! `capos lint`: the format and the lints of everything, each part for the target it is built for.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::build::c_library;
use crate::build::packages;
use crate::build::system::System;
use crate::build::toolchain::{self, BARE, Bare};

/// Check formatting and lints of all crates.
#[derive(clap::Args)]
pub struct Args {}

/// Cargo's options with which host code is checked, besides those that say what is done with it. The features are for the
/// programs that only measure. The Makefile has the same.
pub const HOST: [&str; 3] = ["--workspace", "--features", "capos-audit/measure,capos-home-keys/measure"];

/// Runs the subcommand: success if there are no findings.
pub fn run(_args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let mut host = toolchain::cargo();
    host.arg("clippy").args(HOST).args(["--all-targets", "--", "-D", "warnings"]);
    let clean = step(&system, "host", &mut host)?;
    let findings = [formats(&system)?, guest(&system)?].concat();
    Ok(if clean && findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one part: whether there is nothing to find.
fn step(system: &System, what: &str, command: &mut Command) -> Result<bool> {
    println!("lint: {what}");
    let status = command.current_dir(system.root()).status().with_context(|| format!("starting {what}"))?;
    Ok(status.success())
}

/// Checks the lints of everything that runs in the guest. Returns the parts with findings.
fn guest(system: &System) -> Result<Vec<&'static str>> {
    let mut findings = Vec::new();
    let mut step = |what: &'static str, command: &mut Command| -> Result<()> {
        if !step(system, what, command)? {
            findings.push(what);
        }
        Ok(())
    };
    let deny = ["--", "-D", "warnings"];
    let mut bare = toolchain::cargo();
    let kernel = ["clippy", "--profile", "kernel", "--target", BARE, "--target-dir", "target/kernel"];
    if toolchain::bare()? == Bare::Prebuilt {
        step("kernel", bare.args(kernel).args(["-p", "capos-kernel", "-p", "capos-loader"]).args(deny))?;
        let mut tests = toolchain::cargo();
        let tests = tests.args(kernel).args(["-p", "capos-kernel", "--features", "capos-kernel/tests"]);
        step("kernel with the tests that run in it", tests.args(deny))?;
    } else {
        println!("lint: the kernel is skipped, because Debian's compiler for it has no clippy");
    }
    let programs = packages::programs(system.root())?;
    let of = |std: bool| programs.iter().filter(move |program| program.std == std).map(|program| &program.package);
    let library = String::from("capos-libc");
    let guest = ["userspace/cargo-config.toml", "guest", "target/guest"];
    let on_std = [c_library::CONFIG, "std", "target/std"];
    let parts: [(&'static str, [&str; 3], Vec<&String>); 2] =
        [("programs", guest, of(false).chain([&library]).collect()), ("programs on std", on_std, of(true).collect())];
    for (what, [config, profile, target], packages) in parts {
        let mut command = toolchain::cargo();
        command.args(["clippy", "--config", config, "--profile", profile]);
        command.args(["--target", toolchain::USER, "--target-dir", target]);
        command.args(packages.into_iter().flat_map(|package| ["-p", package]));
        step(what, command.args(deny))?;
    }
    Ok(findings)
}

/// Checks the format of everything. Returns the parts with findings.
pub fn formats(system: &System) -> Result<Vec<&'static str>> {
    let mut findings = Vec::new();
    if !step(system, "format", toolchain::cargo().args(["fmt", "--all", "--check"]))? {
        findings.push("format");
    }
    // Workspaces of their own. One has hundreds of crates: its lints would take longer than all the others together.
    for manifest in
        ["userspace/std-tests/crate-test/Cargo.toml", "tools/gguf-check/Cargo.toml", "tools/store-peer/Cargo.toml"]
    {
        let what = "format of the checks of crates";
        if !step(system, what, toolchain::cargo().args(["fmt", "--check", "--manifest-path", manifest]))? {
            findings.push(what);
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    /// Whether a crate of this text is compiled, and whether there is a library then.
    fn compiled(text: &str) -> (bool, bool) {
        let folder = tempfile::tempdir().unwrap();
        let (source, out) = (folder.path().join("a.rs"), folder.path().join("out"));
        std::fs::write(&source, text).unwrap();
        std::fs::create_dir(&out).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let mut command = Command::new(root.join(super::toolchain::LINT_AND_COMPILE));
        command.args(["rustc", "--crate-name", "a", "--crate-type", "lib", "--error-format=json"]);
        command.args(["--json=diagnostic-rendered-ansi,artifacts", "--emit=dep-info,metadata,link", "--out-dir"]);
        command.arg(&out).arg(&source).env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        (command.output().unwrap().status.success(), out.join("liba.rlib").is_file())
    }

    #[test]
    fn what_has_a_finding_is_not_compiled() {
        if Command::new("clippy-driver").arg("--version").output().is_err() {
            println!("not run: lints, because clippy is not installed");
            return;
        }
        assert_eq!(compiled("pub fn same(x: u8) -> u8 { x }"), (true, true));
        assert_eq!(compiled("pub fn same(x: u8) -> u8 { return x; }"), (false, false));
    }
}

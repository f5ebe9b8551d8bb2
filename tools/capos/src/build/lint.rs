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
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use crate::build::toolchain::{LINT_AND_COMPILE, LINT_OPTIONS};

    /// The script, called in a folder with a crate of this text: what it says, and the names of the files that it leaves.
    fn compile(text: &str, options: &[&str]) -> (Output, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("temporary");
        for made in [folder.path().join("out"), temporary.clone()] {
            std::fs::create_dir(made).unwrap();
        }
        std::fs::write(folder.path().join("a.rs"), text).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let mut command = Command::new(root.join(LINT_AND_COMPILE));
        command.args(["rustc", "--crate-name", "a", "--crate-type", "lib", "--cfg", "feature=\"a b\"", "a.rs"]);
        command.args(options).current_dir(folder.path()).env(LINT_OPTIONS.0, LINT_OPTIONS.1).env("TMPDIR", &temporary);
        let output = command.output().unwrap();
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "what is temporary is removed");
        let made = std::fs::read_dir(folder.path().join("out")).unwrap();
        (output, made.map(|file| file.unwrap().file_name().into()).collect())
    }

    #[test]
    fn what_has_a_finding_is_not_compiled() {
        let has_clippy = Command::new("clippy-driver").arg("--version").output();
        if !has_clippy.is_ok_and(|output| output.status.success()) {
            // Output of macros is shown for failed tests only. The line must not follow a test's name.
            std::io::stdout().write_all(b"\nnot run: lints of guest code: clippy is not installed\n").unwrap();
            return;
        }
        let good = "#[cfg(feature = \"a b\")]\npub fn same(x: u8) -> u8 {\n    x\n}\n";
        let bad = good.replace("    x\n", "    return x;\n");
        let format =
            ["--error-format=json", "--json=diagnostic-rendered-ansi,artifacts", "--emit=dep-info,metadata,link"];
        for folder in [&["--out-dir", "out"][..], &["--out-dir=out"]] {
            let options = [&format, folder].concat();
            let (output, made) = compile(good, &options);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && made.contains(&PathBuf::from("liba.rlib")), "{said} {made:?}");
            assert_eq!(said.matches("liba.rmeta").count(), 1, "cargo is told once that the crate can be read: {said}");
            let (output, made) = compile(&bad, &options);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && made.is_empty() && said.contains("needless_return"), "{said} {made:?}");
        }
    }

    #[test]
    fn options_that_the_linter_would_not_understand_are_rejected() {
        let (output, made) = compile("", &["--emit", "link", "--out-dir", "out"]);
        assert!(!output.status.success() && made.is_empty());
        assert!(String::from_utf8_lossy(&output.stderr).contains("no option --emit="));
        let (output, _) = compile("", &["--print", "sysroot"]);
        assert!(output.status.success());
    }
}

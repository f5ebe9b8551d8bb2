//! Building upstream test suites for capOS, unmodified: `cargo test` makes the programs, linked against our C library.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::build::c_library;
use crate::build::toolchain::{self, USER};
use crate::suites::upstream::catalogue::Suite;
use crate::suites::upstream::sources::{CONFIG, Workspace};

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The suite's name and the test target's.
    pub name: String,
    /// Its file, with all that the linker left in it.
    pub file: PathBuf,
}

/// Builds the programs of one member of a workspace. With `relock` its lock file may change; otherwise it is unchanged.
pub fn build(root: &Path, workspace: &Workspace, suite: &Suite, manifest: &Path, relock: bool) -> Result<Vec<Program>> {
    let target = &workspace.target;
    let packages = [package(manifest)?];
    c_library::relink(&target.join(USER).join("suite"), &root.join(c_library::OBJECT), &packages)?;
    let mut command = toolchain::cargo();
    command.args(["test", "--no-run", "--message-format", "json-render-diagnostics", "--profile", "suite"]);
    command.arg("--config").arg(target.join(CONFIG)).args(["--target", USER, "--target-dir"]).arg(target);
    if let Some(source) = &workspace.std_source {
        // Tests of the standard library use what only it may; its own build permits that in the same way.
        command.env("RUSTC_BOOTSTRAP", "1");
        command.arg("--config").arg(format!("target.{USER}.rustflags = [\"-Zforce-unstable-if-unmarked\"]"));
        if let Some(compiler) = source.compiler {
            command.env("RUSTC", compiler);
        }
    }
    command.arg("--manifest-path").arg(manifest);
    if !relock {
        command.arg("--locked");
    }
    if suite.targets.is_empty() {
        command.arg("--tests");
    }
    for target in &suite.targets {
        if target == "lib" {
            command.arg("--lib")
        } else {
            command.args(["--test", target])
        };
    }
    if !suite.features.is_empty() {
        command.arg("--features").arg(suite.features.join(","));
    }
    // Warnings are upstream's.
    command.env("CARGO_BUILD_WARNINGS", "allow").current_dir(&workspace.folder).stderr(Stdio::piped());
    let output = command.output().context("starting cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the tests of `{}` do not build:\n{said}", suite.name);
    let mut programs = Vec::new();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        programs.extend(program(&suite.name, line));
    }
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    ensure!(!programs.is_empty(), "`{}` has no test programs", suite.name);
    Ok(programs)
}

/// The name of the package with this manifest.
fn package(manifest: &Path) -> Result<String> {
    #[derive(Deserialize)]
    struct Manifest {
        package: Package,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
    }
    let text = std::fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
    let read: Manifest = toml::from_str(&text).with_context(|| manifest.display().to_string())?;
    Ok(read.package.name)
}

/// The program that a message of cargo is about.
fn program(suite: &str, message: &[u8]) -> Option<Program> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        target: Target,
        profile: Profile,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let Message { executable, target, profile } = serde_json::from_slice(message).ok()?;
    let file = executable.filter(|_| profile.test)?;
    let of_tests = target.kind.iter().any(|kind| kind == "test");
    let name = if of_tests { format!("{suite}-{}", target.name) } else { suite.to_owned() };
    Some(Program { name, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let name = |text: String| program("memchr", text.as_bytes()).map(|program| program.name);
        assert_eq!(name(message("test", true, "\"/t/it\"")), Some("memchr-it".into()));
        assert_eq!(name(message("lib", true, "\"/t/it\"")), Some("memchr".into()));
        assert_eq!(name(message("lib", false, "null")), None);
        assert_eq!(name(message("bin", false, "\"/t/it\"")), None);
        assert_eq!(name(r#"{"reason":"build-finished","success":true}"#.into()), None);
    }
}

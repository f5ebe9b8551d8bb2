//! Which compiler builds the kernel, and how cargo is called for each kind of program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use capos_host::files;
use capos_host::tool;

/// The kernel's target.
pub const BARE: &str = "x86_64-unknown-none";
/// The target of the guest's programs.
pub const USER: &str = "x86_64-unknown-linux-gnu";
/// Debian's compiler.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// How the bare target is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// The active toolchain has its `core`.
    Prebuilt,
    /// Debian's compiler builds `core` from the source in `rust-web-src`.
    Debian,
}

/// What cargo calls in place of the compiler for this workspace's crates: the compiler with lints, in `make test LINTS=1`.
pub const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";
/// The compiler with lints.
const LINTER: &str = "clippy-driver";
/// What cargo calls then for the guest's crates, below the source folder: the compiler with lints does not optimise as well.
pub(super) const LINT_AND_COMPILE: &str = "tools/lint-and-compile.sh";
/// The options of the compiler with lints: every finding is an error.
pub(super) const LINT_OPTIONS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// The cargo to call: the one that runs this program, if one does. It calls the compiler itself, and no [`LINTER`].
pub fn cargo() -> Command {
    let mut cargo = host_cargo();
    cargo.env_remove(WRAPPER);
    cargo
}

/// The same for the guest's code, whose lints are checked if those of host code are.
pub fn guest_cargo(root: &Path) -> Result<Command> {
    let mut cargo = cargo();
    if is_linted() {
        let (name, options) = LINT_OPTIONS;
        cargo.env(WRAPPER, lint_and_compile(root)?).env(name, options);
    }
    Ok(cargo)
}

/// [`LINT_AND_COMPILE`], at a path that contains a digest of what decides on findings: cargo compiles a crate again if the path
/// is another one.
fn lint_and_compile(root: &Path) -> Result<PathBuf> {
    let script = root.join(LINT_AND_COMPILE);
    let mut digest = Sha256::new();
    for file in [&script, &root.join("clippy.toml")] {
        digest.update(std::fs::read(file).with_context(|| format!("reading {}", file.display()))?);
    }
    digest.update(LINT_OPTIONS.1);
    let folder = root.join("target/lint");
    let path = folder.join(format!("{}.sh", hex::encode(digest.finalize())));
    if !path.is_file() {
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        std::fs::copy(&script, &path).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(path)
}

/// Whether what compiles checks lints too.
pub fn is_linted() -> bool {
    std::env::var_os(WRAPPER).is_some_and(|wrapper| wrapper == LINTER)
}

/// The same for host code, which [`WRAPPER`] may check.
pub fn host_cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The output of `cargo metadata`, called in `root` with these options: JSON.
pub fn metadata(root: &Path, options: &[&str]) -> Result<Vec<u8>> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1"]).args(options).current_dir(root);
    let output = command.output().context("starting cargo metadata")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed:\n{said}");
    Ok(output.stdout)
}

/// Writes `program` without what only debuggers read to `stripped`, if that is not done yet.
pub fn strip(program: &Path, stripped: &Path) -> Result<()> {
    if files::up_to_date(stripped, &[program.to_owned()])? {
        return Ok(());
    }
    if let Some(folder) = stripped.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let objcopy = tool::find(&["objcopy", "llvm-objcopy"], "binutils")?;
    let new = files::beside(stripped, "new");
    tool::run(Command::new(objcopy).arg("--strip-all").arg(program).arg(&new))?;
    std::fs::rename(&new, stripped).with_context(|| format!("writing {}", stripped.display()))
}

/// The folder of the libraries that a compiler has for a target, if it can be asked.
pub fn target_libraries(compiler: &str, target: &str) -> Option<PathBuf> {
    let output = Command::new(compiler).args(["--print", "target-libdir", "--target", target]).output().ok()?;
    output.status.success().then(|| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn has_core(compiler: &str, target: &str) -> bool {
    let entries = target_libraries(compiler, target).and_then(|folder| std::fs::read_dir(folder).ok());
    entries.is_some_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libcore-")))
    })
}

/// The folder of the standard library's source that comes with a compiler, if it is installed.
fn library_beside(compiler: &str) -> Option<PathBuf> {
    let output = Command::new(compiler).args(["--print", "sysroot"]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let library = sysroot.join("lib/rustlib/src/rust/library");
    library.join("core/src/lib.rs").is_file().then_some(library)
}

/// The standard library's source and the compiler that it belongs to.
#[derive(Debug)]
pub struct LibrarySource {
    /// The folder `library`.
    pub path: PathBuf,
    /// The compiler, if it is not the active one.
    pub compiler: Option<&'static str>,
}

/// Finds the standard library's source: that of the active compiler, or Debian's.
pub fn library_source() -> Result<LibrarySource> {
    let own = library_beside("rustc").map(|path| LibrarySource { path, compiler: None });
    let debian = || library_beside(DEBIAN_RUSTC).map(|path| LibrarySource { path, compiler: Some(DEBIAN_RUSTC) });
    own.or_else(debian).context(
        "the source of the standard library is not installed, and its tests need it: `rustup component add \
         rust-src`, or Debian's packages rustc-web and rust-web-src",
    )
}

/// Finds out how to build for the bare target, installing it with rustup if that is quick.
pub fn bare() -> Result<Bare> {
    if has_core("rustc", BARE) {
        return Ok(Bare::Prebuilt);
    }
    // Before asking the network: once found missing there, Debian's compiler is as good.
    let debian = library_beside(DEBIAN_RUSTC).is_some();
    let seconds = if debian { "20" } else { "120" };
    let mut add = Command::new("timeout");
    add.args([seconds, "rustup", "target", "add", BARE]).stdout(Stdio::null()).stderr(Stdio::null());
    let added = tool::find(&["rustup"], "rustup").is_ok() && add.status().is_ok_and(|status| status.success());
    if added && has_core("rustc", BARE) {
        return Ok(Bare::Prebuilt);
    }
    if debian {
        return Ok(Bare::Debian);
    }
    bail!(
        "the compiler cannot build for {BARE}: `rustup target add {BARE}` does not work here, and Debian's packages \
         rustc-web and rust-web-src are not installed; `make deps` says what to install"
    )
}

/// The versions of the compilers of the kernel and of programs.
pub fn compilers(root: &Path) -> Result<(String, String)> {
    let version = |compiler: &str| -> Result<String> {
        let output = Command::new(compiler).arg("--version").current_dir(root).output();
        let output = output.with_context(|| format!("asking {compiler} for its version"))?;
        ensure!(output.status.success(), "{compiler} printed no version");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let kernel = if bare()? == Bare::Debian { DEBIAN_RUSTC } else { "rustc" };
    Ok((version(kernel)?, version("rustc")?))
}

/// Builds programs for the bare target and returns their folder.
pub fn build_bare(root: &Path, packages: &[&str]) -> Result<PathBuf> {
    build_bare_with(root, packages, &[])
}

/// Builds the kernel with the tests that run in it, and returns its folder. It lies where the kernel does until that is built again.
pub fn build_kernel_tests(root: &Path) -> Result<PathBuf> {
    build_bare_with(root, &["capos-kernel"], &["capos-kernel/tests"])
}

fn build_bare_with(root: &Path, packages: &[&str], features: &[&str]) -> Result<PathBuf> {
    let target = root.join("target/kernel");
    let mut command = guest_cargo(root)?;
    if bare()? == Bare::Debian {
        // Debian's compiler has no clippy.
        command.env_remove(WRAPPER).env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
        command.args(["--config", "kernel/cargo-debian.toml"]);
    }
    command.args(["build", "--profile", "kernel", "--target", BARE, "--target-dir"]).arg(&target);
    for package in packages {
        command.args(["-p", package]);
    }
    for feature in features {
        command.args(["--features", feature]);
    }
    build(command.current_dir(root), "the kernel and its loader")?;
    Ok(target.join(BARE).join("kernel"))
}

/// Builds programs of the guest and returns their folder.
pub fn build_programs(root: &Path, packages: &[String]) -> Result<PathBuf> {
    build_guest(root, packages, &[], &[])
}

/// Builds programs of the guest, each given with its package, with that package's feature `next`. They lie where the others do
/// until those are built again. `packages` are all of the guest's: so the crates that the feature does not change are compiled
/// with the same features as before, and not again.
pub fn build_next(root: &Path, packages: &[String], next: &[(&str, &str)]) -> Result<PathBuf> {
    let features: Vec<String> = next.iter().map(|(package, _)| format!("{package}/next")).collect();
    let programs: Vec<&str> = next.iter().map(|(_, program)| *program).collect();
    build_guest(root, packages, &programs, &features)
}

/// Builds these programs of the packages, or all if none is named.
fn build_guest(root: &Path, packages: &[String], programs: &[&str], features: &[String]) -> Result<PathBuf> {
    let target = root.join("target/guest");
    let mut command = guest_cargo(root)?;
    command.args(["build", "--config", "userspace/cargo-config.toml", "--profile", "guest", "--target", USER]);
    command.arg("--target-dir").arg(&target);
    for package in packages {
        command.args(["-p", package]);
    }
    for program in programs {
        command.args(["--bin", program]);
    }
    for feature in features {
        command.args(["--features", feature]);
    }
    build(command.current_dir(root), "the guest's programs")?;
    Ok(target.join(USER).join("guest"))
}

/// Builds a library of the guest on its own and returns its folder: it is the same whichever programs are built. The schema
/// has the features that programs use, so that it is compiled once.
pub fn build_library(root: &Path, package: &str) -> Result<PathBuf> {
    build_guest(root, &[package.to_owned()], &[], &["capos-schema/reflect".to_owned()])
}

/// Builds a program on `std` for Linux, static and otherwise as those of the guest, and returns its folder.
pub fn build_linux_program(root: &Path, package: &str) -> Result<PathBuf> {
    let target = root.join("target/linux");
    let flags = format!("target.{USER}.rustflags=['-Ctarget-feature=+crt-static', '-Cforce-frame-pointers=yes']");
    let mut command = cargo();
    command.args(["build", "--config", &flags, "--profile", "std", "--target", USER, "-p", package]);
    command.arg("--target-dir").arg(&target);
    build(command.current_dir(root), "the program for Linux")?;
    Ok(target.join(USER).join("std"))
}

/// Builds the static program for Linux of a workspace in this folder, and returns the program's folder.
pub fn build_linux_workspace(root: &Path, folder: &str) -> Result<PathBuf> {
    let target = root.join("target/linux");
    let flags = format!("target.{USER}.rustflags=['-Ctarget-feature=+crt-static']");
    let mut command = cargo();
    command.args(["build", "--locked", "--config", &flags, "--release", "--target", USER]);
    command.arg("--target-dir").arg(&target);
    build(command.current_dir(root.join(folder)), "the program for Linux")?;
    Ok(target.join(USER).join("release"))
}

/// Builds the program that fuzzes parsers, with these flags and for its own target, so that they do not affect the
/// tools that run during its build. Returns its path.
pub fn build_fuzzer(root: &Path, folder: &Path, flags: &str) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--profile", "fuzz", "--target", USER, "-p", "capos-fuzz", "--features", "libfuzzer"]);
    command.env("RUSTFLAGS", flags).arg("--target-dir").arg(folder.join("build"));
    build(command.current_dir(root), "the program that fuzzes")?;
    Ok(folder.join("build").join(USER).join("fuzz/capos-fuzz"))
}

/// Runs cargo; its messages go to ours.
pub(super) fn build(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("starting cargo to build {what}"))?;
    if !status.success() {
        let or = if is_linted() { ", or it has findings of lints" } else { "" };
        bail!("building {what} failed{or} ({status}); see above");
    }
    Ok(())
}

//! The link inputs of the guest's programs on `std`. These are the C library as one object whose only visible names are
//! C's, the toolchain's `std`, the compiler's own unwinder, and stubs for other names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build::std_library;
use crate::build::toolchain;
use capos_host::files;
use capos_host::tool;

/// Where it is made, below the source folder; `userspace/libc/cargo-config.toml` names it too.
const FOLDER: &str = "target/std-lib";
/// This file, below the source folder.
const SOURCE: &str = "tools/capos/src/build/c_library.rs";
/// The library itself.
pub const OBJECT: &str = "target/std-lib/libc.o";
/// The copy of `std`, which the linker meets before the toolchain's own and takes for it.
const STD: &str = "libcapos_std.a";
/// The inputs that [`CONFIG`] makes the compiler link.
const STD_FLAG: &str = "-lstatic:-bundle=capos_std";
/// How cargo builds programs that are linked against it, from the source folder.
pub const CONFIG: &str = "userspace/libc/cargo-config.toml";
/// Libraries that `std` names: the object, which is linked by its own name, contains everything that it needs of them.
const NAMES: [&str; 9] = ["c", "m", "rt", "pthread", "util", "dl", "gcc", "gcc_s", "execinfo"];
/// Crates of the archive whose C functions are the library's.
const CRATES: [&str; 2] = ["capos_libc-", "capos_mem-"];

/// Builds it if anything has changed. Says whether it did.
pub fn build(root: &Path) -> Result<bool> {
    let archive = toolchain::build_library(root, "capos-libc")?.join("libcapos_libc.a");
    let (folder, object) = (root.join(FOLDER), root.join(OBJECT));
    let std = folder.join(STD);
    std_library::build(&std)?;
    // The link options count as well, and the other libraries of programs.
    let inputs = [archive, root.join(SOURCE), std];
    if files::up_to_date(&object, &inputs)? {
        return Ok(false);
    }
    for name in NAMES {
        // An empty script for the linker: nothing to take from it.
        files::write_if_changed(&folder.join(format!("lib{name}.a")), b"INPUT()\n")?;
    }
    std::fs::copy(unwinder()?, folder.join("libgcc_eh.a")).context("copying the compiler's unwinder")?;
    let [archive, ..] = &inputs;
    link(archive, &object)?;
    Ok(true)
}

/// Builds programs of the guest on `std` and returns their folder. They are linked against the output of [`build`].
pub fn build_programs(root: &Path, packages: &[String]) -> Result<PathBuf> {
    let target = root.join("target/std");
    relink(&target.join(toolchain::USER).join("std"), &root.join(OBJECT), packages)?;
    let mut command = toolchain::guest_cargo(root)?;
    command.args(["build", "--config", CONFIG, "--profile", "std", "--target", toolchain::USER]);
    command.arg("--target-dir").arg(&target);
    for package in packages {
        command.args(["-p", package]);
    }
    toolchain::build(command.current_dir(root), "the guest's programs on std")?;
    Ok(target.join(toolchain::USER).join("std"))
}

/// Makes cargo link programs again if their C library has changed: cargo does not know that they contain it.
pub fn relink(folder: &Path, library: &Path, packages: &[String]) -> Result<()> {
    let marks = folder.join(".fingerprint");
    if !marks.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(&marks).with_context(|| format!("reading {}", marks.display()))? {
        let mark = entry?.path();
        let name = mark.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let package = name.rsplit_once('-').map_or("", |(package, _)| package);
        if packages.iter().any(|wanted| wanted == package) && files::changed(&mark)? < files::changed(library)? {
            std::fs::remove_dir_all(&mark).with_context(|| format!("removing {}", mark.display()))?;
        }
    }
    Ok(())
}

/// [`CONFIG`] for a workspace elsewhere, whose linker runs in another folder.
pub fn config(root: &Path) -> Result<String> {
    let path = root.join(CONFIG);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let folder = root.join(FOLDER);
    Ok(text.replace(FOLDER, folder.to_str().context("the path of the source folder is not UTF-8")?))
}

/// The same for programs that link `std` as the compiler has it: the tests of `std`, which another compiler may build.
pub fn config_with_whole_std(root: &Path) -> Result<String> {
    let text = config(root)?;
    let (copy, rest): (Vec<&str>, Vec<&str>) = text.split_inclusive('\n').partition(|line| line.contains(STD_FLAG));
    ensure!(copy.len() == 1, "{CONFIG} names `{STD_FLAG}` {} times, not once", copy.len());
    Ok(rest.concat())
}

/// The unwinder that comes with the C compiler.
fn unwinder() -> Result<PathBuf> {
    let compiler = tool::find(&["cc", "gcc"], "gcc")?;
    let output = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output().context("asking the compiler")?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    ensure!(path.is_absolute(), "the C compiler has no libgcc_eh.a; on Debian: apt-get install gcc libc6-dev");
    Ok(path)
}

fn link(archive: &Path, object: &Path) -> Result<()> {
    let nm = tool::find(&["nm", "llvm-nm"], "binutils")?;
    let output = Command::new(nm).args(["-A", "-g", "--defined-only"]).arg(archive).output().context("starting nm")?;
    let names = c_names(&String::from_utf8_lossy(&output.stdout));
    ensure!(names.iter().any(|name| name == "_start"), "nm finds no `_start` in {}", archive.display());
    let list = object.with_extension("names");
    files::write_if_changed(&list, (names.join("\n") + "\n").as_bytes())?;
    let whole = object.with_extension("whole.o");
    let mut linker = Command::new(tool::find(&["ld", "ld.bfd"], "binutils")?);
    linker.args(["-m", "elf_x86_64", "-r", "-S", "--gc-sections", "--entry=_start"]);
    linker.args(names.iter().map(|name| format!("--undefined={name}")));
    tool::run(linker.arg(archive).arg("-o").arg(&whole))?;
    let mut hide = Command::new(tool::find(&["objcopy"], "binutils")?);
    hide.arg(format!("--keep-global-symbols={}", list.display()));
    // Nothing unwinds through it, so what says how is left out; and a table that the linker of the parts did not
    // understand.
    hide.args(["-R", ".eh_frame", "-R", ".gcc_except_table*", "-R", ".data.DW.ref*", "-R", ".llvm_addrsig"]);
    let new = object.with_extension("new.o");
    tool::run(hide.arg(&whole).arg(&new))?;
    std::fs::remove_file(&whole).context("removing files that are not needed any more")?;
    std::fs::rename(&new, object).with_context(|| format!("writing {}", object.display()))
}

/// The names of C among what the library's own crates define, as `nm` lists it.
fn c_names(listing: &str) -> Vec<String> {
    let of_ours = |line: &&str| CRATES.iter().any(|own| line.contains(&format!(":{own}")));
    let name = |line: &str| {
        let name = line.rsplit(' ').next()?;
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let of_rust = ["_R", "_ZN", "rust_", "__rust", "__rdl", "__rg"].iter().any(|start| name.starts_with(start));
        (plain && !of_rust).then(|| name.to_owned())
    };
    let mut names: Vec<String> = listing.lines().filter(of_ours).filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_workspace_finds_the_library() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let config = config(root).unwrap();
        assert!(config.contains(&format!("-Clink-arg={}", root.join(OBJECT).display())), "{config}");
        assert!(config.contains(&format!("-L{}", root.join(FOLDER).display())), "{config}");
    }

    #[test]
    fn the_tests_of_std_have_no_other_std() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let config = config_with_whole_std(root).unwrap();
        assert!(config.contains("libc.o") && !config.contains(STD_FLAG), "{config}");
    }

    #[test]
    fn names_of_c_are_found() {
        let listing = "lib.a:capos_libc-1.o:0000 T malloc\nlib.a:capos_libc-1.o:0000 T _RNvCs1_4core3abc\n\
                       lib.a:core-1.o:0000 T memchr\nlib.a:capos_mem-2.o:0000 W memcpy\n\
                       lib.a:capos_libc-1.o:0000 R anon.1.2\nlib.a:capos_libc-2.o:0000 D environ\n";
        assert_eq!(c_names(listing), ["environ", "malloc", "memcpy"]);
    }
}

//! The packages of the workspace, as cargo lists them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::build::toolchain;

/// A program of the guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// Its name on the image, in `/bin`.
    pub name: String,
    /// The package that builds it.
    pub package: String,
    /// Whether it is there to test the system: such programs go on the images of scenarios only.
    pub test: bool,
    /// Whether it uses `std` and the C library, or the runtime alone.
    pub std: bool,
    /// How large its file on the image may be, in KiB, if its package says so.
    pub max_kib: Option<u64>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    targets: Vec<Target>,
    #[serde(default)]
    metadata: Option<Notes>,
}

/// The parts of a package's manifest that are not for cargo.
#[derive(Deserialize)]
struct Notes {
    #[serde(default)]
    capos: OurNotes,
}

/// `[package.metadata.capos]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OurNotes {
    /// Whether the package uses `std`, if its folder does not say so.
    #[serde(default)]
    std: bool,
    /// How large each of its programs may be on the image, in KiB.
    #[serde(default)]
    max_kib: Option<u64>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// A folder of the guest's programs.
struct Folder {
    name: &'static str,
    test: bool,
    std: bool,
}

const FOLDERS: [Folder; 5] = [
    Folder { name: "services", test: false, std: false },
    Folder { name: "examples", test: false, std: false },
    Folder { name: "programs", test: false, std: true },
    Folder { name: "tests", test: true, std: false },
    Folder { name: "std-tests", test: true, std: true },
];

/// Every program of the guest in the workspace at `root`, by name.
pub fn programs(root: &Path) -> Result<Vec<Program>> {
    parse(&toolchain::metadata(root, &["--no-deps"])?, root)
}

fn parse(json: &[u8], root: &Path) -> Result<Vec<Program>> {
    let metadata: Metadata = serde_json::from_slice(json).context("reading what cargo metadata says")?;
    let mut programs = Vec::new();
    for package in metadata.packages {
        let place = Path::new(&package.manifest_path);
        let folder = FOLDERS.iter().find(|folder| place.starts_with(root.join("userspace").join(folder.name)));
        let Some(&Folder { test, std, .. }) = folder else { continue };
        let notes = package.metadata.map(|notes| notes.capos).unwrap_or_default();
        let (std, max_kib) = (std || notes.std, notes.max_kib);
        let binaries = package.targets.into_iter().filter(|target| target.kind.iter().any(|kind| kind == "bin"));
        let program = |target: Target| Program { name: target.name, package: package.name.clone(), test, std, max_kib };
        programs.extend(binaries.map(program));
    }
    programs.sort();
    let twice = programs.windows(2).find(|pair| matches!(pair, [one, other] if one.name == other.name));
    ensure!(twice.is_none(), "two packages build a program of the same name: {twice:?}");
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, target: &str, kind: &str) -> String {
        format!(
            r#"{{"name":"{name}","manifest_path":"/w/{folder}/Cargo.toml","targets":[{{"name":"{target}","kind":["{kind}"]}}]}}"#
        )
    }

    fn read(packages: &[String]) -> Result<Vec<Program>> {
        parse(format!(r#"{{"packages":[{}]}}"#, packages.join(",")).as_bytes(), Path::new("/w"))
    }

    #[test]
    fn binaries_of_the_guests_folders_count() {
        let found = read(&[
            package("svc", "userspace/services/shell", "shell", "bin"),
            package("ex", "userspace/examples/hello", "hello", "bin"),
            package("kv", "userspace/programs/kv", "kv", "bin"),
            package("bad", "userspace/tests/hostile", "hostile", "bin"),
            package("lib", "userspace/services/x", "x", "lib"),
            package("tools", "tools/capos", "capos", "bin"),
        ])
        .unwrap();
        let names: Vec<_> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["hello", "hostile", "kv", "shell"]);
        assert_eq!(found.iter().map(|program| program.test).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(found.iter().map(|program| program.std).collect::<Vec<_>>(), [false, false, true, false]);
    }

    #[test]
    fn a_package_can_say_that_it_stands_on_std() {
        let plain = package("ex", "userspace/examples/kv", "kv", "bin");
        let noted = plain.replacen('{', r#"{"metadata":{"capos":{"std":true}},"#, 1);
        assert!(read(std::slice::from_ref(&noted)).unwrap()[0].std);
        assert!(!read(&[plain.replacen('{', r#"{"metadata":{"docs":{}},"#, 1)]).unwrap()[0].std);
        assert!(read(&[noted.replace("std", "st")]).is_err());
    }

    #[test]
    fn a_package_can_say_how_large_its_programs_may_be() {
        let plain = package("hello", "userspace/programs/hello-std", "hello-std", "bin");
        assert_eq!(read(std::slice::from_ref(&plain)).unwrap()[0].max_kib, None);
        let noted = plain.replacen('{', r#"{"metadata":{"capos":{"max_kib":400}},"#, 1);
        assert_eq!(read(&[noted]).unwrap()[0].max_kib, Some(400));
    }

    #[test]
    fn one_name_for_two_programs_is_refused() {
        let one = package("a", "userspace/services/a", "shell", "bin");
        let other = package("b", "userspace/tests/b", "shell", "bin");
        assert!(read(&[one, other]).is_err());
    }
}

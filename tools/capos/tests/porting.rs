//! The table of `docs/porting.md` is what `userspace/std-tests/crate-test` checks, no more and no less.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Names of the tests of the modules, as libtest prints them.
fn checks() -> BTreeSet<String> {
    let mut checks = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("userspace/std-tests/crate-test/src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[test]") {
            let name = pair[1].strip_prefix("fn ").and_then(|rest| rest.split_once('(')).unwrap().0;
            checks.insert(format!("{module}::{name}"));
        }
    }
    checks
}

/// The lock file's entry of each package.
fn versions() -> BTreeMap<String, BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let lock: Lock = toml::from_str(&read("userspace/std-tests/crate-test/Cargo.lock")).unwrap();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.package {
        versions.entry(package.name).or_default().insert(package.version);
    }
    versions
}

#[test]
fn the_table_lists_what_is_checked() {
    let manifest: toml::Table = toml::from_str(&read("userspace/std-tests/crate-test/Cargo.toml")).unwrap();
    let used: BTreeSet<String> = manifest["dependencies"].as_table().unwrap().keys().cloned().collect();
    let (checks, versions) = (checks(), versions());
    let page = read("docs/porting.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    let mut listed = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for row in &rows {
        let [_, name, version, check, _] = row[..] else { panic!("a row of docs/porting.md is odd: {row:?}") };
        let locked = versions.get(name).is_some_and(|versions| versions.contains(version));
        assert!(locked, "docs/porting.md: {name} {version} is not the lock file's: {:?}", versions.get(name));
        assert!(checks.contains(check), "docs/porting.md: {name} has no check {check}");
        listed.insert(name.to_owned());
        shown.insert(check.to_owned());
    }
    assert!(listed.len() >= 30, "{} crates are listed", listed.len());
    assert_eq!(listed, used, "the crates of docs/porting.md and of crate-test's manifest");
    assert_eq!(shown, checks, "the checks of docs/porting.md and of crate-test");
}

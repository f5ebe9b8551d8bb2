//! Where upstream test suites come from: crates as cargo unpacks them from the registry, and the standard library's
//! source that comes with a compiler. Both are made into workspaces below `target`; nothing of them is kept in the
//! repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use toml::{Table, Value};

use crate::build::c_library;
use crate::build::toolchain::{self, LibrarySource};
use crate::suites::upstream::catalogue::Suite;
use capos_host::files;

/// The package whose dependencies are the crates, below the source folder.
const PACKAGE: &str = "tests/upstream/Cargo.toml";
/// A package's manifest.
const MANIFEST: &str = "Cargo.toml";
/// How cargo builds a workspace, in the folder where it builds it.
pub const CONFIG: &str = "cargo-config.toml";
/// Sections of a manifest that name dependencies of tests.
const DEVELOPMENT: &str = "dev-dependencies";
/// How the suites are compiled: as `cargo test` does, but optimised a little, without debugging information.
const PROFILE: &str = "[profile.suite]\ninherits = \"dev\"\nopt-level = 1\ndebug = false\nincremental = false\n";

/// A workspace of suites that one compiler builds.
#[derive(Debug)]
pub struct Workspace<'a> {
    /// Its folder.
    pub folder: PathBuf,
    /// Where it is built, and how cargo is to build it.
    pub target: PathBuf,
    /// Its lock file in the source.
    pub lock: PathBuf,
    /// The standard library's source, if its tests are in it.
    pub std_source: Option<LibrarySource>,
    /// Its members: the suite and its manifest.
    pub members: Vec<(&'a Suite, PathBuf)>,
}

/// Makes the workspaces of the wanted suites. Their members are all suites there are, so that one lock file fits.
pub fn workspaces<'a>(root: &Path, all: &'a [Suite], wanted: &dyn Fn(&Suite) -> bool) -> Result<Vec<Workspace<'a>>> {
    let (own, foreign): (Vec<&Suite>, Vec<&Suite>) = all.iter().partition(|suite| suite.path.is_some());
    let (of_library, of_registry): (Vec<&Suite>, Vec<&Suite>) =
        foreign.into_iter().partition(|suite| suite.rust_src.is_some());
    let any = |suites: &[&Suite]| suites.iter().any(|suite| wanted(suite));
    let mut workspaces = Vec::new();
    if any(&of_registry) {
        workspaces.push(registry(root, &of_registry)?);
    }
    if any(&of_library) {
        workspaces.push(library(root, &of_library)?);
    }
    for suite in own.into_iter().filter(|suite| wanted(suite)) {
        let folder = root.join(suite.path.as_deref().unwrap_or_default());
        let (lock, members) = (folder.join("Cargo.lock"), vec![(suite, folder.join(MANIFEST))]);
        let target = configured(root.join("target/upstream").join(&suite.name), &c_library::config(root)?)?;
        workspaces.push(Workspace { folder, target, lock, std_source: None, members });
    }
    Ok(workspaces)
}

/// The folder, with the settings by which cargo builds for capOS.
fn configured(target: PathBuf, config: &str) -> Result<PathBuf> {
    files::write_if_changed(&target.join(CONFIG), config.as_bytes())?;
    Ok(target)
}

/// Where cargo has unpacked each crate.
fn unpacked(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        manifest_path: PathBuf,
        source: Option<String>,
    }
    let json = toolchain::metadata(root, &["--locked", "--manifest-path", PACKAGE])
        .with_context(|| format!("fetching the crates of {PACKAGE}"))?;
    let metadata: Metadata = serde_json::from_slice(&json).context("reading what cargo metadata says")?;
    let crates = metadata.packages.into_iter().filter(|package| package.source.is_some());
    Ok(crates.filter_map(|it| Some((it.name, it.manifest_path.parent()?.to_owned()))).collect())
}

fn registry<'a>(root: &Path, suites: &[&'a Suite]) -> Result<Workspace<'a>> {
    let sources = unpacked(root)?;
    let folder = root.join("target/upstream/registry");
    let mut members = Vec::new();
    for suite in suites {
        let source = sources
            .get(&suite.name)
            .with_context(|| format!("the suite `{}` is of a crate that {PACKAGE} does not depend on", suite.name))?;
        let name = source.file_name().with_context(|| format!("{} is no folder of a crate", source.display()))?;
        let place = folder.join(name);
        for file in files::walk(source)?.into_iter().filter(|file| *file != source.join(MANIFEST)) {
            files::copy_if_newer(&file, &place.join(file.strip_prefix(source)?))?;
        }
        let text = std::fs::read_to_string(source.join(MANIFEST)).context("reading a crate's manifest")?;
        let manifest = trimmed(&text, suite).with_context(|| format!("the manifest of `{}`", suite.name))?;
        let path = place.join(MANIFEST);
        files::write_if_changed(&path, manifest.as_bytes())?;
        members.push((*suite, path));
    }
    finish(root, folder, "registry.lock", members, None)
}

/// A crate's manifest without its benchmarks, its examples and their own dependencies.
fn trimmed(text: &str, suite: &Suite) -> Result<String> {
    let mut manifest: Table = toml::from_str(text)?;
    for section in ["bench", "example"] {
        manifest.remove(section);
    }
    let mut without = suite.without.clone();
    let mut trim = |table: &mut Table| {
        if let Some(Value::Table(dependencies)) = table.get_mut(DEVELOPMENT) {
            without.retain(|name| dependencies.remove(name).is_none());
        }
    };
    trim(&mut manifest);
    if let Some(Value::Table(targets)) = manifest.get_mut("target") {
        targets.iter_mut().filter_map(|(_, target)| target.as_table_mut()).for_each(trim);
    }
    ensure!(without.is_empty(), "it has no development dependency {without:?} that could be left out");
    Ok(toml::to_string(&manifest)?)
}

fn library<'a>(root: &Path, suites: &[&'a Suite]) -> Result<Workspace<'a>> {
    let library = toolchain::library_source()?;
    let folder = root.join("target/upstream/rust-src");
    let mut members = Vec::new();
    for suite in suites {
        let Some(wanted) = &suite.rust_src else { continue };
        let target = |(name, path): (&String, &String)| {
            let path = library.path.join(path).display().to_string();
            Value::Table([("name".into(), name.clone().into()), ("path".into(), path.into())].into_iter().collect())
        };
        let tests: Vec<Value> = wanted.targets.iter().map(target).collect();
        let mut manifest = Table::new();
        let package = [("name", &*suite.name), ("version", "0.0.0"), ("edition", "2024")];
        let package: Table = package.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        manifest.insert("package".into(), package.into());
        manifest.insert("test".into(), tests.into());
        manifest.insert(DEVELOPMENT.into(), wanted.dependencies.clone().into());
        let path = folder.join(&suite.name).join(MANIFEST);
        files::write_if_changed(&path, toml::to_string(&manifest)?.as_bytes())?;
        members.push((*suite, path));
    }
    finish(root, folder, "rust-src.lock", members, Some(library))
}

/// Writes the common part of the members.
fn finish<'a>(
    root: &Path,
    folder: PathBuf,
    lock: &str,
    members: Vec<(&'a Suite, PathBuf)>,
    std_source: Option<LibrarySource>,
) -> Result<Workspace<'a>> {
    let name = |path: &PathBuf| Some(path.parent()?.file_name()?.to_str()?.to_owned());
    let names: Vec<String> = members.iter().filter_map(|(_, path)| name(path)).collect();
    let text = format!("[workspace]\nresolver = \"2\"\nmembers = {names:?}\n\n{PROFILE}");
    files::write_if_changed(&folder.join(MANIFEST), text.as_bytes())?;
    let config = match std_source {
        Some(_) => c_library::config_with_whole_std(root)?,
        None => c_library::config(root)?,
    };
    let target = configured(folder.join("target"), &config)?;
    let lock = root.join("tests/upstream").join(lock);
    if let Ok(locked) = std::fs::read(&lock) {
        files::write_if_changed(&folder.join("Cargo.lock"), &locked)?;
    }
    Ok(Workspace { folder, target, lock, std_source, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(without: &[&str]) -> Suite {
        let text = format!("name = 'a'\nwithout = {without:?}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_manifest_loses_its_benchmarks_alone() {
        let text = "[package]\nname = 'a'\n[[bench]]\nname = 'b'\n[[test]]\nname = 't'\n[dev-dependencies]\nrand = '1'\n\
                    [target.'cfg(unix)'.dev-dependencies.criterion]\nversion = '1'\n";
        let trimmed = trimmed(text, &suite(&["criterion"])).unwrap();
        assert!(trimmed.contains("[[test]]") && trimmed.contains("rand"), "{trimmed}");
        assert!(!trimmed.contains("bench") && !trimmed.contains("criterion"), "{trimmed}");
        assert!(super::trimmed(text, &suite(&["quickcheck"])).is_err());
    }
}

//! Groups of tests that are run together.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// The file that names the tests of each group.
const FILE: &str = "tests/groups.toml";

/// The names of the tests of each group.
pub struct Groups(BTreeMap<String, Vec<String>>);

impl Groups {
    /// Those of the sources in this folder.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Self(toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?))
    }

    /// Whether a part of all tests selects the test of this name: by a text in its name, or as the name of a group that has it.
    pub fn select(&self, part: &str, name: &str) -> bool {
        name.contains(part) || self.0.get(part).is_some_and(|tests| tests.iter().any(|test| test == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::SCENARIOS;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// A package or scenario that is renamed does not leave its group unnoticed.
    #[test]
    fn each_test_of_a_group_exists() {
        let root = root();
        let metadata = crate::build::toolchain::metadata(&root, &["--no-deps"]).unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&metadata).unwrap();
        let packages: Vec<&str> =
            metadata["packages"].as_array().unwrap().iter().filter_map(|package| package["name"].as_str()).collect();
        for (group, tests) in &Groups::read(&root).unwrap().0 {
            assert!(!tests.is_empty(), "{group} has no test");
            for test in tests {
                let exists = match test.split_once('/') {
                    Some(("host", package)) => packages.contains(&package),
                    Some(("qemu", name)) => {
                        SCENARIOS.iter().any(|folder| root.join(folder).join(name).join("terminal.txt").is_file())
                    }
                    _ => false,
                };
                assert!(exists, "group {group} names {test}, and there is no such package or scenario");
            }
        }
    }

    #[test]
    fn a_part_selects_by_text_and_by_group() {
        let groups = Groups::read(&root()).unwrap();
        for name in ["host/capos-budget", "qemu/background", "host/capos-runner"] {
            assert!(groups.select("runner", name), "{name}");
        }
        for name in ["host", "host/capos-engine", "qemu/storage-full", "qemu"] {
            assert!(!groups.select("runner", name), "{name}");
        }
        assert!(groups.select("storage", "qemu/storage-full") && groups.select("", "qemu/boot"));
    }
}

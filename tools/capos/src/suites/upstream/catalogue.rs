//! `tests/upstream/suites.toml`: which upstream test suites run on capOS, and which of their tests do not, with reasons.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The list, below the source folder.
pub const FILE: &str = "tests/upstream/suites.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    suite: Vec<Suite>,
}

/// A crate's tests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The crate, one of `tests/upstream/Cargo.toml`; a name alone if the tests are the standard library's.
    pub name: String,
    /// Test targets to run, `lib` for the tests in the library itself; all when left out.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Features to turn on.
    #[serde(default)]
    pub features: Vec<String>,
    /// Development dependencies that only benchmarks and examples need: these are not built, so neither are those.
    #[serde(default)]
    pub without: Vec<String>,
    /// A package of this repository, a workspace of its own, in place of a crate.
    pub path: Option<String>,
    /// Tests of the standard library's source, in place of a crate's.
    pub rust_src: Option<RustSrc>,
    /// How long each of its programs may run, in seconds of the machine.
    #[serde(default = "Suite::usual_seconds")]
    pub seconds: u64,
    /// Memory of each of its programs.
    #[serde(default = "Suite::usual_memory")]
    pub memory_mib: u64,
    /// Whether it is a part of `make test`.
    #[serde(default)]
    pub ci: bool,
    /// Tests that are not run.
    #[serde(default)]
    pub skip: Vec<Skip>,
}

/// Tests in the source of the standard library.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RustSrc {
    /// Test targets, each with its file below `library`.
    pub targets: BTreeMap<String, String>,
    /// Their dependencies, as in a manifest.
    #[serde(default)]
    pub dependencies: toml::Table,
}

/// Tests that are left out for one reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// Why.
    pub why: String,
    /// Their names.
    pub tests: Vec<String>,
}

impl Suite {
    fn usual_seconds() -> u64 {
        600
    }

    fn usual_memory() -> u64 {
        512
    }

    /// Names of all tests that are left out.
    pub fn skipped(&self) -> impl Iterator<Item = &str> {
        self.skip.iter().flat_map(|skip| skip.tests.iter().map(String::as_str))
    }
}

/// Reads the list of the source at `root`.
pub fn read(root: &Path) -> Result<Vec<Suite>> {
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Suite>> {
    let list: List = toml::from_str(text)?;
    for (place, suite) in list.suite.iter().enumerate() {
        let name = &suite.name;
        ensure!(
            suite.path.is_none() || suite.rust_src.is_none(),
            "suite `{name}`: its tests are in a package or in the standard library's source, not in both"
        );
        ensure!(!list.suite.iter().take(place).any(|other| other.name == *name), "the suite `{name}` is there twice");
        for skip in &suite.skip {
            ensure!(!skip.why.trim().is_empty(), "suite `{name}`: tests are skipped without saying why");
        }
        let mut skipped: Vec<&str> = suite.skipped().collect();
        skipped.sort_unstable();
        let twice = skipped.windows(2).find(|pair| matches!(pair, [one, other] if one == other));
        ensure!(twice.is_none(), "suite `{name}`: a test is skipped twice: {twice:?}");
    }
    Ok(list.suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_read() {
        let text = "[[suite]]\nname = 'a'\nskip = [{ why = 'no processes', tests = ['x::y', 'z'] }]\n\
                    [[suite]]\nname = 'core'\nrust_src = { targets = { coretests = 'coretests/tests/lib.rs' } }\n";
        let suites = parse(text).unwrap();
        assert_eq!(suites[0].skipped().collect::<Vec<_>>(), ["x::y", "z"]);
        assert_eq!((suites[0].seconds, suites[0].ci), (600, false));
        assert_eq!(suites[1].rust_src.as_ref().unwrap().targets["coretests"], "coretests/tests/lib.rs");
    }

    #[test]
    fn mistakes_are_told() {
        for (text, part) in [
            ("[[suite]]\nname = 'a'\n[[suite]]\nname = 'a'\n", "twice"),
            ("[[suite]]\nname = 'a'\nskip = [{ why = ' ', tests = ['x'] }]\n", "without saying why"),
            ("[[suite]]\nname = 'a'\nskip = [{ why = 'w', tests = ['x', 'x'] }]\n", "skipped twice"),
            ("[[suite]]\nname = 'a'\nskips = []\n", "skips"),
            ("[[suite]]\nname = 'a'\npath = 'x'\nrust_src.targets = {}\n", "not in both"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_list_in_the_source_is_right() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        assert!(read(root).unwrap().iter().any(|suite| suite.ci), "no suite is a part of `make test`");
    }
}

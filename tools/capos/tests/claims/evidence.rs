//! The evidence of a claim: tests, scenarios and commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capos_host::files;
use capos_tools::scenario::checks::Checks;

use crate::pages::quoted;
use crate::{root, text};

/// The folders of scenarios, with the prefixes of their names in a claim.
const SCENARIOS: [(&str, &str); 3] =
    [("tests/scenarios", "qemu/"), ("tools/scenarios", "qemu/"), ("tests/bench", "tests/bench/")];

/// Crates whose property tests all have to be in a claim.
const PURE_CRATES: [&str; 7] = ["abi", "captable", "elf", "machine", "paging", "sync", "sched"];

/// A scenario's folder and the part after its name, of `qemu/NAME`, `qemu/NAME/PART` or `tests/bench/NAME`.
fn scenario(test: &str) -> Option<(PathBuf, &str)> {
    SCENARIOS.iter().find_map(|(folder, prefix)| {
        let name = test.strip_prefix(prefix)?;
        let (name, part) = name.split_once('/').unwrap_or((name, ""));
        let folder = root().join(folder).join(name);
        folder.join("terminal.txt").is_file().then_some((folder, part))
    })
}

/// Why a test does not exist, if it does not.
pub fn absent(test: &str) -> Option<String> {
    if let Some((path, function)) = test.split_once("::") {
        let source = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        return (!source.contains(&format!("fn {function}("))).then(|| format!("{path} has no test {function}"));
    }
    let Some((folder, part)) = scenario(test) else { return Some("it is neither a scenario nor a function".into()) };
    let name = folder.file_name().unwrap().to_str().unwrap();
    let inside = match (name, part) {
        (_, "") => true,
        ("kernel-tests", _) => kernel_tests().contains(test),
        ("refusals", _) => text("kernel/kernel/src/tests_in_kernel/start.rs").contains(&format!("\"{part}\"")),
        ("hostile", _) => text("userspace/tests/hostile/src/runner/plan.rs").contains(&format!("\"{part}\"")),
        _ => false,
    };
    (!inside).then(|| format!("{name} has no test {part}"))
}

/// Whether a test names a requirement: a scenario in `check.toml`, a function in the file that it is in. The parts of
/// `qemu/kernel-tests`, `qemu/refusals` and `qemu/hostile` need not.
pub fn names(test: &str, row: &str) -> bool {
    if let Some((path, _)) = test.split_once("::") {
        let source = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        return source.contains(row) || source.contains(&format!("{}_", row.to_lowercase()));
    }
    scenario(test).is_some_and(|(folder, part)| {
        !part.is_empty() || Checks::open(&folder).unwrap().rows.iter().any(|named| named == row)
    })
}

/// The crate that a file belongs to.
fn crate_of(path: &str) -> Option<String> {
    let manifests = Path::new(path).ancestors().skip(1).map(|folder| root().join(folder).join("Cargo.toml"));
    let manifest = manifests.filter_map(|path| std::fs::read_to_string(path).ok()).next()?;
    Some(manifest.lines().find_map(|line| line.strip_prefix("name = \""))?.trim_end_matches('"').to_owned())
}

/// Whether a command runs a test.
pub fn runs(command: &str, test: &str) -> bool {
    let mut words = command.split_whitespace();
    if let Some((path, _)) = test.split_once("::") {
        let file = Path::new(path).file_stem().unwrap().to_str().unwrap();
        let target = command.split(" --test ").nth(1);
        return command.starts_with("cargo test")
            && crate_of(path).is_some_and(|name| words.any(|word| word == name))
            && target.is_none_or(|target| target == file);
    }
    words.any(|word| {
        word.strip_prefix("ONLY=").is_some_and(|part| test.contains(part))
            || word.strip_prefix("SCENARIO=") == Some(test)
    })
}

/// Why a command cannot be given, if it cannot.
pub fn unknown(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["make", target, ..] => {
            let targets = text("Makefile");
            let known =
                targets.lines().any(|line| line.split(':').next().unwrap().split(' ').any(|name| name == *target));
            (!known).then(|| format!("the Makefile has no target {target}"))
        }
        ["cargo", "test", rest @ ..] => {
            let crates = rest.windows(2).filter(|pair| pair[0] == "-p").map(|pair| pair[1]);
            let lock = text("Cargo.lock");
            let strange: Vec<&str> = crates.filter(|name| !lock.contains(&format!("name = \"{name}\""))).collect();
            (!strange.is_empty()).then(|| format!("there is no crate {strange:?}"))
        }
        _ => Some("it is neither make nor cargo test".into()),
    }
}

/// The tests that run inside the kernel, as `qemu/kernel-tests/NAME`.
pub fn kernel_tests() -> BTreeSet<String> {
    let files = ["mod", "machine"].map(|file| text(&format!("kernel/kernel/src/tests_in_kernel/{file}.rs")));
    let names = files.iter().flat_map(|source| source.lines()).filter_map(|line| line.trim().strip_prefix("(\""));
    let names = names.filter_map(|rest| rest.split_once("\", ")).map(|(name, _)| format!("qemu/kernel-tests/{name}"));
    names.collect()
}

/// Each scenario, with the requirements that its `check.toml` names.
pub fn scenarios() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (folder, prefix) in SCENARIOS {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.join("terminal.txt").is_file() {
                let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
                found.push((name, Checks::open(&path).unwrap().rows));
            }
        }
    }
    assert!(found.len() > 50, "{found:?}");
    found
}

/// The functions inside `proptest!` of the kernel's pure crates, as `path::function`.
pub fn property_tests() -> BTreeSet<String> {
    let folders = PURE_CRATES.map(|folder| root().join("kernel").join(folder));
    let paths = folders.iter().flat_map(|folder| files::walk(folder).unwrap());
    let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    sources.flat_map(|path| property_tests_of(&path)).collect()
}

fn property_tests_of(path: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(path).unwrap();
    let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for block in source.split("proptest! {\n").skip(1) {
        // The block ends at a brace with the same indent as the macro.
        let indent = block.find(|letter| letter != ' ').unwrap().saturating_sub(4);
        let end = format!("\n{}}}\n", " ".repeat(indent));
        let inside = &block[..block.find(&end).unwrap_or_else(|| panic!("{path}: a proptest! does not end"))];
        let functions = inside.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
        found.extend(functions.map(|line| format!("{path}::{}", line.split('(').next().unwrap())));
    }
    found
}

#[test]
fn commands_and_the_tests_that_they_run_are_told_apart() {
    assert!(runs("cargo test -p capos-abi -p capos-sync", "kernel/sync/tests/properties.rs::a"));
    assert!(!runs("cargo test -p capos-abi", "kernel/sync/tests/properties.rs::a"));
    assert!(runs("cargo test -p capos-tools --test claims", "tools/capos/tests/claims.rs::a"));
    assert!(!runs("cargo test -p capos-tools --test claims", "tools/capos/tests/weights.rs::a"));
    assert!(runs("make test ONLY=qemu/hostile", "qemu/hostile/pointers"));
    assert!(!runs("make test ONLY=qemu/boot", "qemu/hostile/pointers"));
    assert_eq!(unknown("make iso"), None);
    assert!(
        unknown("make coffee").is_some() && unknown("cargo test -p no-such").is_some() && unknown("true").is_some()
    );
    assert_eq!(quoted("`a`, and `b c`"), ["a", "b c"]);
}

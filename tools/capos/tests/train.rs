//! The Python programs of `tools/train`, which make the data of the built-in model.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn the_tests_of_the_training_data_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../train");
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-v", "--start-directory", "tests", "--top-level-directory", "."])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("python3 cannot be started: {error}; `make deps` installs it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, why) in said.lines().filter_map(|line| line.split_once("skipped ")) {
        *left_out.entry(why.trim_matches('\'')).or_default() += 1;
    }
    for (why, count) in left_out {
        // Output of macros is shown for failed tests only. The line must not follow a test's name.
        let line = format!("\nnot run: {count} tests of tools/train: {why}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

//! The Python programs of `tools/train`, which make the data of the built-in model.
#![allow(clippy::unwrap_used, clippy::panic)]

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
    for skipped in said.lines().filter(|line| line.contains("skipped ")) {
        eprintln!("{skipped}");
    }
}

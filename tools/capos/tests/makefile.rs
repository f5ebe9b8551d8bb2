//! The Makefile's variables.

#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::path::Path;
use std::process::Command;

/// The commands of `make run` with this `MODEL`, and the value that they get. Nothing is executed.
fn run(model: &str) -> (String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut make = Command::new("make");
    // An outer make would hand its own variables down.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKEOVERRIDES").env_remove("MODEL");
    let output = make
        .args(["--dry-run", "--print-data-base", "run", &format!("MODEL={model}")])
        .current_dir(root)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix("run: MODEL ")).unwrap();
    (text.clone(), value.trim_start_matches([':', '=', ' ']).into())
}

#[test]
fn a_published_model_is_fetched_by_its_short_name() {
    let script = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../infer/compare/trained.py")).unwrap();
    for (short, long) in [
        ("smollm2", "smollm2-135m-instruct-q4_1"),
        ("gemma-3", "gemma-3-270m-q4_k_m"),
        ("qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m"),
    ] {
        assert!(script.contains(&format!("    \"{long}\": Published(")), "{long}");
        let (text, value) = run(&format!("{short} mine.gguf"));
        assert_eq!(value, format!("target/models/{long}.gguf mine.gguf"));
        assert!(text.contains(&format!("trained.py target/models {long}")), "{short}");
    }
}

#[test]
fn other_models_are_taken_as_they_are_named() {
    for model in ["mine.gguf", "'my  models/smollm2.gguf'", "models/smollm2"] {
        assert_eq!(run(model).1, model);
    }
}

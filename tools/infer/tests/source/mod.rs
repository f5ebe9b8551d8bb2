//! The source of the built-in model, `tools/train`.

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn train() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../train")
}

/// The output of a command, which must succeed.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn python(arguments: &[&str]) -> String {
    output(Command::new("python3").arg("-B").args(arguments).current_dir(train()))
}

/// A model file without weights.
pub fn vocabulary(folder: &Path) -> PathBuf {
    let model = folder.join("model.gguf");
    python(&["-m", "capos_model", "vocabulary", "--out", model.to_str().unwrap()]);
    model
}

/// A list of words of the model's source.
pub fn words(name: &str) -> Vec<String> {
    let list = std::fs::read_to_string(train().join(format!("data/{name}.json"))).unwrap();
    serde_json::from_str(&list).unwrap()
}

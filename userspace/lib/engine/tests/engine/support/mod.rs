//! The models in `tests/infer/models` and their expected results.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

use capos_engine::kernel::{self, Kernels};
use serde_json::Value;

/// All kernels that can run here, those with AMX among them if the system permits it. The others are named in a line,
/// once for each test program, which `capos test` repeats after its count.
pub fn kernels() -> Vec<&'static dyn Kernels> {
    static TOLD: Once = Once::new();
    capos_engine_threads::permit_tiles();
    let found = kernel::available();
    TOLD.call_once(|| {
        let names: Vec<&str> = found.iter().map(|kernels| kernels.name()).collect();
        for line in left_out(&names) {
            // Output of macros is shown for failed tests only. The line must not stand after a test's name.
            std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).unwrap();
        }
    });
    found
}

/// The text about kernels that are not among those found.
pub fn left_out(found: &[&str]) -> Vec<String> {
    let missing = kernel::NAMES.into_iter().filter(|name| !found.contains(name));
    missing.map(|name| format!("not run: kernels {name}, which this processor or its system does not have")).collect()
}

/// The kernels with which each token's results are the same in any pass.
pub fn exact_kernels() -> impl Iterator<Item = &'static dyn Kernels> {
    kernels().into_iter().filter(|kernels| !["avx2", "avx512", "amx"].contains(&kernels.name()))
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/infer/models")
}

/// The model files of a folder and of the folders in it.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "gguf") {
            found.push(path);
        }
    }
    found
}

/// A model's name, which is its file's without the extension.
pub fn name(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// The file of the model with this name, in whichever folder it is.
pub fn path(wanted: &str) -> PathBuf {
    files(&folder()).into_iter().find(|path| name(path) == wanted).unwrap()
}

/// A prompt, and the reference's results after it.
pub struct Expected {
    pub ids: Vec<u32>,
    pub logits: Vec<f64>,
    pub greedy: Vec<u32>,
    pub ahead: Vec<f64>,
}

pub fn tokens(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// A model file, and its expected results after each prompt.
pub fn read_all(name: &str) -> (Vec<u8>, Vec<Expected>) {
    let path = self::path(name);
    let file = fs::read(&path).unwrap();
    let text = fs::read_to_string(path.with_extension("json")).unwrap();
    let first: Value = serde_json::from_str(&text).unwrap();
    let expected = |case: &Value| Expected {
        ids: tokens(&case["ids"]),
        logits: numbers(&case["logits"]),
        greedy: tokens(&case["greedy"]),
        ahead: numbers(&case["ahead"]),
    };
    let mut all = vec![expected(&first)];
    all.extend(first["more"].as_array().unwrap().iter().map(expected));
    (file, all)
}

/// A model file, and its expected results after the first prompt.
pub fn read(name: &str) -> (Vec<u8>, Expected) {
    let (file, mut all) = read_all(name);
    (file, all.remove(0))
}

/// How far the logits are from the expected ones, relative to these.
pub fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let apart = square(&mut found.iter().zip(expected).map(|(found, expected)| f64::from(*found) - expected));
    (apart / square(&mut expected.iter().copied())).sqrt()
}

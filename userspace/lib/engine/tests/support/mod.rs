//! The models in `tests/infer/models` and what is expected of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/infer/models")
}

pub struct Expected {
    pub ids: Vec<u32>,
    pub logits: Vec<f64>,
    pub greedy: Vec<u32>,
    pub ahead: Vec<f64>,
}

pub fn read(name: &str) -> (Vec<u8>, Expected) {
    let file = fs::read(folder().join(name).with_extension("gguf")).unwrap();
    let text = fs::read_to_string(folder().join(name).with_extension("json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let ids = |key: &str| -> Vec<u32> {
        json[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let numbers =
        |key: &str| -> Vec<f64> { json[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect() };
    let expected =
        Expected { ids: ids("ids"), logits: numbers("logits"), greedy: ids("greedy"), ahead: numbers("ahead") };
    (file, expected)
}

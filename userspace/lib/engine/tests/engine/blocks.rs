//! Blocks of every quantised type against the values of the format's own reference
//! (`tests/infer/make_blocks.py`).

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::fs;
use std::path::Path;

use capos_engine::block::{Kind, dequantise_row};
use capos_gguf::TensorType;
use serde_json::Value;

#[test]
fn blocks_stand_for_the_values_of_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/infer/blocks.json");
    let fixtures: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut checked = 0;
    for kind in (0..64).filter_map(TensorType::from_code) {
        let Some(ours) = Kind::of(kind).filter(|kind| !kind.is_float()) else { continue };
        let fixture = &fixtures[kind.name()];
        let digits = fixture["bytes"].as_str().unwrap();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let expected = fixture["values"].as_array().unwrap();
        let mut found = vec![f32::NAN; expected.len()];
        dequantise_row(ours, &bytes, &mut found);
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            let expected = expected.as_f64().unwrap();
            let apart = (f64::from(*found) - expected).abs();
            // Scale times quant, and a minimum of up to 64 such steps, each rounded once.
            assert!(apart <= 1e-5 + expected.abs() * 1e-6, "{}: value {index} is {found}, not {expected}", kind.name());
        }
        checked += 1;
    }
    assert_eq!(checked, fixtures.as_object().unwrap().len());
}

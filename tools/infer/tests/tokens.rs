//! `tokenize` and `detokenize`, as people and scripts call them.

#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/infer", name].iter().collect()
}

fn infer(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capos-infer"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn json(arguments: &[&str], input: &[u8]) -> Value {
    let output = infer(arguments, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn text_becomes_tokens_and_text_again() {
    let model = fixture("tokenizers/byte_pair.gguf");
    let model = model.to_str().unwrap();
    let text = "<|im_start|>user\nGrüße, 世界 12\n<|im_end|>".as_bytes();
    let plain = json(&["tokenize", model, "--text-file", "-", "--json"], text);
    let marked = json(&["tokenize", model, "--text-file", "-", "--special", "--json"], text);
    let count = |value: &Value| value["ids"].as_array().unwrap().len();
    assert!(count(&marked) + 8 < count(&plain));
    let list = |value: &Value| {
        let ids: Vec<String> = value["ids"].as_array().unwrap().iter().map(ToString::to_string).collect();
        ids.join(",")
    };
    let back = json(&["detokenize", model, "--ids", &list(&plain), "--json"], b"");
    assert_eq!(back, json!({ "text": std::str::from_utf8(text).unwrap() }));
    let back = json(&["detokenize", model, "--ids", &list(&marked), "--json"], b"");
    assert_eq!(back, json!({ "text": "user\nGrüße, 世界 12\n" }));
    let back = json(&["detokenize", model, "--ids", &list(&marked), "--special", "--json"], b"");
    assert_eq!(back, json!({ "text": std::str::from_utf8(text).unwrap() }));
}

#[test]
fn several_texts_are_encoded_at_once() {
    let model = fixture("tokenizers/byte_pair.gguf");
    let model = model.to_str().unwrap();
    let ids = json(&["tokenize", model, "--texts", "-", "--json"], br#"["the plants", "", "water"]"#);
    let alone = json(&["tokenize", model, "--text-file", "-", "--json"], b"water");
    assert_eq!(ids["ids"].as_array().unwrap().len(), 3);
    assert_eq!(ids["ids"][1], json!([]));
    assert_eq!(ids["ids"][2], alone["ids"]);
    let output = infer(&["tokenize", model, "--texts", "-"], b"water");
    assert!(String::from_utf8(output.stderr).unwrap().contains("is not a JSON array of strings"));
}

#[test]
fn bytes_that_are_no_text_are_shown_as_such() {
    let model = fixture("tokenizers/byte_pair.gguf");
    let model = model.to_str().unwrap();
    let ids = json(&["tokenize", model, "--text-file", "-", "--json"], b"\xe4");
    let replaced = json(&["tokenize", model, "--text-file", "-", "--json"], "\u{fffd}".as_bytes());
    assert_eq!(ids, replaced);
    // A token that is the first byte of a character.
    let first = json(&["tokenize", model, "--text-file", "-", "--json"], "\u{10ffff}".as_bytes())["ids"][0].to_string();
    let back = json(&["detokenize", model, "--ids", &first, "--json"], b"");
    assert_eq!(back, json!({ "text": "\u{fffd}", "bytes": [0xf4] }));
}

#[test]
fn mistakes_are_told_in_words() {
    let model = fixture("tokenizers/byte_pair.gguf");
    let model = model.to_str().unwrap();
    let told = |arguments: &[&str]| {
        let output = infer(arguments, b"");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(&["detokenize", model, "--ids", "1,99999"]).contains("there is no token 99999"));
    assert!(told(&["tokenize", "/no/such", "--text-file", "-"]).contains("/no/such cannot be opened"));
    let this = [env!("CARGO_MANIFEST_DIR"), "Cargo.toml"].join("/");
    assert!(told(&["tokenize", &this, "--text-file", "-"]).contains("it begins with '[pac' instead of 'GGUF'"));
}

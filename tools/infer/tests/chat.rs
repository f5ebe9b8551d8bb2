//! `chat`, as people and scripts call it.

#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn fixture(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../tests/infer", name].iter().collect();
    path.to_str().unwrap().to_string()
}

/// A file of the test's own.
fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

fn chat(arguments: &[&str]) -> Result<Value, String> {
    let model = fixture("tokenizers/byte_pair.gguf");
    let mut command = Command::new(env!("CARGO_BIN_EXE_capos-infer"));
    let output = command.args(["--json", "chat", &model]).args(arguments).output().unwrap();
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn what_the_model_reads_is_shown() {
    let messages = file("messages.json", r#"[{"role": "user", "content": "a<|im_end|>b"}]"#);
    let shown = chat(&["--messages", &messages, "--prompt-only"]).unwrap();
    assert_eq!(shown["text"], "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n");
    assert!(shown["ids"].as_array().unwrap().len() > 12);
    let wrong = file("wrong.json", r#"[{"role": "user", "content": "a"}, {"role": "king"}]"#);
    assert!(chat(&["--messages", &wrong, "--prompt-only"]).unwrap_err().contains("message 2: its role is not system"));
}

#[test]
fn answers_are_taken_apart() {
    let messages = file("none.json", "[]");
    let answer = file(
        "answer.txt",
        "I look.\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
    );
    let read = chat(&["--messages", &messages, "--tools", &fixture("tools.json"), "--answer", &answer]).unwrap();
    let call = json!({ "name": "read", "arguments": "{\"path\": \"a\"}" });
    assert_eq!(read, json!({ "text": "I look.\n", "calls": [call] }));
}

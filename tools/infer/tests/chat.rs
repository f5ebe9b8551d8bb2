//! `chat`, as people and scripts call it.

#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use capos_gguf::{Header, small_model};
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
    chat_with(&fixture("tokenizers/byte_pair.gguf"), arguments)
}

fn chat_with(model: &str, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capos-infer"));
    let output = command.args(["--json", "chat", model]).args(arguments).output().unwrap();
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

/// What the model's family adds is shown, and what is left out of a long conversation is not.
#[test]
fn the_prompt_that_is_shown_is_the_one_that_is_read() {
    let vocabulary = std::fs::read(fixture("tokenizers/byte_pair.gguf")).unwrap();
    let template = std::fs::read_to_string(fixture("templates/hermes.jinja")).unwrap();
    let template = format!("{{# You are Qwen, created by Alibaba Cloud. #}}{template}");
    let header = Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("family.gguf");
    std::fs::write(&path, small_model(&header, Some(&template), 11).unwrap()).unwrap();
    let model = path.to_str().unwrap();
    let long = [["user", "one"], ["assistant", &"word ".repeat(20_000)], ["user", "two"]];
    let long = json!(long.map(|[role, content]| json!({ "role": role, "content": content })));
    let family = fixture("../../userspace/lib/inference/families/qwen2.5.json");
    let family: Value = serde_json::from_str(&std::fs::read_to_string(family).unwrap()).unwrap();
    let turns = family["examples"].as_array().unwrap();
    let example = turns.last().unwrap()[0]["content"].as_str().unwrap();
    let tools = json!([{ "name": "service_status", "description": "Tells." }]).to_string();
    let tools = file("family-tools.json", &tools);
    for (name, messages, has_example, removed) in [
        ("family-short.json", json!([{ "role": "user", "content": "one" }]), true, false),
        ("family-long.json", long, false, true),
    ] {
        let messages = file(name, &messages.to_string());
        let arguments = ["--messages", &messages, "--tools", &tools, "--context", "8192", "--max-tokens", "1"];
        let shown = chat_with(model, &[&arguments[..], &["--prompt-only"]].concat()).unwrap();
        let read = chat_with(model, &arguments).unwrap();
        assert_eq!(read["usage"]["promptTokens"], shown["ids"].as_array().unwrap().len());
        let text = shown["text"].as_str().unwrap();
        assert_eq!(text.contains(example), has_example, "{text}");
        assert_eq!(text.contains("[Earlier conversation truncated"), removed, "{text}");
    }
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

//! What `tools/train` says of the built-in model's tokens and template, held against what the system makes of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use minijinja::{AutoEscape, Environment, context};
use serde_json::Value;

fn train() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../train")
}

/// What a command prints, that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn python(arguments: &[&str]) -> String {
    output(Command::new("python3").arg("-B").args(arguments).current_dir(train()))
}

/// A model file without weights.
fn vocabulary(folder: &Path) -> PathBuf {
    let model = folder.join("model.gguf");
    python(&["-m", "capos_model", "vocabulary", "--out", model.to_str().unwrap()]);
    model
}

/// What `capos-infer` prints with `--json`.
fn infer(command: &mut Command) -> Value {
    serde_json::from_str(&output(command.arg("--json"))).unwrap()
}

fn requests() -> Vec<Value> {
    let lines = std::fs::read_to_string(train().join("tests/requests.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn text_has_the_tokens_that_the_model_is_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let (model, texts) = (vocabulary(folder.path()), folder.path().join("texts.json"));
    python(&["-m", "tests.tokens", texts.to_str().unwrap()]);
    let texts: Value = serde_json::from_str(&std::fs::read_to_string(&texts).unwrap()).unwrap();
    let texts = texts.as_array().unwrap();
    assert!(texts.len() > 8);
    for found in texts {
        let file = folder.path().join("text");
        std::fs::write(&file, found["text"].as_str().unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_capos-infer"));
        command.arg("tokenize").arg(&model).arg("--text-file").arg(&file).arg("--bos");
        if found["marks"].as_bool().unwrap() {
            command.arg("--special");
        }
        assert_eq!(infer(&mut command)["ids"], found["ids"], "{}", found["text"]);
    }
}

#[test]
fn the_template_renders_requests_as_the_model_is_trained_on_them() {
    let source = std::fs::read_to_string(train().join("template.jinja")).unwrap();
    // Files' templates are written for both ways to treat the white space around blocks; this one does not depend on it.
    for trim in [false, true] {
        let mut environment = Environment::new();
        environment.set_trim_blocks(trim);
        environment.set_lstrip_blocks(trim);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_template("chat", &source).unwrap();
        let template = environment.get_template("chat").unwrap();
        for (number, request) in requests().into_iter().enumerate() {
            let tools = if request["tools"] == Value::Array(Vec::new()) { &Value::Null } else { &request["tools"] };
            let text = template.render(context! {
                tools,
                messages => request["messages"],
                add_generation_prompt => request["add_generation_prompt"],
            });
            let text = text.unwrap_or_else(|error| panic!("request {number}: {error:#}"));
            assert_eq!(text, request["text"].as_str().unwrap(), "request {number}");
        }
    }
}

#[test]
fn conversations_are_read_as_the_model_is_trained_on_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = vocabulary(folder.path());
    // What the command takes says of no tool that it is forbidden, and always asks for an answer.
    let plain = |request: &Value| {
        let mut tools = request["tools"].as_array().unwrap().iter();
        request["add_generation_prompt"] == true && tools.all(|tool| tool["function"]["permission"] != "forbidden")
    };
    let requests: Vec<Value> = requests().into_iter().filter(plain).collect();
    assert!(requests.len() > 8);
    for request in requests {
        let files = ["messages", "tools"].map(|part| {
            let file = folder.path().join(part);
            std::fs::write(&file, request[part].to_string()).unwrap();
            file
        });
        let [messages, tools] = &files;
        let mut command = Command::new(env!("CARGO_BIN_EXE_capos-infer"));
        let read = infer(command.arg("chat").arg(&model).arg("--messages").arg(messages).arg("--tools").arg(tools));
        assert_eq!(read["text"], request["text"]);
    }
}

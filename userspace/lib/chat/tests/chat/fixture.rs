//! What lies in tests/infer.

use std::path::PathBuf;

use capos_chat::{CallForm, Message, Tool};
use capos_gguf::{Header, Writer, WriterValue};
use capos_tokenizer::Tokenizer;
use serde_json::Value;

/// The forms whose calls are objects.
pub const FORMS: [CallForm; 6] =
    [CallForm::Hermes, CallForm::Llama3, CallForm::Mistral, CallForm::Phi, CallForm::MistralArgs, CallForm::Function];

/// A call as models of a form write it.
pub fn written(form: CallForm, name: &str, arguments: &str) -> String {
    let object = format!("{{\"name\": \"{name}\", \"{}\": {arguments}}}", form.arguments());
    match form {
        CallForm::Hermes => format!("<tool_call>\n{object}\n</tool_call>"),
        CallForm::Llama3 => object,
        CallForm::Mistral => format!("[TOOL_CALLS][{object}]"),
        CallForm::Phi => format!("<|tool_call|>[{object}]<|/tool_call|>"),
        CallForm::MistralArgs => format!("[TOOL_CALLS]{name}[ARGS]{arguments}"),
        CallForm::Function => format!("<function={name}>{arguments}</function>"),
        CallForm::Lines => panic!("Its calls are no objects."),
    }
}

pub fn bytes(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../tests/infer", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).unwrap()
}

pub fn json(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

pub fn tokenizer() -> Tokenizer {
    let file = bytes("tokenizers/byte_pair.gguf");
    Tokenizer::new(&Header::parse(&file, file.len() as u64).unwrap()).unwrap()
}

pub fn tools() -> Vec<Tool> {
    Tool::list(&json("tools.json")).unwrap()
}

/// With one that requires no arguments.
pub fn tools_with_now() -> Vec<Tool> {
    let now = Tool { name: "now".into(), parameters: Value::Object(serde_json::Map::new()), ..tools().remove(0) };
    tools().into_iter().chain([now]).collect()
}

pub fn messages(conversation: &str) -> Vec<Message> {
    Message::list(&json("conversations.json")[conversation]["messages"]).unwrap()
}

fn train(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../tools/train", name].iter().collect();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The built-in model's template.
pub fn built_in_template() -> String {
    train("template.jinja")
}

/// Requests to the built-in model, as `tools/train` has them.
pub fn built_in_requests() -> Vec<Value> {
    train("tests/requests.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The built-in model's vocabulary.
pub fn built_in_tokenizer() -> Tokenizer {
    let merges: Value = serde_json::from_str(&train("data/tokenizer.json")).unwrap();
    let merges = merges["merges"].as_array().unwrap().iter().map(|merge| merge.as_str().unwrap().into());
    tokenizer_of(merges.collect())
}

/// A vocabulary of the built-in model's marks, bytes, and these merges.
pub fn tokenizer_of(merges: Vec<String>) -> Tokenizer {
    const MARKS: [&str; 12] = [
        "<|pad|>",
        "<|end|>",
        "<|tools|>",
        "<|tool|>",
        "<|as|>",
        "<|forbidden|>",
        "<|user|>",
        "<|assistant|>",
        "<|result|>",
        "<|invoke|>",
        "<|say|>",
        "<|none|>",
    ];
    let letters = (33..=126u8).chain(161..=172).chain(174..=255).map(char::from);
    let letters = letters.chain((256..324).map(|code| char::from_u32(code).unwrap()));
    let mut tokens: Vec<String> = MARKS.iter().map(ToString::to_string).chain(letters.map(String::from)).collect();
    for piece in merges.iter().map(|merge| merge.replace(' ', "")) {
        if !tokens.contains(&piece) {
            tokens.push(piece);
        }
    }
    let kinds = (0..tokens.len()).map(|id| if id < MARKS.len() { 3 } else { 1 }).collect();
    let mut writer = Writer::new();
    writer.text("tokenizer.ggml.model", "gpt2");
    writer.text("tokenizer.ggml.pre", "deepseek-coder");
    writer.text("tokenizer.chat_template", &built_in_template());
    writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(tokens));
    writer.entry("tokenizer.ggml.token_type", WriterValue::I32s(kinds));
    writer.entry("tokenizer.ggml.merges", WriterValue::Texts(merges));
    writer.entry("tokenizer.ggml.eos_token_id", WriterValue::U32(1));
    let file = writer.header();
    Tokenizer::new(&Header::parse(&file, file.len() as u64).unwrap()).unwrap()
}

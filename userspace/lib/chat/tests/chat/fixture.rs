//! What lies in tests/infer.

use std::path::PathBuf;

use capos_chat::{Message, Tool};
use capos_gguf::Header;
use capos_tokenizer::Tokenizer;
use serde_json::Value;

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
    let file = bytes("byte_pair.gguf");
    Tokenizer::new(&Header::parse(&file, file.len() as u64).unwrap()).unwrap()
}

pub fn tools() -> Vec<Tool> {
    Tool::list(&json("tools.json")).unwrap()
}

pub fn messages(conversation: &str) -> Vec<Message> {
    Message::list(&json("conversations.json")[conversation]["messages"]).unwrap()
}

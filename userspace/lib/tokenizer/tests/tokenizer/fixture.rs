//! The committed vocabularies in tests/infer, and variants of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use capos_gguf::{Header, Value, ValueType, Writer, WriterValue};
use capos_tokenizer::{Tokenizer, TokenizerError};
use serde_json::Value as Json;

/// The tokens of the texts according to reference libraries.
pub struct Expected {
    /// Without marks.
    pub ids: Vec<Vec<u32>>,
    /// With marks, if that is not the same.
    marks: BTreeMap<usize, Vec<u32>>,
}

impl Expected {
    /// The tokens of a text in which marks are found.
    pub fn marked(&self, text: usize) -> &Vec<u32> {
        self.marks.get(&text).unwrap_or(&self.ids[text])
    }
}

fn file(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../tests/infer", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn json(name: &str) -> Json {
    serde_json::from_slice(&file(name)).unwrap()
}

/// A list of tokens.
pub fn ids(list: &Json) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The texts that vocabularies are tried with.
pub fn texts() -> Vec<String> {
    json("texts.json").as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_string()).collect()
}

/// The content of a file of expectations, by name.
pub fn expected(name: &str) -> BTreeMap<String, Expected> {
    let one = |value: &Json| Expected {
        ids: value["ids"].as_array().unwrap().iter().map(ids).collect(),
        marks: value["marks"].as_object().unwrap().iter().map(|(at, list)| (at.parse().unwrap(), ids(list))).collect(),
    };
    json(name).as_object().unwrap().iter().map(|(name, value)| (name.clone(), one(value))).collect()
}

/// The metadata of a committed file, to be changed.
pub struct Fixture(BTreeMap<String, WriterValue>);

impl Fixture {
    pub fn read(name: &str) -> Self {
        let bytes = file(name);
        let header = Header::parse(&bytes, bytes.len() as u64).unwrap();
        Self(header.entries().map(|(key, value)| (key.to_string(), copy(value))).collect())
    }

    pub fn with(mut self, key: &str, value: WriterValue) -> Self {
        self.0.insert(key.to_string(), value);
        self
    }

    pub fn with_text(self, key: &str, value: &str) -> Self {
        self.with(key, WriterValue::Text(value.to_string()))
    }

    pub fn with_bool(self, key: &str, value: bool) -> Self {
        self.with(key, WriterValue::Bool(value))
    }

    /// The texts of an entry.
    pub fn texts(&self, key: &str) -> Vec<String> {
        match &self.0[key] {
            WriterValue::Texts(texts) => texts.clone(),
            other => panic!("{key} is {other:?}"),
        }
    }

    pub fn without(mut self, key: &str) -> Self {
        self.0.remove(key);
        self
    }

    pub fn tokenizer(&self) -> Result<Tokenizer, TokenizerError> {
        let mut writer = Writer::new();
        for (key, value) in &self.0 {
            writer.entry(key, value.clone());
        }
        let bytes = writer.header();
        Tokenizer::new(&Header::parse(&bytes, bytes.len() as u64).unwrap())
    }
}

fn copy(value: Value<'_>) -> WriterValue {
    match value {
        Value::U32(value) => WriterValue::U32(value),
        Value::U64(value) => WriterValue::U64(value),
        Value::F32(value) => WriterValue::F32(value),
        Value::Bool(value) => WriterValue::Bool(value),
        Value::Text(value) => WriterValue::Text(value.to_string()),
        Value::Array(array) if array.kind() == ValueType::Text => {
            WriterValue::Texts(array.iter().map(|value| value.as_text().unwrap().to_string()).collect())
        }
        Value::Array(array) if array.kind() == ValueType::F32 => {
            WriterValue::F32s(array.iter().map(|value| value.as_f64().unwrap() as f32).collect())
        }
        Value::Array(array) => WriterValue::I32s(
            array
                .iter()
                .map(|value| match value {
                    Value::I32(value) => value,
                    other => panic!("{other:?} is in no fixture"),
                })
                .collect(),
        ),
        other => panic!("{other:?} is in no fixture"),
    }
}

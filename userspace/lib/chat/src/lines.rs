//! Tools as lines: how the built-in model is shown them, and what it writes its calls with.

use capos_call_form::lines;
pub use lines::{AS, FORBIDDEN, INVOKE, NONE, RESULT, SAY, USER};
use serde_json::Value;

use crate::message::Tool;

/// Characters of a description that a line has.
const HEAD_CHARACTERS: usize = 120;

/// A tool's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What the tool does.
    pub head: String,
    /// Whether it must not be called.
    pub forbidden: bool,
    /// Its name.
    pub name: String,
    /// What it takes, in the order in which a call gives it.
    pub parameters: Vec<Parameter>,
}

/// One thing that a tool takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What it is called.
    pub name: String,
    /// What values it has.
    pub kind: Kind,
    /// Whether each call has it.
    pub required: bool,
}

/// What values a parameter has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Number,
    /// One of these, each as JSON writes it.
    Literals(Vec<String>),
    List(Box<Kind>),
}

impl Line {
    /// The line in which the template shows a tool.
    pub fn of(tool: &Tool) -> Self {
        let required = tool.parameters.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let properties = tool.parameters.get("properties").and_then(Value::as_object);
        let mut parameters: Vec<Parameter> = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Parameter { name: name.clone(), kind: Kind::of(schema), required: is_required(name) })
            .collect();
        parameters.sort_by_key(|parameter| (!parameter.required, parameter.name.to_lowercase()));
        let head = head(&tool.description);
        Self { head, forbidden: tool.forbidden, name: tool.name.clone(), parameters }
    }
}

/// The first sentence of a description, cut as the template cuts it.
pub fn head(description: &str) -> String {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = words.split(". ").next().unwrap_or("").trim_end_matches('.');
    sentence.chars().take(HEAD_CHARACTERS).collect()
}

impl Kind {
    fn of(schema: &Value) -> Self {
        let values = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty());
        if let Some(values) = values {
            return Self::Literals(values.iter().map(Value::to_string).collect());
        }
        let literals = |texts: &[&str]| Self::Literals(texts.iter().map(ToString::to_string).collect());
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => literals(&["true", "false"]),
            Some("array") => Self::List(Box::new(schema.get("items").map_or(Self::Number, Self::of))),
            // The form has no way to write what is in an object.
            _ => literals(&["{}"]),
        }
    }
}

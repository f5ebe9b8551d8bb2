//! Parses a script, and says what is wrong with it.

#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use capos_schema::models::Outcome;
use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::event::{Crash, ErrorKind, Finish};
use crate::turn::{Arguments, Handle, Id, Script, Selection, Step, Turn};

/// An error in a script, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// From 1.
    pub line: u64,
    pub what: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "model.jsonl line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for ScriptError {}

type Object = Map<String, Value>;
type Parsed<T> = Result<T, String>;

impl Script {
    /// Reads a script. Blank lines, and lines whose first character is `#`, are skipped.
    ///
    /// # Errors
    /// Names the first line that is not understood, and why. A script without any response is an error of line 1.
    pub fn parse(bytes: &[u8]) -> Result<Self, ScriptError> {
        let mut script = Self { selection: Selection::default(), summarises: false, turns: Vec::new() };
        let mut header_allowed = true;
        for (number, line) in (1_u64..).zip(bytes.split(|&byte| byte == b'\n')) {
            let error = |what: String| ScriptError { line: number, what };
            let line = core::str::from_utf8(line)
                .map_err(|bad| error(format!("byte {} is not UTF-8", bad.valid_up_to().saturating_add(1))))?;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let value: Value = serde_json::from_str(line).map_err(|bad| error(format!("not a JSON value: {bad}")))?;
            let object = object(&value, "a line").map_err(&error)?;
            if let Some(header) = object.get("script") {
                if !header_allowed || object.len() > 1 {
                    return Err(error("\"script\" must be alone on the first line, or absent".to_string()));
                }
                let header = self::object(header, "script").map_err(&error)?;
                script.selection = selection(header).map_err(&error)?;
                script.summarises = flag(header, "summarises", false).map_err(&error)?;
            } else {
                script.turns.push(Arc::new(turn(object, number).map_err(&error)?));
            }
            header_allowed = false;
        }
        if script.turns.is_empty() {
            return Err(ScriptError { line: 1, what: "the script holds no response".to_string() });
        }
        Ok(script)
    }
}

/// Whether the script with these first bytes says in its first line that its model can summarise a conversation. A script that is
/// not understood says nothing.
#[must_use]
pub fn summarises(bytes: &[u8]) -> bool {
    let lines = bytes.split(|&byte| byte == b'\n').filter_map(|line| core::str::from_utf8(line).ok()).map(str::trim);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'));
    let value: Option<Value> = first.and_then(|line| serde_json::from_str(line).ok());
    value.and_then(|line| line.get("script")?.get("summarises")?.as_bool()).unwrap_or(false)
}

fn selection(header: &Object) -> Parsed<Selection> {
    known(header, "script", &["select", "summarises"])?;
    let table = [("sequence", Selection::Sequence), ("stateless", Selection::Stateless)];
    header.get("select").map_or(Ok(Selection::default()), |value| choice(value, "select", &table))
}

fn turn(line: &Object, number: u64) -> Parsed<Turn> {
    known(line, "a line", &["match", "repeat", "obey", "text", "calls", "events", "usage", "finish"])?;
    let mut steps = Steps::default();
    if line.contains_key("events") && (line.contains_key("text") || line.contains_key("calls")) {
        return Err("give \"events\", or \"text\" and \"calls\", but not both".to_string());
    }
    if let Some(text) = line.get("text") {
        steps.push(Step::Words(string(text, "text")?))?;
    }
    for (at, value) in list(line, "calls")?.iter().enumerate() {
        steps.call(value, true).map_err(|what| format!("call {}: {what}", at.saturating_add(1)))?;
    }
    for (at, value) in list(line, "events")?.iter().enumerate() {
        steps.event(value).map_err(|what| format!("event {}: {what}", at.saturating_add(1)))?;
    }
    let usage = line.get("usage").map(|value| object(value, "usage")).transpose()?;
    if let Some(usage) = usage {
        known(usage, "usage", &["promptTokens", "completionTokens"])?;
    }
    let claimed = |key| usage.and_then(|usage| usage.get(key)).map(|value| integer(value, key)).transpose();
    Ok(Turn {
        line: number,
        condition: line.get("match").map_or(Ok(Condition::default()), condition)?,
        repeat: flag(line, "repeat", false)?,
        obey: flag(line, "obey", true)?,
        steps: steps.list,
        prompt_tokens: claimed("promptTokens")?,
        completion_tokens: claimed("completionTokens")?,
        finish: line.get("finish").map(finish).transpose()?,
    })
}

fn condition(value: &Value) -> Parsed<Condition> {
    let object = object(value, "match")?;
    known(
        object,
        "match",
        &[
            "user",
            "tool",
            "outcome",
            "system",
            "any",
            "offered",
            "missing",
            "temperature",
            "responseSchema",
            "nonce",
            "assistantMessages",
            "request",
            "not",
        ],
    )?;
    let texts = |key| object.get(key).map_or(Ok(Vec::new()), |value| strings(value, key));
    let number = |key| object.get(key).map(|value| integer(value, key)).transpose();
    Ok(Condition {
        user: texts("user")?,
        tool: texts("tool")?,
        outcome: outcomes(&texts("outcome")?)?,
        system: texts("system")?,
        any: texts("any")?,
        offered: texts("offered")?,
        missing: texts("missing")?,
        temperature: object.get("temperature").map(temperature).transpose()?,
        response_schema: texts("responseSchema")?,
        nonce: texts("nonce")?,
        assistant_messages: number("assistantMessages")?,
        request: number("request")?,
        not: object.get("not").map(|value| condition(value).map(Box::new)).transpose()?,
    })
}

fn temperature(value: &Value) -> Parsed<f32> {
    // Compared with a request's value, which has 32 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the schema's temperature is as narrow")]
    let narrow = |number: f64| number as f32;
    value.as_f64().map(narrow).ok_or_else(|| format!("\"temperature\" is a number, not {}", kind_of(value)))
}

fn outcomes(names: &[String]) -> Parsed<Vec<String>> {
    // How calls end that do not end well, by the names of the schema.
    let known: Vec<&str> =
        Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Ok).map(|outcome| outcome.name()).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(format!("\"outcome\" is one of {}, not {unknown:?}", known.join(", "))),
        None => Ok(names.to_vec()),
    }
}

/// The steps of one line while they are read.
#[derive(Default)]
struct Steps {
    list: Vec<Step>,
    next_index: u32,
}

impl Steps {
    fn push(&mut self, step: Step) -> Parsed<()> {
        let ends =
            |step: &Step| matches!(step, Step::Error { .. } | Step::Exit(_) | Step::Crash(_) | Step::Hang | Step::Deaf);
        if self.list.last().is_some_and(ends) {
            return Err("nothing can follow \"error\", \"exit\", \"crash\", \"hang\" or \"deaf\"".to_string());
        }
        self.list.push(step);
        Ok(())
    }

    fn event(&mut self, value: &Value) -> Parsed<()> {
        if let Value::String(text) = value {
            return self.push(Step::Text { text: text.clone(), times: 1 });
        }
        let event = object(value, "an event")?;
        let kinds = [
            "text",
            "words",
            "textBytes",
            "call",
            "callDelta",
            "loose",
            "delayMs",
            "weights",
            "capabilities",
            "reach",
            "computeMs",
            "error",
            "exit",
            "crash",
            "hang",
            "deaf",
        ];
        let given: Vec<&&str> = kinds.iter().filter(|kind| event.contains_key(**kind)).collect();
        let [kind] = given.as_slice() else {
            return Err(format!("give exactly one of {}", kinds.join(", ")));
        };
        let kind = **kind;
        let Some(body) = event.get(kind) else {
            return Ok(());
        };
        known(event, "an event", if kind == "text" { &["text", "times"] } else { core::slice::from_ref(&kind) })?;
        match kind {
            "text" => {
                let step = Step::Text { text: string(body, kind)?, times: times(event)? };
                self.push(step)
            }
            "words" => self.push(Step::Words(string(body, kind)?)),
            "textBytes" => {
                let bytes = hex::decode(string(body, kind)?).map_err(|bad| format!("\"textBytes\" is hex: {bad}"))?;
                self.push(Step::TextBytes(bytes))
            }
            "call" => self.call(body, true),
            "callDelta" => self.call(body, false),
            "loose" => {
                let loose = object(body, "\"loose\"")?;
                known(loose, "\"loose\"", &["tool", "why"])?;
                let text = |key| loose.get(key).map_or(Ok(String::new()), |value| string(value, key));
                let (tool, why) = (text("tool")?, text("why")?);
                self.push(Step::Loose { tool, why })
            }
            "delayMs" => self.push(Step::Delay(small(body, kind)?)),
            "weights" => {
                let range = object(body, "\"weights\"")?;
                known(range, "\"weights\"", &["offset", "bytes"])?;
                let number = |key: &str| {
                    range
                        .get(key)
                        .and_then(Value::as_u64)
                        .ok_or_else(|| format!("\"weights\" has a \"{key}\", a whole number"))
                };
                let (offset, bytes) = (number("offset")?, number("bytes")?);
                self.push(Step::Weights { offset, bytes })
            }
            "computeMs" => self.push(Step::Compute(small(body, kind)?)),
            "reach" => match body {
                Value::Bool(true) => self.push(Step::Reach),
                _ => Err("\"reach\" is true".to_string()),
            },
            "capabilities" => match body {
                Value::Bool(true) => self.push(Step::Capabilities),
                _ => Err("\"capabilities\" is true".to_string()),
            },
            "error" => self.push(exception(body)?),
            "exit" => self.push(Step::Exit(small(body, kind)?)),
            "crash" => self.push(Step::Crash(choice(body, kind, &Crash::NAMES)?)),
            "hang" => match body {
                Value::Bool(true) => self.push(Step::Hang),
                _ => Err("\"hang\" is true".to_string()),
            },
            _ => match body {
                Value::Bool(true) => self.push(Step::Deaf),
                _ => Err("\"deaf\" is true".to_string()),
            },
        }
    }

    /// A whole call, which gets the next index and an id of its own if none is given, or a piece of one.
    fn call(&mut self, value: &Value, whole: bool) -> Parsed<()> {
        let call = object(value, "a call")?;
        known(call, "a call", &["index", "id", "name", "handle", "arguments", "times"])?;
        let index = match call.get("index") {
            Some(index) => small(index, "index")?,
            None if whole => self.next_index,
            None => return Err("a callDelta has an \"index\"".to_string()),
        };
        self.next_index = self.next_index.max(index.saturating_add(1));
        let text = |key| call.get(key).map(|value| string(value, key)).transpose();
        let name = text("name")?;
        if whole && name.is_none() {
            return Err("a call has a \"name\"".to_string());
        }
        let handle = match call.get("handle") {
            None => (whole || name.is_some()).then_some(Handle::Auto),
            Some(Value::Null) => None,
            Some(value) => Some(handle(&string(value, "handle")?)),
        };
        let id = match text("id")?.as_deref() {
            Some("$nonce") => Some(Id::Nonce),
            Some(literal) => Some(Id::Literal(literal.to_string())),
            None => whole.then(|| Id::Literal(format!("call-{}", index.saturating_add(1)))),
        };
        let arguments = Arguments {
            text: match call.get("arguments") {
                None if whole => "{}".to_string(),
                None => String::new(),
                Some(Value::String(raw)) => raw.clone(),
                Some(value) => value.to_string(),
            },
            times: times(call)?,
        };
        self.push(Step::Call { index, id, name, handle, arguments })
    }
}

fn handle(text: &str) -> Handle {
    if text == "$auto" {
        Handle::Auto
    } else if let Some(name) = text.strip_prefix("$of:") {
        Handle::Of(name.to_string())
    } else if let Some(name) = text.strip_prefix("$near:") {
        Handle::Near(name.to_string())
    } else {
        Handle::Literal(text.to_string())
    }
}

fn exception(value: &Value) -> Parsed<Step> {
    if let Value::String(message) = value {
        return Ok(Step::Error { kind: ErrorKind::Failed, message: message.clone() });
    }
    let error = object(value, "error")?;
    known(error, "error", &["kind", "message"])?;
    Ok(Step::Error {
        kind: error.get("kind").map_or(Ok(ErrorKind::Failed), |kind| choice(kind, "kind", &ErrorKind::NAMES))?,
        message: error.get("message").map_or(Ok(String::new()), |message| string(message, "message"))?,
    })
}

fn finish(value: &Value) -> Parsed<Finish> {
    match value.as_u64().and_then(|number| u16::try_from(number).ok()) {
        Some(number) => Ok(Finish::Other(number)),
        None => choice(value, "finish", &Finish::NAMES),
    }
}

fn times(object: &Object) -> Parsed<u64> {
    match object.get("times").map(|value| integer(value, "times")).transpose()? {
        Some(0) => Err("\"times\" is at least 1".to_string()),
        given => Ok(given.unwrap_or(1)),
    }
}

fn object<'a>(value: &'a Value, what: &str) -> Parsed<&'a Object> {
    value.as_object().ok_or_else(|| format!("{what} is a JSON object, not {}", kind_of(value)))
}

fn known(object: &Object, what: &str, keys: &[&str]) -> Parsed<()> {
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key {key:?} in {what}; known: {}", keys.join(", "))),
        None => Ok(()),
    }
}

fn string(value: &Value, key: &str) -> Parsed<String> {
    value.as_str().map(String::from).ok_or_else(|| format!("{key:?} is a string, not {}", kind_of(value)))
}

/// A string, or a list of strings.
fn strings(value: &Value, key: &str) -> Parsed<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(|value| string(value, key)).collect(),
        value => Ok(Vec::from([string(value, key)?])),
    }
}

fn list<'a>(object: &'a Object, key: &str) -> Parsed<&'a [Value]> {
    match object.get(key) {
        None => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(value) => Err(format!("{key:?} is a list, not {}", kind_of(value))),
    }
}

fn integer(value: &Value, key: &str) -> Parsed<u64> {
    value.as_u64().ok_or_else(|| format!("{key:?} is a whole number of at least 0, not {value}"))
}

fn small(value: &Value, key: &str) -> Parsed<u32> {
    u32::try_from(integer(value, key)?).map_err(|_| format!("{key:?} is at most {}", u32::MAX))
}

fn flag(object: &Object, key: &str, default: bool) -> Parsed<bool> {
    match object.get(key) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(value) => Err(format!("{key:?} is true or false, not {}", kind_of(value))),
    }
}

fn choice<T: Copy>(value: &Value, key: &str, table: &[(&str, T)]) -> Parsed<T> {
    let found = value.as_str().and_then(|name| table.iter().find(|(known, _)| *known == name));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        format!("{key:?} is one of {}, not {value}", names.join(", "))
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

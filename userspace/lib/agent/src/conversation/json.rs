//! The JSON form of a message, in dumps and in the store.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::authority::{Label, Provenance};
use capos_schema::models::{ChatMessage, Outcome, Role, ToolCall};
use serde_json::{Map, Value, json};

use super::{ConversationError, Entry, about_tokens, hex};
use crate::result::hash;
use crate::snapshot::Mark;

/// Version of a message, and of a conversation.
pub(super) const VERSION: u64 = 1;
/// The member of a result that has its outcome.
const OUTCOME: &str = "outcome";
/// The member of a summary that has the number of messages before the first one that it does not stand for.
pub(super) const REPLACES: &str = "replaces";
/// The member of an answer that says that it was cut.
const CUT: &str = "cut";
/// The member of a message that has the sequences of its audit records.
const AUDIT: &str = "audit";

/// A message as JSON.
pub(super) fn dump_entry(entry: &Entry) -> Value {
    let message = &entry.message;
    let calls: Vec<Value> = message
        .tool_calls
        .iter()
        .map(|call| json!({ "id": call.id, "name": call.name, "handle": call.handle, "arguments": call.arguments }))
        .collect();
    let tools: Vec<Value> =
        entry.tools.iter().map(|tool| json!({ "name": tool.name, "sha256": hex(&tool.hash) })).collect();
    let mut dumped = json!({
        "version": VERSION,
        "id": entry.id,
        "role": message.role.name(),
        "content": message.content,
        "toolCallId": message.tool_call_id,
        "toolCalls": calls,
        "provenance": message.provenance.name(),
        "label": message.label.classes,
        "turn": entry.turn,
        "step": entry.step,
        "tokens": entry.tokens,
        "at": entry.at,
        "model": entry.model,
        "tools": tools,
        "sha256": hex(&entry.hash),
    });
    let outcome = entry.outcome.map(|outcome| (OUTCOME, json!(outcome.name())));
    let replaces = (entry.replaces > 0).then(|| (REPLACES, json!(entry.replaces)));
    let audit = (!entry.audit.is_empty()).then(|| (AUDIT, json!(entry.audit)));
    let cut = entry.is_cut.then_some((CUT, Value::Bool(true)));
    for (name, value) in outcome.into_iter().chain(replaces).chain(cut).chain(audit) {
        if let Some(members) = dumped.as_object_mut() {
            members.insert(name.to_string(), value);
        }
    }
    dumped
}

/// Reads what [`dump_entry`] has written.
///
/// # Errors
/// Which member is missing or wrong.
pub(super) fn load_entry(value: &Value) -> Result<Entry, ConversationError> {
    let root = object(value, "it")?;
    let version = number(root, "version")?;
    if version != VERSION {
        return Err(ConversationError(format!("version {version} is not known; this system knows {VERSION}")));
    }
    let role = text_of(root, "role")?;
    let provenance = text_of(root, "provenance")?;
    let mut label = Label::default();
    for class in list(root, "label")? {
        label.classes.push(class.as_str().ok_or_else(|| wrong("label", "a list of strings"))?.to_string());
    }
    let mut tool_calls = Vec::new();
    for call in list(root, "toolCalls")? {
        let call = object(call, "a call")?;
        tool_calls.push(ToolCall {
            id: text_of(call, "id")?,
            name: text_of(call, "name")?,
            handle: text_of(call, "handle")?,
            arguments: text_of(call, "arguments")?,
        });
    }
    let mut tools = Vec::new();
    for tool in list(root, "tools")? {
        let tool = object(tool, "a tool")?;
        tools.push(Mark { name: text_of(tool, "name")?, hash: digest(tool)? });
    }
    // The system's own message is text of the program, never data.
    let role = Role::from_name(&role).filter(|role| *role != Role::System);
    let message = ChatMessage {
        role: role.ok_or_else(|| wrong("role", "user, assistant or tool"))?,
        content: text_of(root, "content")?,
        tool_call_id: text_of(root, "toolCallId")?,
        tool_calls,
        provenance: Provenance::from_name(&provenance).ok_or_else(|| wrong("provenance", "trusted or untrusted"))?,
        label,
    };
    let hash = hash(&message.content);
    if digest(root)? != hash {
        return Err(wrong("sha256", "the digest of the content"));
    }
    let small = |key| u32::try_from(number(root, key)?).map_err(|_| wrong(key, "at most 4294967295"));
    // Messages of earlier systems have neither id nor step nor tokens, no outcome and no records. Most are no summaries.
    let id = if root.contains_key("id") { text_of(root, "id")? } else { String::new() };
    let step = if root.contains_key("step") { small("step")? } else { 0 };
    let tokens = if root.contains_key("tokens") { small("tokens")? } else { about_tokens(&message) };
    let (turn, at, model) = (small("turn")?, number(root, "at")?, text_of(root, "model")?);
    let outcome = match root.get(OUTCOME).map(|_| text_of(root, OUTCOME)).transpose()? {
        None => None,
        Some(name) => Some(Outcome::from_name(&name).ok_or_else(|| wrong(OUTCOME, "an outcome of a call"))?),
    };
    let replaces = if root.contains_key(REPLACES) { small(REPLACES)? } else { 0 };
    let is_cut = match root.get(CUT) {
        None => false,
        Some(value) => value.as_bool().ok_or_else(|| wrong(CUT, "true or false"))?,
    };
    let mut audit = Vec::new();
    if root.contains_key(AUDIT) {
        for sequence in list(root, AUDIT)? {
            audit.push(sequence.as_u64().ok_or_else(|| wrong(AUDIT, "a list of sequences"))?);
        }
    }
    Ok(Entry { id, message, turn, step, tokens, outcome, replaces, is_cut, at, model, tools, hash, audit })
}

/// A SHA-256 in lower-case hex.
fn digest(root: &Map<String, Value>) -> Result<[u8; 32], ConversationError> {
    let text = text_of(root, "sha256")?;
    let mut bytes = [0; 32];
    let mut digits = text.as_bytes().chunks(2);
    for byte in &mut bytes {
        let pair = digits.next().and_then(|pair| core::str::from_utf8(pair).ok());
        let read = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        *byte = read.ok_or_else(|| wrong("sha256", "64 hexadecimal digits"))?;
    }
    if hex(&bytes) != text {
        return Err(wrong("sha256", "64 hexadecimal digits"));
    }
    Ok(bytes)
}

pub(super) fn wrong(key: &str, wanted: &str) -> ConversationError {
    ConversationError(format!("\"{key}\" is not {wanted}"))
}

pub(super) fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, ConversationError> {
    value.as_object().ok_or_else(|| ConversationError(format!("{what} is not an object")))
}

pub(super) fn text_of(root: &Map<String, Value>, key: &str) -> Result<String, ConversationError> {
    root.get(key).and_then(Value::as_str).map(ToString::to_string).ok_or_else(|| wrong(key, "a string"))
}

pub(super) fn number(root: &Map<String, Value>, key: &str) -> Result<u64, ConversationError> {
    root.get(key).and_then(Value::as_u64).ok_or_else(|| wrong(key, "a whole number"))
}

pub(super) fn list<'a>(root: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], ConversationError> {
    root.get(key).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| wrong(key, "a list"))
}

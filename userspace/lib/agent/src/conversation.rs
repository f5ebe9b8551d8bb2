//! The conversation: messages in order, with what is known about each.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_policy::join;
use capos_schema::authority::{Label, Provenance};
use capos_schema::models::{ChatMessage, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::result::hash;

const VERSION: u64 = 1;

/// One message and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The message.
    pub message: ChatMessage,
    /// The turn that it belongs to, counted from 1.
    pub turn: u32,
    /// When it was appended, in nanoseconds since boot.
    pub at: u64,
    /// SHA-256 of its content.
    pub hash: [u8; 32],
}

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Its name.
    pub id: String,
    entries: Vec<Entry>,
}

/// Why a dump is no conversation: what is wrong where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationError(String);

impl fmt::Display for ConversationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a conversation: {}", self.0)
    }
}

impl core::error::Error for ConversationError {}

impl Conversation {
    /// An empty conversation.
    #[must_use]
    pub fn new(id: String) -> Self {
        Self { id, entries: Vec::new() }
    }

    /// The messages, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Appends a message.
    pub fn push(&mut self, message: ChatMessage, turn: u32, at: u64) {
        self.entries.push(Entry { hash: hash(&message.content), message, turn, at });
    }

    /// The last turn that has a message.
    #[must_use]
    pub fn last_turn(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.turn)
    }

    /// The label of all of it together, and how many results of tools brought in what others wrote.
    #[must_use]
    pub fn label(&self) -> (Label, usize) {
        let mut label = Label::default();
        for entry in &self.entries {
            label = join(&label, &entry.message.label);
        }
        let foreign = |message: &ChatMessage| message.role == Role::Tool && message.provenance == Provenance::Untrusted;
        (label, self.entries.iter().filter(|entry| foreign(&entry.message)).count())
    }

    /// The conversation as JSON. Loading it gives the same conversation.
    #[must_use]
    pub fn dump(&self) -> String {
        let messages: Vec<Value> = self.entries.iter().map(dump_entry).collect();
        json!({ "version": VERSION, "id": self.id, "messages": messages }).to_string()
    }

    /// Reads a dump.
    ///
    /// # Errors
    /// Which field is missing or wrong.
    pub fn load(text: &str) -> Result<Self, ConversationError> {
        let value: Value = serde_json::from_str(text).map_err(|bad| ConversationError(bad.to_string()))?;
        let root = object(&value, "the dump")?;
        let version = number(root, "version")?;
        if version != VERSION {
            return Err(ConversationError(format!("version {version} is not known; this system knows {VERSION}")));
        }
        let mut conversation = Self::new(text_of(root, "id")?);
        for (at, message) in list(root, "messages")?.iter().enumerate() {
            let entry = load_entry(message).map_err(|bad| ConversationError(format!("message {at}: {}", bad.0)))?;
            conversation.entries.push(entry);
        }
        Ok(conversation)
    }
}

fn dump_entry(entry: &Entry) -> Value {
    let message = &entry.message;
    let calls: Vec<Value> = message
        .tool_calls
        .iter()
        .map(|call| json!({ "id": call.id, "name": call.name, "handle": call.handle, "arguments": call.arguments }))
        .collect();
    json!({
        "role": message.role.name(),
        "content": message.content,
        "toolCallId": message.tool_call_id,
        "toolCalls": calls,
        "provenance": message.provenance.name(),
        "label": message.label.classes,
        "turn": entry.turn,
        "at": entry.at,
        "sha256": hex(&entry.hash),
    })
}

fn load_entry(value: &Value) -> Result<Entry, ConversationError> {
    let root = object(value, "it")?;
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
    let message = ChatMessage {
        role: Role::from_name(&role).ok_or_else(|| wrong("role", "system, user, assistant or tool"))?,
        content: text_of(root, "content")?,
        tool_call_id: text_of(root, "toolCallId")?,
        tool_calls,
        provenance: Provenance::from_name(&provenance).ok_or_else(|| wrong("provenance", "trusted or untrusted"))?,
        label,
    };
    let hash = hash(&message.content);
    if text_of(root, "sha256")? != hex(&hash) {
        return Err(wrong("sha256", "the digest of the content"));
    }
    let turn = u32::try_from(number(root, "turn")?).map_err(|_| wrong("turn", "at most 4294967295"))?;
    Ok(Entry { message, turn, at: number(root, "at")?, hash })
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn wrong(key: &str, wanted: &str) -> ConversationError {
    ConversationError(format!("\"{key}\" is not {wanted}"))
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, ConversationError> {
    value.as_object().ok_or_else(|| ConversationError(format!("{what} is not an object")))
}

fn text_of(root: &Map<String, Value>, key: &str) -> Result<String, ConversationError> {
    root.get(key).and_then(Value::as_str).map(ToString::to_string).ok_or_else(|| wrong(key, "a string"))
}

fn number(root: &Map<String, Value>, key: &str) -> Result<u64, ConversationError> {
    root.get(key).and_then(Value::as_u64).ok_or_else(|| wrong(key, "a whole number"))
}

fn list<'a>(root: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], ConversationError> {
    root.get(key).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| wrong(key, "a list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = ChatMessage> {
        let call = ("\\PC{0,8}", "\\PC{0,8}", "\\PC{0,8}", "\\PC{0,8}")
            .prop_map(|(id, name, handle, arguments)| ToolCall { id, name, handle, arguments });
        let calls = proptest::collection::vec(call, 0..3);
        let classes = proptest::collection::vec("[a-z.]{1,8}", 0..3);
        ("(?s).{0,20}", "\\PC{0,8}", calls, 0_usize..4, any::<bool>(), classes).prop_map(
            |(content, tool_call_id, tool_calls, role, trusted, classes)| ChatMessage {
                role: Role::ALL[role],
                content,
                tool_call_id,
                tool_calls,
                provenance: if trusted { Provenance::Trusted } else { Provenance::Untrusted },
                label: Label { classes },
            },
        )
    }

    proptest! {
        #[test]
        fn a_dump_loads_as_the_same_conversation(
            messages in proptest::collection::vec((message(), any::<u32>(), any::<u64>()), 0..6),
        ) {
            let mut conversation = Conversation::new("c".into());
            for (message, turn, at) in messages {
                conversation.push(message, turn, at);
            }
            prop_assert_eq!(Conversation::load(&conversation.dump()), Ok(conversation));
        }

        #[test]
        fn any_text_is_refused_or_loaded(text in "\\PC{0,60}") {
            let _ = Conversation::load(&text);
        }
    }

    #[test]
    fn a_changed_dump_is_refused_with_the_place() {
        let mut conversation = Conversation::new("c".into());
        let content = "hello".into();
        conversation.push(ChatMessage { role: Role::User, content, ..ChatMessage::default() }, 1, 5);
        let dump = conversation.dump();
        let changed = dump.replace("hello", "hullo");
        let error = Conversation::load(&changed).unwrap_err().to_string();
        assert_eq!(error, "not a conversation: message 0: \"sha256\" is not the digest of the content");
        assert!(Conversation::load(&dump.replace("\"version\":1", "\"version\":2")).is_err());
    }
}

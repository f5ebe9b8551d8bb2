//! The conversation: messages in order, with what is known about each.

mod artifact;
pub mod fate;
pub mod plain;
pub mod sendable;
pub mod shown;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_policy::join;
use capos_schema::authority::{Label, Provenance};
use capos_schema::models::{ChatMessage, Outcome, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::conversation::fate::Fate;
use crate::conversation::shown::Shown;
use crate::result::hash;
use crate::snapshot::Mark;

/// Version of a message, and of a conversation.
const VERSION: u64 = 1;
/// The member of a result that has its outcome.
const OUTCOME: &str = "outcome";
/// The member of a summary that has the number of messages before the first one that it does not stand for.
const REPLACES: &str = "replaces";
/// The member of a message that has the sequences of its audit records.
const AUDIT: &str = "audit";

/// What is known of a message besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Its tokens, as a worker counts.
    pub tokens: Option<u32>,
    /// Of a call's result: its outcome.
    pub outcome: Option<Outcome>,
    /// Of a summary: what it replaces.
    pub replaces: u32,
}

/// One message and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id: that of the conversation in which it was said first, and its number there.
    pub id: String,
    /// The message.
    pub message: ChatMessage,
    /// The turn that it belongs to, counted from 1.
    pub turn: u32,
    /// The step of the turn that it belongs to; 0: before the first.
    pub step: u32,
    /// Its tokens: as the worker counts of an answer, and about as many otherwise.
    pub tokens: u32,
    /// Of a call's result: its outcome, if it is known.
    pub outcome: Option<Outcome>,
    /// Of a summary: the model is sent it instead of all messages before this number, except the request of its turn.
    /// 0: it is no summary.
    pub replaces: u32,
    /// When it was appended, in nanoseconds since boot.
    pub at: u64,
    /// Id of the model in use.
    pub model: String,
    /// With the first message of a turn: the turn's tools.
    pub tools: Vec<Mark>,
    /// SHA-256 of its content.
    pub hash: [u8; 32],
    /// Sequences of the audit records about it and, of a call's result, about the call. Empty if the log took none.
    pub audit: Vec<u64>,
}

impl Entry {
    /// The message as canonical JSON. Loading it gives the same message.
    #[must_use]
    pub fn dump(&self) -> String {
        dump_entry(self).to_string()
    }
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

    /// Appends a message. `model` is the id of the model in use; `tools` are the turn's, with its first message.
    pub fn push(&mut self, message: ChatMessage, (turn, at): (u32, u64), model: &str, tools: Vec<Mark>) {
        let (id, hash, tokens) = (self.name(self.entries.len()), hash(&message.content), about_tokens(&message));
        self.entries.push(Entry {
            id,
            hash,
            message,
            turn,
            step: 0,
            tokens,
            outcome: None,
            replaces: 0,
            at,
            model: model.to_string(),
            tools,
            audit: Vec::new(),
        });
    }

    /// Notes audit records of the last message.
    pub(crate) fn note_records(&mut self, records: impl IntoIterator<Item = u64>) {
        if let Some(entry) = self.entries.last_mut() {
            entry.audit.extend(records);
        }
    }

    fn name(&self, index: usize) -> String {
        format!("{}-{index}", self.id)
    }

    /// Notes the step of the last message, and what is known of it.
    pub(crate) fn note(&mut self, step: u32, known: Known) {
        let Known { tokens, outcome, replaces } = known;
        if let Some(entry) = self.entries.last_mut() {
            entry.step = step;
            (entry.outcome, entry.replaces) = (outcome, replaces);
            entry.tokens = tokens.unwrap_or(entry.tokens);
        }
    }

    /// The tokens of all messages.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.tokens.into()))
    }

    /// Appends a message that was dumped. A label or a provenance that says less than the messages before it imply is
    /// raised: what a model said has the label of all that it saw, and is untrusted.
    ///
    /// # Errors
    /// Which field is missing or wrong.
    pub fn load_message(&mut self, text: &str) -> Result<(), ConversationError> {
        let at = self.entries.len();
        let read = serde_json::from_str(text).map_err(|bad| ConversationError(bad.to_string()));
        let entry = read.and_then(|value: Value| load_entry(&value));
        self.take_in(entry.map_err(|bad| ConversationError(format!("message {at}: {}", bad.0)))?)
    }

    fn take_in(&mut self, mut entry: Entry) -> Result<(), ConversationError> {
        if entry.turn < self.last_turn() {
            return Err(wrong("turn", "that of the message before it, or a later one"));
        }
        let is_reply = entry.message.role == Role::Assistant && entry.message.tool_calls.is_empty();
        if entry.replaces > 0 && !is_reply {
            return Err(wrong(REPLACES, "absent from a message that is no summary"));
        }
        let message = &mut entry.message;
        let below = if message.role == Role::Assistant { self.label().0 } else { Label::default() };
        message.label = join(&message.label, &below);
        if message.role == Role::Assistant {
            message.provenance = Provenance::Untrusted;
        }
        if entry.id.is_empty() {
            entry.id = self.name(self.entries.len());
        }
        self.entries.push(entry);
        Ok(())
    }

    /// The latest summary, and the number of messages that the model is not sent because it stands for them.
    #[must_use]
    pub fn summary(&self) -> Option<(&Entry, usize)> {
        Shown::of(&self.entries).summary
    }

    /// Of each message, whether the model is sent it. A summary can stand for it.
    #[must_use]
    pub fn sent(&self) -> Vec<bool> {
        let shown = Shown::of(&self.entries);
        let mut places = shown.entries.iter().map(|(number, _)| *number).peekable();
        let is_summary = |entry: &Entry| shown.summary.is_some_and(|(summary, _)| summary.id == entry.id);
        let sent = self
            .entries
            .iter()
            .enumerate()
            .map(|(number, entry)| places.next_if_eq(&number).is_some() || is_summary(entry));
        sent.collect()
    }

    /// Whether the model has had the last word: no request and no result of a tool waits for its answer.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let last = self.entries.iter().rfind(|entry| entry.replaces == 0).map(|entry| &entry.message);
        last.is_none_or(|message| message.role == Role::Assistant && message.tool_calls.is_empty())
    }

    /// Prepares a conversation of an earlier session for the present one. Earlier handles name nothing here: each call gets
    /// what `handle` knows for its tool's name. Calls without a result, where the session ended in the middle of its turn, get
    /// one that says what `fate` knows of them; they are returned.
    pub fn resume(
        &mut self,
        now: u64,
        handle: impl Fn(&str) -> Option<String>,
        fate: impl Fn(&ToolCall) -> Fate,
    ) -> Vec<(ToolCall, Fate)> {
        for call in self.entries.iter_mut().flat_map(|entry| &mut entry.message.tool_calls) {
            call.handle = handle(&call.name).unwrap_or_default();
        }
        let answered = |id: &str| self.entries.iter().any(|entry| entry.message.tool_call_id == id);
        let calls =
            self.entries.iter().flat_map(|entry| entry.message.tool_calls.iter().map(move |call| (entry, call)));
        let open: Vec<(ToolCall, Label)> = calls
            .filter(|(_, call)| !answered(&call.id))
            .map(|(entry, call)| (call.clone(), entry.message.label.clone()))
            .collect();
        let (turn, step) = (self.last_turn(), self.entries.last().map_or(0, |entry| entry.step));
        open.into_iter()
            .map(|(call, label)| {
                let fate = fate(&call);
                let (role, content, tool_call_id) = (Role::Tool, fate.text(), call.id.clone());
                let message = ChatMessage { role, content, tool_call_id, label, ..ChatMessage::default() };
                self.push(message, (turn, now), "", Vec::new());
                self.note(step, Known { outcome: fate.outcome(), ..Known::default() });
                (call, fate)
            })
            .collect()
    }

    /// Another conversation that begins with the first messages of this one.
    #[must_use]
    pub fn fork(&self, id: String, messages: usize) -> Self {
        Self { id, entries: self.entries.iter().take(messages).cloned().collect() }
    }

    /// The number of messages up to the end of a turn.
    #[must_use]
    pub fn messages_until(&self, turn: u32) -> usize {
        self.entries.iter().take_while(|entry| entry.turn <= turn).count()
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
            conversation.take_in(entry)?;
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
    for (name, value) in outcome.into_iter().chain(replaces).chain(audit) {
        if let Some(members) = dumped.as_object_mut() {
            members.insert(name.to_string(), value);
        }
    }
    dumped
}

fn load_entry(value: &Value) -> Result<Entry, ConversationError> {
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
    let mut audit = Vec::new();
    if root.contains_key(AUDIT) {
        for sequence in list(root, AUDIT)? {
            audit.push(sequence.as_u64().ok_or_else(|| wrong(AUDIT, "a list of sequences"))?);
        }
    }
    Ok(Entry { id, message, turn, step, tokens, outcome, replaces, at, model, tools, hash, audit })
}

/// About as many tokens as a message has: one for each four bytes of its texts.
pub(crate) fn about_tokens(message: &ChatMessage) -> u32 {
    let calls = message.tool_calls.iter().map(|call| call.name.len().saturating_add(call.arguments.len()));
    let bytes = calls.fold(message.content.len(), usize::saturating_add);
    u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX)
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
        ("(?s).{0,20}", "\\PC{0,8}", calls, 1_usize..4, any::<bool>(), classes).prop_map(
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

    fn mark() -> impl Strategy<Value = Mark> {
        ("[a-z_]{1,8}", any::<[u8; 32]>()).prop_map(|(name, hash)| Mark { name, hash })
    }

    fn messages() -> impl Strategy<Value = Vec<(ChatMessage, u64, String, Vec<Mark>)>> {
        let tools = proptest::collection::vec(mark(), 0..3);
        proptest::collection::vec((message(), any::<u64>(), "\\PC{0,8}", tools), 0..6)
    }

    proptest! {
        #[test]
        fn f01_a_dump_loads_as_the_same_conversation(messages in messages()) {
            let mut conversation = Conversation::new("c".into());
            for (turn, (mut message, at, model, tools)) in (0_u32..).zip(messages) {
                // As the agent appends them.
                message.label = join(&message.label, &Label::default());
                if message.role == Role::Assistant {
                    message.provenance = Provenance::Untrusted;
                    message.label = join(&message.label, &conversation.label().0);
                }
                conversation.push(message, (turn, at), &model, tools);
            }
            let mut by_message = Conversation::new("c".into());
            for entry in conversation.entries() {
                by_message.load_message(&entry.dump()).unwrap();
            }
            prop_assert_eq!(&by_message, &conversation);
            prop_assert_eq!(Conversation::load(&conversation.dump()), Ok(conversation));
        }

        /// Whatever a file says: no label is lower, and no word of a model's is trusted.
        #[test]
        fn a_loaded_label_is_never_lower(messages in messages()) {
            let mut written = Conversation::new("c".into());
            for (message, at, model, tools) in messages {
                written.push(message, (1, at), &model, tools);
            }
            let loaded = Conversation::load(&written.dump()).unwrap();
            let mut seen = Label::default();
            for (before, after) in written.entries().iter().zip(loaded.entries()) {
                let (before, after) = (&before.message, &after.message);
                prop_assert!(capos_policy::label_below(&join(&before.label, &Label::default()), &after.label));
                if after.role == Role::Assistant {
                    prop_assert!(capos_policy::label_below(&seen, &after.label));
                    prop_assert_eq!(after.provenance, Provenance::Untrusted);
                } else {
                    prop_assert_eq!(after.provenance, before.provenance);
                }
                seen = join(&seen, &after.label);
            }
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
        conversation.push(ChatMessage { role: Role::User, content, ..ChatMessage::default() }, (1, 5), "m", Vec::new());
        let dump = conversation.dump();
        let changed = dump.replace("hello", "hullo");
        let error = Conversation::load(&changed).unwrap_err().to_string();
        assert_eq!(error, "not a conversation: message 0: \"sha256\" is not the digest of the content");
        assert!(Conversation::load(&dump.replace("\"version\":1", "\"version\":2")).is_err());
        for (from, to) in
            [("\"turn\":1", "\"turn\":-1"), ("\"user\"", "\"system\""), ("\"tools\":[]", "\"tools\":[{}]")]
        {
            assert!(dump.contains(from) && Conversation::load(&dump.replace(from, to)).is_err(), "{to}");
        }
    }

    /// F02: a conversation that ended in the middle of a turn continues: with this session's handles, and a result for each call.
    #[test]
    fn f02_what_is_resumed_has_new_handles_and_a_result_for_each_call() {
        let call = |id: &str, name: &str| ToolCall {
            id: id.into(),
            name: name.into(),
            handle: "/object/old".into(),
            ..ToolCall::default()
        };
        let mut conversation = Conversation::new("c".into());
        let label = Label { classes: Vec::from(["pii.log".into()]) };
        let tool_calls = Vec::from([call("a", "read"), call("b", "gone")]);
        let asks = ChatMessage { role: Role::Assistant, tool_calls, label: label.clone(), ..ChatMessage::default() };
        conversation.push(asks, (3, 5), "m", Vec::new());
        let gave = ChatMessage { role: Role::Tool, tool_call_id: "a".into(), ..ChatMessage::default() };
        conversation.push(gave, (3, 6), "m", Vec::new());
        let open = conversation.resume(7, |name| (name == "read").then(|| "/object/new".into()), |_| Fate::Unknown);
        assert_eq!(
            open.iter().map(|(call, fate)| (call.id.as_str(), fate)).collect::<Vec<_>>(),
            [("b", &Fate::Unknown)]
        );
        let [asked, _, added] = conversation.entries() else { panic!("{:?}", conversation.entries()) };
        let handles: Vec<&str> = asked.message.tool_calls.iter().map(|call| call.handle.as_str()).collect();
        assert_eq!(handles, ["/object/new", ""]);
        assert_eq!((added.turn, added.message.tool_call_id.as_str(), &added.message.label), (3, "b", &label));
        assert_eq!((added.message.content.clone(), added.outcome), (Fate::Unknown.text(), Fate::Unknown.outcome()));
        assert!(!conversation.is_answered());
        let before = conversation.entries().len();
        assert!(conversation.resume(8, |_| None, |_| Fate::Unknown).is_empty());
        assert_eq!(conversation.entries().len(), before);
        assert_eq!((conversation.messages_until(2), conversation.messages_until(3)), (0, 3));
    }
}

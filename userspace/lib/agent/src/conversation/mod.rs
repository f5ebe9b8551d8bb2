//! The conversation: messages in order, with what is known about each.

mod artifact;
pub mod fate;
mod json;
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
use serde_json::{Value, json};

use crate::conversation::fate::Fate;
use crate::conversation::json::{REPLACES, VERSION, dump_entry, list, load_entry, number, object, text_of, wrong};
use crate::conversation::shown::Shown;
use crate::result::hash;
use crate::snapshot::Mark;

/// What is known of a message besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Its tokens, as a worker counts.
    pub tokens: Option<u32>,
    /// Of a call's result: its outcome.
    pub outcome: Option<Outcome>,
    /// Of a summary: what it replaces.
    pub replaces: u32,
    /// Of an answer without calls: it was cut at the limit of its tokens.
    pub is_cut: bool,
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
    /// Of an answer without calls: it was cut at the limit of its tokens, and the model has more to say.
    pub is_cut: bool,
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
            is_cut: false,
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
        let Known { tokens, outcome, replaces, is_cut } = known;
        if let Some(entry) = self.entries.last_mut() {
            entry.step = step;
            (entry.outcome, entry.replaces, entry.is_cut) = (outcome, replaces, is_cut);
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

    /// Whether the model has had the last word: no request, no result of a tool and no answer that was cut waits for more.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.entries.is_empty() || self.answer().is_some()
    }

    /// The model's last word, if nothing waits for more.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        let Entry { message, is_cut, .. } = self.entries.iter().rfind(|entry| entry.replaces == 0)?;
        let is_answer = message.role == Role::Assistant && message.tool_calls.is_empty() && !is_cut;
        is_answer.then_some(message.content.as_str())
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

/// About as many tokens as a message has: one for each four bytes of its texts.
pub(crate) fn about_tokens(message: &ChatMessage) -> u32 {
    let calls = message.tool_calls.iter().map(|call| call.name.len().saturating_add(call.arguments.len()));
    let bytes = calls.fold(message.content.len(), usize::saturating_add);
    u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX)
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
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

//! Saved conversations, and what the audit log has of their calls.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Conversation, Fate};
use capos_audit::{Deed, story};
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::conversations::{ConversationInfo, ConversationStoreClient, MessagePart};
use capos_schema::models::ToolCall;

use crate::runner::Runner;
use crate::surface::Surface;

/// Conversations, or parts of messages, in one answer.
pub const PAGE: u32 = 100;
/// How far the clocks of two records may be apart, in milliseconds.
const CLOCKS: u64 = 60_000;

/// The saved messages of a conversation, one after the other.
pub struct Messages {
    store: ConversationStoreClient,
    id: String,
    parts: VecDeque<MessagePart>,
    /// The message and its part that come next.
    pub next: (u32, u32),
    more: bool,
}

impl Messages {
    /// From the first message on.
    pub fn of(store: ConversationStoreClient, id: &str) -> Self {
        Self { store, id: id.to_string(), parts: VecDeque::new(), next: (0, 0), more: true }
    }

    /// The next message as JSON.
    ///
    /// # Errors
    /// The store does not answer, or the last message is not whole.
    pub async fn next<S: Surface>(&mut self, runner: &Runner<S>) -> Result<Option<String>, String> {
        let mut message = String::new();
        loop {
            let Some(part) = self.parts.pop_front() else {
                if !self.more {
                    let whole = message.is_empty();
                    return if whole { Ok(None) } else { Err("its last message is not whole".to_string()) };
                }
                let (from, part) = self.next;
                let page = runner.audited(self.store.read(&self.id, from, part, PAGE)).await?;
                self.more = page.more && !page.parts.is_empty();
                self.parts.extend(page.parts);
                continue;
            };
            message.push_str(&part.json);
            self.next = match part.last {
                true => (part.index.saturating_add(1), 0),
                false => (part.index, part.part.saturating_add(1)),
            };
            if part.last {
                return Ok(Some(message));
            }
        }
    }
}

/// All messages of a saved conversation.
///
/// # Errors
/// Why it cannot be continued.
pub async fn load<S: Surface>(
    runner: &Runner<S>,
    store: ConversationStoreClient,
    id: &str,
) -> Result<Conversation, String> {
    let mut conversation = Conversation::new(id.to_string());
    let mut messages = Messages::of(store, id);
    while let Some(text) = messages.next(runner).await? {
        conversation.load_message(&text).map_err(|why| format!("the conversation cannot be continued: {why}"))?;
    }
    Ok(conversation)
}

/// All records of the audit log that a query selects.
///
/// # Errors
/// The log does not answer.
pub async fn read_all<S: Surface>(
    runner: &Runner<S>,
    reader: &AuditReaderClient,
    mut query: Query,
) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    loop {
        let page = runner.audited(reader.query(&query)).await?;
        lines.extend(page.records);
        if page.next == 0 || page.next <= query.from {
            return Ok(lines);
        }
        query.from = page.next;
    }
}

/// What the audit log has of the calls of a conversation's last turn.
#[derive(Default)]
pub struct Evidence {
    conversation: String,
    deeds: Vec<Deed>,
    /// Whether it reaches back to before the conversation: what it does not have did not begin.
    covers: bool,
}

impl Evidence {
    /// Reads it. A conversation that was answered to its end needs none.
    ///
    /// # Errors
    /// The session may not read the audit log, or the log does not answer.
    pub async fn of<S: Surface>(
        runner: &Runner<S>,
        conversation: &Conversation,
        info: &ConversationInfo,
    ) -> Result<Self, String> {
        if conversation.is_answered() {
            return Ok(Self::default());
        }
        let reader = runner.grants.find::<AuditReaderClient>("find out which calls have run")?;
        let first = runner.audited(reader.query(&Query { max: 1, ..Query::default() })).await?;
        let time = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok()?.get("time")?.as_u64();
        let covers = first.records.first().and_then(time).is_some_and(|time| time / 1_000_000 <= info.created);
        let query = Query {
            kind: "tool".to_string(),
            turn: conversation.last_turn().into(),
            since_nanoseconds: info.created.saturating_sub(CLOCKS).saturating_mul(1_000_000),
            ..Query::default()
        };
        let lines = read_all(runner, &reader, query).await?;
        // A session that continued a fork recorded its calls below the other's id until the turn ended.
        let here =
            |deed: &Deed| deed.conversation == info.id || (!info.parent.is_empty() && deed.conversation == info.parent);
        let deeds = story(lines.iter().map(String::as_str)).into_iter().filter(here).collect();
        Ok(Self { conversation: info.id.clone(), deeds, covers })
    }

    /// What has become of a call without a saved result.
    pub fn fate(&self, call: &ToolCall) -> Fate {
        let of_call = self.deeds.iter().filter(|deed| deed.call_id == call.id);
        Fate::of(of_call.map(|deed| (deed.ran, deed.outcome.as_deref())), self.covers)
    }

    /// Calls of a model that began and that the conversation does not hold: the message that proposed them was not saved.
    pub fn unsaved<'a>(&'a self, conversation: &'a Conversation) -> impl Iterator<Item = &'a Deed> {
        let calls = || conversation.entries().iter().flat_map(|entry| &entry.message.tool_calls);
        self.deeds.iter().filter(move |deed| {
            let here = deed.conversation == self.conversation && deed.ran && !deed.model.is_empty();
            here && !calls().any(|call| call.id == deed.call_id)
        })
    }
}

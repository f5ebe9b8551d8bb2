//! Saved conversations, and what the audit log has of their calls.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Conversation, Fate};
use capos_audit::{Deed, story};
use capos_schema::audit::{AuditReaderClient, AuditReaderQueryResults, Query};
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
    query: Query,
) -> Result<Vec<String>, String> {
    match pages(query, async |query: &Query| runner.audited(reader.query(query)).await).await {
        (lines, None) => Ok(lines),
        (_, Some(why)) => Err(why),
    }
}

/// The records that a query selects, as far as they can be read, and why no more of them.
async fn pages(
    mut query: Query,
    read: impl AsyncFn(&Query) -> Result<AuditReaderQueryResults, String>,
) -> (Vec<String>, Option<String>) {
    let mut lines = Vec::new();
    loop {
        let page = match read(&query).await {
            Ok(page) => page,
            Err(why) => return (lines, Some(why)),
        };
        lines.extend(page.records);
        if page.next == 0 || page.next <= query.from {
            return (lines, None);
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
    /// Reads it. A conversation that was answered to its end needs none. Of a call that the readable records do not have, nothing is
    /// known if the log cannot be read to its end.
    ///
    /// # Errors
    /// The session may not read the audit log.
    pub async fn of<S: Surface>(
        runner: &Runner<S>,
        conversation: &Conversation,
        info: &ConversationInfo,
    ) -> Result<Self, String> {
        if conversation.is_answered() {
            return Ok(Self::default());
        }
        let reader = runner.grants.find::<AuditReaderClient>("find out which calls have run")?;
        let first = runner.audited(reader.query(&Query { max: 1, ..Query::default() })).await.ok();
        let time = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok()?.get("time")?.as_u64();
        let first = first.as_ref().and_then(|first| first.records.first());
        let reaches_back = first.and_then(time).is_some_and(|time| time / 1_000_000 <= info.created);
        let query = Query {
            kind: "tool".to_string(),
            turn: conversation.last_turn().into(),
            since_nanoseconds: info.created.saturating_sub(CLOCKS).saturating_mul(1_000_000),
            ..Query::default()
        };
        let (lines, unread) = pages(query, async |query: &Query| runner.audited(reader.query(query)).await).await;
        let covers = reaches_back && unread.is_none();
        // A session that continued a fork recorded its calls below the other's id until the turn ended.
        let here =
            |deed: &Deed| deed.conversation == info.id || (!info.parent.is_empty() && deed.conversation == info.parent);
        // What did not run, as far as the log could be read, may have run by what could not.
        let is_known = |deed: &Deed| deed.ran || unread.is_none();
        let deeds = story(lines.iter().map(String::as_str));
        let deeds = deeds.into_iter().filter(|deed| here(deed) && is_known(deed)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::local::run;

    /// What can be read is kept, although a record behind it cannot be; and what is missing is not taken for something that did not
    /// happen.
    #[test]
    fn a_log_that_is_read_in_part_leaves_the_rest_unknown() {
        let read = async |query: &Query| match query.from {
            0 => Ok(AuditReaderQueryResults { records: Vec::from(["a".to_string()]), next: 7 }),
            7 => Ok(AuditReaderQueryResults { records: Vec::from(["b".to_string()]), next: 9 }),
            _ => Err("block 5 does not hold what was written there last".to_string()),
        };
        let (lines, unread) = run(pages(Query::default(), read)).unwrap();
        assert_eq!(lines, ["a", "b"]);
        assert!(unread.is_some_and(|why| why.contains("block 5")));
        let call = ToolCall { id: "call-1".to_string(), ..ToolCall::default() };
        let evidence = |covers| Evidence { conversation: "c1".to_string(), deeds: Vec::new(), covers };
        assert_ne!(evidence(true).fate(&call), evidence(false).fate(&call));
    }
}

//! Saved conversations, and what the audit log has of their calls.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Conversation, Fate};
use capos_audit::{Deed, story};
use capos_run_state::Checkpoint;
use capos_schema::audit::{AuditReaderClient, AuditReaderQueryResults, Query};
use capos_schema::conversations::{ConversationInfo, ConversationStoreClient, MessagePart};
use capos_schema::models::ToolCall;
use serde_json::Value;

use crate::cut_off::Found;
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
    /// The calls of its run.
    deeds: Vec<Deed>,
    /// Calls of which it is not known whether they are of its run. Others have the same ids: they are counted in each turn.
    doubtful: Vec<Deed>,
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
        found: &Found,
    ) -> Result<Self, String> {
        if conversation.is_answered() {
            return Ok(Self::default());
        }
        let reader = runner.grants.find::<AuditReaderClient>("find out which calls have run")?;
        let first = runner.audited(reader.query(&Query { max: 1, ..Query::default() })).await.ok();
        let time = |line: &String| serde_json::from_str::<Value>(line).ok()?.get("time")?.as_u64();
        let first = first.as_ref().and_then(|first| first.records.first());
        let reaches_back = first.and_then(time).is_some_and(|time| time / 1_000_000 <= info.created);
        let query = Query {
            kind: "tool".to_string(),
            turn: conversation.last_turn().into(),
            since_nanoseconds: info.created.saturating_sub(CLOCKS).saturating_mul(1_000_000),
            ..Query::default()
        };
        let (lines, unread) = pages(query, async |query: &Query| runner.audited(reader.query(query)).await).await;
        let run = match found {
            Found::Run(checkpoint) => Some(&**checkpoint),
            Found::Nothing | Found::Aside(_) => None,
        };
        let mut evidence = Self::new(&lines, (&info.id, &info.parent), run, reaches_back && unread.is_none());
        if unread.is_some() {
            // What did not run, as far as the log could be read, may have run by what could not.
            evidence.deeds.retain(|deed| deed.ran);
        }
        Ok(evidence)
    }

    /// By records of the turn. If another session has continued its conversation, a session continues in a fork, and records the
    /// calls of the turn below the other's id. The checkpoint of its run says in which conversation the run began, and in which
    /// session it was last.
    fn new(lines: &[String], (id, parent): (&str, &str), run: Option<&Checkpoint>, covers: bool) -> Self {
        let session =
            |line: &str| Some(serde_json::from_str::<Value>(line).ok()?.get("session")?.as_str()?.to_string());
        let is_of_session = |line: &str| run.is_none_or(|run| session(line).as_deref() == Some(run.session.as_str()));
        let (its, others): (Vec<&str>, Vec<&str>) =
            lines.iter().map(String::as_str).partition(|line| is_of_session(line));
        let is_inherited = |conversation: &str| match run {
            Some(run) => run.conversation != id && (conversation == run.conversation || conversation == parent),
            None => false,
        };
        let (mut deeds, mut doubtful) = (Vec::new(), Vec::new());
        for deed in story(its) {
            if deed.conversation == id || is_inherited(&deed.conversation) {
                deeds.push(deed);
            } else if run.is_none() && !parent.is_empty() && deed.conversation == parent {
                doubtful.push(deed);
            }
        }
        doubtful.extend(story(others).into_iter().filter(|deed| deed.conversation == id));
        Self { conversation: id.to_string(), deeds, doubtful, covers }
    }

    /// What has become of a call without a saved result.
    pub fn fate(&self, call: &ToolCall) -> Fate {
        let is_it = |deed: &&Deed| deed.call_id == call.id;
        let of_call: Vec<&Deed> = self.deeds.iter().filter(is_it).collect();
        if of_call.is_empty() && self.doubtful.iter().filter(is_it).any(|deed| deed.ran) {
            return Fate::Unknown;
        }
        Fate::of(of_call.into_iter().map(|deed| (deed.ran, deed.outcome.as_deref())), self.covers)
    }

    /// Calls of a model that began and that the conversation does not hold: the message that proposed them was not saved.
    pub fn unsaved<'a>(&'a self, conversation: &'a Conversation) -> impl Iterator<Item = &'a Deed> {
        let calls = || conversation.entries().iter().flat_map(|entry| &entry.message.tool_calls);
        let all = self.deeds.iter().chain(&self.doubtful);
        all.filter(move |deed| {
            let here = deed.conversation == self.conversation && deed.ran && !deed.model.is_empty();
            here && !calls().any(|call| call.id == deed.call_id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use capos_schema::local;

    /// What can be read is kept, although a record behind it cannot be; and what is missing is not taken for something that did not
    /// happen.
    #[test]
    fn a_log_that_is_read_in_part_leaves_the_rest_unknown() {
        let read = async |query: &Query| match query.from {
            0 => Ok(AuditReaderQueryResults { records: Vec::from(["a".to_string()]), next: 7 }),
            7 => Ok(AuditReaderQueryResults { records: Vec::from(["b".to_string()]), next: 9 }),
            _ => Err("block 5 does not hold what was written there last".to_string()),
        };
        let (lines, unread) = local::run(pages(Query::default(), read)).unwrap();
        assert_eq!(lines, ["a", "b"]);
        assert!(unread.is_some_and(|why| why.contains("block 5")));
        let call = ToolCall { id: "call-1".to_string(), ..ToolCall::default() };
        let evidence = |covers| Evidence { conversation: "c1".to_string(), covers, ..Evidence::default() };
        assert_ne!(evidence(true).fate(&call), evidence(false).fate(&call));
    }

    fn call() -> ToolCall {
        ToolCall { id: "call-1".into(), name: "write_file".into(), ..ToolCall::default() }
    }

    /// The records of a call that ran to its end.
    fn ran(conversation: &str, session: &str) -> Vec<String> {
        let line = |sequence: u64, before: u64, rest: &str| {
            format!(
                "{{\"sequence\":{sequence},\"before\":{before},\"kind\":\"tool\",\"session\":\"{session}\",\
                 \"conversation\":\"{conversation}\",\"turn\":3,\"callId\":\"call-1\",\"modelId\":\"m\",{rest}}}"
            )
        };
        vec![line(7, 0, "\"phase\":\"before\""), line(8, 7, "\"phase\":\"after\",\"outcome\":\"ok\"")]
    }

    fn run(conversation: &str, session: &str) -> Checkpoint {
        Checkpoint { conversation: conversation.into(), session: session.into(), turn: 3, ..Checkpoint::default() }
    }

    fn fate(lines: &[String], run: Option<&Checkpoint>) -> Fate {
        Evidence::new(lines, ("fork", "parent"), run, true).fate(&call())
    }

    /// A call of another run with the same id is not told as that of this one.
    #[test]
    fn what_another_run_did_is_not_told_of_this_one() {
        let (not_run, ok) = (Fate::NotRun(None), Fate::Ran("ok".to_string()));
        // The person forked the conversation and began a run there, in one session.
        assert_eq!(fate(&ran("parent", "s1"), Some(&run("fork", "s1"))), not_run);
        assert_eq!(fate(&ran("fork", "s1"), Some(&run("fork", "s1"))), ok);
        // The session went on in a fork, and another session went on with the parent.
        assert_eq!(fate(&ran("parent", "s1"), Some(&run("parent", "s1"))), ok);
        assert_eq!(fate(&ran("parent", "s2"), Some(&run("parent", "s1"))), not_run);
        assert_eq!(fate(&ran("elsewhere", "s1"), Some(&run("fork", "s1"))), not_run);
    }

    /// Nothing that may be of this run is told as not run.
    #[test]
    fn what_may_be_of_this_run_is_unknown() {
        assert_eq!(fate(&ran("parent", "s1"), None), Fate::Unknown);
        assert_eq!(fate(&ran("fork", "s2"), Some(&run("fork", "s1"))), Fate::Unknown);
        assert_eq!(fate(&ran("fork", "s2"), None), Fate::Ran("ok".to_string()));
        assert_eq!(fate(&[], None), Fate::NotRun(None));
    }
}

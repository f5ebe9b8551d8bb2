//! Turns that were cut off: what the audit log has of their calls, and how they go on.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Conversation, Fate};
use capos_audit::{Deed, story};
use capos_plural::count;
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::authority::ApprovalClientClient;
use capos_schema::conversations::{ConversationInfo, ConversationStoreClient};
use capos_schema::models::ToolCall;
use capos_schema::terminal::Style;

use super::Done;
use super::audit::read_all;
use super::conversations::{MESSAGE, Messages, title};
use crate::escape::{first_line, name};
use crate::keeper::PURPOSE;
use crate::session::Session;

/// How far the clocks of two records may be apart, in milliseconds.
const CLOCKS: u64 = 60_000;
/// What the audit log has of the calls of a conversation's last turn.
#[derive(Default)]
pub struct Evidence {
    conversation: String,
    deeds: Vec<Deed>,
    /// Whether it reaches back to before the conversation: what it does not have did not begin.
    covers: bool,
}

impl Evidence {
    pub async fn of(session: &Session, conversation: &Conversation, info: &ConversationInfo) -> Result<Self, String> {
        let reader = session.runner.grants.find::<AuditReaderClient>("find out which calls have run")?;
        let first = session.runner.audited(reader.query(&Query { max: 1, ..Query::default() })).await?;
        let time = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok()?.get("time")?.as_u64();
        let covers = first.records.first().and_then(time).is_some_and(|time| time / 1_000_000 <= info.created);
        let query = Query {
            kind: "tool".to_string(),
            turn: conversation.last_turn().into(),
            since_nanoseconds: info.created.saturating_sub(CLOCKS).saturating_mul(1_000_000),
            ..Query::default()
        };
        let lines = read_all(session, &reader, query).await?;
        // A session that continued a fork recorded its calls below the other's id until the turn ended.
        let here =
            |deed: &Deed| deed.conversation == info.id || (!info.parent.is_empty() && deed.conversation == info.parent);
        let deeds = story(lines.iter().map(String::as_str)).into_iter().filter(here).collect();
        Ok(Self { conversation: info.id.clone(), deeds, covers })
    }

    pub fn fate(&self, call: &ToolCall) -> Fate {
        let of_call = self.deeds.iter().filter(|deed| deed.call_id == call.id);
        Fate::of(of_call.map(|deed| (deed.ran, deed.outcome.as_deref())), self.covers)
    }

    /// Tells of calls of a model that began and that the conversation does not hold: the message that proposed them was not saved.
    pub async fn tell_unsaved(&self, session: &Session) {
        let conversation = session.agent.conversation();
        let calls = || conversation.entries().iter().flat_map(|entry| &entry.message.tool_calls);
        let is_unsaved = |deed: &&Deed| {
            let here = deed.conversation == self.conversation && deed.ran && !deed.model.is_empty();
            here && !calls().any(|call| call.id == deed.call_id)
        };
        for deed in self.deeds.iter().filter(is_unsaved) {
            let text = format!(
                "  {} {}: it began, and the conversation does not hold it; the model may propose it again",
                name(&deed.tool),
                first_line(&deed.arguments, MESSAGE)
            );
            session.runner.screen.wrapped(&[(Style::Warning, &text)]).await;
        }
    }
}

/// Ends the consents for further calls: they were given in another conversation.
pub async fn end_consents(session: &Session) {
    let Ok(client) = session.runner.grants.find::<ApprovalClientClient>("end consents") else { return };
    if let Ok(ended @ 1..) = session.runner.within(client.revoke("")).await {
        let text = format!("{} for further calls ended, as this is another conversation", count(ended, "consent"));
        session.runner.screen.line(Style::Dim, &text).await;
    }
}

/// `/continue`.
pub async fn go_on(session: &mut Session) -> Done {
    if session.agent.conversation().is_answered() {
        return Err("the last request was answered to its end; enter another one".to_string());
    }
    session.go_on().await;
    Ok(())
}

/// Tells a person who begins a session that their last conversation was cut off.
pub async fn tell_cut_off(session: &Session) {
    let Ok(store) = session.runner.grants.find::<ConversationStoreClient>(PURPOSE) else { return };
    let Ok(page) = session.runner.audited(store.list("", 1)).await else { return };
    let Some(info) = page.conversations.first().filter(|info| info.messages > 0) else { return };
    let mut messages = Messages::of(store, &info.id);
    messages.next = (info.messages.saturating_sub(1), 0);
    let mut last = Conversation::new(String::new());
    // A message that cannot be read is told of when somebody reads it.
    let read = messages.next(&session.runner).await;
    if matches!(read, Ok(Some(text)) if last.load_message(&text).is_ok()) && !last.is_answered() {
        let text =
            format!("your last conversation, {}, was cut off; /resume and /continue go on with it", title(&info.title));
        session.runner.screen.wrapped(&[(Style::Warning, &text)]).await;
    }
}

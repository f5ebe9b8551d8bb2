//! Turns that were cut off: what the audit log has of their calls, and how they go on.

use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::Conversation;
use capos_plural::count;
use capos_schema::authority::ApprovalClientClient;
use capos_schema::conversations::ConversationStoreClient;
use capos_schema::terminal::Style;

use super::Done;
use super::conversations::{MESSAGE, title};
use super::runs::{cut_off_text, is_closed, is_cut_off};
use crate::escape::{first_line, name};
use crate::history::{Evidence, Messages};
use crate::keeper::PURPOSE;
use crate::session::Session;

/// Runs among which a login looks for those that were cut off.
const RUNS: u32 = 20;

/// Tells of calls of a model that began and that the conversation does not hold.
pub async fn tell_unsaved(session: &Session, evidence: &Evidence) {
    for deed in evidence.unsaved(session.agent.conversation()) {
        let text = format!(
            "  {} {}: it began, and the conversation does not hold it; the model may propose it again",
            name(&deed.tool),
            first_line(&deed.arguments, MESSAGE)
        );
        session.runner.screen.wrapped(&[(Style::Warning, &text)]).await;
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
    if !session.agent.can_go_on() {
        return Err("the last request was answered to its end; enter another one".to_string());
    }
    session.go_on().await;
    Ok(())
}

/// `/rest`.
pub async fn rest(session: &mut Session) -> Done {
    let Some(rest) = session.rest.take() else {
        return Err("nothing of the last request is left; enter another one".to_string());
    };
    session.turn(Some(&rest)).await;
    Ok(())
}

/// Tells a person who begins a session that their last conversation was cut off.
pub async fn tell_cut_off(session: &Session) {
    let Ok(store) = session.runner.grants.find::<ConversationStoreClient>(PURPOSE) else { return };
    let Ok(page) = session.runner.audited(store.list("", 1)).await else { return };
    let Some(info) = page.conversations.first().filter(|info| info.messages > 0) else { return };
    let mut messages = Messages::of(store.clone(), &info.id);
    messages.next = (info.messages.saturating_sub(1), 0);
    let mut last = Conversation::new(String::new());
    // A message that cannot be read is told of when somebody reads it.
    let read = messages.next(&session.runner).await;
    let is_cut = matches!(read, Ok(Some(text)) if last.load_message(&text).is_ok()) && !last.is_answered();
    if is_cut {
        let run = session.runner.audited(store.run(&info.id)).await.unwrap_or_default();
        // One that is closed was ended by its person: they left, or turned the machine off.
        if !is_closed(&run) {
            let text = format!(
                "your last conversation, {}, was cut off; /resume and /continue go on with it{}",
                title(&info.title),
                cut_off_text(&run)
            );
            session.runner.screen.wrapped(&[(Style::Warning, &text)]).await;
        }
    }
    tell_others(session, &store, &info.id).await;
}

/// Tells how many of the last runs in other conversations were cut off: those in the background.
async fn tell_others(session: &Session, store: &ConversationStoreClient, last: &str) {
    let Ok(page) = session.runner.audited(store.runs("", RUNS)).await else { return };
    let others = page.runs.iter().filter(|run| run.conversation != last && is_cut_off(run)).count();
    if others > 0 {
        let (runs, verb) = match others {
            1 => ("run in another conversation".to_string(), "was"),
            _ => ("runs in other conversations".to_string(), "were"),
        };
        let text = format!("{others} {runs} {verb} cut off; /runs lists what can be continued");
        session.runner.screen.wrapped(&[(Style::Warning, &text)]).await;
    }
}

//! What a turn came to, compared with its results and with the request.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Called, Conversation, Entry, undone, unsupported};
use capos_schema::models::{Outcome, Role};
use capos_schema::reflection::tool;
use capos_schema::terminal::Style;
use capos_terminal::quote;

use crate::escape::{escape, shorten};
use crate::help;
use crate::render::{Finished, WIDTH, finished};
use crate::session::Session;

/// Tells the person of an answer that no result supports, with the results; what the manual says, if no tool was called; and of wishes
/// for which no call was made. The part of the request that these wishes are is returned.
pub async fn tell(session: &Session) -> Option<String> {
    let (conversation, screen) = (session.agent.conversation(), &session.runner.screen);
    if let Some(why) = objection(conversation) {
        let text = format!("the answer says {why}; the results of this turn:");
        screen.wrapped(&[(Style::Warning, &text)]).await;
        let columns = screen.size().await.0;
        for (name, arguments, text) in results(conversation) {
            let Finished { mark, line, rows } = finished((name, arguments), (Outcome::Ok, text), columns);
            screen.wrapped(&[(Style::Tool, &mark), (Style::Plain, &line)]).await;
            screen.write(Style::Plain, &rows).await;
        }
    }
    if let Some(request) = uncalled(conversation) {
        help::answer(session, request).await;
    }
    let left = left(conversation);
    let rest = (!left.is_empty()).then(|| left.join(" and then "))?;
    let parts: Vec<String> = left.iter().map(|part| quote(&shorten(&escape(part), WIDTH))).collect();
    let text = format!("Not done: {}. /rest asks for it.", parts.join(", "));
    screen.wrapped(&[(Style::Warning, &text)]).await;
    Some(rest)
}

/// The messages of the last turn.
fn turn(conversation: &Conversation) -> impl DoubleEndedIterator<Item = &Entry> {
    let last = conversation.last_turn();
    conversation.entries().iter().filter(move |entry| entry.turn == last)
}

/// What the last answer states without support.
fn objection(conversation: &Conversation) -> Option<String> {
    let answer = conversation.entries().last()?;
    if answer.message.role != Role::Assistant || !answer.message.tool_calls.is_empty() {
        return None;
    }
    let of_turn = |entry: &&Entry| entry.turn == answer.turn && entry.message.role == Role::Tool;
    let results: Vec<&str> =
        conversation.entries().iter().filter(of_turn).map(|entry| entry.message.content.as_str()).collect();
    let others = conversation.entries().iter().filter(|entry| entry.id != answer.id && !of_turn(entry));
    let before: Vec<&str> = others
        .flat_map(|entry| {
            let calls = entry.message.tool_calls.iter().flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
            calls.chain([entry.message.content.as_str()])
        })
        .collect();
    unsupported(&answer.message.content, &results, &before)
}

/// The results of the last turn: tool, arguments, text.
fn results(conversation: &Conversation) -> impl Iterator<Item = (&str, &str, &str)> {
    let calls = || turn(conversation).flat_map(|entry| &entry.message.tool_calls);
    let results = turn(conversation).filter(|entry| entry.message.role == Role::Tool);
    results.filter_map(move |entry| {
        let call = calls().find(|call| call.id == entry.message.tool_call_id)?;
        Some((call.name.as_str(), call.arguments.as_str(), entry.message.content.as_str()))
    })
}

/// The last request, if no call was made for it.
fn uncalled(conversation: &Conversation) -> Option<&str> {
    let is_idle = turn(conversation).all(|entry| entry.message.tool_calls.is_empty());
    let request = turn(conversation).find(|entry| entry.message.role == Role::User).filter(|_| is_idle)?;
    Some(&request.message.content)
}

/// The wishes of the last request for which no call was made.
fn left(conversation: &Conversation) -> Vec<String> {
    let request = turn(conversation).find(|entry| entry.message.role == Role::User);
    let calls = turn(conversation).flat_map(|entry| &entry.message.tool_calls);
    let calls: Vec<Called<'_>> = calls
        .map(|call| Called {
            tool: &call.name,
            reads: tool(&call.name).is_some_and(|method| !method.changes()),
            arguments: &call.arguments,
        })
        .collect();
    let undone = request.map(|entry| undone(&entry.message.content, &calls)).unwrap_or_default();
    undone.into_iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::models::{ChatMessage, ToolCall};

    fn said(role: Role, content: &str, calls: &[(&str, &str)]) -> ChatMessage {
        let call = |(name, arguments): &(&str, &str)| ToolCall {
            id: (*name).into(),
            name: (*name).into(),
            arguments: (*arguments).into(),
            ..ToolCall::default()
        };
        let tool_call_id = if role == Role::Tool { "service_status" } else { "" }.into();
        ChatMessage {
            role,
            content: content.into(),
            tool_calls: calls.iter().map(call).collect(),
            tool_call_id,
            ..ChatMessage::default()
        }
    }

    fn conversation(request: &str, answer: &str) -> Conversation {
        let mut conversation = Conversation::new("c".into());
        for message in [
            said(Role::User, request, &[]),
            said(Role::Assistant, "", &[("service_status", "{\"name\":\"hello\"}")]),
            said(Role::Tool, "{\"info\":{\"name\":\"hello\",\"restarts\":0,\"state\":\"failed\"}}", &[]),
            said(Role::Assistant, answer, &[]),
        ] {
            conversation.push(message, (1, 0), "", Vec::new());
        }
        conversation
    }

    #[test]
    fn an_answer_that_contradicts_its_result_is_told() {
        let wrong = conversation("is it up?", "hello is running.");
        assert_eq!(objection(&wrong).as_deref(), Some("that hello is running, and the result says failed"));
        assert_eq!(results(&wrong).map(|(name, ..)| name).collect::<Vec<_>>(), ["service_status"]);
        assert_eq!(objection(&conversation("is it up?", "hello is failed.")), None);
        // What the request says is no invention.
        assert_eq!(objection(&conversation("look at notes.txt", "notes.txt is no service.")), None);
    }

    #[test]
    fn a_turn_with_a_call_is_not_idle() {
        let mut conversation = conversation("is it up?", "hello is failed.");
        assert_eq!(uncalled(&conversation), None);
        for message in [said(Role::User, "what is a capability?", &[]), said(Role::Assistant, "No tool.", &[])] {
            conversation.push(message, (2, 0), "", Vec::new());
        }
        assert_eq!(uncalled(&conversation), Some("what is a capability?"));
    }

    #[test]
    fn wishes_without_a_call_are_left() {
        let two = "check the hello service and then delete notes.txt";
        assert_eq!(left(&conversation(two, "Done.")), ["delete notes.txt"]);
        assert!(left(&conversation("check the hello service", "Done.")).is_empty());
    }
}

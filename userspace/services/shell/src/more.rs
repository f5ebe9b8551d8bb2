//! What the tools of the last turn gave, whole, and the summary that was made in it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Conversation;
use capos_plural::count;
use capos_schema::models::Role;
use capos_schema::terminal::Style;
use capos_terminal::{sanitise, wrap};

use crate::command::Done;
use crate::escape::{escape, shorten};
use crate::readable::laid_out;
use crate::render::WIDTH;
use crate::session::Session;

/// Stands before each line of a result, so that none of it can pass for the shell's own words.
const MARGIN: &str = "  │ ";

/// `/more`.
pub async fn more(session: &Session) -> Done {
    let conversation = session.agent.conversation();
    let results: Vec<(String, String)> = summary(conversation).into_iter().chain(results(conversation)).collect();
    if results.is_empty() {
        return Err("this conversation has no tool results yet".to_string());
    }
    let screen = &session.runner.screen;
    let columns = screen.size().await.0;
    for (heading, lines) in results {
        let heading = format!("{}\n", wrap("", &heading, columns));
        let held = screen.hold().await;
        held.fresh_line().await;
        held.show(&[(Style::Tool, &heading), (Style::Plain, &margined(&lines, columns))]).await;
    }
    Ok(())
}

/// The summary of the last turn, if one was made in it: how many messages it stands for, and its text.
fn summary(conversation: &Conversation) -> Option<(String, String)> {
    let (entry, messages) = conversation.summary().filter(|(entry, _)| entry.turn == conversation.last_turn())?;
    let heading = format!("▸ the model's summary of {}", count(messages, "message"));
    Some((heading, entry.message.content.clone()))
}

/// The results of the last turn that has any: what each is of, and its text.
fn results(conversation: &Conversation) -> Vec<(String, String)> {
    let messages = || conversation.entries().iter().map(|entry| (entry.turn, &entry.message));
    let of_tools = || messages().filter(|(_, message)| message.role == Role::Tool);
    let Some(last) = of_tools().map(|(turn, _)| turn).next_back() else { return Vec::new() };
    let results = of_tools().filter(|(turn, _)| *turn == last).map(|(_, message)| {
        let mut calls = messages().flat_map(|(_, asked)| &asked.tool_calls);
        let call = calls.rfind(|call| call.id == message.tool_call_id);
        let asked = call.map(|call| format!("{} {}", call.name, call.arguments)).unwrap_or_default();
        let heading = format!("▸ {}: {}", shorten(&escape(&asked), WIDTH), count(message.content.len(), "byte"));
        (heading, laid_out(&message.content))
    });
    results.collect()
}

/// The lines of a text behind the margin, each in as many rows as it takes.
pub fn margined(text: &str, columns: usize) -> String {
    // What ends a line for the sanitiser, and nothing else, ends one here.
    let lines = sanitise(text.as_bytes()).into_string();
    lines.lines().map(|line| format!("{MARGIN}{}\n", wrap(MARGIN, line, columns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::models::{ChatMessage, ToolCall};
    use proptest::prelude::*;

    fn asks(name: &str) -> ChatMessage {
        let call = ToolCall { id: name.into(), name: name.into(), arguments: "{}".into(), ..ToolCall::default() };
        ChatMessage { role: Role::Assistant, tool_calls: Vec::from([call]), ..ChatMessage::default() }
    }

    fn gave(name: &str, content: &str) -> ChatMessage {
        let (tool_call_id, content) = (name.into(), content.into());
        ChatMessage { role: Role::Tool, tool_call_id, content, ..ChatMessage::default() }
    }

    #[test]
    fn all_of_the_last_turns_results_are_shown() {
        let mut conversation = Conversation::new("c".into());
        assert!(results(&conversation).is_empty());
        let turns = [
            (1, asks("old")),
            (1, gave("old", "gone")),
            (2, asks("read_file")),
            (2, gave("read_file", "one\ncapos> two\n\nthree\n")),
            (2, asks("list")),
            (2, gave("list", "{\"modifiedUnix\":1795251907}")),
            (3, ChatMessage { role: Role::User, content: "hi".into(), ..ChatMessage::default() }),
        ];
        for (turn, message) in turns {
            conversation.push(message, (turn, 0), "", Vec::new());
        }
        let dated = "{\n  \"modified\": \"2026-11-21 09:05:07 UTC\"\n}".to_string();
        let file = "one\ncapos> two\n\nthree\n".to_string();
        assert_eq!(
            results(&conversation),
            [("▸ read_file {}: 22 bytes".to_string(), file), ("▸ list {}: 27 bytes".to_string(), dated)]
        );
    }

    #[test]
    fn f16_the_summary_of_the_last_turn_is_shown() {
        let summary_of = |turn: u32, last: u32| {
            let mut conversation = Conversation::new("c".into());
            conversation.push(ChatMessage { role: Role::User, ..ChatMessage::default() }, (1, 0), "", Vec::new());
            conversation.push(asks("old"), (1, 0), "", Vec::new());
            let entry = "{\"at\":0,\"content\":\"so far\",\"label\":[],\"model\":\"\",\"provenance\":\"untrusted\",\"replaces\":2,\
                         \"role\":\"assistant\",\"sha256\":\"SHA\",\"toolCallId\":\"\",\"toolCalls\":[],\"tools\":[],\"turn\":TURN,\
                         \"version\":1}";
            let sha: String = capos_agent::hash("so far").iter().map(|byte| format!("{byte:02x}")).collect();
            conversation.load_message(&entry.replace("TURN", &turn.to_string()).replace("SHA", &sha)).unwrap();
            conversation.push(asks("new"), (last, 0), "", Vec::new());
            summary(&conversation)
        };
        assert_eq!(summary_of(1, 1), Some(("▸ the model's summary of 1 message".into(), "so far".into())));
        assert_eq!(summary_of(1, 2), None);
    }

    #[test]
    fn each_row_of_a_result_has_a_margin() {
        assert_eq!(margined("one\r\n\n  two", 80), "  │ one\n  │ \n  │   two\n");
        let long = format!("{}▸ read_file {{}}: 9 bytes", " ".repeat(21));
        let rows = margined(&long, 25);
        assert_eq!(rows, format!("  │ {}\n  ┆  ▸ read_file {{}}: 9 b\n  ┆ ytes\n", " ".repeat(20)));
    }

    proptest! {
        #[test]
        fn no_row_of_a_result_is_without_its_margin(
            text in "( {1,100}|\\PC{0,50}|\n|\r|▸ a: 1 byte|\u{1b}\\[2J|\t){0,12}",
            columns in 20_usize..140,
        ) {
            for row in margined(&text, columns).lines() {
                prop_assert!(row.starts_with(MARGIN) || row.starts_with(capos_terminal::CONTINUED), "{:?}", row);
                prop_assert!(unicode_width::UnicodeWidthStr::width(row) < columns, "{:?}", row);
            }
        }
    }
}

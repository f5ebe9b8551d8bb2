//! What the tools of the last turn gave, whole, and the summary that was made in it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Conversation;
use capos_plural::count;
use capos_schema::models::Role;
use capos_schema::terminal::Style;
use capos_terminal::{sanitise, wrap};
use serde_json::Value;

use crate::command::Done;
use crate::escape::{escape, shorten};
use crate::render::WIDTH;
use crate::result::result;
use crate::session::Session;

/// Stands before each line of a result, so that none of it can pass for the shell's own words.
const MARGIN: &str = "  │ ";

/// `/more`, and `/more --json`.
pub async fn more(session: &Session, rest: &[&str]) -> Done {
    let form = match rest {
        [] => Form::People,
        ["--json"] => Form::Json,
        _ => return Err("usage: /more or /more --json".to_string()),
    };
    let conversation = session.agent.conversation();
    let results: Vec<(String, String)> = summary(conversation).into_iter().chain(results(conversation, form)).collect();
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

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// By the schema of their tool.
    People,
    /// As the model and programs get them, structures with a line for each member.
    Json,
}

impl Form {
    fn of(self, (name, arguments): (&str, &str), text: &str) -> String {
        match self {
            Self::People => result(name, arguments, text).map_or_else(|| text.to_string(), |result| result.whole()),
            Self::Json => json(text).unwrap_or_else(|| text.to_string()),
        }
    }
}

/// A structure in the system's form, with a line for each member. A file's text, also if it is JSON, is none.
fn json(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let written = value.to_string();
    (value.is_object() && written == text).then(|| serde_json::to_string_pretty(&value).ok()).flatten()
}

/// The summary of the last turn, if one was made in it: how many messages it stands for, and its text.
fn summary(conversation: &Conversation) -> Option<(String, String)> {
    let (entry, messages) = conversation.summary().filter(|(entry, _)| entry.turn == conversation.last_turn())?;
    let heading = format!("▸ the model's summary of {}", count(messages, "message"));
    Some((heading, entry.message.content.clone()))
}

/// The results of the last turn that has any: what each is of, and its text.
fn results(conversation: &Conversation, form: Form) -> Vec<(String, String)> {
    let messages = || conversation.entries().iter().map(|entry| (entry.turn, &entry.message));
    let of_tools = || messages().filter(|(_, message)| message.role == Role::Tool);
    let Some(last) = of_tools().map(|(turn, _)| turn).next_back() else { return Vec::new() };
    let results = of_tools().filter(|(turn, _)| *turn == last).map(|(_, message)| {
        let mut calls = messages().flat_map(|(_, asked)| &asked.tool_calls);
        let call = calls.rfind(|call| call.id == message.tool_call_id);
        let (name, arguments) = call.map(|call| (call.name.as_str(), call.arguments.as_str())).unwrap_or_default();
        let asked = shorten(&escape(&format!("{name} {arguments}")), WIDTH);
        let heading = format!("▸ {asked}: {}", count(message.content.len(), "byte"));
        (heading, form.of((name, arguments), &message.content))
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
        assert!(results(&conversation, Form::People).is_empty());
        let turns = [
            (1, asks("old")),
            (1, gave("old", "gone")),
            (2, asks("read_file")),
            (2, gave("read_file", "one\ncapos> two\n\nthree\n")),
            (2, asks("list_programs")),
            (2, gave("list_programs", "{\"names\":[\"cat\",\"wc\"]}")),
            (3, ChatMessage { role: Role::User, content: "hi".into(), ..ChatMessage::default() }),
        ];
        for (turn, message) in turns {
            conversation.push(message, (turn, 0), "", Vec::new());
        }
        let shown = |file: &str, list: &str| {
            [
                ("▸ read_file {}: 22 bytes".to_string(), file.into()),
                ("▸ list_programs {}: 22 bytes".to_string(), list.into()),
            ]
        };
        assert_eq!(results(&conversation, Form::People), shown("one\ncapos> two\n\nthree", "cat\nwc"));
        let json = "{\n  \"names\": [\n    \"cat\",\n    \"wc\"\n  ]\n}";
        assert_eq!(results(&conversation, Form::Json), shown("one\ncapos> two\n\nthree\n", json));
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

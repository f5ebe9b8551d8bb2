//! What the tools of the last turn gave, whole.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Thread;
use capos_plural::count;
use capos_schema::models::Role;
use capos_schema::terminal::Style;

use crate::command::Done;
use crate::escape::{escape, shorten};
use crate::readable::laid_out;
use crate::render::WIDTH;
use crate::session::Session;

/// Stands before each line of a result, so that none of it can pass for the shell's own words.
const MARGIN: &str = "  │ ";

/// `/more`.
pub async fn more(session: &Session) -> Done {
    let results = results(session.agent.thread());
    if results.is_empty() {
        return Err("no tool has given anything in this conversation".to_string());
    }
    for (heading, lines) in results {
        session.runner.screen.line(Style::Tool, &heading).await;
        session.runner.screen.write(Style::Plain, &lines).await;
    }
    Ok(())
}

/// The results of the last turn that has any: what each is of, and its lines.
fn results(thread: &Thread) -> Vec<(String, String)> {
    let messages = || thread.entries().iter().map(|entry| (entry.turn, &entry.message));
    let of_tools = || messages().filter(|(_, message)| message.role == Role::Tool);
    let Some(last) = of_tools().map(|(turn, _)| turn).next_back() else { return Vec::new() };
    let results = of_tools().filter(|(turn, _)| *turn == last).map(|(_, message)| {
        let mut calls = messages().flat_map(|(_, asked)| &asked.tool_calls);
        let call = calls.rfind(|call| call.id == message.tool_call_id);
        let asked = call.map(|call| format!("{} {}", call.name, call.arguments)).unwrap_or_default();
        let heading = format!("▸ {}: {}", shorten(&escape(&asked), WIDTH), count(message.content.len(), "byte"));
        let lines = laid_out(&message.content);
        (heading, lines.lines().map(|line| format!("{MARGIN}{line}\n")).collect())
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::models::{ChatMessage, ToolCall};

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
        let mut thread = Thread::new("c".into());
        assert!(results(&thread).is_empty());
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
            thread.push(message, turn, 0);
        }
        let line = |text: &str| format!("{MARGIN}{text}\n");
        let dated = [line("{"), line("  \"modified\": \"2026-11-21 09:05:07 UTC\""), line("}")].concat();
        let file = ["one", "capos> two", "", "three"].map(line).concat();
        assert_eq!(
            results(&thread),
            [("▸ read_file {}: 22 bytes".to_string(), file), ("▸ list {}: 27 bytes".to_string(), dated)]
        );
    }
}

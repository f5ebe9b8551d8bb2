//! A conversation as any template takes it: what the person said and what the model said in turns, without calls and results.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_policy::join;
use capos_schema::authority::Provenance;
use capos_schema::models::{ChatMessage, Role};

use crate::conversation::Entry;

/// Whether [`plain`] would change something of these messages.
pub fn is_plain<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> bool {
    let mut last = None;
    entries.into_iter().map(|entry| &entry.message).all(|message| {
        let again = last.replace(message.role) == Some(message.role);
        !again && message.role != Role::Tool && message.tool_calls.is_empty()
    })
}

/// The messages, in which calls and results of turns up to `until` are told as text of the model's, and what has one speaker is
/// one message. No text changes its speaker: results stand next to what the model said of them, and all of that is
/// untrusted.
pub fn plain(entries: &[&Entry], until: u32) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    // A message of a turn that is told as text, or the person's, with which what follows may be one.
    let mut open = false;
    for entry in entries {
        let mut message = entry.message.clone();
        let told = entry.turn <= until;
        if told && message.role != Role::User {
            message.content = text(&message, entries);
            message.role = Role::Assistant;
            message.tool_call_id = String::new();
            message.tool_calls = Vec::new();
            message.provenance = Provenance::Untrusted;
        }
        let goes_on = open && (told || message.role == Role::User);
        match messages.last_mut().filter(|last| goes_on && last.role == message.role) {
            Some(last) => add(last, &message),
            None => messages.push(message),
        }
        open = told;
    }
    messages
}

fn add(to: &mut ChatMessage, more: &ChatMessage) {
    if !to.content.is_empty() && !more.content.is_empty() {
        to.content.push_str("\n\n");
    }
    to.content.push_str(&more.content);
    to.label = join(&to.label, &more.label);
    if more.provenance == Provenance::Untrusted {
        to.provenance = Provenance::Untrusted;
    }
}

/// What a message of the model or of a tool says, its calls and its result among it.
fn text(message: &ChatMessage, entries: &[&Entry]) -> String {
    if message.role == Role::Tool {
        let mut calls = entries.iter().flat_map(|entry| &entry.message.tool_calls);
        let name = calls.find(|call| call.id == message.tool_call_id).map_or("a tool", |call| &call.name);
        return format!("({name} gave: {})", message.content);
    }
    let mut parts = Vec::new();
    if !message.content.is_empty() {
        parts.push(message.content.to_owned());
    }
    parts.extend(message.tool_calls.iter().map(|call| format!("(I called {} with {}.)", call.name, call.arguments)));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::Label;
    use capos_schema::models::ToolCall;
    use proptest::prelude::*;

    fn entry(turn: u32, message: ChatMessage) -> Entry {
        Entry {
            id: String::new(),
            message,
            turn,
            step: 0,
            tokens: 0,
            outcome: None,
            replaces: 0,
            is_cut: false,
            at: 0,
            model: String::new(),
            tools: Vec::new(),
            hash: [0; 32],
            audit: Vec::new(),
        }
    }

    fn says(role: Role, content: &str) -> ChatMessage {
        ChatMessage { role, content: content.into(), ..ChatMessage::default() }
    }

    fn asks(content: &str, ids: &[&str]) -> ChatMessage {
        let call = |id: &&str| ToolCall {
            id: (*id).into(),
            name: "read".into(),
            arguments: format!("{{\"path\":\"{id}\"}}"),
            ..ToolCall::default()
        };
        ChatMessage { tool_calls: ids.iter().map(call).collect(), ..says(Role::Assistant, content) }
    }

    fn gave(id: &str, content: &str) -> ChatMessage {
        let label = Label { classes: Vec::from(["pii.log".into()]) };
        let (tool_call_id, provenance) = (id.into(), Provenance::Untrusted);
        ChatMessage { tool_call_id, provenance, label, ..says(Role::Tool, content) }
    }

    #[test]
    fn calls_and_results_are_told_as_the_models_text() {
        let entries = [
            entry(1, says(Role::User, "Look.")),
            entry(1, asks("I look.", &["a", "b"])),
            entry(1, gave("a", "one")),
            entry(1, gave("b", "two")),
            entry(1, says(Role::Assistant, "Done.")),
            entry(2, says(Role::User, "And?")),
            entry(3, says(Role::User, "Again.")),
            entry(3, asks("", &["c"])),
            entry(3, gave("c", "three")),
        ];
        assert!(!is_plain(&entries));
        let entries: Vec<&Entry> = entries.iter().collect();
        let found = plain(&entries, 2);
        let texts: Vec<_> = found.iter().map(|message| (message.role, message.content.as_str())).collect();
        let told = "I look.\n\n(I called read with {\"path\":\"a\"}.)\n\n(I called read with {\"path\":\"b\"}.)\n\n\
                    (read gave: one)\n\n(read gave: two)\n\nDone.";
        let expected = [
            (Role::User, "Look."),
            (Role::Assistant, told),
            (Role::User, "And?\n\nAgain."),
            (Role::Assistant, ""),
            (Role::Tool, "three"),
        ];
        assert_eq!(texts, expected);
        assert_eq!(found[1].label.classes, ["pii.log"]);
        assert_eq!(found[1].provenance, Provenance::Untrusted);
        assert_eq!(found[3].tool_calls.len(), 1, "the present turn keeps its calls");
        assert_eq!(plain(&entries, 0).len(), entries.len());
    }

    proptest! {
        /// Whatever a conversation is: as text its speakers take turns, nothing that was said is lost, and no label is.
        #[test]
        fn speakers_take_turns(roles in proptest::collection::vec(0_u32..4, 0..12)) {
            let mut entries = Vec::new();
            for (at, role) in (1_u32..).zip(&roles) {
                let word = format!("w{at}");
                entries.push(entry(at, match role {
                    0 => says(Role::User, &word),
                    1 => says(Role::Assistant, &word),
                    2 => asks("", &[&word]),
                    _ => gave("x", &word),
                }));
            }
            let found = plain(&entries.iter().collect::<Vec<_>>(), u32::MAX);
            let all: Vec<Entry> = found.iter().map(|message| entry(1, message.clone())).collect();
            prop_assert!(is_plain(&all));
            let said: String = found.iter().map(|message| message.content.as_str()).collect();
            for at in 1..=roles.len() {
                let word = format!("w{at}");
                prop_assert!(said.contains(&word));
            }
            for message in &found {
                let foreign = message.content.contains("gave: ");
                prop_assert_eq!(!foreign || message.role == Role::Assistant, true);
                prop_assert_eq!(foreign, message.label.classes.contains(&"pii.log".into()));
            }
        }
    }
}

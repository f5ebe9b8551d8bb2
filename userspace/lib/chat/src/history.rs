//! Other forms of a conversation, for templates that reject the one it has.

use std::collections::HashMap;

use crate::message::{Call, Message, Role};

/// Another form of the messages; none where it would be the same.
pub type Form = fn(&[Message]) -> Option<Vec<Message>>;

/// The forms that are tried, by themselves and together.
pub const FORMS: [Form; 5] =
    [with_instructions_inside, with_answers_between, with_short_ids, with_calls_apart, with_arguments_as_text];

/// The messages in all forms of a set, which is a number with a bit for each.
pub fn in_forms(messages: &[Message], set: usize) -> Option<Vec<Message>> {
    let mut made = messages.to_vec();
    for (at, form) in FORMS.iter().enumerate() {
        if set >> at & 1 == 1 {
            made = form(&made)?;
        }
    }
    Some(made)
}

/// The sets of forms, those of fewer forms first.
pub fn sets() -> Vec<usize> {
    let mut sets: Vec<usize> = (1..1usize << FORMS.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    sets
}

/// The instructions before what the first person says.
fn with_instructions_inside(messages: &[Message]) -> Option<Vec<Message>> {
    let instructions: Vec<&str> =
        messages.iter().filter(|message| message.role == Role::System).map(|message| &*message.content).collect();
    let mut others: Vec<Message> = messages.iter().filter(|message| message.role != Role::System).cloned().collect();
    let first = others.iter_mut().find(|message| message.role == Role::User)?;
    first.content = [instructions.join("\n\n").as_str(), first.content.as_str()].join("\n\n");
    Some(others).filter(|_| !instructions.is_empty())
}

/// What stands for the answer of a turn that was given up.
const GIVEN_UP: &str = "(interrupted)";

/// An answer in front of each question that follows something else than an answer.
fn with_answers_between(messages: &[Message]) -> Option<Vec<Message>> {
    let mut out: Vec<Message> = Vec::new();
    let mut open = false;
    for message in messages {
        match message.role {
            Role::User if open => out.push(Message::new(Role::Assistant, GIVEN_UP)),
            Role::User => open = true,
            Role::Assistant => open = !message.calls.is_empty(),
            Role::System | Role::Tool => {}
        }
        out.push(message.clone());
    }
    Some(out).filter(|out| out.len() != messages.len())
}

/// Calls named by nine letters or digits, in order, and their results by the same.
fn with_short_ids(messages: &[Message]) -> Option<Vec<Message>> {
    let mut calls = 0u64;
    let mut names: HashMap<String, String> = HashMap::new();
    let mut out = messages.to_vec();
    for message in &mut out {
        for call in &mut message.calls {
            calls = calls.saturating_add(1);
            let short = format!("call{calls:05}");
            // A name that comes again is that of the newer call from there on.
            names.insert(std::mem::replace(&mut call.id, short.clone()), short);
        }
        if message.role == Role::Tool {
            calls = calls.saturating_add(u64::from(!names.contains_key(&message.call_id)));
            let short = names.entry(message.call_id.clone()).or_insert_with(|| format!("call{calls:05}"));
            message.call_id.clone_from(short);
        }
    }
    Some(out).filter(|out| out != messages)
}

/// One call in each message, with its results behind it.
fn with_calls_apart(messages: &[Message]) -> Option<Vec<Message>> {
    let mut out: Vec<Message> = Vec::new();
    let mut rest = messages.iter().peekable();
    while let Some(message) = rest.next() {
        if message.calls.len() < 2 {
            out.push(message.clone());
            continue;
        }
        let mut results: Vec<&Message> = Vec::new();
        while let Some(result) = rest.next_if(|message| message.role == Role::Tool) {
            results.push(result);
        }
        for (at, call) in message.calls.iter().enumerate() {
            let content = if at == 0 { message.content.as_str() } else { "" };
            out.push(Message { calls: vec![call.clone()], ..Message::new(message.role, content) });
            let (these, others): (Vec<&Message>, Vec<&Message>) =
                results.into_iter().partition(|result| result.call_id == call.id);
            out.extend(these.into_iter().cloned());
            results = others;
        }
        out.extend(results.into_iter().cloned());
    }
    Some(out).filter(|out| out.len() != messages.len())
}

/// Arguments of calls as the JSON text of an object.
fn with_arguments_as_text(messages: &[Message]) -> Option<Vec<Message>> {
    let mut out = messages.to_vec();
    for call in out.iter_mut().flat_map(|message| &mut message.calls).filter(|call| !call.arguments.is_string()) {
        call.arguments = call.arguments.to_string().into();
    }
    Some(out).filter(|out| out != messages)
}

/// Calls and results as texts of the model and of the person, one message of each after the other: a form that templates
/// take which know nothing of tools. What a tool gave then stands where a person speaks, and its text says what it is.
pub fn plain(messages: &[Message]) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::new();
    for message in messages {
        let written = message.calls.iter().map(written);
        let mut parts: Vec<String> = Vec::new();
        match message.role {
            Role::Tool => {
                let name = called(messages, message).unwrap_or("?");
                parts.push(format!("Result of the tool {name}:\n{}", message.content));
            }
            _ => parts.extend(Some(message.content.clone()).filter(|content| !content.is_empty())),
        }
        parts.extend(written);
        let text = parts.join("\n\n");
        let role = if message.role == Role::Tool { Role::User } else { message.role };
        match out.last_mut().filter(|last| last.role == role && role != Role::System) {
            Some(last) => last.content = [last.content.as_str(), text.as_str()].join("\n\n"),
            None => out.push(Message::new(role, &text)),
        }
    }
    out
}

fn written(call: &Call) -> String {
    format!("Call of the tool {}: {}", call.name, call.arguments)
}

/// The tool that a result is of: the one that it names, or that of the last call before it with its id, since ids may come
/// again.
pub fn called<'m>(messages: &'m [Message], result: &'m Message) -> Option<&'m str> {
    if !result.tool.is_empty() {
        return Some(&result.tool);
    }
    let before = messages.iter().position(|message| core::ptr::eq(message, result)).unwrap_or(messages.len());
    let mut calls = messages.get(..before)?.iter().rev().flat_map(|message| &message.calls);
    calls.find(|call| call.id == result.call_id).map(|call| call.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conversation() -> Vec<Message> {
        Message::list(&json!([
            { "role": "user", "content": "Look." },
            { "role": "assistant", "content": "Both.", "tool_calls": [
                { "id": "call-1", "function": { "name": "read", "arguments": { "path": "a" } } },
                { "id": "call-2", "function": { "name": "list", "arguments": {} } },
            ] },
            { "role": "tool", "tool_call_id": "call-2", "content": "two" },
            { "role": "tool", "tool_call_id": "call-1", "content": "one" },
            { "role": "tool", "tool_call_id": "gone", "content": "?" },
            { "role": "assistant", "content": "", "tool_calls": [
                { "id": "call-1", "function": { "name": "read", "arguments": { "path": "b" } } },
            ] },
            { "role": "tool", "tool_call_id": "call-1", "content": "three" },
        ]))
        .unwrap()
    }

    #[test]
    fn calls_have_short_names_and_results_the_same() {
        let made = with_short_ids(&conversation()).unwrap();
        let ids: Vec<&str> = made.iter().flat_map(|message| &message.calls).map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call00001", "call00002", "call00004"]);
        let results: Vec<&str> =
            made.iter().filter(|message| message.role == Role::Tool).map(|message| message.call_id.as_str()).collect();
        assert_eq!(results, ["call00002", "call00001", "call00003", "call00004"]);
        assert!(with_short_ids(&made[..1]).is_none());
        assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    }

    #[test]
    fn each_call_stands_before_its_result() {
        let made = with_calls_apart(&conversation()).unwrap();
        let told: Vec<(&str, usize)> =
            made.iter().map(|message| (message.content.as_str(), message.calls.len())).collect();
        let expected = [("Look.", 0), ("Both.", 1), ("one", 0), ("", 1), ("two", 0), ("?", 0), ("", 1), ("three", 0)];
        assert_eq!(told, expected);
        assert!(with_calls_apart(&made).is_none());
    }

    #[test]
    fn a_plain_conversation_has_two_speakers_by_turns() {
        let made = plain(&conversation());
        let roles: Vec<Role> = made.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
        assert!(made.iter().all(|message| message.calls.is_empty() && message.call_id.is_empty()));
        assert_eq!(made[1].content, "Both.\n\nCall of the tool read: {\"path\":\"a\"}\n\nCall of the tool list: {}");
        assert!(made[2].content.starts_with("Result of the tool list:\ntwo\n\nResult of the tool read:\none"));
    }

    #[test]
    fn a_result_is_of_the_last_call_before_it() {
        let call = |name: &str| {
            json!({ "role": "assistant", "content": "", "tool_calls": [
            { "id": "call-1", "function": { "name": name, "arguments": {} } },
        ] })
        };
        let result = json!({ "role": "tool", "tool_call_id": "call-1", "content": "one" });
        let messages = Message::list(&json!([call("list"), result, call("read"), result])).unwrap();
        let names: Vec<_> = [1, 3].iter().map(|at| called(&messages, &messages[*at])).collect();
        assert_eq!(names, [Some("list"), Some("read")]);
        // It may name its tool itself.
        let named = [Message { tool: "list".into(), ..Message::new(Role::Tool, "one") }];
        assert_eq!(called(&named, &named[0]), Some("list"));
        assert_eq!(plain(&named)[0].content, "Result of the tool list:\none");
    }
}

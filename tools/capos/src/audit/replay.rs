//! `capos audit replay`: runs rebuilt from an export, and compared with a conversation.

use std::collections::VecDeque;
use std::io::{BufRead, Seek};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use capos_audit::{Replay, Replayed};
use capos_client_protocol::result::{Message, Messages, Role};
use capos_plural::count;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Part;

/// Rebuilds the runs of these parts of a chain, which are checked already. Fails if records contradict each other or the
/// conversation.
pub fn replay(parts: &mut [Part], wanted: Option<&str>, conversation: Option<&Path>) -> Result<ExitCode> {
    let conversation = conversation.map(read).transpose()?;
    let mut runs = rebuilt(parts)?;
    runs.retain(|run| wanted.is_none_or(|wanted| name(run).starts_with(wanted)));
    if let Some(wanted) = wanted {
        ensure!(!runs.is_empty(), "no run has a name that begins with {wanted:?}; without --run all are listed");
    }
    let mut contradictions = 0;
    for run in &runs {
        println!("{}", summary(run));
        if wanted.is_some() {
            run.steps.iter().for_each(|step| println!("  #{} {}", step.sequence, step.text));
        }
        let mut found = run.faults.clone();
        if let Some(conversation) = conversation.as_ref().filter(|found| found.conversation_id == run.name.0) {
            found.extend(differences(run, conversation));
        }
        found.iter().for_each(|why| println!("  differs: {why}"));
        contradictions += found.len();
    }
    if let Some(Messages { conversation_id, .. }) = &conversation {
        ensure!(
            runs.iter().any(|run| run.name.0 == *conversation_id),
            "no run here is of conversation {conversation_id}"
        );
    }
    println!("{}, {}", count(runs.len(), "run"), count(contradictions, "contradiction"));
    Ok(if contradictions == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rebuilt(parts: &mut [Part]) -> Result<Vec<Replayed>> {
    let mut replay = Replay::default();
    for (_, name, lines) in parts {
        lines.rewind().with_context(|| name.clone())?;
        for line in lines.split(b'\n') {
            replay.line(&line.with_context(|| name.clone())?);
        }
    }
    Ok(replay.end())
}

fn name(run: &Replayed) -> String {
    let (conversation, turn) = &run.name;
    format!("{conversation}-{turn}")
}

fn summary(run: &Replayed) -> String {
    let began = run.calls.values().filter(|call| call.began > 0).count();
    let unknown = run.calls.values().filter(|call| call.is_unknown()).count();
    let outcome = if run.outcome.is_empty() { "no end is recorded" } else { &run.outcome };
    format!(
        "run {} of {}: {}, {}, {} ({unknown} without an end); {outcome}; replay {}",
        name(run),
        run.principal,
        count(run.spoken("assistant"), "model answer"),
        count(run.calls.len(), "call"),
        count(began, "effect"),
        run.digest()
    )
}

/// Reads the answers that a client received with the messages of one conversation.
fn read(path: &Path) -> Result<Messages> {
    let place = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(place)?;
    let mut all: Option<Messages> = None;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let at = || format!("{}, line {number}", place());
        let mut value: Value = serde_json::from_str(line).with_context(at)?;
        // The whole answer, or its result alone.
        let value = value.get_mut("result").map(Value::take).unwrap_or(value);
        let found: Messages = serde_json::from_value(value).with_context(at)?;
        match &mut all {
            Some(all) if all.conversation_id != found.conversation_id => {
                bail!("{}: it is of another conversation than the lines before", at())
            }
            Some(all) => all.messages.extend(found.messages),
            None => all = Some(found),
        }
    }
    all.with_context(|| format!("{} has no messages", place()))
}

/// Where the records of a run and the messages of its conversation differ, a sentence each.
fn differences(run: &Replayed, conversation: &Messages) -> Vec<String> {
    let mut differences = Vec::new();
    let spoken = |role: &str| match role {
        "user" => Role::User,
        _ => Role::Assistant,
    };
    // Requests and answers stand in the same order. Others of the conversation, of other turns, may stand between them.
    let mut rest: VecDeque<&Message> = conversation.messages.iter().collect();
    for told in &run.messages {
        if told.role == "tool" {
            let result = conversation.messages.iter().find(|message| message.call_id.as_ref() == Some(&told.call));
            match result {
                None => differences
                    .push(format!("record {}: the conversation has no result of {}", told.sequence, told.call)),
                Some(message) if !message.cut && hash(&message.text) != told.hash => {
                    differences.push(format!(
                        "record {}: the conversation has another result of {}",
                        told.sequence, told.call
                    ));
                }
                Some(_) => {}
            }
            continue;
        }
        let is_it =
            |message: &Message| message.role == spoken(&told.role) && (message.cut || hash(&message.text) == told.hash);
        match rest.iter().position(|message| is_it(message)) {
            Some(at) => drop(rest.drain(..=at)),
            None => differences
                .push(format!("record {}: this message of {} is not in the conversation", told.sequence, told.role)),
        }
    }
    for (id, call) in &run.calls {
        let proposals = conversation.messages.iter().filter(|message| !message.cut).flat_map(|message| &message.calls);
        let mut found = proposals.filter(|proposed| proposed.call_id == *id);
        if found.any(|proposed| !call.arguments.is_empty() && !is_hash(&call.arguments, &proposed.arguments)) {
            differences.push(format!("call {id}: the conversation has other arguments than the record of the call"));
        }
    }
    differences
}

/// Whether these are the arguments of a record. It holds their canonical form if they are JSON, and else the text.
fn is_hash(recorded: &str, arguments: &str) -> bool {
    let given = if arguments.trim().is_empty() { "{}" } else { arguments };
    let canonical = serde_json::from_str(given).map(|value: Value| capos_reflect::canonical(&value));
    hash(arguments) == recorded || canonical.is_ok_and(|canonical| hash(&canonical) == recorded)
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use capos_client_protocol::result::Call;

    use super::*;

    fn told(sequence: u64, role: &str, call: &str, text: &str) -> capos_audit::Told {
        capos_audit::Told { sequence, role: role.into(), call: call.into(), hash: hash(text) }
    }

    fn message(role: Role, text: &str, call: Option<&str>) -> Message {
        Message { role, text: text.into(), call_id: call.map(Into::into), ..Message::default() }
    }

    /// A run of one call, and its conversation, in which other turns stand.
    fn both() -> (Replayed, Messages) {
        let messages = vec![
            told(1, "user", "", "Do it."),
            told(2, "assistant", "", ""),
            told(5, "tool", "one", "did"),
            told(6, "assistant", "", "Done."),
        ];
        let call = capos_audit::Call { arguments: hash("{\"a\":1,\"b\":2}"), ..capos_audit::Call::default() };
        let calls = [("one".to_string(), call)].into();
        let run = Replayed { name: ("c1".into(), 1), messages, calls, ..Replayed::default() };
        let arguments = " {\"b\": 2, \"a\": 1}".to_string();
        let call = Call { call_id: "one".into(), tool_name: "t".into(), category: String::new(), arguments };
        let messages = vec![
            message(Role::User, "Before.", None),
            message(Role::User, "Do it.", None),
            Message { calls: vec![call], ..message(Role::Assistant, "", None) },
            message(Role::Tool, "did", Some("one")),
            message(Role::Assistant, "Done.", None),
            message(Role::User, "After.", None),
        ];
        (run, Messages { conversation_id: "c1".into(), messages, next: None, can_continue: false })
    }

    /// Requirement E07: where the conversation and the records differ is told.
    #[test]
    fn e07_a_changed_message_result_or_argument_is_found() {
        let (run, conversation) = both();
        assert_eq!(differences(&run, &conversation), Vec::<String>::new());
        let with = |change: &dyn Fn(&mut Vec<Message>)| {
            let mut changed = conversation.clone();
            change(&mut changed.messages);
            differences(&run, &changed).join("; ")
        };
        assert!(with(&|all| all[1].text = "Do that.".into()).contains("record 1: this message of user is not"));
        assert!(with(&|all| all[4].text = "Failed.".into()).contains("record 6: this message of assistant is not"));
        assert!(
            with(&|all| all[3].text = "did not".into())
                .contains("record 5: the conversation has another result of one")
        );
        assert!(with(&|all| drop(all.remove(3))).contains("record 5: the conversation has no result of one"));
        assert!(
            with(&|all| all[2].calls[0].arguments = "{\"a\":1,\"b\":3}".into())
                .contains("call one: the conversation has other")
        );
        // A text that was cut for the client says nothing of the rest.
        assert_eq!(with(&|all| (all[3].text, all[3].cut) = ("d".into(), true)), "");
    }

    #[test]
    fn the_answers_to_a_client_are_one_conversation() {
        let (_, conversation) = both();
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |messages: &[Message], id: &str| {
            serde_json::to_value(Messages {
                conversation_id: id.into(),
                messages: messages.to_vec(),
                next: None,
                can_continue: false,
            })
            .unwrap()
        };
        let (first, second) = conversation.messages.split_at(2);
        let answer = serde_json::json!({ "jsonrpc": "2.0", "id": 3, "result": of(first, "c1") });
        std::fs::write(file.path(), format!("{answer}\n{}\n", of(second, "c1"))).unwrap();
        assert_eq!(read(file.path()).unwrap(), conversation);
        std::fs::write(file.path(), format!("{answer}\n{}\n", of(second, "c2"))).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("line 2: it is of another conversation"));
        std::fs::write(file.path(), "").unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("has no messages"));
    }
}

//! The comparison of answers with their results, on the evaluation sets of the built-in model.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use capos_agent::unsupported;
use serde_json::Value;

/// An answer to results.
struct Answer {
    text: String,
    /// The results of its turn, and all else before it.
    results: Vec<String>,
    before: Vec<String>,
}

/// The conversations of each evaluation set. The sets are made once.
fn sets() -> &'static [Vec<Value>] {
    static SETS: OnceLock<Vec<Vec<Value>>> = OnceLock::new();
    SETS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let sets = make(folder.path());
        let read = |set: &str| {
            let lines = std::fs::read_to_string(sets.join(set).join("conversations.jsonl")).unwrap();
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        ["wording", "names", "both", "train", "strangers", "strangers-trained"].map(read).into()
    })
}

fn make(folder: &Path) -> PathBuf {
    let sets = folder.join("sets");
    let train = Path::new(env!("CARGO_MANIFEST_DIR")).join("../train");
    let made = Command::new("python3")
        .args(["-B", "-m", "capos_model", "sets", "--out"])
        .arg(&sets)
        .current_dir(train)
        .status()
        .unwrap_or_else(|error| panic!("python3 cannot be started: {error}; `make deps` installs it"));
    assert!(made.success());
    sets
}

/// The answers of a conversation that follow results.
fn answers(conversation: &Value) -> Vec<Answer> {
    let (mut answers, mut before, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for message in conversation["messages"].as_array().unwrap() {
        let text = message["content"].as_str().unwrap_or_default().to_string();
        match message["role"].as_str().unwrap() {
            "tool" => results.push(text),
            "user" => {
                before.append(&mut results);
                before.push(text);
            }
            _ if message["tool_calls"].is_array() => before.push(message["tool_calls"].to_string()),
            _ if results.is_empty() => before.push(text),
            _ => answers.push(Answer { text, results: results.clone(), before: before.clone() }),
        }
    }
    answers
}

fn objection(text: &str, answer: &Answer) -> Option<String> {
    let results: Vec<&str> = answer.results.iter().map(String::as_str).collect();
    let before: Vec<&str> = answer.before.iter().map(String::as_str).collect();
    unsupported(text, &results, &before)
}

/// No right answer of the evaluation sets is objected to, and many that belong to another result are.
#[test]
fn right_answers_are_supported_and_others_are_not() {
    let (mut right, mut others, mut found) = (0, 0, 0);
    for set in sets() {
        let all: Vec<Answer> = set.iter().flat_map(answers).collect();
        for answer in &all {
            assert_eq!(objection(&answer.text, answer), None, "{}\n{:?}", answer.text, answer.results);
            right += 1;
        }
        for (answer, other) in all.iter().zip(all.iter().skip(1)) {
            // An answer with a number, a name or a state of its own.
            if answer.text != other.text && objection(&other.text, other).is_none() && other.text.contains(" is ") {
                others += 1;
                found += usize::from(objection(&other.text, answer).is_some());
            }
        }
    }
    println!("{right} right answers, no objection; {found} of {others} answers to another result were found");
    assert!(right > 500, "{right}");
    assert!(found * 2 > others, "{found} of {others}");
}

/// The outcomes of calls that did nothing: after one of them, the model makes no further call.
const FAILURES: [&str; 8] = [
    "executionError",
    "refusedByPolicy",
    "deniedByUser",
    "stepUpFailed",
    "cancelled",
    "timedOut",
    "invalidArguments",
    "unknownTool",
];

/// The requests of a conversation, each with the number of calls that are right for it; a large number after a failure.
fn requests(conversation: &Value) -> Vec<(String, usize)> {
    let mut requests: Vec<(String, usize)> = Vec::new();
    for message in conversation["messages"].as_array().unwrap() {
        let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
        match (message["role"].as_str().unwrap(), requests.last_mut()) {
            ("user", _) => requests.push((message["content"].as_str().unwrap().to_string(), 0)),
            ("tool", Some(last))
                if FAILURES.iter().any(|name| message["content"].as_str().unwrap().starts_with(name)) =>
            {
                last.1 = usize::MAX / 2;
            }
            (_, Some((_, number))) => *number += calls,
            _ => {}
        }
    }
    requests
}

/// Few requests of the evaluation sets for which one call is right are taken for several. The parts of those have verbs of their own, as in
/// "open a.txt and write this into it" or "read one file and save it as another".
#[test]
fn requests_with_one_wish_are_not_split() {
    let (mut single, mut wrong, mut several, mut split) = (0, Vec::new(), 0, 0);
    for set in sets() {
        for (request, calls) in set.iter().flat_map(requests) {
            let wishes = capos_agent::wishes(&request);
            if calls == 1 {
                single += 1;
                wrong.extend((!wishes.is_empty()).then(|| request.clone()));
            } else if (2..100).contains(&calls) {
                several += 1;
                split += usize::from(!wishes.is_empty());
            }
        }
    }
    println!("{single} requests with one call, {} split; {split} of {several} with more calls were", wrong.len());
    assert!(single > 500 && 100 * wrong.len() < single, "{single}, {wrong:#?}");
}

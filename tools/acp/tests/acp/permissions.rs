//! Questions to the person at the editor.

use capos_client_protocol::request::{Decision, Reach};
use serde_json::{Value, json};

use crate::pair::{Pair, prompt, text};

/// A prompt that waits for its person's word: the prompt's id and the question.
fn asked(path: &str) -> (Pair, String, i64, Value) {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, &format!("write {path}")));
    let question = pair.question().unwrap();
    (pair, session, id, question)
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

#[test]
fn c16_a_yes_lets_the_call_run() {
    for (option, reach) in [("once", Reach::Once), ("turn", Reach::Turn), ("session", Reach::Session)] {
        let (mut pair, session, id, question) = asked("notes.txt");
        assert_eq!(question["params"]["sessionId"], session);
        pair.reply(&question["id"], selected(option));
        assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "end_turn");
        assert_eq!(pair.machine.files["notes.txt"], "new text\n");
        assert_eq!(pair.machine.decisions[0].reach, reach);
        let updates = pair.updates();
        assert_eq!(updates[0]["sessionUpdate"], "tool_call");
        assert_eq!(updates[0]["title"], "write_file notes.txt");
        assert_eq!(updates[0]["kind"], "edit");
        assert_eq!(updates[0]["toolCallId"], question["params"]["toolCall"]["toolCallId"]);
        let states: Vec<&Value> = updates[1..].iter().map(|update| &update["status"]).collect();
        assert_eq!(states[..2], ["in_progress", "completed"]);
        assert_eq!(text(&updates), "It is written.");
    }
}

#[test]
fn c38_the_question_shows_the_change() {
    let (pair, _, _, question) = asked("notes.txt");
    let call = &question["params"]["toolCall"];
    let diff = call["content"].as_array().unwrap().iter().find(|content| content["type"] == "diff").unwrap();
    assert_eq!((&diff["path"], &diff["newText"]), (&json!("/notes.txt"), &json!("new text\n")));
    assert_eq!(call["rawInput"], json!({"path": "notes.txt", "text": "new text\n"}));
    let kinds: Vec<&Value> =
        question["params"]["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
    assert!(pair.machine.files.is_empty());
}

#[test]
fn c16_everything_but_an_offered_yes_is_no() {
    for reply in [
        selected("reject"),
        selected("allow"),
        selected(""),
        json!({"outcome": {"outcome": "cancelled"}}),
        json!({"outcome": {"outcome": "later", "optionId": "once"}}),
        json!({}),
        json!("once"),
    ] {
        let (mut pair, _, id, question) = asked("notes.txt");
        pair.reply(&question["id"], reply.clone());
        assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "end_turn");
        assert_eq!(pair.machine.decisions[0].decision, Decision::Denied, "{reply}");
        assert!(pair.machine.files.is_empty(), "{reply}");
        assert!(pair.updates().iter().any(|update| update["status"] == "failed"));
    }
    let (mut pair, _, _, question) = asked("notes.txt");
    let error = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "no window"}});
    pair.editor_says(&error.to_string());
    assert_eq!(pair.machine.decisions[0].decision, Decision::Denied);
    assert!(pair.log[0].contains("no window"));
}

#[test]
fn c16_a_cancel_settles_the_question_and_a_late_yes_does_nothing() {
    let (mut pair, session, id, question) = asked("notes.txt");
    pair.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "cancelled");
    assert!(!pair.machine.is_waiting());
    pair.reply(&question["id"], selected("once"));
    pair.reply(&question["id"], selected("once"));
    assert!(pair.machine.files.is_empty() && pair.machine.decisions.is_empty());
    // The next prompt asks again, under another id.
    let id = pair.send("session/prompt", prompt(&session, "write notes.txt"));
    let next = pair.question().unwrap();
    assert_ne!(next["id"], question["id"]);
    assert_ne!(next["params"]["toolCall"]["toolCallId"], question["params"]["toolCall"]["toolCallId"]);
    pair.reply(&question["id"], selected("once"));
    assert!(pair.machine.files.is_empty());
    pair.reply(&next["id"], selected("once"));
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "end_turn");
    assert_eq!(pair.machine.files.len(), 1);
}

#[test]
fn a_cancel_before_the_question_was_sent_sends_none() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.is_held = true;
    pair.machine_says(
        r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"approval_requested","payload":{"approvalId":"a","title":"t","actionSummary":"s","riskLevel":"low","details":{"callId":"c","toolName":"t","arguments":"{}"}}}}"#,
    );
    pair.notify("session/cancel", json!({"sessionId": session}));
    pair.is_held = false;
    pair.run();
    assert!(pair.question().is_none());
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "cancelled");
}

#[test]
fn a_question_that_timed_out_is_withdrawn() {
    let (mut pair, _, _, question) = asked("notes.txt");
    let approval = r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"approval_timeout","payload":{"approvalId":"approval-3"}}}"#;
    pair.machine_says(approval);
    pair.run();
    let withdrawn = pair.inbox.iter().find(|message| message["method"] == "$/cancel_request").unwrap();
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert!(text(&pair.updates()).contains("Nobody answered in time"));
    pair.reply(&question["id"], selected("once"));
    assert!(pair.machine.files.is_empty());
}

/// The machine asks whether a task may go on: there is no call, so the bridge shows one.
#[test]
fn a_question_without_a_call_is_asked_too() {
    let (mut pair, session) = Pair::with_session();
    pair.send("session/prompt", prompt(&session, "wait"));
    pair.machine_says(
        r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"approval_requested","payload":{"approvalId":"more","kind":"go_on","title":"Continue?","actionSummary":"Ask the model up to 8 times more.","riskLevel":"low"}}}"#,
    );
    pair.run();
    let question = pair.question().unwrap();
    assert_eq!(question["params"]["options"].as_array().unwrap().len(), 2);
    pair.reply(&question["id"], selected("once"));
    let updates = pair.updates();
    assert_eq!(updates[0]["title"], "Continue?");
    assert_eq!(updates[1]["status"], "completed");
    // The simulated machine did not ask that.
    assert!(text(&updates).contains("not open any more"));
}

#[test]
fn calls_with_one_id_are_told_apart() {
    let (mut pair, session) = Pair::with_session();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let id = pair.send("session/prompt", prompt(&session, "write a"));
        let question = pair.question().unwrap();
        assert!(seen.insert(question["params"]["toolCall"]["toolCallId"].to_string()));
        pair.reply(&question["id"], selected("reject"));
        assert!(pair.answer(id).is_some());
    }
}

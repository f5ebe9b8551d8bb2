//! Prompts and what comes of them.

use serde_json::json;

use crate::pair::{Pair, prompt, text};

#[test]
fn text_arrives_as_it_is_made() {
    let (mut pair, session) = Pair::with_session();
    let answer = pair.call("session/prompt", prompt(&session, "say this again"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text(&pair.updates()), "say this again\n[capOS] a notice\n");
}

#[test]
fn an_editor_with_notices_gets_notices() {
    let mut pair = Pair::raw(Default::default(), crate::pair::login(crate::simulated::PASSPHRASE));
    pair.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}}));
    let session = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    let session = session["result"]["sessionId"].as_str().unwrap().to_owned();
    pair.call("session/prompt", prompt(&session, "hello"));
    let updates = pair.updates();
    assert_eq!(text(&updates), "hello");
    let notice = updates.iter().find(|update| update["sessionUpdate"] == "notice").unwrap();
    assert_eq!(notice["title"], "a notice");
}

#[test]
fn each_end_has_its_reason() {
    let (mut pair, session) = Pair::with_session();
    for (cause, reason) in [
        ("answered", "end_turn"),
        ("cancelled", "cancelled"),
        ("steps", "max_turn_requests"),
        ("limit", "max_turn_requests"),
        ("tokens", "max_tokens"),
        ("llm_guardrail_blocked", "refusal"),
    ] {
        let answer = pair.call("session/prompt", prompt(&session, &format!("end {cause}")));
        assert_eq!(answer["result"]["stopReason"], reason, "{cause}: {answer}");
        let said = text(&pair.updates());
        assert_eq!(said.contains("the message of the end"), cause != "cancelled", "{cause}: {said}");
    }
    for cause in ["rejected", "failed", "away"] {
        let failed = pair.call("session/prompt", prompt(&session, &format!("end {cause}")));
        assert_eq!(failed["error"]["message"], "the message of the end", "{cause}");
    }
}

#[test]
fn what_the_machine_cannot_read_is_rejected() {
    let (mut pair, session) = Pair::with_session();
    let image = json!({"sessionId": session, "prompt": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]});
    let answer = pair.call("session/prompt", image);
    assert_eq!(answer["error"]["code"], -32602);
    assert!(!pair.machine.seen.contains(&"StartTask".to_owned()));
}

#[test]
fn one_prompt_at_a_time() {
    let (mut pair, session) = Pair::with_session();
    let first = pair.send("session/prompt", prompt(&session, "wait"));
    let second = pair.call("session/prompt", prompt(&session, "hello"));
    assert!(second["error"]["message"].as_str().unwrap().contains("wait for its end or cancel it"));
    pair.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(pair.answer(first).unwrap()["result"]["stopReason"], "cancelled");
    // The prompt is usable at once.
    assert_eq!(pair.call("session/prompt", prompt(&session, "hello"))["result"]["stopReason"], "end_turn");
}

#[test]
fn a_cancel_before_the_machine_has_answered_cancels() {
    let (mut pair, session) = Pair::with_session();
    pair.is_held = true;
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.notify("session/cancel", json!({"sessionId": session}));
    pair.notify("session/cancel", json!({"sessionId": session}));
    pair.is_held = false;
    pair.run();
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "cancelled");
    assert_eq!(pair.machine.seen.iter().filter(|method| *method == "CancelTask").count(), 1);
}

/// A task that ends with an error after a cancel was cancelled, for the editor.
#[test]
fn a_cancel_wins_over_an_error() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.is_held = true;
    pair.notify("session/cancel", json!({"sessionId": session}));
    pair.close_machine();
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "cancelled");
}

#[test]
fn a_cancel_that_the_machine_does_not_do_ends_the_prompt_nevertheless() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.is_held = true;
    pair.notify("session/cancel", json!({"sessionId": session}));
    pair.pass(29);
    assert!(pair.answer(id).is_none());
    pair.pass(2);
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "cancelled");
    assert!(text(&pair.updates()).contains("still runs"));
}

#[test]
fn a_cancel_of_another_session_does_nothing() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.notify("session/cancel", json!({"sessionId": "other"}));
    pair.notify("session/cancel", json!({}));
    assert!(pair.answer(id).is_none());
}

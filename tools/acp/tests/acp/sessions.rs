//! Introduction, login, sessions.

use serde_json::{Value, json};

use crate::pair::{Pair, login, prompt, text};
use crate::simulated::{Machine, PASSPHRASE};

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

fn message(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn only_what_works_is_advertised() {
    let mut pair = Pair::raw(Machine::default(), login(PASSPHRASE));
    let early = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert!(message(&early).contains("initialize"));
    let answer = pair.call("initialize", json!({"protocolVersion": 7}));
    let expected = json!({
        "loadSession": true,
        "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
        "mcpCapabilities": {"http": false, "sse": false},
        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
    });
    let found = &answer["result"]["agentCapabilities"];
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&found[name], value, "{name}");
    }
    assert_eq!(answer["result"]["protocolVersion"], 1);
    assert_eq!(code(&pair.call("session/set_mode", json!({}))), -32601);
    // Notifications of others are left alone.
    pair.notify("later/notification", json!([]));
    assert_eq!(pair.inbox, Vec::<Value>::new());
}

#[test]
fn c19_a_machine_has_one_session() {
    let (mut pair, session) = Pair::with_session();
    let second = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert!(message(&second).contains("one session at a time"), "{second}");
    assert_eq!(pair.call("session/close", json!({"sessionId": session}))["result"], json!({}));
    assert!(!pair.machine.has_session());
    let closed = pair.call("session/prompt", prompt(&session, "hello"));
    assert_eq!(code(&closed), -32002);
    let third = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_ne!(third["result"]["sessionId"], session.as_str(), "{third}");
}

#[test]
fn c16_a_wrong_passphrase_can_be_corrected() {
    let mut tries = vec![PASSPHRASE, "wrong"].into_iter().map(String::from).collect::<Vec<_>>();
    let passphrase = Box::new(move || {
        tries.pop().map(capos_client_protocol::Secret::new).map(Some).ok_or_else(|| "the file is gone".to_owned())
    });
    let mut pair = Pair::raw(Machine::default(), capos_acp::Login { user: Some("ada".into()), passphrase });
    pair.initialize();
    let answer = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(code(&answer), -32000, "{answer}");
    assert!(message(&answer).contains("passphrase is wrong"));
    assert_eq!(code(&pair.call("authenticate", json!({"methodId": "other"}))), -32602);
    assert_eq!(pair.call("authenticate", json!({"methodId": "capos"}))["result"], json!({}));
    assert!(pair.call("session/new", json!({"cwd": "/", "mcpServers": []}))["result"]["sessionId"].is_string());
}

#[test]
fn a_passphrase_that_cannot_be_read_is_an_error() {
    let passphrase = Box::new(|| Err("cannot read /nowhere: create it".to_owned()));
    let mut pair = Pair::raw(Machine::default(), capos_acp::Login { user: None, passphrase });
    pair.initialize();
    let answer = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!((code(&answer), message(&answer)), (-32000, "cannot read /nowhere: create it"));
}

#[test]
fn a_session_that_another_client_left_is_ended() {
    let mut machine = Machine::default();
    machine.left_over();
    let mut pair = Pair::raw(machine, login(PASSPHRASE));
    pair.initialize();
    let answer = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(answer["result"]["sessionId"], "conversation-1", "{answer}");
    assert_eq!(pair.machine.seen[..3], ["GetSessionState", "Shutdown", "GetSessionState"]);
}

#[test]
fn a_machine_that_restarts_a_service_is_waited_for() {
    let mut machine = Machine::default();
    machine.restarting = 3;
    let mut pair = Pair::raw(machine, login(PASSPHRASE));
    pair.initialize();
    let id = pair.send("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert!(pair.answer(id).is_none());
    pair.pass(4);
    assert!(pair.answer(id).unwrap()["result"]["sessionId"].is_string());
}

/// A machine that boots loses what was sent to it too early, and may send the end of something.
#[test]
fn a_machine_that_boots_is_asked_until_it_is_there() {
    let mut pair = Pair::booting(Machine::default(), login(PASSPHRASE));
    pair.initialize();
    let id = pair.send("session/new", json!({"cwd": "/", "mcpServers": []}));
    pair.held.clear();
    pair.machine_says("…ssion\":7}");
    pair.pass(7);
    assert!(pair.answer(id).is_none());
    assert_eq!(pair.held.iter().filter(|line| line.contains("GetSessionState")).count(), 3);
    // The first of them is answered last of all, and that answer is enough.
    pair.is_held = false;
    pair.run();
    assert!(pair.answer(id).unwrap()["result"]["sessionId"].is_string());
    assert_eq!(pair.machine.seen.iter().filter(|method| *method == "CreateSession").count(), 1);
}

#[test]
fn a_machine_that_never_answers_is_an_error() {
    let mut pair = Pair::booting(Machine::default(), login(PASSPHRASE));
    pair.initialize();
    let id = pair.send("session/new", json!({"cwd": "/", "mcpServers": []}));
    pair.pass(10);
    assert!(pair.answer(id).is_none());
    assert!(
        pair.log.iter().filter(|line| line.contains("another client may use the port")).count() == 1,
        "{:?}",
        pair.log
    );
    pair.pass(300);
    assert!(message(&pair.answer(id).unwrap()).contains("does not answer at its client port after 300 seconds"));
    assert!(matches!(pair.end, Some(capos_acp::End::Lost(_))));
    // Each time that the port is asked for.
    let mut pair = Pair::booting(Machine::default(), login(PASSPHRASE));
    pair.initialize();
    let slow = |pair: &Pair| pair.log.iter().filter(|line| line.contains("another client may use the port")).count();
    let id = pair.send("session/new", json!({"cwd": "/", "mcpServers": []}));
    pair.pass(10);
    assert_eq!((pair.answer(id), slow(&pair)), (None, 1));
    pair.is_held = false;
    pair.run();
    let session = pair.answer(id).unwrap()["result"]["sessionId"].clone();
    pair.is_held = true;
    pair.send("session/close", json!({"sessionId": session}));
    let goodbye = std::mem::take(&mut pair.held);
    for answer in pair.machine.line(goodbye[0].trim_end().as_bytes()) {
        pair.machine_says(answer.trim_end());
    }
    pair.pass(10);
    assert_eq!(slow(&pair), 2, "{:?}", pair.log);
    let mut pair = Pair::new();
    pair.is_held = true;
    let id = pair.send("session/new", json!({"cwd": "/", "mcpServers": []}));
    pair.pass(130);
    assert!(message(&pair.answer(id).unwrap()).contains("did not answer in time"));
}

#[test]
fn conversations_are_listed_by_pages() {
    let mut pair = Pair::new();
    for name in ["a", "b", "c"] {
        pair.machine.save(name);
    }
    let first = pair.call("session/list", json!({"cwd": "/work"}));
    let expected = json!({
        "sessions": [
            {"sessionId": "a", "cwd": "/work", "title": "about a", "updatedAt": "2023-11-14T22:13:20Z"},
            {"sessionId": "b", "cwd": "/work", "title": "about b", "updatedAt": "2023-11-14T22:13:20Z"},
        ],
        "nextCursor": "b",
    });
    assert_eq!(first["result"], expected);
    let second = pair.call("session/list", json!({"cursor": "b"}));
    assert_eq!(second["result"]["sessions"][0]["sessionId"], "c");
    assert!(second["result"]["nextCursor"].is_null());
}

#[test]
fn a_loaded_conversation_is_shown_again() {
    let mut pair = Pair::new();
    pair.machine.save("old");
    let missing = pair.call("session/load", json!({"sessionId": "other", "cwd": "/", "mcpServers": []}));
    assert_eq!(code(&missing), -32002);
    let answer = pair.call("session/load", json!({"sessionId": "old", "cwd": "/", "mcpServers": []}));
    assert_eq!(answer["result"], json!({}));
    let updates = pair.updates();
    let kinds: Vec<&str> = updates.iter().filter_map(|update| update["sessionUpdate"].as_str()).collect();
    assert_eq!(kinds, ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]);
    assert_eq!(updates[1]["kind"], "read");
    assert_eq!(updates[1]["locations"][0]["path"], "/notes.txt");
    assert_eq!(updates[1]["toolCallId"], updates[2]["toolCallId"]);
    assert_eq!(updates[2]["status"], "completed");
    assert_eq!(text(&updates), "They say: buy milk.");
    // It is the session now.
    assert!(message(&pair.call("session/new", json!({"cwd": "/", "mcpServers": []}))).contains("one session"));
    let id = pair.send("session/prompt", prompt("old", "hello"));
    assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "end_turn");
}

#[test]
fn a_resumed_conversation_is_not_shown_again() {
    let mut pair = Pair::new();
    pair.machine.save("old");
    let answer = pair.call("session/resume", json!({"sessionId": "old", "cwd": "/", "mcpServers": []}));
    assert_eq!(answer["result"], json!({}));
    assert_eq!(pair.updates(), Vec::<Value>::new());
}

/// Requirement C16: a conversation that was cut off says so, however it is opened, and a prompt continues it.
#[test]
fn c16_a_task_that_was_cut_off_continues_by_a_prompt() {
    for method in ["session/load", "session/resume"] {
        let mut pair = Pair::new();
        pair.machine.save("cut");
        let answer = pair.call(method, json!({"sessionId": "cut", "cwd": "/", "mcpServers": []}));
        assert_eq!(answer["result"], json!({}));
        let updates = pair.updates();
        let offered = updates.iter().find(|update| update["sessionUpdate"] == "available_commands_update").unwrap();
        assert_eq!(offered["availableCommands"][0]["name"], "continue");
        assert!(text(&updates).contains("The prompt /continue continues it."), "{updates:?}");
        let id = pair.send("session/prompt", prompt("cut", " /continue\n"));
        assert_eq!(pair.answer(id).unwrap()["result"]["stopReason"], "end_turn");
        assert_eq!(pair.machine.seen.last().map(String::as_str), Some("ContinueTask"));
        assert!(text(&pair.updates()).contains("the rest of it"));
        pair.machine.is_done = true;
        let answer = pair.call("session/prompt", prompt("cut", "/continue"));
        assert_eq!((code(&answer), message(&answer)), (-32600, "it was done to its end"));
    }
}

#[test]
fn servers_of_the_editor_are_not_used_and_the_person_is_told() {
    let mut pair = Pair::new();
    let server = json!({"name": "s", "command": "/bin/s", "args": [], "env": []});
    let answer = pair.call("session/new", json!({"cwd": "/", "mcpServers": [server]}));
    assert!(answer["result"]["sessionId"].is_string());
    assert!(text(&pair.updates()).contains("MCP servers of this editor are not used"));
}

#[test]
fn c39_the_session_ends_with_the_editor() {
    let (mut pair, _) = Pair::with_session();
    pair.close_editor();
    assert!(!pair.machine.has_session());
    assert_eq!(pair.end, Some(capos_acp::End::Done));
}

#[test]
fn a_machine_that_is_gone_is_an_error_for_all_that_wait() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.close_machine();
    let answer = pair.answer(id).unwrap();
    assert!(message(&answer).contains("the machine is gone"), "{answer}");
    assert!(matches!(&pair.end, Some(capos_acp::End::Lost(why)) if why.contains("Start the machine")));
    let later = pair.call("session/list", json!({}));
    assert!(message(&later).contains("the machine is gone"));
}

#[test]
fn a_session_that_ends_by_itself_is_an_error_and_another_can_begin() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    pair.machine.line(br#"{"jsonrpc":"2.0","id":1,"method":"Shutdown"}"#);
    pair.machine_says(r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"session_failed","payload":{"reason":"the broker was restarted"}}}"#);
    pair.run();
    assert!(message(&pair.answer(id).unwrap()).contains("the broker was restarted. Begin a new session"));
    assert_eq!(code(&pair.call("session/prompt", prompt(&session, "x"))), -32002);
    assert!(pair.call("session/new", json!({"cwd": "/", "mcpServers": []}))["result"]["sessionId"].is_string());
}

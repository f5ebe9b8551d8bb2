//! Playing scripts: the output, its order, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use capos_script::{
    CallDelta, Collected, Crash, ErrorKind, Event, Finish, MessageView, Player, RequestView, Role, Script, ToolView,
    Usage,
};
use proptest::prelude::*;

fn player(script: &str) -> Player {
    Player::new(Script::parse(script.as_bytes()).unwrap())
}

fn user(text: &str) -> MessageView<'_> {
    MessageView { role: Role::User, content: text }
}

fn request<'a>(messages: &[MessageView<'a>]) -> RequestView<'a> {
    RequestView {
        messages: messages.to_vec(),
        tools: vec![
            ToolView { name: "readFile", handle: "/object/aaaaaaaaaaaaaaaaaaaaaaaaaa" },
            ToolView { name: "writeFile", handle: "/object/bbbbbbbbbbbbbbbbbbbbbbbbbb" },
        ],
        ..RequestView::default()
    }
}

fn text(collected: &Collected) -> &str {
    std::str::from_utf8(&collected.text).unwrap()
}

fn ended(collected: &Collected) -> (Finish, Usage) {
    match collected.end {
        Some(Event::Finish { reason, usage }) => (reason, usage),
        ref other => panic!("ended with {other:?}"),
    }
}

#[test]
fn lines_answer_in_order_and_the_end_is_an_error_in_words() {
    let mut player = player("{\"text\":\"one\"}\n\n# a remark\n{\"text\":\"two\"}\n");
    let request = request(&[user("hello there")]);
    assert_eq!(text(&player.respond(&request).collect_all()), "one");
    assert_eq!(text(&player.respond(&request).collect_all()), "two");
    let Some(Event::Error { kind: ErrorKind::Failed, message }) = player.respond(&request).next() else { panic!() };
    assert!(message.contains("no line that answers request 3"), "{message}");
}

#[test]
fn text_streams_word_by_word_and_is_counted() {
    let mut player = player(r#"{"text":"  Hello,  big\nworld. "}"#);
    let events: Vec<Event> = player.respond(&request(&[user("a b c"), user("d")])).collect();
    let usage = Usage { prompt_tokens: 4, completion_tokens: 3 };
    assert_eq!(
        events,
        [
            Event::Text("  Hello,  ".into()),
            Event::Text("big\n".into()),
            Event::Text("world. ".into()),
            Event::Finish { reason: Finish::Stop, usage },
        ]
    );
}

#[test]
fn a_whole_call_gets_the_handle_of_the_tool_of_exactly_its_name() {
    let script = r#"{"text":"ok","calls":[{"name":"readFile","arguments":{"path":"/a"}},{"id":"x","name":"READFILE"},
        {"name":"readFile","handle":"$of:writeFile"},{"name":"readFile","handle":"$near:readFile"},
        {"name":"readFile","handle":"/object/zzz"},{"name":"readFile","handle":null}]}"#
        .replace('\n', " ");
    let collected = player(&script).respond(&request(&[])).collect_all();
    let seen: Vec<(&str, &str, &str)> =
        collected.calls.iter().map(|call| (call.id.as_str(), call.handle.as_str(), call.arguments.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("call-1", "/object/aaaaaaaaaaaaaaaaaaaaaaaaaa", r#"{"path":"/a"}"#),
            ("x", "", "{}"),
            ("call-3", "/object/bbbbbbbbbbbbbbbbbbbbbbbbbb", "{}"),
            ("call-4", "/object/aaaaaaaaaaaaaaaaaaaaaaaaab", "{}"),
            ("call-5", "/object/zzz", "{}"),
            ("call-6", "", "{}"),
        ]
    );
    assert_eq!(ended(&collected).0, Finish::ToolCalls);
}

#[test]
fn malformed_pieces_come_out_as_written() {
    let script = r#"{"events":["\u001b[31m",{"textBytes":"ff9b"},{"callDelta":{"index":7,"id":"d","name":"re\u0430dFile","arguments":"{\"pa"}},{"callDelta":{"index":7,"arguments":"th\":"}},{"callDelta":{"index":3,"id":"d"}},{"delayMs":250},{"loose":{"tool":"read","why":"a pattern"}}],"finish":77,"usage":{"completionTokens":999999}}"#;
    let events: Vec<Event> = player(script).respond(&request(&[])).collect();
    assert_eq!(
        events,
        [
            Event::Text("\u{1b}[31m".into()),
            Event::TextBytes(vec![0xff, 0x9b]),
            Event::Call(CallDelta {
                index: 7,
                id: Some("d".into()),
                name: Some("re\u{430}dFile".into()),
                handle: Some(String::new()),
                arguments: "{\"pa".into(),
            }),
            Event::Call(CallDelta { index: 7, arguments: "th\":".into(), ..CallDelta::default() }),
            Event::Call(CallDelta { index: 3, id: Some("d".into()), ..CallDelta::default() }),
            Event::Delay(250),
            Event::Loose { tool: "read".into(), why: "a pattern".into() },
            Event::Finish { reason: Finish::Other(77), usage: Usage { prompt_tokens: 0, completion_tokens: 999_999 } },
        ]
    );
}

#[test]
fn the_pieces_of_a_call_are_joined_by_index() {
    let script = r#"{"events":[{"callDelta":{"index":1,"id":"b","name":"re","handle":null,"arguments":"{"}},{"callDelta":{"index":0,"id":"a","name":"x"}},{"callDelta":{"index":1,"name":"adFile","handle":"$of:readFile","arguments":"}"}}]}"#;
    let calls = player(script).respond(&request(&[])).collect_all().calls;
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[0].name.as_str(), calls[0].arguments.as_str()), ("readFile", "{}"));
    assert_eq!(calls[0].handle, "/object/aaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert_eq!((calls[1].id.as_str(), calls[1].name.as_str()), ("a", "x"));
}

#[test]
fn every_way_to_die_is_the_last_event() {
    for (event, last) in [
        (r#"{"error":"no"}"#, Event::Error { kind: ErrorKind::Failed, message: "no".into() }),
        (
            r#"{"error":{"kind":"overloaded","message":"later"}}"#,
            Event::Error { kind: ErrorKind::Overloaded, message: "later".into() },
        ),
        (r#"{"exit":3}"#, Event::Exit(3)),
        (r#"{"crash":"panic"}"#, Event::Crash(Crash::Panic)),
        (r#"{"crash":"null"}"#, Event::Crash(Crash::Null)),
        (r#"{"crash":"weights"}"#, Event::Crash(Crash::Weights)),
        (r#"{"crash":"execute"}"#, Event::Crash(Crash::Execute)),
        (r#"{"crash":"port"}"#, Event::Crash(Crash::Port)),
    ] {
        let mut response = player(&format!(r#"{{"events":["a",{event}]}}"#)).respond(&request(&[]));
        assert_eq!(response.next(), Some(Event::Text("a".into())));
        assert_eq!(response.next(), Some(last.clone()));
        assert!(last.is_last());
        assert_eq!(response.next(), None);
        response.cancel();
        assert_eq!(response.next(), None, "what has ended stays ended");
    }
}

#[test]
fn a_script_branches_on_what_the_tools_answered() {
    let script = concat!(
        r#"{"repeat":true,"match":{"user":"help"},"text":"helping"}"#,
        "\n",
        r#"{"calls":[{"name":"writeFile"}]}"#,
        "\n",
        r#"{"match":{"tool":"denied"},"text":"then not"}"#,
        "\n",
        r#"{"match":{"tool":["done","12 bytes"]},"text":"written"}"#,
        "\n",
        r#"{"text":"next"}"#,
    );
    let call = MessageView { role: Role::Assistant, content: "" };
    let result = |content| MessageView { role: Role::Tool, content };
    for (content, answer) in [("denied by user", "then not"), ("done: 12 bytes", "written"), ("done", "next")] {
        let mut player = player(script);
        assert_eq!(ended(&player.respond(&request(&[user("go")])).collect_all()).0, Finish::ToolCalls);
        let after = request(&[user("go"), call, result(content)]);
        assert_eq!(text(&player.respond(&after).collect_all()), answer);
        assert_eq!(text(&player.respond(&request(&[user("help me")])).collect_all()), "helping");
        assert_eq!(text(&player.respond(&request(&[user("help me")])).collect_all()), "helping");
    }
    let old = request(&[user("go"), call, result("denied"), MessageView { role: Role::Assistant, content: "so" }]);
    let mut late = player(script);
    let _ = late.respond(&request(&[]));
    assert_eq!(text(&late.respond(&old).collect_all()), "next", "an old result is not a fresh one");
}

#[test]
fn what_came_in_before_the_person_spoke_again_is_not_answered() {
    let script = concat!(
        r#"{"script":{"select":"stateless"}}"#,
        "\n",
        r#"{"match":{"tool":""},"text":"a result"}"#,
        "\n",
        r#"{"text":"a question"}"#,
    );
    let call = MessageView { role: Role::Assistant, content: "" };
    let cut = MessageView { role: Role::Tool, content: "cancelled: cancelled by the person at the prompt" };
    let mut player = player(script);
    assert_eq!(text(&player.respond(&request(&[user("go"), call, cut])).collect_all()), "a result");
    assert_eq!(text(&player.respond(&request(&[user("go"), call, cut, user("again")])).collect_all()), "a question");
}

#[test]
fn an_outcome_is_how_a_result_ended_and_not_what_a_tool_said() {
    let script = "{\"match\":{\"outcome\":\"deniedByUser\"},\"text\":\"no\"}\n{\"text\":\"yes\"}";
    let result = |content| MessageView { role: Role::Tool, content };
    for (content, answer) in [
        ("deniedByUser: the person said no", "no"),
        ("notes: deniedByUser: is a word", "yes"),
        ("deniedByUserX: no", "yes"),
        ("deniedByUser", "yes"),
    ] {
        assert_eq!(text(&player(script).respond(&request(&[user("go"), result(content)])).collect_all()), answer);
    }
    let error = Script::parse(b"{\"match\":{\"outcome\":\"ok\"},\"text\":\"a\"}").unwrap_err().to_string();
    assert!(error.contains("\"outcome\" is one of refusedByPolicy, deniedByUser, "), "{error}");
}

#[test]
fn the_demonstration_answers_what_it_is_told() {
    let script = include_str!("../../../../iso_root/etc/demo.jsonl");
    let call = MessageView { role: Role::Assistant, content: "" };
    let result = |content| MessageView { role: Role::Tool, content };
    for (content, answer) in [
        ("done", "That is what the system answered."),
        ("deniedByUser: the person said no", "You did not agree"),
        ("stepUpFailed: no passphrase was entered", "Without the passphrase"),
        ("refusedByPolicy: not permitted", "does not permit"),
        ("unknownTool: no tool \"write_file\" is advertised in this turn", "has no such tool"),
        ("executionError: `notes/plants.txt` does not exist", "did not work"),
        ("timedOut: it did not end within 30000 ms", "took too long"),
        ("invalidArguments: path is missing", "does not take"),
    ] {
        let messages = [user("write a note"), call, result(content)];
        let told = text(&player(script).respond(&request(&messages)).collect_all()).to_owned();
        assert!(told.contains(answer), "{content}: {told}");
    }
    // Ctrl-C at the question ends the turn; the person's next message is answered, and not the call that was cancelled.
    let messages = [user("write"), call, result("cancelled: cancelled by the person at the prompt"), user("hello")];
    let told = text(&player(script).respond(&request(&messages)).collect_all()).to_owned();
    assert!(told.starts_with("I am the scripted model"), "{told}");
}

#[test]
fn a_script_that_cannot_be_played_says_so_each_time() {
    let why = Script::parse(b"{\"txt\": 1}").unwrap_err();
    let mut player = Player::broken(why.to_string());
    for _ in 0..2 {
        let Some(Event::Error { kind: ErrorKind::Failed, message }) = player.respond(&request(&[])).next() else {
            panic!("it answers");
        };
        assert!(message.starts_with("model.jsonl line 1: unknown key \"txt\""), "{message}");
    }
}

#[test]
fn a_line_that_was_passed_over_does_not_come_back() {
    let mut player = player("{\"match\":{\"user\":\"x\"},\"text\":\"1\"}\n{\"text\":\"2\"}\n{\"text\":\"3\"}");
    assert_eq!(text(&player.respond(&request(&[user("y")])).collect_all()), "2");
    assert_eq!(text(&player.respond(&request(&[user("x")])).collect_all()), "3");
}

#[test]
fn conditions_see_tools_counts_and_negation() {
    let script = concat!(
        r#"{"match":{"offered":"powerOff"},"text":"a"}"#,
        "\n",
        r#"{"match":{"not":{"missing":"powerOff"}},"text":"b"}"#,
        "\n",
        r#"{"match":{"request":2},"text":"c"}"#,
        "\n",
        r#"{"match":{"assistantMessages":1,"system":"capOS","any":"secret"},"text":"d"}"#,
        "\n",
        r#"{"match":{"missing":["powerOff","other"],"offered":["readFile","writeFile"]},"text":"e"}"#,
    );
    let mut first = player(script);
    assert_eq!(text(&first.respond(&request(&[])).collect_all()), "e");
    let messages = [
        MessageView { role: Role::System, content: "You are capOS." },
        user("the secret"),
        MessageView { role: Role::Assistant, content: "" },
    ];
    let mut second = player(script);
    assert_eq!(text(&second.respond(&request(&messages)).collect_all()), "d");
    assert_eq!(text(&second.respond(&request(&[])).collect_all()), "e", "lines above the answer are spent");
}

/// Requirement B10 and B15.
#[test]
fn a_stateless_script_gives_a_restarted_worker_the_same_answer() {
    let script = concat!(
        r#"{"script":{"select":"stateless"}}"#,
        "\n",
        r#"{"match":{"assistantMessages":0},"text":"first"}"#,
        "\n",
        r#"{"match":{"assistantMessages":1},"text":"second"}"#,
    );
    let assistant = MessageView { role: Role::Assistant, content: "first" };
    let second = request(&[user("a"), assistant, user("b")]);
    let mut old = player(script);
    assert_eq!(text(&old.respond(&request(&[user("a")])).collect_all()), "first");
    let before: Vec<Event> = old.respond(&second).collect();
    let after: Vec<Event> = player(script).respond(&second).collect();
    assert_eq!(before, after);
    assert_eq!(text(&old.respond(&second).collect_all()), "second");
}

#[test]
fn max_tokens_cuts_before_the_token_that_would_exceed() {
    let cases = [
        (1, "one ", Finish::Length, 1),
        (2, "one two ", Finish::Length, 2),
        (3, "one two three", Finish::Stop, 3),
        (0, "one two three", Finish::Stop, 3),
    ];
    for (limit, said, reason, tokens) in cases {
        for script in [r#"{"text":"one two three"}"#, r#"{"events":["on","e tw","o thr","ee"]}"#] {
            let mut request = request(&[]);
            request.max_tokens = limit;
            let collected = player(script).respond(&request).collect_all();
            assert_eq!(text(&collected), said, "limit {limit}");
            assert_eq!(ended(&collected), (reason, Usage { prompt_tokens: 0, completion_tokens: tokens }));
        }
    }
}

#[test]
fn max_tokens_cuts_calls_too_and_a_claim_does_not_hide_it() {
    let script = r#"{"events":["a b",{"call":{"name":"readFile","arguments":"{\"x\": 1, \"y\": 2}"}}],"usage":{"completionTokens":1},"finish":"stop"}"#;
    for (limit, arguments, reason) in [
        (2, None, Finish::Length),
        (4, Some("{\"x\": "), Finish::Length),
        (7, Some("{\"x\": 1, \"y\": 2}"), Finish::Stop),
    ] {
        let mut request = request(&[]);
        request.max_tokens = limit;
        let collected = player(script).respond(&request).collect_all();
        assert_eq!(collected.calls.first().map(|call| call.arguments.as_str()), arguments, "limit {limit}");
        assert_eq!(ended(&collected).0, reason);
        assert_eq!(ended(&collected).1.completion_tokens, if limit == 7 { 1 } else { u64::from(limit) });
    }
}

#[test]
fn a_disobedient_line_ignores_limits_and_stops() {
    let mut request = request(&[]);
    request.max_tokens = 1;
    request.stop_sequences = vec!["two"];
    let collected = player(r#"{"obey":false,"text":"one two three"}"#).respond(&request).collect_all();
    assert_eq!(text(&collected), "one two three");
    assert_eq!(ended(&collected), (Finish::Stop, Usage { prompt_tokens: 0, completion_tokens: 3 }));
}

#[test]
fn a_stop_sequence_is_found_across_deltas_and_not_said() {
    for script in [
        r#"{"events":["say this <e","nd","> not that",{"call":{"name":"readFile"}}]}"#,
        r#"{"events":["say this <end> not that"]}"#,
        r#"{"events":["s","ay this ","<","e","n","d",">"]}"#,
    ] {
        let mut request = request(&[]);
        request.stop_sequences = vec!["", "<end>", "never"];
        let collected = player(script).respond(&request).collect_all();
        assert_eq!(text(&collected), "say this ");
        assert!(collected.calls.is_empty());
        assert_eq!(ended(&collected), (Finish::Stop, Usage { prompt_tokens: 0, completion_tokens: 2 }));
    }
}

#[test]
fn text_held_for_a_stop_sequence_is_said_before_a_call_and_at_the_end() {
    let mut request = request(&[]);
    request.stop_sequences = vec!["<end>"];
    let events: Vec<Event> =
        player(r#"{"events":["a <e",{"call":{"name":"readFile"}},"nd>"]}"#).respond(&request).collect();
    assert_eq!(events[0], Event::Text("a ".into()));
    assert_eq!(events[1], Event::Text("<e".into()));
    assert!(matches!(events[2], Event::Call(_)));
    assert_eq!(events[3], Event::Text("nd>".into()));
    assert!(matches!(events[4], Event::Finish { reason: Finish::ToolCalls, .. }));
}

#[test]
fn cancelling_ends_at_once_with_what_was_said() {
    let mut response = player(r#"{"text":"one two three"}"#).respond(&request(&[]));
    assert_eq!(response.next(), Some(Event::Text("one ".into())));
    response.cancel();
    let usage = Usage { prompt_tokens: 0, completion_tokens: 1 };
    assert_eq!(response.next(), Some(Event::Finish { reason: Finish::Cancelled, usage }));
    assert_eq!(response.next(), None);
}

#[test]
fn a_silent_response_ends_when_it_is_cancelled() {
    let mut response = player(r#"{"events":["one ",{"hang":true}]}"#).respond(&request(&[]));
    assert_eq!(response.next(), Some(Event::Text("one ".into())));
    assert_eq!(response.next(), Some(Event::Hang));
    assert_eq!(response.next(), None);
    response.cancel();
    let usage = Usage { prompt_tokens: 0, completion_tokens: 1 };
    assert_eq!(response.next(), Some(Event::Finish { reason: Finish::Cancelled, usage }));
    response.cancel();
    assert_eq!(response.next(), None);
}

#[test]
fn the_worker_tells_what_it_holds_and_reads_its_weights() {
    let script = r#"{"events":[{"reach":true},{"computeMs":7},"x"]}"#;
    let events: Vec<Event> = player(script).respond(&request(&[user("a")])).collect();
    assert_eq!(events[..3], [Event::Reach, Event::Compute(7), Event::Text("x".into())]);
    for wrong in [r#"{"events":[{"reach":false}]}"#, r#"{"events":[{"computeMs":-1}]}"#] {
        assert!(Script::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    let script = r#"{"events":[{"capabilities":true},{"weights":{"offset":1,"bytes":2}}]}"#;
    let mut response = player(script).respond(&request(&[]));
    assert_eq!(response.next(), Some(Event::Capabilities));
    assert_eq!(response.next(), Some(Event::Weights { offset: 1, bytes: 2 }));
    assert!(Script::parse(br#"{"events":[{"capabilities":false}]}"#).is_err());
}

#[test]
fn a_flood_is_made_piece_by_piece() {
    let script = r#"{"events":[{"text":"0123456789 ","times":18446744073709551615}]}"#;
    let mut response = player(script).respond(&request(&[]));
    assert!(response.by_ref().take(100_000).all(|event| event == Event::Text("0123456789 ".into())));
    response.cancel();
    let last = response.next();
    assert!(matches!(last, Some(Event::Finish { usage: Usage { completion_tokens: 100_000, .. }, .. })), "{last:?}");
    let script = r#"{"events":[{"text":"","times":18446744073709551615}]}"#;
    assert_eq!(player(script).respond(&request(&[])).next(), Some(Event::Text(String::new())));
    let collected = player(r#"{"events":[{"call":{"name":"readFile","arguments":"ab","times":3}}]}"#)
        .respond(&request(&[]))
        .collect_all();
    assert_eq!(collected.calls[0].arguments, "ababab");
}

#[test]
fn errors_name_the_line_and_what_to_do() {
    for (script, expected) in [
        ("", "model.jsonl line 1: the script holds no response"),
        ("{\"text\":\"a\"}\n{", "model.jsonl line 2: not a JSON value"),
        ("[]", "line 1: a line is a JSON object, not a list"),
        ("{\"txt\":1}", "unknown key \"txt\" in a line; known: match, repeat"),
        ("{\"events\":[1]}", "event 1: an event is a JSON object, not a number"),
        ("{\"events\":[{}]}", "event 1: give exactly one of text, words"),
        ("{\"events\":[{\"text\":\"a\",\"exit\":1}]}", "give exactly one of"),
        ("{\"events\":[{\"exit\":1,\"times\":2}]}", "unknown key \"times\""),
        ("{\"events\":[{\"textBytes\":\"f\"}]}", "\"textBytes\" is hex"),
        ("{\"events\":[{\"hang\":true},\"a\"]}", "event 2: nothing can follow"),
        ("{\"events\":[{\"hang\":false}]}", "\"hang\" is true"),
        ("{\"events\":[{\"deaf\":true},\"a\"]}", "event 2: nothing can follow"),
        ("{\"events\":[{\"deaf\":1}]}", "\"deaf\" is true"),
        (
            "{\"events\":[{\"crash\":\"boom\"}]}",
            "\"crash\" is one of panic, null, weights, execute, port, not \"boom\"",
        ),
        ("{\"events\":[{\"delayMs\":4294967296}]}", "\"delayMs\" is at most 4294967295"),
        ("{\"events\":[{\"delayMs\":-1}]}", "whole number of at least 0, not -1"),
        ("{\"events\":[{\"text\":\"a\",\"times\":0}]}", "\"times\" is at least 1"),
        ("{\"events\":[{\"callDelta\":{}}]}", "a callDelta has an \"index\""),
        ("{\"calls\":[{}]}", "call 1: a call has a \"name\""),
        ("{\"calls\":{}}", "\"calls\" is a list, not an object"),
        ("{\"events\":[],\"text\":\"\"}", "but not both"),
        ("{\"repeat\":1}", "\"repeat\" is true or false, not a number"),
        ("{\"match\":{\"user\":1}}", "\"user\" is a string, not a number"),
        ("{\"match\":{\"not\":{\"usr\":\"\"}}}", "unknown key \"usr\" in match"),
        ("{\"usage\":{\"total\":1}}", "unknown key \"total\" in usage"),
        (
            "{\"finish\":\"done\"}",
            "\"finish\" is one of stop, toolCalls, length, cancelled, contentFilter, error, repetition, not \"done\"",
        ),
        ("{\"text\":\"a\"}\n{\"script\":{}}", "line 2: \"script\" must be alone on the first line"),
        ("{\"script\":{\"select\":\"random\"}}", "\"select\" is one of sequence, stateless"),
    ] {
        let error = Script::parse(script.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{script}\n gives {error}\n not  {expected}");
    }
    let error = Script::parse(b"# fine\n{\"text\":\"\xff\"}").unwrap_err().to_string();
    assert_eq!(error, "model.jsonl line 2: byte 10 is not UTF-8");
}

proptest! {
    #[test]
    fn parsing_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Script::parse(&bytes);
    }

    #[test]
    fn a_script_says_the_same_twice(text in "\\PC{0,40}", limit in 0u32..9) {
        let script = serde_json::json!({ "text": text, "calls": [{ "name": "readFile", "arguments": text }] });
        let mut request = request(&[user(&text)]);
        request.max_tokens = limit;
        let first: Vec<Event> = player(&script.to_string()).respond(&request).collect();
        let second: Vec<Event> = player(&script.to_string()).respond(&request).collect();
        prop_assert_eq!(first, second);
    }

    /// However a text is cut into deltas, the output is the same: limits and stops do not depend on the cuts.
    #[test]
    fn cuts_between_deltas_change_nothing(
        text in "[ab <>\\n]{0,30}", cuts in proptest::collection::vec(0usize..30, 0..6), limit in 0u32..6,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let say = |pieces: &[&str]| {
            let mut request = request(&[]);
            request.max_tokens = limit;
            request.stop_sequences = vec!["<a>", "ab<"];
            let script = serde_json::json!({ "events": pieces }).to_string();
            player(&script).respond(&request).collect_all()
        };
        let whole = say(&[&text]);
        let cut = say(&pieces);
        prop_assert_eq!(whole, cut);
    }
}

#[test]
fn b07_temperature_response_schema_and_nonce_can_be_told_apart() {
    let script = r#"
        {"script":{"select":"stateless"}}
        {"match":{"temperature":0.1},"text":"cold"}
        {"match":{"responseSchema":["\"type\"","warm"]},"text":"{\"warm\":\"formed\"}"}
        {"match":{"nonce":["00ff"]},"calls":[{"id":"$nonce","name":"readFile"},{"id":"nonce","name":"readFile"}]}
        {"text":"none of them"}"#;
    let mut player = player(script);
    let mut said = |change: fn(&mut RequestView<'static>)| {
        let mut request = request(&[user("a")]);
        change(&mut request);
        player.respond(&request).collect_all()
    };
    assert_eq!(text(&said(|_| {})), "none of them");
    assert_eq!(text(&said(|request| request.temperature = 0.1)), "cold");
    assert_eq!(text(&said(|request| request.temperature = 0.2)), "none of them");
    let formed = said(|request| request.response_schema = r#"{"type":"object","required":["warm"]}"#);
    assert_eq!(text(&formed), r#"{"warm":"formed"}"#);
    let other = said(|request| request.response_schema = r#"{"title":"warm"}"#);
    assert_eq!(text(&other), "none of them", "both have to be in it");
    assert_eq!(text(&said(|request| request.nonce = &[0x0f, 0xf0])), "none of them");
    let echoed = said(|request| request.nonce = &[0x00, 0xff, 0x12]);
    let ids: Vec<&str> = echoed.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["nonce-00ff12", "nonce"], "only `$nonce` stands for it");
    let error = Script::parse(br#"{"match":{"temperature":"warm"}}"#).unwrap_err();
    assert!(error.what.contains("\"temperature\" is a number"), "{error}");
}

/// B18: an answer that ends by itself conforms to the schema, or is an error with a message.
#[test]
fn b18_an_answer_keeps_to_the_response_schema_or_is_an_error() {
    let with = |line: &str, change: fn(&mut RequestView<'static>)| {
        let mut request = request(&[user("a")]);
        request.response_schema = r#"{"type":"object","properties":{"warm":{"type":"boolean"}},"required":["warm"]}"#;
        change(&mut request);
        player(line).respond(&request).collect_all()
    };
    let whole = |line: &str| with(line, |_| {});
    let refused = |line: &str| match whole(line).end {
        Some(Event::Error { kind: ErrorKind::Failed, message }) => message,
        other => panic!("{line} ended with {other:?}"),
    };
    // However it is joined, and no stop sequence cuts it.
    for line in [
        r#"{"text":"{\"warm\": true}"}"#,
        r#"{"events":["{\"warm\"", {"delayMs": 1}, {"textBytes":"3a"}, {"words":" false }"}]}"#,
    ] {
        assert_eq!(ended(&whole(line)).0, Finish::Stop, "{line}");
        assert_eq!(ended(&with(line, |request| request.stop_sequences = vec!["warm"])).0, Finish::Stop, "{line}");
    }
    let why = refused("\n{\"text\":\"{\\\"warm\\\":1}\"}");
    let words = "line 2 of model.jsonl answers with what does not keep to the response schema: at /warm: number is not";
    assert!(why.starts_with(words), "{why}");
    assert!(refused(r#"{"text":"It is warm."}"#).contains("it is no JSON"));
    assert!(refused(r#"{"text":"{}","finish":"toolCalls"}"#).contains("\"warm\" is missing"));
    assert!(refused(r#"{"events":[{"textBytes":"ff"}]}"#).contains("it is no text"));
    assert!(refused(r#"{"events":[{"capabilities":true}]}"#).contains("only the worker knows"));
    assert!(refused(r#"{"events":[{"text":"          ","times":200000}]}"#).contains("1 MiB"));
    // A message with a tool call is not an answer yet, and a cut or cancelled one is reported as such.
    assert_eq!(ended(&whole(r#"{"text":"I look.","calls":[{"name":"readFile"}]}"#)).0, Finish::ToolCalls);
    assert_eq!(ended(&with(r#"{"text":"It is"}"#, |request| request.max_tokens = 1)).0, Finish::Length);
    assert_eq!(ended(&whole(r#"{"text":"It is","finish":"contentFilter"}"#)).0, Finish::ContentFilter);
    // A hostile worker may send anything.
    assert_eq!(ended(&whole(r#"{"text":"It is warm.","obey":false}"#)).0, Finish::Stop);
    let wrong = with(r#"{"text":"1"}"#, |request| request.response_schema = r#"{"pattern":"1"}"#);
    let Some(Event::Error { kind: ErrorKind::InvalidArgument, message }) = wrong.end else { panic!("{wrong:?}") };
    assert!(message.contains("\"pattern\"") && wrong.text.is_empty(), "{message}");
}

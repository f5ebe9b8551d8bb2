//! Members of records: which one an end has wrong, and which ones a question asks for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_audit::{AppendError, Chain, Checker, Deed, ERROR_LIMIT, Filter, Head, Kind, Lost, story, verify_lines};
use capos_schema::audit::{Phase, Query, ToolEvent};
use capos_schema::authority::Decision;
use capos_schema::models::{Outcome, ToolDescriptor};
use sha2::{Digest, Sha256};

fn call(phase: Phase, before: u64) -> ToolEvent {
    ToolEvent {
        phase,
        session: "session-1".into(),
        principal: "ada".into(),
        conversation: "c1".into(),
        turn: 7,
        call_id: "call-7".into(),
        model_id: "model-a".into(),
        backend: "scripted".into(),
        runner: "capos-side".into(),
        descriptor: ToolDescriptor {
            name: "write_file".into(),
            param_schema: "{}".into(),
            ..ToolDescriptor::default()
        },
        arguments: "{}".into(),
        decision: Decision::Auto,
        outcome: Outcome::Ok,
        result_hash: if phase == Phase::Before { vec![] } else { vec![0xab; 32] },
        before,
        decided: true,
        ..ToolEvent::default()
    }
}

fn chain() -> Chain {
    let mut chain = Chain::new(1 << 20);
    chain.append_tool(1, call(Phase::Before, 0)).unwrap();
    chain.append_tool(2, call(Phase::After, 1)).unwrap();
    chain
}

/// A line with another value, and with the hash that then belongs to it.
fn forged(line: &str, from: &str, to: &str) -> String {
    assert_eq!(line.matches(from).count(), 1, "{from} in {line}");
    let line = line.replace(from, to);
    let (start, rest) = line.split_once("\"hash\":\"").unwrap();
    let (_, rest) = rest.split_once("\",").unwrap();
    let hash = hex::encode(Sha256::digest([start, rest].concat()));
    format!("{start}\"hash\":\"{hash}\",{rest}")
}

#[test]
fn the_member_that_an_end_has_wrong_is_named() {
    let chain = chain();
    let [begin, end] = [0, 1].map(|at| chain.records()[at].line());
    assert_eq!(forged(&end, "\"turn\":7", "\"turn\":7"), end, "an untouched line has its hash");
    for (member, from, to) in [
        ("backend", "\"scripted\"", "\"another\""),
        ("callId", "\"call-7\"", "\"call-8\""),
        ("conversation", "\"c1\"", "\"c1-and-a-long-rest\""),
        ("principal", "\"ada\"", "\"bob\""),
        ("session", "\"session-1\"", "\"session-2\""),
        ("turn", "\"turn\":7", "\"turn\":8"),
    ] {
        let lines = [begin.as_bytes(), &forged(&end, from, to).into_bytes()];
        let broken = verify_lines(lines, None).unwrap_err();
        assert_eq!((broken.at, broken.why), (2, format!("its {member} is not that of record 1")));
    }
}

#[test]
fn a_head_is_that_of_one_line() {
    let chain = chain();
    let [begin, end] = [0, 1].map(|at| chain.records()[at].line());
    let head = chain.head();
    assert!(head.is_of(&end) && !head.is_of(&begin) && !head.is_of("") && !head.is_of("{}"));
    assert!(!Head { sequence: 1, ..head }.is_of(&end) && !Head { hash: [0; 32], ..head }.is_of(&end));
}

#[test]
fn errors_and_reasons_have_a_length_at_most() {
    for more in [0, 1, 2] {
        let text = "x".repeat(ERROR_LIMIT + more);
        for (error, reason) in [(text.clone(), String::new()), (String::new(), text)] {
            let mut chain = Chain::new(1 << 20);
            let refused = ToolEvent {
                phase: Phase::Refused,
                error,
                reason,
                decision: Decision::Forbidden,
                outcome: Outcome::RefusedByPolicy,
                ..call(Phase::After, 0)
            };
            let done = chain.append_tool(1, refused);
            assert_eq!(done.is_ok(), more == 0, "{more} more: {done:?}");
            assert!(more == 0 || matches!(done, Err(AppendError::Invalid(_))));
        }
    }
}

#[test]
fn a_question_asks_for_what_it_names() {
    let none = || Query { turn: -1, ..Query::default() };
    let text = || Some("x".to_string());
    let any = Filter::from(&none());
    assert_eq!(any, Filter::default());
    for (query, filter) in [
        (Query { session: "x".into(), ..none() }, Filter { session: text(), ..any.clone() }),
        (Query { turn: 0, ..none() }, Filter { turn: Some(0), ..any.clone() }),
        (Query { tool: "x".into(), ..none() }, Filter { tool: text(), ..any.clone() }),
        (Query { decision: "x".into(), ..none() }, Filter { decision: text(), ..any.clone() }),
        (Query { outcome: "x".into(), ..none() }, Filter { outcome: text(), ..any.clone() }),
        (Query { kind: "x".into(), ..none() }, Filter { kind: text(), ..any.clone() }),
        (Query { from: 9, ..none() }, Filter { from: 9, ..any.clone() }),
        (Query { since_nanoseconds: 9, ..none() }, Filter { since: 9, ..any.clone() }),
    ] {
        assert_eq!(Filter::from(&query), filter);
    }
    // And what passes has it.
    let mut chain = chain();
    chain.append_general(3, Kind::SessionStart.event("session-2", "ada", &[])).unwrap();
    let passing = |filter: Filter| {
        let value = |line: &str| serde_json::from_str(line).unwrap();
        chain.records().iter().filter(|record| filter.matches(&value(&record.line()))).count()
    };
    for (count, filter) in [
        (3, Filter::default()),
        (1, Filter { session: Some("session-2".into()), ..Filter::default() }),
        (2, Filter { tool: Some("write_file".into()), ..Filter::default() }),
        (2, Filter { turn: Some(7), ..Filter::default() }),
        (1, Filter { phase: Some("after".into()), ..Filter::default() }),
        (1, Filter { kind: Some("session.".into()), ..Filter::default() }),
        (2, Filter { from: 2, ..Filter::default() }),
        (2, Filter { since: 2, ..Filter::default() }),
        (2, Filter { until: Some(3), ..Filter::default() }),
    ] {
        assert_eq!(passing(filter.clone()), count, "{filter:?}");
    }
}

#[test]
fn a_chain_that_ends_before_a_noted_head_was_cut_off() {
    let mut checker = Checker::default().through(Head { sequence: 3, hash: [1; 32] });
    for record in chain().records() {
        checker.line(record.line().as_bytes()).unwrap();
    }
    let broken = checker.end(None).unwrap_err();
    assert_eq!(broken.at, 3);
    assert!(broken.why.starts_with("the noted head is record 3, and the chain ends at record 2: its end was cut off"));
}

/// Whatever ranges are named as lost: one without a record lets no record be missing, nor a link of the chain.
#[test]
fn a_range_that_ends_before_it_begins_lets_nothing_be_missing() {
    let mut other = Chain::new(1 << 20);
    other.append_general(1, Kind::Service.event("", "", &[])).unwrap();
    other.append_general(1, Kind::Service.event("", "", &[])).unwrap();
    let mut checker = Checker::default();
    checker.allow(Lost { first: 2, last: 1 });
    checker.line(chain().records()[0].line().as_bytes()).unwrap();
    let why = checker.line(other.records()[1].line().as_bytes()).unwrap_err().why;
    assert_eq!(why, "it does not follow the one before it");
}

#[test]
fn a_deed_has_what_its_records_say() {
    /// 2026-11-21T09:05:07Z.
    const TIME: u64 = 1_795_251_907_000_000_000;
    let mut chain = Chain::new(1 << 20);
    let event = |phase, before| ToolEvent {
        descriptor: ToolDescriptor { category: "mutating".into(), ..call(phase, 0).descriptor },
        advertised: vec!["write_file".into(), "read_file".into()],
        ..call(phase, before)
    };
    chain.append_general(TIME, Kind::Service.event("", "", &[])).unwrap();
    chain.append_tool(TIME, event(Phase::Before, 0)).unwrap();
    let error = "the tool stopped".to_string();
    let end = ToolEvent { outcome: Outcome::ExecutionError, error: error.clone(), ..event(Phase::After, 2) };
    chain.append_tool(TIME + 5_000_000_000, end).unwrap();
    let lines = [0, 1, 2].map(|at| chain.records()[at].line());
    let mut deeds = story(lines.iter().map(String::as_str));
    let expected = Deed {
        sequence: 2,
        time: TIME,
        principal: "ada".into(),
        conversation: "c1".into(),
        turn: 7,
        call_id: "call-7".into(),
        tool: "write_file".into(),
        category: "mutating".into(),
        arguments: "{}".into(),
        model: "model-a".into(),
        decision: Some("auto".into()),
        outcome: Some("executionError".into()),
        error,
        ran: true,
        advertised: vec!["write_file".into(), "read_file".into()],
        ..Deed::default()
    };
    assert_eq!(deeds, [expected]);
    deeds[0].offset = 60;
    assert_eq!(
        (deeds[0].heading(), deeds[0].to_string()),
        (
            "2026-11-21 +01:00, by model-a, which saw 2 tools: write_file, read_file".into(),
            "#2 10:05:07 turn 7: write_file {}: allowed without asking; it ran: failed: the tool stopped".into()
        )
    );
}

//! The chain: what it accepts, rejects and detects.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use std::cell::Cell;

use capos_audit::{ARGUMENTS_LIMIT, AppendError, Event, Filter, Head, Kind, Tally, message, story, verify_lines};
use capos_schema::audit::{GeneralEvent, GeneralEventField, Phase, Query, ToolEvent};
use capos_schema::authority::{Decision, Label};
use capos_schema::models::{Outcome, PermissionMode, ToolDescriptor};
use proptest::prelude::*;

use crate::support::Chain;

fn call(phase: Phase, turn: u32, tool: &str, decision: Decision, outcome: Outcome) -> ToolEvent {
    ToolEvent {
        phase,
        session: "session-1".into(),
        principal: "ada".into(),
        conversation: "c1".into(),
        turn,
        call_id: format!("call-{turn}"),
        model_id: "0123abcd-llama".into(),
        backend: "scripted".into(),
        nonce: vec![1, 2, 3],
        runner: "capos-side".into(),
        gateway_session: String::new(),
        descriptor: ToolDescriptor {
            name: tool.into(),
            description: "Writes \"a\" file".into(),
            interface_id: u64::MAX,
            method_name: "write".into(),
            param_schema: "{\"type\":\"object\"}".into(),
            permission: PermissionMode::Consent,
            category: "mutating".into(),
            handle: "/object/abcdefghijklmnopqrstuvwxyz".into(),
            abortable: true,
            timeout_ms: 30_000,
        },
        arguments: "{ \"path\": \"n\u{f6}tes\\u001b\\n\" }".into(),
        decision,
        outcome,
        result_hash: if phase == Phase::Before { vec![] } else { vec![0xab; 32] },
        error: String::new(),
        label: Label { classes: vec!["pii.mail".into()] },
        before: 0,
        decided: true,
        reason: String::new(),
        advertised: vec!["write_file".into(), "read_file".into()],
        late: false,
        arguments_bytes: 0,
        arguments_hash: vec![],
    }
}

fn before(turn: u32, decision: Decision) -> ToolEvent {
    call(Phase::Before, turn, "write_file", decision, Outcome::Ok)
}

fn after(turn: u32, decision: Decision, outcome: Outcome, before: u64) -> ToolEvent {
    ToolEvent { before, ..call(Phase::After, turn, "write_file", decision, outcome) }
}

fn sample() -> Chain {
    let mut chain = Chain::new(1 << 20);
    chain.append_general(5, Kind::SessionStart.event("session-1", "ada", &[("profile", &"operator")])).unwrap();
    chain.append_general(6, message("session-1", "ada", "c1", 1, "user", "tell nobody")).unwrap();
    let first = chain.append_tool(7, before(1, Decision::Auto)).unwrap().sequence;
    let second = chain.append_tool(8, before(2, Decision::Consented)).unwrap().sequence;
    chain.append_tool(9, after(2, Decision::Consented, Outcome::TimedOut, second)).unwrap();
    chain.append_tool(9, after(1, Decision::Auto, Outcome::Ok, first)).unwrap();
    let refused = call(Phase::Refused, 3, "power_off", Decision::Forbidden, Outcome::RefusedByPolicy);
    chain.append_tool(10, refused).unwrap();
    let unknown = call(Phase::Refused, 4, "bash", Decision::Auto, Outcome::UnknownTool);
    chain.append_tool(10, ToolEvent { decided: false, ..unknown }).unwrap();
    chain.append_tool(11, before(5, Decision::StepUpSucceeded)).unwrap();
    chain
}

fn lines(chain: &Chain) -> Vec<Vec<u8>> {
    chain.records().iter().map(|record| record.line().into_bytes()).collect()
}

fn verify(lines: &[Vec<u8>], head: Option<Head>) -> Result<capos_audit::Summary, capos_audit::Broken> {
    verify_lines(lines.iter().map(Vec::as_slice), head)
}

/// Requirement E01.
#[test]
fn a_record_holds_every_field() {
    let chain = sample();
    let line = chain.get(6).unwrap().line();
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    for (member, expected) in [
        ("sequence", serde_json::json!(6)),
        ("time", serde_json::json!(9)),
        ("kind", serde_json::json!("tool")),
        ("phase", serde_json::json!("after")),
        ("before", serde_json::json!(3)),
        ("session", serde_json::json!("session-1")),
        ("principal", serde_json::json!("ada")),
        ("conversation", serde_json::json!("c1")),
        ("turn", serde_json::json!(1)),
        ("callId", serde_json::json!("call-1")),
        ("modelId", serde_json::json!("0123abcd-llama")),
        ("backend", serde_json::json!("scripted")),
        ("nonce", serde_json::json!("010203")),
        ("runner", serde_json::json!("capos-side")),
        ("gatewaySession", serde_json::json!("")),
        ("arguments", serde_json::json!("{ \"path\": \"n\u{f6}tes\\u001b\\n\" }")),
        ("decision", serde_json::json!("auto")),
        ("outcome", serde_json::json!("ok")),
        ("resultHash", serde_json::json!("ab".repeat(32))),
        ("error", serde_json::json!("")),
        ("label", serde_json::json!(["pii.mail"])),
        ("advertised", serde_json::json!(["write_file", "read_file"])),
        (
            "descriptor",
            serde_json::json!({
                "name": "write_file", "description": "Writes \"a\" file", "interfaceId": "0xffffffffffffffff",
                "methodName": "write", "paramSchema": "{\"type\":\"object\"}", "permission": "consent",
                "category": "mutating", "handle": "/object/abcdefghijklmnopqrstuvwxyz", "abortable": true,
                "timeoutMs": 30000,
            }),
        ),
    ] {
        assert_eq!(value[member], expected, "{member}");
    }
    assert!(!line.contains('\n'));
    let first: serde_json::Value = serde_json::from_str(&chain.get(3).unwrap().line()).unwrap();
    assert!(first.get("outcome").is_none(), "before the effect there is no outcome");
    let unknown: serde_json::Value = serde_json::from_str(&chain.get(8).unwrap().line()).unwrap();
    assert!(unknown.get("decision").is_none(), "nobody decided on an unknown tool");
}

/// Requirement E04.
#[test]
fn a_message_is_recorded_without_its_content() {
    let line = sample().get(2).unwrap().line();
    assert!(line.contains("\"role\":\"user\"") && line.contains("\"length\":\"11\""), "{line}");
    // SHA-256 of "tell nobody".
    let hash = sha256("tell nobody");
    assert!(line.contains(&hash), "{line}");
    assert!(!line.contains("tell") && !line.contains("nobody"), "{line}");
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    hex::encode(sha2::Sha256::digest(text.as_bytes()))
}

#[test]
fn an_untouched_chain_is_whole() {
    let chain = sample();
    let summary = verify(&lines(&chain), Some(chain.head())).unwrap();
    assert_eq!((summary.records, summary.effects, summary.refused), (9, 2, 2));
    assert_eq!(summary.open, [9]);
    assert_eq!(summary.head, chain.head());
    assert_eq!(chain.open().collect::<Vec<_>>(), [9]);
    assert_eq!(verify(&[], Some(Head::default())).unwrap().records, 0);
    let hash = chain.get(1).unwrap().line();
    let bare = hash.replacen(&format!("\"hash\":\"{}\",", hex::encode(chain.get(1).unwrap().hash)), "", 1);
    assert_eq!(sha256(&bare), hex::encode(chain.get(1).unwrap().hash), "anyone can compute the hash");
}

#[test]
fn every_flipped_bit_is_found() {
    let chain = sample();
    let mut lines = lines(&chain);
    for at in 0..lines.len() {
        for byte in 0..lines[at].len() {
            // Every bit of one record of each kind, and one bit of every byte of the others.
            let bits = if at == 0 || at == 5 { 0..8 } else { byte % 8..byte % 8 + 1 };
            for bit in bits {
                lines[at][byte] ^= 1 << bit;
                let broken = verify(&lines[..=at], None).unwrap_err();
                assert_eq!(broken.at, at as u64 + 1, "bit {bit} of byte {byte} of record {}", at + 1);
                lines[at][byte] ^= 1 << bit;
            }
        }
    }
    verify(&lines, Some(chain.head())).unwrap();
}

#[test]
fn removal_repetition_exchange_and_insertion_are_found() {
    let chain = sample();
    let whole = lines(&chain);
    for at in 0..whole.len() {
        let mut removed = whole.clone();
        removed.remove(at);
        assert!(verify(&removed, Some(chain.head())).is_err(), "record {} removed", at + 1);
        assert_eq!(verify(&removed, None).is_ok(), at + 1 == whole.len(), "only the last can go unseen");
        let mut repeated = whole.clone();
        repeated.insert(at, whole[at].clone());
        assert!(verify(&repeated, None).is_err(), "record {} repeated", at + 1);
        for other in 0..at {
            let mut exchanged = whole.clone();
            exchanged.swap(at, other);
            assert!(verify(&exchanged, None).is_err(), "records {} and {} exchanged", other + 1, at + 1);
        }
        let cut = verify(&whole[..at], Some(chain.head())).unwrap_err();
        assert_eq!(cut.at, at as u64 + 1, "cut after {at}");
    }
    let mut longer = whole.clone();
    longer.push(whole[0].clone());
    assert!(verify(&longer, None).is_err());
}

#[test]
fn a_forger_who_computes_hashes_still_needs_a_beginning() {
    // A chain whose hashes are right and whose story is not.
    let mut chain = Chain::new(1 << 20);
    chain.append_tool(1, before(1, Decision::Auto)).unwrap();
    let mut forged = Chain::new(1 << 20);
    let mut other = before(1, Decision::Auto);
    other.arguments = "{}".into();
    forged.append_tool(1, other).unwrap();
    let mut end = after(1, Decision::Auto, Outcome::Ok, 1);
    end.arguments = "{}".into();
    forged.append_tool(2, end).unwrap();
    let mixed = [lines(&chain)[0].clone(), lines(&forged)[1].clone()];
    assert!(verify(&mixed, None).unwrap_err().why.contains("does not follow"));
}

#[test]
fn an_end_needs_its_beginning_and_is_recorded_once() {
    let mut chain = Chain::new(1 << 20);
    let refused = |error: Result<Head, AppendError>| matches!(error, Err(AppendError::Invalid(_)));
    assert!(refused(chain.append_tool(1, after(1, Decision::Auto, Outcome::Ok, 0))));
    assert!(refused(chain.append_tool(1, after(1, Decision::Auto, Outcome::Ok, 1))));
    assert!(refused(chain.append_tool(1, ToolEvent { decided: false, ..before(1, Decision::Auto) })));
    let begun = chain.append_tool(1, before(1, Decision::Auto)).unwrap().sequence;
    assert!(refused(chain.append_tool(1, after(2, Decision::Auto, Outcome::Ok, begun))));
    assert!(refused(chain.append_tool(1, after(1, Decision::Consented, Outcome::Ok, begun))));
    let altered = ToolEvent { arguments: "{}".into(), ..after(1, Decision::Auto, Outcome::Ok, begun) };
    assert!(refused(chain.append_tool(1, altered)));
    let long = ToolEvent { error: "x".repeat(2049), ..after(1, Decision::Auto, Outcome::ExecutionError, begun) };
    assert!(refused(chain.append_tool(1, long)));
    let labelled = Label { classes: vec!["x".repeat(1021)] };
    assert!(refused(
        chain.append_tool(1, ToolEvent { label: labelled, ..after(1, Decision::Auto, Outcome::Ok, begun) })
    ));
    assert_eq!(chain.records().len(), 1, "what is refused leaves no trace");
    chain.append_tool(1, after(1, Decision::Auto, Outcome::Ok, begun)).unwrap();
    assert!(refused(chain.append_tool(1, after(1, Decision::Auto, Outcome::Ok, begun))));
    verify(&lines(&chain), Some(chain.head())).unwrap();
}

#[test]
fn a_general_event_cannot_pass_for_a_tool_call() {
    let mut chain = Chain::new(1 << 20);
    for kind in ["", "tool", "a b", "x\n"] {
        let event = GeneralEvent { kind: kind.into(), ..GeneralEvent::default() };
        assert!(matches!(chain.append_general(1, event), Err(AppendError::Invalid(_))), "{kind:?}");
    }
    let twice = Kind::Service.event("", "", &[("name", &"a"), ("name", &"b")]);
    assert!(matches!(chain.append_general(1, twice), Err(AppendError::Invalid(_))));
}

#[test]
fn a_full_chain_refuses_and_forgets_nothing() {
    let mut chain = Chain::new(64 * 1024);
    let mut begun = Vec::new();
    loop {
        let turn = u32::try_from(begun.len()).unwrap();
        match chain.append_tool(1, before(turn, Decision::Auto)) {
            Ok(head) => begun.push(head.sequence),
            Err(error) => {
                assert_eq!(error, AppendError::Full { limit: 64 * 1024 });
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
    }
    assert!(!begun.is_empty());
    // Smaller records must not take the room that the ends need.
    while chain.append_general(1, Kind::Service.event("", "", &[("name", &"x".repeat(100))])).is_ok() {}
    for (turn, &sequence) in (0..).zip(&begun) {
        let worst = ToolEvent {
            error: "\u{1}".repeat(2048),
            reason: "\u{1}".repeat(2048),
            label: Label { classes: vec!["\u{1}".repeat(500), "\u{1}".repeat(500)] },
            ..after(turn, Decision::Auto, Outcome::ExecutionError, sequence)
        };
        chain.append_tool(2, worst).expect("the end of what was allowed to begin fits");
    }
    let (used, limit) = chain.usage();
    assert!(used <= limit);
    let summary = verify(&lines(&chain), Some(chain.head())).unwrap();
    assert_eq!(summary.effects, begun.len() as u64);
}

#[test]
fn a_clock_set_back_does_not_disturb_the_order() {
    let mut chain = Chain::new(1 << 20);
    chain.append_general(100, Kind::LogStart.event("", "", &[])).unwrap();
    chain.append_general(50, Kind::Service.event("", "", &[])).unwrap();
    assert_eq!(chain.get(2).unwrap().time, 100);
    verify(&lines(&chain), None).unwrap();
}

/// Requirement E05.
#[test]
fn questions_find_what_they_ask_for() {
    let chain = sample();
    let ask =
        |filter: Filter| -> Vec<u64> { chain.query(&filter, 100).0.iter().map(|record| record.sequence).collect() };
    let text = |text: &str| Some(text.to_string());
    assert_eq!(ask(Filter::default()), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(ask(Filter { turn: Some(1), ..Filter::default() }), [2, 3, 6]);
    assert_eq!(ask(Filter { tool: text("power_off"), ..Filter::default() }), [7]);
    assert_eq!(ask(Filter { decision: text("consented"), ..Filter::default() }), [4, 5]);
    assert_eq!(ask(Filter { decision: text("auto"), ..Filter::default() }), [3, 6]);
    assert_eq!(ask(Filter { outcome: text("ok"), ..Filter::default() }), [6]);
    assert_eq!(ask(Filter { outcome: text("unknownTool"), ..Filter::default() }), [8]);
    assert_eq!(ask(Filter { phase: text("refused"), ..Filter::default() }), [7, 8]);
    assert_eq!(ask(Filter { kind: text("session."), ..Filter::default() }), [1]);
    assert_eq!(ask(Filter { kind: text("session"), ..Filter::default() }), [0; 0]);
    assert_eq!(
        ask(Filter { kind: text("tool"), conversation: text("c1"), ..Filter::default() }),
        [3, 4, 5, 6, 7, 8, 9]
    );
    assert_eq!(ask(Filter { session: text("other"), ..Filter::default() }), [0; 0]);
    assert_eq!(ask(Filter { since: 7, until: Some(9), ..Filter::default() }), [3, 4]);
    assert_eq!(ask(Filter { from: 8, ..Filter::default() }), [8, 9]);
    let (page, next) = chain.query(&Filter { phase: text("before"), ..Filter::default() }, 2);
    assert_eq!((page.len(), next), (2, 9));
    let query = Query { turn: 2, tool: "write_file".into(), ..Query::default() };
    assert_eq!(ask(Filter::from(&query)), [4, 5]);
    assert_eq!(ask(Filter::from(&Query { turn: -1, ..Query::default() })).len(), 9);
}

#[test]
fn the_story_is_told_in_words() {
    let chain = sample();
    let lines: Vec<String> = chain.records().iter().map(capos_audit::Record::line).collect();
    let deeds = story(lines.iter().map(String::as_str).chain(["not json", "{}"]));
    let told: Vec<String> = deeds.iter().map(ToString::to_string).collect();
    let arguments = "{ \"path\": \"n\u{f6}tes\\u001b\\n\" }";
    assert_eq!(
        told,
        [
            format!("#3 00:00:00 turn 1: write_file {arguments}: allowed without asking; done"),
            format!("#4 00:00:00 turn 2: write_file {arguments}: you agreed; it ran: took too long"),
            format!("#7 00:00:00 turn 3: power_off {arguments}: forbidden; not run"),
            format!("#8 00:00:00 turn 4: bash {arguments}: no decision; not run (there is no such tool)"),
            format!(
                "#9 00:00:00 turn 5: write_file {arguments}: you gave the passphrase; it began; no end is recorded"
            ),
        ]
    );
    assert_eq!(deeds[0].model, "0123abcd-llama");
    let heading = "1970-01-01 UTC, by 0123abcd-llama, which saw 2 tools: write_file, read_file";
    assert_eq!(deeds[0].heading(), heading);
    assert_eq!(deeds[0].advertised, ["write_file", "read_file"]);
    assert_eq!(deeds.iter().filter(|deed| deed.ran).count(), 3);
    // One wrote, one ran over its time and one has no end on record, two never ran.
    assert_eq!(Tally::of(&deeds), Tally { changed: 1, failed: 2, refused: 2, ..Tally::default() });
    assert_eq!(
        Tally::of(&deeds).to_string(),
        "5 calls: 1 changed something, 2 failed or were interrupted, 2 did not run"
    );
}

/// "You" is the reader; what another principal did, agreed to or typed is told with their name.
#[test]
fn the_story_names_whose_calls_it_tells() {
    let mut chain = Chain::new(1 << 20);
    let by =
        |principal: &str, event: ToolEvent| ToolEvent { principal: principal.into(), arguments: "{}".into(), ..event };
    let direct = |event: ToolEvent| ToolEvent { model_id: String::new(), ..event };
    chain.append_tool(1, by("maria", direct(before(1, Decision::StepUpSucceeded)))).unwrap();
    chain.append_tool(1, by("ben", before(2, Decision::Consented))).unwrap();
    chain.append_tool(1, by("maria", before(3, Decision::Consented))).unwrap();
    let refused = |turn, decision, outcome, error: &str| {
        let event = call(Phase::Refused, turn, "delete_file", decision, outcome);
        by("maria", ToolEvent { error: error.into(), ..event })
    };
    chain.append_tool(1, refused(4, Decision::Denied, Outcome::DeniedByUser, "the person said no")).unwrap();
    let prompt = "cancelled by the person at the prompt";
    chain.append_tool(1, refused(5, Decision::StepUpFailed, Outcome::Cancelled, prompt)).unwrap();
    let lines: Vec<String> = chain.records().iter().map(capos_audit::Record::line).collect();
    let told = |reader: &str| -> Vec<(String, String, String)> {
        let mut deeds = story(lines.iter().map(String::as_str));
        deeds.iter_mut().for_each(|deed| deed.read_by(reader));
        deeds.iter().map(|deed| (deed.heading(), deed.to_string(), deed.proposer())).collect()
    };
    let ben = told("ben");
    assert_eq!(ben[0].0, "1970-01-01 UTC, by maria, without a model");
    assert!(ben[0].1.contains(": maria gave the passphrase; "), "{}", ben[0].1);
    assert_eq!(ben[0].2, "maria");
    assert!(ben[1].0.contains(", by 0123abcd-llama, which saw") && ben[1].1.contains(": you agreed; "), "{ben:?}");
    assert!(ben[2].0.contains(", by 0123abcd-llama for maria, which saw"), "{}", ben[2].0);
    assert!(ben[2].1.contains(": maria agreed; "), "{}", ben[2].1);
    assert!(ben[3].1.ends_with(": maria did not agree; not run: maria said no"), "{}", ben[3].1);
    assert!(ben[4].1.ends_with(": without maria's passphrase; not run (cancelled): by maria"), "{}", ben[4].1);
    let maria = told("maria");
    assert_eq!((maria[0].0.as_str(), maria[0].2.as_str()), ("1970-01-01 UTC, by you, without a model", "you"));
    assert!(maria[0].1.contains(": you gave the passphrase; ") && maria[1].1.contains(": ben agreed; "), "{maria:?}");
}

#[test]
fn a_read_is_no_change_and_a_failure_neither() {
    let mut chain = Chain::new(1 << 20);
    for (turn, outcome) in [(1, Outcome::Ok), (2, Outcome::ExecutionError)] {
        let reads = |event: ToolEvent| {
            let descriptor = ToolDescriptor { category: "readOnly".into(), ..event.descriptor.clone() };
            ToolEvent { descriptor, ..event }
        };
        let began = chain.append_tool(1, reads(before(turn, Decision::Auto))).unwrap().sequence;
        chain.append_tool(1, reads(after(turn, Decision::Auto, outcome, began))).unwrap();
    }
    let lines: Vec<String> = chain.records().iter().map(capos_audit::Record::line).collect();
    let deeds = story(lines.iter().map(String::as_str));
    assert_eq!(Tally::of(&deeds).to_string(), "2 calls: 1 only read, 1 failed or were interrupted");
    assert_eq!(Tally::of(&deeds[..1]).to_string(), "1 call: 1 only read");
    assert_eq!(Tally::default().to_string(), "0 calls");
    // The actions of a program are not in the log, whoever ran it.
    let program = capos_audit::Deed { tool: "run_program".into(), category: "mutating".into(), ..deeds[0].clone() };
    assert_eq!(Tally::of(&[program.clone(), deeds[0].clone()]).to_string(), "2 calls: 1 only read, 1 ran a program");
    // Nor is what it did after the person had agreed to its step.
    let step = capos_audit::Deed { tool: "ask_before_step".into(), category: "destructive".into(), ..program };
    assert!(step.to_string().ends_with("; granted"), "{step}");
    assert_eq!(Tally::of(&[step]).to_string(), "1 call: 1 granted a step of a program");
}

/// No passphrase, a wrong one and Ctrl-C at the question are distinguished.
#[test]
fn a_step_up_that_failed_says_what_happened() {
    let told = |outcome: Outcome, error: &str| {
        let mut chain = Chain::new(1 << 20);
        let refused = call(Phase::Refused, 1, "delete_file", Decision::StepUpFailed, outcome);
        chain.append_tool(1, ToolEvent { error: error.into(), arguments: "{}".into(), ..refused }).unwrap();
        story([chain.records()[0].line().as_str()])[0].to_string()
    };
    let beginning = "#1 00:00:00 turn 1: delete_file {}: without your passphrase; not run";
    for (outcome, error, end) in [
        (Outcome::StepUpFailed, "no passphrase was entered", ": no passphrase was entered"),
        (Outcome::StepUpFailed, "the passphrase is wrong", ": the passphrase is wrong"),
        (Outcome::Cancelled, "cancelled by the person at the prompt", " (cancelled): by you"),
    ] {
        assert_eq!(told(outcome, error), format!("{beginning}{end}"));
    }
}

#[test]
fn the_event_comes_back_as_it_was_given() {
    let chain = sample();
    assert_eq!(chain.get(4).unwrap().event, Event::Tool(Box::new(before(2, Decision::Consented))));
    assert_eq!(chain.get(0), None);
    assert_eq!(chain.get(10), None);
}

proptest! {
    #[test]
    fn any_text_survives_the_chain(arguments: String, error in "\\PC{0,100}", field: String) {
        let mut chain = Chain::new(1 << 20);
        let begun = ToolEvent { arguments: arguments.clone(), ..before(1, Decision::Auto) };
        let sequence = chain.append_tool(1, begun).unwrap().sequence;
        let ended = ToolEvent { arguments: arguments.clone(), error, ..after(1, Decision::Auto, Outcome::ExecutionError, sequence) };
        chain.append_tool(1, ended).unwrap();
        chain.append_general(2, Kind::Service.event(&field, &field, &[(field.as_str(), &field)])).unwrap();
        prop_assert!(verify(&lines(&chain), Some(chain.head())).is_ok());
        let line = chain.get(1).unwrap().line();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(&story([line.as_str()])[0].arguments, &arguments);
    }

    #[test]
    fn verifying_any_bytes_does_not_panic(bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4)) {
        let _ = verify(&bytes, None);
    }
}

fn decided(turn: u32, decision: &str) -> GeneralEvent {
    let id = format!("call-{turn}");
    Kind::BrokerDecision.event(
        "session-1",
        "ada",
        &[("conversation", &"c1"), ("callId", &id), ("decision", &decision), ("tool", &"write_file")],
    )
}

fn undecided(turn: u32) -> ToolEvent {
    let refused = call(Phase::Refused, turn, "write_file", Decision::Auto, Outcome::Cancelled);
    ToolEvent { decided: false, ..refused }
}

/// A runner that stopped waiting and a broker that decides write in either order, and agree.
#[test]
fn a_decision_and_what_became_of_the_call_agree() {
    let mut chain = Chain::new(1 << 20);
    chain.append_general(1, decided(1, "consented")).unwrap();
    let head = chain.append_tool(2, undecided(1)).unwrap();
    let Event::Tool(told) = &chain.get(head.sequence).unwrap().event else { panic!("no tool call") };
    assert_eq!((told.decided, told.decision, told.outcome), (true, Decision::Consented, Outcome::Cancelled));
    let head = chain.append_tool(3, undecided(2)).unwrap();
    let Event::Tool(told) = &chain.get(head.sequence).unwrap().event else { panic!("no tool call") };
    assert!(!told.decided);
    let late = chain.append_general(4, decided(2, "consented")).unwrap_err().to_string();
    assert!(late.contains("record 3 already holds the outcome of the call \"call-2\""), "{late}");
    // Once each: no second decision, no second beginning or refusal.
    chain.append_general(5, decided(3, "auto")).unwrap();
    let again = chain.append_general(5, decided(3, "denied")).unwrap_err().to_string();
    assert!(again.contains("decided on already, as auto"), "{again}");
    assert!(chain.append_general(5, decided(4, "perhaps")).is_err());
    chain.append_tool(6, before(3, Decision::Auto)).unwrap();
    assert!(chain.append_tool(7, before(3, Decision::Auto)).is_err());
    assert!(chain.append_tool(7, undecided(3)).is_err());
    // A decision other than the recorded one is rejected, whoever sends it.
    chain.append_general(7, decided(4, "denied")).unwrap();
    let other = chain.append_tool(7, before(4, Decision::Auto)).unwrap_err().to_string();
    assert!(other.contains("\"call-4\" was decided on as denied, not as auto"), "{other}");
    let refused = |decision| call(Phase::Refused, 4, "write_file", decision, Outcome::RefusedByPolicy);
    assert!(chain.append_tool(7, refused(Decision::Forbidden)).is_err());
    assert!(chain.append_tool(7, ToolEvent { late: true, ..after(4, Decision::Auto, Outcome::Ok, 0) }).is_err());
    chain.append_tool(7, refused(Decision::Denied)).unwrap();
    // The same id in another conversation is another call.
    chain.append_tool(8, ToolEvent { conversation: "c2".into(), ..undecided(3) }).unwrap();
    assert!(verify(&lines(&chain), Some(chain.head())).is_ok());
}

/// The end of an effect that the log could not take when it came.
#[test]
fn a_late_end_closes_its_effect_or_stands_alone() {
    let mut chain = Chain::new(1 << 20);
    let first = chain.append_tool(1, before(1, Decision::Auto)).unwrap().sequence;
    let late = |turn, before| ToolEvent { late: true, ..after(turn, Decision::Auto, Outcome::Ok, before) };
    chain.append_tool(2, late(1, first)).unwrap();
    assert_eq!(chain.open().count(), 0);
    // A second time it is rejected; and it is not taken for the end of an effect that was lost.
    let again = chain.append_tool(3, late(1, first)).unwrap_err().to_string();
    assert!(again.contains("its end is recorded already"), "{again}");
    // The record that it names is another call's: its own was in an earlier chain.
    let other = chain.append_tool(4, before(2, Decision::Auto)).unwrap().sequence;
    for before in [other, 99] {
        let turn = u32::try_from(before).unwrap() + 10;
        chain.append_tool(5, late(turn, before)).unwrap();
        assert!(chain.append_tool(5, late(turn, before)).is_err());
        assert!(chain.append_tool(5, ToolEvent { late: false, ..late(turn + 1, before) }).is_err());
    }
    assert_eq!(chain.open().collect::<Vec<_>>(), [other]);
    let summary = verify(&lines(&chain), Some(chain.head())).unwrap();
    assert_eq!((summary.effects, summary.open), (3, vec![other]));
    let texts: Vec<String> = chain.records().iter().map(capos_audit::Record::line).collect();
    let deeds = story(texts.iter().map(String::as_str));
    assert_eq!(deeds.len(), 4);
    assert!(deeds[0].to_string().ends_with("done (recorded later)") && deeds[3].ran, "{deeds:#?}");
}

/// A line that counts how many of its kind there are.
struct Counted<'a> {
    line: String,
    alive: &'a Cell<usize>,
}

impl AsRef<[u8]> for Counted<'_> {
    fn as_ref(&self) -> &[u8] {
        self.line.as_bytes()
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

#[test]
fn a_chain_is_checked_one_line_at_a_time() {
    let (chain, alive, most) = (sample(), Cell::new(0), Cell::new(0));
    let lines = chain.records().iter().map(|record| {
        alive.set(alive.get() + 1);
        most.set(most.get().max(alive.get()));
        Counted { line: record.line(), alive: &alive }
    });
    assert_eq!(verify_lines(lines, Some(chain.head())).unwrap().records, chain.head().sequence);
    assert_eq!((most.get(), alive.get()), (1, 0));
}

#[test]
fn what_never_ran_is_recorded_in_part_and_what_ran_is_recorded_whole() {
    let cut = |phase, arguments: usize, bytes: u64, hash: usize| ToolEvent {
        arguments: "x".repeat(arguments),
        arguments_bytes: bytes,
        arguments_hash: vec![0xcd; hash],
        ..call(phase, 1, "write_file", Decision::Denied, Outcome::DeniedByUser)
    };
    let takes = |event| Chain::new(1 << 20).append_tool(1, event).map(drop);
    takes(cut(Phase::Refused, ARGUMENTS_LIMIT, 0, 0)).unwrap();
    takes(cut(Phase::Refused, ARGUMENTS_LIMIT, 65_536, 32)).unwrap();
    takes(cut(Phase::Before, 65_536, 0, 0)).unwrap();
    let refused = [
        cut(Phase::Refused, ARGUMENTS_LIMIT + 1, 0, 0),
        cut(Phase::Refused, ARGUMENTS_LIMIT + 1, 65_536, 32),
        cut(Phase::Refused, 10, 65_536, 31),
        cut(Phase::Refused, 10, 65_536, 0),
        cut(Phase::Refused, 10, 10, 32),
        cut(Phase::Before, 10, 65_536, 32),
        cut(Phase::Before, 10, 0, 32),
    ];
    for event in refused {
        assert!(matches!(takes(event.clone()), Err(AppendError::Invalid(_))), "{event:?}");
    }
    let mut chain = Chain::new(1 << 20);
    chain.append_tool(1, cut(Phase::Refused, 10, 65_536, 32)).unwrap();
    let line = chain.records()[0].line();
    assert!(line.contains("\"argumentsBytes\":65536,\"argumentsHash\":\"cdcd"), "{line}");
    assert!(story([line.as_str()])[0].to_string().contains("xxxxxxxxxx… (65536 bytes in total): "));
    assert_eq!(verify(&lines(&chain), Some(chain.head())).unwrap().refused, 1);
}

/// Whatever one session records, and a service about no session, others can log in, work, and log out.
#[test]
fn one_session_leaves_room_to_others() {
    let limit = 512 << 10;
    let mut chain = Chain::shared(limit);
    let general = |kind: &str, session: &str, source: &str, text: &str| GeneralEvent {
        kind: kind.into(),
        session: session.into(),
        principal: "p".into(),
        fields: [("text", text), ("source", source)]
            .map(|(name, value)| GeneralEventField { name: name.into(), value: value.into() })
            .into(),
    };
    let text = "x".repeat(2048);
    let mut fill = |session: &str, source: &str| {
        let before = chain.usage().0;
        let mut why = None;
        for text in [text.as_str(), ""] {
            while why.is_none() {
                why = chain.append_general(1, general("message", session, source, text)).err();
            }
            // What is left is too little for the smallest record.
            why = why.take_if(|_| text.is_empty());
        }
        (chain.usage().0 - before, why.unwrap())
    };
    let share = AppendError::Share { limit: limit / 8 * 3 };
    for (session, source) in [("one", "shell"), ("", "model-loader")] {
        let (bytes, why) = fill(session, source);
        assert_eq!(why, share);
        assert!((limit / 3..=limit / 8 * 3).contains(&bytes), "{bytes}");
    }
    assert!(share.to_string().contains("end the session and log in again"));
    // Two attackers have left something to a third, and all three end.
    let (bytes, why) = fill("two", "shell");
    assert_eq!(why, AppendError::Full { limit });
    assert!(bytes > limit / 6, "{bytes}");
    for session in ["one", "two", "three"] {
        for kind in [Kind::SessionStart, Kind::SessionEnd] {
            chain.append_general(2, general(kind.name(), session, "broker", "")).unwrap();
        }
        assert!(chain.append_general(2, general("message", session, "shell", "")).is_err());
    }
    assert!(verify_lines(chain.records().iter().map(|record| record.line()), Some(chain.head())).is_ok());
}

/// The end of an effect that has begun is recorded, though its session's share is used up meanwhile.
#[test]
fn an_effect_that_began_within_its_share_has_its_end() {
    let mut chain = Chain::shared(512 << 10);
    let begun = ToolEvent {
        phase: Phase::Before,
        session: "one".into(),
        call_id: "a".into(),
        decided: true,
        ..ToolEvent::default()
    };
    let head = chain.append_tool(1, begun.clone()).unwrap();
    let message = || GeneralEvent { kind: "message".into(), session: "one".into(), ..GeneralEvent::default() };
    while chain.append_general(1, message()).is_ok() {}
    let next = ToolEvent { call_id: "b".into(), ..begun.clone() };
    assert!(matches!(chain.append_tool(1, next.clone()), Err(AppendError::Share { .. })));
    let end = ToolEvent { phase: Phase::After, before: head.sequence, ..begun };
    chain.append_tool(2, end).unwrap();
    // The unused part of its reservation returns to the session.
    assert!(chain.append_general(2, message()).is_ok());
    assert!(chain.append_tool(2, ToolEvent { session: "two".into(), ..next }).is_ok());
}

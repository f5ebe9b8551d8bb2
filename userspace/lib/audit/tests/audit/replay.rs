//! Runs rebuilt from records: requirement E07.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_audit::{Chain, Kind, Replay, Replayed, message};
use capos_schema::audit::{Phase, ToolEvent};
use capos_schema::authority::Decision;
use capos_schema::models::{Outcome, ToolDescriptor};
use sha2::{Digest, Sha256};

const SESSION: &str = "s1";

fn event(phase: Phase, id: &str, before: u64) -> ToolEvent {
    let result = if phase == Phase::Before { Vec::new() } else { Sha256::digest(format!("did {id}")).to_vec() };
    ToolEvent {
        phase,
        session: SESSION.into(),
        principal: "ada".into(),
        conversation: "c1".into(),
        turn: 1,
        call_id: id.into(),
        model_id: "m".into(),
        descriptor: ToolDescriptor { name: "write_file".into(), ..ToolDescriptor::default() },
        arguments: format!("{{\"path\":\"{id}\"}}"),
        decision: Decision::Consented,
        outcome: Outcome::Ok,
        result_hash: result,
        before,
        ..ToolEvent::default()
    }
}

/// A run with two calls, and a call of the person. The second call has no recorded end.
fn lines() -> Vec<String> {
    let mut chain = Chain::new(1 << 20);
    let general = |chain: &mut Chain, kind: Kind, fields: &[(&str, &dyn std::fmt::Display)]| {
        chain.append_general(1, kind.event(SESSION, "ada", fields)).unwrap();
    };
    let told = |chain: &mut Chain, role: &str, text: &str, call: &str| {
        let mut event = message(SESSION, "ada", "c1", 1, role, text);
        let field = capos_schema::audit::GeneralEventField { name: "toolCallId".into(), value: call.into() };
        event.fields.push(field);
        chain.append_general(1, event).unwrap();
    };
    told(&mut chain, "user", "Do it.", "");
    general(&mut chain, Kind::BudgetBegin, &[("conversation", &"c1"), ("turn", &1), ("limits", &"steps=4")]);
    told(&mut chain, "assistant", "", "");
    for id in ["one", "direct", "two"] {
        let fields: [(&str, &dyn std::fmt::Display); 5] = [
            ("conversation", &"c1"),
            ("turn", &1),
            ("callId", &id),
            ("tool", &"write_file"),
            ("decision", &"consented"),
        ];
        general(&mut chain, Kind::BrokerDecision, &fields);
        let model_id = if id == "direct" { String::new() } else { "m".into() };
        let event = |phase, before| ToolEvent { model_id: model_id.clone(), ..event(phase, id, before) };
        let before = chain.append_tool(1, event(Phase::Before, 0)).unwrap().sequence;
        if id != "two" {
            chain.append_tool(1, event(Phase::After, before)).unwrap();
        }
    }
    told(&mut chain, "tool", "did one", "one");
    general(&mut chain, Kind::BudgetWarning, &[("scope", &"run"), ("dimension", &"steps"), ("percent", &"50")]);
    general(&mut chain, Kind::BudgetEnd, &[("outcome", &"answered"), ("used", &"wall_clock=3 steps=2 tokens=9")]);
    chain.records().iter().map(|record| record.line()).collect()
}

fn replay(lines: &[String]) -> Vec<Replayed> {
    let mut replay = Replay::default();
    lines.iter().for_each(|line| replay.line(line.as_bytes()));
    replay.end()
}

#[test]
fn e07_e14_a_run_is_rebuilt_from_its_records_and_the_same_records_give_the_same_digest() {
    let lines = lines();
    let runs = replay(&lines);
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!((run.name.clone(), run.principal.as_str(), run.outcome.as_str()), (("c1".into(), 1), "ada", "answered"));
    assert_eq!(run.faults, Vec::<String>::new());
    assert_eq!((run.spoken("user"), run.spoken("assistant"), run.spoken("tool")), (1, 1, 1));
    assert_eq!(run.calls.keys().collect::<Vec<_>>(), ["one", "two"], "the person's call is no part of the run");
    assert!(!run.calls["one"].is_unknown() && run.calls["two"].is_unknown());
    let texts: Vec<&str> = run.steps.iter().map(|step| step.text.split_once([':', ' ']).unwrap().0).collect();
    let order = [
        "request",
        "budget.begin",
        "answer",
        "decision",
        "effect",
        "effect",
        "decision",
        "effect",
        "result",
        "budget.warning",
        "budget.end",
    ];
    assert_eq!(texts, order);
    assert_eq!(run.digest(), replay(&lines)[0].digest());
    // Each record counts, and its place.
    for at in 0..lines.len() {
        let mut less = lines.clone();
        let gone = less.remove(at);
        let digest = replay(&less).first().map(Replayed::digest);
        assert_eq!(digest.as_ref() == Some(&run.digest()), gone.contains("\"direct\""), "{gone}");
    }
}

/// A record is compared with those before it: what the model was told, how a call was decided, what the budget counted.
#[test]
fn e07_records_that_contradict_each_other_are_named() {
    let lines = lines();
    let with = |from: &str, to: &str| {
        let changed: Vec<String> = lines.iter().map(|line| line.replace(from, to)).collect();
        assert_ne!(changed, lines, "{from}");
        replay(&changed)[0].faults.join("; ")
    };
    let told = hex::encode(Sha256::digest("did one"));
    let message = format!("\"hash\":\"{told}\"");
    assert!(with(&message, "\"hash\":\"00\"").contains("another result of one than its record holds"));
    assert!(
        with("\"toolCallId\":\"one\"", "\"toolCallId\":\"six\"").contains("result of six, of which there is no record")
    );
    assert!(
        with("\"toolCallId\":\"one\"", "\"toolCallId\":\"two\"").contains("result of two, which has no recorded end")
    );
    let fields = "\"callId\":\"one\",\"conversation\":\"c1\",\"decision\":\"consented\",\"tool\"";
    let denied = fields.replace("consented", "denied");
    assert!(with(fields, &denied).contains("one began as \"consented\", and the broker's decision is \"denied\""));
    assert!(
        with("\"decision\":\"consented\"", "\"decision\":\"denied\"")
            .contains("one began although the decision is denied")
    );
    assert!(with("steps=2", "steps=1").contains("its budget has counted 1 calls, and 2 began"));
    // A question that a person has answered is recorded like a call, and no budget counts it.
    let questions = with("steps=2", "steps=0").contains("its budget has counted 0 calls, and 2 began");
    let changed: Vec<String> = lines.iter().map(|line| line.replace("steps=2", "steps=0")).collect();
    let asked: Vec<String> =
        changed.iter().map(|line| line.replace("\"name\":\"write_file\"", "\"name\":\"ask_before_step\"")).collect();
    assert!(questions && asked != changed && replay(&asked)[0].faults.is_empty(), "{:?}", replay(&asked)[0].faults);
    let again: Vec<String> =
        lines.iter().flat_map(|line| vec![line.clone(); 1 + usize::from(line.contains("\"before\""))]).collect();
    assert!(replay(&again)[0].faults.join("; ").contains("one began a second time"));
}

type Fields<'a> = &'a [(&'a str, &'a dyn std::fmt::Display)];

fn chain_of(events: &[(Kind, Fields<'_>)]) -> Chain {
    let mut chain = Chain::new(1 << 20);
    for (kind, fields) in events {
        chain.append_general(1, kind.event(SESSION, "ada", fields)).unwrap();
    }
    chain
}

/// The records about budgets name their run once: those that follow belong to the run that is open, or to its child.
#[test]
fn records_about_budgets_belong_to_their_runs() {
    let begin: Fields<'_> = &[("conversation", &"c1"), ("turn", &1)];
    let child: Fields<'_> = &[("conversation", &"k1"), ("turn", &1), ("parent", &"c1-1")];
    let chain = chain_of(&[
        (Kind::BudgetBegin, begin),
        (Kind::BudgetBegin, child),
        (Kind::BudgetWarning, &[("scope", &"run"), ("percent", &50)]),
        (Kind::BudgetWarning, &[("scope", &"child run"), ("percent", &80)]),
        // It begins again, and is one run.
        (Kind::BudgetBegin, child),
        (Kind::BudgetEnd, &[("conversation", &"k1"), ("outcome", &"answered"), ("used", &"steps=1")]),
        (Kind::BudgetWarning, &[("scope", &"child run"), ("percent", &90)]),
        (Kind::BudgetEnd, &[("outcome", &"stopped"), ("used", &"steps=2")]),
        (Kind::BudgetEnd, &[("outcome", &"of no run")]),
    ]);
    let lines: Vec<String> = chain.records().iter().map(|record| record.line()).collect();
    let told: Vec<(String, Vec<u64>, String)> = replay(&lines)
        .into_iter()
        .map(|run| (run.name.0, run.steps.iter().map(|step| step.sequence).collect(), run.outcome))
        .collect();
    let expected = [("c1", vec![1, 3, 7, 8], "stopped"), ("k1", vec![2, 4, 5, 6], "answered")];
    assert_eq!(told, expected.map(|(name, steps, outcome)| (name.to_string(), steps, outcome.to_string())));
}

/// Calls that did not begin: nothing is unknown of them, and no budget has counted them.
#[test]
fn a_call_that_did_not_begin_is_not_counted() {
    let decision = |id: &'static &'static str| -> [(&str, &dyn std::fmt::Display); 4] {
        [("conversation", &"c1"), ("turn", &1), ("callId", id), ("decision", &"denied")]
    };
    let mut chain = chain_of(&[
        (Kind::BudgetBegin, &[("conversation", &"c1"), ("turn", &1)]),
        (Kind::BrokerDecision, &decision(&"asked")),
        (Kind::BrokerDecision, &decision(&"refused")),
    ]);
    let refused =
        ToolEvent { decision: Decision::Denied, outcome: Outcome::DeniedByUser, ..event(Phase::Refused, "refused", 0) };
    chain.append_tool(1, refused).unwrap();
    for text in ["one", "two"] {
        chain.append_general(1, message(SESSION, "ada", "c1", 1, "user", text)).unwrap();
    }
    // Of many rejected calls of one answer there is one record.
    let many = capos_schema::audit::GeneralEvent {
        kind: "calls.refused".into(),
        ..Kind::Service.event(SESSION, "ada", &[("conversation", &"c1"), ("turn", &1), ("calls", &3)])
    };
    chain.append_general(1, many).unwrap();
    let mut told = message(SESSION, "ada", "c1", 1, "tool", "not run");
    told.fields.push(capos_schema::audit::GeneralEventField { name: "toolCallId".into(), value: "of many".into() });
    chain.append_general(1, told).unwrap();
    chain.append_general(1, Kind::BudgetEnd.event(SESSION, "ada", &[("used", &"steps=0")])).unwrap();
    let lines: Vec<String> = chain.records().iter().map(|record| record.line()).collect();
    let runs = replay(&lines);
    assert_eq!(runs[0].faults, Vec::<String>::new());
    assert_eq!(["user", "assistant", "tool"].map(|role| runs[0].spoken(role)), [2, 0, 1]);
    assert_eq!(runs[0].calls.keys().collect::<Vec<_>>(), ["asked", "refused"]);
    assert!(runs[0].calls.values().all(|call| !call.is_unknown()));
}

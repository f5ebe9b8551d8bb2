//! The three time limits, the budgets, and services that are gone.

use capos_agent::TurnEnd;
use capos_agent::world::Answer;
use capos_schema::audit::Phase;
use capos_schema::authority::{Decision, SessionLimits};
use capos_schema::models::{FinishReason, Outcome};

use crate::world::*;

fn run(world: &World, limits: SessionLimits) -> TurnEnd {
    let mut agent = agent(world, limits);
    let end = world.run(agent.turn("go", &snapshot()));
    world.drain();
    world.check_audit();
    end
}

#[test]
fn c09_three_limits_have_three_distinct_ends() {
    // Per tool: the call times out and the turn continues.
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1,"ms":1000}"#)], vec![]]);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    assert_eq!(world.outcomes(), [Outcome::TimedOut]);
    // Per turn.
    let endless =
        |count: u64| (0..count).map(|n| vec![call("", "read", &format!("{{\"n\":{n}}}"))]).collect::<Vec<_>>();
    let world = World::new(endless(50));
    let limits = SessionLimits { max_iterations: 5, ..SessionLimits::default() };
    assert_eq!(run(&world, limits), TurnEnd::Iterations(5));
    assert_eq!(world.effects().len(), 5);
    // Per session, wall clock: also in the middle of an answer.
    let world = World::new(vec![vec![Piece::Text("thinking"), Piece::Wait(5000), Piece::Text("late")]]);
    let limits = SessionLimits { max_seconds: 2, ..SessionLimits::default() };
    assert_eq!(run(&world, limits), TurnEnd::Time(2));
    assert!(world.0.clock.get() / MS <= 2002);
    // Per session, tokens.
    let world = World::new(vec![vec![Piece::Usage(700), call("a", "read", r#"{"n":1}"#)], vec![]]);
    world.0.budget.set(600);
    assert!(matches!(run(&world, SessionLimits::default()), TurnEnd::Tokens(_)));
    // The step that used them up was finished.
    assert_eq!(world.outcomes(), [Outcome::Ok]);
    assert_eq!(world.0.requests.borrow().len(), 1);
}

/// Tokens that are there again, after a principal's day or by a new limit, are used in the same conversation.
#[test]
fn a_conversation_goes_on_when_there_are_tokens_again() {
    let world = World::new(vec![vec![Piece::Text("one")], vec![Piece::Text("two")]]);
    let mut agent = agent(&world, SessionLimits::default());
    world.0.budget.set(0);
    assert!(matches!(world.run(agent.turn("go", &snapshot())), TurnEnd::Tokens(_)));
    world.0.budget.set(900);
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
    world.0.budget.set(0);
    assert!(matches!(world.run(agent.turn("go", &snapshot())), TurnEnd::Tokens(_)));
}

#[test]
fn a_person_lets_a_turn_go_on_past_its_calls() {
    let endless = |count: u64| -> Vec<_> {
        (0..count)
            .map(|n| vec![call("", "read", &format!("{{\"n\":{n}}}"))])
            .chain([vec![Piece::Text("done")]])
            .collect()
    };
    let limits = || SessionLimits { max_iterations: 5, ..SessionLimits::default() };
    // Each time for as many as at first; without a yes it ends.
    let world = World::new(endless(50));
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::Yes, Answer::No, Answer::Yes]);
    assert_eq!(run(&world, limits()), TurnEnd::Iterations(15));
    assert_eq!(world.effects().len(), 15);
    assert_eq!(*world.0.prompts.borrow(), ["5 made, 5 more", "10 made, 5 more", "15 made, 5 more"]);
    let world = World::new(endless(6));
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    assert_eq!(run(&world, limits()), TurnEnd::Answered);
    assert_eq!(world.effects().len(), 6);
    // If the person does not answer it is paused, and Ctrl-C ends it at once.
    let world = World::new(endless(50));
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(400_000 * MS);
    assert_eq!(run(&world, limits()), TurnEnd::Unanswered(5));
    let world = World::new(endless(50));
    world.0.thinks.set(1_000 * MS);
    world.0.interrupt_at.set(Some(500 * MS));
    assert_eq!(run(&world, limits()), TurnEnd::Interrupted);
    assert!(world.0.clock.get() < 510 * MS, "{}", world.0.clock.get() / MS);
    // The person is not asked if no model may be asked or another limit ends the turn.
    let world = World::new(endless(50));
    assert_eq!(run(&world, SessionLimits { max_iterations: 0, ..limits() }), TurnEnd::Iterations(0));
    assert!(world.0.prompts.borrow().is_empty());
}

/// Every request is counted before it is made, those of one turn too, and the turn ends where one is too many.
#[test]
fn d06_too_many_requests_end_the_turn() {
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1}"#)], vec![call("b", "read", r#"{"n":2}"#)], vec![]]);
    world.0.rate.set(2);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Rate("too many requests".into()));
    assert_eq!(world.0.requests.borrow().len(), 2);
    assert_eq!(world.outcomes(), [Outcome::Ok, Outcome::Ok], "what was proposed before is done");
}

#[test]
fn a_tool_that_cannot_be_aborted_times_out_once_and_is_noted_when_it_ends() {
    let world = World::new(vec![vec![call("a", "slow", r#"{"n":1,"ms":500}"#)], vec![Piece::Text("ok")]]);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Scheduled(1));
    assert_eq!(world.outcomes(), [Outcome::TimedOut]);
    let messages = world.0.messages.borrow();
    let late = messages.iter().find(|event| event.kind == "tool.late").unwrap();
    assert!(late.fields.iter().any(|field| field.name == "outcome" && field.value == "ok"));
}

/// Requirement F03: the person is told how much the model does not see, whenever that changes.
#[test]
fn f03_what_the_model_does_not_see_is_told_once() {
    let again = |messages| {
        vec![Piece::Removed(messages), call(&format!("{messages}"), "read", &format!("{{\"n\":{messages}}}"))]
    };
    let script = vec![again(4), vec![Piece::Removed(4), call("b", "read", r#"{"n":9}"#)], vec![Piece::Removed(6)]];
    let world = World::new(script);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    let shown = world.0.shown.borrow();
    let told: Vec<&String> = shown.iter().filter(|text| text.contains("too long for this model")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("does not see 4 older messages") && told[1].contains("does not see 6 older messages"));
}

/// Requirement D22.
#[test]
fn an_unanswered_prompt_is_a_no() {
    let world = World::new(vec![vec![call("a", "write", r#"{"n":1}"#)], vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(400_000 * MS);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    assert_eq!(world.outcomes(), [Outcome::DeniedByUser]);
    assert!(world.0.events.borrow()[0].error.contains("within 300 s"));
}

#[test]
fn without_audit_log_no_tool_runs() {
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1}"#), call("b", "write", r#"{"n":2}"#)], vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.audit_down.set(true);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    assert!(world.effects().is_empty());
    let requests = world.0.requests.borrow();
    for result in requests[1].messages.iter().rev().take(2) {
        assert!(result.content.starts_with("refusedByPolicy: the audit log takes no records"), "{}", result.content);
    }
    // The person is told of it once, and not of each message.
    assert_eq!(world.0.shown.borrow().iter().filter(|line| line.starts_with("notice the audit log")).count(), 1);
}

#[test]
fn without_broker_nothing_runs() {
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1}"#)]]);
    world.0.broker_down.set(true);
    assert!(matches!(run(&world, SessionLimits::default()), TurnEnd::Refused(_)));
    assert!(world.effects().is_empty());
}

#[test]
fn a_ruling_that_does_not_fit_lets_nothing_through() {
    use capos_schema::models::PermissionMode;
    // The broker's map asks for consent meanwhile; the snapshot would run it without asking.
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1}"#)], vec![]]);
    world.0.modes.borrow_mut().insert("read".into(), PermissionMode::Consent);
    run(&world, SessionLimits::default());
    assert!(world.effects().is_empty());
    assert_eq!(world.0.events.borrow()[0].decision, Decision::Denied);
    // And the other way round: the person is asked, and what the broker says fits no answer.
    let world = World::new(vec![vec![call("a", "change", r#"{"n":1}"#)], vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    let tools = snapshot().tools().to_vec().into_iter().map(|mut tool| {
        tool.descriptor.permission = PermissionMode::Consent;
        tool
    });
    let mut agent = agent(&world, SessionLimits::default());
    world.run(agent.turn("go", &capos_agent::Snapshot::new(tools.collect()).unwrap()));
    assert_eq!(world.0.prompts.borrow().len(), 1);
    assert!(world.effects().is_empty());
}

#[test]
fn a_ruling_without_a_reason_is_told_as_not_permitted() {
    let world = World::new(vec![vec![call("a", "power_off", "{}")], vec![]]);
    world.0.gives_reasons.set(false);
    run(&world, SessionLimits::default());
    assert_eq!(world.0.events.borrow()[0].error, "not permitted in this session");
}

fn raw(name: &str, arguments: String) -> Piece {
    Piece::Call { id: String::new(), name: name.into(), handle: handle("read"), arguments }
}

/// Bytes that the records of a run hold of arguments.
fn kept(world: &World) -> usize {
    world.0.events.borrow().iter().map(|event| event.arguments.len()).sum()
}

#[test]
fn what_a_model_only_proposes_leaves_a_bounded_record_with_the_hash_of_the_whole() {
    let long = "x".repeat(100_000);
    let script = vec![vec![raw("no such tool", long.clone()), raw("read", long.clone())], vec![]];
    let world = World::new(script);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    let events = world.0.events.borrow();
    assert_eq!(events.len(), 2);
    for event in events.iter() {
        assert_eq!((event.arguments.as_str(), event.arguments_bytes), (&long[..2048], 100_000));
        assert_eq!(event.arguments_hash, capos_agent::hash(&long));
    }
}

#[test]
fn a_model_that_proposes_nonsense_for_ever_is_stopped_before_it_fills_the_log() {
    let nonsense = || (0..64).map(|_| raw("read", "\u{1}".repeat(60_000))).collect::<Vec<_>>();
    // It reads fewer than ten answers. A thousand of them would take 4 GB.
    let world = World::new((0..20).map(|_| nonsense()).collect());
    world.0.budget.set(u64::MAX);
    let limits = SessionLimits { max_iterations: 1000, ..SessionLimits::default() };
    assert_eq!(run(&world, limits), TurnEnd::Evidence(1 << 20));
    assert!(world.effects().is_empty());
    assert!(world.0.requests.borrow().len() < 10, "{}", world.0.requests.borrow().len());
    assert!(kept(&world) < 512 << 10);
}

#[test]
fn calls_that_run_without_asking_share_one_allowance_and_consent_is_not_counted() {
    let large = |n: u32| format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(60_000));
    let auto = |from: u32| (from..from + 5).map(|n| raw("read", large(n))).collect::<Vec<_>>();
    let world = World::new(vec![auto(0), auto(5), vec![call("w", "write", &large(99))], vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    let ran = |outcome| world.outcomes().iter().filter(|found| **found == outcome).count();
    // Two records of 60 KB each, out of 1 MiB.
    assert_eq!((ran(Outcome::Ok), ran(Outcome::RefusedByPolicy)), (8 + 1, 2));
    let events = world.0.events.borrow();
    let last = events.last().unwrap();
    assert_eq!((last.decision, last.arguments.as_str()), (Decision::Consented, large(99).as_str()));
}

/// Bytes of all lines of the log.
fn logged(world: &World) -> usize {
    world.0.chain.borrow().records().iter().map(|record| record.line().len() + 1).sum()
}

#[test]
fn all_records_that_a_model_causes_come_out_of_its_allowance() {
    let small = |n: u64| (0..8).map(|call| raw("read", format!("{{\"n\":{}}}", n * 8 + call))).collect::<Vec<_>>();
    let world = World::new((0..1000).map(small).collect());
    world.0.budget.set(u64::MAX);
    let limits = SessionLimits { max_iterations: 1000, ..SessionLimits::default() };
    assert_eq!(run(&world, limits), TurnEnd::Evidence(1 << 20));
    // The last response goes over it by its own message and by the results that say so.
    let most = (1 << 20) + (16 << 10);
    assert!(logged(&world) < most, "{} bytes in the log", logged(&world));
    // So do answers that propose nothing and only break off.
    let world = World::new((0..10_000).map(|_| vec![Piece::Finish(FinishReason::Length)]).collect());
    world.0.budget.set(u64::MAX);
    let limits = SessionLimits { max_iterations: 10_000, ..SessionLimits::default() };
    assert_eq!(run(&world, limits), TurnEnd::Evidence(1 << 20));
    assert!(logged(&world) < most, "{} bytes in the log", logged(&world));
}

/// Many calls of one answer that are refused cost a bounded number of records, and one says how many more there were.
#[test]
fn refused_calls_of_one_answer_are_counted_and_not_each_recorded() {
    let nonsense = || (0..70).map(|n| raw("no such tool", format!("{n}"))).collect::<Vec<_>>();
    let world = World::new(vec![nonsense(), vec![Piece::Text("ok")]]);
    assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
    assert_eq!(world.0.events.borrow().len(), 24);
    let messages = world.0.messages.borrow();
    let together = messages.iter().filter(|event| event.kind == "calls.refused").collect::<Vec<_>>();
    let value = |name: &str| together[0].fields.iter().find(|field| field.name == name).unwrap().value.as_str();
    assert_eq!((together.len(), value("calls"), value("first"), value("last")), (1, "46", "call-1-25", "call-1-65"));
    // Each call has its answer in the conversation, and those that were not looked at no record of it.
    let requests = world.0.requests.borrow();
    let answers = requests[1].messages.iter().filter(|message| !message.tool_call_id.is_empty()).count();
    assert_eq!(answers, 65);
    assert_eq!(messages.iter().filter(|event| event.kind == "message").count(), 1 + 1 + 24 + 1);
    assert!(world.0.shown.borrow().iter().any(|line| line.starts_with("notice 46 further calls of this answer")));
}

/// An answer has room for 64 calls. All of them run, and the model and the log are told how many more there were.
#[test]
fn calls_over_the_bound_of_an_answer_are_rejected_and_counted() {
    for (proposed, why) in [
        (64, ""),
        (65, "an answer may propose 64 calls; this one is not run"),
        (70, "an answer may propose 64 calls; this one and 5 after it are not run"),
    ] {
        let calls = (0..proposed).map(|n| raw("read", format!("{{\"n\":{n}}}"))).collect();
        let world = World::new(vec![calls, vec![Piece::Text("ok")]]);
        assert_eq!(run(&world, SessionLimits::default()), TurnEnd::Answered);
        assert_eq!(world.effects().len(), 64, "of {proposed}");
        let events = world.0.events.borrow();
        let refused: Vec<&str> =
            events.iter().filter(|event| event.phase == Phase::Refused).map(|event| event.error.as_str()).collect();
        assert!(refused.iter().all(|error| *error == why), "{refused:?}");
        assert_eq!(refused.len(), usize::from(proposed > 64));
    }
}

/// A session's turns have a bound together, whatever conversation they are of. What the person does afterwards is still
/// recorded.
#[test]
fn all_turns_of_a_session_leave_a_bounded_record_without_the_persons_word() {
    let world = World::new((0..10_000).map(|_| vec![Piece::Finish(FinishReason::Length)]).collect());
    world.0.budget.set(u64::MAX);
    let limits = SessionLimits { max_iterations: 10_000, ..SessionLimits::default() };
    assert_eq!(run(&world, limits.clone()), TurnEnd::Evidence(1 << 20));
    assert_eq!(run(&world, limits.clone()), TurnEnd::SessionEvidence(2 << 20));
    let (before, asked) = (logged(&world), world.0.requests.borrow().len());
    assert!(before < (2 << 20) + (32 << 10), "{before} bytes in the log");
    for _ in 0..8 {
        assert_eq!(run(&world, limits.clone()), TurnEnd::SessionEvidence(2 << 20));
    }
    assert_eq!((logged(&world), world.0.requests.borrow().len()), (before, asked));
    let tool = snapshot().tools().iter().find(|tool| tool.descriptor.name == "write").unwrap().clone();
    let agent = agent(&world, limits);
    let begun = world.run(agent.begin_direct(&tool, "{\"n\":1}".into())).unwrap();
    world.run(begun.finish(Outcome::Ok, ""));
    assert!(logged(&world) > before);
}

//! Ctrl-C at every point.

use capos_agent::TurnEnd;
use capos_agent::world::{Answer, Secret};
use capos_schema::authority::SessionLimits;
use capos_schema::models::{Outcome, PermissionMode, Role};

use crate::world::*;

fn scene() -> World {
    let world = World::new(vec![
        vec![Piece::Wait(5), Piece::Text("I will look."), call("1", "read", r#"{"n":1,"ms":6}"#)],
        vec![
            call("2", "write", r#"{"n":2,"ms":7}"#),
            call("3", "delete", r#"{"n":3,"ms":4}"#),
            call("4", "slow", r#"{"n":4,"ms":30}"#),
            call("5", "read_third", r#"{"n":5,"ms":20}"#),
        ],
        vec![Piece::Text("Done.")],
    ]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.secrets.borrow_mut().push_back(Secret::Given("open sesame".into()));
    world
}

/// An unknown tool may not run, whether its call was looked at or not.
#[test]
fn c11_the_record_of_an_unknown_tool_that_was_cancelled_permits_nothing() {
    let unknown = Piece::Call { id: "b".into(), name: "Read".into(), handle: handle("read"), arguments: "{}".into() };
    for at in 0..40 {
        let world = World::new(vec![vec![call("a", "write", r#"{"n":1}"#), unknown.clone()]]);
        world.0.interrupt_at.set(Some(at * MS));
        turn(&world);
        world.drain();
        let events = world.0.events.borrow();
        let of_it = events.iter().filter(|event| event.descriptor.name == "Read");
        assert!(
            of_it.map(|event| event.descriptor.permission).all(|mode| mode == PermissionMode::Forbidden),
            "at {at}"
        );
    }
}

/// Prefill, decode, prompts, gates, records, tools: each await point of the scene lies at some millisecond.
#[test]
fn c11_ctrl_c_at_each_millisecond_of_a_turn() {
    let whole = scene();
    assert_eq!(turn(&whole).0, TurnEnd::Answered);
    let length = whole.0.clock.get() / MS;
    assert!(length > 60);
    let mut cancelled = 0;
    for at in 0..length {
        let world = scene();
        world.0.interrupt_at.set(Some(at * MS));
        let mut agent = agent(&world, SessionLimits::default());
        let end = world.run(agent.turn("go", &snapshot()));
        // The prompt returns at once: what may still take time is recording how the calls ended.
        let late = world.0.clock.get() / MS - at;
        assert!(late <= 30, "{at}: {late} ms");
        if end != TurnEnd::Answered {
            assert_eq!(end, TurnEnd::Interrupted, "at {at}");
        }
        let dump = agent.conversation().dump();
        world.drain();
        assert_eq!(agent.background(), 0);
        assert_eq!(agent.conversation().dump(), dump, "a result came into the conversation after the turn, at {at}");
        world.check_audit();
        world.check_decisions();
        check_conversation(
            &agent.conversation().entries().iter().map(|entry| entry.message.clone()).collect::<Vec<_>>(),
        );
        cancelled += world.outcomes().iter().filter(|outcome| **outcome == Outcome::Cancelled).count();
        // The conversation continues.
        world.0.interrupt_at.set(None);
        world.0.script.borrow_mut().clear();
        world.0.script.borrow_mut().push_back(vec![Piece::Text("again")]);
        assert_eq!(world.run(agent.turn("still there?", &snapshot())), TurnEnd::Answered, "at {at}");
    }
    assert!(cancelled > 20);
}

/// Each call of an answer is followed by its result, in order, and by nothing else.
pub fn check_conversation(messages: &[capos_schema::models::ChatMessage]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            assert!(!open.is_empty() && open.remove(0) == message.tool_call_id, "{messages:#?}");
        } else {
            assert!(open.is_empty(), "{messages:#?}");
            open = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
        }
    }
    assert!(open.is_empty(), "{messages:#?}");
}

/// Requirement C29: wherever in an answer the person interrupts, the conversation is what it was when the answer began.
#[test]
fn c29_a_cancel_within_an_answer_leaves_the_conversation_unchanged() {
    let mut within = 0;
    for at in 0..60 {
        let answer = [
            Piece::Text("I will "),
            Piece::Wait(20),
            Piece::Text("look."),
            call("1", "write", r#"{"n":1}"#),
            Piece::Wait(20),
        ];
        let world = World::new(vec![answer.into()]);
        world.0.answers.borrow_mut().push_back(Answer::Yes);
        world.0.interrupt_at.set(Some(at * MS));
        let (end, agent) = turn(&world);
        world.drain();
        let entries = agent.conversation().entries();
        if end != TurnEnd::Interrupted || entries.iter().any(|entry| entry.message.role == Role::Assistant) {
            // The answer was complete before.
            continue;
        }
        within += usize::from(!world.0.requests.borrow().is_empty());
        // The request was saved before the model was asked.
        let hash = |text: &str| capos_agent::hash(text);
        let dumped: Vec<String> = entries.iter().map(capos_agent::Entry::dump).collect();
        assert_eq!(hash(&dumped.concat()), hash(&world.0.saved.borrow()[..1].concat()), "at {at}");
        assert!(world.0.events.borrow().is_empty() && world.effects().is_empty(), "at {at}");
    }
    assert!(within > 30, "{within}");
}

#[test]
fn an_abortable_tool_is_aborted() {
    let world = World::new(vec![vec![call("1", "read", r#"{"n":1,"ms":90}"#)]]);
    world.0.interrupt_at.set(Some(30 * MS));
    let (end, _) = turn(&world);
    world.drain();
    assert_eq!((end, world.outcomes()), (TurnEnd::Interrupted, vec![Outcome::Cancelled]));
    assert!(!world.0.trace.borrow().iter().any(|entry| matches!(entry, Trace::EffectEnd(_))));
}

/// Requirement C30.
#[test]
fn a_tool_that_cannot_be_aborted_ends_in_the_background_and_is_audited() {
    let world = World::new(vec![vec![call("1", "slow", r#"{"n":1,"ms":90}"#)]]);
    world.0.interrupt_at.set(Some(30 * MS));
    let (end, agent) = turn(&world);
    assert_eq!((end, agent.background()), (TurnEnd::Interrupted, 1));
    assert!(world.0.clock.get() < 35 * MS);
    assert!(world.outcomes().is_empty());
    world.drain();
    assert_eq!(world.outcomes(), [Outcome::Cancelled]);
    let events = world.0.events.borrow();
    assert!(events[1].error.contains("ended later: ok; its result was not sent to the model"));
    assert!(agent.conversation().entries().iter().all(|entry| !entry.message.content.contains("result of")));
    world.check_audit();
}

/// Requirement J09: a call in flight ends by the table of tools with which it began, and the next call sees the new one.
#[test]
fn j09_a_call_in_flight_is_not_touched_by_a_change_of_the_tools() {
    let world = World::new(vec![
        vec![call("1", "slow", r#"{"n":1,"ms":90}"#)],
        vec![call("2", "slow", r#"{"n":2}"#), call("3", "read", r#"{"n":3}"#)],
        vec![Piece::Text("It is gone.")],
        vec![call("4", "slow", r#"{"n":4}"#)],
        vec![Piece::Text("It is back.")],
    ]);
    world.0.interrupt_at.set(Some(30 * MS));
    let (end, mut agent) = turn(&world);
    assert_eq!((end, agent.background()), (TurnEnd::Interrupted, 1));
    // The tool is taken away while its call runs.
    world.0.interrupt_at.set(None);
    let all = snapshot();
    let rest = all.tools().iter().filter(|tool| tool.descriptor.name != "slow").cloned().collect();
    assert_eq!(world.run(agent.turn("again", &capos_agent::Snapshot::new(rest).unwrap())), TurnEnd::Answered);
    world.drain();
    assert_eq!(agent.background(), 0);
    assert!(world.effects().contains(&r#"{"ms":90,"n":1}"#.to_string()), "the call in flight ran to its end");
    assert_eq!(world.run(agent.turn("and now?", &all)), TurnEnd::Answered);
    let outcome =
        |id: &str| world.0.events.borrow().iter().rfind(|event| event.call_id == id).map(|event| event.outcome);
    let outcomes = ["1", "2", "3", "4"].map(outcome);
    let of = [Outcome::Cancelled, Outcome::UnknownTool, Outcome::Ok, Outcome::Ok];
    assert_eq!(outcomes, of.map(Some));
    world.check_audit();
}

/// Requirement C30: a cancel within a tool ends the task as cancelled, the tool runs to its end, and the next task works.
#[test]
fn c30_after_a_cancel_in_a_tool_the_next_task_works() {
    let world = World::new(vec![vec![call("1", "slow", r#"{"n":1,"ms":90}"#)], vec![Piece::Text("Here.")]]);
    world.0.interrupt_at.set(Some(30 * MS));
    let (end, mut agent) = turn(&world);
    assert_eq!((end, agent.course().last().name()), (TurnEnd::Interrupted, "TASK_CANCELLED"));
    world.0.interrupt_at.set(None);
    assert_eq!(world.run(agent.turn("next", &snapshot())), TurnEnd::Answered);
    assert_eq!(agent.course().last().name(), "TASK_COMPLETED");
    world.drain();
    assert!(world.0.trace.borrow().iter().any(|entry| matches!(entry, Trace::EffectEnd(_))), "it ran to its end");
}

#[test]
fn a_decision_under_way_is_recorded_with_the_call_it_did_not_start() {
    // Find the millisecond in which the broker decides on the yes.
    let mut seen = false;
    for at in 0..20 {
        let world = World::new(vec![vec![call("1", "write", r#"{"n":1}"#)]]);
        world.0.answers.borrow_mut().push_back(Answer::Yes);
        world.0.interrupt_at.set(Some(at * MS));
        let (end, _) = turn(&world);
        world.drain();
        if end == TurnEnd::Interrupted && world.effects().is_empty() && !world.0.events.borrow().is_empty() {
            let events = world.0.events.borrow();
            let event = events.last().unwrap();
            assert_eq!(event.outcome, Outcome::Cancelled);
            seen |= event.decided && event.decision == capos_schema::authority::Decision::Consented;
        }
    }
    assert!(seen);
}

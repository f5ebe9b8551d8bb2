//! Ctrl-C at every point.

use capos_agent::TurnEnd;
use capos_agent::world::{Answer, Secret};
use capos_schema::authority::SessionLimits;
use capos_schema::models::{Outcome, Role};

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

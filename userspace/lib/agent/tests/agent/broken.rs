//! Answers that break off.

use capos_agent::world::Unasked;
use capos_agent::{Agent, TurnEnd};
use capos_schema::authority::SessionLimits;
use capos_schema::models::{FinishReason, Outcome};

use crate::world::*;

/// Requirement C34: an answer that breaks off is dropped and asked for again as a whole, and nothing of it is doubled.
#[test]
fn c34_an_answer_that_breaks_off_is_asked_for_again() {
    let broken = || vec![Piece::Text("half "), call("a", "read", r#"{"n":1}"#), Piece::Usage(10), Piece::Break];
    let whole = vec![Piece::Text("all "), call("a", "read", r#"{"n":1}"#)];
    let world = World::new(vec![broken(), broken(), whole, broken(), vec![Piece::Text("done")]]);
    let (end, agent) = turn(&world);
    world.drain();
    world.check_audit();
    assert_eq!((end, world.effects().len(), world.outcomes()), (TurnEnd::Answered, 1, vec![Outcome::Ok]));
    // The same was asked each time, and of the broken answers nothing is left.
    let requests = world.0.requests.borrow();
    let messages = |at: usize| requests[at].messages.clone();
    assert_eq!(requests.len(), 5);
    assert!(messages(1) == messages(0) && messages(2) == messages(0) && messages(4) == messages(3));
    let dump = agent.conversation().dump();
    assert!(!dump.contains("half") && dump.contains("all "), "{dump}");
    let shown = world.0.shown.borrow();
    let told: Vec<&String> = shown.iter().filter(|line| line.contains("broke off and is dropped")).collect();
    assert!(told[0].contains("the worker died; the model is asked again in "), "{told:?}");
    // What is counted begins again with each whole answer.
    let numbers: Vec<&str> = told.iter().filter_map(|line| line.rsplit_once(' ')?.0.rsplit(' ').nth(1)).collect();
    assert_eq!(numbers, ["(1", "(2", "(1"], "{told:?}");
}

/// Requirements C32 and C34: it is asked for at most three times again after longer and longer waits, each request is a step,
/// and every limit ends that. Then the run is paused, and its checkpoint is kept.
#[test]
fn c32_c34_asking_again_is_bounded() {
    let broken = |count: usize| vec![vec![Piece::Text("half"), Piece::Break]; count];
    let asked = |world: &World| world.0.requests.borrow().len();
    let world = World::new(broken(9));
    let (end, mut agent) = turn(&world);
    assert_eq!((end, asked(&world)), (TurnEnd::Away("the worker died".into()), 4));
    assert_eq!(agent.conversation().entries().len(), 1);
    assert_eq!(agent.going().map(|(going, _)| going.steps().0), Some(4));
    // The three waits took between 1.75 and 3.5 s.
    let waited = world.0.clock.get() / MS;
    assert!((1750..3600).contains(&waited), "{waited} ms");
    // The person may try again.
    assert!(agent.course().run_state().is_paused() && agent.can_go_on());
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Away("the worker died".into()));
    assert_eq!(asked(&world), 8);
    let world = World::new(broken(9));
    let mut agent = agent_with(&world, 2);
    assert_eq!((world.run(agent.turn("go", &snapshot())), asked(&world)), (TurnEnd::Iterations(2), 2));
    let world = World::new(broken(9));
    world.0.rate.set(1);
    assert_eq!((turn(&world).0, asked(&world)), (TurnEnd::Rate("too many requests".into()), 1));
    // Each request takes a few milliseconds, so this is within the first wait.
    let world = World::new(broken(9));
    world.0.interrupt_at.set(Some(100 * MS));
    assert_eq!(turn(&world).0, TurnEnd::Interrupted);
    assert!(asked(&world) == 1 && world.0.clock.get() < 110 * MS);
    let world = World::new(broken(9));
    world.0.policy_expires.set(4 * MS);
    assert_eq!(turn(&world).0, TurnEnd::Policy);
    assert_eq!(asked(&world), 1);
}

/// Requirement C32: a model is asked again if it has no room, is gone, or says that it failed. Nothing is asked again that the
/// session may not do or that the model rejects.
#[test]
fn c32_what_passes_by_itself_is_asked_again() {
    for (fault, times) in [
        (Unasked::Away("no room".into()), 2),
        (Unasked::Limit("too many".into()), 1),
        (Unasked::Rejected("too long".into()), 1),
        (Unasked::Failed("no".into()), 1),
    ] {
        let world = World::new(vec![vec![Piece::Text("well")]]);
        world.0.faults.borrow_mut().push_back(fault.clone());
        let end = turn(&world).0;
        assert_eq!(end == TurnEnd::Answered, times == 2, "{fault:?}: {end:?}");
        assert_eq!(world.0.requests.borrow().len(), times, "{fault:?}");
    }
    let world = World::new(vec![vec![Piece::Finish(FinishReason::Error)], vec![Piece::Text("well")]]);
    assert_eq!(turn(&world).0, TurnEnd::Answered);
}

/// Requirement C33: an answer that the model's content filter stops is not asked for again; the next request says so.
#[test]
fn c33_a_filtered_answer_is_not_asked_for_again() {
    let filtered = vec![call("a", "read", r#"{"n":1}"#), Piece::Text("no"), Piece::Finish(FinishReason::ContentFilter)];
    let world = World::new(vec![filtered, vec![Piece::Text("well")]]);
    let (end, mut agent) = turn(&world);
    assert_eq!((end, world.0.requests.borrow().len(), world.effects().len()), (TurnEnd::Filtered, 1, 0));
    assert_eq!(world.run(agent.turn("in other words", &snapshot())), TurnEnd::Answered);
    let requests = world.0.requests.borrow();
    let told: Vec<&str> = requests[1].messages.iter().map(|message| message.content.as_str()).collect();
    assert!(
        told.iter().any(|text| text.contains("(From the system, not from the person.) Your content filter")),
        "{told:?}"
    );
    assert!(!told.contains(&"no"), "{told:?}");
}

fn agent_with(world: &World, max_iterations: u32) -> Agent<World> {
    agent(world, SessionLimits { max_iterations, ..SessionLimits::default() })
}

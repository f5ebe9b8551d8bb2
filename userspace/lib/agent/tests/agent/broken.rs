//! Answers that break off.

use capos_agent::{Agent, TurnEnd};
use capos_schema::authority::SessionLimits;
use capos_schema::models::Outcome;

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
    assert!(told[0].contains("the worker died; the model is asked again (1 of 2)"), "{told:?}");
    // What is counted begins again with each whole answer.
    assert!(told.len() == 3 && told[1].contains("(2 of 2)") && told[2].contains("(1 of 2)"), "{told:?}");
}

/// Requirement C34: it is asked for at most twice again, each request is a step, and every limit ends that.
#[test]
fn c34_asking_again_is_bounded() {
    let broken = |count: usize| vec![vec![Piece::Text("half"), Piece::Break]; count];
    let asked = |world: &World| world.0.requests.borrow().len();
    let world = World::new(broken(9));
    let (end, mut agent) = turn(&world);
    assert_eq!((end, asked(&world)), (TurnEnd::Model("the worker died".into()), 3));
    assert_eq!(agent.conversation().entries().len(), 1);
    assert_eq!(agent.going().map(|(going, _)| going.steps().0), Some(3));
    // The person may try again.
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Model("the worker died".into()));
    assert_eq!(asked(&world), 6);
    let world = World::new(broken(9));
    let mut agent = agent_with(&world, 2);
    assert_eq!((world.run(agent.turn("go", &snapshot())), asked(&world)), (TurnEnd::Iterations(2), 2));
    let world = World::new(broken(9));
    world.0.rate.set(1);
    assert_eq!((turn(&world).0, asked(&world)), (TurnEnd::Rate("too many requests".into()), 1));
    // Each request takes a few milliseconds.
    let world = World::new(broken(9));
    world.0.interrupt_at.set(Some(4 * MS));
    assert_eq!(turn(&world).0, TurnEnd::Interrupted);
    assert!(asked(&world) < 3);
    let world = World::new(broken(9));
    world.0.policy_expires.set(4 * MS);
    assert_eq!(turn(&world).0, TurnEnd::Policy);
    assert!(asked(&world) < 3);
}

fn agent_with(world: &World, max_iterations: u32) -> Agent<World> {
    agent(world, SessionLimits { max_iterations, ..SessionLimits::default() })
}

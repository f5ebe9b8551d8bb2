//! Calls that the person makes themselves.

use capos_agent::world::Secret;
use capos_schema::audit::Phase;
use capos_schema::authority::{Decision, SessionLimits};
use capos_schema::models::{Outcome, PermissionMode};

use crate::world::*;

/// Makes a call of a tool; whether it might run. It ends as `outcome` then.
fn make(world: &World, name: &str, outcome: Outcome) -> bool {
    let agent = agent(world, SessionLimits::default());
    let tools = snapshot();
    let tool = tools.tools().iter().find(|tool| tool.descriptor.name == name).unwrap();
    let begun = world.run(async {
        let call = agent.begin_direct(tool, r#"{"n":1}"#.into()).await;
        let begun = call.is_some();
        if let Some(call) = call {
            let (id, arguments) = (call.call().id, call.call().arguments);
            let events = world.0.events.borrow().clone();
            assert!(events.iter().any(|event| (&event.call_id, &event.arguments) == (&id, &arguments)), "{id}");
            call.finish(outcome, "exited with code 3").await;
        }
        begun
    });
    world.drain();
    begun
}

/// Phase, decision, outcome of each record.
fn records(world: &World) -> Vec<(Phase, Option<Decision>, Outcome)> {
    let events = world.0.events.borrow();
    events.iter().map(|event| (event.phase, event.decided.then_some(event.decision), event.outcome)).collect()
}

#[test]
fn what_the_person_calls_is_decided_and_recorded() {
    // The call itself is the consent; the person is not asked.
    let world = World::new(vec![]);
    assert!(make(&world, "write", Outcome::ExecutionError));
    let consented = Some(Decision::Consented);
    assert_eq!(
        records(&world),
        [(Phase::Before, consented, Outcome::Ok), (Phase::After, consented, Outcome::ExecutionError)]
    );
    assert!(world.0.prompts.borrow().is_empty());
    let events = world.0.events.borrow();
    assert_eq!(events[1].error, "exited with code 3");
    assert!(events[0].model_id.is_empty() && events[0].advertised.is_empty());
    drop(events);
    let world = World::new(vec![]);
    assert!(make(&world, "read", Outcome::Ok));
    assert_eq!(records(&world)[1], (Phase::After, Some(Decision::Auto), Outcome::Ok));
}

#[test]
fn a_step_up_takes_the_passphrase_all_the_same() {
    let world = World::new(vec![]);
    world.0.secrets.borrow_mut().push_back(Secret::Declined);
    assert!(!make(&world, "delete", Outcome::Ok));
    let refused = records(&world);
    assert_eq!((refused.len(), refused[0].0, refused[0].2), (1, Phase::Refused, Outcome::StepUpFailed));
    let world = World::new(vec![]);
    world.0.secrets.borrow_mut().push_back(Secret::Given("open sesame".into()));
    assert!(make(&world, "delete", Outcome::Ok));
    assert_eq!(records(&world)[1], (Phase::After, Some(Decision::StepUpSucceeded), Outcome::Ok));
}

#[test]
fn nothing_runs_that_the_broker_forbids_or_the_log_does_not_take() {
    let world = World::new(vec![]);
    assert!(!make(&world, "power_off", Outcome::Ok));
    assert_eq!(records(&world), [(Phase::Refused, Some(Decision::Forbidden), Outcome::RefusedByPolicy)]);
    // The broker's map counts, not what the runner believes.
    let world = World::new(vec![]);
    world.0.modes.borrow_mut().insert("write".into(), PermissionMode::Forbidden);
    assert!(!make(&world, "write", Outcome::Ok));
    assert_eq!(records(&world)[0].0, Phase::Refused);
    let world = World::new(vec![]);
    world.0.audit_down.set(true);
    assert!(!make(&world, "read", Outcome::Ok));
}

/// The machine is turned off when the call that asked for it has its end in the log.
#[test]
fn the_machine_is_turned_off_after_the_record() {
    let world = World::new(vec![]);
    world.0.leaving.set(true);
    assert!(make(&world, "read", Outcome::Ok));
    assert_eq!(records(&world)[1], (Phase::After, Some(Decision::Auto), Outcome::Ok));
    assert_eq!((world.0.order.borrow().as_slice(), world.0.leaving.get()), (["off"].as_slice(), false));
}

//! Requirement I02: a run is done when its conditions hold, no question is open and nothing is scheduled.

use capos_agent::world::RunState;
use capos_agent::{Agent, Condition, Tool, TurnEnd};
use capos_run_state::Predicate;
use capos_schema::audit::Phase;
use capos_schema::authority::{Decision, Provenance, SessionLimits};
use capos_schema::models::{Outcome, PermissionMode, Role, ToolDescriptor};
use serde_json::{Value, json};

use crate::world::*;

/// The tool that checks.
fn look() -> Tool {
    let descriptor = ToolDescriptor {
        name: "look".into(),
        handle: "/object/look".into(),
        permission: PermissionMode::Auto,
        category: "mutating".into(),
        abortable: true,
        ..ToolDescriptor::default()
    };
    Tool { descriptor, capability: 99, touches: vec![99], max_result: 100, ..Tool::default() }
}

/// A world whose broker asks for consent to the tool that checks.
fn world(script: Vec<Vec<Piece>>) -> World {
    let world = World::new(script);
    world.0.modes.borrow_mut().insert("look".into(), PermissionMode::Consent);
    world
}

fn declare(world: &World, agent: &Agent<World>, text: &str, schema: Value) -> Result<Condition, String> {
    let predicate = Predicate::parse(text).unwrap();
    let tool = predicate.call().map(|_| look());
    world.run(agent.declare(&[], predicate, tool, schema))
}

fn run(world: &World, text: &str, schema: Value) -> (TurnEnd, Agent<World>) {
    let mut agent = agent(world, SessionLimits::default());
    let condition = declare(world, &agent, text, schema).unwrap();
    agent.until(vec![condition]);
    let end = world.run(agent.turn("go", &snapshot()));
    assert!(!world.0.shown.borrow().iter().any(|line| line.contains("does not permit")));
    world.check_audit_of_looks();
    (end, agent)
}

impl World {
    /// Each check is a call of the person's, with a record before it and one after it.
    fn check_audit_of_looks(&self) {
        let events = self.0.events.borrow();
        let looks = || events.iter().filter(|event| event.descriptor.name == "look");
        let before = looks().filter(|event| event.phase == Phase::Before);
        assert!(before.clone().all(|event| event.decided && event.decision == Decision::Consented));
        let after = looks().filter(|event| event.phase == Phase::After);
        assert_eq!(before.count(), after.count());
    }
}

fn said(texts: &[&'static str]) -> Vec<Vec<Piece>> {
    texts.iter().map(|text| vec![Piece::Text(text)]).collect()
}

#[test]
fn i02_the_models_word_is_not_enough() {
    let world = world(said(&["It is done.", "Now it is."]));
    world.0.looks.borrow_mut().extend([Err("no such file: password=hunter2".to_string()), Ok("{}".to_string())]);
    let (end, agent) = run(&world, "exists notes/report.md", Value::Null);
    assert_eq!((end, agent.course().last()), (TurnEnd::Answered, RunState::Completed));
    let messages: Vec<_> = agent.conversation().entries().iter().map(|entry| entry.message.clone()).collect();
    assert_eq!(
        messages.iter().map(|message| message.role).collect::<Vec<_>>(),
        [Role::User, Role::Assistant, Role::User, Role::Assistant]
    );
    let told = &messages[2];
    assert_eq!(told.provenance, Provenance::Untrusted);
    assert!(told.content.starts_with("(From the system, not from the person.) The task is not done yet:"));
    assert!(told.content.contains("- `exists notes/report.md` does not hold: no file or folder is there."));
    assert!(!told.content.contains("hunter2"), "what a service says of it is for the person");
    let shown = world.0.shown.borrow();
    assert!(shown.iter().any(|line| line.starts_with("notice the run is not done: `exists notes/report.md`")));
    // It was asked about it: the step is one of the turn.
    assert_eq!((world.0.requests.borrow().len(), agent.course().steps()), (2, 2));
}

#[test]
fn i02_a_run_whose_condition_never_holds_fails_and_names_it() {
    let world = world(said(&["a", "b", "c", "d", "e"]));
    let looks = (1..9).map(|code| Ok(json!({ "result": { "code": code, "output": "" } }).to_string()));
    world.0.looks.borrow_mut().extend(looks);
    let (end, agent) = run(&world, "check grep -q done todo.txt", Value::Null);
    let why = "the run is not done: `check grep -q done todo.txt` does not hold: the program ended with exit code 4";
    assert_eq!(end, TurnEnd::Unmet(why.into()));
    assert_eq!((agent.course().last(), world.0.requests.borrow().len()), (RunState::Failed, 4), "told three times");
    assert!(!agent.can_go_on());
}

#[test]
fn i02_exit_code_zero_alone_is_success() {
    for (told, done) in [
        (Ok(r#"{"result":{"code":0,"report":"","output":"x"}}"#.to_string()), true),
        (Ok(r#"{"result":{"code":1}}"#.to_string()), false),
        (Ok(r#"{"result":{"code":"0"}}"#.to_string()), false),
        (Ok("0".to_string()), false),
        (Ok(r#"{"code":0}"#.to_string()), false),
        (Err("there is no such program".to_string()), false),
    ] {
        let world = world(said(&["a", "b"]));
        world.0.looks.borrow_mut().extend([told.clone(), Ok(r#"{"result":{"code":0}}"#.to_string())]);
        run(&world, "check true", Value::Null);
        assert_eq!(world.0.requests.borrow().len() == 1, done, "{told:?}");
    }
}

#[test]
fn i02_an_answer_or_a_file_matches_a_schema() {
    let schema = json!({ "type": "object", "required": ["title"], "properties": { "title": { "type": "string" } } });
    let script = said(&["Here it is.", "{\"title\":1}", "```json\n{\"title\":\"one\"}\n```"]);
    let world = world(script);
    let (end, agent) = run(&world, "matches s.json", schema.clone());
    assert_eq!(end, TurnEnd::Answered);
    let reminders: Vec<String> = agent
        .conversation()
        .entries()
        .iter()
        .skip(1)
        .filter(|entry| entry.message.role == Role::User)
        .map(|entry| entry.message.content.clone())
        .collect();
    assert_eq!(reminders.len(), 2);
    assert!(reminders[0].contains("it is not JSON") && reminders[1].contains("title"), "{reminders:?}");
    assert!(world.0.events.borrow().is_empty(), "no call is made for it");
    let world = self::world(said(&["a", "b"]));
    world.0.looks.borrow_mut().extend([Ok("{}".to_string()), Ok("{\"title\":\"x\"}".to_string())]);
    let (end, _) = run(&world, "matches s.json in report.json", schema);
    assert_eq!((end, world.0.requests.borrow().len()), (TurnEnd::Answered, 2));
    // A schema that is none is rejected when it is declared.
    let agent = crate::world::agent(&world, SessionLimits::default());
    let why = declare(&world, &agent, "matches s.json", json!({ "type": 7 })).unwrap_err();
    assert!(why.starts_with("the schema is not one: "), "{why}");
}

/// Conditions that have no room in a checkpoint are rejected where they are declared, and not when a message is saved.
#[test]
fn conditions_have_room_in_a_checkpoint() {
    let world = world(Vec::new());
    let agent = agent(&world, SessionLimits::default());
    let schema = json!({ "type": "object", "description": "x".repeat(13_000) });
    let predicate = || Predicate::parse("matches s.json").unwrap();
    let first = world.run(agent.declare(&[], predicate(), None, schema.clone())).unwrap();
    let why = world.run(agent.declare(core::slice::from_ref(&first), predicate(), None, schema)).unwrap_err();
    assert!(why.contains("16384 are possible; shorten a schema, or declare fewer"), "{why}");
    assert!(world.run(agent.declare(&[first], predicate(), None, json!({}))).is_ok());
}

#[test]
fn i02_conditions_are_those_of_one_run_and_all_of_them_count() {
    let world = world(said(&["a", "b", "c"]));
    let mut agent = agent(&world, SessionLimits::default());
    let both = ["exists a", "exists b"].map(|text| declare(&world, &agent, text, Value::Null).unwrap());
    agent.until(both.into());
    let yes = || Ok("{}".to_string());
    world.0.looks.borrow_mut().extend([yes(), Err("no".to_string()), yes(), yes()]);
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
    assert_eq!((world.0.requests.borrow().len(), world.0.looks.borrow().len()), (2, 0));
    // The next run has none.
    assert_eq!(world.run(agent.turn("again", &snapshot())), TurnEnd::Answered);
    assert_eq!(world.0.requests.borrow().len(), 3);
}

#[test]
fn i02_a_condition_has_no_more_authority_than_the_person_has_given() {
    let world = world(said(&["a", "b", "c", "d"]));
    let agent = agent(&world, SessionLimits::default());
    for (mode, why) in [
        (PermissionMode::Forbidden, "this session does not permit look"),
        (PermissionMode::StepUp, "look needs a passphrase for each call, so no condition can be made of it"),
    ] {
        world.0.modes.borrow_mut().insert("look".into(), mode);
        assert_eq!(declare(&world, &agent, "exists a", Value::Null).unwrap_err(), why);
    }
    // Nothing is run by declaring.
    assert!(world.effects().is_empty());
    // What was permitted then and is not any more does not run, and does not hold.
    world.0.modes.borrow_mut().insert("look".into(), PermissionMode::Consent);
    let mut agent = agent;
    let condition = declare(&world, &agent, "exists a", Value::Null).unwrap();
    agent.until(vec![condition]);
    world.0.modes.borrow_mut().insert("look".into(), PermissionMode::Forbidden);
    world.0.looks.borrow_mut().push_back(Ok("{}".to_string()));
    assert!(matches!(world.run(agent.turn("go", &snapshot())), TurnEnd::Unmet(_)));
    assert!(world.effects().is_empty());
    let no_tool = Predicate::parse("exists a").unwrap();
    let why = world.run(agent.declare(&[], no_tool, None, Value::Null)).unwrap_err();
    assert_eq!(why, "this session cannot check that: it has no tool file_info");
}

/// Ctrl-C while a condition is checked ends the run, and the check's end is recorded.
#[test]
fn i02_ctrl_c_ends_a_check() {
    for at in 1..30 {
        let world = world(said(&["a", "b", "c", "d"]));
        world.0.interrupt_at.set(Some(at * MS));
        let mut agent = agent(&world, SessionLimits::default());
        let condition = declare(&world, &agent, "exists a", Value::Null).unwrap();
        agent.until(vec![condition]);
        let end = world.run(agent.turn("go", &snapshot()));
        world.drain();
        world.check_audit_of_looks();
        assert!(matches!(end, TurnEnd::Interrupted | TurnEnd::Unmet(_)), "{at}: {end:?}");
        let outcomes = world.outcomes();
        assert!(
            outcomes.iter().all(|found| [Outcome::ExecutionError, Outcome::Cancelled].contains(found)),
            "{outcomes:?}"
        );
    }
}

//! Requirement F11: a turn that is cut off at any moment continues in another session. Nothing is done twice, and what may have
//! been done is told as not known.

use std::collections::BTreeMap;
use std::rc::Rc;

use capos_agent::world::Answer;
use capos_agent::{Agent, Conversation, Fate, Session, TurnEnd};
use capos_schema::audit::Phase;
use capos_schema::authority::SessionLimits;
use capos_schema::models::{Outcome, Role, ToolCall};

use crate::world::*;

/// Answers of the model in one turn, each with some calls.
pub const STEPS: u64 = 20;

/// How many calls a step has, and of which tool: different for each seed.
fn calls(seed: u64, step: u64) -> impl Iterator<Item = Piece> {
    let tools = ["write", "read", "slow", "read_other", "copy"];
    (0..=(step * 7 + seed) % 3).map(move |n| {
        let name = tools[((step + n + seed) % tools.len() as u64) as usize];
        let number = step * 10 + n;
        call(&format!("c{number}"), name, &format!("{{\"ms\":{},\"n\":{number}}}", 1 + (number + seed) % 5))
    })
}

/// What the model does from a step on.
pub fn script(seed: u64, from: u64) -> Vec<Vec<Piece>> {
    (from..STEPS).map(|step| calls(seed, step).collect()).chain([vec![Piece::Text("Done.")]]).collect()
}

/// A new session on what is left of the last one: the saved messages and the audit log.
fn resumed(world: &World) -> (Agent<World>, Vec<(ToolCall, Fate)>) {
    let mut conversation = Conversation::new("c1".into());
    for message in world.0.saved.borrow().iter() {
        conversation.load_message(message).unwrap();
    }
    let events = world.0.events.borrow();
    let fate = |call: &ToolCall| {
        let of_call = || events.iter().filter(|event| event.call_id == call.id);
        let ended = of_call().find(|event| event.phase != Phase::Before).map(|event| event.outcome.name());
        let began = of_call().any(|event| event.phase == Phase::Before);
        Fate::of((began || ended.is_some()).then_some((began, ended)), true)
    };
    let open = conversation.resume(world.0.clock.get(), |name| Some(handle(name)), fate);
    let session = Session { id: "s2".into(), ..session(SessionLimits::default()) };
    (Agent::new(Rc::new(world.clone()), session, "You are careful.".into(), conversation, Rc::default()), open)
}

fn limits() -> SessionLimits {
    SessionLimits { max_iterations: 100, ..SessionLimits::default() }
}

/// Cuts a turn off after so many steps of the program, and continues with it; whether it had not ended by itself.
fn cut(seed: u64, after: usize) -> bool {
    let world = World::new(script(seed, 0));
    world.0.answers.borrow_mut().extend([Answer::Yes; 100]);
    {
        let mut first = agent(&world, limits());
        if world.run_for(first.turn("Do all of it.", &snapshot()), after).is_some() {
            return false;
        }
    }
    world.power_off();
    let (mut agent, open) = resumed(&world);
    let proposed = |agent: &Agent<World>| {
        let entries = agent.conversation().entries().iter();
        entries.filter(|entry| !entry.message.tool_calls.is_empty()).count() as u64
    };
    *world.0.script.borrow_mut() = script(seed, proposed(&agent)).into();
    if agent.conversation().entries().is_empty() {
        // The person's line was not saved yet, and nothing has come of it.
        assert!(world.effects().is_empty());
        return true;
    }
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered, "seed {seed}, cut after {after}");
    world.drain();
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for effect in world.effects() {
        *effects.entry(effect).or_default() += 1;
    }
    assert!(effects.values().all(|count| *count == 1), "twice: seed {seed}, cut after {after}: {effects:?}");
    let entries = agent.conversation().entries();
    for call in entries.iter().flat_map(|entry| &entry.message.tool_calls) {
        let done = effects.contains_key(&call.arguments);
        let results: Vec<&str> = entries
            .iter()
            .filter(|entry| entry.message.role == Role::Tool && entry.message.tool_call_id == call.id)
            .map(|entry| entry.message.content.as_str())
            .collect();
        assert_eq!(results.len(), 1, "seed {seed}, cut after {after}: {call:?}");
        match open.iter().find(|(found, _)| found.id == call.id).map(|(_, fate)| fate) {
            None => assert!(done, "lost: seed {seed}, cut after {after}: {call:?}"),
            Some(fate) => {
                assert_eq!(results[0], fate.text());
                let known = match fate {
                    Fate::NotRun(_) => Some(false),
                    Fate::Ran(_) => Some(true),
                    Fate::Unknown => None,
                };
                assert!(known.is_none_or(|known| known == done), "seed {seed}, cut after {after}: {call:?} {fate:?}");
            }
        }
    }
    true
}

/// `KILL_SEEDS=40` cuts about 20,000 turns off.
#[test]
fn f11_a_turn_that_is_cut_off_anywhere_goes_on_without_doing_anything_twice() {
    let seeds = std::env::var("KILL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut cuts = 0;
    for seed in 0..seeds {
        let ended = (1..).find(|after| !cut(seed, *after)).unwrap();
        assert!(ended > 200, "a turn of {ended} steps");
        cuts += ended - 1;
    }
    println!("{cuts} cuts");
}

/// What is not known is told so, and a call that ended is not to be repeated for its result.
#[test]
fn f11_each_fate_has_its_words() {
    let one = |began, outcome| Fate::of([(began, outcome)], true);
    assert_eq!(Fate::of([], true), Fate::NotRun(None));
    // Where the log does not reach back so far, as after an archive, nothing is known.
    assert_eq!(Fate::of([], false), Fate::Unknown);
    assert_eq!(one(false, Some("deniedByUser")), Fate::NotRun(Some("deniedByUser".into())));
    assert_eq!(one(true, None), Fate::Unknown);
    assert!(Fate::Unknown.text().contains("It may have had its effect"));
    assert!(one(true, Some("ok")).text().starts_with("it ran and ended as ok"));
    assert!(Fate::NotRun(None).text().starts_with("not run: the session ended"));
    // Of two calls with one id, what warns most.
    let (denied, ok, open) = ((false, Some("deniedByUser")), (true, Some("ok")), (true, None));
    for records in [[denied, open], [open, ok], [open, denied]] {
        assert_eq!(Fate::of(records, true), Fate::Unknown);
    }
    assert_eq!(Fate::of([denied, ok], false), Fate::Ran("ok".into()));
    // What stands beside the words.
    let outcomes = [Fate::NotRun(None), one(false, Some("deniedByUser")), one(true, Some("ok")), Fate::Unknown];
    let wanted = [Outcome::Cancelled, Outcome::DeniedByUser, Outcome::Ok, Outcome::ExecutionError];
    assert_eq!(outcomes.map(|fate| fate.outcome()), wanted.map(Some));
}

/// A turn that the person interrupted, or that came to a limit, continues in the same session; one that was answered does not.
#[test]
fn f11_an_interrupted_turn_goes_on_in_its_session() {
    let world = World::new(script(0, 0));
    world.0.answers.borrow_mut().extend([Answer::Yes; 100]);
    let mut agent = agent(&world, SessionLimits { max_iterations: 6, ..SessionLimits::default() });
    world.0.answers.borrow_mut().clear();
    let mut ends = vec![world.run(agent.turn("Do all of it.", &snapshot()))];
    while ends.last() != Some(&TurnEnd::Answered) && ends.len() < 10 {
        ends.push(world.run(agent.go_on(&snapshot())));
    }
    assert_eq!(ends, [TurnEnd::Iterations(6), TurnEnd::Iterations(12), TurnEnd::Iterations(18), TurnEnd::Answered]);
    assert_eq!(agent.conversation().entries().iter().filter(|entry| entry.message.role == Role::User).count(), 1);
    assert!(agent.conversation().entries().iter().all(|entry| entry.turn == 1));
    let before = world.0.requests.borrow().len();
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered);
    assert_eq!(world.0.requests.borrow().len(), before, "there is nothing to ask");
    world.check_audit();
}

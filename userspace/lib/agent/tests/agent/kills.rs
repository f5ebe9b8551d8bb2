//! Requirements F10 and F11: a run of 20 steps is killed at each write and each effect, once or twice, and continues from its
//! checkpoint. No effect is lost or doubled, what is not known is told so, and its budget is never less than what it has used.
//!
//! `KILL_ALL=1` kills it at every boundary of many seeds; otherwise only some are taken.

use std::collections::BTreeMap;
use std::rc::Rc;

use capos_agent::world::Answer;
use capos_agent::{Agent, Conversation, Fate, Going, Session, TurnEnd};
use capos_budget::Dimension;
use capos_run_state::Checkpoint;
use capos_schema::audit::Phase;
use capos_schema::authority::SessionLimits;
use capos_schema::models::{Role, ToolCall};

use crate::machine::Machine;
use crate::resume::{STEPS, script};
use crate::world::*;

fn limits() -> SessionLimits {
    SessionLimits { max_iterations: 100, ..SessionLimits::default() }
}

/// What is known of an open call by the audit log.
pub fn fate(world: &World, call: &ToolCall) -> Fate {
    let events = world.0.events.borrow();
    let of_call = || events.iter().filter(|event| event.call_id == call.id);
    let ended = of_call().find(|event| event.phase != Phase::Before).map(|event| event.outcome.name());
    let began = of_call().any(|event| event.phase == Phase::Before);
    Fate::of((began || ended.is_some()).then_some((began, ended)), true)
}

/// The steps whose results are all among the messages.
fn complete(conversation: &Conversation) -> u32 {
    let entries = conversation.entries();
    let has = |id: &str| entries.iter().any(|entry| entry.message.tool_call_id == id);
    let answers = entries.iter().filter(|entry| entry.message.role == Role::Assistant);
    answers.filter(|entry| entry.message.tool_calls.iter().all(|call| has(&call.id))).count() as u32
}

/// What came of a run.
struct Found {
    kills: u64,
    unknown: u64,
    boundaries: u64,
}

/// Kills a run at these boundaries, one life after the other, and lets the last life end by itself.
fn live(seed: u64, lives: &[u64]) -> Found {
    let world = World::new(script(seed, 0));
    world.0.answers.borrow_mut().extend([Answer::Yes; 200]);
    let place = |what: &str| format!("{what}: seed {seed}, killed at {lives:?}");
    let mut machine = Machine::new(lives.first().copied().unwrap_or(u64::MAX));
    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    let (mut kills, mut asked) = (0, 0);
    let mut boundaries = 0;
    for life in 0..=lives.len() {
        *world.0.machine.borrow_mut() = Some(machine.clone());
        let (messages, run) = machine.load("c1");
        let mut conversation = Conversation::new("c1".into());
        for message in &messages {
            conversation.load_message(message).unwrap();
        }
        let end = if conversation.entries().is_empty() {
            assert!(run.is_none() && world.effects().is_empty(), "{}", place("something came of nothing"));
            let mut agent = agent(&world, limits());
            world.run_for(agent.turn("Do all of it.", &snapshot()), usize::MAX)
        } else {
            let run = run.expect("the run began with its first message");
            if !run.open {
                // Its end was kept, and only the answer to that was lost.
                assert!(conversation.is_answered(), "{}", place("closed"));
                break;
            }
            let checkpoint = Checkpoint::read(&run.head, &run.json).unwrap();
            let progress = &checkpoint.progress;
            // A session that was killed while it wrote what is known of open calls has left some of these results behind it.
            let (from, to) = progress.messages;
            let rest = conversation.entries().get(to as usize..).unwrap_or_else(|| panic!("{}", place("torn")));
            let is_told = rest.is_empty() || life > 1 && rest.iter().all(|entry| entry.message.role == Role::Tool);
            assert!(from == 0 && is_told, "{}", place("torn"));
            // A step is lost with a model call that a kill has ended.
            let lost = u64::from(progress.step - complete(&conversation));
            assert!(lost <= kills, "{}: {lost} lost", place("step"));
            // A kill gives no model call back, and takes at most one.
            let (made, counted) = (world.0.requests.borrow().len() as u64, progress.asked + progress.reserved);
            assert!((made..=made + kills).contains(&counted.into()), "{}", place("model calls"));
            assert!(progress.asked >= progress.step && progress.asked >= asked, "{}", place("steps are lost"));
            asked = progress.asked;
            let open = conversation.resume(world.0.clock.get(), |name| Some(handle(name)), |call| fate(&world, call));
            fates.extend(open.into_iter().map(|(call, fate)| (call.id, fate)));
            machine.resumed(messages.len());
            let proposed = conversation.entries().iter().filter(|entry| !entry.message.tool_calls.is_empty());
            *world.0.script.borrow_mut() = script(seed, proposed.count() as u64).into();
            let session = Session { id: format!("s{}", life + 1), ..session(limits()) };
            let (world_of, backlog) = (Rc::new(world.clone()), Rc::default());
            let mut agent = Agent::new(world_of, session, "You are careful.".into(), conversation, backlog);
            let going = Going::of(&checkpoint, 8);
            assert_eq!(going.steps().0, counted);
            agent.continue_run(going, Vec::new());
            let goes_on = agent.can_go_on();
            let rest = async {
                agent.save().await;
                if goes_on {
                    return agent.go_on(&snapshot()).await;
                }
                // It was answered, and its end was not kept.
                agent.close_run().await;
                TurnEnd::Answered
            };
            world.run_for(rest, usize::MAX)
        };
        boundaries = machine.boundaries.get();
        match end {
            Some(end) => {
                assert_eq!(end, TurnEnd::Answered, "{}", place("end"));
                world.drain();
                break;
            }
            None => {
                kills += 1;
                world.power_off();
                world.0.machine.borrow_mut().take();
                let next = lives.get(life + 1).copied().unwrap_or(u64::MAX);
                machine = machine.restarted(&format!("s{}", life + 2), next);
            }
        }
    }
    check(&world, &machine, &fates, kills, &place);
    let unknown = fates.values().filter(|fate| **fate == Fate::Unknown).count() as u64;
    Found { kills, unknown, boundaries }
}

fn check(world: &World, machine: &Machine, fates: &BTreeMap<String, Fate>, kills: u64, place: &dyn Fn(&str) -> String) {
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for effect in world.effects() {
        *effects.entry(effect).or_default() += 1;
    }
    assert!(effects.values().all(|count| *count == 1), "{}: {effects:?}", place("doubled"));
    let (messages, run) = machine.load("c1");
    let mut conversation = Conversation::new("c1".into());
    for message in &messages {
        conversation.load_message(message).unwrap();
    }
    let run = run.unwrap();
    assert!(!run.open && run.head.is_empty(), "{}", place("the run is still open"));
    let progress = capos_run_state::read_progress(&run.json).unwrap();
    let lost = u64::from(progress.step - complete(&conversation));
    assert!(lost <= kills, "{}: {lost} lost", place("steps"));
    assert!(progress.step >= STEPS as u32 && progress.asked >= progress.step, "{}", place("steps"));
    for call in conversation.entries().iter().flat_map(|entry| &entry.message.tool_calls) {
        let is_done = effects.contains_key(&call.arguments);
        let known = match fates.get(&call.id) {
            None => Some(true),
            Some(Fate::NotRun(_)) => Some(false),
            Some(Fate::Ran(_)) => Some(true),
            Some(Fate::Unknown) => None,
        };
        assert!(known.is_none_or(|known| known == is_done), "{}: {call:?}", place("lost, or told as what it is not"));
    }
    let truth = machine.truth.get();
    assert_eq!(truth.get(Dimension::Steps) as usize, world.effects().len());
    // What a kill left reserved counts as used: at most the calls of one answer, and one request.
    for (dimension, most) in [(Dimension::Steps, 3), (Dimension::Tokens, 50)] {
        let (used, truth) = (progress.used.get(dimension), truth.get(dimension));
        let what = format!("{}: {used} counted, and {truth} used", dimension.name());
        assert!(used >= truth && used - truth <= most * kills, "{}", place(&what));
    }
}

/// Requirements F10, F11, F15: what is killed has a checkpoint of its saved messages, and continues from it.
#[test]
fn f11_a_run_that_is_killed_anywhere_continues_from_its_checkpoint() {
    let all = std::env::var("KILL_ALL").is_ok();
    let (mut kills, mut unknown) = (0, 0);
    for seed in 0..if all { 12 } else { 2 } {
        let whole = live(seed, &[]);
        assert!(whole.kills == 0 && whole.boundaries > 500, "{} boundaries", whole.boundaries);
        let stride = if all { 1 } else { 11 };
        for at in (1 + seed..=whole.boundaries).step_by(stride) {
            // Every third run is killed a second time, where it continues.
            let second = (at % 3 == 0).then_some(1 + (at * 7919 + seed) % 400);
            let found = live(seed, &[Some(at), second].into_iter().flatten().collect::<Vec<_>>());
            kills += found.kills;
            unknown += found.unknown;
        }
    }
    println!("{kills} kills, {unknown} calls told as unknown");
    assert!(unknown > 0 && kills > if all { 10_000 } else { 150 }, "{kills} kills");
}

/// Issue 32: over 200 turns, all that is kept is at most 1.5 times the transcript.
#[test]
fn checkpoints_of_200_turns_are_small() {
    let turn = |n: u64| {
        vec![vec![call(&format!("c{n}"), "read", &format!("{{\"n\":{n}}}"))], vec![Piece::Text("It says so.")]]
    };
    let world = World::new((0..200).flat_map(turn).collect());
    let machine = Machine::new(u64::MAX);
    *world.0.machine.borrow_mut() = Some(machine.clone());
    let mut agent = agent(&world, limits());
    for _ in 0..200 {
        machine.next_run();
        assert_eq!(world.run(agent.turn("What do my notes say about this?", &snapshot())), TurnEnd::Answered);
    }
    let (messages, checkpoints) = (machine.bytes(&["messages"]), machine.bytes(&["runs", "heads", "steps"]));
    println!("{messages} bytes of messages, {checkpoints} of checkpoints");
    assert!(messages > 200 * 1000 && 2 * checkpoints <= messages, "{messages} and {checkpoints}");
    assert_eq!(machine.bytes(&["heads"]), 0);
}

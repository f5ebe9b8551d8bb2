//! Runs that continue: their steps, budgets and conditions, in segments and after a clean end.

use std::rc::Rc;

use capos_agent::world::Answer;
use capos_agent::{Agent, Conversation, Going, Session, TurnEnd};
use capos_budget::Dimension;
use capos_run_state::{Checkpoint, Predicate, Progress, RunState};
use capos_schema::authority::SessionLimits;
use capos_schema::models::{FinishReason, Outcome, Role};
use serde_json::Value;

use crate::world::*;

fn limits(max_iterations: u32) -> SessionLimits {
    SessionLimits { max_iterations, ..SessionLimits::default() }
}

fn reads(count: u64) -> Vec<Vec<Piece>> {
    (0..count).map(|n| vec![call("", "read", &format!("{{\"n\":{n}}}"))]).chain([vec![Piece::Text("done")]]).collect()
}

fn last(world: &World) -> (Checkpoint, bool) {
    world.0.points.borrow().last().unwrap().clone()
}

/// Another session on the saved messages, which continues a run.
fn resumed(world: &World, checkpoint: &Checkpoint, limits: SessionLimits) -> Agent<World> {
    let mut conversation = Conversation::new("c1".into());
    for message in world.0.saved.borrow().iter() {
        conversation.load_message(message).unwrap();
    }
    let session = Session { id: "s2".into(), ..session(limits) };
    let mut agent = Agent::new(Rc::new(world.clone()), session, "You are careful.".into(), conversation, Rc::default());
    agent.continue_run(Going::of(checkpoint, 8), Vec::new());
    agent
}

/// Requirement F10: after each step there is a point with its number, its messages and what it used.
#[test]
fn f10_each_step_has_its_point() {
    let world = World::new(reads(3));
    let mut agent = agent(&world, limits(9));
    agent.set_policy("p1".into());
    assert_eq!(agent.policy(), "p1");
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
    let points = world.0.points.borrow();
    assert!(points.iter().all(|(point, _)| point.policy == "p1"));
    let of_step =
        |step: u32| points.iter().rfind(|(point, _)| point.progress.step == step).map(|(point, _)| point).unwrap();
    for step in 1..=3 {
        let progress = &of_step(step).progress;
        // With the person's line, each step so far has an answer and a result; the next answer may be there, too.
        assert!([1 + 2 * step, 2 + 2 * step].contains(&progress.messages.1), "{progress:?}");
        assert_eq!(progress.used.get(Dimension::Steps), u64::from(step));
        assert_eq!(progress.spent.get(Dimension::Steps), 1);
        assert!(progress.asked >= step && progress.asked <= step + 1 && progress.most == 9);
    }
    let (end, open) = points.last().unwrap();
    assert_eq!((end.progress.state, open, end.progress.step), (RunState::Completed, &false, 4));
    assert_eq!(end.run(), "c1-1");
    assert_eq!((agent.last_run(), agent.next_run()), ("c1-1".to_string(), "c1-2".to_string()));
}

/// A run with four requests to the model that the power ended, with its last point: that of the first moment, from the poll
/// `from` on, at which its progress is as wanted.
fn cut_off(from: usize, is_wanted: impl Fn(&Progress) -> bool) -> (World, Checkpoint) {
    let cut = |after: usize| {
        let world = World::new(reads(9));
        let mut first = agent(&world, limits(4));
        assert!(world.run_for(first.turn("go", &snapshot()), after).is_none(), "it is cut off");
        drop(first);
        world.power_off();
        let (checkpoint, open) = last(&world);
        (open && is_wanted(&checkpoint.progress)).then_some((world, checkpoint))
    };
    (from..).find_map(cut).unwrap()
}

/// Requirement F11: a run that is continued in another session has its steps and its use, and not those of a new one.
#[test]
fn f11_a_continued_run_has_the_rest_of_its_steps() {
    // It is cut off after two of its four requests to the model. The third may have begun.
    let (world, checkpoint) = cut_off(20, |progress| progress.asked == 2 && progress.step == 2);
    assert_eq!(checkpoint.progress.reserved, 1);
    let proposed = world.0.saved.borrow().iter().filter(|text| text.contains("\"role\":\"assistant\"")).count();
    *world.0.script.borrow_mut() = reads(9).split_off(proposed).into();
    let mut agent = resumed(&world, &checkpoint, limits(4));
    // Where it is now is kept before it continues.
    let (points, messages) = (world.0.points.borrow().len(), agent.conversation().entries().len());
    world.run(agent.save());
    assert_eq!(world.0.points.borrow().len(), points + 1);
    assert_eq!(last(&world).0.progress.messages, (0, messages as u32));
    assert_eq!((last(&world).0.progress.asked, last(&world).0.progress.reserved), (3, 0), "none begins yet");
    let before = world.0.requests.borrow().len();
    world.0.answers.borrow_mut().push_back(Answer::No);
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Iterations(4));
    assert_eq!(world.0.requests.borrow().len() - before, 1, "the rest of the four");
    // What its checkpoint says is used counts, whatever the broker knows.
    let used = checkpoint.progress.used;
    assert_eq!(world.0.begun_with.borrow().last(), Some(&used));
    assert!(used.get(Dimension::Steps) > 0);
    // The person's word permits four more.
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Iterations(8));
}

/// A run that still runs in another session does not go on here: nothing has an effect, and its point stays as that session
/// keeps it.
#[test]
fn f11_a_run_that_runs_in_another_session_stays_as_it_is() {
    let (world, checkpoint) = cut_off(10, |progress| progress.step == 1);
    let mut agent = resumed(&world, &checkpoint, limits(4));
    let before = (world.0.points.borrow().len(), world.0.requests.borrow().len(), world.effects().len());
    world.0.run.borrow_mut().elsewhere = true;
    let TurnEnd::Refused(why) = world.run(agent.go_on(&snapshot())) else { panic!("it went on") };
    assert!(why.contains("still runs in another session"), "{why}");
    world.run(agent.close_run());
    assert_eq!((world.0.points.borrow().len(), world.0.requests.borrow().len(), world.effects().len()), before);
    // It continues once that one has left it.
    world.0.run.borrow_mut().elsewhere = false;
    assert!(agent.can_go_on());
    assert_ne!(world.run(agent.go_on(&snapshot())), TurnEnd::Stopped);
    assert!(world.0.points.borrow().len() > before.0);
}

/// Requirement F11: its conditions hold on, and one that cannot be checked any more does not hold.
#[test]
fn f11_a_continued_run_has_its_conditions() {
    let world = World::new((0..5).map(|_| vec![Piece::Text("done")]).collect());
    let (checkpoint, agent) = {
        let mut first = agent(&world, limits(9));
        let predicate = Predicate::parse("exists a").unwrap();
        let why = "this session cannot check that".to_string();
        first.until(vec![capos_agent::Condition::unchecked(predicate, Value::Null, why)]);
        let end = world.run(first.turn("go", &snapshot()));
        let TurnEnd::Unmet(why) = end else { panic!("{end:?}") };
        assert!(why.contains("`exists a` does not hold: this session cannot check that"), "{why}");
        (last(&world).0, first)
    };
    let declared: Vec<&str> = checkpoint.conditions.iter().map(|declared| declared.condition.as_str()).collect();
    assert_eq!((declared, checkpoint.progress.reminders), (vec!["exists a"], 3));
    assert_eq!(agent.going().unwrap().1.len(), 1);
    // They are those of this run alone.
    world.0.script.borrow_mut().push_back(vec![Piece::Text("done")]);
    let mut agent = agent;
    assert_eq!(world.run(agent.turn("else", &snapshot())), TurnEnd::Answered);
    assert!(last(&world).0.conditions.is_empty());
}

/// Requirement I12: a long job goes over three segments, with a checkpoint and a record between them.
#[test]
fn i12_a_long_run_goes_on_in_segments() {
    let world = World::new(reads(7));
    let mut agent = agent(&world, limits(3));
    agent.in_segments(3);
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
    let records = world.0.messages.borrow();
    let segments: Vec<&str> = records
        .iter()
        .filter(|event| event.kind == "run.segment")
        .map(|event| event.fields.iter().find(|field| field.name == "segment").unwrap().value.as_str())
        .collect();
    assert_eq!(segments, ["1", "2"]);
    // Each transition is kept as a pause before the next segment begins.
    let points = world.0.points.borrow();
    let paused: Vec<(u32, u32, bool)> = points
        .iter()
        .filter(|(point, _)| point.progress.state == RunState::PausedForEvent)
        .map(|(point, open)| (point.progress.segments.0, point.progress.step, *open))
        .collect();
    assert_eq!(paused, [(1, 3, true), (2, 6, true)]);
    assert!(world.0.prompts.borrow().is_empty(), "nobody is asked");
    assert_eq!(world.effects().len(), 7);
    world.check_audit();
    drop((records, points));
    // They are of this run alone; the next one asks at its limit.
    *world.0.script.borrow_mut() = reads(9).into();
    assert_eq!(world.run(agent.turn("more", &snapshot())), TurnEnd::Iterations(3));
}

/// Requirement I12: the last segment ends as any run does, without a record no segment begins, and a run is cancelled in between.
#[test]
fn i12_segments_are_bounded_and_recorded() {
    let world = World::new(reads(20));
    let mut first = agent(&world, limits(2));
    first.in_segments(2);
    assert_eq!(world.run(first.turn("go", &snapshot())), TurnEnd::Iterations(4));
    let world = World::new(reads(20));
    let mut second = agent(&world, limits(2));
    second.in_segments(9);
    world.0.interrupt_at.set(Some(60 * MS));
    assert_eq!(world.run(second.turn("go", &snapshot())), TurnEnd::Interrupted);
    let (point, open) = last(&world);
    assert!(open && point.progress.state == RunState::Cancelled && point.progress.segments.0 > 1, "{point:?}");
}

/// Requirement F11: a run that was cut off between its last answer and its end is looked at again, and is done or continues.
#[test]
fn f11_a_run_that_was_cut_off_after_its_last_answer_is_completed() {
    let world = World::new(vec![vec![Piece::Text("done")]]);
    let mut first = agent(&world, limits(9));
    assert_eq!(world.run(first.turn("go", &snapshot())), TurnEnd::Answered);
    let is_before_end = |point: &&(Checkpoint, bool)| point.0.progress.step == 1 && point.1;
    let checkpoint = world.0.points.borrow().iter().find(is_before_end).unwrap().0.clone();
    assert_eq!(checkpoint.progress.state, RunState::ProcessingResponse);
    let mut agent = resumed(&world, &checkpoint, limits(9));
    assert!(agent.conversation().is_answered() && agent.can_go_on());
    let asked = world.0.requests.borrow().len();
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered);
    assert_eq!((world.0.requests.borrow().len(), agent.can_go_on()), (asked, false));
    assert_eq!((last(&world).0.progress.state, last(&world).1), (RunState::Completed, false));
    // The broker hears of its end.
    assert_eq!(world.0.run.borrow().ends, ["answered", "answered"]);
    assert_eq!(world.0.begun_with.borrow().len(), 2);
}

/// Requirement F11: an answer that was cut at its limit is no last word. A run that is paused or cut off behind it asks the model for
/// the rest.
#[test]
fn f11_a_run_that_pauses_behind_a_cut_answer_continues() {
    let cut = || vec![Piece::Text("half of "), Piece::Finish(FinishReason::Length)];
    let world = World::new(vec![cut(), vec![Piece::Text("the answer")]]);
    world.0.rate.set(1);
    let mut first = agent(&world, limits(9));
    assert!(matches!(world.run(first.turn("go", &snapshot())), TurnEnd::Rate(_)));
    assert!(first.can_go_on() && !first.conversation().is_answered());
    // It is known in another session, too.
    let mut second = resumed(&world, &last(&world).0, limits(9));
    assert!(second.can_go_on() && !second.conversation().is_answered());
    world.0.rate.set(9);
    for agent in [&mut first, &mut second] {
        let asked = world.0.requests.borrow().len();
        *world.0.script.borrow_mut() = [vec![Piece::Text("the answer")]].into();
        assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered);
        assert_eq!(world.0.requests.borrow().len(), asked + 1);
        assert_eq!(agent.conversation().answer(), Some("the answer"));
    }
}

/// Requirement F11: no model call begins that no checkpoint counts, also if the one before could not be written. At the limit
/// none is reserved, since a person permits the next one.
#[test]
fn f11_a_model_call_is_in_a_checkpoint_before_it_begins() {
    for fails in [false, true] {
        let world = World::new(reads(4));
        let mut agent = agent(&world, limits(4));
        world.0.keeps.set(!fails);
        world.0.answers.borrow_mut().push_back(Answer::No);
        assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Iterations(4));
        let points = world.0.points.borrow();
        let reserved: Vec<(u32, u32)> =
            points.iter().map(|(of, _)| (of.progress.asked, of.progress.reserved)).collect();
        assert!(reserved.iter().all(|(asked, reserved)| asked + reserved <= 4), "{reserved:?}");
        let before = |call: u32| reserved.iter().filter(|(asked, reserved)| asked + reserved == call).count();
        assert!((1..=4).all(|call| before(call) > 0), "{reserved:?}");
        let before_begin = |call: u32| reserved.iter().filter(|point| **point == (call, 0)).count();
        // What could not be written is tried again before the call begins.
        assert_eq!(before_begin(2), 1 + usize::from(fails), "{reserved:?}");
    }
}

/// Requirement C20: what a restart counts does not skip the event and the notice at four fifths.
#[test]
fn c20_a_restart_does_not_skip_the_notice_before_the_limit() {
    let (world, checkpoint) = cut_off(20, |progress| progress.asked == 2 && progress.step == 2);
    *world.0.script.borrow_mut() = reads(9).split_off(2).into();
    let mut agent = resumed(&world, &checkpoint, limits(4));
    world.0.answers.borrow_mut().push_back(Answer::No);
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Iterations(4));
    let told = |line: &&String| line.contains("model calls of this turn are used");
    assert_eq!(
        world.0.shown.borrow().iter().filter(told).collect::<Vec<_>>(),
        ["notice 4 of the 4 model calls of this turn are used"]
    );
}

/// Requirement C39: at a shutdown the current step finishes, no other begins, and then the run cannot be continued.
#[test]
fn c39_a_shutdown_finishes_the_step_and_removes_the_checkpoint() {
    let world = World::new(vec![
        vec![call("a", "slow", r#"{"ms":50,"n":1}"#), call("b", "read", r#"{"n":2}"#)],
        vec![call("c", "read", r#"{"n":3}"#)],
    ]);
    let mut agent = agent(&world, limits(9));
    let course = agent.course().clone();
    let ender = world.clone();
    capos_agent::world::Host::spawn(
        &world,
        Box::pin(async move {
            ender.pause(25 * MS).await;
            assert_eq!(course.run_state(), RunState::ExecutingTools);
            course.end_after_step();
        }),
    );
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Stopped);
    assert_eq!(world.effects().len(), 2, "both calls of the step ran, and no later one");
    assert!(world.outcomes().iter().all(|outcome| outcome.name() == "ok"));
    let (point, open) = last(&world);
    assert!(open && point.progress.state == RunState::Cancelled && point.progress.step == 1);
    world.run(agent.close_run());
    let (point, open) = last(&world);
    assert!(!open && point.progress.state == RunState::Cancelled);
    assert_eq!(*world.0.run.borrow().ends, ["cancelled: the session ended"]);
}

/// Requirements F07, F08: each message has its id, its step and its tokens, and the conversation their sum.
#[test]
fn f07_a_message_has_its_id_step_and_tokens() {
    let world = World::new(vec![
        vec![call("a", "read", r#"{"n":1}"#), Piece::Usage(12)],
        vec![Piece::Text("It is done."), Piece::Usage(5)],
    ]);
    let mut agent = agent(&world, limits(9));
    assert_eq!(world.run(agent.turn("please", &snapshot())), TurnEnd::Answered);
    let found: Vec<(String, Role, u32, u32)> = agent
        .conversation()
        .entries()
        .iter()
        .map(|entry| (entry.id.clone(), entry.message.role, entry.step, entry.tokens))
        .collect();
    let result = u32::try_from(agent.conversation().entries()[2].message.content.len().div_ceil(4)).unwrap();
    assert_eq!(
        found,
        [
            ("c1-0".into(), Role::User, 0, 2),
            ("c1-1".into(), Role::Assistant, 1, 12),
            ("c1-2".into(), Role::Tool, 1, result),
            ("c1-3".into(), Role::Assistant, 2, 5),
        ]
    );
    assert_eq!(agent.conversation().tokens(), u64::from(2 + 12 + result + 5));
    assert_eq!(last(&world).0.progress.tokens, (0, 17));
    assert_eq!(agent.course().tokens(), 17);
    // They are saved, and read by a later session.
    let mut loaded = Conversation::new("c1".into());
    for text in world.0.saved.borrow().iter() {
        for member in ["\"id\":", "\"role\":", "\"content\":", "\"tokens\":", "\"turn\":", "\"step\":", "\"at\":"] {
            assert!(text.contains(member), "{member} in {text}");
        }
        loaded.load_message(text).unwrap();
    }
    assert_eq!(&loaded, agent.conversation());
    // A message of an earlier system has none of them.
    let old = world.0.saved.borrow()[0]
        .replace("\"id\":\"c1-0\",", "")
        .replace("\"step\":0,", "")
        .replace("\"tokens\":2,", "");
    let mut earlier = Conversation::new("c9".into());
    earlier.load_message(&old).unwrap();
    let entry = &earlier.entries()[0];
    assert_eq!((entry.id.as_str(), entry.step, entry.tokens), ("c9-0", 0, 2));
}

/// A call that turns the machine off ends the turn. The call and the run have their ends in the log and in the conversation
/// before the machine is off, and the run does not go on after it.
#[test]
fn the_machine_is_turned_off_when_the_turn_is_kept() {
    let world = World::new(vec![vec![call("a", "read", "{}"), call("b", "read_other", r#"{"n":1}"#)], vec![]]);
    world.0.switch.set(Some("read"));
    let mut agent = agent(&world, limits(9));
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Off);
    let end = ["user", "assistant", "effect", "effect", "tool", "tool", "off"];
    assert_eq!(*world.0.order.borrow(), end, "the model is not asked again");
    assert_eq!(world.outcomes(), [Outcome::Ok, Outcome::Ok]);
    world.check_audit();
    let (point, open) = last(&world);
    assert_eq!((point.progress.state, open, point.progress.step), (RunState::Cancelled, false, 1));
    let shown = world.0.shown.borrow().join("\n");
    assert!(!shown.contains("did not turn off"), "{shown}");
}

/// The person is told if the machine stays on, and the next request is a turn like any other.
#[test]
fn a_machine_that_stays_on_is_told_of() {
    let world = World::new(vec![vec![call("a", "read", "{}")], vec![Piece::Text("done")]]);
    world.0.switch.set(Some("read"));
    world.0.stays_on.set(Some("the machine did not turn off; use its power button"));
    let mut agent = agent(&world, limits(9));
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Off);
    let shown = world.0.shown.borrow().join("\n");
    assert!(shown.contains("the machine did not turn off; use its power button"), "{shown}");
    assert_eq!(world.run(agent.turn("again", &snapshot())), TurnEnd::Answered);
}

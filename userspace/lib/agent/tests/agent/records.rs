//! What the audit log holds when it, the broker or the person gets in the way.

use capos_agent::world::{Answer, Secret};
use capos_agent::{Conversation, TurnEnd};
use capos_audit::{Chain, Event};
use capos_schema::audit::{Phase, ToolEvent};
use capos_schema::authority::{Decision, SessionLimits};
use capos_schema::models::Outcome;

use crate::world::*;

/// The tool records of the log that is there now, in order.
fn tools(world: &World) -> Vec<ToolEvent> {
    let chain = world.0.chain.borrow();
    let tool = |event: &Event| if let Event::Tool(event) = event { Some((**event).clone()) } else { None };
    chain.records().iter().filter_map(|record| tool(&record.event)).collect()
}

fn say(world: &World, piece: Vec<Piece>) {
    world.0.script.borrow_mut().push_back(piece);
    world.0.script.borrow_mut().push_back(vec![Piece::Text("done")]);
}

/// The broker takes a second and a half before it records and as long after: Ctrl-C comes before the question, at the
/// prompt, before the record, after it, and after the answer. The turn ends within its grace, and however the race
/// between the two records ends, they say the same.
#[test]
fn d09_ctrl_c_at_each_point_of_a_decision() {
    let (mut with, mut without) = (0, 0);
    for tool in ["read", "write", "delete", "power_off"] {
        for agrees in [true, false] {
            for at in (0..3600).step_by(40) {
                let world = World::new(vec![vec![call("1", tool, r#"{"n":1}"#)], vec![]]);
                world.0.broker_takes.set((1500 * MS, 1500 * MS));
                world.0.thinks.set(200 * MS);
                if agrees {
                    world.0.answers.borrow_mut().push_back(Answer::Yes);
                    world.0.secrets.borrow_mut().push_back(Secret::Given("open sesame".into()));
                }
                world.0.interrupt_at.set(Some(at * MS));
                let (end, _) = turn(&world);
                if end == TurnEnd::Interrupted {
                    assert!(world.0.clock.get() <= (at + 1010) * MS, "{tool} at {at}: {} ns", world.0.clock.get());
                }
                world.drain();
                world.check_audit();
                world.check_decisions();
                let told = tools(&world);
                let cancelled = told.iter().find(|event| event.outcome == Outcome::Cancelled && event.decided);
                with += usize::from(cancelled.is_some());
                without += usize::from(told.iter().any(|event| !event.decided));
            }
        }
    }
    assert!(with > 50 && without > 50, "{with} with a decision, {without} without one");
}

/// Requirement F01: each message names the records about it, and those of its call, and its own record names it. A dump that is
/// read again is the same.
#[test]
fn f01_messages_and_audit_records_name_each_other() {
    let world = World::new(vec![vec![call("1", "read", r#"{"n":1}"#), call("2", "power_off", "{}")], vec![]]);
    let (_, agent) = turn(&world);
    let chain = world.0.chain.borrow();
    let conversation = agent.conversation();
    assert_eq!(conversation.entries().len(), 5);
    for entry in conversation.entries() {
        let mut is_named = false;
        for sequence in &entry.audit {
            match &chain.get(*sequence).unwrap().event {
                Event::General(event) => {
                    assert_eq!(event.kind, "message");
                    let named = event.fields.iter().find(|field| field.name == "message").unwrap();
                    assert_eq!(named.value, entry.id);
                    is_named = true;
                }
                Event::Tool(event) => assert_eq!(event.call_id, entry.message.tool_call_id),
            }
        }
        assert!(is_named, "{entry:?}");
    }
    // The request, the answer, a call with beginning and end, a call that was refused, and the last answer.
    let records: Vec<usize> = conversation.entries().iter().map(|entry| entry.audit.len()).collect();
    assert_eq!(records, [1, 1, 3, 2, 1]);
    assert_eq!(Conversation::load(&conversation.dump()).as_ref(), Ok(conversation));
}

/// A broker that does not answer about a no has not decided, and the record does not claim that it has.
#[test]
fn a_refusal_that_the_broker_never_heard_of_is_no_decision() {
    for (tool, interrupted) in [("write", false), ("write", true), ("delete", false), ("delete", true)] {
        let world = World::new(vec![vec![call("1", tool, r#"{"n":1}"#)], vec![]]);
        world.0.thinks.set(50 * MS);
        world.at(30, |sim| sim.broker_down.set(true));
        if interrupted {
            world.0.interrupt_at.set(Some(40 * MS));
        }
        turn(&world);
        world.drain();
        world.check_decisions();
        let told = tools(&world);
        let wanted = if interrupted { Outcome::Cancelled } else { Outcome::RefusedByPolicy };
        assert_eq!((told.len(), told[0].decided, told[0].outcome), (1, false, wanted), "{tool} {interrupted}");
    }
}

/// The log goes while a tool runs: the end is kept, nothing else runs, and when the log is back it comes first.
#[test]
fn an_end_that_the_log_cannot_take_is_written_late() {
    let world = World::new(vec![]);
    say(&world, vec![call("1", "read", r#"{"n":1,"ms":40}"#)]);
    let mut agent = agent(&world, SessionLimits::default());
    world.at(20, |sim| sim.audit_down.set(true));
    world.run(agent.turn("go", &snapshot()));
    world.drain();
    assert_eq!((tools(&world).len(), world.0.backlog.waiting()), (1, 1));
    assert_eq!(world.0.chain.borrow().open().count(), 1);
    say(&world, vec![call("2", "read", r#"{"n":2}"#)]);
    world.run(agent.turn("again", &snapshot()));
    assert_eq!(world.effects().len(), 1, "a tool ran while the log lacked an end");
    assert_eq!(world.0.backlog.waiting(), 2);
    world.0.audit_down.set(false);
    say(&world, vec![call("3", "read", r#"{"n":3}"#)]);
    world.run(agent.turn("now", &snapshot()));
    world.drain();
    let told: Vec<(String, Phase, bool)> =
        tools(&world).iter().map(|event| (event.call_id.clone(), event.phase, event.late)).collect();
    let wanted = [
        ("1", Phase::Before, false),
        ("1", Phase::After, true),
        ("2", Phase::Refused, true),
        ("3", Phase::Before, false),
        ("3", Phase::After, false),
    ];
    assert_eq!(told, wanted.map(|(id, phase, late)| (id.to_string(), phase, late)));
    assert_eq!((world.0.backlog.waiting(), world.0.chain.borrow().open().count()), (0, 0));
    world.check_audit();
}

/// The log is restarted while a tool runs: its new chain knows no beginning, and tells of the effect all the same.
#[test]
fn an_end_outlasts_the_chain_of_its_beginning() {
    let world = World::new(vec![]);
    say(&world, vec![call("1", "read", r#"{"n":1,"ms":40}"#), call("2", "read_other", r#"{"n":2,"ms":60}"#)]);
    world.at(20, |sim| *sim.chain.borrow_mut() = Chain::new(8 << 20));
    let (end, _) = turn(&world);
    world.drain();
    assert_eq!(end, TurnEnd::Answered);
    let told: Vec<(String, Phase, u64, bool)> =
        tools(&world).iter().map(|event| (event.call_id.clone(), event.phase, event.before, event.late)).collect();
    assert_eq!(told, ["1", "2"].map(|id| (id.to_string(), Phase::After, 0, true)));
    assert!(tools(&world).iter().all(|event| event.decision == Decision::Auto && event.arguments.contains("\"n\":")));
    assert_eq!(world.0.backlog.waiting(), 0);
}

/// The log stops answering at each millisecond of a turn. Where that is while an effect is to begin, the tool does not
/// run, nothing else does until the answer is there, and the record has its end.
#[test]
fn a_beginning_that_comes_too_late_is_closed() {
    let mut closed = 0;
    for at in 0..30 {
        let world = World::new(vec![]);
        say(&world, vec![call("1", "read", r#"{"n":1}"#), call("2", "read", r#"{"n":2}"#)]);
        let mut agent = agent(&world, SessionLimits::default());
        world.at(at, |sim| sim.audit_hangs.set(65_000 * MS));
        world.run(agent.turn("go", &snapshot()));
        let (ran, waited) = (world.effects().len(), world.0.clock.get() >= 65_000 * MS);
        let unsettled = agent.background();
        world.drain();
        assert_eq!(agent.background(), 0);
        assert_eq!(world.effects().len(), ran, "at {at}: a tool ran when its turn was over");
        say(&world, vec![]);
        world.run(agent.turn("again", &snapshot()));
        world.check_audit();
        world.check_decisions();
        assert_eq!((world.0.backlog.waiting(), world.0.chain.borrow().open().count()), (0, 0), "at {at}");
        let told = tools(&world);
        assert_eq!(told.iter().filter(|event| event.phase != Phase::After).count(), 2, "at {at}: {told:#?}");
        if let Some(late) =
            told.iter().find(|event| event.phase == Phase::After && event.error.contains("did not start"))
        {
            assert_eq!((late.late, late.outcome, unsettled, waited), (true, Outcome::RefusedByPolicy, 1, false));
            assert!(ran < 2, "at {at}: another tool ran meanwhile");
            closed += 1;
        }
    }
    assert!(closed > 0);
}

/// An end whose record was taken while the answer to it got lost is not told twice.
#[test]
fn an_end_is_recorded_once_however_often_it_is_sent() {
    let world = World::new(vec![]);
    say(&world, vec![call("1", "read", r#"{"n":1,"ms":40}"#)]);
    world.at(30, |sim| sim.audit_hangs.set(15_000 * MS));
    let mut agent = agent(&world, SessionLimits::default());
    world.run(agent.turn("go", &snapshot()));
    world.drain();
    say(&world, vec![]);
    world.run(agent.turn("again", &snapshot()));
    let told: Vec<Phase> = tools(&world).iter().map(|event| event.phase).collect();
    assert_eq!((told, world.0.backlog.waiting()), (vec![Phase::Before, Phase::After], 0));
}

/// A call that ran over its time and cannot be aborted counts until its end is noted, late where the log is gone.
#[test]
fn a_call_over_its_time_is_background_work() {
    let world = World::new(vec![]);
    say(&world, vec![call("1", "slow", r#"{"n":1,"ms":300}"#)]);
    let mut agent = agent(&world, SessionLimits::default());
    world.at(250, |sim| sim.audit_down.set(true));
    world.run(agent.turn("go", &snapshot()));
    assert_eq!(world.outcomes(), [Outcome::TimedOut]);
    assert_eq!(agent.background(), 1);
    world.drain();
    assert_eq!((agent.background(), world.0.backlog.waiting()), (0, 1));
    world.0.audit_down.set(false);
    say(&world, vec![]);
    world.run(agent.turn("again", &snapshot()));
    let messages = world.0.messages.borrow();
    let late = messages.iter().find(|event| event.kind == "tool.late").unwrap();
    assert!(late.fields.iter().any(|field| field.name == "late" && field.value == "true"), "{late:?}");
}

/// What waits is bounded; what there was no room for is counted, and the count is recorded.
#[test]
fn the_backlog_is_bounded_and_says_what_it_lost() {
    let world = World::new(vec![]);
    let mut agent = agent(&world, SessionLimits::default());
    world.0.audit_down.set(true);
    for turn in 0..6 {
        say(&world, (0..60).map(|at| call(&format!("{turn}-{at}"), "read", &format!("{{\"n\":{at}}}"))).collect());
        world.run(agent.turn("go", &snapshot()));
    }
    assert_eq!((world.0.backlog.waiting(), world.effects().len()), (256, 0));
    world.0.audit_down.set(false);
    say(&world, vec![]);
    world.run(agent.turn("again", &snapshot()));
    assert_eq!((tools(&world).len(), world.0.backlog.waiting()), (256, 0));
    let messages = world.0.messages.borrow();
    let lost = messages.iter().find(|event| event.kind == "records.lost").unwrap();
    assert_eq!(lost.fields[0].value, "104");
}

/// A call with long arguments that could not begin has not run: of these the log takes the beginning, and takes it.
#[test]
fn a_long_call_that_could_not_begin_is_told_of() {
    let long = format!(r#"{{"n":1,"pad":"{}"}}"#, "x".repeat(3000));
    let (mut refused, mut closed) = (0, 0);
    for (at, hangs) in (50..100).flat_map(|at| [(at, false), (at, true)]) {
        let world = World::new(vec![]);
        say(&world, vec![call("1", "write", &long)]);
        world.0.answers.borrow_mut().push_back(Answer::Yes);
        world.0.thinks.set(50 * MS);
        world.at(at, move |sim| if hangs { sim.audit_hangs.set(15_000 * MS) } else { sim.audit_down.set(true) });
        let mut agent = agent(&world, SessionLimits::default());
        world.run(agent.turn("go", &snapshot()));
        world.drain();
        let ran = world.effects().len();
        world.0.audit_down.set(false);
        say(&world, vec![]);
        world.run(agent.turn("again", &snapshot()));
        world.check_audit();
        let told = tools(&world);
        let records = if told[0].phase == Phase::Before { 2 } else { 1 };
        assert_eq!((told.len(), world.0.backlog.waiting()), (records, 0), "{at} {hangs}: {told:#?}");
        let late = ran == 0 && told[0].late && told[0].decision == Decision::Consented;
        refused += usize::from(late && told[0].arguments_bytes == long.len() as u64);
        closed += usize::from(ran == 0 && told.len() == 2);
    }
    assert!(refused > 0 && closed > 0, "{refused} refused, {closed} closed");
}

/// What the log will never take is counted. That it turned away what it may have already is no loss.
#[test]
fn a_record_that_the_log_refuses_for_good_is_counted() {
    let world = World::new(vec![]);
    say(&world, vec![call("1", "read", r#"{"n":1}"#), call("2", "read", r#"{"n":2}"#)]);
    let mut agent = agent(&world, SessionLimits::default());
    world.0.audit_down.set(true);
    world.run(agent.turn("go", &snapshot()));
    assert_eq!(world.0.backlog.waiting(), 2);
    // The log has both; only of the first its answer may have been lost.
    for id in ["1", "2"] {
        let told =
            ToolEvent { phase: Phase::Refused, session: "s1".into(), conversation: "c1".into(), ..Default::default() };
        world.0.chain.borrow_mut().append_tool(1, ToolEvent { call_id: id.into(), ..told }).unwrap();
    }
    world.0.audit_down.set(false);
    say(&world, vec![]);
    world.run(agent.turn("again", &snapshot()));
    let messages = world.0.messages.borrow();
    let lost = messages.iter().find(|event| event.kind == "records.lost").unwrap();
    assert_eq!((lost.fields[0].value.as_str(), world.0.backlog.waiting()), ("1", 0));
}

/// A log that says that it does not take a record has not taken it.
#[test]
fn a_record_that_the_log_turns_away_at_once_is_counted() {
    let world = World::new(vec![]);
    let told =
        ToolEvent { phase: Phase::Refused, session: "s1".into(), conversation: "c1".into(), ..Default::default() };
    world.0.chain.borrow_mut().append_tool(1, ToolEvent { call_id: "1".into(), ..told }).unwrap();
    say(&world, vec![call("1", "power_off", "{}")]);
    let mut agent = agent(&world, SessionLimits::default());
    world.run(agent.turn("go", &snapshot()));
    say(&world, vec![]);
    world.run(agent.turn("again", &snapshot()));
    let messages = world.0.messages.borrow();
    let lost = messages.iter().find(|event| event.kind == "records.lost").unwrap();
    assert_eq!((lost.fields[0].value.as_str(), world.0.backlog.waiting()), ("1", 0));
}

/// F01: each message is saved as it is appended: the answer with its calls before any of them has an effect, and the turn's
/// tools with its first message. What was saved is the conversation.
#[test]
fn f01_each_message_is_saved_before_anything_comes_of_it() {
    let first = vec![Piece::Text("I look."), call("a", "read", "{}")];
    let world = World::new(vec![first, vec![Piece::Text("Done.")]]);
    let (end, agent) = turn(&world);
    assert_eq!(end, TurnEnd::Answered);
    let mut loaded = Conversation::new("c1".into());
    for text in world.0.saved.borrow().iter() {
        loaded.load_message(text).unwrap();
    }
    assert_eq!(&loaded, agent.conversation());
    let entries = loaded.entries();
    assert_eq!(entries[0].tools, snapshot().marks());
    assert!(entries.iter().all(|entry| entry.model == "sha256:1-scripted"));
    assert!(entries[1..].iter().all(|entry| entry.tools.is_empty()));
    assert_eq!(*world.0.order.borrow(), ["user", "assistant", "effect", "tool", "assistant"]);
}

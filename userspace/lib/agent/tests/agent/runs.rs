//! The states of a run, as the loop goes through them, and the events that it tells of.

use std::cell::RefCell;
use std::rc::Rc;

use capos_agent::world::{Answer, RunState, Secret};
use capos_agent::{Agent, Conversation, Course, TurnEnd};
use capos_run_state::{Buffer, Event, Record, Sink};
use capos_schema::authority::SessionLimits;
use capos_schema::models::{FinishReason, Outcome, PermissionMode, Role};

use crate::world::*;

/// Keeps every event.
#[derive(Default)]
struct Heard(RefCell<Vec<Record>>);

impl Sink for Heard {
    fn emit(&self, record: Record) {
        self.0.borrow_mut().push(record);
    }
}

impl Heard {
    fn names(&self) -> Vec<&'static str> {
        self.0.borrow().iter().map(|record| record.event.name()).collect()
    }

    fn count(&self, name: &str) -> usize {
        self.names().iter().filter(|found| **found == name).count()
    }
}

fn following(world: &World, limits: SessionLimits, sink: Rc<dyn Sink>) -> Agent<World> {
    agent(world, limits).with_course(Rc::new(Course::new("m1", "s1", sink)))
}

/// The states that were shown, in order.
fn states(world: &World) -> Vec<String> {
    let shown = world.0.shown.borrow();
    shown.iter().filter_map(|line| line.strip_prefix("state ").map(Into::into)).collect()
}

/// No event was one that the table does not permit.
fn check_table(world: &World) {
    let shown = world.0.shown.borrow();
    assert!(!shown.iter().any(|line| line.contains("does not permit")), "{shown:?}");
}

fn endless(count: u64) -> Vec<Vec<Piece>> {
    (0..count).map(|n| vec![call("", "read", &format!("{{\"n\":{n}}}"))]).collect()
}

#[test]
fn i01_five_runs_end_or_pause_in_five_states() {
    let limits = || SessionLimits { max_iterations: 2, ..SessionLimits::default() };
    let run = |world: &World| {
        let mut agent = agent(world, limits());
        let end = world.run(agent.turn("please", &snapshot()));
        check_table(world);
        (end, agent)
    };
    // Done.
    let (end, agent) = run(&World::new(vec![vec![Piece::Text("done")]]));
    assert_eq!(
        (end, agent.course().last(), agent.course().run_state()),
        (TurnEnd::Answered, RunState::Completed, RunState::Idle)
    );
    // Paused for approval: nobody says whether it continues past its limit. It continues when somebody does.
    let world = World::new(endless(3).into_iter().chain([vec![Piece::Text("done")]]).collect());
    world.0.thinks.set(400_000 * MS);
    let (end, mut agent) = run(&world);
    assert_eq!((end, agent.course().run_state()), (TurnEnd::Unanswered(2), RunState::PausedForApproval));
    assert!(agent.can_go_on());
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered);
    assert_eq!((agent.course().last(), agent.course().runs()), (RunState::Completed, 1), "it is the same run");
    // Paused for an event: requests are too many for now.
    let world = World::new(vec![vec![call("a", "read", "{\"n\":1}")], vec![Piece::Text("done")]]);
    world.0.rate.set(1);
    let (end, mut agent) = run(&world);
    assert_eq!(
        (end, agent.course().run_state()),
        (TurnEnd::Rate("too many requests".into()), RunState::PausedForEvent)
    );
    world.0.rate.set(9);
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered);
    assert_eq!((agent.course().last(), agent.course().runs()), (RunState::Completed, 1));
    // Failed.
    let (end, agent) = run(&World::new(vec![vec![Piece::Finish(FinishReason::Error)]]));
    assert!(matches!(end, TurnEnd::Model(_)));
    assert_eq!((agent.course().last(), agent.course().run_state()), (RunState::Failed, RunState::Idle));
    // Cancelled.
    let world = World::new(vec![vec![Piece::Wait(50)]]);
    world.0.interrupt_at.set(Some(20 * MS));
    let (end, agent) = run(&world);
    assert_eq!((end, agent.course().last()), (TurnEnd::Interrupted, RunState::Cancelled));
}

#[test]
fn i01_a_paused_run_gives_way_to_another_request() {
    let world = World::new(vec![endless(1).remove(0), vec![Piece::Text("other")]]);
    world.0.thinks.set(400_000 * MS);
    let mut agent = agent(&world, SessionLimits { max_iterations: 1, ..SessionLimits::default() });
    assert_eq!(world.run(agent.turn("please", &snapshot())), TurnEnd::Unanswered(1));
    assert_eq!(world.run(agent.turn("something else", &snapshot())), TurnEnd::Answered);
    check_table(&world);
    let tail = [
        "PausedForApproval",
        "Cancelled",
        "Idle",
        "Running",
        "WaitingForModel",
        "ProcessingResponse",
        "Completed",
        "Idle",
    ];
    assert!(states(&world).ends_with(&tail.map(String::from)), "{:?}", states(&world));
    assert_eq!(agent.course().runs(), 2);
}

/// A call that outlasts its time limit is scheduled work: the run is done when it has ended.
#[test]
fn i01_a_run_is_not_done_while_a_call_of_it_still_runs() {
    let script = vec![vec![call("a", "slow", r#"{"n":1,"ms":500}"#)], vec![Piece::Text("ok")]];
    let world = World::new(script);
    let mut agent = agent(&world, SessionLimits::default());
    let snapshot = snapshot();
    assert_eq!(world.run(agent.turn("go", &snapshot)), TurnEnd::Scheduled(1));
    assert_eq!(agent.course().run_state(), RunState::PausedForEvent);
    assert_eq!(world.run(agent.go_on(&snapshot)), TurnEnd::Scheduled(1), "it still runs");
    world.drain();
    assert_eq!(world.run(agent.go_on(&snapshot)), TurnEnd::Answered);
    assert_eq!((agent.course().last(), world.0.requests.borrow().len()), (RunState::Completed, 2), "no model is asked");
    check_table(&world);
}

#[test]
fn c15_a_step_with_a_question_goes_through_all_states() {
    let world = World::new(vec![vec![call("a", "write", "{\"n\":1}"), call("b", "read", "{\"n\":2}")], vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    turn(&world);
    check_table(&world);
    let wanted = [
        "Running",
        "WaitingForModel",
        "ProcessingResponse",
        "CheckingPolicy",
        "WaitingForApproval",
        "ExecutingTools",
        "Running",
        "WaitingForModel",
        "ProcessingResponse",
        "Completed",
        "Idle",
    ];
    assert_eq!(states(&world), wanted);
}

/// Requirement C20: of five steps, the event comes after the fourth, and the run fails at the fifth.
#[test]
fn c20_the_limit_of_steps_is_told_of_before_it_is_reached() {
    let world = World::new(endless(9));
    world.0.answers.borrow_mut().push_back(Answer::No);
    let heard = Rc::new(Heard::default());
    let mut agent = following(&world, SessionLimits { max_iterations: 5, ..SessionLimits::default() }, heard.clone());
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Iterations(5));
    assert_eq!(agent.course().last(), RunState::Failed);
    let records = heard.0.borrow();
    let near =
        records.iter().position(|record| record.event == Event::StepLimitApproaching { count: 4, most: 5 }).unwrap();
    assert_eq!(records[near - 1].event, Event::StepCompleted { count: 4 });
    assert_eq!(heard.count("step_limit_approaching"), 1);
    assert_eq!((heard.count("step_started"), heard.count("step_completed")), (5, 5));
    assert!(world.0.shown.borrow().iter().any(|line| line == "notice 4 of the 5 model calls of this turn are used"));
}

/// Requirement C21: by its finish reason and its calls, an answer ends the run or not.
#[test]
fn c21_five_answers_end_the_run_or_do_not() {
    let with_call = |reason| vec![call("a", "read", "{\"n\":1}"), Piece::Finish(reason)];
    let without = |reason| vec![Piece::Text("text"), Piece::Finish(reason)];
    let table = [
        (without(FinishReason::Stop), 1, 0),
        (with_call(FinishReason::Stop), 2, 1),
        (without(FinishReason::Length), 2, 0),
        (with_call(FinishReason::Length), 2, 1),
        (with_call(FinishReason::ToolCalls), 2, 1),
    ];
    for (answer, requests, effects) in table {
        let world = World::new(vec![answer.clone(), without(FinishReason::Stop)]);
        let (end, _) = turn(&world);
        assert_eq!(end, TurnEnd::Answered, "{answer:?}");
        assert_eq!((world.0.requests.borrow().len(), world.effects().len()), (requests, effects), "{answer:?}");
        check_table(&world);
    }
}

/// Requirement C22: a fast second call does not wait for a slow first one, and the results are in the order of the calls.
#[test]
fn c22_a_fast_call_does_not_wait_for_a_slow_one() {
    let calls = vec![call("slow", "read", r#"{"ms":80,"n":1}"#), call("fast", "read_other", r#"{"ms":2,"n":2}"#)];
    let world = World::new(vec![calls, vec![]]);
    let (_, agent) = turn(&world);
    let shown = world.0.shown.borrow();
    let at = |text: &str| shown.iter().position(|line| line.starts_with(text)).unwrap();
    assert!(at("finished read_other fast") < at("finished read slow"));
    let results = agent.conversation().entries().iter().filter(|entry| entry.message.role == Role::Tool);
    assert_eq!(results.map(|entry| entry.message.tool_call_id.clone()).collect::<Vec<_>>(), ["slow", "fast"]);
}

/// Requirement C36: what a tool or the policy says of a failure enters the conversation; that the model, the broker or the
/// budget failed does not.
#[test]
fn c36_failures_of_tools_enter_the_conversation_and_those_of_the_system_do_not() {
    let script = vec![vec![
        call("a", "fails", "{\"n\":1}"),
        call("b", "power_off", "{\"n\":2}"),
        call("c", "write", "{\"n\":3}"),
        Piece::Call { id: "d".into(), name: "rm".into(), handle: "/object/x".into(), arguments: "{}".into() },
        call("e", "slow", r#"{"ms":500,"n":5}"#),
    ]];
    let broken = vec![vec![Piece::Break]; 4];
    let world = World::new(script.into_iter().chain(broken).collect());
    world.0.answers.borrow_mut().push_back(Answer::No);
    let (end, agent) = turn(&world);
    assert!(matches!(&end, TurnEnd::Away(why) if why.contains("the worker died")), "{end:?}");
    let results: Vec<String> = agent
        .conversation()
        .entries()
        .iter()
        .filter(|entry| entry.message.role == Role::Tool)
        .map(|entry| entry.message.content.clone())
        .collect();
    let begins =
        ["executionError: ", "refusedByPolicy: ", "deniedByUser: the person said no", "unknownTool: ", "timedOut: "];
    assert_eq!(results.len(), begins.len());
    for (result, begin) in results.iter().zip(begins) {
        assert!(result.starts_with(begin), "{result} is not {begin}");
    }
    let dump = agent.conversation().dump();
    assert!(!dump.contains("the worker died"), "{dump}");
    // Neither do an exhausted budget and a broker that is gone leave anything there.
    for break_it in [|world: &World| world.0.budget.set(0), |world: &World| world.0.broker_down.set(true)] {
        let world = World::new(vec![vec![Piece::Text("never")]]);
        break_it(&world);
        let (_, agent) = turn(&world);
        assert!(agent.conversation().entries().iter().all(|entry| entry.message.role == Role::User));
        assert!(!agent.conversation().dump().contains("budget"), "{}", agent.conversation().dump());
    }
}

/// Requirement D22: after five minutes a question is a denial, which is recorded and told of under its own name.
#[test]
fn d22_a_question_that_nobody_answers_is_a_denial_and_an_event() {
    for (tool, outcome) in [("write", Outcome::DeniedByUser), ("delete", Outcome::StepUpFailed)] {
        let world = World::new(vec![vec![call("a", tool, "{\"n\":1}")], vec![]]);
        // The answer comes a millisecond late.
        world.0.answers.borrow_mut().push_back(Answer::Yes);
        world.0.secrets.borrow_mut().push_back(Secret::Given("open sesame".into()));
        world.0.thinks.set(300_001 * MS);
        let heard = Rc::new(Heard::default());
        let mut agent = following(&world, SessionLimits::default(), heard.clone());
        assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
        assert!(world.effects().is_empty(), "an answer after the time has no effect");
        assert_eq!(world.outcomes(), [outcome]);
        let records = heard.0.borrow();
        let asked = records.iter().find_map(|record| match &record.event {
            Event::ApprovalRequested(approval) => Some((record.at, approval.clone())),
            _ => None,
        });
        let (at, approval) = asked.unwrap();
        assert_eq!(approval.expires, at + 300_000 * MS);
        let late = records.iter().find(|record| record.event.name() == "approval_timeout").unwrap();
        assert_eq!(late.event, Event::ApprovalTimeout { approval_id: approval.id.clone() });
        assert_eq!(late.at, approval.expires);
        assert_eq!(heard.count("approval_resolved"), 0);
        let audited = world.0.messages.borrow().iter().find(|event| event.kind == "approval.timeout").cloned().unwrap();
        let field = |name: &str| audited.fields.iter().find(|field| field.name == name).unwrap().value.clone();
        assert_eq!(
            (field("approvalId"), field("callId"), field("waitedMs")),
            (approval.id.clone(), "a".into(), "300000".into())
        );
        world.check_audit();
    }
}

/// Requirement D23: the model reads that a call was denied, and why.
#[test]
fn d23_a_denial_returns_to_the_model_with_its_reason() {
    let world = World::new(vec![vec![call("a", "write", "{\"n\":1}")], vec![Piece::Text("I see.")]]);
    world.0.answers.borrow_mut().push_back(Answer::No);
    let (end, _) = turn(&world);
    assert_eq!(end, TurnEnd::Answered);
    let requests = world.0.requests.borrow();
    let last = requests.last().unwrap().messages.last().unwrap();
    assert_eq!((last.role, last.content.as_str()), (Role::Tool, "deniedByUser: the person said no"));
}

/// Requirement C25: each kind of tool has its own limit, a tool's own comes first, and the outcome says that it was the time.
#[test]
fn c25_each_kind_of_tool_has_its_own_time_limit() {
    use capos_schema::models::ToolDescriptor;
    use capos_schema::system::LauncherClient;
    let limits = SessionLimits::default();
    let plain = ToolDescriptor { category: "mutating".into(), ..ToolDescriptor::default() };
    let kinds = [
        (plain.clone(), 30_000),
        (ToolDescriptor { interface_id: LauncherClient::INTERFACE_ID, ..plain.clone() }, 300_000),
        (ToolDescriptor { category: "outbound".into(), ..plain.clone() }, 60_000),
        (ToolDescriptor { category: "outbound".into(), timeout_ms: 5, ..plain }, 5),
    ];
    for (descriptor, wanted) in kinds {
        assert_eq!(capos_agent::time_limit(&descriptor, &limits), wanted, "{descriptor:?}");
        // The loop keeps to it: a call that never ends.
        let tool = capos_agent::Tool {
            descriptor: ToolDescriptor {
                name: "read".into(),
                handle: "/object/r".into(),
                abortable: true,
                permission: PermissionMode::Auto,
                ..descriptor
            },
            max_result: 64,
            ..capos_agent::Tool::default()
        };
        let call = Piece::Call {
            id: "a".into(),
            name: "read".into(),
            handle: "/object/r".into(),
            arguments: r#"{"ms":9000000,"n":1}"#.into(),
        };
        let world = World::new(vec![vec![call], vec![]]);
        let mut agent = agent(&world, SessionLimits { max_seconds: 1 << 30, ..limits.clone() });
        world.run(agent.turn("go", &capos_agent::Snapshot::new(vec![tool]).unwrap()));
        let event = world.0.events.borrow().last().cloned().unwrap();
        assert_eq!((event.outcome, event.error), (Outcome::TimedOut, format!("it did not end within {wanted} ms")));
        assert!(world.0.clock.get() / MS < u64::from(wanted) + 100);
    }
}

/// Requirement D20, the state of it: when the session's time is over, nothing begins any more, and the run waits for a session
/// that resumes it.
#[test]
fn d20_when_the_policy_has_expired_the_run_is_paused_and_nothing_begins() {
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1,"ms":90}"#), call("b", "read", "{\"n\":2}")], vec![]]);
    let heard = Rc::new(Heard::default());
    let mut agent = following(&world, SessionLimits { max_seconds: 1, ..SessionLimits::default() }, heard.clone());
    world.0.clock.set(950 * MS);
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Time(1));
    assert_eq!(world.effects(), [r#"{"ms":90,"n":1}"#], "the second had not begun");
    assert_eq!(agent.course().run_state(), RunState::PausedForEvent);
    assert_eq!(heard.count("policy_expired"), 1);
    assert_eq!(world.0.requests.borrow().len(), 1);
    check_table(&world);
    world.check_audit();
}

/// Requirement D20: a policy that expires in mid-run pauses the run, and one that is renewed lets it go on.
#[test]
fn d20_a_run_waits_for_a_policy_that_has_expired() {
    let world = World::new(vec![
        vec![call("a", "read", r#"{"n":1,"ms":90}"#), call("b", "read", "{\"n\":2}")],
        vec![Piece::Text("I go on.")],
    ]);
    let heard = Rc::new(Heard::default());
    let mut agent = following(&world, SessionLimits::default(), heard.clone());
    world.0.policy_expires.set(50 * MS);
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Policy);
    assert_eq!(world.effects(), [r#"{"ms":90,"n":1}"#], "the second had not begun");
    assert_eq!(agent.course().run_state(), RunState::PausedForEvent);
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Policy, "it still has");
    assert_eq!((heard.count("policy_expired"), world.0.requests.borrow().len()), (2, 1));
    world.0.policy_expires.set(u64::MAX);
    assert_eq!(world.run(agent.go_on(&snapshot())), TurnEnd::Answered);
    assert_eq!(agent.course().run_state(), RunState::Idle);
    check_table(&world);
    world.check_audit();
}

/// Each event of a run is told once, with all ids, in the order in which things happen.
#[test]
fn e08_a_run_tells_of_its_events_with_all_ids() {
    let world = World::new(vec![
        vec![Piece::Text("I write."), call("a", "write", "{\"n\":1}"), Piece::Usage(7)],
        vec![Piece::Text("Done.")],
    ]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    let heard = Rc::new(Heard::default());
    let mut agent = following(&world, SessionLimits::default(), heard.clone());
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
    let wanted = [
        "step_started",
        "llm_request_started",
        "text_chunk",
        "llm_request_completed",
        "tool_requested",
        "approval_requested",
        "approval_resolved",
        "tool_started",
        "tool_completed",
        "step_completed",
        "step_started",
        "llm_request_started",
        "text_chunk",
        "llm_request_completed",
        "step_completed",
    ];
    assert_eq!(heard.names(), wanted);
    for (at, record) in heard.0.borrow().iter().enumerate() {
        let ids = record.ids.members().map(|(_, id)| id.to_string());
        let step = if at < 10 { 1 } else { 2 };
        assert_eq!(ids, ["m1".to_string(), "s1".into(), "c1-1".into(), format!("c1-1-{step}")], "{record:?}");
    }
    let records = heard.0.borrow();
    let latency = |name: &str| {
        let found = records.iter().find(|record| record.event.name() == name).unwrap();
        found.event.payload("")["latencyMs"].as_u64().unwrap()
    };
    assert!((3..10).contains(&latency("approval_resolved")), "{}", latency("approval_resolved"));
    assert!(latency("tool_completed") > latency("approval_resolved"));
    let at = |name: &str| records.iter().find(|record| record.event.name() == name).unwrap().at;
    assert_eq!(latency("tool_completed"), (at("tool_completed") - at("tool_requested")) / MS);
}

/// Requirement E09: nobody reads, and the run is as long as if nobody had to be told.
#[test]
fn e09_a_sink_that_is_not_read_never_delays_the_run() {
    let script = || -> Vec<Vec<Piece>> {
        let step = |n: u64| {
            let mut pieces = vec![Piece::Text("some text"); 40];
            pieces.push(call("", "read", &format!("{{\"n\":{n}}}")));
            pieces
        };
        (0..10).map(step).chain([vec![Piece::Text("done")]]).collect()
    };
    let run = |sink: Rc<dyn Sink>| {
        let world = World::new(script());
        let mut agent = following(&world, SessionLimits::default(), sink);
        assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
        world.0.clock.get()
    };
    let stalled = Rc::new(Buffer::new(16, 4096));
    let all = Rc::new(Heard::default());
    assert_eq!(run(stalled.clone()), run(all.clone()), "in time of the simulation, to the nanosecond");
    let told = all.0.borrow().len();
    assert_eq!(stalled.len(), 16);
    assert_eq!(usize::try_from(stalled.take_dropped()).unwrap() + 16, told);
    assert!(told > 400 && stalled.bytes() <= 4096);
    // The newest are those that are left.
    let last = core::iter::from_fn(|| stalled.pop()).last().unwrap();
    assert_eq!(Some(&last), all.0.borrow().last());
}

#[test]
fn a_course_is_shared_by_the_conversations_of_a_session() {
    let world = World::new(vec![vec![Piece::Usage(5)], vec![Piece::Usage(6)]]);
    let course = Rc::new(Course::default());
    let mut first = agent(&world, SessionLimits::default()).with_course(course.clone());
    world.run(first.turn("one", &snapshot()));
    let again = Agent::new(
        Rc::new(world.clone()),
        session(SessionLimits::default()),
        String::new(),
        Conversation::new("c2".into()),
        world.0.backlog.clone(),
    );
    let mut second = again.with_course(course.clone());
    world.run(second.turn("two", &snapshot()));
    assert_eq!((course.runs(), course.tokens(), &*course.ids().run), (2, 11, "c2-1"));
}

//! Requirement I15: child runs, in the simulated world. C41: two of them that speak and have no tools.

use std::cell::RefCell;
use std::rc::Rc;

use capos_agent::world::{Amounts, Answer, Parent, RunState};
use capos_agent::{
    Agent, ChildRun, Conversation, Course, Going, Session, Signal, Snapshot, Tool, TurnEnd, handle_text,
};
use capos_budget::Dimension;
use capos_run_state::{Buffer, Checkpoint, Record};
use capos_schema::authority::{ChildRunsClient, Provenance, RemindersClient, SessionLimits};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::*;
use serde_json::json;

use crate::budget::Steps;
use crate::kills::fate;
use crate::machine::Machine;
use crate::world::{MS, Piece, World, agent, call, handle, session, snapshot};

/// What a child run has for itself.
pub struct Inner {
    pub number: u32,
    pub shares: Amounts,
    pub steps: RefCell<Steps>,
    cancel: Signal,
}

impl Inner {
    pub fn interrupt(&self) -> LocalBoxFuture<'static, ()> {
        let cancel = self.cancel.clone();
        Box::pin(async move { cancel.wait().await })
    }
}

impl Parent for World {
    fn child(&self, ChildRun { number, shares, cancel, .. }: ChildRun) -> Result<Rc<Self>, String> {
        assert!(self.1.is_none(), "a child run has no child runs");
        let limit = match shares.get(Dimension::Steps) {
            0 => u64::MAX,
            steps => steps,
        };
        let mut steps = Steps::default();
        steps.limit = limit;
        let steps = RefCell::new(steps);
        Ok(Rc::new(World(self.0.clone(), Some(Rc::new(Inner { number, shares, steps, cancel })))))
    }
}

fn delegates() -> String {
    handle_text([99; 16])
}

/// The tools of the simulation, and the one that begins child runs.
fn tools() -> Snapshot {
    let descriptor = ToolDescriptor {
        name: "delegate".into(),
        interface_id: ChildRunsClient::INTERFACE_ID,
        handle: delegates(),
        permission: PermissionMode::Auto,
        category: "readOnly".into(),
        abortable: true,
        timeout_ms: 10_000,
        ..ToolDescriptor::default()
    };
    let tool =
        Tool { descriptor, capability: 20, touches: vec![20], max_result: 64, untrusted: true, ..Tool::default() };
    Snapshot::new(snapshot().tools().iter().cloned().chain([tool]).collect()).unwrap()
}

fn world(script: Vec<Vec<Piece>>) -> World {
    let world = World::new(script);
    world.0.modes.borrow_mut().insert("delegate".into(), PermissionMode::Auto);
    world
}

/// A call that begins a child run with this task and these tools, and other arguments.
fn delegate(id: &str, task: &str, tools: &[&str], more: serde_json::Value) -> Piece {
    let mut arguments = json!({ "task": task, "tools": tools });
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    Piece::Call { id: id.into(), name: "delegate".into(), handle: delegates(), arguments: arguments.to_string() }
}

fn said(text: &'static str) -> Vec<Piece> {
    vec![Piece::Text(text)]
}

fn read(n: u64) -> Vec<Piece> {
    vec![call("", "read", &format!("{{\"n\":{n}}}"))]
}

fn turn_with(world: &World, max_iterations: u32) -> (TurnEnd, Agent<World>) {
    let mut agent = agent(world, SessionLimits { max_iterations, ..SessionLimits::default() });
    let end = world.run(agent.turn("please", &tools()));
    world.drain();
    world.check_audit();
    (end, agent)
}

/// The result of the parent's call.
fn result(agent: &Agent<World>, id: &str) -> ChatMessage {
    let entries = agent.conversation().entries();
    entries.iter().find(|entry| entry.message.tool_call_id == id).unwrap().message.clone()
}

#[test]
fn i15_a_child_run_knows_its_task_alone_and_has_the_named_tools() {
    let world = world(vec![
        vec![delegate("d", "Count the files.", &["read", "read"], json!({}))],
        read(1),
        said("There are two."),
        said("Two files."),
    ]);
    let (end, agent) = turn_with(&world, 8);
    assert_eq!(end, TurnEnd::Answered);
    let requests = world.0.requests.borrow();
    let names = |request: &InferenceRequest| request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!(requests.len(), 4);
    assert_eq!(names(&requests[1]), ["read"]);
    let [system, task] = requests[1].messages.as_slice() else { panic!("{:?}", requests[1].messages) };
    assert!(system.content.starts_with("You are careful.") && system.content.contains("You work for another model"));
    assert_eq!((task.role, task.content.as_str()), (Role::User, "Count the files."));
    assert_eq!(task.provenance, Provenance::Untrusted, "a model wrote it");
    // The parent sees the answer alone.
    assert_eq!(requests[3].messages.len(), 4);
    let found = result(&agent, "d");
    assert_eq!((found.content.as_str(), found.provenance), ("There are two.", Provenance::Untrusted));
    // Records name the child run, and its parent by its name.
    let events = world.0.events.borrow();
    let of = |name: &str| events.iter().find(|event| event.descriptor.name == name).unwrap().conversation.clone();
    assert_eq!((of("delegate").as_str(), of("read").as_str()), ("c1", "c1-1.1"));
    let records = world.0.messages.borrow();
    let record = records.iter().find(|record| record.kind == "run.child.end").unwrap();
    let field = |name: &str| record.fields.iter().find(|field| field.name == name).unwrap().value.clone();
    assert_eq!([field("run"), field("parent"), field("callId")], ["c1-1.1-1", "c1-1", "d"]);
    assert_eq!([field("outcome"), field("modelCalls")], ["answered", "2"]);
    let (checkpoint, _) = world.0.points.borrow().last().unwrap().clone();
    let [child] = checkpoint.progress.children.list.as_slice() else { panic!("{checkpoint:?}") };
    assert_eq!((child.task.as_str(), child.state, child.asked), ("Count the files.", RunState::Completed, 2));
}

/// A caller that is told of the session is told of its child runs, and a child run ends no later than its parent.
#[test]
fn i15_a_child_run_is_a_part_of_the_course_of_its_session() {
    let world = world(vec![
        vec![delegate("d", "Read.", &["read"], json!({}))],
        vec![call("", "read", r#"{"n":1,"ms":40}"#)],
        said("never"),
    ]);
    let told = Rc::new(Buffer::default());
    let course = Rc::new(Course::new("m1", "s1", told.clone()));
    let mut agent = agent(&world, SessionLimits::default()).with_course(course.clone());
    // The person ends the run after its step while the child run makes its first.
    world.at(30, move |_| course.end_after_step());
    assert_eq!(world.run(agent.turn("please", &tools())), TurnEnd::Stopped);
    assert_eq!((world.effects().len(), world.0.requests.borrow().len()), (1, 2));
    let of_child = |record: &Record| &*record.ids.run == "c1-1.1-1" && &*record.ids.session == "s1";
    assert!(core::iter::from_fn(|| told.pop()).any(|record| of_child(&record)));
}

/// A child run has the labels of what its parent has seen, and its parent those of what the child has seen.
#[test]
fn i15_labels_go_with_the_task_and_come_back_with_the_answer() {
    let world = world(vec![
        vec![call("s", "secret", r#"{"n":1}"#)],
        vec![delegate("d", "Copy it.", &["copy"], json!({}))],
        vec![call("", "copy", r#"{"n":2}"#)],
        said("Copied."),
        read(3),
        said("Done."),
    ]);
    let (end, agent) = turn_with(&world, 20);
    assert_eq!(end, TurnEnd::Answered);
    let given: Vec<Vec<String>> = world.0.given.borrow().iter().map(|label| label.classes.clone()).collect();
    let (key, both) = (vec!["secret.key".to_string()], vec!["pii.log".to_string(), "secret.key".to_string()]);
    assert_eq!(given, [vec![], key.clone(), key, both.clone()]);
    assert_eq!(result(&agent, "d").label.classes, both);
}

#[test]
fn i15_a_child_run_has_no_more_tools_than_its_parent_and_no_child_runs() {
    let stolen = Piece::Call {
        id: "x".into(),
        name: "delegate".into(),
        handle: delegates(),
        arguments: json!({ "task": "Again.", "tools": [] }).to_string(),
    };
    // Neither is one that begins a child run, so they have no numbers of any.
    let named = |name: &str, handle| Piece::Call { id: name.into(), name: name.into(), handle, arguments: "{}".into() };
    let world = world(vec![
        vec![
            named("delegate", handle("read")),
            named("read", delegates()),
            delegate("a", "Go.", &["format_disk"], json!({})),
            delegate("b", "Go.", &["delegate"], json!({})),
            delegate("c", " ", &[], json!({})),
            delegate("d", "Go.", &["power_off"], json!({})),
        ],
        vec![stolen, call("y", "read", "{}"), call("z", "power_off", "{}")],
        said("I may not."),
        said("Done."),
    ]);
    let (end, agent) = turn_with(&world, 9);
    assert_eq!(end, TurnEnd::Answered);
    let text = |id: &str| result(&agent, id).content;
    assert!(text("delegate").starts_with("unknownTool") && text("read").starts_with("unknownTool"));
    assert!(text("a").starts_with("invalidArguments: $.tools: \"format_disk\" is no tool"), "{}", text("a"));
    assert!(text("b").starts_with("invalidArguments: $.tools: \"delegate\" is no tool"), "{}", text("b"));
    assert!(text("c").starts_with("invalidArguments: $.task: it is empty"), "{}", text("c"));
    assert_eq!(text("d"), "I may not.");
    assert!(world.effects().is_empty());
    let events = world.0.events.borrow();
    let of_child = events.iter().filter(|event| event.conversation == "c1-1.4");
    let outcomes: Vec<Outcome> = of_child.map(|event| event.outcome).collect();
    assert_eq!(outcomes, [Outcome::UnknownTool, Outcome::UnknownTool, Outcome::RefusedByPolicy]);
    // Calls that were not permitted are no child runs.
    let (checkpoint, _) = world.0.points.borrow().last().unwrap().clone();
    assert_eq!(checkpoint.progress.children.list.iter().map(|child| child.number).collect::<Vec<_>>(), [4]);
}

/// The person who typed the request sees little of what a child run does.
#[test]
fn a_child_run_sets_no_reminders() {
    let descriptor = ToolDescriptor {
        name: "remind".into(),
        interface_id: RemindersClient::INTERFACE_ID,
        handle: handle_text([98; 16]),
        permission: PermissionMode::Consent,
        category: "mutating".into(),
        ..ToolDescriptor::default()
    };
    let remind = Tool { descriptor, capability: 21, touches: vec![21], max_result: 64, ..Tool::default() };
    let tools = Snapshot::new(tools().tools().iter().cloned().chain([remind]).collect()).unwrap();
    let world = world(vec![vec![delegate("a", "Remind them.", &["remind"], json!({}))], said("Done.")]);
    let mut agent = agent(&world, SessionLimits::default());
    assert_eq!(world.run(agent.turn("please", &tools)), TurnEnd::Answered);
    world.drain();
    world.check_audit();
    let why = result(&agent, "a").content;
    assert!(why.starts_with("invalidArguments: $.tools: \"remind\" is no tool that you can pass on"), "{why}");
}

/// The model calls of a child run are its parent's. At its limit it ends, and nobody is asked.
#[test]
fn i15_model_calls_are_divided_and_nobody_is_asked_for_a_childs() {
    let script = [vec![delegate("d", "Read all.", &["read"], json!({}))]].into_iter().chain((0..20).map(read));
    let world = world(script.collect());
    let (end, agent) = turn_with(&world, 8);
    // One call of the parent's eight, then three of the seven that are left, and then the other four.
    assert_eq!(end, TurnEnd::Iterations(8));
    assert_eq!(world.0.requests.borrow().len(), 8);
    assert_eq!(*world.0.prompts.borrow(), ["8 made, 8 more"]);
    let why = "executionError: the child run has no answer: it has made its 3 model calls";
    assert_eq!(result(&agent, "d").content, why);
    // It may ask for another number, and for no more than are left.
    let calls = |n: u64| delegate(&format!("d{n}"), "Read.", &["read"], json!({ "modelCalls": n }));
    let script =
        [vec![calls(1), calls(7), calls(6)], read(1)].into_iter().chain((2..8).map(read)).chain([said("never")]);
    let world = self::world(script.collect());
    let (end, agent) = turn_with(&world, 8);
    assert_eq!((end, world.0.requests.borrow().len()), (TurnEnd::Iterations(8), 8));
    assert!(result(&agent, "d1").content.contains("it has made its 1 model call"));
    let why = "executionError: $.modelCalls: 6 model calls of this run are left";
    assert_eq!(result(&agent, "d7").content, why);
    assert!(result(&agent, "d6").content.contains("it has made its 6 model calls"));
}

/// Requirements C32 and C33: a child run has failed if its model does not answer or filters the answer, since nothing continues it.
#[test]
fn c32_a_child_run_without_an_answer_has_failed() {
    let filtered = Piece::Finish(FinishReason::ContentFilter);
    for (piece, times, why) in [(Piece::Break, 4, "the worker died"), (filtered, 1, "content filter")] {
        let begins = vec![delegate("d", "Read.", &["read"], json!({ "modelCalls": 5 }))];
        let script = [begins].into_iter().chain(vec![vec![piece]; times]).chain([said("Done.")]);
        let world = world(script.collect());
        let (end, agent) = turn_with(&world, 9);
        assert_eq!(end, TurnEnd::Answered);
        let told = result(&agent, "d").content;
        assert!(told.contains("the child run has no answer: failed: ") && told.contains(why), "{told}");
        let records = world.0.messages.borrow();
        let record = records.iter().find(|record| record.kind == "run.child.end").unwrap();
        let state = record.fields.iter().find(|field| field.name == "state").unwrap();
        assert_eq!(state.value, RunState::Failed.name());
    }
}

/// Where another run would be paused, a child run fails: nothing continues it.
#[test]
fn c32_a_child_run_is_never_paused() {
    let world = world(vec![vec![delegate("d", "Read.", &["read"], json!({ "modelCalls": 5 }))]]);
    world.0.rate.set(1);
    let (end, agent) = turn_with(&world, 9);
    assert_eq!(end, TurnEnd::Rate("too many requests".into()));
    let why = "executionError: the child run has no answer: failed: the model gave no answer: too many requests";
    assert_eq!(result(&agent, "d").content, why);
    let records = world.0.messages.borrow();
    let record = records.iter().find(|record| record.kind == "run.child.end").unwrap();
    let state = record.fields.iter().find(|field| field.name == "state").unwrap();
    assert_eq!(state.value, RunState::Failed.name());
    let points = world.0.points.borrow();
    let children = &points.last().unwrap().0.progress.children;
    assert_eq!((children.list[0].state, children.asked, children.reserved), (RunState::Failed, 1, 0));
}

#[test]
fn i15_a_child_run_ends_at_its_part_of_the_tool_calls_and_of_the_time() {
    let script = [vec![delegate("d", "Read.", &["read"], json!({ "toolCalls": 2 }))], read(1), read(2), said("Done.")];
    let world = world(script.into());
    let (end, agent) = turn_with(&world, 20);
    assert_eq!((end, world.effects().len()), (TurnEnd::Answered, 2));
    let why = "executionError: the child run has no answer: failed: a budget is used up: tool calls used up";
    assert!(result(&agent, "d").content.starts_with(why), "{}", result(&agent, "d").content);
    // Whatever the model does, the child run ends at the end of its time.
    let script = [
        vec![delegate("d", "Wait.", &[], json!({ "seconds": 2 }))],
        vec![Piece::Wait(60_000), Piece::Text("late")],
        said("Done."),
    ];
    let world = self::world(script.into());
    let (end, agent) = turn_with(&world, 20);
    assert_eq!(end, TurnEnd::Answered);
    assert_eq!(result(&agent, "d").content, "timedOut: the child run did not end within 2000 ms");
    assert_eq!(world.cancelled_streams(), 1);
}

/// Consents are asked as always: the question says that a child run asks, and shows its task. No two questions are open at one time.
#[test]
fn i15_questions_of_child_runs_name_their_task_and_come_one_at_a_time() {
    let child = |id: &str, task: &str| delegate(id, task, &["write"], json!({}));
    let write = |n: u64| vec![call("", "write", &format!("{{\"n\":{n}}}"))];
    let world = world(vec![
        vec![child("a", "Write one."), call("w", "write", r#"{"n":9}"#), child("b", "Write \u{1b}two.")],
        write(1),
        said("One."),
        write(2),
        said("Two."),
        said("Done."),
    ]);
    world.0.answers.borrow_mut().extend([Answer::Yes; 3]);
    let (end, _) = turn_with(&world, 40);
    assert_eq!(end, TurnEnd::Answered);
    let asks = |n: u64, note: &str| format!("write {{\"n\":{n}}} {note}").trim_end().to_string();
    let of_child = |task: &str| format!("A child run asks. Its task: \"{task}\".");
    let expected = [asks(1, &of_child("Write one.")), asks(9, ""), asks(2, &of_child("Write \\u{1b}two."))];
    assert_eq!(*world.0.prompts.borrow(), expected);
    let shown = world.0.shown.borrow();
    let open = shown.iter().filter(|shown| shown.starts_with("asked") || *shown == "answered");
    let alternate = ["asked", "answered"].into_iter().cycle();
    assert!(open.zip(alternate).all(|(shown, kind)| shown.starts_with(kind)), "{shown:#?}");
    assert_eq!(world.effects().len(), 3);
}

/// So do questions of a program whose call runs in parallel with the child run: while one is open, the other waits.
#[test]
fn i15_questions_of_a_child_run_and_of_a_program_come_one_at_a_time() {
    let world = world(vec![
        vec![delegate("d", "Write.", &["write"], json!({})), call("c", "careful", r#"{"n":1,"ms":40}"#)],
        vec![call("w", "write", r#"{"n":7}"#)],
        said("Child done."),
        said("Done."),
    ]);
    world.0.modes.borrow_mut().insert("ask_before_step".into(), PermissionMode::Consent);
    world.0.answers.borrow_mut().extend([Answer::Yes; 2]);
    world.0.thinks.set(20_000 * MS);
    let (end, _) = turn_with(&world, 40);
    world.drain();
    assert_eq!((end, world.0.prompts.borrow().len()), (TurnEnd::Answered, 2));
    let shown = world.0.shown.borrow();
    let open = shown.iter().filter(|shown| shown.starts_with("asked") || *shown == "answered");
    let alternate = ["asked", "answered"].into_iter().cycle();
    assert!(open.zip(alternate).all(|(shown, kind)| shown.starts_with(kind)), "{shown:#?}");
}

/// Ctrl-C ends the child run with its parent, wherever that is: each of its calls has an outcome and a record.
#[test]
fn i15_a_child_run_is_cancelled_with_its_parent() {
    let (mut interrupted, mut begun) = (0, 0);
    for at in 1..60 {
        let world = world(vec![
            vec![delegate("d", "Work.", &["slow", "write"], json!({})), call("w", "write", r#"{"n":3}"#)],
            vec![call("a", "slow", r#"{"n":1}"#), call("b", "write", r#"{"n":2}"#)],
            said("One."),
            said("Done."),
        ]);
        world.0.answers.borrow_mut().extend([Answer::Yes; 2]);
        world.0.interrupt_at.set(Some(at * MS));
        let (end, agent) = turn_with(&world, 20);
        if end == TurnEnd::Answered {
            continue;
        }
        assert_eq!(end, TurnEnd::Interrupted, "at {at}");
        interrupted += 1;
        let events = world.0.events.borrow();
        begun += usize::from(events.iter().any(|event| event.conversation == "c1-1.1"));
        // Nothing begins after it.
        let began = world.0.began.borrow();
        assert!(began.values().all(|began| *began <= at * MS), "at {at}: {began:?}");
        let proposed = agent.conversation().entries().iter().any(|entry| !entry.message.tool_calls.is_empty());
        assert!(!proposed || result(&agent, "d").content.starts_with("cancelled") || world.effects().len() >= 2);
    }
    assert!(interrupted > 20 && begun > 10, "{interrupted} interrupted, {begun} with a child run");
}

/// C41: two narrow runs speak to each other by their parent. Neither has a tool, and each is capped.
#[test]
fn c41_two_child_runs_without_tools_speak_and_each_is_capped() {
    let part = json!({ "modelCalls": 1, "tokens": 200 });
    let world = world(vec![
        vec![delegate("a", "You keep the inn. Greet the guest.", &[], part.clone())],
        said("Welcome! A bed for the night?"),
        vec![delegate("b", "You are the guest. The innkeeper said: Welcome! A bed for the night?", &[], part)],
        read(1),
        said("The innkeeper greets, and the guest is silent."),
    ]);
    let (end, agent) = turn_with(&world, 20);
    assert_eq!(end, TurnEnd::Answered);
    let requests = world.0.requests.borrow();
    assert!(requests[1].tools.is_empty() && requests[3].tools.is_empty());
    assert_eq!(result(&agent, "a").content, "Welcome! A bed for the night?");
    // The second one proposes a call, which it has no tool for, and no model call is left for it.
    assert!(result(&agent, "b").content.ends_with("it has made its 1 model call"));
    assert!(world.effects().is_empty());
    let (checkpoint, _) = world.0.points.borrow().last().unwrap().clone();
    let states: Vec<RunState> = checkpoint.progress.children.list.iter().map(|child| child.state).collect();
    assert_eq!(states, [RunState::Completed, RunState::Failed]);
}

/// Steps of the run that is killed, each with a child run that has one effect.
const STEPS: u64 = 4;

fn script(from: u64) -> Vec<Vec<Piece>> {
    let step = |n: u64| {
        [
            vec![delegate(&format!("d{n}"), &format!("Do {n}."), &["slow"], json!({ "toolCalls": 2 }))],
            vec![call(&format!("e{n}"), "slow", &format!("{{\"n\":{n}}}"))],
            said("It is done."),
        ]
    };
    (from..STEPS).flat_map(step).chain([said("All is done.")]).collect()
}

/// Kills a run at this boundary, and lets the next session end it. How many boundaries there were, whether it was killed, and
/// whether a child run was cut off.
fn live(kill: u64) -> (u64, bool, bool) {
    let world = world(script(0));
    let limits = SessionLimits { max_iterations: 100, ..SessionLimits::default() };
    let machine = Machine::new(kill);
    *world.0.machine.borrow_mut() = Some(machine.clone());
    let mut first = agent(&world, limits.clone());
    let end = world.run_for(first.turn("Do all of it.", &tools()), usize::MAX);
    let boundaries = machine.boundaries.get();
    if let Some(end) = end {
        assert_eq!(end, TurnEnd::Answered);
        assert_eq!(world.effects().len(), STEPS as usize);
        return (boundaries, false, false);
    }
    drop(first);
    world.power_off();
    world.0.machine.borrow_mut().take();
    let machine = machine.restarted("s2", u64::MAX);
    *world.0.machine.borrow_mut() = Some(machine.clone());
    let (messages, run) = machine.load("c1");
    let Some(run) = run.filter(|run| run.open) else { return (boundaries, true, false) };
    let mut conversation = Conversation::new("c1".into());
    for message in &messages {
        conversation.load_message(message).unwrap();
    }
    let checkpoint = Checkpoint::read(&run.head, &run.json).unwrap();
    let cut = checkpoint.progress.children.list.iter().any(|child| !child.state.is_over());
    let name = |name: &str| Some(if name == "delegate" { delegates() } else { handle(name) });
    let open = conversation.resume(world.0.clock.get(), name, |call| fate(&world, call));
    // The call that began the child run is told as not known, or as what the log knows of it, and is not repeated.
    for (call, _) in &open {
        assert_eq!(call.name, "delegate", "killed at {kill}");
    }
    machine.resumed(messages.len());
    let proposed = conversation.entries().iter().filter(|entry| !entry.message.tool_calls.is_empty()).count();
    *world.0.script.borrow_mut() = script(proposed as u64).into();
    let session = Session { id: "s2".into(), ..session(limits) };
    let mut agent = Agent::new(Rc::new(world.clone()), session, "You are careful.".into(), conversation, Rc::default());
    agent.continue_run(Going::of(&checkpoint, 8), Vec::new());
    if agent.can_go_on() {
        let rest = async {
            agent.save().await;
            agent.go_on(&tools()).await
        };
        assert_eq!(world.run(rest), TurnEnd::Answered, "killed at {kill}");
    }
    let mut effects = world.effects();
    effects.sort();
    effects.dedup();
    assert_eq!(effects.len(), world.effects().len(), "killed at {kill}: an effect is doubled");
    // At most the effect of the child run that was cut off is missing.
    assert!(effects.len() as u64 + u64::from(!open.is_empty()) >= STEPS, "killed at {kill}: {effects:?}");
    let (_, run) = machine.load("c1");
    let progress = capos_run_state::read_progress(&run.unwrap().json).unwrap();
    let (used, truth) = (progress.used.get(Dimension::Steps), machine.truth.get().get(Dimension::Steps));
    // The part of a child run that was cut off counts as used: two tool calls, and the call that began it.
    assert!(used >= truth && used <= truth + STEPS + 3, "killed at {kill}: {used} counted, {truth} used");
    (boundaries, true, cut)
}

/// A run is killed anywhere in its child runs, and continues: no effect of a child is lost or doubled, and its part of the budget
/// counts as used.
#[test]
fn i15_a_run_that_is_killed_in_a_child_run_continues_and_repeats_nothing() {
    let (boundaries, ..) = live(u64::MAX);
    let (mut kills, mut cuts) = (0, 0);
    for at in 1..=boundaries {
        let (_, killed, cut) = live(at);
        kills += u64::from(killed);
        cuts += u64::from(cut);
    }
    println!("{boundaries} boundaries, {kills} kills, {cuts} child runs cut off");
    assert!(boundaries > 100 && kills + 2 >= boundaries && cuts > 40, "{boundaries}, {kills}, {cuts}");
}

/// A run does not know a file that was moved to the path of one that it wrote. The moves may be made in an earlier answer, in the
/// same one, or by a child run.
#[test]
fn i15_what_was_moved_to_a_path_is_not_known_there() {
    let change = |arguments: &str| call("", "change", arguments);
    let wrote = || vec![change(r#"{"pad":"own","path":"junk.txt"}"#)];
    let moves =
        || vec![change(r#"{"from":"junk.txt","to":"old.txt"}"#), change(r#"{"from":"thesis.txt","to":"junk.txt"}"#)];
    let delete = || call("", "write", r#"{"path":"junk.txt"}"#);
    let apart = vec![wrote(), moves(), vec![delete()], said("Done.")];
    let together = vec![wrote(), moves().into_iter().chain([delete()]).collect(), said("Done.")];
    let child = vec![vec![delegate("d", "Move.", &["change"], json!({}))], moves(), said("Moved."), vec![delete()]];
    let by_child = [wrote()].into_iter().chain(child).chain([said("Done.")]).collect();
    for (script, unread) in
        [(vec![wrote(), vec![delete()], said("Done.")], false), (apart, true), (together, true), (by_child, true)]
    {
        let world = world(script);
        world.0.answers.borrow_mut().push_back(Answer::Yes);
        assert_eq!(turn_with(&world, 20).0, TurnEnd::Answered);
        assert_eq!(*world.0.unread.borrow(), [unread]);
    }
}

/// A run may make six model calls, and each power cut falls into a child run that has made some. All that the child may have made
/// count, so the run makes no more than six until its person permits more.
#[test]
fn i15_model_calls_of_a_child_run_that_a_power_cut_ended_count() {
    const MOST: u32 = 6;
    let limits = SessionLimits { max_iterations: MOST, ..SessionLimits::default() };
    let (mut machine, mut made, mut lives) = (Machine::new(u64::MAX), 0, 0);
    loop {
        let first = delegate(&format!("d{lives}"), "Read.", &["read"], json!({ "modelCalls": 2 }));
        let world = world([vec![first]].into_iter().chain((0..8).map(|n| read(lives * 100 + n))).collect());
        *world.0.machine.borrow_mut() = Some(machine.clone());
        let session = Session { id: format!("s{lives}"), ..session(limits.clone()) };
        let (messages, run) = machine.load("c1");
        let mut conversation = Conversation::new("c1".into());
        for message in &messages {
            conversation.load_message(message).unwrap();
        }
        let name = |name: &str| Some(if name == "delegate" { delegates() } else { handle(name) });
        drop(conversation.resume(world.0.clock.get(), name, |call| fate(&world, call)));
        machine.resumed(messages.len());
        let mut agent =
            Agent::new(Rc::new(world.clone()), session, "You are careful.".into(), conversation, Rc::default());
        if let Some(run) = &run {
            agent.continue_run(Going::of(&Checkpoint::read(&run.head, &run.json).unwrap(), 8), Vec::new());
            if agent.is_at_limit() {
                break;
            }
        }
        let mut turn = Box::pin(async {
            match run {
                Some(_) => agent.go_on(&tools()).await,
                None => agent.turn("please", &tools()).await,
            }
        });
        // The machine is cut off in the child's second model call.
        let of_child = |request: &InferenceRequest| request.messages[0].content.contains("You work for another model");
        let mut polls = 0;
        while world.0.requests.borrow().iter().filter(|request| of_child(request)).count() < 2 {
            assert_eq!(world.run_for(turn.as_mut(), 1), None, "the turn ended");
            polls += 1;
            assert!(polls < 20_000, "the child run makes no second call");
        }
        made += world.0.requests.borrow().len();
        drop(turn);
        world.power_off();
        world.0.machine.borrow_mut().take();
        lives += 1;
        machine = machine.restarted(&format!("s{lives}"), u64::MAX);
    }
    assert_eq!((lives, made), (2, MOST as usize));
}

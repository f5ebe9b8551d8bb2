//! The person is asked about one thing at a time, what they replied is told to the broker, and they get further where a model
//! does not take the conversation.

use capos_agent::TurnEnd;
use capos_agent::world::{Answer, Host, Secret};
use capos_schema::audit::Phase;
use capos_schema::authority::{ConsentReach, Decision, Reply, SessionLimits, Span};
use capos_schema::models::{Outcome, PermissionMode, Role};
use proptest::prelude::*;

use crate::world::*;

#[test]
fn a_result_is_shown_before_the_next_question() {
    let calls = (1..=3).map(|n| call(&n.to_string(), "write", &format!("{{\"n\":{n}}}"))).collect();
    let world = World::new(vec![calls, vec![]]);
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::No, Answer::Yes]);
    turn(&world);
    let shown = world.0.shown.borrow();
    let told: Vec<&str> = shown
        .iter()
        .filter(|text| ["asked", "answered", "finished"].iter().any(|word| text.starts_with(word)))
        .map(|text| text.split_inclusive(' ').take(3).collect::<String>().leak().trim_end())
        .collect();
    let expected = [
        "asked write {\"n\":1}",
        "answered",
        "finished write 1",
        "asked write {\"n\":2}",
        "answered",
        "finished write 2",
        "asked write {\"n\":3}",
        "answered",
        "finished write 3",
    ];
    assert_eq!(told, expected);
}

/// Requirement D10: how far a consent reaches is the broker's to know, and a call that an earlier one covers is not asked about.
#[test]
fn d10_the_broker_hears_how_far_a_consent_reaches_and_says_what_it_covers() {
    let script = || vec![vec![call("a", "write", "{\"n\":1}"), call("b", "write", "{\"n\":2}")], vec![]];
    let world = World::new(script());
    let reach = ConsentReach { span: Span::Session, pattern: "notes".into() };
    *world.0.reach.borrow_mut() = reach.clone();
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::Yes]);
    turn(&world);
    assert_eq!(world.0.prompts.borrow().len(), 2);
    assert_eq!(*world.0.reaches.borrow(), [reach.clone(), reach]);
    let world = World::new(script());
    world.0.approvals.borrow_mut().insert("write".into(), "#7".into());
    turn(&world);
    assert!(world.0.prompts.borrow().is_empty(), "nobody is asked");
    assert_eq!(world.outcomes(), [Outcome::Ok; 2]);
    let told = world.0.shown.borrow().iter().filter(|text| text.contains("by your answer #7")).count();
    assert_eq!(told, 2, "the person sees by which answer it runs");
    world.check_audit();
    // A consent that ended between the broker's two words lets nothing through.
    let world = World::new(script());
    world.0.approvals.borrow_mut().insert("write".into(), "#7".into());
    world.0.revoked.set(true);
    turn(&world);
    assert_eq!(world.outcomes(), [Outcome::RefusedByPolicy; 2]);
    // Neither that nor a call that needs no consent runs by an answer.
    world.0.script.borrow_mut().extend([vec![call("c", "read", "{\"n\":3}")], vec![]]);
    turn(&world);
    assert_eq!(world.effects().len(), 1);
    assert!(!world.0.shown.borrow().iter().any(|text| text.contains("by your answer")));
}

/// What was shown of questions and ends, each as its first three words.
fn told(world: &World) -> Vec<String> {
    let shown = world.0.shown.borrow();
    let words = ["asked", "answered", "started", "finished"];
    let told = shown.iter().filter(|text| words.iter().any(|word| text.starts_with(word)));
    told.map(|text| text.split(' ').take(3).collect::<Vec<&str>>().join(" ")).collect()
}

/// One call that needs consent, and two that do not, one of them with the same capability.
#[test]
fn c23_a_waiting_question_blocks_only_its_call() {
    let calls =
        vec![call("a", "write", "{\"n\":1}"), call("b", "read", "{\"n\":2}"), call("c", "read_other", "{\"n\":3}")];
    let world = World::new(vec![calls, vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(1000 * MS);
    let (end, agent) = turn(&world);
    assert_eq!(end, TurnEnd::Answered);
    let began = world.0.began.borrow().clone();
    let of = |n: u32| began[&format!("{{\"n\":{n}}}")];
    assert!(of(2) < 100 * MS && of(3) < 100 * MS, "{began:?}");
    assert!(of(1) > 1000 * MS, "{began:?}");
    // Their lines come after the question, and the results in the order of the calls.
    let expected = [
        "started read b",
        "asked write {\"n\":1}",
        "answered",
        "finished read b",
        "finished read_other c",
        "started write a",
        "finished write a",
    ];
    assert_eq!(told(&world), expected);
    let results = agent.conversation().entries().iter().filter(|entry| entry.message.role == Role::Tool);
    let ids: Vec<&str> = results.map(|entry| entry.message.tool_call_id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    world.check_audit();
}

/// Changes keep their order: one that needs no answer waits for an earlier one that does, if they share a capability.
#[test]
fn c23_a_change_waits_for_an_earlier_change_that_is_asked_about() {
    let world = World::new(vec![vec![call("a", "write", "{\"n\":1}"), call("b", "change", "{\"n\":2}")], vec![]]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(1000 * MS);
    turn(&world);
    assert_eq!(world.effects(), ["{\"n\":1}", "{\"n\":2}"]);
    assert_eq!(world.outcomes(), [Outcome::Ok; 2]);
}

/// Ctrl-C at a question ends it, the questions after it, and the calls that run; what ended during it is told.
#[test]
fn c23_ctrl_c_at_a_question_ends_all_and_loses_no_line() {
    for at in 1..80 {
        let calls = vec![
            call("a", "write", "{\"n\":1}"),
            call("b", "read", "{\"n\":2}"),
            call("c", "write", "{\"n\":3}"),
            call("d", "read_other", "{\"n\":4,\"ms\":90}"),
        ];
        let world = World::new(vec![calls, vec![]]);
        world.0.answers.borrow_mut().extend([Answer::Yes, Answer::Yes]);
        world.0.thinks.set(30 * MS);
        world.0.interrupt_at.set(Some(at * MS));
        let (end, _) = turn(&world);
        world.drain();
        world.check_audit();
        assert!(matches!(end, TurnEnd::Interrupted), "{at} ms: {end:?}");
        let proposed = world.0.shown.borrow().iter().filter(|text| text.starts_with("proposed")).count();
        let finished = world.0.shown.borrow().iter().filter(|text| text.starts_with("finished")).count();
        assert!(finished >= proposed, "{at} ms: {:?}", world.0.shown.borrow());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Whenever calls end, and whether or not the person answers: while a question is open nothing is shown. A call that needs
    /// no answer, and shares its capability with no earlier one, begins at the same time however long the person takes. Each
    /// call is told of once, and after its question.
    #[test]
    fn a_question_has_the_screen_to_itself(
        calls in prop::collection::vec((0..TOOLS.len(), 0_u64..150), 1..8),
        thinks in prop::sample::select(vec![1_u64, 20, 90, 400]),
    ) {
        let piece = |(n, (tool, ms)): (usize, &(usize, u64))| {
            call(&n.to_string(), TOOLS[*tool].0, &format!("{{\"ms\":{ms},\"n\":{n}}}"))
        };
        let run = |thinks: u64| {
            let world = World::new(vec![calls.iter().enumerate().map(piece).collect(), vec![]]);
            world.0.answers.borrow_mut().extend([Answer::Yes, Answer::No, Answer::Yes, Answer::Lost, Answer::Yes]);
            world.0.secrets.borrow_mut().extend([Secret::Given("open sesame".into()), Secret::Lost]);
            world.0.thinks.set(thinks * MS);
            let mut agent = agent(&world, SessionLimits { approval_timeout_ms: 100, ..SessionLimits::default() });
            world.run(agent.turn("go", &snapshot()));
            world.drain();
            world.check_audit();
            world
        };
        let world = run(thinks);
        let shown = world.0.shown.borrow();
        for (at, text) in shown.iter().enumerate() {
            if text.starts_with("asked") {
                prop_assert_eq!(shown.get(at + 1).map(String::as_str), Some("answered"));
            }
        }
        for n in 0..calls.len() {
            let ended = |text: &&String| text.starts_with("finished") && text.split(' ').nth(2) == Some(&n.to_string());
            prop_assert_eq!(shown.iter().filter(ended).count(), 1, "call {}", n);
        }
        let other = run(401 - thinks);
        for (n, (tool, ms)) in calls.iter().enumerate() {
            let (_, mode, _, _, capability) = TOOLS[*tool];
            let is_first = calls[..n].iter().all(|(earlier, _)| TOOLS[*earlier].4 != capability);
            if mode == PermissionMode::Auto && is_first {
                let began = |world: &World| world.0.began.borrow().get(&format!("{{\"ms\":{ms},\"n\":{n}}}")).copied();
                prop_assert!(began(&world).is_some());
                prop_assert_eq!(began(&world), began(&other), "call {}", n);
            }
        }
    }
}

#[test]
fn the_broker_hears_why_nobody_agreed() {
    let heard = |answer: Answer, secret: Secret, thinks: u64| {
        let world = World::new(vec![vec![call("a", "write", r#"{"n":1}"#), call("b", "delete", r#"{"n":2}"#)], vec![]]);
        world.0.answers.borrow_mut().push_back(answer);
        world.0.secrets.borrow_mut().push_back(secret);
        world.0.thinks.set(thinks);
        turn(&world);
        assert_eq!(world.outcomes(), [Outcome::DeniedByUser, Outcome::StepUpFailed]);
        let errors: Vec<String> = world.0.events.borrow().iter().map(|event| event.error.clone()).collect();
        (world.0.replies.take(), errors)
    };
    let no = "the person said no";
    let none = "no passphrase was entered";
    let lost = "the terminal was lost before anybody answered";
    let late = "nobody answered within 300 s";
    let (replies, errors) = heard(Answer::No, Secret::Declined, MS);
    assert_eq!((replies, errors), (vec![Reply::Declined; 2], vec![no.to_string(), none.to_string()]));
    let (replies, errors) = heard(Answer::Lost, Secret::Lost, MS);
    assert_eq!((replies, errors), (vec![Reply::Lost; 2], vec![lost.to_string(); 2]));
    let (replies, errors) = heard(Answer::Yes, Secret::Given("open sesame".into()), 400_000 * MS);
    assert_eq!((replies, errors), (vec![Reply::Late; 2], vec![late.to_string(); 2]));
}

#[test]
fn a_model_that_takes_no_calls_goes_on_with_their_text() {
    let world = World::new(vec![
        vec![call("a", "read", r#"{"n":1}"#)],
        vec![Piece::Text("That is it.")],
        vec![Piece::Text("I see.")],
        vec![call("b", "read", r#"{"n":2}"#)],
        vec![Piece::Text("Again.")],
    ]);
    let (_, mut agent) = turn(&world);
    assert!(agent.has_calls());
    // Another model, whose template has no place for calls: each line fails, and the conversation is as it was.
    world.0.takes_calls.set(false);
    let rejected = TurnEnd::Rejected("it takes no calls".into());
    for line in ["And now?", "Please?"] {
        assert_eq!(world.run(agent.turn(line, &snapshot())), rejected);
    }
    agent.tell_plainly(true);
    assert!(!agent.has_calls());
    assert_eq!(world.run(agent.turn("Well?", &snapshot())), TurnEnd::Answered);
    let requests = world.0.requests.take();
    let last = requests.last().unwrap();
    let texts: Vec<&str> = last.messages.iter().skip(1).map(|message| message.content.as_str()).collect();
    assert!(texts[1].starts_with("(I called read with {\"n\":1}.)\n\n(read gave: result of read"), "{texts:?}");
    assert_eq!((texts[0], texts[2]), ("please", "And now?\n\nPlease?\n\nWell?"));
    // What it calls itself it is sent as calls, and the conversation still knows what was whose.
    assert_eq!(agent.conversation().label().1, 1);
    world.0.takes_calls.set(true);
    assert_eq!(world.run(agent.turn("More.", &snapshot())), TurnEnd::Answered);
    assert!(agent.has_calls());
    agent.tell_plainly(false);
    assert!(agent.has_calls());
}

/// A program asks before each of its `n` steps. The results of the call, after a turn.
fn careful(world: &World, n: u32) -> (TurnEnd, Vec<String>) {
    careful_within(world, n, SessionLimits::default())
}

fn careful_within(world: &World, n: u32, limits: SessionLimits) -> (TurnEnd, Vec<String>) {
    world.0.script.borrow_mut().extend([vec![call("run", "careful", &format!("{{\"n\":{n}}}"))], vec![]]);
    world.0.modes.borrow_mut().entry("ask_before_step".into()).or_insert(PermissionMode::Consent);
    let mut agent = agent(world, limits);
    let end = world.run(agent.turn("please", &snapshot()));
    world.drain();
    let told = agent.conversation().entries().iter().filter(|entry| entry.message.role == Role::Tool);
    (end, told.map(|entry| entry.message.content.clone()).collect())
}

/// Requirement J12: a program that a call runs asks the person itself, before a step that it says. It learns the answer, and each
/// question has its decision and its records.
#[test]
fn j12_a_program_asks_the_person_before_a_step() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::No]);
    let (end, told) = careful(&world, 2);
    assert_eq!(end, TurnEnd::Answered);
    assert!(told == ["1: done; 2: the person said no"], "{told:?}");
    let prompts = world.0.prompts.borrow().clone();
    assert!(
        prompts[0].starts_with("ask_before_step {\"action\":\"delete file 1\",\"program\":\"cleaner\"} "),
        "{prompts:?}"
    );
    assert!(prompts.iter().all(|prompt| prompt.contains("The program wrote `action`.")) && prompts.len() == 2);
    let events = world.0.events.borrow();
    let of = |id: &str| -> Vec<_> {
        let found = events.iter().filter(|event| event.call_id == id);
        found.map(|event| (event.phase, event.decided.then_some(event.decision), event.outcome)).collect()
    };
    let consented = Some(Decision::Consented);
    assert_eq!(of("run.step-1"), [(Phase::Before, consented, Outcome::Ok), (Phase::After, consented, Outcome::Ok)]);
    assert_eq!(of("run.step-2"), [(Phase::Refused, Some(Decision::Denied), Outcome::DeniedByUser)]);
    drop(events);
    world.check_audit();
}

/// Requirement J12: a step is not granted without a clear yes in time, by a broker that permits it, with a record.
#[test]
fn j12_a_step_that_nobody_agrees_to_is_not_granted() {
    let granted = |prepare: &dyn Fn(&World)| -> (String, usize) {
        let world = World::new(vec![]);
        prepare(&world);
        let (_, told) = careful(&world, 1);
        let prompts = world.0.prompts.borrow().len();
        (told.concat(), prompts)
    };
    let yes = |world: &World| world.0.answers.borrow_mut().push_back(Answer::Yes);
    assert!(granted(&yes).0.contains("1: done"));
    for reply in [Answer::No, Answer::Lost] {
        let (told, prompts) = granted(&|world| world.0.answers.borrow_mut().push_back(reply));
        assert!(!told.contains("done") && prompts == 1, "{told}");
    }
    let (told, _) = granted(&|world| {
        yes(world);
        world.0.thinks.set(400_000 * MS);
    });
    assert!(told.contains("1: nobody answered within 300 s"), "{told}");
    let (told, prompts) = granted(&|world| {
        yes(world);
        world.0.modes.borrow_mut().insert("ask_before_step".into(), PermissionMode::Forbidden);
    });
    assert!(!told.contains("done") && prompts == 0, "a person is not asked what the policy forbids: {told}");
    for (passphrase, is_right) in [("open sesame", true), ("open barley", false)] {
        let (told, prompts) = granted(&|world| {
            world.0.secrets.borrow_mut().push_back(Secret::Given(passphrase.into()));
            world.0.modes.borrow_mut().insert("ask_before_step".into(), PermissionMode::StepUp);
        });
        assert!(prompts == 1 && told.contains("done") == is_right, "{passphrase}: {told}");
    }
}

/// Requirement J12: Ctrl-C at a program's question ends the turn, as at any other.
#[test]
fn j12_ctrl_c_at_a_programs_question_ends_the_turn() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().push_back(Answer::Interrupted);
    let (end, told) = careful(&world, 3);
    assert_eq!(end, TurnEnd::Interrupted);
    assert!(told.concat().contains("cancelled") && world.0.prompts.borrow().len() == 1, "{told:?}");
    // The question has its record before the call that ran the program.
    let events = world.0.events.borrow();
    let ends = events.iter().filter(|event| event.phase != Phase::Before).map(|event| (&*event.call_id, event.outcome));
    assert_eq!(Vec::from_iter(ends), [("run.step-1", Outcome::Cancelled), ("run", Outcome::Cancelled)]);
}

/// Requirement J12: the time in which a person looks at a question is not the program's.
#[test]
fn j12_a_call_does_not_run_out_of_time_at_a_question() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    // Longer than the time of the call, which is 600 s.
    world.0.thinks.set(700_000 * MS);
    let limits = SessionLimits { approval_timeout_ms: 900_000, ..SessionLimits::default() };
    assert_eq!(careful_within(&world, 1, limits).1, ["1: done"]);
}

/// Requirement J12: the question of a program that does not wait any more is over, and the record does not say that the person
/// has answered.
#[test]
fn j12_a_question_ends_with_its_program() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(20_000 * MS);
    world.0.gives_up.set(Some(1000 * MS));
    let (end, told) = careful(&world, 1);
    assert_eq!((end, told.concat()), (TurnEnd::Answered, "1: it gave up".to_string()));
    let events = world.0.events.borrow();
    let ends = events.iter().filter(|event| event.phase != Phase::Before).map(|event| (&*event.call_id, event.outcome));
    assert_eq!(Vec::from_iter(ends), [("run.step-1", Outcome::Cancelled), ("run", Outcome::Ok)]);
    assert_eq!(*world.0.replies.borrow(), [Reply::Withdrawn]);
    let refused = events.iter().find(|event| event.call_id == "run.step-1").unwrap();
    assert!(refused.error.contains("the program that asked has ended"), "{}", refused.error);
}

/// Requirement J12: a program that asks without end is answered without the person.
#[test]
fn j12_a_program_asks_so_often_and_no_more() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().extend([Answer::Yes; 20]);
    careful(&world, 18);
    assert_eq!(world.0.prompts.borrow().len(), 16);
    let granted = world.0.events.borrow().iter().filter(|event| event.call_id.contains(".step-")).count();
    assert_eq!(granted, 32, "two records for each question, and none for what was not asked");
}

/// Requirement J12: a question that waits for another one is not asked if the answer to that one covers it.
#[test]
fn j12_a_question_that_waits_is_not_asked_if_the_answer_before_it_covers_it() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::No]);
    world.0.reach.borrow_mut().span = Span::Session;
    world.0.stands.set(true);
    world.0.thinks.set(20_000 * MS);
    world.0.at_once.set(true);
    let (_, told) = careful(&world, 2);
    assert!(told[0].contains("1: done; 2: done"), "{told:?}");
    let prompts = world.0.prompts.borrow();
    assert!(prompts.len() == 1 && prompts[0].contains("The program wrote `action`."), "{prompts:?}");
    world.check_audit();
}

/// Requirement J12: questions that programs ask at the same time are open one after the other, and each has its own answer.
#[test]
fn j12_questions_are_asked_one_after_the_other() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::No, Answer::Yes]);
    world.0.thinks.set(200_000 * MS);
    world.0.at_once.set(true);
    let (_, told) = careful(&world, 3);
    // Each has its whole time: none is late although all were asked at the beginning.
    assert!(told[0].contains("1: done; 2: the person said no; 3: done"), "{told:?}");
    let shown = world.0.shown.borrow();
    let of_questions: Vec<&str> = shown.iter().filter_map(|text| text.split(' ').next()).collect();
    let asked: Vec<&&str> = of_questions.iter().filter(|word| ["asked", "answered"].contains(*word)).collect();
    assert_eq!(asked, [&"asked", &"answered"].repeat(3));
}

/// Requirement J12: what may not begin any more is not granted, whatever a person has agreed to before.
#[test]
fn j12_no_step_is_granted_after_the_policy_has_expired() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(1000 * MS);
    world.0.policy_expires.set(500 * MS);
    let (_, told) = careful(&world, 1);
    assert!(!told.concat().contains("done"), "{told:?}");
    let events = world.0.events.borrow();
    assert!(events.iter().all(|event| event.call_id != "run.step-1" || event.phase == Phase::Refused), "{events:?}");
}

/// A model cannot take the id of a question, nor one of a call that the person makes.
#[test]
fn j12_the_ids_of_questions_are_no_models() {
    let ids = ["run.step-1", "direct-ab", "direct-ab.step-x", "own"];
    let calls = ids.map(|id| call(id, "read", &format!("{{\"pad\":\"{id}\"}}")));
    let world = World::new(vec![calls.into(), vec![]]);
    turn(&world);
    let events = world.0.events.borrow();
    let found: Vec<&str> =
        events.iter().filter(|event| event.phase == Phase::Before).map(|event| event.call_id.as_str()).collect();
    assert_eq!(found, ["call-1-1", "call-1-2", "call-1-3", "own"]);
}

/// Requirement J12: a program that gives up behind another's question has its end at once, and is not asked about.
#[test]
fn j12_a_question_that_waits_ends_with_its_program() {
    let world = World::new(vec![]);
    world.0.answers.borrow_mut().push_back(Answer::Yes);
    world.0.thinks.set(20_000 * MS);
    world.0.gives_up.set(Some(1000 * MS));
    world.0.at_once.set(true);
    let before = world.now();
    let (_, told) = careful(&world, 3);
    assert_eq!(told.concat(), "3: it gave up; 2: it gave up; 1: it gave up");
    assert!(world.now() - before < 10_000 * MS, "nobody waits for the person");
    assert_eq!(world.0.prompts.borrow().len(), 1, "the others were never shown");
}

/// Two calls with long ids that begin alike have different questions.
#[test]
fn j12_long_ids_are_told_apart() {
    let ids = ["a", "b"].map(|end| format!("{}{end}", "x".repeat(240)));
    let calls = ids.iter().map(|id| call(id, "careful", "{\"n\":1}")).collect();
    let world = World::new(vec![calls, vec![]]);
    world.0.modes.borrow_mut().insert("ask_before_step".into(), PermissionMode::Consent);
    world.0.answers.borrow_mut().extend([Answer::Yes; 2]);
    turn(&world);
    let events = world.0.events.borrow();
    let asked = |event: &&capos_schema::audit::ToolEvent| event.descriptor.name == "ask_before_step";
    let found: std::collections::BTreeSet<&str> =
        events.iter().filter(asked).map(|event| event.call_id.as_str()).collect();
    assert!(found.len() == 2 && found.iter().all(|id| id.len() < 256), "{found:?}");
}

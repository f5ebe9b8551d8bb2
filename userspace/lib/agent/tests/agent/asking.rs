//! The person is asked about one thing at a time, what they replied is told to the broker, and they get further where a model
//! does not take the conversation.

use capos_agent::TurnEnd;
use capos_agent::world::{Answer, Secret};
use capos_schema::authority::{ConsentReach, Reply, SessionLimits, Span};
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

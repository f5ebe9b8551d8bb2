//! Consents of a person: which reply is one, and which calls it covers.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::annotations::Pattern;
use capos_schema::authority::{ConsentReach, Decision, Reply, Span, ToolQuestion};
use capos_schema::models::PermissionMode::{Auto, Consent, StepUp};

use crate::support::*;

fn yes(span: Span, pattern: &str) -> Answer {
    Answer::Yes(ConsentReach { span, pattern: pattern.into() })
}

#[test]
fn only_an_agreement_is_a_yes() {
    let reach = ConsentReach { span: Span::Session, pattern: "notes".into() };
    for reply in [
        Reply::NotAsked,
        Reply::Agreed,
        Reply::Declined,
        Reply::Interrupted,
        Reply::Late,
        Reply::Lost,
        Reply::Elsewhere,
        Reply::Withdrawn,
    ] {
        let wanted = match reply {
            Reply::Agreed => Answer::Yes(reach.clone()),
            Reply::NotAsked => Answer::NotAsked,
            _ => Answer::No,
        };
        assert_eq!(Answer::of(reply, reach.clone()), wanted, "{reply:?}");
    }
}

#[test]
fn a_reply_that_is_no_agreement_has_its_reason() {
    for (reply, of_consent, of_step_up) in [
        (Reply::Agreed, "the person said no", "no passphrase"),
        (Reply::Declined, "the person said no", "no passphrase"),
        (Reply::Interrupted, "Ctrl-C", "Ctrl-C"),
        (Reply::Late, "in time", "in time"),
        (Reply::Lost, "terminal was lost", "terminal was lost"),
        (Reply::Elsewhere, "too long for a client's question", "takes no passphrase"),
        (Reply::Withdrawn, "the program that asked", "the program that asked"),
        (Reply::NotAsked, "nobody was asked", "nobody was asked"),
    ] {
        for (mode, words) in [(Consent, of_consent), (StepUp, of_step_up)] {
            let found = unagreed(reply, mode);
            assert!(found.contains(words), "{reply:?} {mode:?}: {found}");
        }
    }
}

#[test]
fn calls_that_change_nothing_outside_may_be_agreed_to_together() {
    for (category, together) in [
        (Category::ReadOnly, true),
        (Category::Mutating, true),
        (Category::Destructive, false),
        (Category::Outbound, false),
        (Category::Admin, false),
    ] {
        assert_eq!(may_stand(category), together, "{category:?}");
    }
}

#[test]
fn a_pattern_selects_by_its_kind() {
    for (kind, pattern, argument, selected) in [
        (Pattern::Same, "a", "a", true),
        (Pattern::Same, "a", "a/b", false),
        (Pattern::Same, "a", "./a", false),
        (Pattern::Directory, "a", "./a", true),
        (Pattern::Directory, "a", "a/b", true),
        (Pattern::Directory, "a/b", "a", false),
        (Pattern::Directory, "a", "b", false),
        (Pattern::Directory, "a", "..", false),
        (Pattern::Directory, "..", "a", false),
        (Pattern::Directory, "/", "a", true),
    ] {
        assert_eq!(matches(kind, pattern, argument), selected, "{kind:?} {pattern} {argument}");
    }
}

/// Requirement D10: a consent that is not in the record yet covers no call.
#[test]
fn d10_a_consent_covers_nothing_before_it_is_recorded() {
    let mut session = session(&policy(Vec::new()));
    for (number, path) in [(1, "a"), (2, "b")] {
        assert_eq!(session.decide(&at(path), (Auto, &now()), &yes(Span::Session, ""), number).0, Decision::Consented);
    }
    let gates = |session: &SessionPolicy| ["a", "b"].map(|path| session.gate(&at(path), &now()));
    session.approvals().withhold(2);
    assert_eq!(gates(&session), [Gate::Approved(1), Gate::AskPerson]);
    session.approvals().recorded(1);
    assert_eq!(gates(&session), [Gate::Approved(1), Gate::AskPerson]);
    session.approvals().recorded(2);
    assert_eq!(gates(&session), [Gate::Approved(1), Gate::Approved(2)]);
    // There is none with this number.
    session.approvals().withhold(3);
    assert_eq!(gates(&session), [Gate::Approved(1), Gate::Approved(2)]);
}

/// Each consent has its own number, its own count of calls and its own end.
#[test]
fn consents_are_kept_apart_by_the_number_of_their_question() {
    let mut session = session(&policy(Vec::new()));
    for (number, path) in [(1, "a"), (2, "b"), (3, "c")] {
        session.decide(&at(path), (Auto, &now()), &yes(Span::Session, ""), number);
    }
    for _ in 0..2 {
        session.decide(&at("b"), (Auto, &now()), &Answer::NotAsked, 9);
    }
    let uses = |session: &SessionPolicy, number| session.standing(number).map(|one| (one.number, one.uses));
    assert_eq!([1, 2, 3, 9].map(|number| uses(&session, number)), [Some((1, 0)), Some((2, 2)), Some((3, 0)), None]);
    assert_eq!(session.approvals().standing(3).map(|one| one.number), Some(3));
    assert_eq!(session.approvals().revoke(Some(2)), 1);
    assert_eq!([1, 2, 3].map(|number| uses(&session, number).is_some()), [true, false, true]);
    assert_eq!(session.approvals().revoke(Some(2)), 0);
    assert_eq!(session.approvals().revoke(None), 2);
    assert_eq!(session.approvals().revoke(None), 0);
    assert_eq!(session.gate(&at("a"), &now()), Gate::AskPerson);
}

/// The place of a consent is free again after its turn. The turn of another conversation may go on, and its consents stay.
#[test]
fn consents_of_another_turn_take_no_place() {
    let mut session = session(&policy(Vec::new()));
    let asked = |number: u64, conversation: &str, turn: u32| {
        let mut question = at(&number.to_string());
        (question.conversation, question.turn) = (conversation.into(), turn);
        question
    };
    for number in 0..16 {
        session.decide(&asked(number, "c1", 1), (Auto, &now()), &yes(Span::Turn, ""), number);
    }
    let reaches = |session: &mut SessionPolicy, question| {
        session.decide(&question, (Auto, &now()), &yes(Span::Session, ""), 99).1
    };
    for (conversation, turn) in [("c1", 1), ("c2", 2)] {
        let mut session = session.clone();
        assert!(reaches(&mut session, asked(99, conversation, turn)).contains("there are 16 consents"));
        assert_eq!((session.standing(0).is_some(), session.standing(99)), (true, None));
    }
    assert_eq!(reaches(&mut session, asked(99, "c1", 2)), "for the same call in this session");
    assert_eq!((session.standing(0), session.standing(99).is_some()), (None, true));
    assert_eq!(session.approvals().revoke(None), 1);
}

/// Requirement D10: a consent for a turn holds as long as the turn, also if a child run is given one of its own. It holds no longer,
/// and a call that the person makes is no part of the turn.
#[test]
fn d10_a_consent_for_a_turn_ends_with_it_and_not_before() {
    let mut session = session(&policy(Vec::new()));
    let of = |conversation: &str, turn: u32, call: &str| {
        let mut question = at("a");
        (question.conversation, question.turn, question.call_id) = (conversation.into(), turn, call.into());
        question
    };
    let turn_3 = of("c1", 3, "w");
    session.decide(&turn_3, (Auto, &now()), &yes(Span::Turn, ""), 1);
    session.decide(&of("c1-3.1", 1, "w"), (Auto, &now()), &yes(Span::Turn, ""), 2);
    assert_eq!(session.gate(&turn_3, &now()), Gate::Approved(1));
    assert_eq!(session.gate(&of("c1", 3, "later.step-1"), &now()), Gate::Approved(1));
    let by_hand = |step: u32| of("c1", 3, &format!("direct-1{STEP}{step}"));
    assert_eq!(session.gate(&by_hand(1), &now()), Gate::AskPerson);
    // A consent at a question of its program is for that program, and the turn may go on behind it.
    session.decide(&by_hand(1), (Auto, &now()), &yes(Span::Turn, ""), 3);
    let questions = [by_hand(2), of("c1", 3, "direct-2.step-1"), turn_3.clone(), of("c1", 4, "w")];
    let gates = questions.map(|question| session.gate(&question, &now()));
    assert_eq!(gates, [Gate::Approved(3), Gate::AskPerson, Gate::Approved(1), Gate::AskPerson]);
    // Of child runs that have ended none stays, and that of the turn does.
    for child in 1..=20 {
        session.decide(&of(&format!("c1-3.{child}"), 1, "w"), (Auto, &now()), &yes(Span::Turn, ""), 3 + child);
    }
    assert_eq!(session.gate(&turn_3, &now()), Gate::Approved(1));
    assert_eq!([22, 23].map(|number| session.standing(number).is_some()), [false, true]);
    // The next request ends those of the conversation and of its child runs, and so does a child run of the next request.
    for (number, conversation, turn) in [(24, "c1", 4), (25, "c1-4.1", 1)] {
        let mut session = session.clone();
        session.decide(&of(conversation, turn, "w"), (Auto, &now()), &yes(Span::Turn, ""), number);
        let stand = [1, 3, 23, number].map(|number| session.standing(number).is_some());
        assert_eq!(stand, [false, false, false, true], "{conversation}");
    }
    // What another conversation is asked ends none.
    session.decide(&of("c2", 4, "w"), (Auto, &now()), &yes(Span::Turn, ""), 26);
    assert_eq!([1, 23, 26].map(|number| session.standing(number).is_some()), [true; 3]);
}

/// Requirement D10: with a turn its consents end, and those of its child runs. Those for the session stay, and so do those for what
/// the person runs in parallel with it.
#[test]
fn d10_the_end_of_a_turn_ends_its_consents() {
    let (mut whole, mut number) = (session(&policy(Vec::new())), 0);
    let of = |conversation: &str, turn: u32, call: &str| {
        let mut question = at("a");
        (question.conversation, question.turn, question.call_id) = (conversation.into(), turn, call.into());
        question
    };
    let mut agree = |question: ToolQuestion, span| {
        number += 1;
        whole.decide(&question, (Auto, &now()), &yes(span, ""), number);
    };
    agree(of("c1", 3, "w"), Span::Turn);
    agree(of("c1-3.1", 1, "w"), Span::Turn);
    agree(of("c1", 3, "w"), Span::Session);
    agree(of("c1", 3, "direct-1"), Span::Turn);
    agree(of("c2-9", 3, "w"), Span::Turn);
    let standing = |session: &SessionPolicy| [1, 2, 3, 4, 5].map(|number| session.standing(number).is_some());
    assert_eq!(standing(&whole), [true; 5]);
    type Ends = fn(&mut Approvals);
    let cases: [(Ends, [bool; 5]); 6] = [
        (|list| list.end_turn("c1", 3), [false, false, true, true, true]),
        (|list| list.end_turn("c1-3.1", 1), [true, false, true, true, true]),
        (|list| list.end_turn("c1", 4), [true; 5]),
        (|list| list.begin_turn("c1", 3), [true, true, true, true, false]),
        (|list| list.begin_turn("c1", 4), [false, false, true, true, false]),
        (|list| list.begin_turn("c3", 3), [false, false, true, true, false]),
    ];
    for (at, (ends, left)) in cases.into_iter().enumerate() {
        let mut session = whole.clone();
        ends(session.approvals());
        assert_eq!(standing(&session), left, "{at}");
    }
}

/// Requirement D10: who says "in this session" while a consent for the turn covers the call is taken at their word.
#[test]
fn d10_a_consent_for_the_session_counts_behind_one_for_the_turn() {
    let mut session = session(&policy(Vec::new()));
    let of_turn = |turn: u32| {
        let mut question = at("a");
        question.turn = turn;
        question
    };
    for (number, span, said) in [
        (1, Span::Turn, "for the same call in this turn"),
        (2, Span::Once, "agreed to earlier, in question #1"),
        (3, Span::Session, "for the same call in this session"),
    ] {
        assert_eq!(
            session.decide(&of_turn(3), (Auto, &now()), &yes(span, ""), number),
            (Decision::Consented, said.into())
        );
    }
    assert_eq!(session.gate(&of_turn(4), &now()), Gate::Approved(3));
}

#[test]
fn a_consent_says_how_far_it_reaches() {
    let run = ask("run_program", r#"{"program":"ls"}"#);
    for (question, span, pattern, said) in [
        (at("notes/a"), Span::Once, "notes", ""),
        (at("notes/a"), Span::Turn, "", "for the same call in this turn"),
        (at("notes/a"), Span::Turn, "notes", "for all paths in \"notes\" in this turn"),
        (run.clone(), Span::Session, "ls", "for all calls with \"ls\" in this session"),
        (run, Span::Session, "l", "for this call only: the call itself is not in \"l\""),
    ] {
        let mut session = session(&policy(Vec::new()));
        let found = session.decide(&question, (Auto, &now()), &yes(span, pattern), 1);
        assert_eq!(found, (Decision::Consented, said.into()), "{question:?}");
    }
}

//! Every cell of the tables, and every case in which a rule must not widen.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::annotations::Pattern;
use capos_schema::authority::{
    ConsentReach, Decision, Label, Profile, Provenance, Risk, Span, ToolPermission, ToolQuestion,
};
use capos_schema::manifest::ServiceEnd;
use capos_schema::models::ChatMessage;
use capos_schema::models::PermissionMode::{self, Auto, Consent, Forbidden, StepUp};
use capos_schema::system::ServiceSupervisorClient;
use proptest::prelude::*;

/// A time at which a bundle without an end is valid.
const NOW: At = At { now: 0, file_bytes: None };
const SECOND: u64 = 1_000_000_000;
const PROFILES: [Profile; 3] = [Profile::Operator, Profile::Guest, Profile::Anonymous];
const MODES: [PermissionMode; 4] = [Auto, Consent, StepUp, Forbidden];

/// The modes of the shipped manifest, by category and profile.
const MATRIX: [(Category, [PermissionMode; 3]); 5] = [
    (Category::ReadOnly, [Auto, Auto, Auto]),
    (Category::Mutating, [Consent, Consent, Forbidden]),
    (Category::Destructive, [StepUp, StepUp, Forbidden]),
    (Category::Outbound, [Consent, Consent, Forbidden]),
    (Category::Admin, [StepUp, Forbidden, Forbidden]),
];

fn default_mode(profile: Profile, category: Category) -> PermissionMode {
    let (_, modes) = MATRIX.iter().find(|(found, _)| *found == category).unwrap();
    modes[profile as usize]
}

/// A policy with these modes and no rules.
fn shipped() -> Policy {
    let modes = |profile| (profile, Modes::new(|category| Some(default_mode(profile, category))).unwrap());
    Policy { modes: PROFILES.map(modes).to_vec(), ..Policy::default() }
}

fn question(tool: &str, category: Category, arguments: &str) -> ToolQuestion {
    ToolQuestion {
        interface_id: 7,
        method_name: "method".into(),
        tool: tool.into(),
        category: category.name().into(),
        arguments: arguments.into(),
        conversation: "c1".into(),
        turn: 3,
        call_id: "call-1".into(),
        labels: Label::default(),
        descriptor: vec![1; 32],
    }
}

/// A yes that reaches so far, for exactly the call.
fn yes(span: Span) -> Answer {
    Answer::Yes(ConsentReach { span, pattern: String::new() })
}

fn granted(tool: &str, category: Category) -> GrantedTool {
    GrantedTool {
        interface_id: 7,
        method: "method".into(),
        name: tool.into(),
        category,
        pattern: None,
        paths: &["path"],
        trees: &[],
    }
}

/// A session that holds one tool of each category, named after it.
fn session(policy: &Policy, profile: Profile) -> SessionPolicy {
    let mut session = SessionPolicy::new(policy, profile);
    for &category in Category::ALL {
        session.grant(granted(category.name(), category));
    }
    session
}

fn label(classes: &[&str]) -> Label {
    Label { classes: classes.iter().map(|class| (*class).into()).collect() }
}

/// The modes of a profile take the standard's place, and the floor of a category holds under them.
#[test]
fn modes_are_those_of_the_manifest() {
    let all = |mode: PermissionMode| Modes::new(move |_| Some(mode));
    let (category, why) = all(Auto).unwrap_err();
    assert_eq!(
        (category, why.as_str()),
        (Category::Destructive, "tools that are destructive need consent at least, not auto")
    );
    assert_eq!(
        Modes::new(|category| (category == Category::ReadOnly).then_some(Auto)).unwrap_err().0,
        Category::Mutating
    );
    let mut policy = shipped();
    policy.modes.retain(|(profile, _)| *profile != Profile::Guest);
    policy.modes.push((Profile::Guest, all(StepUp).unwrap()));
    for &category in Category::ALL {
        assert_eq!(session(&policy, Profile::Guest).permission(category, "m", "t").mode, StepUp);
        let other = session(&policy, Profile::Operator).permission(category, "m", "t").mode;
        assert_eq!(other, default_mode(Profile::Operator, category));
    }
}

/// An attempt counts from before anything is compared, and the stored count agrees.
#[test]
fn attempts_outlast_the_process_that_counts_them() {
    let kept = Passphrase::new("open sesame", [1; 16], 1000).unwrap();
    let mut attempts = Attempts::default();
    for _ in 0..5 {
        attempts = Attempts::from_bytes(&attempts.to_bytes()).unwrap();
        // The process ends here: nothing was compared, and the attempt counts.
        attempts.begin(Some(&kept), 0).unwrap();
    }
    attempts = Attempts::from_bytes(&attempts.to_bytes()).unwrap();
    assert!(matches!(attempts.attempt(Some(&kept), "open sesame", SECOND), Err(StepUpError::Closed { .. })));
    assert_eq!(attempts.attempt(Some(&kept), "open sesame", 7200 * SECOND), Ok(()));
    assert_eq!(attempts, Attempts::default());
    assert_eq!(Attempts::from_bytes(&[]), Some(Attempts::default()));
    assert_eq!(Attempts::from_bytes(&[1, 2, 3]), None);
    assert_eq!(Attempts::from_bytes(&[0; 13]), None);
    // Of another boot, whose clock began again: the wait begins again, and is never shorter.
    let mut continued = Attempts::continued(4, 0);
    assert_eq!((continued.count(0), continued.wrong()), (Ok(()), 5));
    let mut continued = Attempts::continued(5, 7 * SECOND);
    assert_eq!(continued.count(8 * SECOND), Err(StepUpError::Closed { seconds: 29 }));
    assert_eq!((continued.count(37 * SECOND), continued.wrong()), (Ok(()), 6));
    assert_eq!(continued.count(38 * SECOND), Err(StepUpError::Closed { seconds: 59 }));
}

/// Requirements D02 and D03.
#[test]
fn d02_every_cell_of_the_permission_map() {
    for (category, modes) in MATRIX {
        for (profile, mode) in PROFILES.into_iter().zip(modes) {
            let session = SessionPolicy::new(&shipped(), profile);
            let suppressed = mode == Forbidden && profile != Profile::Operator;
            assert_eq!(
                session.permission(category, "m", "t"),
                Permission { mode, suppressed },
                "{profile} {category:?}"
            );
            let mut tool = ToolPermission { category: category.name().into(), ..ToolPermission::default() };
            session.fill_in(&mut tool);
            assert_eq!((tool.mode, tool.suppressed), (mode, suppressed));
        }
    }
    assert_eq!(category("harmless"), Category::Admin, "an unknown category is treated as the strictest");
    for category in MATRIX.map(|(category, _)| category) {
        let closed = SessionPolicy::new(&Policy::default(), Profile::Operator);
        assert_eq!(closed.permission(category, "m", "t").mode, Forbidden, "a profile without modes may do nothing");
    }
}

#[test]
fn overrides_tighten_and_only_an_operator_who_says_so_widens() {
    for profile in PROFILES {
        for &category in Category::ALL {
            for wanted in MODES {
                for widen in [false, true] {
                    let rule = Override { tool: Some("t".into()), mode: Some(wanted), widen, ..Override::default() };
                    let policy = Policy { overrides: vec![rule], ..shipped() };
                    let session = SessionPolicy::new(&policy, profile);
                    let standard = default_mode(profile, category);
                    let risky = matches!(category, Category::Destructive | Category::Outbound | Category::Admin);
                    let expected = match (widen && profile == Profile::Operator, risky) {
                        (true, true) => stricter(wanted, Consent),
                        (true, false) => wanted,
                        (false, _) => stricter(wanted, standard),
                    };
                    assert_eq!(session.permission(category, "m", "t").mode, expected);
                    assert_eq!(session.permission(category, "m", "T").mode, standard, "names are exact");
                }
            }
        }
    }
}

#[test]
fn several_overrides_the_strictest_counts_and_each_names_what_it_names() {
    let rules = vec![
        Override { mode: Some(Auto), widen: true, tool: Some("t".into()), ..Override::default() },
        Override { mode: Some(StepUp), method: Some("m".into()), ..Override::default() },
        Override { mode: Some(Consent), category: Some(Category::ReadOnly), ..Override::default() },
        Override {
            mode: Some(Forbidden),
            profile: Some(Profile::Guest),
            tool: Some("x".into()),
            ..Override::default()
        },
    ];
    let policy = Policy { overrides: rules, ..shipped() };
    let operator = SessionPolicy::new(&policy, Profile::Operator);
    let mode = |session: &SessionPolicy, category, method, tool| session.permission(category, method, tool).mode;
    assert_eq!(mode(&operator, Category::Mutating, "n", "t"), Auto);
    assert_eq!(mode(&operator, Category::Mutating, "m", "t"), StepUp);
    assert_eq!(mode(&operator, Category::ReadOnly, "n", "u"), Consent);
    assert_eq!(mode(&operator, Category::Mutating, "n", "x"), Consent);
    let guest = SessionPolicy::new(&policy, Profile::Guest);
    assert_eq!(mode(&guest, Category::Mutating, "n", "t"), Consent);
    assert_eq!(mode(&guest, Category::Mutating, "n", "x"), Forbidden);
}

/// Requirements D03 and C45: both treatments of forbidden tools.
#[test]
fn d03_forbidden_tools_are_hidden_or_shown_as_configured() {
    let hide = |suppressed| Override { suppressed: Some(suppressed), ..Override::default() };
    for (rules, profile, category, suppressed) in [
        (vec![], Profile::Guest, Category::Admin, true),
        (vec![hide(false)], Profile::Guest, Category::Admin, false),
        (vec![hide(true)], Profile::Operator, Category::ReadOnly, true),
        (vec![hide(true), hide(false)], Profile::Operator, Category::ReadOnly, true),
        (vec![hide(false)], Profile::Guest, Category::ReadOnly, false),
    ] {
        let policy = Policy { overrides: rules, ..shipped() };
        assert_eq!(SessionPolicy::new(&policy, profile).permission(category, "m", "t").suppressed, suppressed);
    }
    let policy = Policy { overrides: vec![hide(true)], ..shipped() };
    let question = question("readOnly", Category::ReadOnly, "{}");
    let gate = session(&policy, Profile::Operator).gate(&question, &NOW);
    assert!(matches!(gate, Gate::Shut { .. }), "what is not shown does not run either");
}

/// Requirement D01.
#[test]
fn d01_each_mode_decides_as_it_says() {
    for profile in PROFILES {
        for &category in Category::ALL {
            let mut session = session(&shipped(), profile);
            let question = question(category.name(), category, "{}");
            let yes = session.decide(&question, (Auto, &NOW), &yes(Span::Once), 1).0;
            let no = session.decide(&question, (Auto, &NOW), &Answer::No, 1).0;
            let expected = match default_mode(profile, category) {
                Auto => (Decision::Auto, Decision::Denied),
                Consent => (Decision::Consented, Decision::Denied),
                StepUp => (Decision::StepUpFailed, Decision::StepUpFailed),
                Forbidden => (Decision::Forbidden, Decision::Forbidden),
            };
            assert_eq!((yes, no), expected, "{profile} {category:?}");
        }
    }
}

#[test]
fn the_runner_can_ask_for_more_and_never_for_less() {
    for mode in MODES {
        for &category in Category::ALL {
            let session = session(&shipped(), Profile::Operator);
            let gate = session.gate_at_least(&question(category.name(), category, "{}"), mode, &NOW);
            let expected = match stricter(mode, default_mode(Profile::Operator, category)) {
                Auto => Gate::Open,
                Consent => Gate::AskPerson,
                StepUp => Gate::AskPassphrase,
                Forbidden => {
                    assert!(matches!(gate, Gate::Shut { .. }));
                    continue;
                }
            };
            assert_eq!(gate, expected);
        }
    }
}

fn reason(gate: Gate) -> String {
    match gate {
        Gate::Shut { reason } => reason,
        other => format!("{other:?}"),
    }
}

/// Requirement D14: granted, then scope, then approval.
#[test]
fn d14_checks_come_in_their_order() {
    let rules = PathRules { allow: vec!["/proj".into()], block: vec!["/proj/secret".into()] };
    let scope = Scope { paths: Some(rules), max_bytes: Some(64), ..Scope::default() };
    let rule = ScopeRule { profile: None, target: Target::Tool("destructive".into()), scope, source: "a test".into() };
    let policy = Policy { scopes: vec![rule], ..shipped() };
    let mut session = session(&policy, Profile::Operator);
    let ask = |path: &str| question("destructive", Category::Destructive, &format!("{{\"path\":{path:?}}}"));
    assert_eq!(session.gate(&ask("/proj/a"), &NOW), Gate::AskPassphrase);
    assert!(reason(session.gate(&ask("/proj/secret/b"), &NOW)).contains("out of scope"), "scope before approval");
    assert!(reason(session.gate(&ask("/proj-evil"), &NOW)).contains("outside what is allowed"));
    assert!(reason(session.gate(&ask(&"x".repeat(100)), &NOW)).contains("bytes long"));
    let number = question("destructive", Category::Destructive, "{\"path\":1}");
    assert!(reason(session.gate(&number, &NOW)).contains("not a text"));
    let broken = question("destructive", Category::Destructive, "{");
    assert!(reason(session.gate(&broken, &NOW)).contains("not JSON"));
    session.end();
    assert!(reason(session.gate(&ask("/proj/secret/b"), &NOW)).contains("not granted"), "grant before scope");
}

#[test]
fn a_question_that_lies_about_its_tool_is_refused() {
    let session = session(&shipped(), Profile::Operator);
    let honest = question("destructive", Category::Destructive, "{}");
    for (changed, expected) in [
        (ToolQuestion { category: "readOnly".into(), ..honest.clone() }, "is destructive in the schema"),
        (ToolQuestion { category: String::new(), ..honest.clone() }, "is destructive in the schema"),
        (ToolQuestion { method_name: "read".into(), ..honest.clone() }, "another method"),
        (ToolQuestion { interface_id: 8, ..honest.clone() }, "not granted"),
        (ToolQuestion { tool: "Destructive".into(), ..honest.clone() }, "not granted"),
        (ToolQuestion { tool: "destru\u{441}tive".into(), ..honest.clone() }, "not granted"),
    ] {
        let reason = reason(session.gate(&changed, &NOW));
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn an_ended_session_grants_nothing() {
    let mut session = session(&shipped(), Profile::Operator);
    let question = question("mutating", Category::Mutating, "{}");
    session.decide(&question, (Auto, &NOW), &yes(Span::Session), 1);
    assert_eq!(session.gate(&question, &NOW), Gate::Approved(1));
    session.end();
    assert!(matches!(session.gate(&question, &NOW), Gate::Shut { .. }));
    session.grant(granted("mutating", Category::Mutating));
    assert_eq!(session.gate(&question, &NOW), Gate::AskPerson);
}

/// Requirement D10.
#[test]
fn d10_a_standing_consent_covers_exactly_what_was_seen() {
    let base = question("mutating", Category::Mutating, "{\"path\":\"a\"}");
    let later = ToolQuestion { turn: 4, call_id: "call-2".into(), ..base.clone() };
    let elsewhere = ToolQuestion { conversation: "c2".into(), ..base.clone() };
    let again = ToolQuestion { call_id: "call-9".into(), ..base.clone() };
    let others = [
        ToolQuestion { arguments: "{\"path\":\"b\"}".into(), ..base.clone() },
        ToolQuestion { arguments: "{ \"path\":\"a\"}".into(), ..base.clone() },
        ToolQuestion { tool: "outbound".into(), category: "outbound".into(), ..base.clone() },
        ToolQuestion { descriptor: vec![2; 32], ..base.clone() },
    ];
    for (span, in_turn, in_session) in
        [(Span::Once, false, false), (Span::Turn, true, false), (Span::Session, true, true)]
    {
        let mut session = session(&shipped(), Profile::Operator);
        assert_eq!(session.decide(&base, (Consent, &NOW), &yes(span), 1).0, Decision::Consented);
        let gate = |covered| {
            if covered { Gate::Approved(1) } else { Gate::AskPerson }
        };
        assert_eq!(session.gate(&again, &NOW), gate(in_turn), "{span:?}");
        assert_eq!(session.gate(&later, &NOW), gate(in_session), "{span:?}");
        assert_eq!(session.gate(&elsewhere, &NOW), gate(in_session), "{span:?}");
        for other in &others {
            assert_eq!(session.gate(other, &NOW), Gate::AskPerson, "{span:?} {other:?}");
        }
        session.approvals().revoke(None);
        assert_eq!(session.gate(&again, &NOW), Gate::AskPerson);
        assert_eq!(session.gate_at_least(&base, StepUp, &NOW), Gate::AskPassphrase, "a consent is no step-up");
    }
}

#[test]
fn a_no_is_not_remembered_as_anything_else() {
    let mut session = session(&shipped(), Profile::Operator);
    let question = question("mutating", Category::Mutating, "{}");
    session.decide(&question, (Consent, &NOW), &Answer::No, 1);
    assert_eq!(session.gate(&question, &NOW), Gate::AskPerson);
}

/// Requirement D10: a consent by a pattern covers what its text says, of one tool as it was described, and nothing else.
#[test]
fn d10_a_pattern_covers_what_it_selects() {
    let tool = |name: &str, category, kind| GrantedTool { pattern: Some(("path", kind)), ..granted(name, category) };
    let ask = |tool: &str, path: &str| {
        let arguments = serde_json::json!({ "path": path, "text": "x" }).to_string();
        question(tool, if tool == "outbound" { Category::Outbound } else { Category::Mutating }, &arguments)
    };
    let new = || {
        let mut session = session(&shipped(), Profile::Operator);
        session.grant(tool("write", Category::Mutating, Pattern::Directory));
        session.grant(tool("run", Category::Mutating, Pattern::Same));
        session.grant(tool("outbound", Category::Outbound, Pattern::Directory));
        session
    };
    let agreed = |pattern: &str| Answer::Yes(ConsentReach { span: Span::Session, pattern: pattern.into() });
    let mut session = new();
    let (decision, reason) = session.decide(&ask("write", "notes/a"), (Consent, &NOW), &agreed("notes/"), 5);
    assert_eq!((decision, reason.as_str()), (Decision::Consented, "for all paths in \"notes/\" in this session"));
    for (path, gate) in [
        ("notes/b", Gate::Approved(5)),
        ("/notes/./deep/c", Gate::Approved(5)),
        ("notes", Gate::Approved(5)),
        ("notes-evil/a", Gate::AskPerson),
        ("notes/../a", Gate::AskPerson),
        ("notes/../../a", Gate::AskPerson),
        ("Notes/a", Gate::AskPerson),
        ("a", Gate::AskPerson),
        ("notes/\u{7}", Gate::AskPerson),
    ] {
        assert_eq!(session.gate(&ask("write", path), &NOW), gate, "{path}");
    }
    // Neither another tool, nor the same with another description or without the argument.
    assert_eq!(session.gate(&ask("run", "notes/b"), &NOW), Gate::AskPerson);
    let inside = ask("write", "notes/b");
    assert_eq!(session.gate(&ToolQuestion { descriptor: vec![2; 32], ..inside.clone() }, &NOW), Gate::AskPerson);
    assert_eq!(session.gate(&ToolQuestion { arguments: "{}".into(), ..inside.clone() }, &NOW), Gate::AskPerson);
    assert_eq!(session.gate(&ToolQuestion { arguments: "{".into(), ..inside.clone() }, &NOW), Gate::AskPerson);
    assert_eq!(session.gate_at_least(&inside, StepUp, &NOW), Gate::AskPassphrase);
    let no = session.decide(&inside, (Consent, &NOW), &Answer::No, 6);
    assert_eq!(no, (Decision::Denied, "the person said no".into()), "whatever was agreed to earlier");
    let earlier = session.decide(&inside, (Consent, &NOW), &Answer::NotAsked, 6);
    assert_eq!(earlier, (Decision::Consented, "agreed to earlier, in question #5".into()));
    assert_eq!(session.approvals().standing(5).unwrap().uses, 1);
    assert_eq!(session.approvals().revoke(Some(4)), 0);
    assert_eq!(session.approvals().revoke(Some(5)), 1);
    assert_eq!(session.gate(&inside, &NOW), Gate::AskPerson, "revoked");
    // The same text, and no part of it.
    let mut session = new();
    session.decide(&ask("run", "ls"), (Consent, &NOW), &agreed("ls"), 1);
    assert_eq!(session.gate(&ask("run", "ls"), &NOW), Gate::Approved(1));
    assert_eq!(session.gate(&ask("run", "lsx"), &NOW), Gate::AskPerson);
    // What reaches further than the tool permits counts for the call itself.
    for (asked, pattern, why) in [
        (ask("write", "a"), "notes", "the call itself is not in"),
        (ask("write", "a"), "../", "the call itself is not in"),
        (ask("mutating", "a"), "a", "cannot be agreed to together"),
        (ask("outbound", "a"), "a", "are agreed to one by one"),
    ] {
        let mut session = new();
        let (decision, reason) = session.decide(&asked, (Consent, &NOW), &agreed(pattern), 1);
        assert_eq!(decision, Decision::Consented);
        assert!(reason.contains(why), "{reason}");
        assert_eq!(session.gate(&asked, &NOW), Gate::AskPerson, "{reason}");
    }
}

/// A consent to send something covers no more than what the model had read by then.
#[test]
fn d10_a_consent_to_send_ends_when_the_model_reads_on() {
    let mut session = session(&shipped(), Profile::Operator);
    let public = question("outbound", Category::Outbound, "{}");
    session.decide(&public, (Consent, &NOW), &yes(Span::Session), 1);
    assert_eq!(session.gate(&public, &NOW), Gate::Approved(1));
    let redacted = ToolQuestion { labels: label(&["pii.redacted"]), ..public };
    assert_eq!(session.gate(&redacted, &NOW), Gate::AskPerson);
}

#[test]
fn d10_consents_for_further_calls_are_few() {
    let mut session = session(&shipped(), Profile::Operator);
    let ask = |number: u64| question("mutating", Category::Mutating, &format!("{{\"number\":{number}}}"));
    for number in 0..16 {
        assert_eq!(
            session.decide(&ask(number), (Consent, &NOW), &yes(Span::Turn), number).1,
            "for the same call in this turn"
        );
    }
    let (decision, why) = session.decide(&ask(99), (Consent, &NOW), &yes(Span::Session), 99);
    assert_eq!(decision, Decision::Consented);
    assert!(why.starts_with("for this call only: there are 16 consents"), "{why}");
    assert_eq!(session.gate(&ask(99), &NOW), Gate::AskPerson);
    // Those of an earlier turn take no place.
    let later = ToolQuestion { turn: 4, ..ask(99) };
    assert_eq!(
        session.decide(&later, (Consent, &NOW), &yes(Span::Session), 100).1,
        "for the same call in this session"
    );
    assert_eq!(session.gate(&ask(99), &NOW), Gate::Approved(100));
}

/// Requirement D11.
#[test]
fn d11_a_lease_is_good_for_one_call_once() {
    let asked = question("destructive", Category::Destructive, "{\"path\":\"a\"}");
    let lease = Lease::until("s1", &asked, 100);
    for (changed, session, now, error) in [
        (asked.clone(), "s1", 100, LeaseError::Bound(BindingError::Expired)),
        (asked.clone(), "s2", 99, LeaseError::Bound(BindingError::OtherSession)),
        (ToolQuestion { tool: "x".into(), ..asked.clone() }, "s1", 99, LeaseError::Bound(BindingError::OtherTool)),
        (
            ToolQuestion { method_name: "x".into(), ..asked.clone() },
            "s1",
            99,
            LeaseError::Bound(BindingError::OtherTool),
        ),
        (ToolQuestion { interface_id: 8, ..asked.clone() }, "s1", 99, LeaseError::Bound(BindingError::OtherTool)),
        (
            ToolQuestion { arguments: "{\"path\":\"b\"}".into(), ..asked.clone() },
            "s1",
            99,
            LeaseError::Bound(BindingError::OtherArguments),
        ),
        (
            ToolQuestion { conversation: "c2".into(), ..asked.clone() },
            "s1",
            99,
            LeaseError::Bound(BindingError::OtherConversation),
        ),
        (ToolQuestion { turn: 4, ..asked.clone() }, "s1", 99, LeaseError::Bound(BindingError::OtherTurn)),
        (
            ToolQuestion { call_id: "call-2".into(), ..asked.clone() },
            "s1",
            99,
            LeaseError::Bound(BindingError::OtherCall),
        ),
    ] {
        let mut lease = lease.clone();
        assert_eq!(lease.redeem(session, &changed, now), Err(error));
        assert_eq!(lease.redeem("s1", &asked, 99), Ok(()), "a wrong try does not use it up");
        assert_eq!(lease.redeem("s1", &asked, 99), Err(LeaseError::Used));
    }
    let mut standard = Lease::new("s1", &asked, 5);
    assert_eq!(standard.clone().redeem("s1", &asked, 5 + 60 * SECOND - 1), Ok(()));
    assert_eq!(standard.redeem("s1", &asked, 5 + 60 * SECOND), Err(LeaseError::Bound(BindingError::Expired)));
}

#[test]
fn a_passphrase_is_kept_as_pbkdf2() {
    // Computed with Python's hashlib.pbkdf2_hmac.
    let kept = Passphrase::new("open sesame", *b"0123456789abcdef", 1000).unwrap();
    let text = kept.to_string();
    assert_eq!(text, format!("pbkdf2-sha256$1000$30313233343536373839616263646566${}", EXPECTED));
    let read = Passphrase::parse(&text).unwrap();
    assert_eq!(read, kept);
    assert!(read.is("open sesame"));
    for wrong in ["", "open", "open sesame ", "Open sesame", "open sesam\u{435}"] {
        assert!(!read.is(wrong), "{wrong:?}");
    }
    assert!(!format!("{kept:?}").contains(&EXPECTED[..8]));
    for broken in [
        "",
        "plain$1000$00$00",
        "pbkdf2-sha256",
        "pbkdf2-sha256$999$00$00",
        "pbkdf2-sha256$x$00$00",
        "pbkdf2-sha256$1000$00$00",
        "pbkdf2-sha256$99999999$00$00",
        &format!("{text}$"),
        &text[..text.len() - 2],
    ] {
        assert!(Passphrase::parse(broken).is_err(), "{broken:?}");
    }
    assert!(Passphrase::new("", [0; 16], 1000).is_err());
    assert!(Passphrase::new("x", [0; 16], 999).is_err());
}

const EXPECTED: &str = "32aa7cc00b2b3ac8d5108ca64c3d24013c53a537f87fed1932040f0e5ba493fc";

#[test]
fn guessing_is_slowed_down() {
    let kept = Passphrase::new("right", [1; 16], 1000).unwrap();
    let mut attempts = Attempts::default();
    assert_eq!(attempts.attempt(None, "right", 0), Err(StepUpError::NotSet));
    for _ in 0..4 {
        assert_eq!(attempts.attempt(Some(&kept), "wrong", 0), Err(StepUpError::Wrong));
    }
    assert_eq!(attempts.clone().attempt(Some(&kept), "right", 0), Ok(()));
    assert_eq!(attempts.attempt(Some(&kept), "wrong", 0), Err(StepUpError::Wrong));
    assert_eq!(attempts.attempt(Some(&kept), "right", SECOND / 2), Err(StepUpError::Closed { seconds: 30 }));
    assert_eq!(attempts.attempt(Some(&kept), "wrong", 30 * SECOND), Err(StepUpError::Wrong));
    assert_eq!(attempts.attempt(Some(&kept), "right", 31 * SECOND), Err(StepUpError::Closed { seconds: 59 }));
    assert_eq!(attempts.attempt(Some(&kept), "right", 90 * SECOND), Ok(()));
    for _ in 0..4 {
        assert_eq!(attempts.attempt(Some(&kept), "wrong", 91 * SECOND), Err(StepUpError::Wrong), "forgiven");
    }
    let mut now = 0;
    let mut longest = 0;
    let mut stubborn = Attempts::default();
    for _ in 0..40 {
        match stubborn.attempt(Some(&kept), "wrong", now) {
            Err(StepUpError::Closed { seconds }) => {
                longest = longest.max(seconds);
                now += seconds * SECOND;
            }
            other => assert_eq!(other, Err(StepUpError::Wrong)),
        }
    }
    assert_eq!(longest, 3600);
}

/// Requirements D04 and D05.
#[test]
fn d04_profiles_and_their_models() {
    for (profile, backend, opted_in, stepped_up, allowed) in [
        (Profile::Operator, "scripted", false, false, true),
        (Profile::Operator, "local-cpu", false, false, true),
        (Profile::Operator, "remote-openai", false, false, false),
        (Profile::Operator, "remote-openai", true, false, false),
        (Profile::Operator, "remote-openai", false, true, false),
        (Profile::Operator, "remote-openai", true, true, true),
        (Profile::Operator, "ollama", false, false, false),
        (Profile::Guest, "local-cpu", false, false, true),
        (Profile::Guest, "scripted", false, false, true),
        (Profile::Guest, "remote-openai", true, true, false),
        (Profile::Anonymous, "local-cpu", false, false, false),
        (Profile::Anonymous, "remote-openai", true, true, false),
    ] {
        let rules = ProfileRules::standard(profile);
        let answer = rules.may_use(backend, opted_in, stepped_up);
        assert_eq!(answer.is_ok(), allowed, "{profile} {backend} {opted_in} {stepped_up}: {answer:?}");
    }
    let generous = ProfileRules { model: ModelAccess::Local, ..ProfileRules::standard(Profile::Anonymous) };
    let policy = Policy { profiles: vec![(Profile::Anonymous, generous)], ..shipped() };
    assert!(SessionPolicy::new(&policy, Profile::Anonymous).rules().may_use("local-cpu", false, false).is_ok());
    assert!(policy.profile(Profile::Guest).may_use("local-cpu", false, false).is_ok());
}

#[test]
fn d06_requests_are_limited_for_session_and_principal() {
    let mut rates = Rates::default();
    let mut request = |session, principal, second| {
        rates.request((session, 2), (principal, 3), second * SECOND).map_err(|why| why.to_string())
    };
    let wait = |seconds: &str| Err(format!("too many requests to models; try again in {seconds}"));
    assert_eq!(request("one", "ada", 5), Ok(()));
    assert_eq!(request("one", "ada", 6), Ok(()));
    assert_eq!(request("one", "ada", 7), wait("58 seconds"), "the session's");
    assert_eq!(request("two", "ada", 20), Ok(()), "another session of the same principal");
    assert_eq!(request("two", "ada", 64), wait("1 second"), "the principal's; what was refused did not count");
    assert_eq!(request("three", "bob", 64), Ok(()), "another principal");
    assert_eq!(request("one", "ada", 65), Ok(()), "a minute after the first");
    assert_eq!(request("two", "ada", 66), Ok(()));
    assert_eq!(request("three", "ada", 67), Ok(()));
    assert_eq!(request("four", "ada", 68), wait("57 seconds"));
    rates.end_session("one");
    assert_eq!(rates.request(("one", 0), ("carol", 9), 0), Err(TooMany { seconds: 60 }), "none is none");
    assert_eq!(rates.request(("one", 1), ("carol", 1), 0), Ok(()));
}

/// Requirement D15.
#[test]
fn d15_paths_are_compared_by_whole_components() {
    let rules = PathRules { allow: vec!["/proj".into(), "tmp/./x".into()], block: vec!["/proj/secret".into()] };
    for (path, expected) in [
        ("/proj", Ok(())),
        ("proj/a/b", Ok(())),
        ("/proj//./a/../b/", Ok(())),
        ("/tmp/x/y", Ok(())),
        ("/proj-evil", Err(PathError::NotAllowed)),
        ("/projx/a", Err(PathError::NotAllowed)),
        ("/PROJ/a", Err(PathError::NotAllowed)),
        ("/", Err(PathError::NotAllowed)),
        ("", Err(PathError::NotAllowed)),
        ("/proj/../etc", Err(PathError::NotAllowed)),
        ("/proj/../../etc", Err(PathError::AboveRoot)),
        ("../proj", Err(PathError::AboveRoot)),
        ("/proj/secret", Err(PathError::Blocked)),
        ("/proj/a/../secret/key", Err(PathError::Blocked)),
        ("/proj/secrets", Ok(())),
        ("/proj/...", Ok(())),
        ("/proj/a\0b", Err(PathError::Control)),
        ("/proj/a\nb", Err(PathError::Control)),
    ] {
        assert_eq!(rules.check(path), expected, "{path:?}");
    }
    assert_eq!(PathRules::default().check("/"), Err(PathError::NotAllowed), "nothing is allowed by default");
    let everything = PathRules { allow: vec!["/".into()], block: vec![] };
    assert_eq!(everything.check("/any/thing"), Ok(()));
    let shorter = PathRules { allow: vec!["/a/b/c".into()], block: vec!["/a".into()] };
    assert_eq!(shorter.check("/a/b/c/d"), Err(PathError::Blocked), "block beats allow however long");
    let broken = PathRules { allow: vec!["/".into(), "/../x".into()], block: vec!["/../y".into()] };
    assert_eq!(broken.check("/z"), Err(PathError::Blocked), "a rule that cannot be read is read strictly");
}

#[test]
fn classes_form_a_lattice() {
    for (low, high, below) in [
        ("public", "public", true),
        ("public", "secret.token", true),
        ("pii.redacted", "pii.chat.message", true),
        ("pii.redacted", "pii.*", true),
        ("pii.chat.message", "pii.*", true),
        ("pii.chat.message", "pii.redacted", false),
        ("pii.*", "pii.chat.message", false),
        ("pii.mail", "pii.chat.message", false),
        ("secret.token", "pii.*", false),
        ("pii.mail", "secret.*", false),
        ("pii.redacted", "secret.*", false),
        ("secret.redacted", "secret.token", false),
        ("secret.token", "secret.*", true),
        ("secret.token", "public", false),
        ("unknown", "secret.*", false),
        ("unknown", "unknown", true),
        ("pii", "pii.*", false),
        ("piix.mail", "pii.*", false),
    ] {
        assert_eq!(class_below(low, high), below, "{low} below {high}");
    }
    assert_eq!(join(&label(&["pii.redacted"]), &label(&["pii.mail", "public"])), label(&["pii.mail"]));
    assert_eq!(
        join(&label(&["secret.b", "pii.mail"]), &label(&["pii.*", "secret.a"])),
        label(&["pii.*", "secret.a", "secret.b"])
    );
    assert_eq!(join(&label(&["public"]), &label(&[])), label(&[]));
    for one in [Provenance::Trusted, Provenance::Untrusted] {
        for other in [Provenance::Trusted, Provenance::Untrusted] {
            let tainted = one == Provenance::Untrusted || other == Provenance::Untrusted;
            assert_eq!(join_provenance(one, other) == Provenance::Untrusted, tainted);
        }
    }
}

/// Requirement D08 too: labels hold for tools and for models on other machines.
#[test]
fn a_secret_that_was_read_cannot_be_posted() {
    let mut session = session(&shipped(), Profile::Operator);
    let ask =
        |classes: &[&str]| ToolQuestion { labels: label(classes), ..question("outbound", Category::Outbound, "{}") };
    assert_eq!(session.gate(&ask(&[]), &NOW), Gate::AskPerson);
    assert_eq!(session.gate(&ask(&["public", "pii.redacted"]), &NOW), Gate::AskPerson);
    for class in ["secret.token", "pii.mail", "unheard-of"] {
        let secret = ask(&["pii.redacted", class]);
        assert!(reason(session.gate(&secret, &NOW)).contains(class));
        let (decision, why) = session.decide(&secret, (Auto, &NOW), &yes(Span::Once), 1);
        assert_eq!(decision, Decision::Forbidden, "no consent opens this: {why}");
    }
    let local = ToolQuestion { labels: label(&["secret.token"]), ..question("mutating", Category::Mutating, "{}") };
    assert_eq!(session.gate(&local, &NOW), Gate::AskPerson, "what stays here is not egress");
    assert_eq!(session.egress().check_remote_model(&label(&["public"])), Ok(()));
    assert_eq!(session.egress().check_remote_model(&label(&["pii.redacted"])), Err("pii.redacted"));
    let said = |classes: &[&str]| ChatMessage { label: label(classes), ..ChatMessage::default() };
    let messages = [said(&[]), said(&["public"]), said(&["pii.log"])];
    assert_eq!(session.egress().check_request(&messages, "remote.http"), Err("pii.log"));
    assert_eq!(session.egress().check_request(&messages[..2], "remote.http"), Ok(()));
    assert_eq!(session.egress().check_request(&messages, "local-cpu"), Ok(()));
    let cleared = Egress { outbound: label(&["secret.*"]), ..Egress::default() };
    assert_eq!(cleared.check_outbound(&label(&["secret.token"])), Ok(()));
}

/// Requirement D13.
#[test]
fn d13_ten_thousand_tools_are_as_quick_as_ten() {
    // Not timed: each look-up is in a hash table, and the answer for each is right.
    let mut session = SessionPolicy::new(&shipped(), Profile::Operator);
    for number in 0..10_000 {
        let category = Category::ALL[number % 5];
        session.grant(granted(&format!("tool-{number}"), category));
    }
    for number in (0..10_000).step_by(7) {
        let category = Category::ALL[number % 5];
        let gate = session.gate(&question(&format!("tool-{number}"), category, "{}"), &NOW);
        let expected = match default_mode(Profile::Operator, category) {
            Auto => Gate::Open,
            Consent => Gate::AskPerson,
            _ => Gate::AskPassphrase,
        };
        assert_eq!(gate, expected);
    }
}

fn classes() -> impl Strategy<Value = Label> {
    let class = prop::sample::select(vec![
        "public",
        "pii.redacted",
        "pii.mail",
        "pii.chat.message",
        "pii.*",
        "secret.token",
        "secret.*",
        "odd",
    ]);
    prop::collection::vec(class, 0..5).prop_map(|classes| label(&classes))
}

#[test]
fn labels_stay_short_and_name_classes() {
    let many: Vec<String> = (0..40).map(|number| format!("pii.{number:060}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(join(&label(&many), &label(&[])).classes, ["*"]);
    // An invalid name of a class could draw rows of its own where a person is asked.
    for class in ["", "x.\n  That is all", "pii.\u{202e}", "a b", &"x".repeat(65)] {
        assert_eq!(join(&label(&["pii.log"]), &label(&[class])).classes, ["*"], "{class:?}");
    }
    assert!(class_below("secret.key", "*") && !class_below("*", "secret.*"));
    assert!(Egress::default().check_outbound(&label(&["*"])).is_err());
}

proptest! {
    #[test]
    fn joining_is_a_least_upper_bound(one in classes(), other in classes(), third in classes()) {
        let joined = join(&one, &other);
        prop_assert!(label_below(&one, &joined) && label_below(&other, &joined));
        prop_assert_eq!(&joined, &join(&other, &one));
        prop_assert_eq!(join(&joined, &third), join(&one, &join(&other, &third)));
        prop_assert_eq!(join(&joined, &joined), joined.clone());
        if label_below(&one, &third) && label_below(&other, &third) {
            prop_assert!(label_below(&joined, &third));
        }
    }

    #[test]
    fn joining_never_lets_more_leave(one in classes(), other in classes(), clearance in classes()) {
        let egress = Egress { outbound: clearance, ..Egress::default() };
        let joined = join(&one, &other);
        if egress.check_outbound(&joined).is_ok() {
            prop_assert!(egress.check_outbound(&one).is_ok() && egress.check_outbound(&other).is_ok());
        }
    }

    #[test]
    fn no_path_escapes(path in "[a./]{0,20}") {
        let rules = PathRules { allow: vec!["/a/aa".into()], block: vec!["/a/aa/a".into()] };
        if rules.check(&path).is_ok() {
            let components = normalise(&path).unwrap();
            prop_assert_eq!(&components[..2], ["a", "aa"]);
            prop_assert_ne!(components.get(2), Some(&"a"));
        }
    }

    #[test]
    fn reading_a_kept_passphrase_does_not_panic(text: String) {
        let _ = Passphrase::parse(&text);
    }
}

/// A call that ends a service needs the permission for its loss, and for a trusted one it is rejected without a
/// question.
#[test]
fn what_is_lost_with_a_service_counts_as_destroyed() {
    let end = |name: &str, trusted: bool, loses: &str| ServiceEnd { name: name.into(), trusted, loses: loses.into() };
    let services = ServiceEnds::new([
        end("audit", true, ""),
        end("ramfs", false, "the files of the home directory"),
        end("hello", false, "nothing"),
        end("new", false, ""),
    ]);
    let tool = |method: &str, name: &str, category: Category| GrantedTool {
        interface_id: ServiceSupervisorClient::INTERFACE_ID,
        method: method.into(),
        name: name.into(),
        category,
        pattern: None,
        paths: &[],
        trees: &[],
    };
    let policy = Policy { services, ..shipped() };
    let restart_of = |policy: &Policy| {
        let mut session = SessionPolicy::new(policy, Profile::Operator);
        session.grant(tool("restart", "restart_service", Category::Mutating));
        session.grant(tool("status", "service_status", Category::ReadOnly));
        session
    };
    let asked = |method: &str, name: &str, category: Category, service: &str| ToolQuestion {
        interface_id: ServiceSupervisorClient::INTERFACE_ID,
        method_name: method.into(),
        ..question(name, category, &format!("{{\"name\":\"{service}\"}}"))
    };
    let restart = |service: &str| asked("restart", "restart_service", Category::Mutating, service);
    let mut session = restart_of(&policy);
    let Review { mode, reason, note, .. } = session.review(&restart("audit"), &NOW);
    assert_eq!((mode, note.as_str()), (Forbidden, ""));
    assert!(reason.starts_with("service `audit` is trusted, so no session may restart or stop it"), "{reason}");
    assert_eq!(session.decide(&restart("audit"), (Consent, &NOW), &yes(Span::Once), 1).0, Decision::Forbidden);
    assert_eq!(session.gate_at_least(&restart("audit"), StepUp, &NOW), Gate::Shut { reason });
    for (service, mode, note) in [
        ("ramfs", StepUp, "The call loses the files of the home directory."),
        ("hello", Consent, "The call loses no data."),
        ("new", StepUp, "The call loses the data that `new` keeps in memory; the manifest does not say which."),
        // The server of the call answers that there is none.
        ("nobody", Consent, ""),
    ] {
        // What loses data is as risky as what destroys it.
        let risk = if mode == StepUp { Risk::High } else { Risk::Medium };
        let review = Review { mode, reason: String::new(), note: note.into(), approved: None, risk };
        assert_eq!(session.review(&restart(service), &NOW), review, "{service}");
        let decision = if mode == StepUp { Decision::StepUpFailed } else { Decision::Consented };
        // A yes is enough only if nothing is lost, whatever the runner believes.
        assert_eq!(session.decide(&restart(service), (Consent, &NOW), &yes(Span::Session), 1).0, decision, "{service}");
    }
    // A call that only reads gets no text and is never rejected.
    let status = asked("status", "service_status", Category::ReadOnly, "audit");
    let review = Review { mode: Auto, reason: String::new(), note: String::new(), approved: None, risk: Risk::Low };
    assert_eq!(session.review(&status, &NOW), review);
    // A configuration may say that consent is enough for this tool, as for one that destroys; never less.
    for (wanted, of_ramfs) in [(Auto, Consent), (Consent, Consent), (Forbidden, Forbidden)] {
        let tool = Some("restart_service".into());
        let rule = Override { tool, mode: Some(wanted), widen: true, ..Override::default() };
        let session = restart_of(&Policy { overrides: vec![rule], ..policy.clone() });
        assert_eq!(session.review(&restart("ramfs"), &NOW).mode, of_ramfs);
        assert_eq!(session.review(&restart("hello"), &NOW).mode, wanted);
    }
}

//! What is said of a call before a person is asked about it, and what a scope takes no notice of.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::authority::{ConsentReach, Profile, Risk, Span, ToolQuestion};
use capos_schema::manifest::ServiceEnd;
use capos_schema::models::PermissionMode::{Auto, Consent, Forbidden};
use capos_schema::system::ServiceSupervisorClient;

use crate::support::*;

/// A call that a consent covers names the question that it was the answer to.
#[test]
fn a_review_names_the_consent_that_covers_the_call() {
    let mut session = session(&policy(Vec::new()));
    let review = |session: &SessionPolicy| session.review(&at("a"), &now());
    assert_eq!((review(&session).mode, review(&session).approved), (Consent, None));
    let yes = Answer::Yes(ConsentReach { span: Span::Session, pattern: String::new() });
    session.decide(&at("a"), (Auto, &now()), &yes, 7);
    assert_eq!((review(&session).mode, review(&session).approved), (Consent, Some(7)));
}

/// A person is told what a call loses, and nothing of one that may not run.
#[test]
fn a_call_that_may_not_run_has_a_reason_and_no_note() {
    let supervisor = tools(ServiceSupervisorClient::INTERFACE_ID);
    let restart = supervisor.into_iter().find(|tool| tool.category == Category::Mutating).unwrap();
    let loses = |name: &str, loses: &str| ServiceEnd { name: name.into(), trusted: false, loses: loses.into() };
    let services = ServiceEnds::new([loses("hello", "nothing"), loses("ramfs", "all files")]);
    let review = |mode, service: &str| {
        let rule = Override { tool: Some(restart.name.clone()), mode, ..Override::default() };
        let policy = Policy { services: services.clone(), overrides: vec![rule], ..policy(Vec::new()) };
        let session = SessionPolicy::of(&policy, Profile::Operator, core::slice::from_ref(&restart));
        let question = ToolQuestion {
            interface_id: restart.interface_id,
            method_name: restart.method.clone(),
            tool: restart.name.clone(),
            category: restart.category.name().into(),
            arguments: format!("{{\"name\":\"{service}\"}}"),
            ..ToolQuestion::default()
        };
        session.review(&question, &now())
    };
    for (service, note, risk) in
        [("hello", "The call loses no data.", Risk::Medium), ("ramfs", "The call loses all files.", Risk::High)]
    {
        let open = review(None, service);
        assert_eq!((open.reason.as_str(), open.note.as_str(), open.risk), ("", note, risk));
        let shut = review(Some(Forbidden), service);
        assert_eq!((shut.mode, shut.note.as_str()), (Forbidden, ""));
        assert!(shut.reason.contains("is not permitted to operator sessions"), "{}", shut.reason);
    }
}

#[test]
fn a_session_is_of_its_profile() {
    for profile in [Profile::Operator, Profile::Guest, Profile::Anonymous] {
        let session = SessionPolicy::new(&policy(Vec::new()), profile);
        assert_eq!((session.profile(), session.holder().profile), (profile, profile));
    }
}

/// A rule that is not about a file's size needs no look at the file.
#[test]
fn only_a_limit_on_files_takes_their_size() {
    let read = ask("read_file", "{\"path\":\"a\"}");
    let with = |scope| session(&policy(vec![rule(Target::Paths, scope)])).measures(&read);
    assert_eq!(with(paths(&["/"], &[])), None);
    assert_eq!(with(Scope { max_bytes: Some(100), ..Scope::default() }), None);
    assert_eq!(with(Scope { max_file_bytes: Some(1), ..Scope::default() }), Some(Measured::Home("a".into())));
}

#[test]
fn arguments_may_be_as_long_as_their_limit() {
    let read = ask("read_file", "{\"path\":\"a\"}");
    for (most, said) in
        [(12, "Open"), (11, "out of scope: the arguments are 12 bytes long, and 11 are allowed (settings)")]
    {
        let scope = Scope { max_bytes: Some(most), ..Scope::default() };
        let session = session(&policy(vec![rule(Target::Tool("read_file".into()), scope)]));
        assert_eq!(why(session.gate(&read, &now())), said);
    }
}

/// Rules on programs say nothing about a tool that runs none, even if they name it; each of them is one for a tool that does.
#[test]
fn rules_on_programs_are_for_tools_that_run_one() {
    let name = || "ls".to_string();
    let arguments = ArgumentRules { allow: vec!["-l".into()], block: Vec::new() };
    let none = CommandRules::default;
    for rules in [
        CommandRules { allow: ["cat".into()].into(), ..none() },
        CommandRules { block: [name()].into(), ..none() },
        CommandRules { arguments: [(name(), arguments)].into(), ..none() },
    ] {
        assert!(!rules.is_empty(), "{rules:?}");
        let scope = || Scope { commands: rules.clone(), ..Scope::default() };
        let of = |tool: &str| session(&policy(vec![rule(Target::Tool(tool.into()), scope())]));
        let write = of("write_file").gate(&at("a"), &now());
        assert_eq!(write, Gate::AskPerson);
        let run = ask("run_program", r#"{"program":"ls","arguments":["-a"]}"#);
        let found = why(of("run_program").gate(&run, &now()));
        assert!(found.starts_with("out of scope"), "{rules:?}: {found}");
    }
    assert!(none().is_empty());
}

//! A policy as a person reads it: the bounds of each tool, the entries of a bundle, and what changes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::authority::{PolicyRule, Profile, Risk};
use capos_schema::models::PermissionMode::{Auto, Consent, Forbidden, StepUp};

use crate::support::*;

/// A tool as the policy without rules grants it.
fn tool(name: &str) -> Capability {
    let found = all_tools().into_iter().find(|tool| tool.name == name).unwrap();
    Capability::of(&policy(Vec::new()), Profile::Operator, found)
}

/// One that reaches a network. No interface has one yet.
fn network() -> GrantedTool {
    GrantedTool {
        interface_id: 7,
        method: "fetch".into(),
        name: "fetch".into(),
        category: Category::Outbound,
        pattern: None,
        paths: &[],
        trees: &[],
    }
}

fn set<T: FromIterator<String>>(names: &[&str]) -> T {
    names.iter().map(ToString::to_string).collect()
}

/// Bounds of all kinds.
fn all_bounds() -> Scope {
    let of = |allow: &[&str], block: &[&str]| ArgumentRules { allow: set(allow), block: set(block) };
    Scope {
        max_bytes: Some(1),
        max_file_bytes: Some(10),
        commands: CommandRules {
            allow: set(&["ls", "cat"]),
            block: set(&["rm"]),
            arguments: [("ls".to_string(), of(&["-l"], &[])), ("cat".to_string(), of(&[], &["b*", "a*"]))].into(),
        },
        domains: Some(DomainRules { allow: set(&["b.org", "a.org"]), block: set(&["c.org"]) }),
        ..paths(&["b", "a"], &["a/x"])
    }
}

/// Each tool has the lines that are about it, sorted, and no others.
#[test]
fn bounds_are_told_of_the_tools_that_they_are_about() {
    let fetch = Capability::of(&policy(Vec::new()), Profile::Operator, network());
    let common = "no arguments above 1 byte";
    for (tool, lines) in [
        (tool("read_file"), &["only paths in \"a\", \"b\"", "no path in \"a/x\"", "no file above 10 bytes"][..]),
        (tool("delete_file"), &["only paths in \"a\", \"b\"", "no path in \"a/x\""]),
        (
            tool("search_files"),
            &[
                "only paths in \"a\", \"b\"",
                "no path in \"a/x\"",
                "never: it reads files of up to 262144 bytes, and 10 are allowed",
            ],
        ),
        (
            tool("run_program"),
            &[
                "--with only of paths in \"a\", \"b\"",
                "--with of no path in \"a/x\"",
                "only the programs \"cat\", \"ls\"",
                "never the programs \"rm\"",
                "cat never with arguments like \"a*\", \"b*\"",
                "ls only with arguments like \"-l\"",
            ],
        ),
        (tool("list_programs"), &[]),
        (fetch, &["only the domains \"a.org\", \"b.org\"", "never the domains \"c.org\""]),
    ] {
        let found = all_bounds().lines(&tool);
        assert_eq!(found, [lines, &[common]].concat(), "{}", tool.name);
    }
    // Without a rule, and with one that allows no path, no more is told.
    assert!(Scope::default().lines(&tool("run_program")).is_empty());
    assert_eq!(paths(&[], &["a"]).lines(&tool("read_file")), ["no path at all", "no path in \"a\""]);
    assert_eq!(paths(&["a"], &[]).lines(&tool("read_file")), ["only paths in \"a\""]);
    assert!(paths(&[], &[]).lines(&tool("list_programs")).is_empty());
}

/// A limit that a tool keeps to by itself is not worth a line.
#[test]
fn a_limit_above_that_of_a_tool_is_not_told() {
    for (tool_name, own) in [("search_files", MAX_SEARCHED as u64), ("compare_files", MAX_COMPARED as u64)] {
        for (most, told) in [(own - 1, true), (own, false), (own + 1, false)] {
            let scope = Scope { max_file_bytes: Some(most), ..Scope::default() };
            assert_eq!(!scope.lines(&tool(tool_name)).is_empty(), told, "{tool_name} with {most}");
        }
    }
}

#[test]
fn a_scope_with_a_bound_is_not_empty() {
    assert!(Scope::default().is_empty());
    for scope in [
        paths(&[], &[]),
        Scope { max_bytes: Some(0), ..Scope::default() },
        Scope { max_file_bytes: Some(0), ..Scope::default() },
        Scope { commands: CommandRules { allow: set(&["ls"]), ..CommandRules::default() }, ..Scope::default() },
        Scope { domains: Some(DomainRules::default()), ..Scope::default() },
    ] {
        assert!(!scope.is_empty(), "{scope:?}");
    }
}

fn entry(session: &SessionPolicy, tool: &str) -> PolicyRule {
    listed(session).into_iter().find(|rule| rule.tool == tool).unwrap()
}

/// Each entry says all of its tool, in the order of names, and models come last.
#[test]
fn entries_of_a_bundle_are_listed() {
    let hidden = Override {
        tool: Some("delete_file".into()),
        suppressed: Some(true),
        mode: Some(Forbidden),
        source: "/etc/system.toml".into(),
        ..Override::default()
    };
    let session = session(&Policy { overrides: vec![hidden], ..policy(vec![rule(Target::Paths, paths(&["a"], &[]))]) });
    let found = listed(&session);
    let names: Vec<&str> = found.iter().map(|rule| rule.tool.as_str()).collect();
    let mut sorted: Vec<String> = all_tools().into_iter().map(|tool| tool.name).collect();
    sorted.sort();
    sorted.push(MODEL_CALL.into());
    assert_eq!(names, sorted);
    assert_eq!(
        entry(&session, "delete_file"),
        PolicyRule {
            tool: "delete_file".into(),
            category: "destructive".into(),
            mode: Forbidden,
            hidden: true,
            risk: Risk::High,
            source: "/etc/system.toml".into(),
            bounds: vec!["only paths in \"a\" (settings)".into()],
        }
    );
    assert_eq!(
        entry(&session, "list_programs"),
        PolicyRule {
            tool: "list_programs".into(),
            category: "readOnly".into(),
            mode: Auto,
            hidden: false,
            risk: Risk::Low,
            source: "the manifest".into(),
            bounds: Vec::new(),
        }
    );
}

fn with_rules(change: impl FnOnce(&mut ProfileRules)) -> SessionPolicy {
    let mut rules = ProfileRules::standard(Profile::Operator);
    change(&mut rules);
    session(&Policy { profiles: vec![(Profile::Operator, rules)], ..policy(Vec::new()) })
}

#[test]
fn models_are_an_entry_of_their_own() {
    for (access, mode, bounds) in [
        (ModelAccess::None, Forbidden, &[][..]),
        (ModelAccess::Local, Auto, &["only models on this machine"]),
        (ModelAccess::Remote, Auto, &[]),
    ] {
        let found = entry(&with_rules(|rules| rules.model = access), MODEL_CALL);
        let wanted = PolicyRule {
            tool: "LLM.Call".into(),
            category: "model".into(),
            mode,
            hidden: false,
            risk: Risk::Low,
            source: "the profile".into(),
            bounds: set(bounds),
        };
        assert_eq!(found, wanted);
    }
    let (none, local) = (with_rules(|rules| rules.model = ModelAccess::None), session(&policy(Vec::new())));
    assert_eq!(changes(&none, &local), ["LLM.Call: forbidden becomes auto"]);
}

#[test]
fn changes_of_a_policy_are_told_once_each() {
    let plain = || with_rules(|_| {});
    assert!(changes(&plain(), &plain()).is_empty());
    let hour = || with_rules(|rules| rules.policy_seconds = 3600);
    let second = with_rules(|rules| rules.policy_seconds = 1);
    assert_eq!(changes(&plain(), &hour()), ["the time of a policy: as long as the session becomes 3600 seconds"]);
    assert_eq!(changes(&hour(), &second), ["the time of a policy: 3600 seconds becomes 1 second"]);
    let stricter = |tool: &str, suppressed| {
        let rule = Override { tool: Some(tool.into()), mode: Some(StepUp), suppressed, ..Override::default() };
        session(&Policy { overrides: vec![rule], ..policy(Vec::new()) })
    };
    assert_eq!(changes(&plain(), &stricter("read_file", None)), ["read_file: auto becomes stepUp"]);
    assert_eq!(changes(&stricter("read_file", None), &plain()), ["read_file: stepUp becomes auto"]);
    assert_eq!(
        changes(&stricter("read_file", Some(true)), &stricter("read_file", None)),
        ["read_file: stepUp, hidden becomes stepUp"]
    );
    let bounded = |allow: &str| session(&policy(vec![rule(Target::Tool("read_file".into()), paths(&[allow], &["x"]))]));
    assert_eq!(
        changes(&bounded("a"), &bounded("b")),
        ["read_file: no longer only paths in \"a\" (settings)", "read_file: now only paths in \"b\" (settings)"]
    );
    // One line for the tools of which it is true, and another for the others.
    let of = |tools: &[&str]| {
        let mut session = SessionPolicy::new(&policy(Vec::new()), Profile::Operator);
        for tool in all_tools().into_iter().filter(|tool| tools.contains(&tool.name.as_str())) {
            session.grant(tool);
        }
        session
    };
    let (few, others) = (of(&["read_file", "write_file"]), of(&["write_file", "move_file", "copy_file"]));
    assert_eq!(changes(&few, &others), ["copy_file, move_file: granted", "read_file: no longer granted"]);
}

/// The tool that a rule is about, and the profile whose sessions it is for.
#[test]
fn a_rule_bounds_the_tools_of_its_target() {
    let names = |target: Target, profile: Option<Profile>, scope: Scope| -> Vec<String> {
        let rule = ScopeRule { profile, ..rule(target, scope) };
        let session = session(&policy(vec![rule]));
        session.capabilities().iter().filter(|tool| !tool.scopes.is_empty()).map(|tool| tool.name.clone()).collect()
    };
    let small = || Scope { max_bytes: Some(1), ..Scope::default() };
    assert_eq!(names(Target::Tool("read_file".into()), None, small()), ["read_file"]);
    assert_eq!(names(Target::Tool("read_file".into()), Some(Profile::Operator), small()), ["read_file"]);
    assert!(names(Target::Tool("read_file".into()), Some(Profile::Guest), small()).is_empty());
    assert!(names(Target::Network, None, small()).is_empty());
    let programs = names(Target::Programs, None, small());
    assert!(programs.contains(&"run_program".into()) && !programs.contains(&"list_programs".into()), "{programs:?}");
    let of_files = names(Target::Paths, None, small());
    assert!(of_files.contains(&"read_file".into()) && !of_files.contains(&"run_program".into()), "{of_files:?}");
    let with_programs = names(Target::Paths, None, paths(&["a"], &[]));
    assert!(with_programs.contains(&"run_program".into()), "{with_programs:?}");
    assert!(!with_programs.contains(&"list_programs".into()), "{with_programs:?}");
}

/// Rules on hosts are for what reaches a network alone.
#[test]
fn hosts_are_bounded_for_tools_that_reach_a_network() {
    let scope = Scope { domains: Some(DomainRules { allow: set(&["a.org"]), block: set(&[]) }), ..Scope::default() };
    let policy = policy(vec![rule(Target::Network, scope)]);
    let mut session = session(&policy);
    session.grant(network());
    let mut question = ask("read_file", "{}");
    (question.interface_id, question.method_name) = (7, "fetch".into());
    (question.tool, question.category) = ("fetch".into(), "outbound".into());
    for (arguments, words) in [
        (r#"{"url":"https://a.org/x"}"#, "AskPerson"),
        ("{}", "AskPerson"),
        (r#"{"url":"https://b.org/x"}"#, "\"b.org\" is not allowed"),
        (r#"{"url":1}"#, "url is not a text"),
        (r#"{"url":"https://a.org","url":"https://a.org"}"#, "url is there twice"),
    ] {
        question.arguments = arguments.into();
        let found = why(session.gate(&question, &now()));
        assert!(found.contains(words), "{arguments}: {found}");
    }
    let read = ask("read_file", r#"{"path":"a","url":"https://b.org"}"#);
    assert_eq!(session.gate(&read, &now()), Gate::Open);
    assert_eq!(session.permission(Category::Outbound, "fetch", "fetch").mode, Consent);
}

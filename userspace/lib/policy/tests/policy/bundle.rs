//! Policy bundles: what they permit, whom, until when; and attempts to get around them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::authority::{Profile, Risk, ToolQuestion};
use capos_schema::models::PermissionMode::{Auto, Consent, Forbidden, StepUp};
use capos_schema::{authority::ConsentReach, authority::Decision, authority::Span, reflection};
use proptest::prelude::*;

use crate::support::*;

/// Requirement C18: each bundle that is not for this session is rejected with what, where and what to do.
#[test]
fn c18_bundles_that_do_not_fit_are_rejected() {
    let policy = policy(Vec::new());
    let load =
        |bundle, now| SessionPolicy::load(&policy, bundle, &holder(), now).map(drop).map_err(|why| why.to_string());
    assert_eq!(load(bundle(&policy), ISSUED), Ok(()));
    assert_eq!(load(bundle(&policy), EXPIRES - 1), Ok(()));
    let good = || bundle(&policy);
    let other = |change: fn(&mut PolicyBundle)| {
        let mut changed = good();
        change(&mut changed);
        changed
    };
    for (bundle, now, words) in [
        (other(|bundle| bundle.format = 2), ISSUED, &["format", "has format 2", "knows 1"][..]),
        (other(|bundle| bundle.format = 0), ISSUED, &["format 0"]),
        (good(), EXPIRES, &["expires", "has expired", "/resume"]),
        (good(), u64::MAX, &["has expired"]),
        (good(), ISSUED - 1, &["issued", "clock went back", "log in again"]),
        (other(|bundle| bundle.holder.session = "s2".into()), ISSUED, &["session", "\"s2\"", "log in again"]),
        (other(|bundle| bundle.holder.principal = "bob".into()), ISSUED, &["principal", "\"bob\""]),
        (other(|bundle| bundle.holder.profile = Profile::Guest), ISSUED, &["profile", "guest"]),
        (other(|bundle| bundle.capabilities[0].permission.mode = StepUp), ISSUED, &["version", "not the digest"]),
        (other(|bundle| bundle.model = ModelAccess::Local), ISSUED, &["not the digest"]),
    ] {
        let found = load(bundle, now).unwrap_err();
        assert!(words.iter().all(|word| found.contains(word)), "{found}");
    }
    let twice = PolicyBundle::issue(&policy, holder(), (ISSUED, EXPIRES), [tools(FILES), tools(FILES)].concat());
    assert!(load(twice, ISSUED).unwrap_err().contains("two entries"));
}

#[test]
fn a_version_is_of_what_is_permitted_and_of_nothing_else() {
    let plain = policy(Vec::new());
    let version = |policy: &Policy| bundle(policy).version;
    let later = PolicyBundle::issue(
        &plain,
        Holder { session: "s2".into(), principal: "bob".into(), ..holder() },
        (5, 6),
        all_tools().into_iter().rev().collect(),
    );
    assert_eq!((version(&plain), version(&plain).len()), (later.version, 32));
    let forbidden = Override { tool: Some("read_file".into()), mode: Some(Forbidden), ..Override::default() };
    let areas = RiskRules { areas: ["project".to_string()].into(), ..RiskRules::default() };
    let mut all = vec![
        version(&plain),
        version(&Policy { overrides: vec![forbidden], ..plain.clone() }),
        version(&Policy { risks: vec![areas], ..plain.clone() }),
        version(&policy(vec![rule(Target::Paths, paths(&["/"], &["secret"]))])),
        version(&policy(vec![rule(Target::Paths, paths(&["/"], &["secret", "b"]))])),
        version(&policy(vec![rule(Target::Tool("read_file".into()), paths(&["/"], &["secret"]))])),
        version(&policy(vec![rule(Target::Paths, paths(&[], &[]))])),
        PolicyBundle::issue(&plain, holder(), (ISSUED, EXPIRES), tools(FILES)).version,
        PolicyBundle::issue(&plain, Holder { profile: Profile::Guest, ..holder() }, (1, 2), all_tools()).version,
    ];
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 9);
}

/// Requirement D20: nothing runs once the bundle has expired, whatever was agreed to before; a renewed one permits again, and
/// the consents have ended with the old one (requirement D28).
#[test]
fn d20_nothing_is_permitted_after_the_end() {
    let policy = policy(Vec::new());
    let mut session = session(&policy);
    let read = ask("read_file", "{\"path\":\"a\"}");
    let yes = Answer::Yes(ConsentReach { span: Span::Session, pattern: String::new() });
    assert_eq!(session.decide(&at("a"), (Auto, &now()), &yes, 1).0, Decision::Consented);
    let last = At::now(EXPIRES - 1);
    assert_eq!((session.gate(&read, &last), session.gate(&at("a"), &last)), (Gate::Open, Gate::Approved(1)));
    assert_eq!(session.may_ask_model(EXPIRES - 1), Ok(()));
    for late in [EXPIRES, EXPIRES + 1, u64::MAX] {
        for question in [&read, &at("a")] {
            assert!(why(session.gate(question, &At::now(late))).contains("has expired; /resume"));
            assert_eq!(session.decide(question, (Auto, &At::now(late)), &yes, 2).0, Decision::Forbidden);
            assert_eq!(session.review(question, &At::now(late)).mode, Forbidden);
        }
        assert!(session.may_ask_model(late).unwrap_err().contains("has expired"));
    }
    // A clock that goes back before the bundle was issued gains nothing.
    assert!(why(session.gate(&read, &At::now(ISSUED - 1))).contains("log in again"));
    assert!(session.may_ask_model(0).is_err());
    let again = PolicyBundle::issue(&policy, holder(), (EXPIRES, EXPIRES + 10), all_tools());
    let load = |now| SessionPolicy::load(&policy, again.clone(), &holder(), now);
    assert!(load(EXPIRES + 10).is_err(), "it has expired on the way");
    let session = load(EXPIRES).unwrap();
    assert_eq!(session.gate(&read, &At::now(EXPIRES)), Gate::Open);
    assert_eq!(session.gate(&at("a"), &At::now(EXPIRES)), Gate::AskPerson, "consents end with their bundle");
}

/// Requirement D24.
#[test]
fn d24_a_model_is_asked_only_if_that_is_granted() {
    let mut rules = ProfileRules::standard(Profile::Operator);
    rules.model = ModelAccess::None;
    let none = Policy { profiles: vec![(Profile::Operator, rules)], ..policy(Vec::new()) };
    let why = session(&none).may_ask_model(ISSUED).unwrap_err();
    assert_eq!(why, "LLM.Call is not granted to this operator session");
    assert_eq!(session(&policy(Vec::new())).may_ask_model(ISSUED), Ok(()));
}

/// A change of the configuration in mid-run changes nothing in a session before its bundle is renewed.
#[test]
fn a_policy_that_is_edited_holds_from_the_next_bundle_on() {
    let before = policy(Vec::new());
    let session = session(&before);
    let after = policy(vec![rule(Target::Paths, paths(&["/"], &["a"]))]);
    assert_eq!(session.gate(&at("a"), &now()), Gate::AskPerson);
    let next = bundle(&after);
    // A bundle of one configuration is not read with another.
    let other =
        Policy { risks: vec![RiskRules { areas: ["x".into()].into(), ..RiskRules::default() }], ..after.clone() };
    assert!(SessionPolicy::load(&other, next.clone(), &holder(), ISSUED).is_err());
    assert_eq!(session.gate(&at("a"), &now()), Gate::AskPerson);
    let session = SessionPolicy::load(&after, next, &holder(), ISSUED).unwrap();
    assert!(why(session.gate(&at("a"), &now())).contains("path \"a\": the path is blocked (settings)"));
}

/// Requirement D15: ways to name a blocked place, or to leave an allowed one.
#[test]
fn d15_no_spelling_of_a_path_gets_around_a_rule() {
    let session = session(&policy(vec![rule(Target::Paths, paths(&["proj"], &["proj/secret"]))]));
    for path in [
        "proj/secret",
        "/proj/secret",
        "proj/secret/",
        "proj//secret",
        "proj/./secret/.",
        "./proj/secret/key",
        "proj/a/../secret",
        "x/../proj/secret/k",
        "proj/secret/../secret",
        "proj/secret/x/..",
        "..",
        "../proj/a",
        "proj/../..",
        "/etc/passwd",
        "",
        "/",
        ".",
        "proj-evil/a",
        "projx",
        "PROJ/a",
        "proj/../etc",
        "pro\u{458}/a",
        "proj\u{2215}a",
        "proj\u{ff0f}a",
        "\u{2024}\u{2024}/proj",
        "proj\0/a",
        "proj/\u{7f}",
    ] {
        for tool in ["read_file", "write_file", "delete_file", "list_directory", "make_directory", "file_info"] {
            let question = ask(tool, &serde_json::json!({ "path": path, "text": "" }).to_string());
            let found = why(session.gate(&question, &now()));
            assert!(found.starts_with("out of scope: path"), "{tool} {path:?}: {found}");
        }
    }
    // Names that only look like the blocked one are other files, and so are those with more dots.
    for path in ["proj", "proj/a/../b", "proj/secrets", "proj/s\u{435}cret", "proj/secret.", "proj/...", "proj/Secret"]
    {
        assert_eq!(session.gate(&at(path), &now()), Gate::AskPerson, "{path:?}");
    }
    for (arguments, words) in [
        (r#"{"path":"proj/a","path":"proj/secret"}"#, "path is there twice"),
        (r#"{"path":"proj/secret","path":"proj/a"}"#, "path is there twice"),
        (r#"{"path":"proj/secret","\u0070ath":"proj/a"}"#, "path is there twice"),
        (r#"{"path":["proj/a"]}"#, "path is not a text"),
        (r#"{"path":null}"#, "path is not a text"),
        (r#"{"path":{"path":"proj/a"}}"#, "path is not a text"),
        (r#"["proj/a"]"#, "not JSON"),
        (r#"{"path":"proj/a"}{}"#, "not JSON"),
        ("", "not JSON"),
    ] {
        let found = why(session.gate(&ask("write_file", arguments), &now()));
        assert!(found.contains(words), "{arguments}: {found}");
    }
}

/// A rule that cannot be read blocks everything, or allows nothing.
#[test]
fn d15_a_rule_that_is_no_path_is_read_strictly() {
    for scope in [paths(&["/"], &["../x"]), paths(&["../x"], &[]), paths(&["a\u{0}"], &[]), paths(&["/"], &["\n"])] {
        let session = session(&policy(vec![rule(Target::Paths, scope)]));
        assert!(why(session.gate(&at("a"), &now())).starts_with("out of scope"));
    }
}

/// No tree that a session holds has links, so that a path is what its names say: nothing makes one.
#[test]
fn d15_there_is_no_way_to_make_a_link() {
    let directory = reflection::interface(FILES).unwrap();
    let about: Vec<&str> = directory
        .methods
        .iter()
        .map(|method| method.name)
        .filter(|name| name.to_lowercase().contains("link"))
        .collect();
    assert_eq!(about, ["readLink"]);
}

/// Each tool that names a file of the home directory says which argument does.
#[test]
fn each_path_of_a_tool_is_declared() {
    let (mut found, mut trees) = (Vec::new(), Vec::new());
    for interface in capos_schema::INTERFACES {
        for method in interface.methods.iter().filter(|method| method.tool.is_some()) {
            let named = |names: &[&str]| -> Vec<String> {
                names.iter().map(|name| format!("{}.{name}", method.tool.unwrap_or_default())).collect()
            };
            found.extend(named(method.paths));
            trees.extend(named(method.trees));
            let named = method.params_schema.contains("\"path\"");
            let of_home = interface.id == FILES;
            assert!(!(named && of_home) || method.paths == ["path"], "{}", method.name);
        }
    }
    found.sort();
    let wanted = [
        "compare_files.first",
        "compare_files.second",
        "copy_file.from",
        "copy_file.to",
        "delete_file.path",
        "export_file.path",
        "file_info.path",
        "find_files.path",
        "import_file.to",
        "list_directory.path",
        "make_directory.path",
        "move_file.from",
        "move_file.to",
        "read_file.path",
        "search_files.path",
        "write_file.path",
    ];
    assert_eq!(found, wanted);
    trees.sort();
    assert_eq!(trees, ["find_files.path", "move_file.from", "move_file.to", "search_files.path"]);
}

/// Requirements J03 and J04: the same call through a handle works inside the granted directory and fails outside.
#[test]
fn j03_j04_a_call_works_inside_its_directory_and_fails_outside() {
    let session = session(&policy(vec![rule(Target::Paths, paths(&["/tmp/sandbox"], &[]))]));
    let list =
        |path: &str| session.gate(&ask("list_directory", &serde_json::json!({ "path": path }).to_string()), &now());
    assert_eq!(list("/tmp/sandbox"), Gate::Open);
    let outside = why(list("/etc"));
    assert_eq!(outside, "out of scope: path \"/etc\": the path is outside what is allowed (settings)");
}

/// Requirement D16.
#[test]
fn d16_files_above_the_limit_are_out_of_scope() {
    let scope = Scope { max_file_bytes: Some(10), ..Scope::default() };
    let session = session(&policy(vec![rule(Target::Paths, scope)]));
    let write = |text: &str, append: serde_json::Value| {
        ask("write_file", &serde_json::json!({ "path": "a", "text": text, "append": append }).to_string())
    };
    let size = |bytes| At { file_bytes: bytes, ..now() };
    let read = ask("read_file", "{\"path\":\"a\"}");
    assert_eq!(session.gate(&read, &size(Some(10))), Gate::Open);
    assert!(why(session.gate(&read, &size(Some(11)))).contains("the file has 11 bytes, and 10 are allowed"));
    assert!(why(session.gate(&read, &size(None))).contains("could not be looked up"));
    assert_eq!(session.measures(&read), Some(Measured::Home("a".into())));
    assert_eq!(session.gate(&write("0123456789", false.into()), &size(Some(999))), Gate::AskPerson, "it is replaced");
    assert!(why(session.gate(&write("0123456789x", false.into()), &size(None))).contains("11 bytes"));
    assert!(
        why(session.gate(&write("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}x", false.into()), &size(None))).contains("11 bytes")
    );
    assert_eq!(session.gate(&write("01", true.into()), &size(Some(8))), Gate::AskPerson);
    assert!(why(session.gate(&write("01", true.into()), &size(Some(9)))).contains("11 bytes"));
    assert!(why(session.gate(&write("01", true.into()), &size(Some(u64::MAX)))).contains("out of scope"));
    assert!(why(session.gate(&write("01", "true".into()), &size(None))).contains("could not be looked up"), "no flag");
    assert_eq!(self::session(&policy(Vec::new())).measures(&read), None, "nobody has to look without a rule");
}

/// A directory that a program is given is a path like that of a tool: with it, a file has another name.
#[test]
fn a_directory_of_a_program_is_in_scope() {
    let session = session(&policy(vec![rule(Target::Paths, paths(&["notes", "a:ro"], &["notes/secret"]))]));
    let run =
        |with: &str| session.gate(&ask("run_program", &format!("{{\"program\":\"cat\",\"with\":{with}}}")), &now());
    for within in
        ["[]", r#"["x=/home/notes/b:ro"]"#, r#"["x=/home/notes/a:rw","y=/home/notes/b/:ro"]"#, r#"["x=/home/a:ro:rw"]"#]
    {
        assert_eq!(run(within), Gate::AskPerson, "{within}");
    }
    for (outside, words) in [
        (r#"["x=/home/notes/secret:ro"]"#, "with \"x=/home/notes/secret:ro\": the path is blocked"),
        (r#"["x=/home/notes/./secret/a:rw"]"#, "the path is blocked"),
        (r#"["y=/home/notes/b:ro","x=/home//notes//secret:ro"]"#, "the path is blocked"),
        (r#"["x=/home/notes:ro"]"#, "with \"x=/home/notes:ro\": a path below it is blocked"),
        (r#"["x=/home/notes/b/..:ro"]"#, "a path below it is blocked"),
        (r#"["x=/home:ro"]"#, "outside what is allowed"),
        (r#"["x=/home/etc:ro"]"#, "outside what is allowed"),
        (r#"["x=/home/notes"]"#, "names no directory"),
        (r#"["/home/notes:ro"]"#, "names no directory"),
        (r#""x=/home/notes:ro""#, "not a list of texts"),
        (r#"[],"with":[]"#, "with is there twice"),
    ] {
        assert!(why(run(outside)).contains(words), "{outside}: {}", why(run(outside)));
    }
    assert_eq!(session.gate(&ask("run_program", r#"{"program":"cat"}"#), &now()), Gate::AskPerson);
    // The other bounds of a rule on paths are of files.
    let scope = Scope { max_bytes: Some(1), max_file_bytes: Some(1), ..Scope::default() };
    let session = self::session(&policy(vec![rule(Target::Paths, scope)]));
    assert_eq!(session.gate(&ask("run_program", r#"{"program":"cat"}"#), &now()), Gate::AskPerson);
}

/// Requirement D17.
#[test]
fn d17_programs_are_bounded_by_name_and_arguments() {
    let commands = CommandRules {
        allow: ["ls".to_string(), "cat".into()].into(),
        arguments: [("cat".to_string(), ArgumentRules { allow: Vec::new(), block: vec!["secret*".into()] })].into(),
        ..CommandRules::default()
    };
    let session = session(&policy(vec![rule(Target::Programs, Scope { commands, ..Scope::default() })]));
    let run = |arguments: &str| session.gate(&ask("run_program", arguments), &now());
    assert_eq!(run(r#"{"program":"cat","arguments":["a"]}"#), Gate::AskPerson);
    assert_eq!(run(r#"{"program":"cat","arguments":["a"],"with":["x=/home/a:ro"]}"#), Gate::AskPerson);
    let given = why(run(r#"{"program":"cat","arguments":["a"],"with":["x=/home/secret:ro"]}"#));
    assert!(given.contains("\"secret*\" is blocked"), "{given}");
    assert_eq!(run(r#"{"program":"ls"}"#), Gate::AskPerson);
    let long = format!("{{\"program\":\"cat\",\"arguments\":[{}\"secret\"]}}", "\"a\",".repeat(2000));
    for (arguments, words) in [
        (r#"{"program":"rm"}"#, "not among those that are allowed"),
        (r#"{"program":"cat","arguments":["a","secret.txt"]}"#, "\"secret*\" is blocked"),
        (r#"{"program":"cat","program":"rm"}"#, "program is there twice"),
        (r#"{"program":"cat","arguments":["secret"],"arguments":["a"]}"#, "arguments is there twice"),
        (r#"{"program":"cat","arguments":"secret"}"#, "not a list of texts"),
        (r#"{"program":"cat","arguments":[["secret"]]}"#, "not a list of texts"),
        (long.as_str(), "not a list of texts that a rule can look at"),
        (r#"{"arguments":[]}"#, "not among those that are allowed"),
    ] {
        let found = why(run(arguments));
        assert!(found.contains(words), "{found}");
    }
    // Rules on programs do not touch other tools.
    assert_eq!(session.gate(&at("a"), &now()), Gate::AskPerson);
    assert_eq!(session.gate(&ask("list_programs", "{}"), &now()), Gate::Open);
}

/// Requirement D19.
#[test]
fn d19_the_risk_of_a_call_is_raised_by_its_path_or_program() {
    let risks = vec![raises(None, &["proj"], &["ls"])];
    let plain = session(&policy(Vec::new()));
    let raised = session(&Policy { risks, ..policy(Vec::new()) });
    let path = |tool: &str, path: &str| ask(tool, &serde_json::json!({ "path": path, "text": "" }).to_string());
    for (question, usual, here) in [
        (path("read_file", "x"), Risk::Low, Risk::Low),
        (path("write_file", "proj/a"), Risk::Medium, Risk::Medium),
        (path("write_file", "proj/../x"), Risk::Medium, Risk::High),
        (path("write_file", "../x"), Risk::Medium, Risk::High),
        (path("make_directory", "x"), Risk::Medium, Risk::High),
        (path("delete_file", "proj/a"), Risk::High, Risk::High),
        (ask("write_file", "{\"path\":1}"), Risk::Medium, Risk::High),
        (ask("run_program", "{\"program\":\"ls\"}"), Risk::Medium, Risk::Medium),
        (ask("run_program", "{\"program\":\"rm\"}"), Risk::Medium, Risk::High),
        (ask("run_program", "{}"), Risk::Medium, Risk::High),
        (ask("list_programs", "{}"), Risk::Low, Risk::Low),
    ] {
        assert_eq!(plain.review(&question, &now()).risk, usual, "{question:?}");
        assert_eq!(raised.review(&question, &now()).risk, here, "{question:?}");
    }
    let told = raised.explain(&path("write_file", "x"), &now()).steps.join("\n");
    assert!(told.contains("risk: high, since it changes something outside the areas of work"), "{told}");
}

#[test]
fn an_explanation_names_each_rule_with_its_origin() {
    let stricter = Override {
        tool: Some("write_file".into()),
        mode: Some(StepUp),
        source: "/etc/system.toml".into(),
        ..Override::default()
    };
    let rules = vec![
        rule(Target::Paths, paths(&["/"], &["secret"])),
        ScopeRule { profile: Some(Profile::Guest), ..rule(Target::Paths, paths(&[], &[])) },
        rule(Target::Tool("write_file".into()), Scope { max_bytes: Some(100), ..Scope::default() }),
    ];
    let session = session(&Policy { overrides: vec![stricter], ..policy(rules) });
    let found = session.explain(&at("a"), &now());
    assert_eq!(
        found.steps,
        [
            "granted: write_file (mutating)",
            "scope: only paths in \"/\"; no path in \"secret\", from settings",
            "scope: no arguments above 100 bytes, from settings",
            "approval: stepUp, from /etc/system.toml",
        ]
    );
    assert_eq!((found.review.mode, found.review.risk), (StepUp, Risk::Medium));
    let found = session.explain(&at("secret"), &now());
    assert_eq!(found.review.reason, "out of scope: path \"secret\": the path is blocked (settings)");
    assert_eq!(found.steps.len(), 1, "what comes after is not looked at");
    assert_eq!(session.gate(&at("a"), &now()), Gate::AskPassphrase, "it decides nothing");
}

/// A policy with this many tools, and as many paths and programs in its rules.
fn large(entries: usize) -> (Policy, Vec<GrantedTool>) {
    let names: Vec<String> = (0..entries).map(|number| format!("dir-{number}/sub")).collect();
    let scope = Scope {
        paths: Some(PathRules {
            allow: names.clone(),
            block: names.iter().map(|name| format!("{name}/secret")).collect(),
        }),
        commands: CommandRules { block: names.iter().cloned().collect(), ..CommandRules::default() },
        ..Scope::default()
    };
    let policy = policy(vec![rule(Target::Tool("write_file".into()), scope)]);
    let mut tools = all_tools();
    tools.extend((0..entries).map(|number| GrantedTool {
        interface_id: FILES,
        method: "x".into(),
        name: format!("tool-{number}"),
        category: Category::Mutating,
        pattern: None,
        paths: &[],
        trees: &[],
    }));
    (policy, tools)
}

/// Requirement D13: a check takes as many look-ups with 10,000 tools and 20,000 rules as with ten.
#[test]
fn d13_a_check_takes_no_more_with_ten_thousand_entries() {
    let lookups = |entries: usize| {
        let (policy, tools) = large(entries);
        let bundle = PolicyBundle::issue(&policy, holder(), (ISSUED, EXPIRES), tools);
        let session = SessionPolicy::load(&policy, bundle, &holder(), ISSUED).unwrap();
        [("dir-3/sub/a/b", Consent), ("dir-3/sub/secret", Forbidden), ("elsewhere/a", Forbidden)].map(|(path, mode)| {
            let found = session.explain(&at(path), &now());
            assert_eq!(found.review.mode, mode, "{path}");
            found.lookups
        })
    };
    let few = lookups(10);
    assert_eq!(few, lookups(10_000));
    assert!(few.iter().all(|count| *count <= 8), "{few:?}");
}

/// The figure of `docs/reference/policy.md`: run this test under
/// `valgrind --tool=callgrind --toggle-collect='*measured_check*'`.
#[test]
#[ignore = "it is run under valgrind"]
fn d13_instructions_of_a_check() {
    let (policy, tools) = large(10_000);
    let bundle = PolicyBundle::issue(&policy, holder(), (ISSUED, EXPIRES), tools);
    let session = SessionPolicy::load(&policy, bundle, &holder(), ISSUED).unwrap();
    let question = at("dir-7777/sub/a/b");
    assert_eq!(measured_check(&session, &question), Gate::AskPerson);
}

#[inline(never)]
fn measured_check(session: &SessionPolicy, question: &ToolQuestion) -> Gate {
    session.gate(question, &now())
}

/// What path rules mean, without an index.
fn slow(rules: &PathRules, path: &str) -> Result<(), PathError> {
    let path = normalise(path)?;
    let covers = |rule: &String, broken: bool| normalise(rule).map_or(broken, |rule| path.starts_with(&rule));
    if rules.block.iter().any(|rule| covers(rule, true)) {
        return Err(PathError::Blocked);
    }
    if rules.allow.iter().any(|rule| covers(rule, false)) { Ok(()) } else { Err(PathError::NotAllowed) }
}

/// The same of a path with everything below it.
fn slow_tree(rules: &PathRules, path: &str) -> Result<(), PathError> {
    slow(rules, path)?;
    let path = normalise(path)?;
    let is_below = |rule: &String| normalise(rule).is_ok_and(|rule| rule.starts_with(&path));
    if rules.block.iter().any(is_below) { Err(PathError::BlockedBelow) } else { Ok(()) }
}

proptest! {
    #[test]
    fn an_index_of_paths_says_what_its_rules_say(
        allow in prop::collection::vec("[ab./]{0,6}", 0..6),
        block in prop::collection::vec("[ab./]{0,6}", 0..4),
        path in "[ab./\n]{0,10}",
    ) {
        let rules = PathRules { allow, block };
        let found = rules.check(&path);
        // Both are refusals; a block that is found first may hide that the rest of the rules would not allow it.
        prop_assert_eq!(found, slow(&rules, &path));
        prop_assert_eq!(rules.check_tree(&path), slow_tree(&rules, &path));
    }

    /// Whatever the arguments and the rules are: what one rule blocks, no other rule permits.
    #[test]
    fn another_rule_never_permits_more(
        path in "[ab./]{0,8}",
        first in prop::collection::vec("[ab./]{1,4}", 0..3),
        second in prop::collection::vec("[ab./]{1,4}", 0..3),
    ) {
        let scope = |block: &[String]| Scope {
            paths: Some(PathRules { allow: vec!["/".into()], block: block.to_vec() }),
            ..Scope::default()
        };
        let one = session(&policy(vec![rule(Target::Paths, scope(&first))])).gate(&at(&path), &now());
        let both = policy(vec![rule(Target::Paths, scope(&first)), rule(Target::Paths, scope(&second))]);
        let both = session(&both).gate(&at(&path), &now());
        let is_shut = |gate: &Gate| matches!(gate, Gate::Shut { .. });
        prop_assert!(is_shut(&both) || one == Gate::AskPerson);
        prop_assert!(!is_shut(&one) || is_shut(&both));
    }

    /// No text makes a check panic, and none that is not an object passes a rule.
    #[test]
    fn any_arguments_are_checked(arguments in "\\PC{0,40}", json in r#"\{"(path|text|append)":("[a./]{0,5}"|1|true|\[\]),"path":("a"|null)\}"#) {
        let session = session(&policy(vec![rule(Target::Paths, Scope { max_file_bytes: Some(3), ..paths(&["a"], &[]) })]));
        for arguments in [arguments, json] {
            let gate = session.gate(&ask("write_file", &arguments), &At { file_bytes: Some(0), ..now() });
            if gate == Gate::AskPerson {
                let read: serde_json::Value = serde_json::from_str(&arguments).unwrap();
                prop_assert!(read.is_object());
            }
        }
    }
}

//! Bounds on files: which calls they are about, and which file's size counts.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::authority::{Profile, ToolQuestion};
use capos_schema::models::PermissionMode;
use capos_schema::reflection;
use capos_schema::storage::DirectoryClient;
use capos_schema::transfer::TransferVolumesClient;
use serde_json::{Value, json};

const FILES: u64 = DirectoryClient::INTERFACE_ID;
const VOLUMES: u64 = TransferVolumesClient::INTERFACE_ID;

fn tools() -> Vec<GrantedTool> {
    let methods =
        [FILES, VOLUMES].map(|id| reflection::interface(id).unwrap().methods.iter().map(move |method| (id, method)));
    let tool = |(interface_id, method): (u64, &reflection::MethodInfo)| {
        Some(GrantedTool {
            interface_id,
            method: method.name.into(),
            name: method.tool?.into(),
            category: method.category?,
            pattern: method.pattern,
            paths: method.paths,
            trees: method.trees,
        })
    };
    methods.into_iter().flatten().filter_map(tool).collect()
}

/// A session with these bounds on all tools that name a file. Those that neither delete nor send anything need no question.
fn session(scope: Scope) -> SessionPolicy {
    let holder = Holder { session: "s1".into(), principal: "ada".into(), profile: Profile::Operator };
    let mode = |category| match category {
        Category::Destructive | Category::Admin => PermissionMode::StepUp,
        Category::Outbound => PermissionMode::Consent,
        Category::ReadOnly | Category::Mutating => PermissionMode::Auto,
    };
    let modes = Modes::new(|category| Some(mode(category))).unwrap();
    let rule = ScopeRule { profile: None, target: Target::Paths, scope, source: "settings".into() };
    let policy =
        Policy { scopes: Vec::from([rule]), modes: Vec::from([(Profile::Operator, modes)]), ..Policy::default() };
    let bundle = PolicyBundle::issue(&policy, holder.clone(), (0, 10), tools());
    SessionPolicy::load(&policy, bundle, &holder, 0).unwrap()
}

fn ask(tool: &str, arguments: &Value) -> ToolQuestion {
    let found = tools().into_iter().find(|found| found.name == tool).unwrap();
    ToolQuestion {
        interface_id: found.interface_id,
        method_name: found.method,
        tool: tool.into(),
        category: found.category.name().into(),
        arguments: arguments.to_string(),
        ..ToolQuestion::default()
    }
}

fn import(to: &str) -> ToolQuestion {
    ask("import_file", &json!({ "volume": "usb", "path": "lists/secret", "to": to }))
}

fn at(bytes: Option<u64>) -> At {
    At { file_bytes: bytes, ..At::now(0) }
}

/// The size of an imported file is that on the volume.
#[test]
fn an_import_is_measured_on_its_volume() {
    let session = session(Scope { max_file_bytes: Some(10), ..Scope::default() });
    let wanted = Measured::Volume("usb".into(), "lists/secret".into());
    assert_eq!(session.measures(&import("a")), Some(wanted));
    assert_eq!(session.gate(&import("a"), &at(Some(10))), Gate::Open);
    for bytes in [Some(11), None] {
        assert!(matches!(session.gate(&import("a"), &at(bytes)), Gate::Shut { .. }), "{bytes:?}");
    }
    // A member that only a tool for texts has says nothing about another one.
    let more = ask("import_file", &json!({ "volume": "usb", "path": "a", "to": "a", "text": "", "append": false }));
    assert!(matches!(session.gate(&more, &at(Some(11))), Gate::Shut { .. }));
    let export = ask("export_file", &json!({ "path": "a", "volume": "usb", "to": "b" }));
    assert_eq!(session.measures(&export), Some(Measured::Home("a".into())));
}

/// Only a tool that writes a text leaves a file of its size. An argument that another tool does not have changes nothing.
#[test]
fn a_text_in_the_arguments_makes_no_file_small() {
    let session = session(Scope { max_file_bytes: Some(10), ..Scope::default() });
    let gates = |tool: &str| {
        let question = ask(tool, &json!({ "path": "a", "from": "a", "to": "b", "text": "", "append": false }));
        [10, 11].map(|bytes| matches!(session.gate(&question, &at(Some(bytes))), Gate::Shut { .. }))
    };
    for tool in ["read_file", "copy_file", "export_file"] {
        assert_eq!(gates(tool), [false, true], "{tool}");
    }
    assert_eq!(gates("write_file"), [false, false]);
}

/// An empty path of a tool that chooses one itself is out of scope: no rule can be about it.
#[test]
fn no_tool_chooses_a_path_that_a_rule_is_about() {
    let rules = PathRules { allow: vec!["/".into()], block: vec!["secret".into()] };
    let session = session(Scope { paths: Some(rules), ..Scope::default() });
    assert_eq!(session.gate(&import("a"), &at(None)), Gate::Open);
    for to in ["", "secret", "./secret"] {
        assert!(matches!(session.gate(&import(to), &at(None)), Gate::Shut { .. }), "{to:?}");
    }
    assert_eq!(session.gate(&ask("list_directory", &json!({ "path": "" })), &at(None)), Gate::Open, "it is the top");
}

/// A file above the limit can still be looked at and deleted.
#[test]
fn a_limit_on_files_is_for_tools_that_handle_their_content() {
    let session = session(Scope { max_file_bytes: Some(10), ..Scope::default() });
    for tool in ["delete_file", "file_info", "list_directory", "make_directory", "find_files", "move_file"] {
        let question = ask(tool, &json!({ "path": "a", "from": "a", "to": "b", "name": "x" }));
        assert_eq!(session.measures(&question), None, "{tool}");
        assert!(!matches!(session.gate(&question, &at(Some(11))), Gate::Shut { .. }), "{tool}");
    }
    for tool in ["read_file", "export_file", "copy_file"] {
        let question = ask(tool, &json!({ "path": "a", "from": "a", "to": "b" }));
        assert_eq!(session.measures(&question), Some(Measured::Home("a".into())), "{tool}");
        assert!(matches!(session.gate(&question, &at(Some(11))), Gate::Shut { .. }), "{tool}");
    }
}

/// The size of each file that a search or a comparison reads cannot be looked up. It reads none above its own limit.
#[test]
fn tools_that_read_many_files_keep_to_a_limit_above_their_own() {
    for (tool, reads) in [("search_files", 256 << 10), ("compare_files", 64 << 10)] {
        let question = ask(tool, &json!({ "path": "a", "text": "x", "first": "a", "second": "b" }));
        for (most, opens) in [(reads, true), (reads - 1, false)] {
            let session = session(Scope { max_file_bytes: Some(most), ..Scope::default() });
            assert_eq!(session.gate(&question, &at(Some(1))) == Gate::Open, opens, "{tool} with {most}");
        }
    }
}

/// What a call reads or moves with everything below has no blocked place below, at its new path neither.
#[test]
fn a_rule_on_a_place_holds_for_a_call_on_everything_above_it() {
    let rules = PathRules { allow: vec!["/".into()], block: vec!["notes/secret".into()] };
    let session = session(Scope { paths: Some(rules), ..Scope::default() });
    let of = |tool: &str, path: &str| match tool {
        "move_file" => ask(tool, &json!({ "from": path, "to": "new" })),
        "move_file to" => ask("move_file", &json!({ "from": "old", "to": path })),
        _ => ask(tool, &json!({ "path": path, "name": "x", "text": "x" })),
    };
    for tool in ["find_files", "search_files", "move_file", "move_file to"] {
        for (path, opens) in
            [("notes", false), (".", false), ("notes/secret/a", false), ("notes/other", true), ("b", true)]
        {
            let is_shut = matches!(session.gate(&of(tool, path), &at(Some(1))), Gate::Shut { .. });
            assert_eq!(!is_shut, opens, "{tool} {path}");
        }
    }
}

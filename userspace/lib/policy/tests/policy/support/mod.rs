//! A session with the tools of files and programs, as the broker grants them.

#![allow(dead_code, clippy::unwrap_used, reason = "no test uses all of it, and helpers may fail the test")]

use capos_policy::*;
use capos_schema::authority::{Profile, ToolQuestion};
use capos_schema::models::PermissionMode::{Auto, Consent, StepUp};
use capos_schema::reflection;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::LauncherClient;

pub const FILES: u64 = DirectoryClient::INTERFACE_ID;
pub const PROGRAMS: u64 = LauncherClient::INTERFACE_ID;
/// When the bundles of these tests are issued and expire.
pub const ISSUED: u64 = 1000;
pub const EXPIRES: u64 = 2000;

/// The tools of an interface, as the broker grants them.
pub fn tools(interface: u64) -> Vec<GrantedTool> {
    let found = reflection::interface(interface).unwrap();
    let tools = found.methods.iter().filter_map(|method| {
        Some(GrantedTool {
            interface_id: interface,
            method: method.name.into(),
            name: method.tool?.into(),
            category: method.category?,
            pattern: method.pattern,
            paths: method.paths,
            trees: method.trees,
        })
    });
    tools.collect()
}

pub fn all_tools() -> Vec<GrantedTool> {
    [tools(FILES), tools(PROGRAMS)].concat()
}

pub fn modes() -> Modes {
    let mode = |category| match category {
        Category::ReadOnly => Auto,
        Category::Mutating | Category::Outbound => Consent,
        Category::Destructive | Category::Admin => StepUp,
    };
    Modes::new(|category| Some(mode(category))).unwrap()
}

pub fn policy(scopes: Vec<ScopeRule>) -> Policy {
    let modes = [Profile::Operator, Profile::Guest].map(|profile| (profile, modes())).into();
    Policy { scopes, modes, ..Policy::default() }
}

pub fn rule(target: Target, scope: Scope) -> ScopeRule {
    ScopeRule { profile: None, target, scope, source: "settings".into() }
}

pub fn paths(allow: &[&str], block: &[&str]) -> Scope {
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Scope { paths: Some(PathRules { allow: list(allow), block: list(block) }), ..Scope::default() }
}

pub fn holder() -> Holder {
    Holder { session: "s1".into(), principal: "ada".into(), profile: Profile::Operator }
}

pub fn bundle(policy: &Policy) -> PolicyBundle {
    PolicyBundle::issue(policy, holder(), (ISSUED, EXPIRES), all_tools())
}

pub fn session(policy: &Policy) -> SessionPolicy {
    SessionPolicy::load(policy, bundle(policy), &holder(), ISSUED).unwrap()
}

pub fn ask(tool: &str, arguments: &str) -> ToolQuestion {
    let found = all_tools().into_iter().find(|found| found.name == tool).unwrap();
    ToolQuestion {
        interface_id: found.interface_id,
        method_name: found.method,
        tool: tool.into(),
        category: found.category.name().into(),
        arguments: arguments.into(),
        conversation: "c1".into(),
        turn: 1,
        call_id: "call-1".into(),
        ..ToolQuestion::default()
    }
}

pub fn at(path: &str) -> ToolQuestion {
    ask("write_file", &serde_json::json!({ "path": path, "text": "x" }).to_string())
}

pub fn now() -> At {
    At::now(ISSUED)
}

pub fn why(gate: Gate) -> String {
    match gate {
        Gate::Shut { reason } => reason,
        other => format!("{other:?}"),
    }
}

pub fn raises(profile: Option<Profile>, areas: &[&str], programs: &[&str]) -> RiskRules {
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    RiskRules { profile, areas: set(areas), programs: set(programs), source: "settings".into() }
}

//! The capability graph in Graphviz's language.

use std::collections::BTreeMap;
use std::fmt::Write;

use capos_schema::manifest::{GrantSource, Manifest, Service};
use capos_service_graph::FIRST;

/// What nearly every process holds and nothing follows from: left out of the picture.
const EVERYWHERE: &[&str] = &["kernel.timer", "kernel.entropy", "kernel.log", "log.Logger"];

/// Who may call whom, by which interface, as a directed graph: services as boxes, profiles and programs as ellipses, of
/// which those that hold the same are one. Time, entropy and log lines are left out.
#[must_use]
pub fn dot(manifest: &Manifest) -> String {
    let services = manifest.services.iter().map(|service| (service.name.clone(), service));
    let mut alike: Vec<(Vec<&str>, &Service)> = Vec::new();
    for program in &manifest.programs {
        let held = |program: &Service| -> Vec<(String, bool)> {
            program.grants.iter().map(|grant| (grant.from.clone(), grant.read_only)).collect()
        };
        match alike.iter_mut().find(|(_, other)| held(other) == held(program)) {
            Some((names, _)) => names.push(&program.name),
            None => alike.push((vec![&program.name], program)),
        }
    }
    let programs = alike.into_iter().map(|(names, program)| (names.join(", "), program));
    // By from and to, what is held.
    let mut edges: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut add = |holder: &str, provider: &str, what: &str, read_only: bool| {
        let form = if read_only { " read-only" } else { "" };
        edges.entry((holder.to_owned(), provider.to_owned())).or_default().push(format!("{what}{form}"));
    };
    for (names, process) in services.chain(programs) {
        for grant in process.grants.iter().filter(|grant| !EVERYWHERE.contains(&grant.from.as_str())) {
            let Some((provider, what)) = grant.from.split_once('.') else { continue };
            match grant.source {
                // What it only keeps for sessions is drawn there.
                GrantSource::Service(_) if grant.name == grant.from => {}
                _ => add(&names, provider, what, grant.read_only),
            }
        }
    }
    for profile in &manifest.profiles {
        for grant in &profile.grants {
            let Some((provider, what)) = grant.held.split_once('.') else { continue };
            add(&format!("{} sessions", profile.profile.name()), provider, what, grant.read_only);
        }
    }
    let mut out = "digraph capabilities {\n  rankdir=LR;\n".to_owned();
    let services = manifest.services.iter().map(|service| service.name.as_str()).chain([FIRST, "kernel"]);
    for name in services.filter(|name| edges.keys().any(|(from, to)| from == name || to == name)) {
        // Writing to a string never fails.
        let _ = writeln!(out, "  \"{name}\" [shape=box];");
    }
    for ((from, to), held) in &edges {
        let _ = writeln!(out, "  \"{from}\" -> \"{to}\" [label=\"{}\"];", held.join("\\n"));
    }
    out.push_str("}\n");
    out
}

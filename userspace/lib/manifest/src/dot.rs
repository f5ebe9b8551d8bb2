//! The capability graph in Graphviz's language.

use std::collections::BTreeMap;
use std::fmt::Write;

use capos_abi::Rights;
use capos_schema::manifest::{Grant, GrantSource, Manifest, Service};
use capos_service_graph::FIRST;

use crate::source::{ISSUER, READ_ONLY};

/// Capabilities that nearly every process holds and that say nothing: left out of the picture.
const EVERYWHERE: &[&str] = &["kernel.timer", "kernel.entropy", "log.Logger"];

/// Whether a capability is drawn.
fn is_drawn(grant: &Grant) -> bool {
    let only_writes = grant.from == "kernel.log" && grant.rights & Rights::RECEIVE.0 == 0;
    !only_writes && !EVERYWHERE.contains(&grant.from.as_str())
}

/// The drawn part of a process: processes with the same are drawn as one.
fn drawn(process: &Service) -> Vec<(&str, bool, u32, Option<&GrantSource>)> {
    let drawn = process.grants.iter().filter(|grant| is_drawn(grant));
    drawn
        .map(|grant| {
            // The holders whose clients a service knows by number; these are different clients.
            let hardware = Some(&grant.source).filter(|source| !matches!(source, GrantSource::Service(_)));
            (grant.from.as_str(), grant.read_only, grant.rights, hardware)
        })
        .collect()
}

/// Which process may call which service, by which interface, as a directed graph: services as boxes, profiles and
/// programs as ellipses. Those with the same capabilities share one ellipse. Time, entropy and writing log lines are
/// left out, and the broker's capabilities for sessions.
#[must_use]
pub fn dot(manifest: &Manifest) -> String {
    let services = manifest.services.iter().map(|service| (service.name.clone(), service));
    let mut alike: Vec<(Vec<&str>, &Service)> = Vec::new();
    for program in &manifest.programs {
        match alike.iter_mut().find(|(_, other)| drawn(other) == drawn(program)) {
            Some((names, _)) => names.push(&program.name),
            None => alike.push((vec![&program.name], program)),
        }
    }
    let programs = alike.into_iter().map(|(names, program)| (names.join(", "), program));
    let of_sessions = |process: &Service, grant: &Grant| {
        let issues = process.provides.iter().any(|provided| provided.name == ISSUER);
        let mut sessions = manifest.profiles.iter().flat_map(|profile| &profile.grants);
        issues && grant.name == grant.from && sessions.any(|held| held.held == grant.from)
    };
    // By from and to, what is held.
    let mut edges: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut add = |holder: &str, provider: &str, what: &str, read_only: bool| {
        let form = if read_only { READ_ONLY } else { "" };
        edges.entry((holder.to_owned(), provider.to_owned())).or_default().push(format!("{what}{form}"));
    };
    for (names, process) in services.chain(programs) {
        for grant in process.grants.iter().filter(|grant| is_drawn(grant) && !of_sessions(process, grant)) {
            if let Some((provider, what)) = grant.from.split_once('.') {
                add(&names, provider, what, grant.read_only);
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

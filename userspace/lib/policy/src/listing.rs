//! A policy as a person reads it: its rules, and how two of them differ.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::authority::{PolicyRule, Risk};
use capos_schema::models::PermissionMode;

use crate::bundle::{Capability, MODEL_CALL};
use crate::profile::ModelAccess;
use crate::session::SessionPolicy;

/// The entries of a session's bundle.
#[must_use]
pub fn listed(policy: &SessionPolicy) -> Vec<PolicyRule> {
    let of = |tool: &Capability| PolicyRule {
        tool: tool.name.clone(),
        category: tool.category.name().to_string(),
        mode: tool.permission.mode,
        hidden: tool.permission.suppressed,
        risk: tool.risk,
        source: tool.source.clone(),
        bounds: bounds(tool),
    };
    let mut rules: Vec<PolicyRule> = policy.capabilities().into_iter().map(of).collect();
    let access = policy.rules().model;
    let granted = access != ModelAccess::None;
    rules.push(PolicyRule {
        tool: MODEL_CALL.to_string(),
        category: "model".to_string(),
        mode: if granted { PermissionMode::Auto } else { PermissionMode::Forbidden },
        hidden: false,
        risk: Risk::Low,
        source: "the profile".to_string(),
        bounds: if access == ModelAccess::Local {
            Vec::from(["only models on this machine".to_string()])
        } else {
            Vec::new()
        },
    });
    rules
}

fn bounds(tool: &Capability) -> Vec<String> {
    let of = |bound: &crate::bundle::BoundBy| {
        let source = bound.source.clone();
        bound.scope.lines(tool).into_iter().map(move |line| format!("{line} ({source})")).collect::<Vec<_>>()
    };
    tool.scopes.iter().flat_map(of).collect()
}

/// How long a policy is valid that is issued when its session begins.
fn duration(seconds: u64) -> String {
    if seconds == u64::MAX { "as long as the session".to_string() } else { count(seconds, "second").to_string() }
}

/// Lines about tools. What is true of several tools is one line, with their names.
#[derive(Default)]
struct Lines(Vec<(String, Vec<String>)>);

impl Lines {
    fn add(&mut self, tool: &str, change: String) {
        match self.0.iter_mut().find(|(known, _)| *known == change) {
            Some((_, tools)) => tools.push(tool.to_string()),
            None => self.0.push((change, Vec::from([tool.to_string()]))),
        }
    }

    fn finish(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(change, tools)| format!("{}: {change}", tools.join(", ")))
    }
}

/// How `after` permits otherwise than `before`, one difference a line.
#[must_use]
pub fn changes(before: &SessionPolicy, after: &SessionPolicy) -> Vec<String> {
    let index = |policy: &SessionPolicy| -> BTreeMap<String, PolicyRule> {
        listed(policy).into_iter().map(|rule| (rule.tool.clone(), rule)).collect()
    };
    let raises = (before.raises(), after.raises());
    let times = (before.rules().policy_seconds, after.rules().policy_seconds);
    let (before, after) = (index(before), index(after));
    let mode = |rule: &PolicyRule| {
        if rule.hidden { format!("{}, hidden", rule.mode.name()) } else { rule.mode.name().to_string() }
    };
    let mut lines = Vec::new();
    if times.0 != times.1 {
        lines.push(format!("the time of a policy: {} becomes {}", duration(times.0), duration(times.1)));
    }
    let gone = raises.0.iter().filter(|line| !raises.1.contains(line));
    lines.extend(gone.map(|line| format!("no longer {line}")));
    let come = raises.1.iter().filter(|line| !raises.0.contains(line));
    lines.extend(come.map(|line| format!("now {line}")));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut of_tools = Lines::default();
    for name in names {
        match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) => {
                if mode(old) != mode(new) {
                    of_tools.add(name, format!("{} becomes {}", mode(old), mode(new)));
                }
                let gone = old.bounds.iter().filter(|bound| !new.bounds.contains(bound));
                gone.for_each(|bound| of_tools.add(name, format!("no longer {bound}")));
                let come = new.bounds.iter().filter(|bound| !old.bounds.contains(bound));
                come.for_each(|bound| of_tools.add(name, format!("now {bound}")));
            }
            (Some(_), None) => of_tools.add(name, "no longer granted".to_string()),
            (None, Some(_)) => of_tools.add(name, "granted".to_string()),
            (None, None) => {}
        }
    }
    lines.extend(of_tools.finish());
    lines
}

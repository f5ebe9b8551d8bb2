//! `[policy]` of the configuration: the bounds on calls, and how long a policy bundle is valid.
//!
//! Each file, and the settings, add bounds of their own, and a call has to keep to all of them: no layer lifts what another has
//! set.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_policy::{
    ArgumentRules, CommandRules, DomainRules, FORMAT, PathRules, Policy, RiskRules, Scope, ScopeRule, Target, host,
    normalise,
};
use capos_schema::authority::Profile;
use capos_schema::reflection;
use serde::Deserialize;

use crate::settings::LAYER;

/// Patterns for the arguments of one program at most: a check tries each of them.
const PATTERNS: usize = 64;

/// `[policy]`, or `[profiles.NAME.policy]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    format: Option<u32>,
    /// How long a bundle is valid.
    pub valid_seconds: Option<u64>,
    areas: Vec<String>,
    paths: Bounds,
    commands: Commands,
    domains: Lists,
    tools: BTreeMap<String, Bounds>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Bounds {
    allow: Option<Vec<String>>,
    block: Vec<String>,
    max_file_bytes: Option<u64>,
    max_argument_bytes: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Commands {
    allow: Vec<String>,
    block: Vec<String>,
    known: Vec<String>,
    arguments: BTreeMap<String, Lists>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Lists {
    allow: Vec<String>,
    block: Vec<String>,
}

fn paths_are_good(place: &str, paths: &[String]) -> Result<(), String> {
    for path in paths {
        normalise(path).map_err(|why| format!("{place}: {path:?}: {why}; name a path below the home directory"))?;
    }
    Ok(())
}

impl Bounds {
    fn read(self, place: &str, source: &str) -> Result<Scope, String> {
        let Self { allow, block, max_file_bytes, max_argument_bytes: max_bytes } = self;
        // A file that allows nothing means it. A setting without a name is one that was emptied.
        let allow = allow.filter(|allow| !allow.is_empty() || source != LAYER);
        paths_are_good(&format!("{place}.allow"), allow.as_deref().unwrap_or_default())?;
        paths_are_good(&format!("{place}.block"), &block)?;
        let paths = (allow.is_some() || !block.is_empty()).then(|| {
            // What is only blocked is allowed everywhere else.
            PathRules { allow: allow.unwrap_or_else(|| Vec::from(["/".to_string()])), block }
        });
        Ok(Scope { paths, max_bytes, max_file_bytes, ..Scope::default() })
    }
}

impl Commands {
    fn read(&self) -> Result<CommandRules, String> {
        let mut rules = CommandRules {
            allow: self.allow.iter().cloned().collect(),
            block: self.block.iter().cloned().collect(),
            ..CommandRules::default()
        };
        for (program, Lists { allow, block }) in &self.arguments {
            if allow.len().max(block.len()) > PATTERNS {
                let most = count(PATTERNS, "pattern");
                return Err(format!("policy.commands.arguments.{program}: each list has at most {most}"));
            }
            let arguments = ArgumentRules { allow: allow.clone(), block: block.clone() };
            rules.arguments.insert(program.clone(), arguments);
        }
        Ok(rules)
    }
}

impl Lists {
    fn domains(&self) -> Result<DomainRules, String> {
        for (list, names) in [("allow", &self.allow), ("block", &self.block)] {
            for name in names {
                let plain = name.strip_prefix("*.").unwrap_or(name);
                if host(&format!("x://{plain}")).ok().as_deref() != Some(plain) {
                    return Err(format!(
                        "policy.domains.{list}: {name:?} is no domain; write it in small letters, as example.org or *.example.org"
                    ));
                }
            }
        }
        Ok(DomainRules { allow: self.allow.iter().cloned().collect(), block: self.block.iter().cloned().collect() })
    }
}

fn is_tool(name: &str) -> bool {
    let tools = capos_schema::INTERFACES.iter().flat_map(|interface| interface.methods);
    tools.filter_map(|method: &reflection::MethodInfo| method.tool).any(|tool| tool == name)
}

impl PolicySection {
    /// Adds the bounds to a policy: those of all sessions, or of one profile's.
    ///
    /// # Errors
    /// The place in the section, what is wrong there, and what to do.
    pub fn put(self, profile: Option<Profile>, source: &str, policy: &mut Policy) -> Result<(), String> {
        if let Some(format) = self.format.filter(|format| *format != FORMAT) {
            return Err(format!(
                "policy.format: the section has format {format}, and this version knows {FORMAT}; remove the line, or use a \
                 version that knows the format"
            ));
        }
        let mut rules: Vec<(Target, Scope)> = Vec::new();
        rules.push((Target::Paths, self.paths.read("policy.paths", source)?));
        rules.push((Target::Programs, Scope { commands: self.commands.read()?, ..Scope::default() }));
        if self.domains != Lists::default() {
            rules.push((Target::Network, Scope { domains: Some(self.domains.domains()?), ..Scope::default() }));
        }
        for (tool, bounds) in self.tools {
            if !is_tool(&tool) {
                return Err(format!("policy.tools.{tool}: there is no tool of that name; `/tools` lists a session's"));
            }
            let scope = bounds.read(&format!("policy.tools.{tool}"), source)?;
            rules.push((Target::Tool(tool), scope));
        }
        for (target, scope) in rules {
            if !scope.is_empty() {
                policy.scopes.push(ScopeRule { profile, target, scope, source: source.to_string() });
            }
        }
        paths_are_good("policy.areas", &self.areas)?;
        let (areas, programs) = (self.areas.into_iter().collect(), self.commands.known.into_iter().collect());
        let rules = RiskRules { profile, areas, programs, source: source.to_string() };
        if !rules.is_empty() {
            policy.risks.push(rules);
        }
        Ok(())
    }
}

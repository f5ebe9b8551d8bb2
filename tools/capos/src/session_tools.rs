//! `capos tools`: the tools that sessions show a model, as the system itself would.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_chat::Tool;
use capos_schema::authority::Profile;
use capos_schema::manifest::{Manifest, SessionProfile};
use capos_schema::models::ToolDescriptor;
use capos_schema::reflection;
use serde_json::{Map, Value, json};

use crate::build::system::System;
use crate::manifest;

/// Where the manifest is below the source folder.
pub const MANIFEST: &str = "iso_root/etc/manifest.toml";

/// Print the tools that a model is shown in sessions of each profile.
#[derive(clap::Args)]
pub struct Args {
    /// Profile of the sessions [default: all].
    #[arg(value_parser = profile)]
    profile: Option<Profile>,
    /// Manifest to read instead of the system's; further ones override it.
    #[arg(long, value_name = "FILE")]
    manifest: Vec<PathBuf>,
    /// Print JSON: for each profile its tools, with their parameters as JSON Schema.
    #[arg(long)]
    json: bool,
}

fn profile(name: &str) -> Result<Profile, String> {
    let known = || Profile::ALL.iter().map(|profile| profile.name()).collect::<Vec<_>>().join(", ");
    Profile::from_name(name).ok_or_else(|| format!("there is no such profile; the profiles are {}", known()))
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let manifest = if args.manifest.is_empty() {
        manifest::read(&[System::find()?.root().join(MANIFEST)])?
    } else {
        manifest::read(&args.manifest)?
    };
    let wanted = |profile: Profile| args.profile.is_none_or(|only| only == profile);
    if args.json {
        println!("{:#}", to_json(&manifest, wanted)?);
    } else {
        print!("{}", to_text(&manifest, wanted));
    }
    Ok(ExitCode::SUCCESS)
}

/// An object from profile to its tools, in the order in which a session shows them.
pub fn to_json(manifest: &Manifest, wanted: impl Fn(Profile) -> bool) -> Result<Value> {
    let mut profiles = Map::new();
    for found in manifest.profiles.iter().filter(|found| wanted(found.profile)) {
        let tools: Vec<Value> = shown(found).iter().map(tool_to_json).collect::<Result<_>>()?;
        profiles.insert(found.profile.name().to_owned(), Value::Array(tools));
    }
    Ok(Value::Object(profiles))
}

/// The tools that a profile's sessions show a model at first, without those that the person has to offer.
fn shown(profile: &SessionProfile) -> Vec<ToolDescriptor> {
    let mut tools = capos_manifest::profile_tools(profile);
    let method = |tool: &ToolDescriptor| reflection::interface(tool.interface_id)?.method(&tool.method_name);
    tools.retain(|tool| method(tool).is_none_or(|method| !method.on_request));
    tools
}

/// The sets of tools that sessions show a model, each once.
pub fn sets(manifest: &Manifest) -> Result<Vec<Vec<Tool>>> {
    let mut sets = Vec::new();
    for profile in &manifest.profiles {
        let tools: Vec<Value> = shown(profile).iter().map(tool_to_json).collect::<Result<_>>()?;
        let set = Tool::list(&Value::Array(tools))?;
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    Ok(sets)
}

fn tool_to_json(tool: &ToolDescriptor) -> Result<Value> {
    let parameters: Value = serde_json::from_str(&tool.param_schema)
        .with_context(|| format!("the schema of the parameters of {} is not JSON", tool.name))?;
    Ok(json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "category": tool.category,
        "permission": tool.permission.name(),
    }))
}

fn to_text(manifest: &Manifest, wanted: impl Fn(Profile) -> bool) -> String {
    let mut text = String::new();
    for found in manifest.profiles.iter().filter(|found| wanted(found.profile)) {
        text.push_str(&format!("profile {}\n", found.profile.name()));
        for tool in shown(found) {
            let summary = tool.description.lines().next().unwrap_or_default();
            let (name, category, permission) = (&tool.name, &tool.category, tool.permission.name());
            text.push_str(&format!("  {name} ({category}, {permission}): {summary}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shipped() -> Manifest {
        manifest::read(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(MANIFEST)]).unwrap()
    }

    #[test]
    fn tools_are_those_that_a_session_shows_with_the_modes_of_its_profile() {
        let all = to_json(&shipped(), |_| true).unwrap();
        let find = |profile: &str, name: &str| {
            let tools = all[profile].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).cloned()
        };
        let write = find("operator", "write_file").unwrap();
        assert_eq!(
            write["description"],
            "Writes a whole text file in the home directory, replacing what was there. With append, adds the text at its end."
        );
        assert_eq!((&write["category"], &write["permission"]), (&json!("mutating"), &json!("consent")));
        assert_eq!(write["parameters"]["required"], json!(["path", "text"]));
        assert_eq!(find("operator", "power_off").unwrap()["permission"], "stepUp");
        // The guest's home is the read-only form.
        assert!(find("guest", "read_file").is_some() && find("guest", "write_file").is_none());
        let text = to_text(&shipped(), |profile| profile == Profile::Guest);
        assert!(text.starts_with("profile guest\n") && !text.contains("operator"), "{text}");
        assert!(text.contains("  read_file (readOnly, auto): Reads a whole text file"), "{text}");
    }

    #[test]
    fn each_set_of_tools_is_there_once() {
        let mut manifest = shipped();
        let lengths = |manifest: &Manifest| sets(manifest).unwrap().iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&manifest), [20, 8, 2]);
        let operator = manifest.profiles[0].clone();
        manifest.profiles.push(operator);
        assert_eq!(lengths(&manifest), [20, 8, 2]);
    }

    #[test]
    fn unknown_profiles_are_refused_with_those_there_are() {
        assert_eq!(
            profile("admin"),
            Err("there is no such profile; the profiles are operator, guest, anonymous".into())
        );
    }

    #[test]
    fn the_trained_models_tools_are_the_systems() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../train/data/tools.json");
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut found = to_json(&shipped(), |_| true).unwrap();
        // Later tools are unknown to the model, and that is not an error.
        for (profile, tools) in found.as_object_mut().unwrap() {
            let kept = kept[profile].as_array().unwrap();
            tools.as_array_mut().unwrap().retain(|tool| kept.iter().any(|known| known["name"] == tool["name"]));
        }
        assert_eq!(
            kept, found,
            "tools/train/data/tools.json is not what the system offers; `capos tools --json` prints that"
        );
    }

    /// A turn of the examples that calls another tool is left out without a word.
    #[test]
    fn the_examples_of_families_call_tools_that_operators_have() {
        let sets = sets(&shipped()).unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../userspace/lib/inference/families");
        let mut calls = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let family: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let turns = family["examples"].as_array().unwrap().iter();
            let messages = turns.flat_map(|turn| turn.as_array().unwrap());
            for call in messages.filter_map(|message| message["tool_calls"].as_array()).flatten() {
                let fits = |tool: &Tool| {
                    let arguments = call["arguments"].as_object().unwrap();
                    let known = |name: &String| tool.parameters["properties"].get(name).is_some();
                    tool.name == call["name"] && arguments.keys().all(known)
                };
                assert!(sets.iter().flatten().any(fits), "{}: {call}", path.display());
                calls += 1;
            }
        }
        assert!(calls > 0);
    }
}

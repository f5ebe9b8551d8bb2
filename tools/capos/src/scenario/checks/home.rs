//! The required content of `home/`: the named files, and exactly the result of the audited effects on its earlier
//! content.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::scenario::checks::audit::{Record, member, tool};
use capos_host::files;

/// Expectations of the session's home directory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Home {
    /// Files with their whole content.
    pub files: BTreeMap<String, String>,
    /// Paths that must not be there.
    pub absent: Vec<String>,
    /// Files that the export leaves out, since it cannot hold their names.
    pub left_out: Vec<String>,
    /// Something other than the audited calls writes there too, so the effects are not compared with the records.
    pub shared: bool,
}

impl Home {
    /// Whether it has checks of the files.
    pub fn asks(&self) -> bool {
        !self.files.is_empty() || !self.absent.is_empty() || !self.left_out.is_empty()
    }
}

type Files = BTreeMap<String, Vec<u8>>;

/// Compares the home directory after the run with the expected one, and with the one before it and the audit log: the
/// effects and the records are the same, one to one.
pub fn check(wanted: &Home, before: &Path, after: &Path, records: &[Record], failures: &mut Vec<String>) -> Result<()> {
    let found = load(after)?;
    for (path, content) in &wanted.files {
        match found.get(path) {
            None => failures.push(format!("home/{path} is missing")),
            Some(bytes) if bytes != content.as_bytes() => {
                failures.push(format!("home/{path} holds {:?} instead of {content:?}", String::from_utf8_lossy(bytes)));
            }
            Some(_) => {}
        }
    }
    for path in wanted.absent.iter().chain(&wanted.left_out) {
        if found.keys().any(|name| name == path || name.starts_with(&format!("{path}/"))) {
            failures.push(format!("home/{path} exists and should not"));
        }
    }
    // Without files of its own a scenario starts with those that the system ships, which are not known here.
    if !wanted.shared && before.is_dir() {
        let mut files = load(before)?;
        files.retain(|path, _| !wanted.left_out.contains(path));
        follow(files, &found, records, failures);
    }
    Ok(())
}

/// Every file below a folder, by its path there.
fn load(folder: &Path) -> Result<Files> {
    let mut found = Files::new();
    for path in files::walk(folder)? {
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        let content = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        found.insert(name, content);
    }
    Ok(found)
}

/// What a file may hold; none if it may be absent.
type Possible = BTreeSet<Option<Vec<u8>>>;

/// Repeats the effects in the log, and compares. An effect that has no end in the log, since a power cut came first, may have been
/// done once or not.
fn follow(files: Files, found: &Files, records: &[Record], failures: &mut Vec<String>) {
    let mut possible: BTreeMap<String, Possible> =
        files.into_iter().map(|(path, content)| (path, [Some(content)].into())).collect();
    let number = |record: &Record, name: &str| record.get(name).and_then(Value::as_u64);
    let ended: BTreeSet<u64> = records.iter().filter_map(|record| number(record, "before")).collect();
    // The result of an interrupted call cannot be known from the log.
    let mut unsure = Vec::new();
    for record in records {
        let is_open = member(record, "phase") == "before";
        if !is_open && member(record, "phase") != "after"
            || is_open && number(record, "sequence").is_some_and(|sequence| ended.contains(&sequence))
        {
            continue;
        }
        let Ok(arguments) = serde_json::from_str::<Value>(member(record, "arguments")) else { continue };
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = normal(text("path"));
        let outcome = if is_open { "ok" } else { member(record, "outcome") };
        let done = |content: &Option<Vec<u8>>| match tool(record) {
            "delete_file" => None,
            _ => {
                let adds = arguments.get("append") == Some(&Value::Bool(true));
                let mut content = content.clone().filter(|_| adds).unwrap_or_default();
                content.extend_from_slice(text("text").as_bytes());
                Some(content)
            }
        };
        match (tool(record), outcome) {
            ("write_file" | "delete_file", "ok") => {
                let of = possible.entry(path).or_insert_with(|| [None].into());
                let after: Possible = of.iter().map(done).collect();
                if !is_open {
                    of.clear();
                }
                of.extend(after);
            }
            ("copy_file" | "move_file", "ok") => {
                let removes = tool(record) == "move_file";
                relocate(&mut possible, (&normal(text("from")), &normal(text("to"))), removes, is_open);
            }
            ("write_file" | "delete_file", "timedOut" | "cancelled") => unsure.push(path),
            ("copy_file" | "move_file", "timedOut" | "cancelled") => {
                unsure.extend([normal(text("from")), normal(text("to"))]);
            }
            _ => {}
        }
    }
    let mut names: Vec<&String> = possible.keys().chain(found.keys()).collect();
    names.sort_unstable();
    names.dedup();
    // A folder that may have been moved has its files at one of two places.
    let is_unsure = |name: &str| {
        unsure
            .iter()
            .any(|path| name.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    for name in names.into_iter().filter(|name| !is_unsure(name)) {
        let (wanted, found) = (possible.get(name), found.get(name));
        if wanted.map_or(found.is_none(), |wanted| wanted.contains(&found.cloned())) {
            continue;
        }
        let what = match (wanted.is_some_and(|wanted| wanted.iter().any(Option::is_some)), found) {
            (true, Some(_)) => "has another content than",
            (true, None) => "is not there, but is",
            (false, _) => "is there, but is not",
        };
        failures.push(format!("home/{name} {what} after the effects in the audit log"));
    }
}

/// What is at a path, or below it, is at another one too, or only there if it `removes`.
fn relocate(possible: &mut BTreeMap<String, Possible>, (from, to): (&str, &str), removes: bool, is_open: bool) {
    let is_of = |path: &str| path.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let sources: Vec<(String, Possible)> = possible
        .iter()
        .filter(|(path, _)| is_of(path))
        .map(|(path, contents)| (path.clone(), contents.clone()))
        .collect();
    let mut put = |path: String, contents: Possible| {
        let of = possible.entry(path).or_insert_with(|| [None].into());
        if !is_open {
            of.clear();
        }
        of.extend(contents);
    };
    for (path, contents) in sources {
        let rest = path.strip_prefix(from).unwrap_or_default();
        put(format!("{to}{rest}"), contents);
        if removes {
            put(path, [None].into());
        }
    }
}

/// A path as the home directory takes it: `..` does not leave the root.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(tool: &str, outcome: &str, arguments: &Value) -> Record {
        json!({"phase": "after", "outcome": outcome, "descriptor": {"name": tool}, "arguments": arguments.to_string()})
    }

    fn failures(home: &Home, before: &[(&str, &str)], after: &[(&str, &str)], records: &[Record]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, files) in [("before", before), ("after", after)] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            for (path, content) in files {
                files::write_if_changed(&folder.path().join(name).join(path), content.as_bytes()).unwrap();
            }
        }
        let mut failures = Vec::new();
        let paths = [folder.path().join("before"), folder.path().join("after")];
        check(home, &paths[0], &paths[1], records, &mut failures).unwrap();
        failures
    }

    #[test]
    fn effects_and_records_are_compared() {
        let home = Home::default();
        let write = done("write_file", "ok", &json!({"path": "./a/../new", "text": "x"}));
        let delete = done("delete_file", "ok", &json!({"path": "old"}));
        let both = [write.clone(), delete.clone()];
        let before = [("old", "1"), ("kept", "2")];
        assert!(failures(&home, &before, &[("kept", "2"), ("new", "x")], &both).is_empty());
        assert_eq!(failures(&home, &before, &[("kept", "3"), ("new", "x")], &both).len(), 1);
        assert_eq!(failures(&home, &before, &[("kept", "2"), ("new", "x")], &[delete]).len(), 1);
        assert_eq!(failures(&home, &before, &before, &both).len(), 2);
        let add = done("write_file", "ok", &json!({"path": "old", "text": "2", "append": true}));
        assert!(failures(&home, &[("old", "1")], &[("old", "12")], &[add]).is_empty());
        let cut = done("write_file", "cancelled", &json!({"path": "new", "text": "x"}));
        assert!(failures(&home, &[], &[("new", "x")], std::slice::from_ref(&cut)).is_empty());
        assert!(failures(&home, &[], &[], &[cut]).is_empty());
        let failed = done("write_file", "executionError", &json!({"path": "new", "text": "x"}));
        assert_eq!(failures(&home, &[], &[("new", "x")], &[failed]).len(), 1);
    }

    #[test]
    fn copies_and_moves_are_followed() {
        let home = Home::default();
        let of = |tool: &str, from: &str, to: &str| done(tool, "ok", &json!({"from": from, "to": to}));
        let before = [("a", "1"), ("old/b", "2"), ("older", "3")];
        let all = [of("copy_file", "a", "./c"), of("move_file", "old", "new/old")];
        let after = [("a", "1"), ("c", "1"), ("new/old/b", "2"), ("older", "3")];
        assert!(failures(&home, &before, &after, &all).is_empty());
        assert_eq!(failures(&home, &before, &before, &all).len(), 3);
        assert_eq!(failures(&home, &before, &after, &[]).len(), 3);
        let open = json!({"phase": "before", "sequence": 1, "descriptor": {"name": "move_file"},
            "arguments": json!({"from": "a", "to": "c"}).to_string()});
        for after in [[("a", "1")], [("c", "1")]] {
            assert!(failures(&home, &[("a", "1")], &after, std::slice::from_ref(&open)).is_empty());
        }
    }

    #[test]
    fn named_files_are_compared() {
        let home: Home = toml::from_str("absent = ['gone']\nshared = true\nfiles = { a = '1' }").unwrap();
        assert!(failures(&home, &[], &[("a", "1")], &[]).is_empty());
        assert_eq!(failures(&home, &[], &[("a", "2"), ("gone/x", "")], &[]).len(), 2);
        assert_eq!(failures(&home, &[], &[], &[]), ["home/a is missing"]);
        let home: Home = toml::from_str("left_out = ['long']").unwrap();
        assert!(failures(&home, &[("long", "1"), ("a", "2")], &[("a", "2")], &[]).is_empty());
        assert_eq!(failures(&home, &[("long", "1")], &[("long", "1")], &[]).len(), 2);
    }
}

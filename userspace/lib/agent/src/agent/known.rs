//! What the calls of a run have shown so far: which failed, and which files it has read or written.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_schema::annotations::Category;
use capos_schema::models::{Outcome, ToolCall, ToolResult};
use serde_json::Value;

use crate::snapshot::Tool;

/// Most calls and paths that are remembered. Of more, nothing new is.
const MOST: usize = 256;

/// What a run knows from its own calls. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Tool and canonical arguments, and why the call failed.
    failed: Rc<RefCell<BTreeMap<(String, String), String>>>,
    /// Paths of files whose content the run has seen or written.
    seen: Rc<RefCell<BTreeSet<String>>>,
}

impl Known {
    /// Takes note of how a call of a tool ended. After an effect, a call that failed before may succeed.
    pub fn settle(&self, tool: &Tool, call: &ToolCall, result: &ToolResult) {
        let reads = tool.descriptor.category == Category::ReadOnly.name();
        match result.outcome {
            Outcome::Ok => {
                if !reads {
                    self.failed.borrow_mut().clear();
                }
                let changes = tool.descriptor.category == Category::Mutating.name();
                let mut seen = self.seen.borrow_mut();
                if changes && let (Some(from), Some(to)) = (path(&call.arguments, "from"), path(&call.arguments, "to"))
                {
                    carry(&mut seen, &from, &to);
                }
                if (tool.pieces || changes)
                    && is_whole(&call.arguments)
                    && seen.len() < MOST
                    && let Some(path) = path(&call.arguments, "path")
                {
                    seen.insert(path);
                }
            }
            Outcome::ExecutionError => {
                let mut failed = self.failed.borrow_mut();
                if failed.len() < MOST
                    && let Some(key) = key(tool, call)
                {
                    failed.insert(key, result.error.clone());
                }
            }
            _ => {}
        }
    }

    /// Why the same call failed before in this run, if it did.
    pub fn failure(&self, tool: &Tool, call: &ToolCall) -> Option<String> {
        self.failed.borrow().get(&key(tool, call)?).cloned()
    }

    /// Whether the path of a call names a file that the run has neither read nor written.
    pub fn is_unread(&self, call: &ToolCall) -> bool {
        path(&call.arguments, "path").is_some_and(|path| !self.seen.borrow().contains(&path))
    }
}

/// The arguments of a call as the model gave them: an empty text stands for none.
pub fn given(call: &ToolCall) -> &str {
    if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() }
}

fn key(tool: &Tool, call: &ToolCall) -> Option<(String, String)> {
    let arguments = capos_reflect::parse(given(call)).ok()?;
    Some((tool.descriptor.name.clone(), capos_reflect::canonical(&arguments)))
}

/// Whether a call reads or writes a file from its beginning, and not a part of it alone.
fn is_whole(arguments: &str) -> bool {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let is_default =
        |name: &str| arguments.get(name).is_none_or(|value| *value == 0 || *value == false || value.is_null());
    ["offset", "length", "append"].into_iter().all(is_default)
}

/// A file or folder was copied or moved: what is at its new path, and below it, was seen if it was at the old one.
fn carry(seen: &mut BTreeSet<String>, from: &str, to: &str) {
    let carried: Vec<String> = seen.iter().filter_map(|path| Some(format!("{to}{}", below(path, from)?))).collect();
    seen.retain(|path| below(path, to).is_none());
    let room = MOST.saturating_sub(seen.len());
    seen.extend(carried.into_iter().take(room));
}

/// What stands behind this file or folder in a path that is it, or is below it.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path that an argument of a call is, without what means nothing in it.
fn path(arguments: &str, name: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let path = arguments.get(name)?.as_str()?;
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::models::ToolDescriptor;

    fn tool(name: &str, category: Category) -> Tool {
        let descriptor =
            ToolDescriptor { name: name.into(), category: category.name().into(), ..ToolDescriptor::default() };
        Tool {
            descriptor,
            capability: 0,
            method: 0,
            touches: Vec::new(),
            max_result: 100,
            untrusted: false,
            pieces: name == "read_file",
            label: capos_schema::authority::Label::default(),
        }
    }

    fn call(arguments: &str) -> ToolCall {
        ToolCall { arguments: arguments.into(), ..ToolCall::default() }
    }

    fn ended(outcome: Outcome, error: &str) -> ToolResult {
        ToolResult {
            call_id: String::new(),
            outcome,
            content: String::new(),
            error: error.into(),
            label: capos_schema::authority::Label::default(),
            provenance: capos_schema::authority::Provenance::Trusted,
        }
    }

    #[test]
    fn a_failed_call_is_known_until_something_has_an_effect() {
        let (known, read, write) =
            (Known::default(), tool("read_file", Category::ReadOnly), tool("write_file", Category::Mutating));
        known.settle(&read, &call(r#"{"path":"a", "offset":0}"#), &ended(Outcome::ExecutionError, "no file"));
        assert_eq!(known.failure(&read, &call(r#"{"offset":0,"path":"a"}"#)).as_deref(), Some("no file"));
        assert_eq!(known.failure(&read, &call(r#"{"offset":1,"path":"a"}"#)), None);
        assert_eq!(known.failure(&write, &call(r#"{"offset":0,"path":"a"}"#)), None);
        known.settle(&read, &call(r#"{"path":"b"}"#), &ended(Outcome::Ok, ""));
        assert!(known.failure(&read, &call(r#"{"offset":0,"path":"a"}"#)).is_some());
        known.settle(&write, &call(r#"{"path":"a","text":""}"#), &ended(Outcome::Ok, ""));
        assert_eq!(known.failure(&read, &call(r#"{"offset":0,"path":"a"}"#)), None);
        // What was not permitted or was interrupted may be tried again.
        for outcome in [Outcome::DeniedByUser, Outcome::TimedOut, Outcome::Cancelled] {
            known.settle(&read, &call("{}"), &ended(outcome, "x"));
            assert_eq!(known.failure(&read, &call("{}")), None);
        }
    }

    #[test]
    fn what_was_read_or_written_is_known() {
        let known = Known::default();
        let delete = call(r#"{"path":"a/b.txt"}"#);
        assert!(known.is_unread(&delete));
        known.settle(&tool("file_info", Category::ReadOnly), &delete, &ended(Outcome::Ok, ""));
        known.settle(&tool("read_file", Category::ReadOnly), &delete, &ended(Outcome::ExecutionError, "no"));
        let (read, write) = (tool("read_file", Category::ReadOnly), tool("write_file", Category::Mutating));
        for part in [r#"{"path":"a/b.txt","offset":5}"#, r#"{"path":"a/b.txt","length":1}"#] {
            known.settle(&read, &call(part), &ended(Outcome::Ok, ""));
        }
        known.settle(&write, &call(r#"{"append":true,"path":"a/b.txt","text":"x"}"#), &ended(Outcome::Ok, ""));
        assert!(known.is_unread(&delete));
        known.settle(
            &tool("read_file", Category::ReadOnly),
            &call(r#"{"path":"./a//b.txt"}"#),
            &ended(Outcome::Ok, ""),
        );
        assert!(!known.is_unread(&delete));
        assert!(!known.is_unread(&call("{}")));
        known.settle(&tool("write_file", Category::Mutating), &call(r#"{"path":"new"}"#), &ended(Outcome::Ok, ""));
        assert!(!known.is_unread(&call(r#"{"path":"/new"}"#)));
        // What says of each option that it is as it would be without it.
        for options in [r#""append":false"#, r#""offset":0"#, r#""length":null"#] {
            let known = Known::default();
            known.settle(&write, &call(&format!("{{\"path\":\"new\",{options}}}")), &ended(Outcome::Ok, ""));
            assert!(!known.is_unread(&call(r#"{"path":"new"}"#)), "{options}");
        }
    }

    /// What was read at a path is not what was moved to it later.
    #[test]
    fn what_was_moved_or_copied_to_a_path_was_read_if_it_was_at_the_old_one() {
        let (read, change) = (tool("read_file", Category::ReadOnly), tool("move_file", Category::Mutating));
        let known = Known::default();
        let settle = |tool: &Tool, arguments: &str| known.settle(tool, &call(arguments), &ended(Outcome::Ok, ""));
        let is_unread = |path: &str| known.is_unread(&call(&format!("{{\"path\":\"{path}\"}}")));
        for path in ["junk.txt", "drafts/a.txt", "drafts-2.txt"] {
            settle(&read, &format!("{{\"path\":\"{path}\"}}"));
        }
        settle(&change, r#"{"from":"./junk.txt","to":"old.txt"}"#);
        settle(&change, r#"{"from":"thesis.txt","to":"junk.txt"}"#);
        settle(&change, r#"{"from":"drafts","to":"kept/of/2025"}"#);
        settle(&change, r#"{"from":"unread","to":"drafts"}"#);
        let paths = ["old.txt", "junk.txt", "kept/of/2025/a.txt", "drafts/a.txt", "drafts-2.txt"];
        assert_eq!(paths.map(is_unread), [false, true, false, true, false]);
        // What failed has moved nothing.
        known.settle(&change, &call(r#"{"from":"x","to":"old.txt"}"#), &ended(Outcome::ExecutionError, "no"));
        assert!(!is_unread("old.txt"));
    }
}

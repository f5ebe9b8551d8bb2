//! What the calls of a run have shown so far: which failed, which had an effect, and which files it has read or written.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_policy::normalise;
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
    /// Tool and canonical arguments of calls that changed something.
    done: Rc<RefCell<BTreeSet<(String, String)>>>,
    /// Paths of files whose content the run has seen or written.
    seen: Rc<RefCell<BTreeSet<String>>>,
    /// Paths of files that the answer at hand has read. The model has not seen their content yet.
    read: Rc<RefCell<BTreeSet<String>>>,
    /// Paths at which the run has changed something. Of too many, the top folder stands for all.
    changed: Rc<RefCell<BTreeSet<String>>>,
}

impl Known {
    /// Takes note of what a call has read or changed, when it ends: a later call of the same answer may be about it. What the model
    /// wrote itself it knows.
    pub fn ended(&self, tool: &Tool, call: &ToolCall, result: &ToolResult) {
        // A call that was ended may have had its effect, or have it later.
        let is_done = match result.outcome {
            Outcome::Ok => true,
            Outcome::TimedOut | Outcome::Cancelled => false,
            _ => return,
        };
        let at = path(&call.arguments, "path");
        let (reads, changes) =
            [Category::ReadOnly, Category::Mutating].map(|category| tool.descriptor.category == category.name()).into();
        let to = path(&call.arguments, "to").filter(|_| changes);
        if is_done {
            let (mut seen, mut read) = (self.seen.borrow_mut(), self.read.borrow_mut());
            if let (Some(from), Some(to)) = (path(&call.arguments, "from"), &to) {
                carry(&mut seen, &from, to);
                carry(&mut read, &from, to);
            }
            if let Some(at) = at.clone().filter(|_| is_whole(&call.arguments)) {
                if changes {
                    add(&mut seen, at);
                } else if tool.pieces {
                    add(&mut read, at);
                }
            }
        } else if !reads {
            self.forget([&at, &to].into_iter().flatten());
        }
        if !reads {
            let mut changed = self.changed.borrow_mut();
            for place in [at, to].into_iter().flatten() {
                let has_room = changed.len() < MOST || changed.contains(&place);
                let place = if has_room { place } else { String::new() };
                changed.insert(place);
            }
        }
    }

    /// Takes note of what a child run has changed: this run has not seen what is there now.
    pub fn child_ended(&self, child: &Self) {
        self.forget(child.changed.borrow().iter());
    }

    /// What is at these places, and below them, was not seen. That goes for what this answer has read, too.
    fn forget<'a>(&self, places: impl Iterator<Item = &'a String> + Clone) {
        let is_left = |path: &String| !places.clone().any(|place| below(path, place).is_some());
        self.seen.borrow_mut().retain(is_left);
        self.read.borrow_mut().retain(is_left);
    }

    /// The calls of an answer have ended, and the model is to see the results.
    pub fn answered(&self) {
        let mut seen = self.seen.borrow_mut();
        self.read.take().into_iter().for_each(|path| add(&mut seen, path));
    }

    /// Takes note of how a call of a tool ended, when its answer's calls have. After an effect, a call that failed before may
    /// succeed.
    pub fn settle(&self, tool: &Tool, call: &ToolCall, result: &ToolResult) {
        match result.outcome {
            Outcome::Ok if tool.descriptor.category != Category::ReadOnly.name() => {
                self.failed.borrow_mut().clear();
                let mut done = self.done.borrow_mut();
                if done.len() < MOST {
                    done.extend(key(tool, call));
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

    /// Whether the same call has changed something before in this run. A small model proposes what it has just done once more.
    pub fn was_done(&self, tool: &Tool, call: &ToolCall) -> bool {
        key(tool, call).is_some_and(|key| self.done.borrow().contains(&key))
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

fn add(paths: &mut BTreeSet<String>, path: String) {
    if paths.len() < MOST {
        paths.insert(path);
    }
}

/// A file or folder was copied or moved: what is at its new path, and below it, was seen if it was at the old one.
fn carry(seen: &mut BTreeSet<String>, from: &str, to: &str) {
    let carried: Vec<String> = seen
        .iter()
        .filter_map(|path| below(path, from))
        .map(|rest| normalise(&format!("{to}/{rest}")).unwrap_or_default().join("/"))
        .collect();
    seen.retain(|path| below(path, to).is_none());
    let room = MOST.saturating_sub(seen.len());
    seen.extend(carried.into_iter().take(room));
}

/// What stands behind this file or folder in a path that is it, or is below it. All are below the top folder.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() {
        return Some(path);
    }
    path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path that an argument of a call is, without what means nothing in it. One that leads above the top is left as it was
/// given, so it is equal to no other.
fn path(arguments: &str, name: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let path = arguments.get(name)?.as_str()?;
    Some(normalise(path).map_or_else(|_| path.to_string(), |parts| parts.join("/")))
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
    fn a_call_that_had_an_effect_is_known() {
        let (known, read, write) =
            (Known::default(), tool("read_file", Category::ReadOnly), tool("write_file", Category::Mutating));
        let add = call(r#"{"path":"a", "text":"x", "append":true}"#);
        assert!(!known.was_done(&write, &add));
        for outcome in [Outcome::ExecutionError, Outcome::DeniedByUser, Outcome::TimedOut, Outcome::Cancelled] {
            known.settle(&write, &add, &ended(outcome, "x"));
            assert!(!known.was_done(&write, &add), "{outcome:?}");
        }
        known.settle(&write, &add, &ended(Outcome::Ok, ""));
        assert!(known.was_done(&write, &call(r#"{"append":true,"path":"a","text":"x"}"#)));
        assert!(!known.was_done(&write, &call(r#"{"append":true,"path":"a","text":"y"}"#)));
        assert!(!known.was_done(&read, &add));
        // What only reads may be asked for as often as one likes.
        known.settle(&read, &add, &ended(Outcome::Ok, ""));
        assert!(!known.was_done(&read, &add));
    }

    /// A call that ended, the only one of its answer.
    fn settle(known: &Known, tool: &Tool, arguments: &str, outcome: Outcome) {
        let (call, result) = (call(arguments), ended(outcome, ""));
        known.ended(tool, &call, &result);
        known.settle(tool, &call, &result);
        known.answered();
    }

    #[test]
    fn what_was_read_or_written_is_known() {
        let known = Known::default();
        let delete = r#"{"path":"a/b.txt"}"#;
        let is_unread = |known: &Known, arguments: &str| known.is_unread(&call(arguments));
        assert!(is_unread(&known, delete));
        let (read, write) = (tool("read_file", Category::ReadOnly), tool("write_file", Category::Mutating));
        settle(&known, &tool("file_info", Category::ReadOnly), delete, Outcome::Ok);
        settle(&known, &read, delete, Outcome::ExecutionError);
        for part in [r#"{"path":"a/b.txt","offset":5}"#, r#"{"path":"a/b.txt","length":1}"#] {
            settle(&known, &read, part, Outcome::Ok);
        }
        settle(&known, &write, r#"{"append":true,"path":"a/b.txt","text":"x"}"#, Outcome::Ok);
        assert!(is_unread(&known, delete));
        settle(&known, &read, r#"{"path":"./a//x/../b.txt"}"#, Outcome::Ok);
        assert!(!is_unread(&known, delete) && !is_unread(&known, "{}"));
        settle(&known, &write, r#"{"path":"new"}"#, Outcome::Ok);
        assert!(!is_unread(&known, r#"{"path":"/new"}"#));
        // What leads nowhere is no other path.
        assert!(is_unread(&known, r#"{"path":"../new"}"#));
        // What says of each option that it is as it would be without it.
        for options in [r#""append":false"#, r#""offset":0"#, r#""length":null"#] {
            let known = Known::default();
            settle(&known, &write, &format!("{{\"path\":\"new\",{options}}}"), Outcome::Ok);
            assert!(!is_unread(&known, r#"{"path":"new"}"#), "{options}");
        }
    }

    /// What was read at a path is not what was moved to it later, in the same answer or a later one.
    #[test]
    fn what_was_moved_or_copied_to_a_path_was_read_if_it_was_at_the_old_one() {
        let (read, change) = (tool("read_file", Category::ReadOnly), tool("move_file", Category::Mutating));
        for one_answer in [false, true] {
            let known = Known::default();
            let next = |tool: &Tool, arguments: &str| {
                known.ended(tool, &call(arguments), &ended(Outcome::Ok, ""));
                if !one_answer {
                    known.answered();
                }
            };
            let is_unread = |path: &str| known.is_unread(&call(&format!("{{\"path\":\"{path}\"}}")));
            for path in ["junk.txt", "drafts/a.txt", "drafts-2.txt"] {
                next(&read, &format!("{{\"path\":\"{path}\"}}"));
                assert_eq!(is_unread(path), one_answer, "it was not shown to the model");
            }
            next(&change, r#"{"from":"./junk.txt","to":"old.txt"}"#);
            next(&change, r#"{"from":"thesis.txt","to":"x/../junk.txt"}"#);
            next(&change, r#"{"from":"drafts","to":"kept/of/2025"}"#);
            next(&change, r#"{"from":"unread","to":"drafts"}"#);
            known.answered();
            let paths = ["old.txt", "junk.txt", "kept/of/2025/a.txt", "drafts/a.txt", "drafts-2.txt"];
            assert_eq!(paths.map(is_unread), [false, true, false, true, false]);
            // What failed has moved nothing. What did not end in time may have.
            let over = call(r#"{"from":"x","to":"old.txt"}"#);
            known.ended(&change, &over, &ended(Outcome::ExecutionError, "no"));
            known.ended(&read, &call(r#"{"path":"old.txt"}"#), &ended(Outcome::TimedOut, "no"));
            assert!(!is_unread("old.txt"));
            let (child, all) = (Known::default(), Known::default());
            all.seen.borrow_mut().insert("old.txt".into());
            for outcome in [Outcome::TimedOut, Outcome::Cancelled] {
                known.seen.borrow_mut().insert("old.txt".into());
                known.ended(&change, &over, &ended(outcome, "no"));
                assert!(is_unread("old.txt"), "{outcome:?}");
            }
            child.ended(&change, &over, &ended(Outcome::TimedOut, "no"));
            all.child_ended(&child);
            assert!(all.is_unread(&call(r#"{"path":"old.txt"}"#)));
            // A name without a folder, and the top folder itself.
            next(&change, r#"{"from":"kept/of","to":""}"#);
            next(&change, r#"{"from":"","to":"all"}"#);
            known.answered();
            assert_eq!(["all/2025/a.txt", "2025/a.txt", "old.txt"].map(is_unread), [false, false, true]);
        }
    }

    /// What a child run has changed its parent has not seen, however much it was.
    #[test]
    fn what_a_child_run_has_changed_was_not_seen() {
        let (read, write) = (tool("read_file", Category::ReadOnly), tool("write_file", Category::Mutating));
        let delete = tool("delete_file", Category::Destructive);
        let (known, child) = (Known::default(), Known::default());
        let paths = ["a", "b", "c/d", "e", "f"];
        for path in paths {
            settle(&known, &read, &format!("{{\"path\":\"{path}\"}}"), Outcome::Ok);
        }
        settle(&child, &write, r#"{"from":"x","to":"a"}"#, Outcome::Ok);
        settle(&child, &write, r#"{"path":"b"}"#, Outcome::Ok);
        settle(&child, &delete, r#"{"path":"c"}"#, Outcome::Ok);
        settle(&child, &read, r#"{"path":"e"}"#, Outcome::Ok);
        settle(&child, &write, r#"{"path":"f"}"#, Outcome::ExecutionError);
        known.ended(&read, &call(r#"{"path":"a"}"#), &ended(Outcome::Ok, ""));
        known.child_ended(&child);
        known.answered();
        let unread = |known: &Known| paths.map(|path| known.is_unread(&call(&format!("{{\"path\":\"{path}\"}}"))));
        assert_eq!(unread(&known), [true, true, true, false, false]);
        for number in 0..MOST {
            settle(&child, &write, &format!("{{\"path\":\"n{number}\"}}"), Outcome::Ok);
        }
        known.child_ended(&child);
        assert_eq!(unread(&known), [true; 5]);
    }
}

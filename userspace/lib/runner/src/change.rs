//! What a call of `write_file` would change in its file.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Gate;
use capos_agent::{Tool, hash, redact};
use capos_plural::count;
use capos_schema::authority::{Label, ToolQuestion};
use capos_schema::cap::{CallError, Client, ExceptionKind};
use capos_schema::kernel::ObjectClient;
use capos_schema::models::PermissionMode;
use capos_schema::storage::{DirectoryClient, EntryKind, FileError};
use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};

use crate::escape::one_line;
use crate::runner::Runner;
use crate::surface::Surface;
use crate::table;

/// How long a question or a call waits for the file's server to [look](PendingWrite::look), in nanoseconds.
pub const PATIENCE: u64 = 2_000_000_000;
/// The tool by which a model reads the file.
const READ: &str = "read_file";
/// Bytes of the longest file that is shown. A line of the client protocol holds it and what takes its place, escaped.
const SHOWN: u64 = 64 << 10;
/// Lines of the longest texts that are compared: the work grows with the product of both.
const COMPARED: usize = 1000;

/// A write that waits for an answer, or is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    directory: DirectoryClient,
    path: String,
    text: String,
    /// The text is added at the end of the file.
    is_appended: bool,
    /// The session may read the file unasked. If not, what it holds is not shown.
    is_readable: bool,
    /// The run whose call it is.
    run: u64,
}

/// What a write would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file, as the call names it.
    pub path: String,
    /// What it holds; none if there is no file. Otherwise why that is not shown.
    pub old: Result<Option<String>, String>,
    /// What it would hold. If `old` is not shown and text is appended: that text.
    pub new: String,
    /// The text is added at the end of the file.
    pub is_appended: bool,
    /// Of what the file holds, if that is shown.
    pub label: Label,
    /// The run whose call makes it.
    pub(crate) run: u64,
}

impl PendingWrite {
    /// Of a call in a session; none of a call of another tool.
    pub async fn of<S: Surface>(runner: &Runner<S>, tool: &Tool, arguments: &str) -> Option<Self> {
        let write =
            Self::parse(tool, arguments, runner.grants.capability(tool.capability, tool.descriptor.interface_id))?;
        let write = Self { run: runner.number, ..write };
        let Some(tool) = table::own(&runner.grants.all(), READ) else { return Some(write) };
        let found = &tool.descriptor;
        let question = ToolQuestion {
            interface_id: found.interface_id,
            method_name: found.method_name.clone(),
            tool: found.name.clone(),
            category: found.category.clone(),
            arguments: json!({ "path": write.path }).to_string(),
            ..ToolQuestion::default()
        };
        let review = runner.review(&question).await;
        Some(Self { is_readable: review.is_ok_and(|review| review.mode == PermissionMode::Auto), ..write })
    }

    fn parse(tool: &Tool, arguments: &str, capability: Result<ObjectClient, String>) -> Option<Self> {
        let found = &tool.descriptor;
        if found.interface_id != DirectoryClient::INTERFACE_ID || found.method_name != "writeText" {
            return None;
        }
        let arguments: Map<String, Value> = serde_json::from_str(arguments).ok()?;
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(ToString::to_string);
        Some(Self {
            directory: capability.ok()?.cast(),
            path: text("path")?,
            text: text("text")?,
            is_appended: arguments.get("append").and_then(Value::as_bool).unwrap_or(false),
            is_readable: false,
            run: 0,
        })
    }

    /// The file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads what is there now, and tells what would be.
    ///
    /// # Errors
    /// The file's server does not answer.
    pub async fn look(self) -> Result<Change, String> {
        let (old, label) = self.old().await.map_err(|error| format!("{} cannot be looked at: {error}", self.path))?;
        let Self { path, text, is_appended, run, .. } = self;
        let new = match &old {
            Ok(Some(old)) if is_appended => format!("{old}{text}"),
            _ => text,
        };
        Ok(Change { path, old, new, is_appended, label, run })
    }

    async fn old(&self) -> Result<(Result<Option<String>, String>, Label), CallError> {
        let found = self.directory.status(&self.path, true).await?;
        let hidden = |why: String| Ok((Err(why), Label::default()));
        if found.error != FileError::None || found.status.kind != EntryKind::File {
            return Ok((Ok(None), Label::default()));
        }
        if !self.is_readable {
            return hidden(format!("{READ} is not free in this session, so what the file holds is not shown"));
        }
        if found.status.bytes > SHOWN {
            return hidden(format!("the file has {}; at most {SHOWN} are shown", count(found.status.bytes, "byte")));
        }
        match self.directory.read_text(&self.path, 0, 0).await {
            Ok(found) => Ok((Ok(Some(found.text)), found.label)),
            Err(CallError::Exception(exception)) if exception.kind == ExceptionKind::InvalidArgument => {
                hidden("the file is no text".to_string())
            }
            Err(error) => Err(error),
        }
    }
}

impl Change {
    /// What the file has to hold for this change: the SHA-256 of that in hexadecimal digits, empty if there is no file. None if what it
    /// holds is not shown.
    #[must_use]
    pub fn basis(&self) -> Option<String> {
        let old = self.old.as_ref().ok()?;
        Some(old.as_ref().map(|old| hex::encode(hash(old))).unwrap_or_default())
    }

    /// The change as a patch in the unified format, without secrets. None if there is none, what the file holds is not shown, or
    /// the texts are too long.
    #[must_use]
    pub fn patch(&self) -> Option<String> {
        let old = self.old.as_ref().ok()?;
        let (before, after) = (redact(old.as_deref().unwrap_or_default()).0, redact(&self.new).0);
        let (before, after) = (lines(&before), lines(&after));
        if before == after || before.len().max(after.len()) > COMPARED {
            return None;
        }
        let path = one_line(&self.path);
        let from = if old.is_some() { path.as_str() } else { "/dev/null" };
        let diff = TextDiff::configure().newline_terminated(true).diff_slices(&before, &after);
        Some(diff.unified_diff().header(from, &path).to_string())
    }

    /// The lines that go and that come, with the unchanged line before and after them, at most `most` rows; nothing if
    /// there is no file yet, or nothing of it is replaced. A line ends with a line feed only. A carriage return is part of
    /// its line, so that a change of it is seen.
    ///
    /// # Errors
    /// Why they are not shown.
    pub fn rows(&self, most: usize) -> Result<Vec<Row>, String> {
        let old = match &self.old {
            // A text behind a last line without an end changes that line.
            Ok(Some(old)) if !(old.is_empty() || (self.is_appended && old.ends_with('\n'))) => old,
            Ok(_) => return Ok(Vec::new()),
            Err(_) if self.is_appended => return Ok(Vec::new()),
            Err(why) => return Err(why.clone()),
        };
        if *old == self.new {
            return Err("the file holds exactly this".to_string());
        }
        // Of an append only the last line can change.
        let from = if self.is_appended { old.rfind('\n').map_or(0, |at| at.saturating_add(1)) } else { 0 };
        let (old, new) = (old.get(from..).unwrap_or_default(), self.new.get(from..).unwrap_or_default());
        if lines(old).len().max(lines(new).len()) > COMPARED {
            let (old, new) = (count(lines(old).len(), "line"), count(lines(new).len(), "line"));
            return Err(format!("the file has {old} and would have {new}: too many to be compared"));
        }
        let mut rows = compared(old, new);
        if rows.len() > most {
            let changed = |row: &&Row| row.kind != Kind::Same;
            let rest = rows.split_off(most.saturating_sub(1));
            let left_out = count(rest.iter().filter(changed).count(), "more line");
            rows.push(Row::of(Kind::LeftOut, format!("{left_out} that change")));
        }
        Ok(rows)
    }
}

/// The lines of a text, with their ends.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// All rows of what changes from one text to another.
fn compared(old: &str, new: &str) -> Vec<Row> {
    let (before, after) = (lines(old), lines(new));
    let diff = TextDiff::from_slices(&before, &after);
    let is_end_changed = old.ends_with('\n') != new.ends_with('\n');
    let mut rows = Vec::new();
    for op in diff.grouped_ops(1).iter().flatten() {
        for change in diff.iter_changes(op) {
            let other = |lines: &[&str], at: Option<usize>, own: usize, others: core::ops::Range<usize>| {
                let at = others.start.checked_add(at?.checked_sub(own)?)?;
                lines.get(at).filter(|_| others.contains(&at)).map(|line| line.to_string())
            };
            let (kind, other) = match change.tag() {
                ChangeTag::Equal => (Kind::Same, None),
                ChangeTag::Delete => {
                    (Kind::Goes, other(&after, change.old_index(), op.old_range().start, op.new_range()))
                }
                ChangeTag::Insert => {
                    (Kind::Comes, other(&before, change.new_index(), op.new_range().start, op.old_range()))
                }
            };
            let line = change.value();
            let is_endless = is_end_changed && kind != Kind::Same && !line.ends_with('\n');
            let same = other.map_or(0, |other| line.chars().zip(other.chars()).take_while(|(a, b)| a == b).count());
            let text = line.strip_suffix('\n').unwrap_or(line).to_string();
            rows.push(Row { kind, text, is_endless, same });
        }
    }
    rows
}

/// A row of what changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What becomes of the line.
    pub kind: Kind,
    /// The line, without its end.
    pub text: String,
    /// It is the last line of a text without an end, and the last line of the other text has one.
    pub is_endless: bool,
    /// Characters at its beginning that the line in its place has as well.
    pub same: usize,
}

impl Row {
    fn of(kind: Kind, text: String) -> Self {
        Self { kind, text, is_endless: false, same: 0 }
    }
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It stays.
    Same,
    /// It is removed.
    Goes,
    /// It is added.
    Comes,
    /// It is no line of a file: it says how much is not shown.
    LeftOut,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tool(method: &str) -> Tool {
        let mut tool = Tool::default();
        tool.descriptor.interface_id = DirectoryClient::INTERFACE_ID;
        tool.descriptor.method_name = method.into();
        tool
    }

    #[test]
    fn c38_only_writes_have_a_change() {
        let none = || Err("the session holds none".into());
        let arguments = r#"{"path":"a","text":"b"}"#;
        assert!(PendingWrite::parse(&tool("remove"), arguments, none()).is_none());
        assert!(PendingWrite::parse(&tool("writeText"), arguments, none()).is_none(), "of a capability that is gone");
        assert!(PendingWrite::parse(&tool("writeText"), "{}", none()).is_none());
        let interface = capos_schema::reflection::interface(DirectoryClient::INTERFACE_ID).unwrap();
        assert!(interface.tool(READ).is_some() && interface.method("writeText").is_some());
    }

    fn change(old: &str, new: &str) -> Change {
        let (path, label) = ("a".into(), Label::default());
        Change { path, old: Ok(Some(old.into())), new: new.into(), is_appended: false, label, run: 0 }
    }

    fn told(change: &Change, most: usize) -> Vec<String> {
        let sign = |kind| match kind {
            Kind::Same => ' ',
            Kind::Goes => '-',
            Kind::Comes => '+',
            Kind::LeftOut => '…',
        };
        change.rows(most).unwrap().iter().map(|row| format!("{}{}", sign(row.kind), row.text)).collect()
    }

    #[test]
    fn c38_two_edits_are_two_places_with_the_lines_around_them() {
        let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        let new = "one\n2\nthree\nfour\nfive\n6\nseven\n";
        let wanted = [" one", "-two", "+2", " three", " five", "-six", "+6", " seven"];
        assert_eq!(told(&change(old, new), 20), wanted);
        assert_eq!(told(&change(old, new), 4), [" one", "-two", "+2", "…2 more lines that change"]);
    }

    #[test]
    fn c38_a_change_of_line_ends_is_seen() {
        assert_eq!(told(&change("a\r\nb\r\n", "a\nb\r\n"), 9), ["-a\r", "+a", " b\r"]);
        // What looks like two lines is one.
        assert_eq!(told(&change("x\n# note\n", "x\n# note\revil=1\n"), 9), [" x", "-# note", "+# note\revil=1"]);
        let endless =
            |change: &Change| -> Vec<bool> { change.rows(9).unwrap().iter().map(|row| row.is_endless).collect() };
        assert_eq!(endless(&change("a\n", "a")), [false, true]);
        assert_eq!(endless(&change("a", "b")), [false, false], "neither has an end");
        let more = Change { is_appended: true, ..change("a\n# note", "a\n# note evil=1\n") };
        assert_eq!(told(&more, 9), ["-# note", "+# note evil=1"]);
        assert_eq!(endless(&more), [true, false]);
    }

    #[test]
    fn c38_a_row_tells_where_it_differs_from_the_line_in_its_place() {
        let rows = change("a\nowner = alice\nc\n", "a\nowner = bob\nd\n").rows(9).unwrap();
        let same: Vec<(Kind, usize)> = rows.iter().map(|row| (row.kind, row.same)).collect();
        let (goes, comes) = (Kind::Goes, Kind::Comes);
        assert_eq!(same, [(Kind::Same, 0), (goes, 8), (goes, 0), (comes, 8), (comes, 0)]);
    }

    #[test]
    fn c38_what_is_not_compared_says_why() {
        assert_eq!(change("a\n", "a\n").rows(9), Err("the file holds exactly this".into()));
        let long = "x\n".repeat(COMPARED + 1);
        assert!(change(&long, "a").rows(9).unwrap_err().contains("1001 lines and would have 1 line"));
        let new = Change { old: Ok(None), ..change("", "a") };
        assert_eq!(new.rows(9), Ok(Vec::new()));
        let more = Change { is_appended: true, ..change("a\n", "a\nb\n") };
        assert_eq!(more.rows(9), Ok(Vec::new()));
        let hidden = Change { old: Err("no".into()), ..change("", "a") };
        assert_eq!(hidden.rows(9), Err("no".into()));
    }

    /// Requirement C37: a change is a patch, which has no secrets.
    #[test]
    fn c37_a_change_is_a_patch() {
        let wanted = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n";
        assert_eq!(change("one\ntwo\n", "one\n2").patch().unwrap(), wanted);
        let new = Change { old: Ok(None), ..change("", "x\r\n") };
        assert_eq!(new.patch().unwrap(), "--- /dev/null\n+++ a\n@@ -0,0 +1 @@\n+x\r\n");
        let secret = change("a\n", "a\npassword=hunter2secret\n").patch().unwrap();
        assert!(secret.contains("+password=") && !secret.contains("hunter2"), "{secret}");
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n", "QUJD\n".repeat(9));
        assert!(!change("", &key).patch().unwrap().contains("QUJD"));
        let hidden = Change { old: Err("no".into()), ..change("", "a") };
        let none = [change("a", "a"), hidden, change("", &"x\n".repeat(COMPARED + 1))];
        assert_eq!(none.map(|change| change.patch()), [None, None, None]);
    }

    #[test]
    fn c38_a_change_has_one_basis() {
        // SHA-256 of nothing.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(change("", "a").basis().unwrap(), empty);
        assert_ne!(change("a", "a").basis().unwrap(), empty);
        assert_eq!(Change { old: Ok(None), ..change("", "a") }.basis(), Some(String::new()));
        assert_eq!(Change { old: Err("no".into()), ..change("", "a") }.basis(), None);
    }

    proptest! {
        /// What goes and what stays is the old text, what comes and what stays the new one.
        #[test]
        fn c38_rows_are_the_change(old in "([ab]\n){0,6}", new in "([abc]\n){1,6}") {
            let found = change(&old, &new);
            if let Ok(rows) = found.rows(100) {
                let count = |text: &str| text.lines().count();
                let of = |kind| rows.iter().filter(|row| row.kind == kind).count();
                if !rows.is_empty() {
                    prop_assert_eq!(count(&new) + of(Kind::Goes), count(&old) + of(Kind::Comes));
                    prop_assert!(rows.iter().filter(|row| row.kind == Kind::Goes).all(|row| old.contains(&row.text)));
                    prop_assert!(rows.iter().filter(|row| row.kind == Kind::Comes).all(|row| new.contains(&row.text)));
                }
            }
        }
    }
}

//! What a call of `write_file` that waits for an answer would change in its file.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Tool;
use capos_agent::world::Gate;
use capos_plural::count;
use capos_schema::authority::ToolQuestion;
use capos_schema::cap::{CallError, Client};
use capos_schema::kernel::ObjectClient;
use capos_schema::models::PermissionMode;
use capos_schema::storage::{DirectoryClient, EntryKind, FileError};
use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};

use crate::runner::Runner;
use crate::surface::Surface;
use crate::table;

/// The tool by which a model reads the file.
const READ: &str = "read_file";
/// Bytes of the longest file that is shown. A line of the client protocol holds it and what takes its place, escaped.
const SHOWN: u64 = 64 << 10;
/// Lines of the longest texts that are compared: the work grows with the product of both.
const COMPARED: usize = 1000;

/// A write that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    directory: DirectoryClient,
    path: String,
    text: String,
    /// The text is added at the end of the file.
    is_appended: bool,
    /// The session may read the file unasked. If not, what it holds is not shown.
    is_readable: bool,
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
}

impl PendingWrite {
    /// Of a call in a session; none of a call of another tool.
    pub async fn of<S: Surface>(runner: &Runner<S>, tool: &Tool, arguments: &str) -> Option<Self> {
        let write = Self::parse(tool, arguments, runner.grants.capability(tool.capability))?;
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
        let old = self.old().await.map_err(|error| format!("{} cannot be looked at: {error}", self.path))?;
        let Self { path, text, is_appended, .. } = self;
        let new = match &old {
            Ok(Some(old)) if is_appended => format!("{old}{text}"),
            _ => text,
        };
        Ok(Change { path, old, new, is_appended })
    }

    async fn old(&self) -> Result<Result<Option<String>, String>, CallError> {
        let found = self.directory.status(&self.path, true).await?;
        if found.error != FileError::None || found.status.kind != EntryKind::File {
            return Ok(Ok(None));
        }
        if !self.is_readable {
            return Ok(Err(format!("{READ} is not free in this session, so what the file holds is not shown")));
        }
        if found.status.bytes > SHOWN {
            return Ok(Err(format!("the file has {}; at most {SHOWN} are shown", count(found.status.bytes, "byte"))));
        }
        let file = self.directory.open(&self.path).await?;
        let data = file.read(0, u32::try_from(SHOWN).unwrap_or(u32::MAX)).await?;
        Ok(String::from_utf8(data).map(Some).map_err(|_| "the file is no text".to_string()))
    }
}

impl Change {
    /// The lines that go and that come, with the unchanged line before and after them, at most `most` rows; nothing if
    /// there is no file yet, or nothing of it is replaced.
    ///
    /// # Errors
    /// Why they are not shown.
    pub fn rows(&self, most: usize) -> Result<Vec<Row>, String> {
        let old = match &self.old {
            Ok(Some(old)) if !old.is_empty() && !self.is_appended => old,
            Ok(_) => return Ok(Vec::new()),
            Err(_) if self.is_appended => return Ok(Vec::new()),
            Err(why) => return Err(why.clone()),
        };
        if *old == self.new {
            return Err("the file holds exactly this".to_string());
        }
        let lines = |text: &str| text.lines().count();
        if lines(old).max(lines(&self.new)) > COMPARED {
            let (old, new) = (count(lines(old), "line"), count(lines(&self.new), "line"));
            return Err(format!("the file has {old} and would have {new}: too many to be compared"));
        }
        let diff = TextDiff::from_lines(old.as_str(), self.new.as_str());
        let groups = diff.grouped_ops(1);
        let mut rows = Vec::new();
        for change in groups.iter().flatten().flat_map(|op| diff.iter_changes(op)) {
            let kind = match change.tag() {
                ChangeTag::Equal => Kind::Same,
                ChangeTag::Delete => Kind::Goes,
                ChangeTag::Insert => Kind::Comes,
            };
            let text = change.value().trim_end_matches(['\n', '\r']).to_string();
            rows.push(Row { kind, text });
        }
        if rows.len() > most {
            let changed = |row: &&Row| row.kind != Kind::Same;
            let rest = rows.split_off(most.saturating_sub(1));
            let left_out = count(rest.iter().filter(changed).count(), "more line");
            rows.push(Row { kind: Kind::Same, text: format!("… {left_out} that change") });
        }
        Ok(rows)
    }
}

/// A row of what changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What becomes of the line.
    pub kind: Kind,
    /// The line, without its end.
    pub text: String,
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
        Change { path: "a".into(), old: Ok(Some(old.into())), new: new.into(), is_appended: false }
    }

    fn told(change: &Change, most: usize) -> Vec<String> {
        let sign = |kind| match kind {
            Kind::Same => ' ',
            Kind::Goes => '-',
            Kind::Comes => '+',
        };
        change.rows(most).unwrap().iter().map(|row| format!("{}{}", sign(row.kind), row.text)).collect()
    }

    #[test]
    fn c38_two_edits_are_two_places_with_the_lines_around_them() {
        let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        let new = "one\n2\nthree\nfour\nfive\n6\nseven\n";
        let wanted = [" one", "-two", "+2", " three", " five", "-six", "+6", " seven"];
        assert_eq!(told(&change(old, new), 20), wanted);
        assert_eq!(
            told(&change(old, new), 4),
            [" one", "-two", "+2", "… 2 more lines that change"]
                .map(|row| { if row.starts_with('…') { format!(" {row}") } else { row.to_string() } })
        );
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

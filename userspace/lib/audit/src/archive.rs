//! A copy of the log in a file outside: it is read back and checked before anybody relies on it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_keyspace::Keyspace;
use capos_policy::join;
use capos_schema::authority::Label;
use serde_json::Value;

use crate::query::Filter;
use crate::reading::Reader;
use crate::record::Head;
use crate::verify::Checker;

/// Bytes of records that are written at once, unless one alone is longer.
const AT_ONCE: usize = 128 << 10;

/// Records that others may wait for.
pub const FEW: u64 = 64;
/// How often a copy is continued with more than those.
const ROUNDS: usize = 32;

/// Where a copy is written.
#[allow(async_fn_in_trait, reason = "used on the thread that made it")]
pub trait Target {
    /// Writes bytes at the end of the file.
    ///
    /// # Errors
    /// Why it cannot.
    async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String>;

    /// Waits until all that was written is on the medium.
    ///
    /// # Errors
    /// It is not.
    async fn sync(&mut self) -> Result<(), String>;

    /// Reads at most this many bytes from the medium.
    ///
    /// # Errors
    /// Why it cannot.
    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, String>;

    /// Gives the file its name, which it has on the medium when this returns.
    ///
    /// # Errors
    /// Why it cannot.
    async fn finish(&mut self) -> Result<(), String>;
}

/// What a file with records holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Sequence of its first record.
    pub first: u64,
    pub records: u64,
    pub bytes: u64,
    /// Its last record.
    pub head: Head,
    /// Of all records, joined.
    pub label: Label,
}

/// Why records were not copied. None was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCopied(pub String);

impl fmt::Display for NotCopied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; no record was removed from the audit log", self.0)
    }
}

impl core::error::Error for NotCopied {}

/// A copy in progress: what the medium has is read back and checked.
#[derive(Debug)]
pub struct Copier<K, T> {
    reader: Reader<K>,
    target: T,
    written: Written,
    /// Bytes that were read back.
    checked: u64,
    /// The beginning of a line whose end was not read yet.
    line: Vec<u8>,
    checker: Checker,
}

impl<K: Keyspace, T: Target> Copier<K, T> {
    /// A copy into an empty file.
    pub fn new(reader: Reader<K>, target: T) -> Self {
        let (written, checker) = (Written::default(), Checker::default());
        Self { reader, target, written, checked: 0, line: Vec::new(), checker }
    }

    /// Writes what the file lacks up to a head, syncs it, reads it back and checks that it is the chain up to that head.
    ///
    /// # Errors
    /// [`NotCopied`]
    pub async fn copy_to(&mut self, head: Head) -> Result<(), NotCopied> {
        let unread = |fault: capos_keyspace::Fault| NotCopied(format!("the audit log cannot be read: {fault}"));
        if self.written.first == 0 {
            self.written.first = self.reader.first().await.map_err(unread)?;
            self.written.head.sequence = self.written.first.saturating_sub(1);
        }
        while self.written.head.sequence < head.sequence {
            let from = self.written.head.sequence.saturating_add(1);
            let most = usize::try_from(head.sequence.saturating_sub(from).saturating_add(1)).unwrap_or(usize::MAX);
            let filter = Filter { from, ..Filter::default() };
            let page = self.reader.query(&filter, most, AT_ONCE).await.map_err(unread)?;
            if page.lines.is_empty() {
                return Err(NotCopied(format!("the audit log has no record {from}")));
            }
            let mut bytes = Vec::new();
            for line in &page.lines {
                self.written.label = join(&self.written.label, &label(line));
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
            }
            self.target.write(self.written.bytes, &bytes).await.map_err(NotCopied)?;
            let lines = page.lines.len() as u64;
            self.written.bytes = self.written.bytes.saturating_add(bytes.len() as u64);
            self.written.records = self.written.records.saturating_add(lines);
            self.written.head.sequence = self.written.head.sequence.saturating_add(lines);
        }
        self.target.sync().await.map_err(NotCopied)?;
        self.read_back().await?;
        self.written.head = self.checker.head();
        if self.written.head == head {
            return Ok(());
        }
        Err(NotCopied(format!("the file ends with {}, and the audit log with {head}", self.written.head)))
    }

    /// The same, and again up to what was recorded meanwhile, until only [`FEW`] records were.
    ///
    /// # Errors
    /// [`NotCopied`], also if the log grows faster than it is copied.
    pub async fn catch_up(&mut self, mut head: Head) -> Result<(), NotCopied> {
        for _ in 0..ROUNDS {
            self.copy_to(head).await?;
            let now = self
                .reader
                .head()
                .await
                .map_err(|fault| NotCopied(format!("the audit log cannot be read: {fault}")))?;
            if now.sequence.saturating_sub(head.sequence) <= FEW {
                return Ok(());
            }
            head = now;
        }
        Err(NotCopied(
            "the audit log grows faster than the volume takes it; try again later, or with another volume".into(),
        ))
    }

    async fn read_back(&mut self) -> Result<(), NotCopied> {
        while self.checked < self.written.bytes {
            let left = self.written.bytes.saturating_sub(self.checked);
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(AT_ONCE);
            let mut bytes = self.target.read(self.checked, most).await.map_err(NotCopied)?;
            bytes.truncate(most);
            if bytes.is_empty() {
                return Err(NotCopied(format!("the file ends after {} of {} bytes", self.checked, self.written.bytes)));
            }
            self.checked = self.checked.saturating_add(bytes.len() as u64);
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(piece);
                if let Some(line) = self.line.strip_suffix(b"\n") {
                    let checked = self.checker.line(line);
                    checked.map_err(|broken| NotCopied(format!("what was read back differs: {broken}")))?;
                    self.line.clear();
                }
            }
        }
        Ok(())
    }

    /// What was copied so far.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`NotCopied`]
    pub async fn finish(mut self) -> Result<Written, NotCopied> {
        self.target.finish().await.map_err(NotCopied)?;
        Ok(self.written)
    }
}

/// The labels of all records up to a head, joined.
///
/// # Errors
/// The records cannot be read.
pub async fn label_of<K: Keyspace>(reader: &Reader<K>, head: Head) -> Result<Label, capos_keyspace::Fault> {
    let (mut from, mut all) = (reader.first().await?, Label::default());
    while from <= head.sequence {
        let page = reader.query(&Filter { from, ..Filter::default() }, usize::MAX, AT_ONCE).await?;
        if page.lines.is_empty() {
            break;
        }
        from = from.saturating_add(page.lines.len() as u64);
        all = page.lines.iter().fold(all, |all, line| join(&all, &label(line)));
    }
    Ok(all)
}

/// The label of a record.
fn label(line: &str) -> Label {
    let record: Value = serde_json::from_str(line).unwrap_or_default();
    let classes = record.get("label").and_then(Value::as_array).into_iter().flatten();
    Label { classes: classes.filter_map(Value::as_str).map(ToString::to_string).collect() }
}

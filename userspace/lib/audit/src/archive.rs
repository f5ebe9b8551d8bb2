//! A copy of the log in a file outside: it is read back and checked before anybody relies on it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_keyspace::Keyspace;
use capos_policy::join;
use capos_schema::authority::Label;
use serde_json::Value;

use crate::damage::{Lost, lost_in};
use crate::reading::Reader;
use crate::record::Head;
use crate::verify::Checker;
use crate::walk::{Came, Walk};

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
    /// Records that could not be read, and are not in it.
    pub lost: Vec<Lost>,
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
    /// None before the first record.
    walk: Option<Walk<K>>,
    target: T,
    written: Written,
    /// Bytes that were read back.
    checked: u64,
    /// The beginning of a line whose end was not read yet.
    line: Vec<u8>,
    checker: Checker,
}

impl<K: Keyspace + Clone, T: Target> Copier<K, T> {
    /// A copy into an empty file.
    pub fn new(reader: Reader<K>, target: T) -> Self {
        let (written, checker) = (Written::default(), Checker::default());
        Self { reader, walk: None, target, written, checked: 0, line: Vec::new(), checker }
    }

    /// Writes what the file lacks up to a head, syncs it, reads it back and checks that it is the chain up to that head.
    ///
    /// # Errors
    /// [`NotCopied`]
    pub async fn copy_to(&mut self, head: Head) -> Result<(), NotCopied> {
        let unread = |fault: capos_keyspace::Fault| NotCopied(format!("the audit log cannot be read: {fault}"));
        let end = head.sequence.saturating_add(1);
        let mut walk = match self.walk.take() {
            Some(walk) => walk,
            None => self.reader.walk(end).await.map_err(unread)?,
        };
        walk.extend(end);
        if self.written.first == 0 {
            self.written.first = walk.from();
        }
        loop {
            match walk.next().await.map_err(unread)? {
                Came::Lines(lines) => self.write(&lines).await?,
                Came::Lost(lost, _) => {
                    self.checker.allow(lost);
                    self.written.lost.push(lost);
                }
                Came::End => break,
            }
        }
        self.walk = Some(walk);
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

    async fn write(&mut self, lines: &[(u64, Vec<u8>)]) -> Result<(), NotCopied> {
        let mut bytes = Vec::new();
        for (at, (_, line)) in lines.iter().enumerate() {
            self.written.label = join(&self.written.label, &label(line));
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
            if bytes.len() >= AT_ONCE || at.saturating_add(1) == lines.len() {
                self.target.write(self.written.bytes, &bytes).await.map_err(NotCopied)?;
                self.written.bytes = self.written.bytes.saturating_add(bytes.len() as u64);
                bytes.clear();
            }
        }
        self.written.records = self.written.records.saturating_add(lines.len() as u64);
        Ok(())
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

/// What a look at all records shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Of all records, joined.
    pub label: Label,
    /// Records that cannot be read, and that no record names.
    pub lost: Vec<Lost>,
    /// Why they cannot be read.
    pub why: String,
}

/// Looks at all records up to a head.
///
/// # Errors
/// The store fails otherwise than by damage.
pub async fn survey<K: Keyspace + Clone>(reader: &Reader<K>, head: Head) -> Result<Survey, capos_keyspace::Fault> {
    let (mut walk, mut found) = (reader.walk(head.sequence.saturating_add(1)).await?, Survey::default());
    let mut told = Vec::new();
    loop {
        match walk.next().await? {
            Came::Lines(lines) => {
                for (_, line) in &lines {
                    found.label = join(&found.label, &label(line));
                    told.extend(lost_in(line));
                }
            }
            Came::Lost(lost, why) => {
                found.lost.push(lost);
                found.why = why;
            }
            Came::End => break,
        }
    }
    found.lost.retain(|lost| !told.contains(lost));
    Ok(found)
}

/// The label of a record.
fn label(line: &[u8]) -> Label {
    let record: Value = serde_json::from_slice(line).unwrap_or_default();
    let classes = record.get("label").and_then(Value::as_array).into_iter().flatten();
    Label { classes: classes.filter_map(Value::as_str).map(ToString::to_string).collect() }
}

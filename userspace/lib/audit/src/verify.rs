//! Checks a chain of lines, wherever they come from.

#![deny(clippy::arithmetic_side_effects)]

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::damage::{Lost, ranges};
use crate::general::Kind;
use crate::record::Head;
use crate::scan::{self, Member, value};

/// The facts of an unbroken chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub records: u64,
    pub head: Head,
    /// Effects whose beginning and end are both recorded.
    pub effects: u64,
    /// Calls that never ran.
    pub refused: u64,
    /// The last record before the first one that was read, if the chain begins after an archive.
    pub archived: Head,
    /// Name of that archive.
    pub archive: String,
    /// Records of beginnings without an end: effects in progress, or interrupted by a crash.
    pub open: Vec<u64>,
    /// Records that the chain says its disk has lost.
    pub lost: Vec<Lost>,
    /// Why, as each record about damage says it, with that record's sequence.
    pub damages: Vec<(u64, String)>,
}

/// Where a chain is broken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Place of the record among those read, from 1; one more than there are if the end is missing.
    pub at: u64,
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the audit chain is broken at record {}: {}", self.at, self.why)
    }
}

impl core::error::Error for Broken {}

/// Checks whole chains, line by line without newlines, oldest first. With `head` the end is checked too; without it a
/// chain that was cut off looks like a shorter one.
///
/// A line is dropped before the next is read, so a chain that is read line by line needs the memory of its longest line,
/// whatever its length.
///
/// # Errors
/// The first place at which something is wrong.
pub fn verify_lines<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>, head: Option<Head>) -> Result<Summary, Broken> {
    let mut checker = Checker::default();
    for line in lines {
        checker.line(line.as_ref())?;
    }
    checker.end(head)
}

/// Checks a chain whose lines come one after another. Of a line only hashes are kept, while its effect is open.
#[derive(Debug, Default)]
pub struct Checker {
    summary: Summary,
    time: u64,
    /// Of an effect whose beginning is in an archive only that is known.
    open: BTreeMap<u64, Option<Beginning>>,
    /// Heads that the chain must pass through, by their sequence.
    noted: BTreeMap<u64, [u8; 32]>,
    /// Records that may be missing.
    allowed: Vec<Lost>,
}

impl Checker {
    /// Checks as well that the record of this head is in the chain: the head was noted elsewhere when it was the last.
    #[must_use]
    pub fn through(mut self, noted: Head) -> Self {
        if noted.sequence > 0 {
            self.noted.insert(noted.sequence, noted.hash);
        }
        self
    }

    /// Lets these records be missing: they are lost.
    pub fn allow(&mut self, lost: Lost) {
        self.allowed.push(lost);
    }

    /// Checks the next line.
    ///
    /// # Errors
    /// What is wrong with it. The checker is of no use then.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Broken> {
        let at = self.summary.head.sequence.saturating_add(1);
        self.next(line, at).map_err(|why| Broken { at, why })
    }

    /// The record that was checked last.
    #[must_use]
    pub fn head(&self) -> Head {
        self.summary.head
    }

    /// How many lines were right.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.summary.records
    }

    /// Ends the check, at this head if it is known.
    ///
    /// # Errors
    /// The chain ends elsewhere, or before a noted head.
    pub fn end(mut self, head: Option<Head>) -> Result<Summary, Broken> {
        let at = self.summary.head.sequence.saturating_add(1);
        if let Some((sequence, _)) = self.noted.pop_last() {
            let (records, archived) = (self.summary.head.sequence, self.summary.archived.sequence);
            let why = match self.summary.archive.as_str() {
                _ if sequence > records => format!(
                    "the noted head is record {sequence}, and the chain ends at record {records}: its end was cut off, \
                     or it was put back to an older state{}",
                    self.or_damaged()
                ),
                "" => format!(
                    "the noted head is record {sequence}, and the records 1 to {archived} are in a part that was damaged: \
                     give an export of the log with what can be read of them"
                ),
                name => format!(
                    "the noted head is record {sequence}, and records 1 to {archived} are in archives: give {name:?}"
                ),
            };
            return Err(Broken { at, why });
        }
        if head.is_some_and(|head| head != self.summary.head) {
            let why = "the records end before, or differ from, the head that was given".to_string();
            return Err(Broken { at, why });
        }
        self.summary.open = self.open.into_keys().collect();
        Ok(self.summary)
    }

    fn next(&mut self, line: &[u8], at: u64) -> Result<(), String> {
        let Some(record) = scan::members(line) else {
            return Err(match serde_json::from_slice::<Value>(line) {
                Err(bad) => format!("it is not JSON: {bad}"),
                Ok(_) => "it is not in canonical form".to_string(),
            });
        };
        let sequence = number(&record, "sequence");
        let at = match sequence {
            Some(sequence) if self.may_miss(at, sequence) => self.skip(&record, at, sequence)?,
            Some(sequence) if self.summary.records == 0 && sequence > 1 => self.begin_after(&record, sequence)?,
            Some(sequence) if sequence > at => {
                let last = sequence.saturating_sub(1);
                return Err(format!("the records {at} to {last} are missing before record {sequence}"));
            }
            _ => at,
        };
        if sequence != Some(at) {
            return Err(format!("its sequence is not {at}"));
        }
        if !is_hash(&record, "previous", &self.summary.head.hash) {
            return Err("it does not follow the one before it".to_string());
        }
        let hash = hash(line, &record);
        if !is_hash(&record, "hash", &hash) {
            return Err("its content does not have its hash".to_string());
        }
        let time = number(&record, "time").ok_or_else(|| "it has no time".to_string())?;
        if time < self.time {
            return Err("it is older than the one before it".to_string());
        }
        self.time = time;
        if is(&record, "kind", "tool") {
            self.tool(&record, at)?;
        } else if [Kind::LogDamage, Kind::LogArchive].iter().any(|kind| is(&record, "kind", kind.name())) {
            let fields = Fields::of(&record);
            self.summary.lost.extend(ranges(fields.get("lost")));
            if is(&record, "kind", Kind::LogDamage.name()) {
                self.summary.damages.push((at, fields.get("why").to_string()));
            }
        }
        if self.noted.remove(&at).is_some_and(|noted| noted != hash) {
            let or = self.or_damaged();
            return Err(format!("its hash is not that of the noted head: this is another chain{or}"));
        }
        self.summary.records = self.summary.records.saturating_add(1);
        self.summary.head = Head { sequence: at, hash };
        Ok(())
    }

    /// That a noted head may have been lost with a part that was damaged.
    fn or_damaged(&self) -> String {
        let told = |(record, _): &(u64, String)| {
            format!(", or the record was lost on a damaged disk, as record {record} says")
        };
        self.summary.damages.last().map(told).unwrap_or_default()
    }

    /// Whether all records from `at` up to this one may be missing.
    fn may_miss(&self, at: u64, sequence: u64) -> bool {
        sequence > at && self.allowed.contains(&Lost { first: at, last: sequence.saturating_sub(1) })
    }

    /// Continues behind lost records. Of them only the hash of the last one is known. Returns the sequence of the record.
    fn skip(&mut self, record: &[Member<'_>], at: u64, sequence: u64) -> Result<u64, String> {
        let last = sequence.saturating_sub(1);
        let digits = value(record, "previous").and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let mut hash = [0; 32];
        hex::decode_to_slice(digits.unwrap_or_default(), &mut hash)
            .map_err(|_| "it does not say which record is before it".to_string())?;
        if self.noted.remove(&last).is_some_and(|noted| noted != hash) {
            return Err("the record before it is not that of the noted head: this is another chain".to_string());
        }
        if let Some((noted, _)) = self.noted.range(at..sequence).next() {
            return Err(format!("the noted head is record {noted}, and the records {at} to {last} are lost"));
        }
        self.summary.head = Head { sequence: last, hash };
        Ok(sequence)
    }

    /// Begins a chain whose first records are in an archive or were lost, with the record that says so. Returns its sequence.
    fn begin_after(&mut self, record: &[Member<'_>], sequence: u64) -> Result<u64, String> {
        let fields = Fields::of(record);
        let field = |name: &str| fields.get(name);
        let last = field("head").parse::<Head>().ok();
        let is_first = [Kind::LogArchive, Kind::LogDamage].iter().any(|kind| is(record, "kind", kind.name()));
        let (Some(last), true) = (last, is_first) else {
            let before = sequence.saturating_sub(1);
            return Err(format!("the records 1 to {before} are missing, and no archive has them"));
        };
        if last.sequence.saturating_add(1) != sequence {
            return Err(format!("it follows record {} and has the sequence {sequence}", last.sequence));
        }
        if self.noted.remove(&last.sequence).is_some_and(|noted| noted != last.hash) {
            return Err("the record before it is not that of the noted head: this is another chain".to_string());
        }
        let open = field("open").split(',').filter_map(|number| number.parse().ok());
        self.open.extend(open.map(|number| (number, None)));
        (self.summary.head, self.summary.archived) = (last, last);
        self.summary.archive = field("archive").to_string();
        Ok(sequence)
    }

    fn tool(&mut self, record: &[Member<'_>], sequence: u64) -> Result<(), String> {
        let summary = &mut self.summary;
        if is(record, "phase", "before") {
            self.open.insert(sequence, Some(Beginning::of(record)));
        } else if is(record, "phase", "after") {
            let before = number(record, "before").unwrap_or(0);
            summary.effects = summary.effects.saturating_add(1);
            if before == 0 && value(record, "late") == Some("true") {
                // Its beginning was lost with an earlier chain.
                return Ok(());
            }
            let is_lost = |lost: &Lost| (lost.first..=lost.last).contains(&before);
            if !self.open.contains_key(&before) && self.allowed.iter().any(is_lost) {
                return Ok(());
            }
            let Some(began) = self.open.remove(&before) else {
                return Err(format!("no effect that is still open began with record {before}"));
            };
            if let Some(other) = began.and_then(|began| began.differs(&Beginning::of(record))) {
                return Err(format!("its {other} is not that of record {before}"));
            }
        } else if is(record, "phase", "refused") {
            summary.refused = summary.refused.saturating_add(1);
        } else {
            return Err("its phase is unknown".to_string());
        }
        Ok(())
    }
}

/// The fields of a record that is not about a call.
struct Fields(Option<Value>);

impl Fields {
    fn of(record: &[Member<'_>]) -> Self {
        Self(value(record, "fields").and_then(|fields| serde_json::from_str(fields).ok()))
    }

    /// A field; empty if there is none.
    fn get(&self, name: &str) -> &str {
        self.0.as_ref().and_then(|fields| fields.get(name)).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Members that the beginning and the end of an effect have in common, sorted by name.
const SAME: [&str; 14] = [
    "advertised",
    "arguments",
    "backend",
    "callId",
    "conversation",
    "decision",
    "descriptor",
    "gatewaySession",
    "modelId",
    "nonce",
    "principal",
    "runner",
    "session",
    "turn",
];

/// The members in [`SAME`] of the record before an effect.
#[derive(Debug)]
struct Beginning {
    /// SHA-256 of all of them.
    all: [u8; 32],
    /// A short hash of each, to find the one that differs.
    each: [u64; SAME.len()],
}

impl Beginning {
    fn of(record: &[Member<'_>]) -> Self {
        let (mut all, mut each) = (Sha256::new(), [0; SAME.len()]);
        for (name, each) in SAME.iter().zip(&mut each) {
            let value = value(record, name).unwrap_or("null").as_bytes();
            // Values are canonical, so equal ones have the same bytes; a line break separates them.
            all.update(value);
            all.update(b"\n");
            *each = fnv(value);
        }
        Self { all: all.finalize().into(), each }
    }

    /// A member that is not the same.
    fn differs(&self, other: &Self) -> Option<&'static str> {
        if self.all == other.all {
            return None;
        }
        let found = self.each.iter().zip(&other.each).position(|(one, other)| one != other);
        Some(found.and_then(|at| SAME.get(at)).copied().unwrap_or("call"))
    }
}

/// FNV-1a, over words of eight bytes.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}

/// SHA-256 of a canonical line without its member `hash`.
fn hash(line: &[u8], record: &[Member<'_>]) -> [u8; 32] {
    let Some(at) = record.iter().position(|member| member.name == "hash") else {
        return Sha256::digest(line).into();
    };
    let place = record.get(at).map(|member| member.place.clone()).unwrap_or_default();
    // Every record has a member before it, whose comma goes with it.
    let mut hash = Sha256::new();
    hash.update(line.get(..place.start.saturating_sub(1)).unwrap_or_default());
    hash.update(line.get(place.end..).unwrap_or_default());
    hash.finalize().into()
}

fn number(record: &[Member<'_>], name: &str) -> Option<u64> {
    value(record, name)?.parse().ok()
}

/// Whether a member is this text, which has nothing to escape.
fn is(record: &[Member<'_>], name: &str, text: &str) -> bool {
    value(record, name).and_then(|value| value.strip_prefix('"')?.strip_suffix('"')) == Some(text)
}

fn is_hash(record: &[Member<'_>], name: &str, hash: &[u8; 32]) -> bool {
    let mut digits = [0; 64];
    hex::encode_to_slice(hash, &mut digits).is_ok()
        && core::str::from_utf8(&digits).is_ok_and(|text| is(record, name, text))
}

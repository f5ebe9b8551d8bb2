//! All records that there are, part after part, with those that cannot be read.

use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Fault, Keyspace, Range, Within, aside};
use serde_json::Value;

use crate::damage::Lost;
use crate::general::Kind;
use crate::tables::{self, RECORDS};

/// Records that are read at once.
const PAGE: u32 = 256;
/// Records that are read one by one behind one that cannot be read with others.
const SINGLES: u32 = 64;

/// What comes next.
#[derive(Clone, Debug)]
pub(crate) enum Came {
    /// Lines by their sequence.
    Lines(Vec<(u64, Vec<u8>)>),
    /// Records that cannot be read, and why.
    Lost(Lost, String),
    End,
}

/// Reads the chain from its first record on, those of parts that were set aside first. An archive ends what is read: what was set
/// aside before it is in the archive.
#[derive(Debug)]
pub(crate) struct Walk<K> {
    /// The parts that are left, the last one first, each with the sequence behind its last record.
    parts: Vec<(Within<K>, u64)>,
    /// The next record.
    from: u64,
    /// How many records are still read one by one.
    singles: u32,
}

impl<K: Keyspace + Clone> Walk<K> {
    /// A walk through the chain of a namespace up to, and without, `end`.
    ///
    /// # Errors
    /// The store fails otherwise than by damage.
    pub async fn begin(space: &K, end: u64) -> Result<Self, Fault> {
        let (mut parts, mut end) = (Vec::new(), end);
        let mut part = Within::new(space.clone(), String::new());
        loop {
            let first = part.range(Range { most: 1, ..Range::all(RECORDS) }).await;
            let (from, before) = match first {
                Ok(found) => match found.entries.first() {
                    Some((key, line)) => (tables::sequence_of(key)?, before(line)),
                    None => (end, None),
                },
                // Its first record could be any.
                Err(Fault::Damaged(_)) => (1, None),
                Err(other) => return Err(other),
            };
            parts.push((part, end));
            let Some(number) = before else { return Ok(Self { parts, from, singles: 0 }) };
            (part, end) = (Within::new(space.clone(), aside(number)), from);
        }
    }

    /// Walks on to here, after the end.
    pub fn extend(&mut self, end: u64) {
        if let Some(last) = self.parts.first_mut() {
            last.1 = end;
        }
    }

    /// The next record.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// # Errors
    /// The store fails otherwise than by damage.
    pub async fn next(&mut self) -> Result<Came, Fault> {
        while let Some((part, end)) = self.parts.last() {
            let (part, end) = (part.clone(), *end);
            if self.from < end {
                return self.read(&part, end).await;
            }
            if self.parts.len() == 1 {
                break;
            }
            self.parts.pop();
        }
        Ok(Came::End)
    }

    async fn read(&mut self, part: &Within<K>, end: u64) -> Result<Came, Fault> {
        let mut damaged = None;
        if self.singles == 0 {
            let (first, last) = (tables::sequence_key(self.from), tables::sequence_key(end));
            match part.range(Range { from: &first, to: &last, most: PAGE, ..Range::all(RECORDS) }).await {
                Ok(found) => {
                    let lines = found.entries.into_iter().map(|(key, line)| Ok((tables::sequence_of(&key)?, line)));
                    let lines = lines.collect::<Result<Vec<_>, Fault>>()?;
                    let there = lines.first().map_or(end, |(first, _)| *first);
                    if there > self.from {
                        return Ok(self.lost(there, "they are not in the log".into()));
                    }
                    self.from = lines.last().map_or(end, |(last, _)| last.saturating_add(1));
                    return Ok(Came::Lines(lines));
                }
                Err(Fault::Damaged(why)) => (self.singles, damaged) = (SINGLES, Some(why)),
                Err(other) => return Err(other),
            }
        }
        self.singles = self.singles.saturating_sub(1);
        let why = match self.line(part, self.from).await? {
            Ok(line) => {
                let lines = Vec::from([(self.from, line)]);
                self.from = self.from.saturating_add(1);
                return Ok(Came::Lines(lines));
            }
            Err(why) => damaged.unwrap_or(why),
        };
        // The next one that can be read: those before it are taken to follow each other.
        let (mut bad, mut step) = (self.from, 1_u64);
        let mut good = loop {
            let next = self.from.saturating_add(step).min(end);
            if next == end || self.line(part, next).await?.is_ok() {
                break next;
            }
            bad = next;
            step = step.saturating_mul(2);
        };
        while good.saturating_sub(bad) > 1 {
            let middle = bad.midpoint(good);
            if self.line(part, middle).await?.is_ok() {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Ok(self.lost(good, why))
    }

    fn lost(&mut self, next: u64, why: String) -> Came {
        let lost = Lost { first: self.from, last: next.saturating_sub(1) };
        self.from = next;
        Came::Lost(lost, why)
    }

    /// A record, or why it cannot be read.
    async fn line(&self, part: &Within<K>, sequence: u64) -> Result<Result<Vec<u8>, String>, Fault> {
        match part.get(RECORDS, &tables::sequence_key(sequence)).await {
            Ok(Some(line)) => Ok(Ok(line)),
            Ok(None) => Ok(Err("it is not in the log".into())),
            Err(Fault::Damaged(why)) => Ok(Err(why)),
            Err(other) => Err(other),
        }
    }
}

/// The part that a first record says was set aside before it.
fn before(line: &[u8]) -> Option<u32> {
    let record: Value = serde_json::from_slice(line).unwrap_or_default();
    let starts_over = record.get("kind").and_then(Value::as_str) == Some(Kind::LogDamage.name());
    let part = record.get("fields").and_then(|fields| fields.get("part")).and_then(Value::as_str)?;
    part.parse().ok().filter(|_| starts_over)
}

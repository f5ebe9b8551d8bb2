//! What a chain says of records that its disk has lost, and how it is started over behind them.
//!
//! A block of the tables that is not what was written there last makes some of their entries unreadable. If the chain cannot be
//! continued there, its part of the store is set aside, as it is. The chain continues in an empty part, from the last head that is
//! known, with a record that says so.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Display};

use capos_keyspace::{Fault, Keyspace, Range, Within, aside};
use capos_schema::audit::GeneralEvent;
use serde_json::Value;

use crate::general::{Kind, general};
use crate::record::Head;
use crate::rules::Open;
use crate::stored::Past;
use crate::tables::{self, HEAD_KEY, META, Meta, OPEN, RECORDS};

/// The table of what the chain has lost: a sentence, by the sequence of the record that says it.
pub(crate) const DAMAGE: &str = "damage";

/// The largest power of two at which a record is looked for if nothing says where the chain ends.
const FARTHEST: u32 = 40;

/// Records that cannot be read, from the first to the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub first: u64,
    pub last: u64,
}

impl Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Ranges as a record names them: `17-23,30-31`.
pub(crate) fn named(lost: &[Lost]) -> String {
    let ranges: Vec<String> = lost.iter().map(ToString::to_string).collect();
    ranges.join(",")
}

/// The ranges that a record names in its field `lost`, if it is one about damage, or about an archive without them.
#[must_use]
pub fn lost_in(line: &[u8]) -> Vec<Lost> {
    let record: Value = serde_json::from_slice(line).unwrap_or_default();
    let field = |name: &str| record.get("fields").and_then(|fields| fields.get(name)).and_then(Value::as_str);
    let kind = record.get("kind").and_then(Value::as_str);
    if ![Kind::LogDamage, Kind::LogArchive].iter().any(|known| kind == Some(known.name())) {
        return Vec::new();
    }
    ranges(field("lost").unwrap_or_default())
}

/// Reads ranges.
pub(crate) fn ranges(text: &str) -> Vec<Lost> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-')?;
        Some(Lost { first: first.parse().ok()?, last: last.parse().ok()? })
    };
    text.split(',').filter_map(range).collect()
}

/// What is known of a part of the chain that was set aside.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    /// Its number.
    pub part: u32,
    /// The first thing that could not be read there.
    pub why: String,
    /// The last record of which the hash is known.
    pub head: Head,
    pub time: u64,
    pub boots: u64,
    /// Effects that had begun, if that can be read.
    pub open: BTreeMap<u64, Open>,
    /// Records up to the head that cannot be read.
    pub lost: Option<Lost>,
    /// The head is that of the chain. Otherwise others may have followed.
    pub whole: bool,
}

impl Earlier {
    /// The record that starts the chain over.
    pub fn event(&self) -> GeneralEvent {
        let open: Vec<String> = self.open.keys().map(ToString::to_string).collect();
        let (open, lost) = (open.join(","), self.lost.map(|lost| lost.to_string()).unwrap_or_default());
        let mut fields: Vec<(&str, &dyn Display)> = vec![("part", &self.part), ("why", &self.why)];
        if self.head.sequence > 0 {
            fields.push(("head", &self.head));
        }
        for (name, value) in [("lost", &lost), ("open", &open)] {
            if !value.is_empty() {
                fields.push((name, value));
            }
        }
        if !self.whole {
            fields.push(("end", &"unknown"));
        }
        general(Kind::LogDamage.name(), &fields)
    }

    /// The same for a person.
    pub fn sentence(&self) -> String {
        let last = self.head.sequence;
        let after = if last > 0 { format!(" after record {last}") } else { String::new() };
        let lost = match (self.lost, self.whole) {
            (Some(lost), true) => format!("; the records {} to {} are lost", lost.first, lost.last),
            (None, true) => "; its last records are whole".to_string(),
            (_, false) if last > 0 => format!("; records behind {last} may be lost, and how many is not known"),
            (_, false) => "; none of its records was found".to_string(),
        };
        format!(
            "the audit log was damaged on its disk ({}) and starts over{after}{lost}. /audit export VOLUME writes what can be \
             read of the part before, too",
            self.why
        )
    }
}

/// An answer, or nothing if it could not be read for a damage, whose first reason is kept.
fn read<T>(answer: Result<T, Fault>, why: &mut Option<String>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Fault::Damaged(told)) => {
            why.get_or_insert(told);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Looks at a part that was set aside. `acknowledged` is how far its chain was, if this process knows it: records up to there are
/// lost if they cannot be read, and no other record gets their number.
///
/// # Errors
/// The store fails otherwise than by damage.
pub(crate) async fn look<K: Keyspace + Clone>(
    space: &K,
    part: u32,
    acknowledged: Option<Past>,
) -> Result<Earlier, Fault> {
    let (old, mut why) = (Within::new(space.clone(), aside(part)), None);
    let meta = read(old.get(META, HEAD_KEY).await, &mut why)?.flatten();
    let meta = read(meta.map(|bytes| Meta::decode(&bytes)).transpose(), &mut why)?.flatten();
    let told = meta.map(|Meta { head, time, boots, .. }| Past { head, time, boots });
    let past = told.into_iter().chain(acknowledged).max_by_key(|past| past.head.sequence);
    let mut open = BTreeMap::new();
    for (key, value) in read(tables::all(&old, OPEN).await, &mut why)?.unwrap_or_default() {
        if let (Ok(sequence), Ok(value)) = (tables::sequence_of(&key), tables::open(&value)) {
            open.insert(sequence, value);
        }
    }
    let mut found = Earlier {
        part,
        why: String::new(),
        head: Head::default(),
        time: 0,
        boots: 0,
        open,
        lost: None,
        whole: past.is_some(),
    };
    if let Some(Past { head, time, boots }) = past {
        (found.head, found.time, found.boots) = (head, time, boots);
        let last = last_readable(&old, head.sequence, &mut why).await?;
        if last < head.sequence {
            found.lost = Some(Lost { first: last.saturating_add(1), last: head.sequence });
        }
    } else if let Some(line) = last_line(&old, &mut why).await? {
        let record: Value = serde_json::from_slice(&line).unwrap_or_default();
        let mut hash = [0; 32];
        let digits = record.get("hash").and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| record.get(name).and_then(Value::as_u64).unwrap_or_default();
        if hex::decode_to_slice(digits, &mut hash).is_ok() {
            (found.head, found.time) = (Head { sequence: number("sequence"), hash }, number("time"));
        }
    }
    found.why = why.unwrap_or_else(|| "a block could not be read".to_string());
    Ok(found)
}

/// Whether a record can be read.
async fn is_readable(old: &impl Keyspace, sequence: u64, why: &mut Option<String>) -> Result<bool, Fault> {
    Ok(read(old.get(RECORDS, &tables::sequence_key(sequence)).await, why)?.flatten().is_some())
}

/// The last record that can be read, of those up to `last`; 0 if there is none. Those that cannot be read are taken to follow each
/// other.
async fn last_readable(old: &impl Keyspace, last: u64, why: &mut Option<String>) -> Result<u64, Fault> {
    let (mut bad, mut step) = (last.saturating_add(1), 1_u64);
    let mut good = loop {
        let next = last.saturating_add(1).saturating_sub(step);
        if next == 0 || is_readable(old, next, why).await? {
            break next;
        }
        bad = next;
        step = step.saturating_mul(2);
    };
    while bad.saturating_sub(good) > 1 {
        let middle = good.midpoint(bad);
        if is_readable(old, middle, why).await? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

/// The line of the last record that can be found, where nothing says which one is the last.
async fn last_line(old: &impl Keyspace, why: &mut Option<String>) -> Result<Option<Vec<u8>>, Fault> {
    let end = Range { reverse: true, most: 1, ..Range::all(RECORDS) };
    if let Some(found) = read(old.range(end).await, why)? {
        return Ok(found.entries.into_iter().next().map(|(_, line)| line));
    }
    let (mut good, mut bad) = (None, None);
    for power in 0..FARTHEST {
        let sequence = 1_u64 << power;
        if is_readable(old, sequence, why).await? {
            (good, bad) = (Some(sequence), None);
        } else if good.is_some() && bad.is_none() {
            bad = Some(sequence);
        }
    }
    let Some(good) = good else { return Ok(None) };
    let end = bad.unwrap_or(u64::MAX).saturating_sub(1);
    let last = last_readable(old, end, why).await?.max(good);
    Ok(read(old.get(RECORDS, &tables::sequence_key(last)).await, why)?.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        let lost = [Lost { first: 17, last: 23 }, Lost { first: 30, last: 30 }];
        assert_eq!(named(&lost), "17-23,30-30");
        assert_eq!(ranges(&named(&lost)), lost);
        for wrong in ["", "17", "x-2", "2-", "-2"] {
            assert_eq!(ranges(wrong), []);
        }
        let line = br#"{"fields":{"lost":"1-2"},"kind":"log.damage"}"#;
        assert_eq!(lost_in(line), [Lost { first: 1, last: 2 }]);
        assert_eq!(lost_in(br#"{"fields":{"lost":"1-2"},"kind":"message"}"#), []);
    }
}

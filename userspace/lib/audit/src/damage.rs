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
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use std::ops::RangeInclusive;

    use capos_keyspace::{Batch, Durability, Entries, Info};

    use super::*;

    fn done<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("a part in memory answers at once"),
        }
    }

    /// A part that was set aside, with records from 1 on.
    #[derive(Clone)]
    struct Part {
        records: u64,
        /// The head is that of the last record, or cannot be read.
        has_head: bool,
        /// Records that cannot be read.
        bad: RangeInclusive<u64>,
    }

    impl Part {
        fn head(sequence: u64) -> Head {
            Head { sequence, hash: [u8::try_from(sequence).unwrap(); 32] }
        }

        fn line(&self, sequence: u64) -> Result<Option<Vec<u8>>, Fault> {
            if self.bad.contains(&sequence) {
                return Err(Fault::Damaged("block 7".into()));
            }
            let hash = || hex::encode(Self::head(sequence).hash);
            let line = || format!(r#"{{"hash":"{}","sequence":{sequence},"time":{}}}"#, hash(), sequence * 10);
            Ok((1..=self.records).contains(&sequence).then(|| line().into_bytes()))
        }
    }

    impl Keyspace for Part {
        async fn info(&self) -> Result<Info, Fault> {
            Err(Fault::Invalid("nobody asks for it".into()))
        }

        async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
            match table {
                "aside/1/records" => self.line(tables::sequence_of(key)?),
                "aside/1/meta" if self.has_head => {
                    let head = Self::head(self.records);
                    Ok(Some(Meta { head, time: self.records * 10, boots: 3, ..Meta::default() }.encode()))
                }
                _ => Err(Fault::Damaged("block 8".into())),
            }
        }

        async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
            let mut found = Entries::default();
            if range.table == "aside/1/open" {
                let open = Open { reserve: 9, call: [5; 32] };
                found.entries.push((tables::sequence_key(1).to_vec(), tables::open_bytes(&open)));
                return Ok(found);
            }
            assert_eq!((range.table, range.most), ("aside/1/records", 1), "one is enough");
            let sequence = if range.reverse { self.records } else { 1 };
            found.entries.extend(self.line(sequence)?.map(|line| (tables::sequence_key(sequence).to_vec(), line)));
            Ok(found)
        }

        async fn commit(&self, _: &Batch, _: Durability) -> Result<(), Fault> {
            Err(Fault::Invalid("a look changes nothing".into()))
        }

        async fn sync(&self) -> Result<(), Fault> {
            Err(Fault::Invalid("a look changes nothing".into()))
        }
    }

    /// However many of the last records cannot be read: none is named as lost that can, and the last one that can is found.
    #[test]
    fn what_is_left_of_a_part_is_found_to_the_record() {
        for (last, first) in (1..=66).flat_map(|last| (1..=last + 1).map(move |first| (last, first))) {
            let part = Part { records: last, has_head: true, bad: first..=last };
            let found = done(look(&part, 1, None)).unwrap();
            let lost = (first <= last).then_some(Lost { first, last });
            assert_eq!((found.head, found.time, found.boots), (Part::head(last), last * 10, 3));
            assert_eq!((found.lost, found.whole, found.open.len()), (lost, true, 1), "{first} {last}");
            let found = done(look(&Part { has_head: false, ..part }, 1, None)).unwrap();
            let head = if first > 1 { Part::head(first - 1) } else { Head::default() };
            assert_eq!((found.head, found.time, found.lost, found.whole), (head, (first - 1) * 10, None, false));
        }
    }

    /// What this process has acknowledged is known, whatever the part says.
    #[test]
    fn the_later_head_is_that_of_the_part() {
        let part = Part { records: 50, has_head: true, bad: 60..=60 };
        for (known, head, lost) in [(49, 50, None), (50, 50, None), (53, 53, Some(Lost { first: 51, last: 53 }))] {
            let known = Past { head: Part::head(known), time: 1, boots: 1 };
            let found = done(look(&part, 1, Some(known))).unwrap();
            assert_eq!((found.head, found.lost), (Part::head(head), lost));
        }
    }

    #[test]
    fn a_person_and_the_chain_are_told_the_same() {
        for (records, has_head, bad, after, fields) in [
            (5, true, 3..=5, " after record 5; the records 3 to 5 are lost", "part why head lost open"),
            (5, true, 9..=9, " after record 5; its last records are whole", "part why head open"),
            (
                5,
                false,
                3..=5,
                " after record 2; records behind 2 may be lost, and how many is not known",
                "part why head open end",
            ),
            (5, false, 1..=5, "; none of its records was found", "part why open end"),
        ] {
            let found = done(look(&Part { records, has_head, bad }, 1, None)).unwrap();
            let names: Vec<String> = found.event().fields.into_iter().map(|field| field.name).collect();
            assert_eq!(names.join(" "), fields);
            let sentence = found.sentence();
            assert!(sentence.contains(&format!(") and starts over{after}. /audit export VOLUME")), "{sentence}");
        }
    }

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

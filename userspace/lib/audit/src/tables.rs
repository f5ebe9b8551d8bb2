//! The tables of a chain, and how their keys and values are encoded. Numbers in keys are big-endian, so that the order
//! of the keys is theirs; numbers in values are little-endian.
//!
//! | table | key | value |
//! |---|---|---|
//! | `format` | `version` | 4 bytes |
//! | `meta` | `head` | [`Meta`] |
//! | `records` | sequence | line |
//! | `session`, `tool` | first 16 bytes of the SHA-256 of the name, sequence | empty |
//! | `calls` | hash of session, conversation and id | decision, sequence of the record about it |
//! | `open` | sequence of a record before an effect | bytes reserved, hash of the call |
//! | `taken` | whom records are charged to | bytes |
//! | `reserve` | number | zeros: room for the ends of effects |
//! | `damage` | sequence of the record that says it | what the disk has lost, as a sentence |

use alloc::string::ToString;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Fault, Keyspace, Range};
use capos_schema::authority::Decision;

use crate::calls::{Call, Key};
use crate::record::{Event, Head};
use crate::rules::{Open, Step, Taker, digest};

pub(crate) use capos_formats::{KEY as VERSION_KEY, TABLE as FORMAT};
/// The version that this code reads and writes.
pub(crate) const VERSION: u32 = capos_formats::AUDIT.version();
pub(crate) const META: &str = "meta";
pub(crate) const HEAD_KEY: &[u8] = b"head";
pub(crate) const RECORDS: &str = "records";
pub(crate) const SESSION: &str = "session";
pub(crate) const TOOL: &str = "tool";
pub(crate) const CALLS: &str = "calls";
pub(crate) const OPEN: &str = "open";
pub(crate) const TAKEN: &str = "taken";
pub(crate) const RESERVE: &str = "reserve";

/// What is written with each record: where the chain ends, and what no other table says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub head: Head,
    pub time: u64,
    pub used: u64,
    /// How many boots have written to the chain.
    pub boots: u64,
    /// Entries in [`RESERVE`].
    pub chunks: u32,
    /// The last warning about room, in percent.
    pub warned: u8,
}

/// Bytes of an encoded [`Meta`].
const META_BYTES: usize = 8 + 32 + 8 + 8 + 8 + 4 + 1;

impl Meta {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(META_BYTES);
        bytes.extend(self.head.sequence.to_le_bytes());
        bytes.extend(self.head.hash);
        for number in [self.time, self.used, self.boots] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.chunks.to_le_bytes());
        bytes.push(self.warned);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut cut = Cut(bytes);
        let sequence = cut.number()?;
        let head = Head { sequence, hash: cut.take()? };
        let (time, used, boots) = (cut.number()?, cut.number()?, cut.number()?);
        let (chunks, [warned]) = (u32::from_le_bytes(cut.take()?), cut.take()?);
        cut.end(Self { head, time, used, boots, chunks, warned })
    }
}

/// Reads a value from its beginning.
struct Cut<'a>(&'a [u8]);

impl Cut<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(|| malformed("a value that is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn end<T>(&self, value: T) -> Result<T, Fault> {
        if self.0.is_empty() { Ok(value) } else { Err(malformed("a value that is too long")) }
    }
}

/// The tables hold something that this code does not write.
pub(crate) fn malformed(what: &str) -> Fault {
    Fault::Damaged(alloc::format!("the tables of the audit log hold {what}; restore the disk from a backup"))
}

/// A sequence as a key.
pub(crate) fn sequence_key(sequence: u64) -> [u8; 8] {
    sequence.to_be_bytes()
}

/// The sequence that a key ends with.
pub(crate) fn sequence_of(key: &[u8]) -> Result<u64, Fault> {
    let last = key.last_chunk().ok_or_else(|| malformed("a key that is no sequence"))?;
    Ok(u64::from_be_bytes(*last))
}

/// The key of a record in the index of its session or tool.
pub(crate) fn index_key(name: &str, sequence: u64) -> [u8; 24] {
    let mut key = [0; 24];
    let parts = digest(name).into_iter().chain(sequence.to_be_bytes());
    key.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    key
}

pub(crate) fn call(bytes: &[u8]) -> Result<Call, Fault> {
    let mut cut = Cut(bytes);
    let ([decision], told) = (cut.take()?, cut.number()?);
    let decision = match decision {
        0 => None,
        number => {
            let at = usize::from(number.saturating_sub(1));
            Some(*Decision::ALL.get(at).ok_or_else(|| malformed("an unknown decision"))?)
        }
    };
    cut.end(Call { decision, told: (told > 0).then_some(told) })
}

fn call_bytes(call: &Call) -> Vec<u8> {
    let at = call.decision.and_then(|made| Decision::ALL.iter().position(|decision| *decision == made));
    let number = at.and_then(|at| u8::try_from(at).ok()).map_or(0, |at| at.saturating_add(1));
    let mut bytes = Vec::from([number]);
    bytes.extend(call.told.unwrap_or_default().to_le_bytes());
    bytes
}

pub(crate) fn open(bytes: &[u8]) -> Result<Open, Fault> {
    let mut cut = Cut(bytes);
    let (reserve, call) = (cut.number()?, cut.take()?);
    cut.end(Open { reserve: usize::try_from(reserve).unwrap_or(usize::MAX), call })
}

pub(crate) fn open_bytes(open: &Open) -> Vec<u8> {
    let mut bytes = Vec::from(number(open.reserve).to_le_bytes());
    bytes.extend(open.call);
    bytes
}

pub(crate) fn taken(key: &[u8], bytes: &[u8]) -> Result<(Taker, usize), Fault> {
    let taker = key.try_into().map_err(|_| malformed("a key of another length"))?;
    let mut cut = Cut(bytes);
    let bytes = cut.number()?;
    cut.end((taker, usize::try_from(bytes).unwrap_or(usize::MAX)))
}

pub(crate) fn number(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The changes of a step, except [`META`].
pub(crate) fn put(batch: &mut Batch, step: &Step, subject: Option<Key>) {
    let sequence = step.record.sequence;
    let key = sequence_key(sequence);
    batch.put(RECORDS, &key, step.line.as_bytes());
    let session = match &step.record.event {
        Event::Tool(event) => {
            batch.put(TOOL, &index_key(&event.descriptor.name, sequence), &[]);
            &event.session
        }
        Event::General(event) => &event.session,
    };
    if !session.is_empty() {
        batch.put(SESSION, &index_key(session, sequence), &[]);
    }
    if let (Some(subject), Some(call)) = (subject, &step.call) {
        batch.put(CALLS, &subject, &call_bytes(call));
    }
    if let Some(open) = &step.opens {
        batch.put(OPEN, &key, &open_bytes(open));
    }
    if let Some(before) = step.closes {
        batch.remove(OPEN, &sequence_key(before));
    }
    batch.put(TAKEN, &step.taker.0, &number(step.taker.1).to_le_bytes());
}

/// Every entry of a table.
pub(crate) async fn all<K: Keyspace>(space: &K, table: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
    let (mut found, mut from) = (Vec::new(), Vec::new());
    loop {
        let page = space.range(Range { from: &from, ..Range::all(table) }).await?;
        found.extend(page.entries);
        let Some((last, _)) = found.last().filter(|_| page.more) else { return Ok(found) };
        from.clone_from(last);
        from.push(0);
    }
}

/// A line as text.
pub(crate) fn line(bytes: Vec<u8>) -> Result<alloc::string::String, Fault> {
    alloc::string::String::from_utf8(bytes).map_err(|bad| malformed(&bad.to_string()))
}

//! Questions about the records of a chain in tables, and its check.

use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Entries, Fault, Keyspace, Range};

use crate::damage::{DAMAGE, Lost};
use crate::query::Filter;
use crate::record::Head;
use crate::scan;
use crate::tables::{self, HEAD_KEY, META, Meta, RECORDS, SESSION, TOOL};
use crate::verify::{Broken, Checker, Summary};
use crate::walk::{Came, Walk};

/// Entries of an index, or records, that are read at once.
const PAGE: u32 = 256;
/// Bytes of records of an index that are in memory at once, unless the last of them is longer.
const PAGE_BYTES: usize = 512 << 10;

/// Reads a chain's records, in pages.
#[derive(Clone, Debug)]
pub struct Reader<K> {
    space: K,
}

/// Lines by their sequence.
type Found = Vec<(u64, Vec<u8>)>;

/// Records that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub lines: Vec<String>,
    /// The sequence from which to go on; 0 at the end.
    pub next: u64,
}

/// What a check of the whole chain has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub head: Head,
    pub checked: Result<Summary, Broken>,
    /// Records that cannot be read, and that no record of the chain names.
    pub lost: Vec<Lost>,
    /// Why they cannot be read.
    pub why: String,
}

impl<K: Keyspace> Reader<K> {
    /// A reader of the chain of this namespace.
    pub fn new(space: K) -> Self {
        Self { space }
    }

    /// Where the chain ends.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub async fn head(&self) -> Result<Head, Fault> {
        Ok(match self.space.get(META, HEAD_KEY).await? {
            Some(bytes) => Meta::decode(&bytes)?.head,
            None => Head::default(),
        })
    }

    /// Sequence of the first record that is here: later than 1 if those before it are in archives. One after the last if none is.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub async fn first(&self) -> Result<u64, Fault> {
        let range = Range { most: 1, keys_only: true, ..Range::all(RECORDS) };
        match self.space.range(range).await?.entries.first() {
            Some((key, _)) => tables::sequence_of(key),
            None => Ok(self.head().await?.sequence.saturating_add(1)),
        }
    }

    /// The line with that sequence.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub async fn line(&self, sequence: u64) -> Result<Option<String>, Fault> {
        let found = self.space.get(RECORDS, &tables::sequence_key(sequence)).await?;
        found.map(tables::line).transpose()
    }

    /// At most `max` lines of records that pass the filter, from its `from` on, and at most `bytes` of them if not a
    /// single one is longer.
    ///
    /// Records are found by their session, or else by their tool, or else one after another from the first of that
    /// time on.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub async fn query(&self, filter: &Filter, max: usize, bytes: usize) -> Result<Page, Fault> {
        let last = self.head().await?.sequence;
        let first = self.first().await?;
        let mut from = filter.from.max(first);
        let mut to = last.saturating_add(1);
        // A query that continues another one begins with a record that is not too old: one look is enough.
        let is_in_time = async || self.time(from).await.is_ok_and(|time| time >= filter.since);
        if filter.since > 0 && !is_in_time().await {
            from = from.max(self.first_since(filter.since, first, last).await?);
        }
        if let Some(until) = filter.until {
            to = to.min(self.first_since(until, first, last).await?);
        }
        let mut page = Page::default();
        let mut length = 0_usize;
        let index = match (&filter.session, &filter.tool) {
            (Some(session), _) => Some((SESSION, session)),
            (None, Some(tool)) => Some((TOOL, tool)),
            (None, None) => None,
        };
        while from < to {
            // If each one passes, no more are read than are wanted, and the one after them.
            let wanted = max.saturating_sub(page.lines.len()).saturating_add(1);
            let most = if filter.is_indexed() { u32::try_from(wanted).unwrap_or(PAGE).min(PAGE) } else { PAGE };
            let (found, next) = match index {
                Some((table, name)) => self.indexed(table, name, from, to, most).await?,
                None => self.records(from, to, most).await?,
            };
            for (sequence, line) in found {
                if !filter.is_indexed() && !filter.matches_line(&line) {
                    continue;
                }
                length = length.saturating_add(line.len()).saturating_add(16);
                if page.lines.len() >= max || (length > bytes && !page.lines.is_empty()) {
                    page.next = sequence;
                    return Ok(page);
                }
                page.lines.push(tables::line(line)?);
            }
            from = next;
        }
        Ok(page)
    }

    /// Checks the whole chain, a page at a time. Records that are added meanwhile are left out. `told` gets how many records
    /// were read or are lost, and how many there are, before each page.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub async fn verify(&self, told: impl Fn(u64, u64)) -> Result<Verified, Fault>
    where
        K: Clone,
    {
        let head = self.head().await?;
        let mut verified = Verified { head, checked: Ok(Summary::default()), lost: Vec::new(), why: String::new() };
        let (mut checker, mut walk) = (Checker::default(), self.walk(head.sequence.saturating_add(1)).await?);
        let before = walk.from().saturating_sub(1);
        let total = head.sequence.saturating_sub(before);
        loop {
            told(walk.from().saturating_sub(1).saturating_sub(before), total);
            match walk.next().await? {
                Came::Lines(lines) => {
                    if let Some(Err(broken)) = lines.iter().map(|(_, line)| checker.line(line)).find(Result::is_err) {
                        verified.checked = Err(broken);
                        return Ok(verified);
                    }
                }
                Came::Lost(lost, why) => {
                    checker.allow(lost);
                    verified.lost.push(lost);
                    verified.why = why;
                }
                Came::End => break,
            }
        }
        verified.checked = checker.end(Some(head));
        if let Ok(summary) = &verified.checked {
            verified.lost.retain(|lost| !summary.lost.contains(lost));
        }
        Ok(verified)
    }

    /// All records, those of parts that were set aside first.
    pub(crate) async fn walk(&self, end: u64) -> Result<Walk<K>, Fault>
    where
        K: Clone,
    {
        Walk::begin(&self.space, end).await
    }

    /// What the chain says of records that its disk has lost, as sentences.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub async fn damage(&self) -> Result<Vec<String>, Fault> {
        tables::all(&self.space, DAMAGE).await?.into_iter().map(|(_, sentence)| tables::line(sentence)).collect()
    }

    /// Records from a sequence on, and the sequence after them, or `to` after the last ones.
    async fn records(&self, from: u64, to: u64, most: u32) -> Result<(Found, u64), Fault> {
        let (first, end) = (tables::sequence_key(from), tables::sequence_key(to));
        let range = Range { from: &first, to: &end, most, ..Range::all(RECORDS) };
        let Entries { entries, more } = self.space.range(range).await?;
        let found = entries.into_iter().map(|(key, line)| Ok((tables::sequence_of(&key)?, line)));
        let found = found.collect::<Result<Found, Fault>>()?;
        let next = found.last().filter(|_| more).map_or(to, |(last, _)| last.saturating_add(1));
        Ok((found, next))
    }

    /// Records of a session or tool.
    async fn indexed(&self, table: &str, name: &str, from: u64, to: u64, most: u32) -> Result<(Found, u64), Fault> {
        let (first, end) = (tables::index_key(name, from), tables::index_key(name, to));
        let range = Range { from: &first, to: &end, most, ..Range::all(table) };
        let Entries { entries, more } = self.space.range(range).await?;
        let keys = entries.iter().map(|(key, _)| tables::sequence_of(key));
        let sequences = keys.collect::<Result<Vec<u64>, Fault>>()?;
        let (mut found, mut bytes) = (Found::new(), 0_usize);
        // Records that follow each other are read together.
        for run in sequences.chunk_by(|one, next| one.saturating_add(1) == *next) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (mut from, to) = (*first, last.saturating_add(1));
            while from < to {
                let (records, next) = self.records(from, to, PAGE).await?;
                bytes = records.iter().fold(bytes, |bytes, (_, line)| bytes.saturating_add(line.len()));
                found.extend(records);
                from = next;
                if bytes > PAGE_BYTES {
                    return Ok((found, from));
                }
            }
        }
        Ok((found, sequences.last().filter(|_| more).map_or(to, |last| last.saturating_add(1))))
    }

    /// The first record that is not older than a time; one after the last if all are. Times never decrease.
    async fn first_since(&self, time: u64, first: u64, last: u64) -> Result<u64, Fault> {
        let (mut low, mut high) = (first, last.saturating_add(1));
        while low < high {
            let middle = low.midpoint(high);
            if self.time(middle).await? < time {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    async fn time(&self, sequence: u64) -> Result<u64, Fault> {
        let line = self.line(sequence).await?.ok_or_else(|| tables::malformed("a gap in the records"))?;
        let members =
            scan::members(line.as_bytes()).ok_or_else(|| tables::malformed("a record that is not canonical"))?;
        Ok(scan::value(&members, "time").and_then(|time| time.parse().ok()).unwrap_or_default())
    }
}

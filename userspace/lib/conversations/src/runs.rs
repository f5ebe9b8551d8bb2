//! Runs: what is kept of a turn while it continues, and what stays of it.
//!
//! A point of a run is written in one transaction with the message that it comes with. The tables know which run is open, and
//! nothing else of what its runner writes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::{Batch, Fault, Keyspace, Range};
use serde::{Deserialize, Serialize};

use crate::conversations::{Conversations, cursor, position};
use crate::error::Error;
use crate::keys::{self, HEADS, Id, Owner, RUNS, STEPS, digits};
use crate::limits::{MAX_HEAD, MAX_MESSAGES, MAX_PAGE, MAX_POINT, MAX_REASON, OVERHEAD, PAGE_BYTES};
use crate::record::{self, Account};

/// Conversations that one call looks at.
const LOOK: u32 = 32;

/// What is new of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    pub turn: u32,
    /// The last step whose results are all saved.
    pub step: u32,
    /// The run can be continued.
    pub open: bool,
    /// What does not change; empty: it is there already.
    pub head: String,
    /// Where the run is.
    pub json: String,
    /// What the last step used.
    pub used: String,
}

/// A run, as it was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub conversation: String,
    /// The conversation's title.
    pub title: String,
    pub turn: u32,
    pub open: bool,
    /// Milliseconds since 1970.
    pub changed: u64,
    /// Why it was set aside; empty if it was not.
    pub aside: String,
    /// Empty if it cannot be continued.
    pub head: String,
    pub json: String,
}

/// A page of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    pub runs: Vec<Run>,
    /// Where the next page begins; empty at the end.
    pub next: String,
}

/// What a step used, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub number: u32,
    pub used: String,
}

/// A run in its table, in front of its last point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    open: bool,
    changed: u64,
    /// Of all that is kept of the run, and counted.
    bytes: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    aside: String,
}

const WHAT: &str = "the record of a run";

fn read_row(value: &[u8]) -> Result<(Row, String), Error> {
    let end = value.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| Error::damaged(WHAT, "it has no point"))?;
    let (row, point) = value.split_at(end);
    Ok((record::read(WHAT, row)?, record::text(point.get(1..).unwrap_or_default().to_vec())?))
}

fn row_bytes(row: &Row, point: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = record::bytes(row)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(point.as_bytes());
    Ok(bytes)
}

/// Why a record cannot be read, now and later.
///
/// # Errors
/// It is not known whether it can be read: the store did not answer, for example.
fn unreadable(error: Error) -> Result<String, Error> {
    match error {
        Error::Damaged(why) | Error::Fault(Fault::Damaged(why) | Fault::Medium(why)) => Ok(why),
        error => Err(error),
    }
}

fn check(point: &Point) -> Result<(), Error> {
    for (what, text, most) in [
        ("the head of a run", &point.head, MAX_HEAD),
        ("a point of a run", &point.json, MAX_POINT),
        ("what a step used", &point.used, MAX_POINT),
    ] {
        if text.len() > most {
            return Err(Error::too_long(what, text.len(), most));
        }
    }
    if point.json.contains('\n') || point.json.is_empty() || point.turn == 0 || point.step > MAX_MESSAGES {
        return Err(Error::Invalid(
            "a point is one line, of a turn that has a number, and of a step of it".to_string(),
        ));
    }
    Ok(())
}

impl<K: Keyspace> Conversations<K> {
    /// The last run of a conversation, or that of a turn, as its table has it.
    async fn run_value(&self, owner: Owner, id: &Id, turn: Option<u32>) -> Result<Option<(u32, Vec<u8>)>, Error> {
        let prefix = keys::place(owner, id);
        let (from, to) = match turn {
            Some(turn) => (keys::run(owner, id, turn), keys::after(&keys::run(owner, id, turn))),
            None => (prefix.clone(), keys::after(&prefix)),
        };
        let range = Range { from: &from, to: &to, reverse: true, most: 1, ..Range::all(RUNS) };
        let Some((key, value)) = self.range(range).await?.entries.pop() else { return Ok(None) };
        Ok(Some((keys::number(&key)?, value)))
    }

    /// The same with its row.
    async fn run_row(&self, owner: Owner, id: &Id, turn: Option<u32>) -> Result<Option<(u32, Row, String)>, Error> {
        let Some((turn, value)) = self.run_value(owner, id, turn).await? else { return Ok(None) };
        let (row, point) = read_row(&value)?;
        Ok(Some((turn, row, point)))
    }

    /// Puts a point into a batch, and counts it.
    pub(crate) async fn put_point(
        &self,
        batch: &mut Batch,
        (owner, id): (Owner, &Id),
        point: &Point,
        account: &mut Account,
        now: u64,
    ) -> Result<(), Error> {
        check(point)?;
        let found = match self.run_row(owner, id, Some(point.turn)).await {
            // What cannot be read is replaced as a whole, and stays unchanged otherwise.
            Err(Error::Damaged(_)) if !point.head.is_empty() => None,
            found => found?,
        };
        let mut row = match found {
            Some((_, row, _)) if point.open && !row.open && row.aside.is_empty() && point.head.is_empty() => {
                return Err(Error::Invalid("this run has ended; only its head begins it again".to_string()));
            }
            Some((_, row, _)) if row.aside.is_empty() || !point.head.is_empty() => row,
            Some((_, row, _)) => return Err(Error::Invalid(format!("this run was set aside: {}", row.aside))),
            None if point.head.is_empty() && point.open => {
                return Err(Error::Invalid(format!("no run of turn {} has begun here", point.turn)));
            }
            None => {
                self.close_earlier(batch, (owner, id), point.turn).await?;
                let bytes = OVERHEAD.saturating_add(point.head.len() as u64);
                account.bytes = account.bytes.saturating_add(bytes);
                Row { bytes, ..Row::default() }
            }
        };
        (row.open, row.changed) = (point.open, now);
        row.aside.clear();
        let head = keys::run(owner, id, point.turn);
        if !point.open {
            batch.remove(HEADS, &head);
        } else if !point.head.is_empty() {
            batch.put(HEADS, &head, point.head.as_bytes());
        }
        if !point.used.is_empty() {
            let step = keys::step(owner, id, point.turn, point.step);
            if self.get(STEPS, &step).await?.is_none() {
                let bytes = (point.used.len() as u64).saturating_add(STEP_OVERHEAD);
                row.bytes = row.bytes.saturating_add(bytes);
                account.bytes = account.bytes.saturating_add(bytes);
                batch.put(STEPS, &step, point.used.as_bytes());
            }
        }
        batch.put(RUNS, &head, &row_bytes(&row, &point.json)?);
        Ok(())
    }

    /// A run begins: an earlier one of its conversation cannot be continued any more.
    async fn close_earlier(&self, batch: &mut Batch, (owner, id): (Owner, &Id), turn: u32) -> Result<(), Error> {
        let earlier = match self.run_row(owner, id, None).await {
            Err(Error::Damaged(_)) => return Ok(()),
            earlier => earlier?,
        };
        if let Some((earlier, row, point)) = earlier.filter(|(earlier, row, _)| row.open && *earlier < turn) {
            let key = keys::run(owner, id, earlier);
            batch.put(RUNS, &key, &row_bytes(&Row { open: false, ..row }, &point)?);
            batch.remove(HEADS, &key);
        }
        Ok(())
    }

    /// Keeps a point of a run without a message.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn checkpoint(&self, owner: Owner, id: &str, point: &Point, now: u64) -> Result<(), Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        self.record(owner, &id, now).await?;
        let mut account = self.account(owner).await?;
        let mut batch = Batch::new();
        self.put_point(&mut batch, (owner, &id), point, &mut account, now).await?;
        // The end of a run is kept whatever the quota is.
        match point.open {
            true => self.charge(&mut batch, owner, &account)?,
            false => Self::settle(&mut batch, owner, &account)?,
        }
        self.commit(&batch).await
    }

    async fn whole(
        &self,
        (owner, id): (Owner, &Id),
        title: &str,
        (turn, row, json): (u32, Row, String),
    ) -> Result<Run, Error> {
        let head = match self.get(HEADS, &keys::run(owner, id, turn)).await? {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => String::new(),
        };
        let Row { open, changed, aside, .. } = row;
        Ok(Run { conversation: digits(id), title: title.to_string(), turn, open, changed, aside, head, json })
    }

    /// The last run of a conversation; none if there is none. One whose record cannot be read is told as one that was set
    /// aside, and stays unchanged. Its turn is 0 if a block of the medium is damaged.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn run(&self, owner: Owner, id: &str, now: u64) -> Result<Option<Run>, Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        let record = self.record(owner, &id, now).await?;
        let (turn, why) = match self.run_value(owner, &id, None).await {
            Ok(None) => return Ok(None),
            Ok(Some((turn, value))) => match read_row(&value) {
                Ok((row, point)) => match self.whole((owner, &id), &record.title, (turn, row, point)).await {
                    Err(error) => (turn, unreadable(error)?),
                    whole => return whole.map(Some),
                },
                Err(error) => (turn, unreadable(error)?),
            },
            Err(error) => (0, unreadable(error)?),
        };
        let (conversation, title) = (digits(&id), record.title);
        Ok(Some(Run { conversation, title, turn, aside: why, ..Run::default() }))
    }

    /// What the steps of a run used, from a step on.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn steps(&self, owner: Owner, id: &str, turn: u32, from: u32, now: u64) -> Result<Vec<Step>, Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        self.record(owner, &id, now).await?;
        let (from, to) = (keys::step(owner, &id, turn, from), keys::after(&keys::run(owner, &id, turn)));
        let range = Range { from: &from, to: &to, most: MAX_PAGE, ..Range::all(STEPS) };
        let mut steps = Vec::new();
        for (key, value) in self.range(range).await?.entries {
            steps.push(Step { number: keys::number(&key)?, used: record::text(value)? });
        }
        Ok(steps)
    }

    /// A page of all runs, those of the last changed conversation first, and of each conversation the last one first. A call
    /// looks at a bounded number of conversations, so a page may be empty while there is a next one.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn runs(&self, owner: Owner, from: &str, most: u32, now: u64) -> Result<Runs, Error> {
        let start = cursor::<28>(from)?;
        let _guard = self.begin(now).await?;
        let most = usize::try_from(most.clamp(1, MAX_PAGE)).unwrap_or(1);
        // The conversation that the page begins in, and the first of its turns that was told already.
        let (place, mut before) = match &start {
            Some(start) => (start.first_chunk::<24>().copied(), keys::number(start)?),
            None => (None, u32::MAX),
        };
        let place = place.as_ref().map(|place| (&place[..], false));
        let (found, more) = self.page(owner, place, LOOK).await?;
        let (mut runs, mut bytes) = (Runs::default(), 0_usize);
        for (id, record) in &found {
            if start.as_ref().is_some_and(|start| start.get(8..24) != Some(&id[..])) {
                // It has changed its place since the page before.
                before = u32::MAX;
            }
            let (from, to) = (keys::place(owner, id), keys::run(owner, id, before));
            before = u32::MAX;
            let range = Range { from: &from, to: &to, reverse: true, most: MAX_PAGE, ..Range::all(RUNS) };
            for (key, value) in self.range(range).await?.entries {
                let turn = keys::number(&key)?;
                let (row, json) = match read_row(&value) {
                    Err(Error::Damaged(why)) => (Row { aside: why, ..Row::default() }, String::new()),
                    read => read?,
                };
                let run = self.whole((owner, id), &record.title, (turn, row, json)).await?;
                bytes = bytes.saturating_add(run.head.len()).saturating_add(run.json.len()).saturating_add(512);
                if runs.runs.len() >= most || (bytes > PAGE_BYTES && !runs.runs.is_empty()) {
                    runs.next = format!("{}{:08x}", position(record, id), turn.saturating_add(1));
                    return Ok(runs);
                }
                runs.runs.push(run);
            }
        }
        if let Some((id, record)) = found.last().filter(|_| more) {
            runs.next = format!("{}{:08x}", position(record, id), 0);
        }
        Ok(runs)
    }

    /// Sets a run aside: it cannot be continued, and what is kept of it stays unchanged.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn set_aside(&self, owner: Owner, id: &str, turn: u32, why: &str, now: u64) -> Result<(), Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        self.record(owner, &id, now).await?;
        let key = keys::run(owner, &id, turn);
        let Some(value) = self.get(RUNS, &key).await? else {
            return Err(Error::NoSuch(format!(
                "turn {turn} of this conversation has no run; /runs lists those that there are"
            )));
        };
        let aside = why.get(..why.floor_char_boundary(MAX_REASON)).unwrap_or_default().to_string();
        let (row, point) = read_row(&value).unwrap_or_default();
        self.commit(Batch::new().put(RUNS, &key, &row_bytes(&Row { open: false, aside, ..row }, &point)?)).await
    }

    /// Removes all runs of a conversation. Returns what they counted.
    pub(crate) async fn remove_runs(&self, batch: &mut Batch, owner: Owner, id: &Id) -> Result<u64, Error> {
        let (mut from, to) = (keys::place(owner, id), keys::after(&keys::place(owner, id)));
        for table in [RUNS, HEADS, STEPS] {
            batch.remove_range(table, &from, &to);
        }
        let mut freed = 0_u64;
        loop {
            let found = self.range(Range { from: &from, to: &to, most: 1000, ..Range::all(RUNS) }).await?;
            for (_, value) in &found.entries {
                // What cannot be read is removed all the same.
                freed = freed.saturating_add(read_row(value).map_or(OVERHEAD, |(row, _)| row.bytes));
            }
            match found.entries.last().filter(|_| found.more) {
                Some((key, _)) => {
                    from.clone_from(key);
                    from.push(0);
                }
                None => return Ok(freed),
            }
        }
    }
}

/// What the use of a step counts besides its text.
const STEP_OVERHEAD: u64 = 32;

//! The chain in memory: append-only, bounded, closed when full.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_policy::{LABEL_LIMIT, label_size};
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};

use crate::calls::Calls;
use crate::general::Kind;
use crate::query::Filter;
use crate::record::{Event, Head, Record};

/// The records since boot.
///
/// The bound counts the bytes of all lines. A record *before* an effect is accepted only if the record *after* it will
/// fit too, so the end of each permitted effect can be recorded. If it does not fit, the chain rejects the record, and
/// the caller must not continue. A chain that several sessions share ([`Chain::shared`]) bounds each of them.
#[derive(Debug)]
pub struct Chain {
    records: Vec<Record>,
    limit: usize,
    used: usize,
    /// Bytes kept for the ends of effects that have begun.
    reserved: usize,
    /// Effects that have begun: sequence of the record before, and the reservation for the one after.
    open: BTreeMap<u64, usize>,
    calls: Calls,
    /// The maximum for the records of one session, or of one service about no session.
    share: usize,
    /// Room that only the beginnings and ends of sessions use, and ends of effects that have begun.
    spared: usize,
    /// Bytes of records and of reservations for ends, by session or service.
    taken: BTreeMap<String, usize>,
}

/// Why a record was not taken. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The bound would be exceeded.
    Full { limit: usize },
    /// The session's, or the service's, share would be exceeded; others have theirs.
    Share { limit: usize },
    /// The event contradicts itself or the chain.
    Invalid(String),
}

impl fmt::Display for AppendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit } => write!(
                formatter,
                "the audit log is full ({limit} bytes); export it and restart, or raise its limit in the manifest"
            ),
            Self::Share { limit } => write!(
                formatter,
                "this session's share of the audit log is used up ({limit} bytes); end the session and log in again"
            ),
            Self::Invalid(why) => write!(formatter, "this cannot be recorded: {why}"),
        }
    }
}

impl core::error::Error for AppendError {}

/// The longest `error` text of a record, in bytes; longer ones are rejected, so that the end of an effect fits into its
/// reservation.
pub const ERROR_LIMIT: usize = 2048;

/// The most bytes of arguments that the record of a call that never ran holds. For longer ones it holds the beginning,
/// the length and the hash, so that a model's mere proposals cannot fill the log.
pub const ARGUMENTS_LIMIT: usize = 2048;

/// The most bytes by which a record after an effect may be longer than the one before it: outcome, hash, link, a longer
/// label, and longer `reason` and `error`. A character may need six bytes in JSON.
const GROWTH: usize = 1024 + 6 * (2 * ERROR_LIMIT + LABEL_LIMIT);

impl Chain {
    /// An empty chain that holds at most `limit` bytes of lines.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let (records, open, calls, taken) = Default::default();
        Self { records, limit, used: 0, reserved: 0, open, calls, share: usize::MAX, spared: 0, taken }
    }

    /// An empty chain whose room is shared: whatever one session records, others can log in and continue. A session
    /// takes at most three eighths, and so does a service for its work outside sessions. One sixteenth is for the
    /// beginnings and ends of sessions.
    #[must_use]
    pub fn shared(limit: usize) -> Self {
        Self { share: (limit / 8).saturating_mul(3), spared: limit / 16, ..Self::new(limit) }
    }

    /// Where the chain ends.
    #[must_use]
    pub fn head(&self) -> Head {
        self.records.last().map(Record::head).unwrap_or_default()
    }

    /// Bytes used, and the bound.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.used, self.limit)
    }

    /// Records a tool call.
    ///
    /// # Errors
    /// `Full` if it, and the ends of all effects that have begun, do not fit, `Share` if its session's would not.
    /// `Invalid` for an end without its beginning, an end that differs from its call, or a second beginning or
    /// rejection of one call. Also for a decision other than the recorded one, an error or reason longer than
    /// [`ERROR_LIMIT`], or a label longer than [`LABEL_LIMIT`]. Also for arguments of a call that never ran longer than
    /// [`ARGUMENTS_LIMIT`], or cut arguments of one that did. A late end may come without its beginning, which was lost
    /// with an earlier chain; it then says 0 for the sequence of the record before.
    pub fn append_tool(&mut self, time: u64, mut event: ToolEvent) -> Result<Head, AppendError> {
        if event.error.len() > ERROR_LIMIT || event.reason.len() > ERROR_LIMIT {
            let what = format!("its error or reason is longer than {ERROR_LIMIT} bytes");
            return Err(AppendError::Invalid(what));
        }
        if label_size(&event.label) > LABEL_LIMIT {
            let what = format!("its label is longer than {LABEL_LIMIT} bytes");
            return Err(AppendError::Invalid(what));
        }
        arguments(&event).map_err(AppendError::Invalid)?;
        match event.phase {
            Phase::Before => {
                if !event.decided {
                    return Err(AppendError::Invalid("an effect begins without a decision".to_string()));
                }
                let call = self.calls.tell(&event)?;
                let record = self.next(time, Event::Tool(Box::new(event)));
                let length = record.line().len();
                let reserve = length.saturating_add(GROWTH);
                let head = self.push(record, length, length.saturating_add(reserve), 0)?;
                self.reserved = self.reserved.saturating_add(reserve);
                self.open.insert(head.sequence, reserve);
                self.calls.told(call, head.sequence);
                Ok(head)
            }
            Phase::After => {
                let began_here = self.same_call(&event);
                if event.late && began_here.is_err() {
                    return self.append_orphan(time, event);
                }
                let Some(&reserve) = self.open.get(&event.before) else {
                    let what = format!("no effect began with record {}, or its end is recorded already", event.before);
                    return Err(AppendError::Invalid(what));
                };
                began_here?;
                let before = event.before;
                let record = self.next(time, Event::Tool(Box::new(event)));
                let length = record.line().len();
                let head = self.push(record, length, length, reserve)?;
                self.open.remove(&before);
                self.reserved = self.reserved.saturating_sub(reserve);
                Ok(head)
            }
            Phase::Refused => {
                let call = self.calls.tell(&event)?;
                if !event.decided
                    && let Some(decision) = self.calls.decision(&call)
                {
                    (event.decided, event.decision) = (true, decision);
                }
                let record = self.next(time, Event::Tool(Box::new(event)));
                let length = record.line().len();
                let head = self.push(record, length, length, 0)?;
                self.calls.told(call, head.sequence);
                Ok(head)
            }
        }
    }

    /// The end of an effect that began in an earlier chain.
    fn append_orphan(&mut self, time: u64, event: ToolEvent) -> Result<Head, AppendError> {
        let call = self.calls.tell(&event)?;
        let record = self.next(time, Event::Tool(Box::new(ToolEvent { before: 0, ..event })));
        let length = record.line().len();
        let head = self.push(record, length, length, 0)?;
        self.calls.told(call, head.sequence);
        Ok(head)
    }

    /// Records something else.
    ///
    /// # Errors
    /// `Full` or `Share` if it does not fit. `Invalid` for a kind that is empty, `tool`, or not made of letters,
    /// digits, `.` and `-`, and for a field name that occurs twice. Also for a decision on a call that already has a
    /// decision or an outcome.
    pub fn append_general(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        let plain = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        if event.kind.is_empty() || event.kind == "tool" || !plain(&event.kind) {
            return Err(AppendError::Invalid(format!("{:?} is not a kind of general event", event.kind)));
        }
        let mut names: Vec<&str> = event.fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(AppendError::Invalid("a field occurs twice".to_string()));
        }
        let decided = self.calls.decide(&event)?;
        let record = self.next(time, Event::General(event));
        let length = record.line().len();
        let head = self.push(record, length, length, 0)?;
        if let Some((call, decision)) = decided {
            self.calls.decided(call, decision);
        }
        Ok(head)
    }

    /// Every record, oldest first.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The record with that sequence.
    #[must_use]
    pub fn get(&self, sequence: u64) -> Option<&Record> {
        let at = usize::try_from(sequence.checked_sub(1)?).ok()?;
        self.records.get(at)
    }

    /// At most `max` records that pass the filter, from its `from` on, and the sequence from which to go on; 0 at the
    /// end.
    #[must_use]
    pub fn query(&self, filter: &Filter, max: usize) -> (Vec<&Record>, u64) {
        let from = usize::try_from(filter.from.saturating_sub(1)).unwrap_or(usize::MAX);
        let mut found = self.records.iter().skip(from).filter(|record| filter.matches(record));
        let page: Vec<&Record> = found.by_ref().take(max).collect();
        (page, found.next().map_or(0, |record| record.sequence))
    }

    /// Sequences of the records before effects whose end is not recorded yet.
    pub fn open(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.keys().copied()
    }

    fn next(&self, time: u64, event: Event) -> Record {
        // A clock that is set back must not make the order look wrong.
        let time = time.max(self.records.last().map_or(0, |last| last.time));
        Record::new(self.head(), time, event)
    }

    /// Appends a record of this length, if the bytes that it needs fit; `kept` of them were kept for it.
    fn push(&mut self, record: Record, length: usize, needed: usize, kept: usize) -> Result<Head, AppendError> {
        let (taker, spared) = taker(&record.event);
        let all = |before: usize| before.saturating_sub(kept).saturating_add(needed);
        let share = all(self.taken.get(taker).copied().unwrap_or_default());
        let for_others = if spared || kept > 0 { 0 } else { self.spared };
        if all(self.used.saturating_add(self.reserved)) > self.limit.saturating_sub(for_others) {
            return Err(AppendError::Full { limit: self.limit });
        }
        if share > self.share && !spared && kept == 0 {
            return Err(AppendError::Share { limit: self.share });
        }
        match self.taken.get_mut(taker) {
            Some(taken) => *taken = share,
            None => drop(self.taken.insert(taker.to_string(), share)),
        }
        let head = record.head();
        self.used = self.used.saturating_add(length);
        self.records.push(record);
        Ok(head)
    }

    /// Whether the end belongs to the call that began.
    fn same_call(&self, after: &ToolEvent) -> Result<(), AppendError> {
        let Some(Event::Tool(before)) = self.get(after.before).map(|record| &record.event) else {
            return Err(AppendError::Invalid("its beginning is not about a tool call".to_string()));
        };
        let expected = ToolEvent {
            phase: after.phase,
            outcome: after.outcome,
            result_hash: after.result_hash.clone(),
            error: after.error.clone(),
            label: after.label.clone(),
            reason: after.reason.clone(),
            before: after.before,
            late: after.late,
            ..ToolEvent::clone(before)
        };
        if expected == *after {
            Ok(())
        } else {
            Err(AppendError::Invalid(format!("it is not the call that began with record {}", after.before)))
        }
    }
}

/// The session that a record is about, or the service that it comes from if it is about none. The flag is set for the
/// beginning and the end of a session, which have room that nothing else takes.
fn taker(event: &Event) -> (&str, bool) {
    match event {
        Event::Tool(event) => (&event.session, false),
        Event::General(event) => {
            let source = || event.fields.iter().find(|field| field.name == "source").map(|field| field.value.as_str());
            let taker = if event.session.is_empty() { source().unwrap_or_default() } else { event.session.as_str() };
            (taker, Kind::is_spared(&event.kind))
        }
    }
}

/// Whether a record may hold these arguments: the whole of a call that ran, a bounded part of one that did not.
fn arguments(event: &ToolEvent) -> Result<(), String> {
    let cut = !event.arguments_hash.is_empty() || event.arguments_bytes != 0;
    let there = event.arguments.len();
    if event.phase != Phase::Refused {
        return if cut { Err("of a call that runs the arguments are recorded whole".to_string()) } else { Ok(()) };
    }
    if there > ARGUMENTS_LIMIT {
        let what = format!("of a call that never ran at most {ARGUMENTS_LIMIT} bytes of arguments are recorded");
        return Err(format!("{what}, and their length and hash"));
    }
    let longer = usize::try_from(event.arguments_bytes).is_ok_and(|whole| whole > there);
    if cut && !(longer && event.arguments_hash.len() == 32) {
        return Err("arguments that are cut have the length and the SHA-256 hash of the whole".to_string());
    }
    Ok(())
}

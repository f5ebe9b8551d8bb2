//! The chain in memory: what simulated worlds keep, and what [`Stored`](crate::Stored) is compared with.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use capos_schema::audit::{GeneralEvent, ToolEvent};

use crate::calls::{self, Call, Key};
use crate::query::Filter;
use crate::record::{Event, Head, Record};
use crate::rules::{AppendError, Bounds, Rules};

/// Records in memory.
///
/// The bound counts the bytes of all lines, and [`RECORD_OVERHEAD`](crate::RECORD_OVERHEAD) for each. A record *before*
/// an effect is accepted only if the record *after* it will fit too, so the end of each permitted effect can be
/// recorded. If it does not fit, the chain rejects the record, and the caller must not continue. A chain that several
/// sessions share ([`Chain::shared`]) bounds each of them.
#[derive(Debug)]
pub struct Chain {
    records: Vec<Record>,
    rules: Rules,
    calls: BTreeMap<Key, Call>,
}

impl Chain {
    /// An empty chain that holds at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self::with(Bounds::new(limit))
    }

    /// An empty chain whose room is shared: whatever one session records, others can log in and continue.
    #[must_use]
    pub fn shared(limit: usize) -> Self {
        Self::with(Bounds::shared(limit))
    }

    fn with(bounds: Bounds) -> Self {
        Self { records: Vec::new(), rules: Rules::new(bounds), calls: BTreeMap::new() }
    }

    /// Where the chain ends.
    #[must_use]
    pub fn head(&self) -> Head {
        self.rules.head
    }

    /// Bytes used, and the bound.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.rules.used, self.rules.bounds.limit)
    }

    /// Records a tool call.
    ///
    /// # Errors
    /// `Full` if it, and the ends of all effects that have begun, do not fit, `Share` if its session's would not.
    /// `Invalid` for an end without its beginning, an end that differs from its call, or a second beginning or
    /// rejection of one call. Also for a decision other than the recorded one, an error or reason longer than
    /// [`ERROR_LIMIT`](crate::ERROR_LIMIT), or a label that is too long. Also for arguments of a call that never ran
    /// longer than [`ARGUMENTS_LIMIT`](crate::ARGUMENTS_LIMIT), or cut arguments of one that did. A late end may come
    /// without its beginning, which was lost with an earlier chain; it then says 0 for the sequence of the record
    /// before.
    pub fn append_tool(&mut self, time: u64, event: ToolEvent) -> Result<Head, AppendError> {
        self.append(time, Event::Tool(Box::new(event)))
    }

    /// Records something else.
    ///
    /// # Errors
    /// `Full` or `Share` if it does not fit. `Invalid` for a kind that is empty, `tool`, or not made of letters,
    /// digits, `.` and `-`, and for a field name that occurs twice. Also for a decision on a call that already has a
    /// decision or an outcome.
    pub fn append_general(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        self.append(time, Event::General(event))
    }

    fn append(&mut self, time: u64, event: Event) -> Result<Head, AppendError> {
        let head = self.push(time, event)?;
        if let Some(warning) = self.rules.warning() {
            // If it finds no room, the record that it follows is there all the same.
            drop(self.push(time, Event::General(warning)));
        }
        Ok(head)
    }

    fn push(&mut self, time: u64, event: Event) -> Result<Head, AppendError> {
        let key = calls::subject(&event);
        let call = key.and_then(|key| self.calls.get(&key).copied()).unwrap_or_default();
        let step = self.rules.plan(time, event, call)?;
        self.rules.apply(&step);
        if let (Some(key), Some(call)) = (key, step.call) {
            self.calls.insert(key, call);
        }
        self.records.push(step.record);
        Ok(self.rules.head)
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
        let mut found = self.records.iter().skip(from).filter(|record| filter.matches(&record.value()));
        let page: Vec<&Record> = found.by_ref().take(max).collect();
        (page, found.next().map_or(0, |record| record.sequence))
    }

    /// Sequences of the records before effects whose end is not recorded yet.
    pub fn open(&self) -> impl Iterator<Item = u64> + '_ {
        self.rules.open.keys().copied()
    }
}

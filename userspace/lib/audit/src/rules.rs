//! What a chain accepts: the rules about order, pairs and room, and the facts that they need in memory.
//!
//! An event becomes a [`Step`] or is rejected; nothing has changed then. Once the step's record is where records are
//! kept, [`Rules::apply`] takes it over.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_keyspace::Fault;
use capos_policy::{LABEL_LIMIT, label_size};
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::authority::Label;

use crate::calls::Call;
use crate::canonical::sha256;
use crate::general::Kind;
use crate::record::{Event, Head, Record};

/// Why a record was not taken. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The bound would be exceeded.
    Full { limit: usize },
    /// The session's, or the service's, share would be exceeded; others have theirs.
    Share { limit: usize },
    /// The event contradicts itself or the chain.
    Invalid(String),
    /// The place of the records does not take it. After [`Fault::Lost`] it is unknown whether it did: append the event
    /// again.
    Place(Fault),
}

impl fmt::Display for AppendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit } => write!(
                formatter,
                "the audit log is full ({limit} bytes); with a data disk, move its records to a transfer volume: /audit \
                 archive VOLUME; without one, a restart empties it"
            ),
            Self::Share { limit } => write!(
                formatter,
                "this session's share of the audit log is used up ({limit} bytes); end the session and log in again"
            ),
            Self::Invalid(why) => write!(formatter, "this cannot be recorded: {why}"),
            Self::Place(fault @ (Fault::Full(_) | Fault::Quota(_))) => write!(
                formatter,
                "the audit log is full: its disk has no room ({fault}); remove files or models, or use a larger disk"
            ),
            Self::Place(fault) => write!(formatter, "the audit log takes no record: {fault}"),
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

/// Bytes that a record counts in addition to its line: its key, and its entries in the indexes.
pub const RECORD_OVERHEAD: usize = 384;

/// The most bytes by which a record after an effect may be longer than the one before it: outcome, hash, link, a longer
/// label, and longer `reason` and `error`. A character may need six bytes in JSON.
const GROWTH: usize = 1024 + 6 * (2 * ERROR_LIMIT + LABEL_LIMIT);

/// How much a chain may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub limit: usize,
    /// The maximum for the records of one session, or of one service about no session.
    pub share: usize,
    /// Room that only the beginnings and ends of sessions use, and ends of effects that have begun.
    pub spared: usize,
    /// Of the limit, what records take that are elsewhere.
    pub elsewhere: usize,
}

impl Bounds {
    pub fn new(limit: usize) -> Self {
        Self { limit, share: usize::MAX, spared: 0, elsewhere: 0 }
    }

    /// Whatever one session records, others can log in and continue: a session takes at most three eighths, and so does
    /// a service for its work outside sessions. One sixteenth is for the beginnings and ends of sessions.
    pub fn shared(limit: usize) -> Self {
        Self { limit, share: (limit / 8).saturating_mul(3), spared: limit / 16, elsewhere: 0 }
    }

    /// The same for `limit` bytes behind others that are elsewhere.
    pub fn aside(elsewhere: usize, limit: usize) -> Self {
        let bounds = Self::shared(limit);
        Self { limit: elsewhere.saturating_add(limit), elsewhere, ..bounds }
    }
}

/// An effect that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// Bytes kept for its end.
    pub reserve: usize,
    /// What its end must repeat, as a hash.
    pub call: [u8; 32],
}

/// Whom a record is charged to: the hash of a session's id or a service's name.
pub(crate) type Taker = [u8; 16];

/// The facts that the rules need.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub bounds: Bounds,
    pub head: Head,
    /// Of the last record.
    pub time: u64,
    pub used: usize,
    /// Bytes kept for the ends of effects that have begun.
    pub reserved: usize,
    /// Effects that have begun, by the sequence of the record before.
    pub open: BTreeMap<u64, Open>,
    /// Bytes of records and of reservations for ends.
    pub taken: BTreeMap<Taker, usize>,
    /// The last warning about room, in percent.
    pub warned: u8,
}

/// When these percentages of the room for tool calls are used, a person is told, once each.
const WARNINGS: [u8; 3] = [95, 90, 80];

/// A record that the chain accepts, and what changes with it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub record: Record,
    pub line: String,
    /// What is recorded of the call afterwards.
    pub call: Option<Call>,
    pub taker: (Taker, usize),
    pub used: usize,
    pub reserved: usize,
    pub opens: Option<Open>,
    pub closes: Option<u64>,
    /// It has room that other records do not have.
    pub spared: bool,
}

/// What a record needs.
struct Need {
    /// Bytes to reserve for the end of the effect that it begins, in addition to the end's own [`RECORD_OVERHEAD`].
    opens: Option<[u8; 32]>,
    closes: Option<(u64, usize)>,
    call: Option<Call>,
}

impl Rules {
    pub fn new(bounds: Bounds) -> Self {
        let (head, open, taken) = Default::default();
        Self { bounds, head, time: 0, used: 0, reserved: 0, open, taken, warned: 0 }
    }

    /// The record that an event becomes. `call` is what is recorded of its call.
    pub fn plan(&self, time: u64, event: Event, call: Call) -> Result<Step, AppendError> {
        match event {
            Event::Tool(event) => self.tool(time, *event, call),
            Event::General(event) => self.general(time, event, call),
        }
    }

    /// Takes over a step.
    pub fn apply(&mut self, step: &Step) {
        self.head = step.record.head();
        (self.time, self.used, self.reserved) = (step.record.time, step.used, step.reserved);
        if let Some(open) = step.opens {
            self.open.insert(self.head.sequence, open);
        }
        if let Some(before) = step.closes {
            self.open.remove(&before);
        }
        self.taken.insert(step.taker.0, step.taker.1);
    }

    /// Begins a boot: effects of earlier ones cannot end any more, and their sessions are over.
    pub fn begin_boot(&mut self) {
        self.open.clear();
        self.taken.clear();
        self.reserved = 0;
    }

    /// The records are in an archive now: none takes room any more. Effects that have begun keep what they have for their ends.
    pub fn archived(&mut self) {
        self.taken.clear();
        (self.used, self.warned) = (0, 0);
    }

    /// How much is used of the room for tool calls, as a warning's percentage; 0 if it is less than that of the first one.
    pub fn level(&self) -> u8 {
        let Bounds { limit, spared, elsewhere, .. } = self.bounds;
        let used = self.used.saturating_sub(elsewhere).saturating_mul(100);
        let room = limit.saturating_sub(elsewhere).saturating_sub(spared);
        let reached = |percent: &u8| used >= room.saturating_mul(usize::from(*percent));
        WARNINGS.into_iter().find(reached).unwrap_or(0)
    }

    /// The warning about room that is due, to be recorded.
    pub fn warning(&mut self) -> Option<GeneralEvent> {
        let level = self.level();
        if level <= self.warned {
            return None;
        }
        self.warned = level;
        let (used, limit) = (self.used, self.bounds.limit);
        Some(Kind::LogSpace.event("", "", &[("percent", &level), ("used", &used), ("limit", &limit)]))
    }

    fn tool(&self, time: u64, mut event: ToolEvent, call: Call) -> Result<Step, AppendError> {
        if event.error.len() > ERROR_LIMIT || event.reason.len() > ERROR_LIMIT {
            let what = format!("its error or reason is longer than {ERROR_LIMIT} bytes");
            return Err(AppendError::Invalid(what));
        }
        if label_size(&event.label) > LABEL_LIMIT {
            let what = format!("its label is longer than {LABEL_LIMIT} bytes");
            return Err(AppendError::Invalid(what));
        }
        arguments(&event).map_err(AppendError::Invalid)?;
        let told = Call { told: Some(self.head.sequence.saturating_add(1)), ..call };
        let mut need = Need { opens: None, closes: None, call: Some(told) };
        match event.phase {
            Phase::Before => {
                if !event.decided {
                    return Err(AppendError::Invalid("an effect begins without a decision".to_string()));
                }
                call.tell(&event)?;
                need.opens = Some(same(&event));
            }
            Phase::After => match self.open.get(&event.before) {
                Some(open) if open.call == same(&event) => {
                    need = Need { opens: None, closes: Some((event.before, open.reserve)), call: None };
                }
                found if event.late && (found.is_some() || call.told != Some(event.before)) => {
                    // Its effect began in an earlier chain.
                    call.tell(&event)?;
                    event.before = 0;
                }
                Some(_) => {
                    let what = format!("it is not the call that began with record {}", event.before);
                    return Err(AppendError::Invalid(what));
                }
                None => {
                    let what = format!("no effect began with record {}, or its end is recorded already", event.before);
                    return Err(AppendError::Invalid(what));
                }
            },
            Phase::Refused => {
                call.tell(&event)?;
                if !event.decided
                    && let Some(decision) = call.decision
                {
                    (event.decided, event.decision) = (true, decision);
                }
            }
        }
        self.fit(time, Event::Tool(Box::new(event)), need)
    }

    fn general(&self, time: u64, event: GeneralEvent, call: Call) -> Result<Step, AppendError> {
        let plain = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        if event.kind.is_empty() || event.kind == "tool" || !plain(&event.kind) {
            return Err(AppendError::Invalid(format!("{:?} is not a kind of general event", event.kind)));
        }
        let mut names: Vec<&str> = event.fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(AppendError::Invalid("a field occurs twice".to_string()));
        }
        let decision = call.decide(&event)?;
        let call = decision.map(|made| Call { decision: Some(made), ..call });
        self.fit(time, Event::General(event), Need { opens: None, closes: None, call })
    }

    /// The step of an event, if the bytes that it needs fit.
    fn fit(&self, time: u64, event: Event, need: Need) -> Result<Step, AppendError> {
        // A clock that is set back must not make the order look wrong.
        let (record, line) = Record::new(self.head, time.max(self.time), event);
        let length = line.len().saturating_add(RECORD_OVERHEAD);
        let opens = need.opens.map(|call| Open { reserve: length.saturating_add(GROWTH), call });
        let kept = need.closes.map_or(0, |(_, reserve)| reserve);
        let (name, spared) = taker(&record.event);
        let taker = digest(name);
        let used = self.used.saturating_add(length);
        let reserve = opens.map_or(0, |open| open.reserve);
        let reserved = self.reserved.saturating_sub(kept).saturating_add(reserve);
        let Bounds { limit, share, spared: room, .. } = self.bounds;
        let for_others = if spared || kept > 0 { 0 } else { room };
        if used.saturating_add(reserved) > limit.saturating_sub(for_others) {
            return Err(AppendError::Full { limit });
        }
        let taken = self.taken.get(&taker).copied().unwrap_or_default().saturating_sub(kept);
        let taken = taken.saturating_add(length).saturating_add(reserve);
        if taken > share && !spared && kept == 0 {
            return Err(AppendError::Share { limit: share });
        }
        let closes = need.closes.map(|(before, _)| before);
        let (call, spared) = (need.call, spared || kept > 0);
        Ok(Step { record, line, call, taker: (taker, taken), used, reserved, opens, closes, spared })
    }
}

/// A hash that stands for a text of any length in keys.
pub(crate) fn digest(text: &str) -> [u8; 16] {
    let hash = sha256(text.as_bytes());
    let mut short = [0; 16];
    short.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    short
}

/// The hash of all that the beginning and the end of an effect have in common.
fn same(event: &ToolEvent) -> [u8; 32] {
    // The record before an effect has no outcome, result and error.
    let common = ToolEvent {
        phase: Phase::Before,
        label: Label::default(),
        reason: String::new(),
        late: false,
        ..event.clone()
    };
    sha256(Record::unplaced(Event::Tool(Box::new(common))).line().as_bytes())
}

/// The session that a record is about, or the service that it comes from if it is about none. The flag is set for
/// records that have room that nothing else takes.
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

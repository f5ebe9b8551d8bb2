//! "What did it do on my behalf": records as sentences.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_plural::count;
use capos_schema::annotations::Category;
use capos_schema::authority::Decision;
use capos_schema::models::Outcome;
use serde_json::Value;

use crate::moment::{clock, date, offset_text, shifted};
use crate::replay::QUESTION;
use crate::words::{self, Person};

/// The tool that runs programs, which only read, or do not.
const PROGRAM: &str = "run_program";

/// One call that a model proposed, or the person made, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// Sequence of its first record.
    pub sequence: u64,
    /// Time of its first record, in nanoseconds since 1970.
    pub time: u64,
    /// The user or profile in whose session it was.
    pub principal: String,
    /// The reader of the story is somebody else.
    pub of_other: bool,
    pub conversation: String,
    pub turn: u64,
    pub call_id: String,
    pub tool: String,
    /// The tool's category, as its descriptor has it; empty if there is no such tool.
    pub category: String,
    pub arguments: String,
    /// Empty if the person made the call.
    pub model: String,
    /// `None` if the call was rejected before a decision.
    pub decision: Option<String>,
    /// `None` if the effect began and no end is recorded.
    pub outcome: Option<String>,
    pub error: String,
    pub reason: String,
    /// Whether it ran, according to the records.
    pub ran: bool,
    /// Whether the log took its end later than it came.
    pub late: bool,
    /// The tools that the model saw when it made the call.
    pub advertised: Vec<String>,
    /// Minutes by which the time that is shown is ahead of UTC.
    pub offset: i16,
}

impl Deed {
    /// Notes who reads it: the texts say "you" of that principal alone, and name every other.
    pub fn read_by(&mut self, reader: &str) {
        self.of_other = self.principal != reader;
    }

    fn person(&self) -> Person<'_> {
        if self.of_other { Person::Other(&self.principal) } else { Person::You }
    }

    /// Who proposed it: a model, or the person, who calls without one.
    #[must_use]
    pub fn proposer(&self) -> String {
        if self.model.is_empty() { self.person().to_string() } else { self.model.clone() }
    }

    /// The context of a deed, which is written once while it stays the same: its day, and who proposed it with which
    /// tools to choose from.
    #[must_use]
    pub fn heading(&self) -> String {
        let day = date(shifted(self.time, self.offset));
        let zone = if self.offset == 0 { String::from("UTC") } else { offset_text(self.offset) };
        if self.model.is_empty() {
            return alloc::format!("{day} {zone}, by {}, without a model", self.person());
        }
        let whose = if self.of_other { alloc::format!(" for {}", self.person()) } else { String::new() };
        let model = alloc::format!("{}{whose}", self.model);
        let tools = count(self.advertised.len(), "tool");
        match self.advertised.join(", ") {
            none if none.is_empty() => alloc::format!("{day} {zone}, by {model}, which saw no tools"),
            names => alloc::format!("{day} {zone}, by {model}, which saw {tools}: {names}"),
        }
    }
}

/// How many deeds there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ran to their end, and only read.
    pub read: usize,
    /// Ran to their end, and were such as change something.
    pub changed: usize,
    /// Ran a program to its end: its changes are not known here.
    pub programs: usize,
    /// Began and failed, or were interrupted, or have no recorded end: their changes until then are not known.
    pub failed: usize,
    /// Questions of programs to which the person agreed. What the programs did then is not known here.
    pub granted: usize,
    /// Never ran.
    pub refused: usize,
}

impl Tally {
    /// Counts deeds.
    #[must_use]
    pub fn of(deeds: &[Deed]) -> Self {
        let mut tally = Self::default();
        for deed in deeds {
            let kind = match (deed.ran, deed.outcome.as_deref()) {
                (false, _) => &mut tally.refused,
                (true, Some("ok")) if deed.category == Category::ReadOnly.name() => &mut tally.read,
                (true, Some("ok")) if deed.tool == PROGRAM => &mut tally.programs,
                (true, Some("ok")) if deed.tool == QUESTION => &mut tally.granted,
                (true, Some("ok")) => &mut tally.changed,
                (true, _) => &mut tally.failed,
            };
            *kind = kind.saturating_add(1);
        }
        tally
    }
}

/// `11 calls: 4 only read, 2 changed something, 5 did not run`; kinds without calls are left out.
impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.read, "only read"),
            (self.changed, "changed something"),
            (self.programs, "ran a program"),
            (self.granted, "granted a step of a program"),
            (self.failed, "failed or were interrupted"),
            (self.refused, "did not run"),
        ];
        let all = kinds.iter().fold(0_usize, |all, (number, _)| all.saturating_add(*number));
        write!(formatter, "{}", count(all, "call"))?;
        let there = kinds.iter().filter(|(number, _)| *number > 0);
        for (before, (number, what)) in core::iter::once(": ").chain(core::iter::repeat(", ")).zip(there) {
            write!(formatter, "{before}{number} {what}")?;
        }
        Ok(())
    }
}

/// The deeds in a list of record lines, in the order in which they began. Lines that are not about tool calls, and
/// lines that are not JSON, are skipped; an end whose beginning is not in the list counts alone.
pub fn story<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Deed> {
    let mut deeds: BTreeMap<u64, Deed> = BTreeMap::new();
    for line in lines {
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let text = |member: &str| value.get(member).and_then(Value::as_str).map(String::from);
        let number = |member: &str| value.get(member).and_then(Value::as_u64);
        if text("kind").as_deref() != Some("tool") {
            continue;
        }
        let sequence = number("sequence").unwrap_or_default();
        let descriptor = |member: &str| {
            let found = value.get("descriptor").and_then(|descriptor| descriptor.get(member)).and_then(Value::as_str);
            String::from(found.unwrap_or_default())
        };
        let deed =
            deeds.entry(number("before").filter(|before| *before > 0).unwrap_or(sequence)).or_insert_with(|| Deed {
                sequence,
                time: number("time").unwrap_or_default(),
                principal: text("principal").unwrap_or_default(),
                conversation: text("conversation").unwrap_or_default(),
                turn: number("turn").unwrap_or_default(),
                call_id: text("callId").unwrap_or_default(),
                tool: descriptor("name"),
                category: descriptor("category"),
                arguments: match (text("arguments").unwrap_or_default(), number("argumentsBytes")) {
                    (whole, None) => whole,
                    (beginning, Some(bytes)) => alloc::format!("{beginning}… ({} in total)", count(bytes, "byte")),
                },
                model: text("modelId").unwrap_or_default(),
                decision: text("decision"),
                ran: text("phase").as_deref() != Some("refused"),
                advertised: value
                    .get("advertised")
                    .and_then(Value::as_array)
                    .map(|names| names.iter().filter_map(Value::as_str).map(String::from).collect())
                    .unwrap_or_default(),
                ..Deed::default()
            });
        deed.late |= value.get("late").and_then(Value::as_bool).unwrap_or_default();
        deed.outcome = text("outcome").or(deed.outcome.take());
        for (field, given) in [(&mut deed.error, text("error")), (&mut deed.reason, text("reason"))] {
            if let Some(given) = given.filter(|given| !given.is_empty()) {
                *field = given;
            }
        }
    }
    deeds.into_values().collect()
}

/// `#12 09:05:00 turn 3: write_file {"path":"a"}: you agreed; done`, on one line however long the arguments are.
impl fmt::Display for Deed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = clock(shifted(self.time, self.offset));
        write!(formatter, "#{} {clock} turn {}: {} {}: ", self.sequence, self.turn, self.tool, self.arguments)?;
        let decided = self.decision.as_deref();
        let known = decided.and_then(Decision::from_name);
        match known {
            Some(decision) => formatter.write_str(&words::decision(decision, self.person()))?,
            None => formatter.write_str(decided.unwrap_or("no decision"))?,
        }
        formatter.write_str("; ")?;
        let outcome = self.outcome.as_deref().map(|name| match Outcome::from_name(name) {
            // Whether its program did the step then is not known.
            Some(Outcome::Ok) if self.tool == QUESTION => "granted".to_string(),
            Some(outcome) => words::outcome(outcome, self.person()),
            None => name.into(),
        });
        // The decision says it already.
        let decided = matches!(known, Some(Decision::Denied | Decision::StepUpFailed | Decision::Forbidden));
        match (self.ran, outcome) {
            (true, None) => formatter.write_str("it began; no end is recorded")?,
            (true, Some(outcome)) if self.outcome.as_deref() == Some(Outcome::Ok.name()) => {
                formatter.write_str(&outcome)?
            }
            (true, Some(outcome)) => write!(formatter, "it ran: {outcome}")?,
            (false, _) if decided && self.outcome.as_deref() != Some(Outcome::Cancelled.name()) => {
                formatter.write_str("not run")?
            }
            (false, outcome) => write!(formatter, "not run ({})", outcome.as_deref().unwrap_or("no outcome"))?,
        }
        let why = if self.error.is_empty() { &self.reason } else { &self.error };
        if !why.is_empty() && self.outcome.as_deref() != Some("ok") {
            write!(formatter, ": {}", words::reason(why, self.person()))?;
        }
        if self.late {
            formatter.write_str(" (recorded later)")?;
        }
        Ok(())
    }
}

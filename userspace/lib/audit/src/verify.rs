//! Checks a chain of lines, wherever they come from.

#![deny(clippy::arithmetic_side_effects)]

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;

use crate::canonical;
use crate::record::Head;

/// The facts of an unbroken chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub records: u64,
    pub head: Head,
    /// Effects whose beginning and end are both recorded.
    pub effects: u64,
    /// Calls that never ran.
    pub refused: u64,
    /// Records of beginnings without an end: effects in progress, or interrupted by a crash.
    pub open: Vec<u64>,
}

/// Where a chain is broken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Place of the record among those read, from 1; one more than there are if the end is missing.
    pub at: u64,
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the audit chain is broken at record {}: {}", self.at, self.why)
    }
}

impl core::error::Error for Broken {}

/// Checks whole chains, line by line without newlines, oldest first. With `head` the end is checked too; without it a
/// chain that was cut off looks like a shorter one.
///
/// A line is dropped before the next is read, and only hashes of an open effect are kept. So a chain that is read line
/// by line needs the memory of its longest line, whatever its length.
///
/// # Errors
/// The first place at which something is wrong.
pub fn verify_lines<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>, head: Option<Head>) -> Result<Summary, Broken> {
    let mut summary = Summary::default();
    let mut time = 0;
    let mut open = BTreeMap::new();
    for line in lines {
        let at = summary.records.saturating_add(1);
        let broken = |why: String| Broken { at, why };
        let value = record(line.as_ref(), at, &summary.head).map_err(broken)?;
        let now = number(&value, "time").ok_or_else(|| broken("it has no time".to_string()))?;
        if now < time {
            return Err(broken("it is older than the one before it".to_string()));
        }
        time = now;
        if value.get("kind").and_then(Value::as_str) == Some("tool") {
            tool(&value, at, &mut open, &mut summary).map_err(broken)?;
        }
        summary.records = at;
        summary.head = Head { sequence: at, hash: canonical::hash(&value) };
    }
    if head.is_some_and(|head| head != summary.head) {
        let why = "the records end before, or differ from, the head that was given".to_string();
        return Err(Broken { at: summary.records.saturating_add(1), why });
    }
    summary.open = open.into_keys().collect();
    Ok(summary)
}

/// Reads one line; checks its form, its place and its hashes.
fn record(line: &[u8], sequence: u64, last: &Head) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(line).map_err(|bad| format!("it is not JSON: {bad}"))?;
    if canonical::text(&value).as_bytes() != line {
        return Err("it is not in canonical form".to_string());
    }
    if number(&value, "sequence") != Some(sequence) {
        return Err(format!("its sequence is not {sequence}"));
    }
    let is_hash =
        |member: &str, hash: &[u8; 32]| value.get(member).and_then(Value::as_str) == Some(hex::encode(hash).as_str());
    if !is_hash("previous", &last.hash) {
        return Err("it does not follow the one before it".to_string());
    }
    if !is_hash("hash", &canonical::hash(&value)) {
        return Err("its content does not have its hash".to_string());
    }
    Ok(value)
}

/// Members that the beginning and the end of an effect have in common.
const SAME: [&str; 14] = [
    "session",
    "principal",
    "conversation",
    "turn",
    "callId",
    "modelId",
    "backend",
    "nonce",
    "runner",
    "gatewaySession",
    "descriptor",
    "arguments",
    "decision",
    "advertised",
];

/// The hashes of the members in [`SAME`], in its order.
type Beginning = [[u8; 32]; SAME.len()];

fn beginning(value: &Value) -> Beginning {
    SAME.map(|member| canonical::sha256(canonical::text(value.get(member).unwrap_or(&Value::Null)).as_bytes()))
}

fn tool(
    value: &Value,
    sequence: u64,
    open: &mut BTreeMap<u64, Beginning>,
    summary: &mut Summary,
) -> Result<(), String> {
    match value.get("phase").and_then(Value::as_str) {
        Some("before") => {
            open.insert(sequence, beginning(value));
        }
        Some("after") => {
            let before = number(value, "before").unwrap_or(0);
            if before == 0 && value.get("late").and_then(Value::as_bool) == Some(true) {
                // Its beginning was lost with an earlier chain.
                summary.effects = summary.effects.saturating_add(1);
                return Ok(());
            }
            let Some(began) = open.remove(&before) else {
                return Err(format!("no effect that is still open began with record {before}"));
            };
            let differs = began.iter().zip(beginning(value)).position(|(one, other)| *one != other);
            if let Some(other) = differs.and_then(|at| SAME.get(at)) {
                return Err(format!("its {other} is not that of record {before}"));
            }
            summary.effects = summary.effects.saturating_add(1);
        }
        Some("refused") => summary.refused = summary.refused.saturating_add(1),
        _ => return Err("its phase is unknown".to_string()),
    }
    Ok(())
}

fn number(value: &Value, member: &str) -> Option<u64> {
    value.get(member).and_then(Value::as_u64)
}

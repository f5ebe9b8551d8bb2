//! Scores: a model's answers compared with the right ones, by class, with intervals. `tools/train` has the same in
//! Python.

use std::collections::BTreeMap;
use std::fmt::Write;

use capos_chat::Tool;
use serde_json::{Map, Value, json};

use super::set::{Conversation, Turn};

/// The counts, in the order in which they are printed.
const MEASURES: [&str; 5] = ["decision", "tool", "calls", "exact", "wellFormed"];

/// Two standard deviations of a normal distribution, for intervals of 95 %.
const DEVIATIONS: f64 = 1.96;

/// Groups that are shown before the classes.
const FIRST: [&str; 3] = ["all", "own tools", "other tools"];

/// Right answers out of all.
#[derive(Clone, Copy, Default)]
struct Count {
    right: u32,
    all: u32,
}

/// Counts by group, in the order of [`MEASURES`].
pub struct Scores {
    groups: BTreeMap<String, [Count; MEASURES.len()]>,
}

impl Count {
    fn add(&mut self, right: bool) {
        self.right = self.right.saturating_add(right.into());
        self.all = self.all.saturating_add(1);
    }

    fn share(self) -> Option<f64> {
        (self.all > 0).then(|| f64::from(self.right) / f64::from(self.all))
    }

    /// Wilson's interval; all of it if nothing was counted.
    fn interval(self) -> (f64, f64) {
        let Some(share) = self.share() else { return (0.0, 1.0) };
        let (count, square) = (f64::from(self.all), DEVIATIONS * DEVIATIONS);
        let middle = (share + square / (2.0 * count)) / (1.0 + square / count);
        let spread = (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
        let width = DEVIATIONS / (1.0 + square / count) * spread;
        ((middle - width).max(0.0), (middle + width).min(1.0))
    }

    fn to_json(self) -> Value {
        let (low, high) = self.interval();
        json!({ "right": self.right, "of": self.all, "share": self.share(), "low": low, "high": high })
    }

    fn cell(self) -> String {
        let (low, high) = self.interval();
        self.share().map_or("-".into(), |share| format!("{share:.3} ({low:.2}-{high:.2}) of {}", self.all))
    }
}

impl Scores {
    /// Counts what was produced for each conversation.
    pub fn of(conversations: &[Conversation], produced: &[Vec<Turn>]) -> Self {
        let mut groups = BTreeMap::<String, [Count; MEASURES.len()]>::new();
        for (conversation, given) in conversations.iter().zip(produced) {
            let about = if conversation.own { "own tools" } else { "other tools" };
            for name in ["all", about, &conversation.class] {
                add(groups.entry(name.into()).or_default(), conversation, given);
            }
        }
        Self { groups }
    }

    /// The counts by group and measure.
    pub fn to_json(&self) -> Value {
        let measures = |counts: &[Count; MEASURES.len()]| {
            let named = MEASURES.iter().zip(counts).map(|(name, count)| ((*name).to_string(), count.to_json()));
            Value::Object(named.collect::<Map<_, _>>())
        };
        Value::Object(self.groups.iter().map(|(name, counts)| (name.clone(), measures(counts))).collect())
    }

    /// A line for each group.
    pub fn table(&self) -> String {
        let mut out = format!("{:16}", "");
        for measure in MEASURES {
            let _ = write!(out, "{measure:>28}");
        }
        let first = FIRST.iter().filter_map(|name| self.groups.get_key_value(*name));
        let classes = self.groups.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
        for (name, counts) in first.chain(classes) {
            let _ = write!(out, "\n{name:16}");
            for count in counts {
                let _ = write!(out, "{:>28}", count.cell());
            }
        }
        out.push('\n');
        out
    }
}

fn add(counts: &mut [Count; MEASURES.len()], conversation: &Conversation, given: &[Turn]) {
    let [decision, tool, calls, exact, well_formed] = counts;
    let pairs = || conversation.turns.iter().map(|(_, wanted)| wanted).zip(given);
    for (wanted, given) in pairs() {
        // That a forbidden tool is found to be so is right only for the tool that it takes.
        let right = wanted.decision == given.decision;
        decision.add(right && (wanted.decision != "forbidden" || wanted.tool == given.tool));
        if wanted.decision == "call" {
            let names = |turn: &Turn| turn.calls.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            tool.add(names(wanted) == names(given));
        }
        given.calls.iter().for_each(|(name, arguments)| well_formed.add(fits(&conversation.tools, name, arguments)));
    }
    calls.add(pairs().all(|(wanted, given)| same_calls(wanted, given)));
    exact.add(pairs().all(|(wanted, given)| {
        let same = wanted.decision == given.decision && wanted.tool == given.tool && wanted.content == given.content;
        same && same_calls(wanted, given)
    }));
}

/// Whether two turns call the same tools with the same arguments in the same order.
fn same_calls(wanted: &Turn, given: &Turn) -> bool {
    let mut pairs = wanted.calls.iter().zip(&given.calls);
    wanted.calls.len() == given.calls.len()
        && pairs.all(|((name, arguments), (other, others))| name == other && same(arguments, others))
}

/// Whether two values mean the same, however numbers are written.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let in_other = |(name, value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(in_other)
        }
        _ => one == other,
    }
}

/// Whether a call names one of the tools and gives it what it takes.
fn fits(tools: &[Tool], name: &str, arguments: &Value) -> bool {
    let tool = tools.iter().find(|tool| tool.name == name && !tool.forbidden);
    let (Some(tool), Some(arguments)) = (tool, arguments.as_object()) else { return false };
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let is_given = |name: &Value| name.as_str().is_some_and(|name| arguments.contains_key(name));
    required.is_none_or(|names| names.iter().all(is_given))
        && arguments.iter().all(|(name, value)| {
            let schema = tool.parameters.get("properties").and_then(|properties| properties.get(name));
            schema.is_some_and(|schema| is_of(schema, value))
        })
}

fn is_of(schema: &Value, value: &Value) -> bool {
    let values = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty());
    if values.is_some_and(|values| !values.contains(value)) {
        return false;
    }
    match schema.get("type").and_then(Value::as_str) {
        None => true,
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            value.as_array().is_some_and(|values| values.iter().all(|value| is_of(items, value)))
        }
        Some(_) => false,
    }
}

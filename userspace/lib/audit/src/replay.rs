//! Runs rebuilt from their records: the order of requests, answers, decisions, effects and budgets.
//!
//! Nothing is executed again, and no model is asked: records hold hashes of messages, not their text. What is rebuilt is what
//! the records say came after what, and each record of a run is compared with those before it.

#![deny(clippy::arithmetic_side_effects)]

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use capos_schema::audit::Phase;
use capos_schema::authority::Decision;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::general::Kind;

/// The question of a program before a step. It is recorded like a call, and has no effect that a budget counts.
pub(crate) const QUESTION: &str = "ask_before_step";

/// A conversation and a turn of it, which together name a run.
pub type RunName = (String, u64);

/// One record of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the chain.
    pub sequence: u64,
    /// The call that it is about; empty if it is about none.
    pub call: String,
    /// What it says, on one line.
    pub text: String,
}

/// A message of which a record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The record's place in the chain.
    pub sequence: u64,
    /// `user`, `assistant` or `tool`.
    pub role: String,
    /// The call that it is the result of.
    pub call: String,
    /// SHA-256 of its text, in hexadecimal digits.
    pub hash: String,
}

/// A call of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// SHA-256 of its arguments, in hexadecimal digits; empty if there is no record of the call itself.
    pub arguments: String,
    /// The decision of the broker, as it recorded it.
    pub decision: String,
    /// The record before its effect; 0 if it had none.
    pub began: u64,
    /// Its outcome; empty if none is recorded.
    pub outcome: String,
    /// SHA-256 of its result; empty if no end is recorded.
    pub result: String,
    /// Whether the person made it at the prompt, and no model.
    pub is_persons: bool,
    /// Whether it is the question of a program, which the person has answered.
    pub is_question: bool,
}

impl Call {
    /// Whether its effect began and has no recorded end.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.began > 0 && self.outcome.is_empty()
    }
}

/// A run as its records tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Its name.
    pub name: RunName,
    /// Whose it is.
    pub principal: String,
    /// Its records in the order of the chain. Calls that the person made at the prompt are not among them.
    pub steps: Vec<Step>,
    /// Its calls by their ids.
    pub calls: BTreeMap<String, Call>,
    /// Its messages in the order in which they were recorded.
    pub messages: Vec<Told>,
    /// How its budget was closed last; empty if it was not.
    pub outcome: String,
    /// Where records contradict each other, a sentence each.
    pub faults: Vec<String>,
}

impl Replayed {
    /// SHA-256 of its steps, in hexadecimal digits. The same records give the same digest, from whatever files they come.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let (conversation, turn) = &self.name;
        hash.update(format!("{conversation}-{turn}\n"));
        for Step { sequence, text, .. } in &self.steps {
            hash.update(format!("{sequence} {text}\n"));
        }
        hex::encode(hash.finalize())
    }

    /// How many of its messages have this role.
    #[must_use]
    pub fn spoken(&self, role: &str) -> usize {
        self.messages.iter().filter(|told| told.role == role).count()
    }

    fn fault(&mut self, sequence: u64, why: &str) {
        self.faults.push(format!("record {sequence}: {why}"));
    }

    fn step(&mut self, sequence: u64, call: &str, text: String) {
        self.steps.push(Step { sequence, call: call.to_string(), text });
    }

    fn message(&mut self, sequence: u64, fields: &Map<String, Value>) {
        let [role, call, hash, length] = ["role", "toolCallId", "hash", "length"].map(|name| of(fields, name));
        let told = Told { sequence, role: role.into(), call: call.into(), hash: hash.into() };
        let what = match role {
            "user" => "request".to_string(),
            "assistant" => "answer of the model".to_string(),
            _ => format!("result of {call} for the model"),
        };
        self.step(sequence, call, format!("{what}: {length} bytes, sha256 {hash}"));
        self.messages.push(told);
        if role != "tool" {
            return;
        }
        match self.calls.get(call).map(|call| call.result.clone()) {
            Some(result) if result.is_empty() => {
                self.fault(sequence, &format!("the model was told a result of {call}, which has no recorded end"));
            }
            Some(result) if result != hash => {
                self.fault(sequence, &format!("the model was told another result of {call} than its record holds"));
            }
            Some(_) => {}
            // Many rejected calls of one answer have one record together.
            None if self.steps.iter().any(|step| step.text.starts_with("calls.refused")) => {}
            None => {
                self.fault(sequence, &format!("the model was told a result of {call}, of which there is no record"))
            }
        }
    }

    fn decision(&mut self, sequence: u64, fields: &Map<String, Value>) {
        let [call, tool, decision, mode, policy, reason] =
            ["callId", "tool", "decision", "mode", "policy", "reason"].map(|name| of(fields, name));
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        self.step(
            sequence,
            call,
            format!("decision on {call}: {tool}, {decision} (mode {mode}, policy {policy}){why}"),
        );
        self.calls.entry(call.to_string()).or_default().decision = decision.to_string();
    }

    fn tool(&mut self, sequence: u64, record: &Map<String, Value>) {
        let [id, phase, decision, outcome, result] =
            ["callId", "phase", "decision", "outcome", "resultHash"].map(|name| of(record, name));
        let arguments = match of(record, "argumentsHash") {
            "" => hex::encode(Sha256::digest(of(record, "arguments"))),
            hash => hash.to_string(),
        };
        let tool = record.get("descriptor").and_then(|found| found.get("name")).and_then(Value::as_str);
        let tool = tool.unwrap_or_default();
        let before = record.get("before").and_then(Value::as_u64).unwrap_or_default();
        let call = self.calls.entry(id.to_string()).or_default();
        call.is_persons |= of(record, "modelId").is_empty();
        call.is_question = tool == QUESTION;
        call.arguments.clone_from(&arguments);
        let mut faults = Vec::new();
        let text = if phase == Phase::Before.name() {
            let allowed = [Decision::Auto, Decision::Consented, Decision::StepUpSucceeded];
            if call.decision != decision {
                faults.push(format!("{id} began as {decision:?}, and the broker's decision is {:?}", call.decision));
            } else if !allowed.iter().any(|allowed| allowed.name() == decision) {
                faults.push(format!("{id} began although the decision is {decision}"));
            }
            if call.began > 0 {
                faults.push(format!("{id} began a second time, after record {}", call.began));
            }
            call.began = sequence;
            format!("effect of {id} begins: {tool}, arguments sha256 {arguments}")
        } else {
            (call.outcome, call.result) = (outcome.to_string(), result.to_string());
            // The record before may have been lost with an earlier chain.
            call.began = call.began.max(before);
            match phase == Phase::After.name() {
                true => format!("effect of {id} ends: {outcome}, result sha256 {result}"),
                false => format!("{id} does not run: {tool}, {outcome}, arguments sha256 {arguments}"),
            }
        };
        self.step(sequence, id, text);
        for why in faults {
            self.fault(sequence, &why);
        }
    }

    /// Ends it: calls of the person leave it, and the effects that its budget has counted are compared with those recorded.
    fn end(&mut self, counted: Option<u64>) {
        let calls = &self.calls;
        self.steps.retain(|step| calls.get(&step.call).is_none_or(|call| !call.is_persons));
        self.calls.retain(|_, call| !call.is_persons);
        let began = self.calls.values().filter(|call| call.began > 0 && !call.is_question).count() as u64;
        if let Some(counted) = counted.filter(|counted| *counted < began) {
            self.faults.push(format!("its budget has counted {counted} calls, and {began} began"));
        }
    }
}

/// Rebuilds runs from the records of a chain, oldest first. It reads lines that are a chain already: [`crate::Checker`] tells.
#[derive(Debug, Default)]
pub struct Replay {
    runs: BTreeMap<RunName, Replayed>,
    order: Vec<RunName>,
    /// The runs of each session whose budgets are open, the last one at the end.
    open: BTreeMap<String, Vec<RunName>>,
    /// Calls that each run's budget has counted.
    counted: BTreeMap<RunName, u64>,
}

impl Replay {
    /// Reads the next record. A line that is not JSON, and a record that is about no run, changes nothing.
    pub fn line(&mut self, line: &[u8]) {
        let Ok(Value::Object(record)) = serde_json::from_slice(line) else { return };
        let sequence = record.get("sequence").and_then(Value::as_u64).unwrap_or_default();
        let (kind, session) = (of(&record, "kind"), of(&record, "session"));
        if kind == "tool" {
            let turn = record.get("turn").and_then(Value::as_u64).unwrap_or_default();
            let name = (of(&record, "conversation").to_string(), turn);
            return self.run(name, &record).tool(sequence, &record);
        }
        let empty = Map::new();
        let fields = record.get("fields").and_then(Value::as_object).unwrap_or(&empty);
        let named = of(fields, "turn").parse().ok().map(|turn| (of(fields, "conversation").to_string(), turn));
        if kind == Kind::Message.name() {
            let Some(name) = named else { return };
            return self.run(name, &record).message(sequence, fields);
        }
        if kind == Kind::BrokerDecision.name() {
            let Some(name) = named.filter(|_| !of(fields, "callId").is_empty()) else { return };
            return self.run(name, &record).decision(sequence, fields);
        }
        let name = if kind.starts_with("budget.") {
            self.budgeted(kind, session, named, fields)
        } else {
            // Begin and end of a child run belong to the run that began it.
            let parent = of(fields, "parent").rsplit_once('-');
            named.or_else(|| parent.and_then(|(parent, turn)| Some((parent.to_string(), turn.parse().ok()?))))
        };
        let Some(name) = name else { return };
        let mut text = kind.to_string();
        for (field, value) in
            fields.iter().filter(|(field, _)| !["conversation", "turn", "source"].contains(&&***field))
        {
            // Writing to a text does not fail.
            let _ = write!(text, " {field}={}", value.as_str().unwrap_or_default());
        }
        let outcome = (kind == Kind::BudgetEnd.name()).then(|| of(fields, "outcome").to_string());
        let run = self.run(name, &record);
        run.step(sequence, of(fields, "callId"), text);
        if let Some(outcome) = outcome {
            run.outcome = outcome;
        }
    }

    /// The run that a record about a budget is about. Only the first one of a budget names it.
    fn budgeted(
        &mut self,
        kind: &str,
        session: &str,
        named: Option<RunName>,
        fields: &Map<String, Value>,
    ) -> Option<RunName> {
        let open = self.open.entry(session.to_string()).or_default();
        if kind == Kind::BudgetBegin.name() {
            let name = named?;
            open.retain(|other| *other != name);
            if of(fields, "parent").is_empty() {
                open.clear();
            }
            open.push(name.clone());
            return Some(name);
        }
        let of_child = of(fields, "conversation");
        if kind != Kind::BudgetEnd.name() {
            let is_child = of(fields, "scope") == "child run";
            return if is_child { open.last() } else { open.first() }.cloned();
        }
        let at = open.iter().position(|(conversation, _)| of_child.is_empty() || conversation == of_child)?;
        let name = open.remove(at);
        let steps = of(fields, "used").split(' ').find_map(|part| part.strip_prefix("steps="));
        self.counted.insert(name.clone(), steps.and_then(|steps| steps.parse().ok()).unwrap_or_default());
        Some(name)
    }

    fn run(&mut self, name: RunName, record: &Map<String, Value>) -> &mut Replayed {
        let order = &mut self.order;
        self.runs.entry(name).or_insert_with_key(|name| {
            order.push(name.clone());
            Replayed { name: name.clone(), principal: of(record, "principal").to_string(), ..Replayed::default() }
        })
    }

    /// The runs in the order in which they began.
    #[must_use]
    pub fn end(mut self) -> Vec<Replayed> {
        let mut runs = Vec::new();
        for name in &self.order {
            let Some(mut run) = self.runs.remove(name) else { continue };
            run.end(self.counted.get(name).copied());
            // Calls at the prompt alone are no run.
            if !run.steps.is_empty() {
                runs.push(run);
            }
        }
        runs
    }
}

/// A text member; empty if there is none.
fn of<'a>(members: &'a Map<String, Value>, name: &str) -> &'a str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

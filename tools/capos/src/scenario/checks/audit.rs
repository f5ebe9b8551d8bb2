//! The required content of `audit.jsonl`: the chain, the calls with their decisions and outcomes, counts of records.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use capos_audit::{Head, Lost, lost_in};
use capos_schema::authority::Decision;
use capos_schema::models::Outcome;
use capos_schema::reflection;
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;

use capos_vm::texts::Texts;

/// One record, as it was exported.
pub type Record = Value;

/// Expectations of the audit log. The chain, the pairs of records and the members of each record are checked always.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// Every tool call of the run, in the order in which they were decided on: no other was made.
    pub calls: Option<Vec<Call>>,
    /// Call ids of the results, in the order in which they were fed back to the model.
    pub results: Option<Vec<String>>,
    /// Call ids of the effects, in the order in which they ended.
    pub ended: Option<Vec<String>>,
    /// Numbers of records of a kind.
    pub count: Vec<Count>,
    /// Effects whose end need not be recorded, because the machine or the log ended before them.
    pub open: usize,
    /// Calls at most that the broker decided on and that never ran, whose own records a full log had no room for.
    pub untold: usize,
    /// The log was restarted: only its records since then were exported.
    pub restarted: bool,
    /// Expressions whose group matches heads in the transcript. All of them must be in the chain.
    pub noted: Vec<String>,
    /// The bytes of the file.
    pub bytes: Texts,
}

/// A tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its id in the conversation; The value `$nonce` is the id by which the model repeats the nonce of its request,
    /// which the record must hold; `$direct` that of any call that the person made.
    pub id: String,
    /// The model's name for the tool.
    pub tool: String,
    /// One of the six decisions. Left out: the call was never decided on.
    pub decision: Option<String>,
    /// One of the nine outcomes.
    pub outcome: String,
    /// Whether it had an effect, which has a record before and one after it. Left out, it had one if its outcome is
    /// `ok`, `executionError` or `timedOut`.
    pub effect: Option<bool>,
    /// Found in its error.
    pub error: Option<String>,
}

/// A number of records.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// `tool` or a general kind.
    pub kind: String,
    /// `before`, `after` or `refused`.
    pub phase: Option<String>,
    /// Name of the tool.
    pub tool: Option<String>,
    /// A decision.
    pub decision: Option<String>,
    /// An outcome.
    pub outcome: Option<String>,
    /// Fields of a general record, with their values.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Fields of a general record, with texts that their values contain.
    #[serde(default)]
    pub fields_contain: BTreeMap<String, String>,
    /// This many.
    pub exactly: Option<usize>,
    /// This many or more.
    pub at_least: Option<usize>,
}

/// The names of every value of an enum of the schema.
fn names<T: std::fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Audit {
    /// Whether it has checks of the log.
    pub fn asks(&self) -> bool {
        let lists = self.calls.is_some() || self.results.is_some() || self.ended.is_some();
        lists || !self.count.is_empty() || !self.noted.is_empty()
    }

    /// Whether every name in it exists.
    pub fn valid(&self) -> Result<()> {
        for call in self.calls.iter().flatten() {
            let (id, outcome) = (&call.id, call.outcome.as_str());
            ensure!(
                Outcome::from_name(outcome).is_some(),
                "call {id:?}: there is no outcome {outcome:?}; there are {}",
                names(Outcome::ALL)
            );
            if let Some(decision) = &call.decision {
                let known = Decision::from_name(decision).is_some();
                let all = names(Decision::ALL);
                ensure!(known, "call {id:?}: there is no decision {decision:?}; there are {all}");
            }
        }
        for count in &self.count {
            let said = count.exactly.is_some() || count.at_least.is_some();
            ensure!(said, "a count of {:?} needs `exactly` or `at_least`", count.kind);
        }
        Ok(())
    }

    /// Checks calls, results, counts and bytes.
    pub fn check(&self, lines: &[u8], records: &[Record], failures: &mut Vec<String>) {
        self.bytes.check("audit.jsonl", lines, failures);
        if let Some(wanted) = &self.calls {
            calls(wanted, records, failures);
        }
        if let Some(wanted) = &self.results {
            let found: Vec<&str> = records
                .iter()
                .filter(|record| member(record, "kind") == "message" && field(record, "role") == "tool")
                .map(|record| field(record, "toolCallId"))
                .collect();
            if found != *wanted {
                failures.push(format!("results were fed back for the calls {found:?} instead of {wanted:?}"));
            }
        }
        if let Some(wanted) = &self.ended {
            let after = records.iter().filter(|record| member(record, "phase") == "after");
            let found: Vec<&str> = after.map(|record| member(record, "callId")).collect();
            if found != *wanted {
                failures.push(format!("effects ended in the order {found:?} instead of {wanted:?}"));
            }
        }
        for count in &self.count {
            let found = records.iter().filter(|record| count.names(record)).count();
            let enough = count.at_least.is_none_or(|least| found >= least);
            if !enough || count.exactly.is_some_and(|wanted| found != wanted) {
                failures.push(format!("audit.jsonl holds {found} records of {count}"));
            }
        }
    }
}

impl Count {
    fn names(&self, record: &Record) -> bool {
        let same =
            |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| member(record, name) == wanted);
        member(record, "kind") == self.kind
            && same(&self.phase, "phase")
            && same(&self.decision, "decision")
            && same(&self.outcome, "outcome")
            && self.tool.as_ref().is_none_or(|wanted| tool(record) == wanted)
            && self.fields.iter().all(|(name, wanted)| field(record, name) == wanted)
            && self.fields_contain.iter().all(|(name, wanted)| field(record, name).contains(wanted.as_str()))
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kind {}", self.kind)?;
        let parts =
            [("phase", &self.phase), ("tool", &self.tool), ("decision", &self.decision), ("outcome", &self.outcome)];
        for (name, value) in parts {
            if let Some(value) = value {
                write!(f, ", {name} {value}")?;
            }
        }
        for (name, value) in &self.fields {
            write!(f, ", {name} {value:?}")?;
        }
        for (name, value) in &self.fields_contain {
            write!(f, ", {name} with {value:?}")?;
        }
        match (self.exactly, self.at_least) {
            (Some(count), _) => write!(f, " instead of {count}"),
            (None, Some(count)) => write!(f, " instead of {count} or more"),
            (None, None) => Ok(()),
        }
    }
}

/// A text member of a record; empty if it has none.
pub fn member<'a>(record: &'a Record, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A field of a general record; empty if it has none.
fn field<'a>(record: &'a Record, name: &str) -> &'a str {
    record.get("fields").and_then(|fields| fields.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// The name of the tool of a call.
pub fn tool(record: &Record) -> &str {
    record.get("descriptor").and_then(|found| found.get("name")).and_then(Value::as_str).unwrap_or_default()
}

fn number(record: &Record, name: &str) -> Option<u64> {
    record.get(name).and_then(Value::as_u64)
}

/// A call as the log records it.
#[derive(Debug)]
struct Told<'a> {
    first: &'a Record,
    last: &'a Record,
    effect: bool,
}

/// Every call of the log, by its first record.
fn told(records: &[Record]) -> Vec<Told<'_>> {
    let tools = || records.iter().filter(|record| member(record, "kind") == "tool");
    tools()
        .filter(|record| member(record, "phase") != "after" || orphan(record))
        .map(|first| {
            let end = tools().find(|record| {
                number(record, "before").is_some() && number(record, "before") == number(first, "sequence")
            });
            Told { first, last: end.unwrap_or(first), effect: member(first, "phase") != "refused" }
        })
        .collect()
}

/// Whether it is the late end of an effect that began in an earlier chain.
fn orphan(record: &Record) -> bool {
    member(record, "phase") == "after" && late(record) && number(record, "before") == Some(0)
}

/// Whether the log took it later than it happened.
fn late(record: &Record) -> bool {
    record.get("late").and_then(Value::as_bool) == Some(true)
}

fn calls(wanted: &[Call], records: &[Record], failures: &mut Vec<String>) {
    let found = told(records);
    for (at, call) in wanted.iter().enumerate() {
        let Some(told) = found.get(at) else {
            failures.push(format!("the audit log has {} calls; {:?} is missing", found.len(), call.id));
            continue;
        };
        let id = member(told.first, "callId");
        let mut differs = |what: &str, found: &str, wanted: &str| {
            if found != wanted {
                failures.push(format!(
                    "call {} ({:?}): its {what} is {found:?} instead of {wanted:?}",
                    at + 1,
                    call.id
                ));
            }
        };
        let wanted = match call.id.as_str() {
            "$nonce" => format!("{}{}", capos_script::NONCE_ID, member(told.first, "nonce")),
            // A call that the person made: its id is random.
            "$direct" if id.starts_with("direct-") => id.to_owned(),
            literal => literal.to_owned(),
        };
        differs("id", id, &wanted);
        differs("tool", tool(told.first), &call.tool);
        differs("decision", member(told.last, "decision"), call.decision.as_deref().unwrap_or_default());
        differs("outcome", member(told.last, "outcome"), &call.outcome);
        let effect = call.effect.unwrap_or(matches!(call.outcome.as_str(), "ok" | "executionError" | "timedOut"));
        differs("effect", &told.effect.to_string(), &effect.to_string());
        if let Some(part) = &call.error
            && !member(told.last, "error").contains(part.as_str())
        {
            let error = member(told.last, "error");
            failures.push(format!("call {} ({:?}): its error {error:?} does not contain {part:?}", at + 1, call.id));
        }
    }
    for told in found.iter().skip(wanted.len()) {
        let (id, tool) = (member(told.first, "callId"), tool(told.first));
        failures.push(format!("the audit log has an unexpected call {id:?} of {tool:?}"));
    }
}

/// Members that every record of a tool call has, and every one of a message.
const TOOL: [&str; 20] = [
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
    "phase",
    "reason",
    "advertised",
    "label",
    "sequence",
    "time",
    "previous",
    "hash",
];
/// The fields of a record about the model and the request that a call came from.
const MODEL: [&str; 3] = ["modelId", "backend", "nonce"];
/// How the identifier of a call begins that a person made.
const DIRECT: &str = "direct-";
const DESCRIPTOR: [&str; 10] = [
    "name",
    "description",
    "interfaceId",
    "methodName",
    "paramSchema",
    "permission",
    "category",
    "handle",
    "abortable",
    "timeoutMs",
];
const MESSAGE: [&str; 10] =
    ["conversation", "message", "turn", "role", "atNanoseconds", "length", "hash", "provenance", "label", "toolCallId"];

/// Reads the log and checks what holds for every run. The chain is complete and ends where the guest says; every effect
/// has its two records; every call has one record; each record has the members of its kind.
pub fn chain(lines: &[u8], guest: &Value, wanted: &Audit, failures: &mut Vec<String>) -> Vec<Record> {
    let text: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    match capos_audit::verify_lines(text.iter().copied(), None) {
        Ok(summary) => {
            if summary.open.len() > wanted.open {
                failures.push(format!("the effects of the records {:?} have no end in audit.jsonl", summary.open));
            }
            let head: String = summary.head.hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let same = guest.get("auditOk").and_then(Value::as_bool) == Some(true)
                && guest.get("auditRecords").and_then(Value::as_u64) == Some(summary.records)
                && guest.get("auditHead").and_then(Value::as_str) == Some(head.as_str());
            if !same {
                let count = summary.records;
                failures.push(format!(
                    "audit.jsonl holds {count} records up to {head}; the guest's own check says {guest}"
                ));
            }
        }
        Err(broken) => failures.push(format!("audit.jsonl: {broken}")),
    }
    let records: Vec<Record> = text.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
    for record in &records {
        members(record, failures);
    }
    // A log that begins in the middle of a run tells only its end.
    if !wanted.restarted {
        let mut replay = capos_audit::Replay::default();
        text.iter().for_each(|line| replay.line(line));
        failures.extend(replay.end().into_iter().flat_map(|run| run.faults).map(|why| format!("audit.jsonl: {why}")));
    }
    let mut seen: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for told in told(&records) {
        *seen.entry((member(told.first, "conversation"), member(told.first, "callId"))).or_default() += 1;
    }
    decisions(&records, wanted.restarted, wanted.untold, failures);
    epoch(&records, wanted.restarted, failures);
    for ((_, id), count) in seen.iter().filter(|(_, count)| **count > 1) {
        failures.push(format!("the audit log has the call {id:?} {count} times"));
    }
    if records.is_empty() && !wanted.restarted {
        failures.push("audit.jsonl is empty".to_owned());
    }
    records
}

/// Whether the chain holds the heads that the terminal showed.
pub fn noted(lines: &[u8], transcript: &str, expressions: &[String], failures: &mut Vec<String>) -> Result<()> {
    for text in expressions {
        let expression = Regex::new(text).with_context(|| format!("`{text}` is not a regular expression"))?;
        let found = expression.captures_iter(transcript).filter_map(|found| found.get(1));
        let heads = found.map(|found| found.as_str().parse::<Head>()).collect::<Result<Vec<Head>, String>>();
        let heads = heads.map_err(anyhow::Error::msg).with_context(|| format!("`{text}` matched no head"))?;
        ensure!(!heads.is_empty(), "`{text}` has matched no head in transcript.txt");
        let lost: Vec<Lost> = lines.split(|byte| *byte == b'\n').flat_map(lost_in).collect();
        if let Err(broken) = crate::audit::verify([("audit.jsonl".to_owned(), lines)], &heads, &lost)? {
            failures.push(format!("with the heads of `{text}`: {broken}"));
        }
    }
    Ok(())
}

/// Whether the first record says which of the machine's chains this is, and it is the first one or a later one as wanted.
fn epoch(records: &[Record], restarted: bool, failures: &mut Vec<String>) {
    let Some(first) = records.first() else { return };
    let (kind, epoch, earlier) = (member(first, "kind"), field(first, "epoch"), field(first, "earlier"));
    let number = |text: &str| text.parse::<u64>().ok();
    let fits = match (number(epoch), number(earlier)) {
        (Some(epoch), Some(earlier)) => epoch == earlier.saturating_add(1) && (earlier > 0) == restarted,
        _ => false,
    };
    if kind != "log.start" || !fits {
        let wanted = if restarted { "one after the first" } else { "the first" };
        failures.push(format!(
            "audit.jsonl begins with {kind:?}, epoch {epoch:?} after {earlier:?} others, and not as {wanted} of this machine"
        ));
    }
}

/// Checks that the broker's records and the records of calls agree. Each call that was decided on has one decision,
/// recorded before its effect and its result. No call has a second decision. In the chain of a log that was restarted,
/// a late record may name a call whose decision is lost. At most `untold` calls have a decision and no record of their
/// own.
fn decisions(records: &[Record], restarted: bool, untold: usize, failures: &mut Vec<String>) {
    let key = |record: &Record| (field(record, "conversation").to_owned(), field(record, "callId").to_owned());
    let mut made: BTreeMap<(String, String), Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| member(record, "kind") == "broker.decision") {
        if !field(record, "callId").is_empty() {
            made.entry(key(record)).or_default().push(record);
        }
    }
    for told in told(records) {
        let (conversation, id) = (member(told.first, "conversation"), member(told.first, "callId"));
        let found = made.remove(&(conversation.to_owned(), id.to_owned())).unwrap_or_default();
        let before = found.iter().filter(|record| number(record, "sequence") < number(told.first, "sequence"));
        let made: Vec<&str> = before.map(|record| field(record, "decision")).collect();
        let said = Some(member(told.first, "decision")).filter(|said| !said.is_empty());
        if restarted && late(told.first) && found.is_empty() {
            continue;
        }
        if found.len() != made.len() || made != said.into_iter().collect::<Vec<_>>() {
            failures.push(format!(
                "call {id:?} says that it was decided as {said:?}; the broker recorded {made:?} before it"
            ));
        }
    }
    for (_, id) in made.keys().skip(untold) {
        failures.push(format!("the broker decided on a call {id:?} that is not in the audit log"));
    }
}

/// The part of a descriptor that does not come from the schema. One without an interface is a tool that does not exist.
fn invented(descriptor: &Value) -> Option<&'static str> {
    let text = |name: &str| descriptor.get(name).and_then(Value::as_str).unwrap_or_default();
    let id = u64::from_str_radix(text("interfaceId").trim_start_matches("0x"), 16).unwrap_or_default();
    if id == 0 {
        return None;
    }
    let methods = reflection::interface(id).map_or(&[][..], |interface| interface.methods);
    let Some(method) = methods.iter().find(|method| method.name == text("methodName")) else { return Some("method") };
    let tool = method.tool.unwrap_or_default();
    let timeout = descriptor.get("timeoutMs").and_then(Value::as_u64);
    let same = [
        ("name", text("name") == tool || text("name").starts_with(&format!("{tool}_of_"))),
        ("description", text("description") == method.doc),
        ("parameters", text("paramSchema") == method.params_schema),
        ("category", method.category.is_some_and(|category| category.name() == text("category"))),
        ("abortable", descriptor.get("abortable").and_then(Value::as_bool) == Some(method.abortable)),
        ("time limit", timeout == Some(u64::from(method.timeout_ms.unwrap_or_default()))),
    ];
    same.iter().find(|(_, same)| !same).map(|(name, _)| *name)
}

/// Whether a record has all members of its kind, and a message no others.
fn members(record: &Record, failures: &mut Vec<String>) {
    let sequence = number(record, "sequence").unwrap_or_default();
    let mut complain = |what: String| failures.push(format!("audit record {sequence} {what}"));
    match member(record, "kind") {
        "tool" => {
            let missing: Vec<&&str> = TOOL.iter().filter(|name| record.get(**name).is_none()).collect();
            let descriptor = record.get("descriptor");
            let lacks = |name: &&&str| descriptor.and_then(|found| found.get(**name)).is_none();
            let without: Vec<&&str> = DESCRIPTOR.iter().filter(lacks).collect();
            if !missing.is_empty() || !without.is_empty() {
                complain(format!("has no {missing:?} {without:?}"));
            }
            if let Some(wrong) = descriptor.and_then(invented) {
                complain(format!("has a descriptor whose {wrong} is not the schema's"));
            }
            for name in ["session", "conversation", "callId", "runner"] {
                if member(record, name).is_empty() {
                    complain(format!("says nothing in {name}"));
                }
            }
            // A call that the person made has no model, which all of these show.
            let said = |name: &&str| !member(record, name).is_empty();
            let of_person = member(record, "callId").starts_with(DIRECT) && !MODEL.iter().any(&said);
            for name in MODEL.iter().filter(|name| !of_person && !said(name)) {
                complain(format!("says nothing in {name}"));
            }
            let ended = member(record, "phase") != "before";
            if ended && (member(record, "outcome").is_empty() || member(record, "resultHash").len() != 64) {
                complain("has no outcome or no hash of its result".to_owned());
            }
            let decided = Decision::from_name(member(record, "decision")).is_some();
            let free = matches!(
                member(record, "outcome"),
                "unknownTool" | "invalidArguments" | "cancelled" | "refusedByPolicy"
            );
            if !(decided || member(record, "phase") == "refused" && free) {
                complain("has no decision".to_owned());
            }
        }
        "message" => {
            let fields = record.get("fields").and_then(Value::as_object);
            let mut names: Vec<&str> = fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let mut wanted = MESSAGE;
            names.sort_unstable();
            wanted.sort_unstable();
            if names != wanted || field(record, "hash").len() != 64 {
                complain(format!("of a message has the fields {names:?} instead of {wanted:?}"));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(sequence: u64, phase: &str, id: &str, more: Value) -> Record {
        let mut record = json!({
            "kind": "tool", "sequence": sequence, "phase": phase, "callId": id, "descriptor": {"name": "read_file"},
        });
        for (name, value) in more.as_object().unwrap() {
            record[name] = value.clone();
        }
        record
    }

    #[test]
    fn a_head_that_was_noted_must_be_in_the_chain() {
        let mut chain = capos_audit::Chain::new(1 << 20);
        let event = |id: &str| capos_audit::Kind::SessionStart.event(id, "ada", &[]);
        let heads: Vec<Head> = ["a", "b", "c"].map(|id| chain.append_general(1, event(id)).unwrap()).into();
        let lines: String = chain.records().iter().take(2).map(|record| record.line() + "\n").collect();
        let failures = |head: &Head| {
            let mut failures = Vec::new();
            let shown = format!("capos> intact; head {head}\n");
            noted(lines.as_bytes(), &shown, &["head (\\d+:[0-9a-f]+)".into()], &mut failures).unwrap();
            failures
        };
        assert_eq!(failures(&heads[1]), Vec::<String>::new());
        assert!(failures(&heads[2])[0].contains("the noted head is record 3"));
        assert!(noted(lines.as_bytes(), "nothing", &["head (x)".into()], &mut Vec::new()).is_err());
    }

    fn run() -> Vec<Record> {
        vec![
            record(1, "before", "a", json!({"decision": "auto"})),
            record(2, "before", "b", json!({"decision": "auto"})),
            record(
                3,
                "after",
                "b",
                json!({"before": 2, "decision": "auto", "outcome": "executionError", "error": "no such file"}),
            ),
            record(4, "after", "a", json!({"before": 1, "decision": "auto", "outcome": "ok"})),
            json!({"kind": "message", "sequence": 5, "fields": {"role": "tool", "toolCallId": "a"}}),
            record(6, "refused", "c", json!({"outcome": "unknownTool"})),
        ]
    }

    fn failures(toml: &str) -> Vec<String> {
        let audit: Audit = toml::from_str(toml).unwrap();
        audit.valid().unwrap();
        let mut failures = Vec::new();
        audit.check(b"", &run(), &mut failures);
        failures
    }

    const CALLS: &str = r#"
        [[calls]]
        id = "a"
        tool = "read_file"
        decision = "auto"
        outcome = "ok"
        [[calls]]
        id = "b"
        tool = "read_file"
        decision = "auto"
        outcome = "executionError"
        error = "no such"
        [[calls]]
        id = "c"
        tool = "read_file"
        outcome = "unknownTool"
    "#;

    #[test]
    fn b07_the_nonce_that_the_model_was_sent_is_the_audited_one() {
        let audit: Audit =
            toml::from_str("calls = [{ id = \"$nonce\", tool = \"read_file\", outcome = \"unknownTool\" }]").unwrap();
        let failures = |id: &str, nonce: &str| {
            let mut failures = Vec::new();
            let more = json!({"outcome": "unknownTool", "nonce": nonce});
            audit.check(b"", &[record(1, "refused", id, more)], &mut failures);
            failures
        };
        assert_eq!(failures("nonce-00ff", "00ff"), Vec::<String>::new());
        for (id, nonce) in [("nonce-00ff", "00fe"), ("nonce-", "00ff"), ("00ff", "00ff")] {
            let [failure] = failures(id, nonce).try_into().unwrap();
            assert!(failure.contains("its id is"), "{failure}");
        }
    }

    #[test]
    fn calls_are_compared_one_by_one() {
        assert_eq!(failures(CALLS), Vec::<String>::new());
        for (from, to, part) in [
            ("id = \"a\"", "id = \"x\"", "its id is \"a\" instead of \"x\""),
            ("outcome = \"ok\"", "outcome = \"timedOut\"", "its outcome is \"ok\""),
            ("decision = \"auto\"\n        outcome = \"ok\"", "outcome = \"ok\"", "its decision is \"auto\""),
            ("error = \"no such\"", "error = \"gone\"", "does not contain \"gone\""),
            ("error = \"no such\"", "effect = false", "its effect is \"true\""),
        ] {
            let found = failures(&CALLS.replacen(from, to, 1));
            assert!(found.len() == 1 && found[0].contains(part), "{to}: {found:?}");
        }
        let two = CALLS.rsplit_once("[[calls]]").unwrap().0;
        assert_eq!(failures(two), ["the audit log has an unexpected call \"c\" of \"read_file\""]);
        let four = format!("{CALLS}\n[[calls]]\nid = \"d\"\ntool = \"t\"\noutcome = \"ok\"");
        assert_eq!(failures(&four), ["the audit log has 3 calls; \"d\" is missing"]);
    }

    #[test]
    fn records_are_counted_by_what_they_say() {
        assert!(failures("[[count]]\nkind = \"tool\"\nphase = \"after\"\nexactly = 2").is_empty());
        assert!(failures("[[count]]\nkind = \"message\"\nfields = { role = \"tool\" }\nat_least = 1").is_empty());
        let found = failures("[[count]]\nkind = \"tool\"\noutcome = \"ok\"\nexactly = 2");
        assert_eq!(found, ["audit.jsonl holds 1 records of kind tool, outcome ok instead of 2"]);
        assert!(failures("results = [\"a\"]").is_empty());
        assert_eq!(failures("results = []").len(), 1);
        assert!(failures("ended = [\"b\", \"a\"]").is_empty());
        assert_eq!(failures("ended = [\"a\", \"b\"]").len(), 1);
    }

    #[test]
    fn a17_descriptors_come_from_the_schema() {
        let all = capos_schema::INTERFACES;
        let (interface, method) = all
            .iter()
            .flat_map(|interface| interface.methods.iter().map(move |method| (interface, method)))
            .find(|(_, method)| method.tool == Some("read_file"))
            .unwrap();
        let made = json!({
            "name": "read_file", "description": method.doc, "interfaceId": format!("{:#018x}", interface.id),
            "methodName": method.name, "paramSchema": method.params_schema, "category": "readOnly", "abortable": true,
            "timeoutMs": 0,
        });
        assert_eq!(invented(&made), None);
        assert_eq!(invented(&json!({"name": "order_pizza", "interfaceId": "0x0000000000000000"})), None);
        for (member, value, what) in [
            ("name", json!("write_file"), "name"),
            ("description", json!("Reads."), "description"),
            ("methodName", json!("read"), "method"),
            ("paramSchema", json!("{}"), "parameters"),
            ("category", json!("admin"), "category"),
            ("abortable", json!(false), "abortable"),
            ("timeoutMs", json!(1), "time limit"),
        ] {
            let mut other = made.clone();
            other[member] = value;
            assert_eq!(invented(&other), Some(what));
        }
    }

    #[test]
    fn d09_each_decision_is_recorded_by_the_broker() {
        let made = |sequence: u64, id: &str, decision: &str| json!({"kind": "broker.decision", "sequence": sequence, "fields": {"callId": id, "decision": decision, "conversation": ""}});
        let call = |sequence: u64, id: &str| record(sequence, "before", id, json!({"decision": "auto"}));
        let check = |records: &[Record]| {
            let mut failures = Vec::new();
            decisions(records, false, 0, &mut failures);
            failures.len()
        };
        assert_eq!(check(&[made(1, "a", "auto"), call(2, "a"), record(3, "refused", "b", json!({}))]), 0);
        assert_eq!(check(&[call(2, "a")]), 1);
        assert_eq!(check(&[call(2, "a"), made(3, "a", "auto")]), 1);
        assert_eq!(check(&[made(1, "a", "denied"), call(2, "a")]), 1);
        assert_eq!(check(&[made(1, "a", "auto"), made(2, "a", "auto"), call(3, "a")]), 1);
        assert_eq!(check(&[made(1, "c", "auto")]), 1);
        // A decision in a chain that was lost is recorded late, and only in a chain after it.
        let orphan = record(1, "after", "d", json!({"decision": "auto", "late": true, "before": 0, "outcome": "ok"}));
        let restarted = |records: &[Record]| {
            let mut failures = Vec::new();
            decisions(records, true, 0, &mut failures);
            failures.len()
        };
        assert_eq!((check(std::slice::from_ref(&orphan)), restarted(std::slice::from_ref(&orphan))), (1, 0));
        assert_eq!(restarted(&[call(1, "e")]), 1);
        let told = told(std::slice::from_ref(&orphan));
        assert_eq!((told.len(), told.first().map(|told| told.effect)), (1, Some(true)));
    }

    #[test]
    fn a_chain_says_which_of_the_machine_it_is() {
        let start = |epoch: &str, earlier: &str| json!({"kind": "log.start", "sequence": 1, "fields": {"epoch": epoch, "earlier": earlier}});
        let check = |first: Value, restarted: bool| {
            let mut failures = Vec::new();
            epoch(&[first], restarted, &mut failures);
            failures.len()
        };
        assert_eq!((check(start("1", "0"), false), check(start("3", "2"), true)), (0, 0));
        assert_eq!((check(start("2", "1"), false), check(start("1", "0"), true)), (1, 1));
        assert_eq!((check(start("3", "1"), true), check(json!({"kind": "session.start"}), false)), (1, 1));
    }

    #[test]
    fn a_chain_that_was_touched_is_told() {
        let mut log = capos_audit::Chain::new(1 << 20);
        let event = capos_audit::Kind::LogStart.event("", "", &[("epoch", &1), ("earlier", &0), ("why", &"boot")]);
        log.append_general(1, event.clone()).unwrap();
        log.append_general(2, event).unwrap();
        let text: String = log.records().iter().map(|record| record.line() + "\n").collect();
        let head: String = log.head().hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let guest = json!({"auditOk": true, "auditRecords": 2, "auditHead": head});
        let check = |text: &str, guest: &Value| {
            let mut failures = Vec::new();
            chain(text.as_bytes(), guest, &Audit::default(), &mut failures);
            failures
        };
        assert_eq!(check(&text, &guest), Vec::<String>::new());
        assert_eq!(check(&text.replace("boot", "root"), &guest).len(), 1);
        assert_eq!(check(text.lines().next().unwrap(), &guest).len(), 1);
        assert_eq!(check(&text, &json!({"auditOk": false, "auditRecords": 2, "auditHead": head})).len(), 1);
        assert!(!check("", &json!({})).is_empty());
    }

    #[test]
    fn only_a_persons_call_names_no_model() {
        let told = |call: &str, model: &str| {
            let mut failures = Vec::new();
            members(&json!({"kind": "tool", "callId": call, "modelId": model}), &mut failures);
            failures.iter().filter(|text| text.contains("says nothing in backend")).count()
        };
        assert_eq!((told("direct-1", ""), told("direct-1", "m"), told("call-1", "")), (0, 1, 1));
    }

    #[test]
    fn a_record_that_leaves_something_out_is_told() {
        let mut failures = Vec::new();
        members(&run()[0], &mut failures);
        assert!(failures.iter().any(|text| text.contains("principal") && text.contains("paramSchema")), "{failures:?}");
        failures.clear();
        members(&json!({"kind": "message", "sequence": 1, "fields": {"content": "secret"}}), &mut failures);
        assert!(failures[0].contains("content"), "{failures:?}");
    }
}

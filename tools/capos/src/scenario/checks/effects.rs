//! Effects outside the home directory: the programs and services in the system's log must be exactly those in the audit
//! log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scenario::checks::audit::{Record, member, tool};

/// A tool with an effect that the system's log records.
struct Kind {
    tool: &'static str,
    /// The argument that names the target.
    argument: &'static str,
    /// The line that `init` writes, around the name.
    line: [&'static str; 2],
}

const KINDS: [Kind; 3] = [
    Kind { tool: "run_program", argument: "program", line: ["init: program `", "` was started"] },
    Kind { tool: "restart_service", argument: "name", line: ["init: service `", "` was started again, as was asked"] },
    Kind { tool: "stop_service", argument: "name", line: ["init: service `", "` was stopped, as was asked"] },
];

/// How often something was done to one name.
#[derive(Default)]
struct Count {
    /// In the system's log.
    seen: usize,
    /// Calls of the audit log that did it.
    done: usize,
    /// Calls that may have been cut short before or after they did it.
    unsure: usize,
}

/// Compares the system's log with the audit log. If the audit log was `restarted`, its earlier records are unknown
/// here: then only its last chain's effects have to be in the system's log.
pub fn check(log: &[u8], records: &[Record], restarted: bool, failures: &mut Vec<String>) {
    let log = String::from_utf8_lossy(log);
    for kind in &KINDS {
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        let [before, after] = kind.line;
        for name in log.lines().filter_map(|line| line.trim_end().strip_prefix(before)?.strip_suffix(after)) {
            counts.entry(name.to_owned()).or_default().seen += 1;
        }
        for (name, certain) in recorded(kind, records) {
            let count = counts.entry(name).or_default();
            *if certain { &mut count.done } else { &mut count.unsure } += 1;
        }
        for (name, Count { seen, done, unsure }) in &counts {
            if seen < done || (!restarted && *seen > done + unsure) {
                let tool = kind.tool;
                failures.push(format!(
                    "{tool} of {name:?}: serial.log tells of {seen}, audit.jsonl of {done} and of {unsure} that were cut \
                     short or failed"
                ));
            }
        }
    }
}

/// The calls of one kind that ran: the name, and whether it was done for certain.
fn recorded<'a>(kind: &'a Kind, records: &'a [Record]) -> impl Iterator<Item = (String, bool)> + 'a {
    let is_end = |record: &&Record| member(record, "phase") == "after";
    let began = records.iter().filter(|record| member(record, "phase") == "before" && tool(record) == kind.tool);
    began.filter_map(move |record| {
        let sequence = record.get("sequence").and_then(Value::as_u64);
        let end = records.iter().filter(is_end).find(|end| end.get("before").and_then(Value::as_u64) == sequence);
        let arguments: Value = serde_json::from_str(member(record, "arguments")).ok()?;
        let name = arguments.get(kind.argument)?.as_str()?.to_owned();
        Some((name, end.is_some_and(|end| member(end, "outcome") == "ok")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(sequence: u64, tool: &str, arguments: &Value, outcome: Option<&str>) -> Vec<Record> {
        let arguments = arguments.to_string();
        let before =
            json!({"phase": "before", "sequence": sequence, "descriptor": {"name": tool}, "arguments": arguments});
        let after = outcome.map(|outcome| json!({"phase": "after", "before": sequence, "outcome": outcome}));
        core::iter::once(before).chain(after).collect()
    }

    fn failures(log: &str, records: &[Vec<Record>]) -> Vec<String> {
        let mut failures = Vec::new();
        check(log.as_bytes(), &records.concat(), false, &mut failures);
        failures
    }

    #[test]
    fn what_was_started_is_what_was_recorded() {
        let hello = json!({"program": "hello"});
        let line = "init: program `hello` was started\r\n";
        assert!(failures(line, &[call(1, "run_program", &hello, Some("ok"))]).is_empty());
        assert!(failures("", &[call(1, "run_program", &hello, Some("timedOut"))]).is_empty());
        assert!(failures(line, &[call(1, "run_program", &hello, None)]).is_empty());
        let [unrecorded] = &failures(line, &[])[..] else { panic!("one failure") };
        assert!(unrecorded.contains("\"hello\": serial.log tells of 1, audit.jsonl of 0"), "{unrecorded}");
        assert_eq!(failures("", &[call(1, "run_program", &hello, Some("ok"))]).len(), 1);
        let two = [line, line].concat();
        assert_eq!(failures(&two, &[call(1, "run_program", &hello, Some("ok"))]).len(), 1);
        let other = [call(1, "run_program", &json!({"program": "ls"}), Some("ok"))];
        assert_eq!(failures(line, &other).len(), 2);
    }

    #[test]
    fn services_are_compared_as_well() {
        let name = json!({"name": "hello"});
        let log =
            "init: service `hello` was started again, as was asked\ninit: service `hello` was stopped, as was asked\n";
        let both = [call(1, "restart_service", &name, Some("ok")), call(3, "stop_service", &name, Some("ok"))];
        assert!(failures(log, &both).is_empty());
        assert_eq!(failures(log, &both[..1]).len(), 1);
        assert_eq!(failures("", &both).len(), 2);
    }

    #[test]
    fn only_a_line_of_its_own_counts() {
        assert!(failures("log: shell: init: program `hello` was started\n", &[]).is_empty());
    }

    #[test]
    fn what_a_lost_log_told_is_not_asked_for() {
        let restarted = |log: &str, records: &[Record]| {
            let mut failures = Vec::new();
            check(log.as_bytes(), records, true, &mut failures);
            failures.len()
        };
        assert_eq!(restarted("init: program `hello` was started\n", &[]), 0);
        let hello = call(1, "run_program", &json!({"program": "hello"}), Some("ok"));
        assert_eq!(restarted("", &hello), 1);
    }
}

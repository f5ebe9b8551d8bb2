//! What upstream test programs said in the machine, read from its log: which tests there are, and how each ended.

use std::collections::{BTreeMap, BTreeSet};

/// Who writes the log's lines: nothing that a test writes begins like this.
const RUNNER: &str = "suite-runner: ";

/// What is known of one program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The tests that it has.
    pub listed: BTreeSet<String>,
    /// Those that ended, and how.
    pub ended: BTreeMap<String, End>,
    /// How the program ended, in words.
    pub report: Option<String>,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Passed,
    Failed,
    /// Its own author leaves it out.
    Ignored,
}

/// How many tests there were of each kind, and the names of those that failed, with reasons.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub ignored: u64,
    pub skipped: u64,
    pub failures: Vec<(String, String)>,
}

/// Reads the log.
pub fn read(log: &str) -> BTreeMap<String, Outcome> {
    let mut outcomes: BTreeMap<String, Outcome> = BTreeMap::new();
    let mut now: Option<(String, bool)> = None;
    for line in log.lines().filter_map(|line| line.strip_prefix(RUNNER)) {
        if let Some(name) = line.strip_prefix("suite list ") {
            now = Some((name.to_owned(), true));
        } else if let Some(name) = line.strip_prefix("suite run ") {
            now = Some((name.to_owned(), false));
        }
        let Some((name, lists)) = &now else { continue };
        let outcome = outcomes.entry(name.clone()).or_default();
        if let Some(said) = line.strip_prefix("said ") {
            if *lists {
                outcome.listed.extend(listed(said));
            } else if let Some((test, end)) = ended(said) {
                outcome.ended.insert(test, end);
            }
        } else if let Some((_, report)) = line.strip_prefix("ended ").and_then(|rest| rest.split_once(": "))
            && !lists
        {
            outcome.report = Some(report.to_owned());
        }
    }
    outcomes
}

/// A line of `--list`.
fn listed(line: &str) -> Option<String> {
    line.strip_suffix(": test").or_else(|| line.strip_suffix(": benchmark")).map(str::to_owned)
}

/// A line that says how a test ended.
fn ended(line: &str) -> Option<(String, End)> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let end = match end {
        "ok" => End::Passed,
        "FAILED" => End::Failed,
        _ if end.starts_with("ignored") => End::Ignored,
        _ => return None,
    };
    Some((name.split_once(" - should panic").map_or(name, |(name, _)| name).to_owned(), end))
}

impl Outcome {
    /// Counts the program's tests. Those in `skip` were left out; whatever else has no end has failed.
    pub fn count(&self, skip: &BTreeSet<&str>) -> Count {
        let mut count = Count::default();
        let report = self.report.as_deref().unwrap_or("the machine ended before it");
        if self.listed.is_empty() && report != CLEAN {
            count.failures.push(("(all)".into(), format!("it did not name its tests: {report}")));
        }
        for test in &self.listed {
            match self.ended.get(test) {
                Some(End::Passed) => count.passed += 1,
                Some(End::Ignored) => count.ignored += 1,
                Some(End::Failed) => count.failures.push((test.clone(), "see the log".into())),
                None if skip.contains(test.as_str()) => count.skipped += 1,
                None => count.failures.push((test.clone(), format!("it did not end: {report}"))),
            }
        }
        count
    }
}

/// What `suite-runner` says of a program that ended as it should.
const CLEAN: &str = "exited with code 0";

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "suite-runner: suite list a\nsuite-runner: said one: test\nsuite-runner: said m::two: test\n\
        suite-runner: said three: test\nsuite-runner: said four: benchmark\nsuite-runner: said five: test\n\
        suite-runner: said \nsuite-runner: said 4 tests, 1 benchmark\nsuite-runner: ended a: fine\n\
        suite-runner: suite run a\nsuite-runner: said running 5 tests\nother: said test three ... ok\n\
        suite-runner: said test one ... ok\nsuite-runner: said test m::two - should panic ... ok\n\
        suite-runner: said test four ... ignored, slow\nsuite-runner: said test five ... FAILED\n\
        suite-runner: ended a: it was ended after 9 s\n";

    #[test]
    fn ends_are_counted_and_what_did_not_end_has_failed() {
        let outcomes = read(LOG);
        let count = outcomes["a"].count(&BTreeSet::new());
        assert_eq!((count.passed, count.ignored, count.skipped), (2, 1, 0));
        let names: Vec<&str> = count.failures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["five", "three"]);
        assert_eq!(count.failures[1].1, "it did not end: it was ended after 9 s");
        assert_eq!(outcomes["a"].count(&BTreeSet::from(["three"])).skipped, 1);
    }

    #[test]
    fn a_program_without_a_word_has_failed() {
        assert_eq!(Outcome::default().count(&BTreeSet::new()).failures.len(), 1);
    }
}

//! The results of upstream test programs, read from the machine's log: which tests there are, and how each ended.

use std::collections::{BTreeMap, BTreeSet};

use capos_plural::count;

/// The writers of the log's lines; no line of a test begins like this.
const RUNNER: &str = "suite-runner: ";

/// The results of one program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The tests that it named.
    pub listed: BTreeSet<String>,
    /// How many it announced, after the last name.
    pub announced: Option<usize>,
    /// How it ended after naming them, as a sentence.
    pub list_report: Option<String>,
    /// Those that ended, and how.
    pub ended: BTreeMap<String, End>,
    /// How it ended after running them, as a sentence.
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
                outcome.announced = announced(said).or(outcome.announced);
            } else if let Some((test, end)) = ended(said) {
                // A failure stays a failure: lines that a test itself has written follow its end.
                let known = outcome.ended.entry(test).or_insert(end);
                if *known != End::Failed {
                    *known = end;
                }
            }
        } else if let Some((_, report)) = line.strip_prefix("ended ").and_then(|rest| rest.split_once(": ")) {
            let place = if *lists { &mut outcome.list_report } else { &mut outcome.report };
            *place = Some(report.to_owned());
        }
    }
    outcomes
}

/// A line of `--list`.
fn listed(line: &str) -> Option<String> {
    line.strip_suffix(": test").or_else(|| line.strip_suffix(": benchmark")).map(str::to_owned)
}

/// The last line of `--list`: `2 tests, 1 benchmark`.
fn announced(line: &str) -> Option<usize> {
    let (tests, benchmarks) = line.split_once(", ")?;
    let tests = tests.strip_suffix(" tests").or_else(|| tests.strip_suffix(" test"))?;
    let benchmarks = benchmarks.strip_suffix(" benchmarks").or_else(|| benchmarks.strip_suffix(" benchmark"))?;
    tests.parse::<usize>().ok()?.checked_add(benchmarks.parse().ok()?)
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
    /// Counts the program's tests, those that it named and those that ended. Those in `skip` were left out; every other
    /// test without an end has failed, and so has a program that did not name all its tests or that ended badly.
    pub fn count(&self, skip: &BTreeSet<&str>) -> Count {
        let mut count = Count::default();
        let report = self.report.as_deref().unwrap_or(CUT_OFF);
        let tests: BTreeSet<&String> = self.listed.iter().chain(self.ended.keys()).collect();
        for test in tests {
            match self.ended.get(test) {
                Some(End::Passed) => count.passed += 1,
                Some(End::Ignored) => count.ignored += 1,
                Some(End::Failed) => count.failures.push((test.clone(), "see the log".into())),
                None if skip.contains(test.as_str()) => count.skipped += 1,
                None => count.failures.push((test.clone(), format!("it did not end: {report}"))),
            }
        }
        // A program that ends badly after a test has failed behaves correctly.
        if count.failures.is_empty() && report != CLEAN {
            count.failures.push((RUN.into(), format!("no test failed, and the program did not end well: {report}")));
        }
        if let Some(why) = self.unlisted() {
            count.failures.push((LIST.into(), why));
        }
        count
    }

    /// Why the program's list of its tests cannot be relied on, if it cannot.
    fn unlisted(&self) -> Option<String> {
        let report = self.list_report.as_deref().unwrap_or(CUT_OFF);
        let named = self.listed.len();
        if report != CLEAN {
            return Some(format!("it named {} and did not end well: {report}", count(named, "test")));
        }
        match self.announced {
            Some(announced) if announced == named => None,
            Some(announced) => Some(format!("it named {} of {announced}", count(named, "test"))),
            None => Some(format!("it named {} and did not say how many there are", count(named, "test"))),
        }
    }
}

/// The line of `suite-runner` for a program that ended as it should.
const CLEAN: &str = "exited with code 0";
/// The text for a program whose end is not in the log.
const CUT_OFF: &str = "the machine ended before it";
/// Names for failures of a program that are not a test's.
const RUN: &str = "(run)";
const LIST: &str = "(list)";

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "suite-runner: suite list a\nsuite-runner: said one: test\nsuite-runner: said m::two: test\n\
        suite-runner: said three: test\nsuite-runner: said four: benchmark\nsuite-runner: said five: test\n\
        suite-runner: said \nsuite-runner: said 4 tests, 1 benchmark\nsuite-runner: ended a: exited with code 0\n\
        suite-runner: suite run a\nsuite-runner: said running 5 tests\nother: said test three ... ok\n\
        suite-runner: said test one ... ok\nsuite-runner: said test m::two - should panic ... ok\n\
        suite-runner: said test four ... ignored, slow\nsuite-runner: said test five ... FAILED\n\
        suite-runner: ended a: it was ended after 9 s\n";

    fn count(log: &str) -> Count {
        read(log).remove("a").unwrap_or_default().count(&BTreeSet::new())
    }

    /// A log of one program: its output when asked for its tests, how that ended, and the same of its run.
    fn log(list: [&str; 2], run: [&str; 2]) -> String {
        let mut log = String::new();
        for (what, [said, end]) in [("list", list), ("run", run)] {
            log += &format!("{RUNNER}suite {what} a\n");
            said.lines().for_each(|line| log += &format!("{RUNNER}said {line}\n"));
            log += &format!("{RUNNER}ended a: {end}\n");
        }
        log
    }

    fn failed(name: &str, why: &str) -> Vec<(String, String)> {
        vec![(name.into(), why.into())]
    }

    const ONE: [&str; 2] = ["one: test\n\n1 test, 0 benchmarks", CLEAN];
    const OK: [&str; 2] = ["test one ... ok", CLEAN];

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
        let count = Outcome::default().count(&BTreeSet::new());
        let names: Vec<&str> = count.failures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [RUN, LIST]);
    }

    #[test]
    fn a_program_that_ends_badly_after_its_tests_has_failed() {
        assert_eq!(count(&log(ONE, OK)), Count { passed: 1, ..Count::default() });
        for end in ["exited with code 101", "page fault at 0x0"] {
            let failures = count(&log(ONE, [OK[0], end])).failures;
            assert_eq!(failures, failed(RUN, &format!("no test failed, and the program did not end well: {end}")));
        }
        // Its end adds nothing if a test has failed.
        let failures = count(&log(ONE, ["test one ... FAILED", "exited with code 101"])).failures;
        assert_eq!(failures, failed("one", "see the log"));
    }

    #[test]
    fn tests_that_were_not_named_are_judged_as_well() {
        let count = count(&log(ONE, ["test one ... ok\ntest two ... FAILED\ntest three ... ok", CLEAN]));
        assert_eq!((count.passed, count.failures), (2, failed("two", "see the log")));
    }

    #[test]
    fn a_list_that_was_cut_off_is_a_failure() {
        let killed = ["one: test", "it was ended after 60 s"];
        let why = "it named 1 test and did not end well: it was ended after 60 s";
        assert_eq!(count(&log(killed, OK)).failures, failed(LIST, why));
        let without_end = "it named 1 test and did not say how many there are";
        assert_eq!(count(&log(["one: test", CLEAN], OK)).failures, failed(LIST, without_end));
        let of_two = ["one: test\n\n2 tests, 0 benchmarks", CLEAN];
        assert_eq!(count(&log(of_two, OK)).failures, failed(LIST, "it named 1 test of 2"));
        let empty = ["", CLEAN];
        assert_eq!(count(&log(empty, empty)).failures.len(), 1);
    }

    #[test]
    fn what_a_test_writes_does_not_mend_its_failure() {
        let run = ["test one ... FAILED\ntest one ... ok", "exited with code 101"];
        assert_eq!(count(&log(ONE, run)).failures, failed("one", "see the log"));
    }
}

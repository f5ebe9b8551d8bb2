//! `capos test-std`: upstream test suites on capOS. They are built as they were published, packed into one image, run
//! there one after another, and counted test by test.

pub mod build;
pub mod catalogue;
pub mod results;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::build::system::{Parts, System, Variant};
use crate::build::toolchain;
use crate::scenario::{self, Scenario};
use crate::suites::upstream::build::Program;
use crate::suites::upstream::catalogue::Suite;
use crate::suites::upstream::results::Count;
use capos_host::files;
use capos_vm::accel;

/// The system that runs them, below the source folder.
const MACHINE: &str = "tests/upstream/system";
/// The plan's name on the medium; `suite-runner` knows it.
const PLAN: &str = "suites.jsonl";
/// Threads of a test program: those that run tests, and those that tests make.
const THREADS: u32 = 512;
/// The name under which a failure of the machine is reported: no crate has it.
const THE_MACHINE: &str = "(machine)";
/// Tests that run at the same time in one program.
const TEST_THREADS: &str = "--test-threads=4";
/// Seconds of the host for booting, and for each program besides its tests.
const BOOT_SECONDS: u64 = 120;
const PROGRAM_SECONDS: u64 = 30;

/// Run upstream test suites on capOS.
#[derive(clap::Args)]
pub struct Args {
    /// Run only the suites whose name contains this text.
    #[arg(value_name = "PART")]
    only: Option<String>,
    /// Write the lock files again, after the list of suites or its crates changed.
    #[arg(long)]
    relock: bool,
    /// QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
}

/// A program of a suite, and how long it may run.
struct Planned<'a> {
    suite: &'a Suite,
    program: Program,
}

/// A line of the plan.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    program: String,
    arguments: Vec<&'a str>,
    seconds: u64,
    memory_kib: u64,
    threads: u32,
}

/// How all of them went: the tests of each program, and other faults.
#[derive(Debug, Default)]
pub struct Results {
    /// By program.
    pub programs: BTreeMap<String, Count>,
    /// Faults of whole suites, by suite, and of the machine that ran them.
    pub broken: Vec<(String, String)>,
}

/// Runs the subcommand: success when nothing failed.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let wanted = |suite: &Suite| args.only.as_deref().is_none_or(|part| suite.name.contains(part));
    let suites = catalogue::read(system.root())?;
    ensure!(suites.iter().any(wanted), "no suite has `{}` in its name", args.only.as_deref().unwrap_or_default());
    let parts = system.build(true)?;
    let accelerator = accel::choose(args.accel.as_deref())?;
    let results = execute(&system, &parts, &suites, &wanted, &accelerator, args.relock)?;
    let (mut passed, mut failed, mut ignored, mut skipped) = (0, results.broken.len(), 0, 0);
    for (program, count) in results.programs.iter().filter(|(_, count)| **count != Count::default()) {
        println!("{program}: {} passed, {} failed", count.passed, count.failures.len());
        for (test, why) in &count.failures {
            println!("FAILED  {program} {test}: {why}");
        }
        passed += count.passed;
        failed += count.failures.len();
        ignored += count.ignored;
        skipped += count.skipped;
    }
    for (suite, why) in &results.broken {
        println!("FAILED  {suite}: {why}");
    }
    println!("{ignored} ignored by their authors, {skipped} left out; {} says why", catalogue::FILE);
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds and runs the wanted suites.
pub fn execute(
    system: &System,
    parts: &Parts,
    all: &[Suite],
    wanted: &dyn Fn(&Suite) -> bool,
    accelerator: &str,
    relock: bool,
) -> Result<Results> {
    let mut results = Results::default();
    if !all.iter().any(wanted) {
        return Ok(results);
    }
    let planned = build(system, all, wanted, relock, &mut results)?;
    let run = if planned.is_empty() { Run::default() } else { boot(system, parts, &planned, accelerator)? };
    let suites: Vec<&Suite> = all.iter().filter(|suite| wanted(suite)).collect();
    judge(&suites, &planned, &run, &mut results);
    Ok(results)
}

/// How the machine ended.
#[derive(Debug, Default)]
struct Run {
    log: String,
    /// Why it did not end as it should, if it did not.
    reason: Option<String>,
}

/// Counts the tests of the programs, and reports what is wrong with the machine and with the suites as a whole.
fn judge(suites: &[&Suite], planned: &[Planned], run: &Run, results: &mut Results) {
    if let Some(reason) = &run.reason {
        results.broken.push((THE_MACHINE.into(), reason.clone()));
    }
    let mut outcomes = results::read(&run.log);
    let unbuilt: BTreeSet<String> = results.broken.iter().map(|(suite, _)| suite.clone()).collect();
    for suite in suites.iter().filter(|suite| !unbuilt.contains(&suite.name)) {
        let skip: BTreeSet<&str> = suite.skipped().collect();
        let mut counts = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for Planned { program, .. } in planned.iter().filter(|it| it.suite.name == suite.name) {
            let outcome = outcomes.remove(&program.name).unwrap_or_default();
            counts.insert(program.name.clone(), outcome.count(&skip));
            tests.extend(outcome.listed);
        }
        let gone: Vec<&&str> = skip.iter().filter(|test| !tests.contains(**test)).collect();
        if tests.is_empty() {
            // A program that did not name its tests is reported as such.
            if counts.values().all(|count| count.failures.is_empty()) {
                results.broken.push((suite.name.clone(), "it has no tests".into()));
            }
        } else if !gone.is_empty() {
            results.broken.push((suite.name.clone(), format!("it leaves out tests that it does not have: {gone:?}")));
        }
        results.programs.append(&mut counts);
    }
}

/// Builds the wanted suites. One that does not build does not keep the others from it.
fn build<'a>(
    system: &System,
    all: &'a [Suite],
    wanted: &dyn Fn(&Suite) -> bool,
    relock: bool,
    results: &mut Results,
) -> Result<Vec<Planned<'a>>> {
    let _alone = files::lock(&system.target().join("upstream"))?;
    let mut planned = Vec::new();
    for workspace in sources::workspaces(system.root(), all, wanted)? {
        for (suite, manifest) in workspace.members.iter().filter(|(suite, _)| wanted(suite)) {
            println!("building the tests of {}", suite.name);
            match build::build(system.root(), &workspace, suite, manifest, relock) {
                Ok(programs) => {
                    planned.extend(programs.into_iter().map(|program| Planned { suite, program }));
                }
                Err(error) => results.broken.push((suite.name.clone(), format!("{error:#}"))),
            }
        }
        // Without one nothing could be built, which is reported.
        let locked = std::fs::read(workspace.folder.join("Cargo.lock"));
        if let (true, Ok(locked)) = (relock, locked) {
            files::write_if_changed(&workspace.lock, &locked)?;
        }
    }
    Ok(planned)
}

/// Packs the programs into an image and runs it.
fn boot(system: &System, parts: &Parts, planned: &[Planned], accelerator: &str) -> Result<Run> {
    let mut scenario = Scenario::open(&system.root().join(MACHINE))?;
    let out = system.target().join("upstream/run");
    let over = system.target().join("upstream/over");
    scenario.settings.limit_seconds =
        BOOT_SECONDS + planned.iter().map(|it| it.suite.seconds + PROGRAM_SECONDS).sum::<u64>();
    let mut plan = String::new();
    let mut placed = Vec::new();
    for Planned { suite, program } in planned {
        let place = format!("bin/{}", program.name);
        let stripped = system.target().join("upstream/stripped").join(&program.name);
        toolchain::strip(&program.file, &stripped)?;
        let skip = suite.skipped().flat_map(|test| ["--skip", test]);
        let entry = Entry {
            name: &program.name,
            program: format!("/{place}"),
            arguments: [TEST_THREADS, "--exact"].into_iter().chain(skip).collect(),
            seconds: suite.seconds,
            memory_kib: suite.memory_mib << 10,
            threads: THREADS,
        };
        plan.push_str(&serde_json::to_string(&entry)?);
        plan.push('\n');
        placed.push((place, stripped));
    }
    let plan_file = system.target().join("upstream").join(PLAN);
    files::write_if_changed(&plan_file, plan.as_bytes())?;
    placed.push((PLAN.into(), plan_file));
    files::mirror(&placed, &over)?;
    std::fs::create_dir_all(&out)?;
    let image = out.join("upstream.iso");
    let (folder, boot) = (Some(scenario.folder.clone()), scenario.settings.boot.clone());
    let variant = Variant { over: Some(over), scenario: folder, boot, ..Variant::default() };
    parts.image(&variant, &image)?;
    println!("running {} programs; their words go to {}", planned.len(), out.join("serial.log").display());
    let report = scenario::run(&scenario, &scenario.machine(&image, accelerator), &out)?;
    let log = std::fs::read(out.join("serial.log")).context("reading the machine's log")?;
    Ok(Run { log: String::from_utf8_lossy(&log).into_owned(), reason: report.reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "suite-runner: suite list a\nsuite-runner: said one: test\n\
        suite-runner: said 1 test, 0 benchmarks\nsuite-runner: ended a: exited with code 0\n\
        suite-runner: suite run a\nsuite-runner: said test one ... ok\nsuite-runner: ended a: exited with code 0\n";
    const EMPTY: &str = "suite-runner: suite list a\nsuite-runner: said 0 tests, 0 benchmarks\n\
        suite-runner: ended a: exited with code 0\n\
        suite-runner: suite run a\nsuite-runner: ended a: exited with code 0\n";

    /// The faults of a suite `a` of one program, or of none, after this.
    fn broken(suite: &str, programs: usize, log: &str, reason: Option<&str>) -> Results {
        let suite: Suite = toml::from_str(suite).unwrap();
        let program = || Program { name: "a".into(), file: "a".into() };
        let planned: Vec<Planned> = (0..programs).map(|_| Planned { suite: &suite, program: program() }).collect();
        let run = Run { log: log.into(), reason: reason.map(str::to_owned) };
        let mut results = Results::default();
        judge(&[&suite], &planned, &run, &mut results);
        results
    }

    fn told(name: &str, why: &str) -> Vec<(String, String)> {
        vec![(name.into(), why.into())]
    }

    #[test]
    fn a_machine_that_ends_badly_is_a_failure() {
        let results = broken("name = 'a'", 1, CLEAN, None);
        assert_eq!((results.programs["a"].passed, results.broken), (1, Vec::new()));
        let results = broken("name = 'a'", 1, CLEAN, Some("the kernel panicked"));
        assert_eq!((results.programs["a"].passed, results.broken), (1, told(THE_MACHINE, "the kernel panicked")));
    }

    #[test]
    fn a_suite_without_tests_is_a_failure() {
        assert_eq!(broken("name = 'a'", 1, EMPTY, None).broken, told("a", "it has no tests"));
        assert_eq!(broken("name = 'a'", 0, "", None).broken, told("a", "it has no tests"));
        let results = broken("name = 'a'", 1, "", None);
        assert_eq!((results.programs["a"].failures.len(), results.broken), (2, Vec::new()));
    }

    #[test]
    fn tests_that_are_left_out_have_to_be_there() {
        let suite = "name = 'a'\nskip = [{ why = 'slow', tests = ['two'] }]";
        let why = "it leaves out tests that it does not have: [\"two\"]";
        assert_eq!(broken(suite, 1, CLEAN, None).broken, told("a", why));
    }
}

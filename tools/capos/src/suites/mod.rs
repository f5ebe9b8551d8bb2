//! `capos test`: every test there is, on the host and in QEMU, counted together.

pub(crate) mod boot_machines;
pub mod crash;
pub mod damage;
pub mod damage_disc;
pub mod dojo;
pub mod fuzz;
pub(crate) mod fuzz_kernel;
mod groups;
mod host;
pub mod upstream;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::build::iso::{Limine, limine_dir};
use crate::build::lint;
use crate::build::system::{Parts, System, joined};
use crate::build::toolchain;
use crate::measure::bench;
use crate::measure::figures::{self, Outcome, Verdict};
use crate::scenario::{Report, Scenario};
use crate::scenario::{editor, run_agent};
use crate::suites::damage::{CASES, Case};
use crate::suites::upstream::catalogue::{self, Suite};
use crate::suites::upstream::results::Count;
use capos_vm::accel;

/// The folder of scenarios, each in a folder, below the source folder.
const SCENARIOS: [&str; 2] = ["tools/scenarios", "tests/scenarios"];
/// Under which name the upstream suites that are a part of `make test` run; all of them are `make test-std`.
const UPSTREAM: &str = "upstream";
/// The scenario that is run on every kind of machine.
const BOOT: &str = "boot";
/// The phase in which what runs in QEMU is built.
const BUILDING: &str = "building the system";
/// The scenarios of the tests inside the kernel.
const KERNEL: [&str; 2] = ["kernel-tests", "refusals"];
/// The scenario that is run on every damaged medium.
const DAMAGED: &str = "damaged";

/// A run that takes longer than this prints that: all tests together wait for such runs.
const WORTH_TELLING: Duration = Duration::from_secs(20);

/// Run every test.
#[derive(clap::Args)]
pub struct Args {
    /// Run only the tests whose suite or name contains this text, or those of this group of `tests/groups.toml`.
    #[arg(value_name = "PART")]
    only: Option<String>,
    /// QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
    /// Boot with the Limine binary release in this folder instead of GRUB.
    #[arg(long, value_name = "DIR", env = "LIMINE_DIR", value_parser = limine_dir)]
    limine: Option<Limine>,
    /// Check lints and formatting too: `make test LINTS=1` sets the compiler for that.
    #[arg(long, env = "LINTS", value_parser = clap::builder::BoolishValueParser::new())]
    lint: bool,
}

/// The counts so far.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    failures: Vec<String>,
    /// Checks that tests reported as skipped on this host.
    left_out: BTreeSet<String>,
    /// The phases with their durations, in order.
    phases: Vec<(&'static str, Duration)>,
    /// The machines with how long each ran.
    machines: Vec<(String, Duration)>,
}

impl Tally {
    fn pass(&mut self, name: &str) {
        println!("ok      {name}");
        self.passed += 1;
    }

    /// Does one phase of all tests, says that it begins, and records its duration.
    fn phase<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        println!("now     {name}");
        let began = Instant::now();
        let result = work(self);
        self.phases.push((name, began.elapsed()));
        result
    }

    fn fail(&mut self, name: &str, reason: &str) {
        println!("FAILED  {name}: {reason}");
        self.failed += 1;
        self.failures.push(name.to_owned());
    }
}

/// Runs the subcommand: success when nothing failed.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    ensure!(
        !args.lint || toolchain::is_linted() && args.only.is_none(),
        "lints are checked with all tests: make test LINTS=1"
    );
    let mut tally = Tally::default();
    if args.lint && toolchain::bare()? == toolchain::Bare::Debian {
        tally.left_out.insert("lints of the kernel: Debian's compiler for it has no clippy".to_owned());
    }
    let named = groups::Groups::read(system.root())?;
    let wanted = |name: &str| args.only.as_deref().is_none_or(|part| named.select(part, name));
    let groups = host::build(&system, &wanted, args.lint, &mut tally)?;
    let guest = guest_runs(&system, &wanted, &mut tally)?;
    // A host test seldom keeps two processors busy: meanwhile the system is built.
    let built = std::thread::scope(|scope| {
        let builder = guest.any().then(|| {
            scope.spawn(|| {
                let began = Instant::now();
                let findings = if args.lint { lint::formats(&system) } else { Ok(Vec::new()) };
                (findings, system.build(true), began.elapsed())
            })
        });
        if !groups.is_empty() {
            host::run(&system, &groups, &mut tally)?;
        }
        let built = builder.map(joined);
        anyhow::Ok(built)
    })?;
    let tested = built.map_or(Ok(()), |(findings, parts, took)| {
        tally.phases.push((BUILDING, took));
        for what in findings? {
            tally.fail(&format!("lint/{what}"), "see above");
        }
        guest_tests(args, &system, guest, &parts?, &mut tally)
    });
    match tested {
        Ok(()) => {}
        // An error that keeps all of them from running is one failure, and the count is still printed.
        Err(error) => tally.fail("building the system for QEMU", &format!("{error:#}")),
    }
    if let Some(part) = args.only.as_deref().filter(|_| tally.passed == 0 && tally.failed == 0) {
        tally.fail(part, "no test has this text in its name; `make test` without ONLY runs all tests");
    }
    for what in &tally.left_out {
        println!("not run: {what}");
    }
    let phases: Vec<String> = tally.phases.iter().map(|(name, took)| format!("{name} {} s", took.as_secs())).collect();
    println!("took: {}", phases.join(", "));
    for name in &tally.failures {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file below `target/test` that says how long each machine ran.
const TIMES: &str = "times";

/// One run of a scenario.
struct Run {
    name: String,
    scenario: Scenario,
    /// The damage to its medium.
    damaged: Option<&'static Case>,
}

/// A run that has ended.
struct Executed {
    run: Run,
    /// Where its files are.
    out: PathBuf,
    report: Result<Report>,
    took: Duration,
}

/// Executes the runs and passes each result to `take`. Machines with one processor run in parallel, one more than the host
/// has processors, since a machine often waits: for its disk, for a time, for what is typed. Those with the longest limit come
/// first. Then each of the others runs alone.
fn in_lanes(
    runs: Vec<Run>,
    execute: &(impl Fn(Run) -> Executed + Sync),
    mut take: impl FnMut(Executed) -> Result<()>,
) -> Result<()> {
    let (mut beside, alone): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.scenario.settings.cpus == 1);
    // The last is taken first.
    beside.reverse();
    beside.sort_by_key(|run| run.scenario.settings.limit_seconds);
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).saturating_add(1).min(beside.len());
    let waiting = Mutex::new(beside);
    std::thread::scope(|scope| {
        let (sender, ended) = channel();
        for _ in 0..lanes {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    // The receiver stops after an error; then the results are no longer needed.
                    if next.is_none_or(|run| sender.send(execute(run)).is_err()) {
                        return;
                    }
                }
            });
        }
        drop(sender);
        ended.iter().try_for_each(&mut take)
    })?;
    alone.into_iter().map(execute).try_for_each(take)
}

/// What is wanted of the tests that run in QEMU.
struct Guest {
    runs: Vec<Run>,
    /// All upstream suites.
    suites: Vec<Suite>,
    /// The names of those that are wanted.
    upstream: BTreeSet<String>,
}

impl Guest {
    fn any(&self) -> bool {
        !self.runs.is_empty() || !self.upstream.is_empty()
    }
}

/// Finds the tests that run in QEMU.
fn guest_runs(system: &System, wanted: &dyn Fn(&str) -> bool, tally: &mut Tally) -> Result<Guest> {
    let mut runs = Vec::new();
    for folder in SCENARIOS {
        runs.extend(all_runs(&system.root().join(folder), &system.target(), wanted, tally)?);
    }
    let suites = catalogue::read(system.root())?;
    let names = suites.iter().filter(|suite| suite.ci && wanted(&format!("{UPSTREAM}/{}", suite.name)));
    let upstream = names.map(|suite| suite.name.clone()).collect();
    Ok(Guest { runs, suites, upstream })
}

/// All tests that run in QEMU.
fn guest_tests(args: &Args, system: &System, guest: Guest, parts: &Parts, tally: &mut Tally) -> Result<()> {
    let Guest { mut runs, suites: all, upstream: names } = guest;
    let upstream = |suite: &Suite| names.contains(&suite.name);
    let accelerator = accel::choose(args.accel.as_deref())?;
    let limine = Limine::folder(args.limine.as_ref())?;
    runs.retain(|run| limine.is_none() || !run.scenario.settings.grub_only);
    if editor::python(system.root()).is_none() {
        for run in runs.extract_if(.., |run| run.scenario.has_editor()) {
            tally.left_out.insert(format!("{}: `make test` could not install its ACP client", run.name));
        }
    }
    let execute = |run: Run| {
        let out = system.target().join("test").join(run.name.replace('/', "-"));
        let began = Instant::now();
        let report = match run.damaged {
            Some(case) => case.execute(parts, &run.scenario, &accelerator, &out),
            None => run_agent::execute(parts, &run.scenario, limine.clone(), &accelerator, &out),
        };
        Executed { run, out, report, took: began.elapsed() }
    };
    tally.phase("running machines", |tally| {
        in_lanes(runs, &execute, |Executed { run, out, report, took }| {
            match report {
                Ok(report) => judge(system, &run, &report, &out, tally)?,
                Err(error) => tally.fail(&run.name, &format!("{error:#}")),
            }
            if took > WORTH_TELLING {
                println!("        {} took {} s", run.name, took.as_secs());
            }
            tally.machines.push((run.name, took));
            Ok(())
        })
    })?;
    if !tally.machines.is_empty() {
        let times = system.target().join("test").join(TIMES);
        std::fs::write(&times, times_text(&mut tally.machines))
            .with_context(|| format!("writing {}", times.display()))?;
    }
    let results =
        tally.phase("upstream suites", |_| upstream::execute(system, parts, &all, &upstream, &accelerator, false));
    match results {
        Ok(results) => upstream_tests(results, tally),
        Err(error) => tally.fail(UPSTREAM, &format!("{error:#}")),
    }
    Ok(())
}

/// A line for each machine: seconds and name, the longest first.
fn times_text(machines: &mut [(String, Duration)]) -> String {
    machines.sort_by_key(|&(_, took)| std::cmp::Reverse(took));
    machines.iter().map(|(name, took)| format!("{:7.1} {name}\n", took.as_secs_f64())).collect()
}

/// Counts the tests of upstream suites.
fn upstream_tests(results: upstream::Results, tally: &mut Tally) {
    for (suite, why) in results.broken {
        tally.fail(&format!("{UPSTREAM}/{suite}"), &why);
    }
    for (program, count) in results.programs {
        let name = format!("{UPSTREAM}/{program}");
        if let Some(line) = passed_line(&name, &count) {
            println!("{line}");
        }
        tally.passed += count.passed;
        for (test, why) in count.failures {
            tally.fail(&format!("{name}/{test}"), &why);
        }
    }
}

/// The line of a program all of whose tests passed; `None` if there were no tests.
fn passed_line(name: &str, count: &Count) -> Option<String> {
    (count.failures.is_empty() && count.passed > 0).then(|| format!("ok      {name}: {} tests", count.passed))
}

/// Counts a run: as one test, or as the tests that the kernel or a test program reports.
fn judge(system: &System, run: &Run, report: &Report, out: &Path, tally: &mut Tally) -> Result<()> {
    let in_kernel = KERNEL.iter().any(|name| run.name.strip_prefix("qemu/") == Some(name));
    let mut told = in_kernel || !run.scenario.settings.boot.is_empty();
    if told {
        let log = std::fs::read(out.join("serial.log"))?;
        let log = String::from_utf8_lossy(&log);
        if run.name.ends_with(figures::SCENARIO) {
            if report.passed {
                let verdicts = figures::judge(system.root(), &bench::measured(&log)?)?;
                verdicts.into_iter().for_each(|verdict| figure(&run.name, verdict, tally));
            }
        } else if in_kernel {
            kernel_tests(&log).iter().for_each(|name| tally.pass(&format!("{}/{name}", run.name)));
        } else {
            // A scenario that boots a system of its own is judged as a whole.
            told = program_tests(&run.name, &log, tally);
        }
    }
    match &report.reason {
        None if told => {}
        None => tally.pass(&run.name),
        Some(reason) => tally.fail(&run.name, &format!("{reason}\n  see {}", out.display())),
    }
    Ok(())
}

/// Counts the verdict on one figure of the kernel, or on one curve.
fn figure(run: &str, verdict: Verdict, tally: &mut Tally) {
    let name = format!("{run}/{}", verdict.name);
    match verdict.outcome {
        Outcome::Fine(words) => tally.pass(&format!("{name}: {words}")),
        // Neither passed nor failed.
        Outcome::Told(words) => println!("        {name}: {words}"),
        Outcome::Wrong(reason) => tally.fail(&name, &reason),
    }
}

/// Counts the tests that a first process has run; whether there were any. Other processes' lines begin with their own names.
fn program_tests(run: &str, log: &str, tally: &mut Tally) -> bool {
    let before = (tally.passed, tally.failed);
    for line in log.lines().filter_map(|line| line.strip_prefix("init: ")) {
        if let Some(name) = line.strip_prefix("ok ") {
            tally.pass(&format!("{run}/{name}"));
        } else if let Some((name, reason)) = line.strip_prefix("FAILED ").and_then(|line| line.split_once(": ")) {
            tally.fail(&format!("{run}/{name}"), reason);
        }
    }
    before != (tally.passed, tally.failed)
}

/// The names of the passed tests in the kernel's log.
fn kernel_tests(log: &str) -> Vec<String> {
    let names = log.lines().filter_map(|line| line.split_once("ok ").filter(|(before, _)| !before.contains("  ")));
    names.map(|(_, name)| name.trim().to_owned()).collect()
}

/// Every requested scenario: the boot scenario once for every kind of machine, that of damaged media for each damage. A
/// folder that is not a scenario is a failure of its own. Generated parts are written below `target`.
fn all_runs(folder: &Path, target: &Path, wanted: &dyn Fn(&str) -> bool, tally: &mut Tally) -> Result<Vec<Run>> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            folders.push(entry?.path());
        }
    }
    folders.sort();
    let mut runs = Vec::new();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let title = format!("qemu/{name}");
        match Scenario::open(&folder) {
            Ok(scenario) if name == BOOT => runs.extend(boot_machines::all(&scenario).map(as_run)),
            Ok(scenario) if name == DAMAGED => runs.extend(media(&scenario)),
            Ok(scenario) if name == dojo::NAME && wanted(&title) => {
                runs.push(as_run((name, dojo::scenario(&scenario, target)?)));
            }
            Ok(scenario) => runs.push(as_run((name, scenario))),
            Err(error) if wanted(&title) => tally.fail(&title, &format!("{error:#}")),
            Err(_) => {}
        }
    }
    runs.retain(|run| wanted(&run.name));
    Ok(runs)
}

/// A run of a scenario with an undamaged medium.
fn as_run((name, scenario): (String, Scenario)) -> Run {
    Run { name: format!("qemu/{name}"), scenario, damaged: None }
}

/// The scenario of damaged media on each of them.
fn media(scenario: &Scenario) -> Vec<Run> {
    let run = |case: &'static Case| {
        let name = format!("qemu/{DAMAGED}/{}", case.name);
        Run { name, scenario: scenario.clone(), damaged: Some(case) }
    };
    CASES.iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(kinds: &[(u32, u64)]) -> Vec<Run> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/scenarios/boot");
        let run = |&(cpus, limit): &(u32, u64)| {
            let mut scenario = Scenario::open(&folder).unwrap();
            scenario.settings.cpus = cpus;
            scenario.settings.limit_seconds = limit;
            Run { name: format!("{cpus}/{limit}"), scenario, damaged: None }
        };
        kinds.iter().map(run).collect()
    }

    #[test]
    fn machines_with_several_processors_have_the_host_to_themselves() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let running = AtomicUsize::new(0);
        let execute = |run: Run| {
            let beside = running.fetch_add(1, Ordering::SeqCst);
            let report = if run.scenario.settings.cpus > 1 && beside > 0 { "not alone" } else { "ended" };
            running.fetch_sub(1, Ordering::SeqCst);
            Executed { run, out: PathBuf::new(), report: Err(anyhow::anyhow!(report)), took: Duration::ZERO }
        };
        let mut names = Vec::new();
        in_lanes(runs(&[(2, 5), (1, 60), (1, 90), (4, 9), (1, 60)]), &execute, |executed| {
            assert_eq!(executed.report.err().unwrap().to_string(), "ended");
            names.push(executed.run.name);
            Ok(())
        })
        .unwrap();
        assert_eq!(names.split_off(3), ["2/5", "4/9"]);
        names.sort_unstable();
        assert_eq!(names, ["1/60", "1/60", "1/90"]);
        let failed = in_lanes(runs(&[(1, 60), (1, 60)]), &execute, |_| anyhow::bail!("full"));
        assert_eq!(failed.unwrap_err().to_string(), "full");
    }

    #[test]
    fn the_machine_that_ran_longest_comes_first() {
        let mut machines =
            [("qemu/a", 1500), ("qemu/b", 12_340)].map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)));
        assert_eq!(times_text(&mut machines), "   12.3 qemu/b\n    1.5 qemu/a\n");
    }

    #[test]
    fn kernel_tests_are_read_from_the_log() {
        let log = "[1.2] booting\nok frames_are_zeroed\n[0.5] ok heap\n  a hook ok here\n2 passed, 0 failed\n";
        assert_eq!(kernel_tests(log), ["frames_are_zeroed", "heap"]);
    }

    #[test]
    fn a_program_is_ok_only_where_tests_passed_and_none_failed() {
        let mut count = Count { passed: 3, ..Count::default() };
        assert_eq!(passed_line("upstream/a", &count).as_deref(), Some("ok      upstream/a: 3 tests"));
        assert_eq!(passed_line("upstream/a", &Count::default()), None);
        count.failures.push(("one".into(), "see the log".into()));
        assert_eq!(passed_line("upstream/a", &count), None);
    }

    #[test]
    fn tests_of_a_first_process_are_read_from_the_log() {
        let log = "init: ok one\nok two\nlog: init: FAILED forged: by another\ninit: FAILED three: it ran on\n";
        let mut tally = Tally::default();
        assert!(program_tests("qemu/hostile", log, &mut tally) && !program_tests("qemu/x", "log: ok", &mut tally));
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert_eq!(tally.failures, ["qemu/hostile/three"]);
    }
}

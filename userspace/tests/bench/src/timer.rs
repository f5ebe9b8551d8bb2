//! When timers interrupt processors, and when limits of CPU time end a process: tests, by the counts that the kernel
//! keeps.
//!
//! A machine of one processor counts instructions, one a nanosecond, and must match exact numbers. With several
//! processors it uses its host's clock: other work of the host makes turns longer and deadlines late, so that there are
//! fewer interrupts and never more. It must stay within an upper bound.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use capos_process::{Launch, Started};
use capos_rt::{Env, Error, log, raw};
use capos_schema::kernel::{ExitInfoCause, Limits, MachineClient};

use crate::Bench;

/// Deadlines to wait for, and the distance of each.
const DEADLINES: u64 = 10;
const FAR: u64 = 20_000_000;
/// For how long a test computes.
const WHILE: u64 = 200_000_000;
/// Steps of arithmetic between two readings of the counter.
const STEPS: u64 = 1000;
/// A turn of a thread while others wait.
const SLICE: u64 = 10_000_000;
/// The limit of a process, and by how much it may exceed it when it ends.
const LIMIT: u64 = 50_000_000;
const OVER: u64 = 100_000;
/// How often a process that uses up such a limit may be interrupted: at the end of each of its turns, and whenever it
/// has to ask for more.
const FOR_LIMIT: u64 = 40;

/// Its other limits.
const LIMITS: Limits =
    Limits { frames: 2048, capabilities: 64, threads: 1, processes: 0, objects: 64, priority: 0, cpu_nanoseconds: 0 };

/// The part of a process that computes until it is ended.
pub fn spin() -> ! {
    loop {
        core::hint::black_box(capos_measure::compute(STEPS));
    }
}

fn ensure(holds: bool, why: impl FnOnce() -> alloc::string::String) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::new(why())) }
}

struct Timers<'a> {
    bench: &'a Bench,
    machine: MachineClient,
    /// Processors of the machine.
    processors: u64,
}

impl Timers<'_> {
    /// Whether the machine counts instructions, see above.
    fn is_exact(&self) -> bool {
        self.processors == 1
    }

    /// Whether the number of interrupts is within the upper bound, and on an exact machine also reaches the lower one.
    fn check(&self, found: &[u64], least: u64, most: u64, of: &str) -> Result<(), Error> {
        let sum = found.iter().sum::<u64>();
        let least = if self.is_exact() { least } else { 0 };
        log::info!("{of}: interrupts of the timers {found:?}, {most} at most");
        ensure((least..=most).contains(&sum), || {
            format!("{of} made these interrupts: {found:?}, not {least} to {most}")
        })
    }

    async fn interrupts(&self) -> Result<Vec<u64>, Error> {
        Ok(self.machine.statistics().await?.timer_interrupts)
    }

    /// Interrupts of each processor's timer while `act` runs.
    async fn during(&self, act: impl FnOnce() -> Result<(), Error>) -> Result<Vec<u64>, Error> {
        let before = self.interrupts().await?;
        act()?;
        let after = self.interrupts().await?;
        Ok(after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect())
    }

    /// Processes that compute for ever.
    async fn spinners(&self, count: u64, cpu_nanoseconds: u64) -> Result<Vec<Started>, Error> {
        let mut all = Vec::new();
        for _ in 0..count {
            let launch = Launch {
                name: "spin",
                image: &self.bench.image,
                arguments: vec!["spin".into()],
                environment: Vec::new(),
                grants: Vec::new(),
                limits: Limits { cpu_nanoseconds, ..LIMITS },
                account: &self.bench.account,
            };
            all.push(launch.start().await?);
        }
        Ok(all)
    }

    /// While all wait, each deadline is one interrupt of one processor.
    async fn idle(&self) -> Result<(), Error> {
        let wait = || {
            for _ in 0..DEADLINES {
                raw::enter(0, 1, capos_rt::now()?.saturating_add(FAR));
            }
            Ok(())
        };
        let found = self.during(wait).await?;
        self.check(&found, DEADLINES, DEADLINES, &format!("{DEADLINES} deadlines"))
    }

    /// Once no thread runs, the timer set for the end of a turn is void: the next interrupt is that of the deadline
    /// after it.
    async fn rest(&self) -> Result<(), Error> {
        let mut found = Vec::new();
        for _ in 0..DEADLINES {
            let spinners = self.spinners(1, 0).await?;
            compute(SLICE / 10)?;
            end(spinners).await?;
            let wait = || {
                raw::enter(0, 1, capos_rt::now()?.saturating_add(FAR));
                Ok(())
            };
            found.extend(self.during(wait).await?);
        }
        // By the host's clock some turns end just before the wait for the deadline begins. Were turns not forgotten, all would
        // make an interrupt.
        let most = DEADLINES.saturating_add(DEADLINES / 2);
        self.check(&found, DEADLINES, most, &format!("{DEADLINES} deadlines behind turns"))
    }

    /// A thread without competitors is not interrupted, whatever deadlines are to come.
    async fn alone(&self) -> Result<(), Error> {
        let found = self.during(|| compute(WHILE)).await?;
        self.check(&found, 0, 0, "who computes alone")
    }

    /// If more threads compute than there are processors, each is interrupted at the end of a turn and not more often.
    async fn turns(&self) -> Result<(), Error> {
        let spinners = self.spinners(self.processors.saturating_add(1), 0).await?;
        let from = capos_rt::now()?;
        let wait = || {
            raw::enter(0, 1, from.saturating_add(WHILE));
            Ok(())
        };
        let found = self.during(wait).await?;
        let turns = capos_rt::now()?.saturating_sub(from) / SLICE;
        end(spinners).await?;
        // The deadline is one, and a turn that had begun before is another one on each processor.
        let most = turns.saturating_add(2).saturating_mul(self.processors).saturating_add(1);
        self.check(&found, turns, most, &format!("{turns} turns"))
    }

    /// A process that never enters the kernel ends when its time is used, and is interrupted no more often than that
    /// takes.
    async fn limits(&self) -> Result<(), Error> {
        for count in [1, 2] {
            let before = self.interrupts().await?;
            let spinners = self.spinners(count, LIMIT).await?;
            for spinner in &spinners {
                let exit = spinner.process.wait().await?;
                let used = spinner.account.usage().await?.usage.cpu_nanoseconds;
                ensure(exit.cause == ExitInfoCause::CpuTime, || format!("it ended otherwise: {}", exit.report))?;
                let most = if self.is_exact() { LIMIT.saturating_add(OVER) } else { u64::MAX };
                ensure((LIMIT..=most).contains(&used), || format!("it used {used} ns of {LIMIT}"))?;
                log::info!("a limit of {LIMIT} ns: {used} ns used");
            }
            let after = self.interrupts().await?;
            let more: Vec<u64> = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
            self.check(&more, 1, FOR_LIMIT.saturating_mul(count), "limits")?;
        }
        Ok(())
    }
}

/// Ends processes that compute for ever.
async fn end(spinners: Vec<Started>) -> Result<(), Error> {
    for spinner in spinners {
        spinner.process.kill("it was watched").await?;
        drop(spinner.process.wait().await?);
    }
    Ok(())
}

/// Computes for this long, without entering the kernel.
fn compute(nanoseconds: u64) -> Result<(), Error> {
    let from = capos_rt::now()?;
    while capos_rt::now()?.saturating_sub(from) < nanoseconds {
        core::hint::black_box(capos_measure::compute(STEPS));
    }
    Ok(())
}

/// Runs the tests.
pub async fn test(bench: &Bench, env: &Env) -> Result<(), Error> {
    let timers = Timers { bench, machine: env.cap("machine")?, processors: capos_rt::processors().into() };
    // Nothing of the start is left to do.
    raw::enter(0, 1, capos_rt::now()?.saturating_add(FAR));
    let results = [
        ("idle-processors-are-not-interrupted", timers.idle().await),
        ("idle-processors-forget-turns", timers.rest().await),
        ("who-runs-alone-is-not-interrupted", timers.alone().await),
        ("turns-are-interrupted-at-their-end", timers.turns().await),
        ("limits-of-cpu-time-are-kept", timers.limits().await),
    ];
    tell(results)
}

/// Logs how tests have ended.
///
/// # Errors
/// One has failed.
pub fn tell<const COUNT: usize>(results: [(&str, Result<(), Error>); COUNT]) -> Result<(), Error> {
    let (mut passed, mut failed) = (0, 0);
    for (name, result) in results {
        match result {
            Ok(()) => {
                passed += 1;
                log::info!("ok {name}");
            }
            Err(why) => {
                failed += 1;
                log::info!("FAILED {name}: {why}");
            }
        }
    }
    log::info!("{passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err(Error::new("a test has failed")) }
}

//! The throughput of several processors: independent processes, one, two and four of them, each with the same work.
//! Time is what it takes until the last is done, by the machine's clock; nothing here counts instructions.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use capos_abi::RawEntry;
use capos_abi::syscall::NO_DEADLINE;
use capos_measure::compute;
use capos_process::Granted;
use capos_rt::{Env, Error, log, raw};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{ExitInfoCause, ObjectClient, ProcessClient};

use crate::entries::{self, RESULTS};
use crate::{Bench, Partner, calls};

/// How many work at once.
const AT_ONCE: [u64; 3] = [1, 2, 4];
/// How often each is measured, in turns.
const ROUNDS: usize = 5;
/// Steps of arithmetic of each process: enough that starting the processes one after the other is a small part of the
/// time.
const STEPS: u64 = 800_000_000;
/// Calls of each that calls another process.
pub const CALLS: i32 = 10_000;

/// The part of a process that computes: its exit code is the result.
pub fn work() -> ! {
    capos_rt::exit(code(compute(STEPS)))
}

/// The part of a result that an exit code holds.
fn code(result: u64) -> i32 {
    i32::try_from(result >> 33).unwrap_or(0)
}

/// The part of a process that calls another: its exit code says how many answers were right.
pub fn call(env: &Env) -> Result<(), Error> {
    let target: ObjectClient = env.cap("target")?;
    let memory = calls::message();
    let call = entries::call(target.as_cap().id(), (entries::INTERFACE, 0), entries::MESSAGE, memory, (0, 0));
    let right = (0..CALLS).filter(|round| ask(&call, memory, u64::from(round.cast_unsigned())) == Ok(true)).count();
    capos_rt::exit(i32::try_from(right).unwrap_or(0))
}

/// Makes a call whose message begins with a number; whether the answer is the message.
///
/// # Errors
/// The status with which the call was refused.
pub fn ask(call: &RawEntry, memory: u64, number: u64) -> Result<bool, i32> {
    entries::write(memory, number);
    entries::push(call);
    raw::enter(1, 1, NO_DEADLINE);
    match entries::drain() {
        0 => Ok(is_answered(memory)),
        status => Err(status),
    }
}

/// Whether the answer is the message, of a call in this memory.
pub fn is_answered(memory: u64) -> bool {
    let same = |word: u64| entries::read(memory + 8 * word) == entries::read(memory + RESULTS + 8 * word);
    (0..8).all(same)
}

impl Bench {
    /// Waits for processes, and judges what each came to.
    pub async fn judged(&self, processes: Vec<ProcessClient>, expected: i32) -> Result<(), Error> {
        for process in processes {
            let exit = process.wait().await?;
            if exit.cause != ExitInfoCause::Exited || exit.code != expected {
                return Err(Error::new(format!(
                    "a process came to {} in place of {expected}: {}",
                    exit.code, exit.report
                )));
            }
        }
        Ok(())
    }

    /// Reports the throughput of several processes in percent of one process alone, as the median of the rounds. Each
    /// round has one time for each of [`AT_ONCE`].
    fn tell_throughput(&self, name: &str, rounds: &[[u64; AT_ONCE.len()]], how: &str) {
        for (place, at_once) in AT_ONCE.into_iter().enumerate() {
            let percent = |times: &[u64; AT_ONCE.len()]| {
                let (alone, together) = (times.first().copied(), times.get(place).copied());
                alone.unwrap_or(0).saturating_mul(at_once).saturating_mul(100) / together.unwrap_or(0).max(1)
            };
            let mut percents: Vec<u64> = rounds.iter().map(percent).collect();
            percents.sort_unstable();
            let median = percents.get(percents.len() / 2).copied().unwrap_or(0);
            log::info!(
                "bench {name}@at_once={at_once} {median} percent: {how}; of rounds {percents:?}, times {rounds:?} ns"
            );
        }
    }

    /// Processes that compute.
    async fn computing(&self) -> Result<(), Error> {
        let expected = code(compute(STEPS));
        let mut rounds = [[0; AT_ONCE.len()]; ROUNDS];
        for (time, at_once) in rounds.iter_mut().flat_map(|times| times.iter_mut().zip(AT_ONCE)) {
            let from = capos_rt::now()?;
            let mut processes = Vec::new();
            for _ in 0..at_once {
                processes.push(self.launch("compute", Vec::new()).await?);
            }
            self.judged(processes, expected).await?;
            *time = capos_rt::now()?.saturating_sub(from);
        }
        let how = "work done by so many processes at once that compute, of what one does alone";
        self.tell_throughput("compute_throughput", &rounds, how);
        Ok(())
    }

    /// Pairs of processes, where one calls the other.
    async fn calling(&self) -> Result<(), Error> {
        let mut rounds = [[0; AT_ONCE.len()]; ROUNDS];
        for (time, at_once) in rounds.iter_mut().flat_map(|times| times.iter_mut().zip(AT_ONCE)) {
            let mut servers: Vec<Partner> = Vec::new();
            for _ in 0..at_once {
                servers.push(self.partner("echo", 0, entries::INTERFACE).await?);
            }
            let from = capos_rt::now()?;
            let mut processes = Vec::new();
            for server in &servers {
                processes.push(self.launch("call", vec![Granted::new("target", &server.client)]).await?);
            }
            self.judged(processes, CALLS).await?;
            *time = capos_rt::now()?.saturating_sub(from);
            for server in servers {
                server.end().await?;
            }
        }
        let how = "calls of 64 bytes made by so many pairs of processes at once, of what one pair makes alone";
        self.tell_throughput("call_throughput", &rounds, how);
        Ok(())
    }

    /// Both kinds of work.
    pub async fn throughput(&self) -> Result<(), Error> {
        self.computing().await?;
        self.calling().await
    }
}

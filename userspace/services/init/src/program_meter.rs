//! What the programs of one session use: CPU time, and memory over time.
//!
//! The kernel counts the CPU time of each program's account. Memory is read from the account at intervals; a program holds between
//! two of them what it held at the first.

use alloc::rc::Rc;
use core::cell::Cell;

use capos_process::Started;
use capos_rt::{Clock, Either, select};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{ExitInfo, Usage};
use capos_schema::system::{ProgramMeterServer, ProgramsSpent};

/// Nanoseconds between two looks at a program: at its start, and the most later. They double.
const FIRST_LOOK: u64 = 20_000_000;
const LAST_LOOK: u64 = 320_000_000;
/// KiB of a frame.
const KIB: u64 = 4;
/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;
/// No bound.
const NONE: ProgramsSpent = ProgramsSpent { cpu_nanoseconds: u64::MAX, memory_kib_milliseconds: u64::MAX };

/// What the programs of one launcher have used.
pub struct Meter {
    cpu: Cell<u64>,
    memory: Cell<u64>,
    most: Cell<(u64, u64)>,
}

impl Default for Meter {
    fn default() -> Self {
        let most = (NONE.cpu_nanoseconds, NONE.memory_kib_milliseconds);
        Self { cpu: Cell::new(0), memory: Cell::new(0), most: Cell::new(most) }
    }
}

/// How waiting for a program ended.
pub enum Waited {
    Exited(Result<ExitInfo, CallError>),
    /// The bound was reached; the text says which.
    Spent(&'static str),
    /// Its time was over.
    Late,
}

/// What is known of a program that runs.
struct Look {
    at: u64,
    usage: Usage,
}

impl Meter {
    /// Why no program may be started, if so.
    pub fn is_spent(&self) -> Option<&'static str> {
        let (cpu, memory) = self.most.get();
        if self.cpu.get() >= cpu {
            return Some("the budget of CPU time of programs is used up");
        }
        (self.memory.get() >= memory).then_some("the budget of memory of programs over time is used up")
    }

    /// Counts what a program has used since the last look.
    async fn look(&self, started: &Started, last: &Look, now: u64) -> Look {
        let usage = match started.account.usage().await {
            Ok(found) => found.usage,
            Err(_) => last.usage.clone(),
        };
        let cpu = usage.cpu_nanoseconds.saturating_sub(last.usage.cpu_nanoseconds);
        let time = now.saturating_sub(last.at) / MILLISECOND;
        let held = last.usage.frames.saturating_mul(KIB).saturating_mul(time);
        self.cpu.set(self.cpu.get().saturating_add(cpu));
        self.memory.set(self.memory.get().saturating_add(held));
        // CPU time is never less than before, also once the account has retired.
        let cpu_nanoseconds = usage.cpu_nanoseconds.max(last.usage.cpu_nanoseconds);
        Look { at: now, usage: Usage { cpu_nanoseconds, ..usage } }
    }

    /// Waits for the end of a program, and counts what it uses meanwhile. It may take `most` nanoseconds.
    pub async fn wait(&self, started: &Started, clock: &Clock, most: u64) -> Waited {
        let began = clock.now();
        let ends = began.saturating_add(most);
        let mut last = Look { at: began, usage: Usage::default() };
        if let Ok(found) = started.account.usage().await {
            // It holds its image from the start.
            last.usage.frames = found.usage.frames;
        }
        let mut pause = FIRST_LOOK;
        let mut exit = core::pin::pin!(started.process.wait());
        loop {
            let next = clock.now().saturating_add(pause).min(ends);
            let waited = select(exit.as_mut(), clock.sleep_until(next)).await;
            last = self.look(started, &last, clock.now()).await;
            match waited {
                Either::First(exit) => return Waited::Exited(exit),
                Either::Second(()) => {
                    if let Some(why) = self.is_spent() {
                        return Waited::Spent(why);
                    }
                    if clock.now() >= ends {
                        return Waited::Late;
                    }
                }
            }
            pause = pause.saturating_mul(2).min(LAST_LOOK);
        }
    }
}

/// The meter as the broker holds it.
pub struct MeterObject(pub Rc<Meter>);

impl ProgramMeterServer for MeterObject {
    async fn spent(&self, _cx: &CallContext) -> Result<ProgramsSpent, CallError> {
        let Meter { cpu, memory, .. } = &*self.0;
        Ok(ProgramsSpent { cpu_nanoseconds: cpu.get(), memory_kib_milliseconds: memory.get() })
    }

    async fn bound(&self, _cx: &CallContext, most: ProgramsSpent) -> Result<(), CallError> {
        self.0.most.set((most.cpu_nanoseconds, most.memory_kib_milliseconds));
        Ok(())
    }
}

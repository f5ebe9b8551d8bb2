//! What a session uses of services that count by themselves: programs, its home, transfer volumes.

use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;
use core::future::Future;

use capos_async_lock::AsyncMutex;
use capos_budget::{Amounts, Dimension, UNLIMITED};
use capos_rt::log;
use capos_schema::cap::CallError;
use capos_schema::storage::HomesClient;
use capos_schema::system::{ProgramMeterClient, ProgramsSpent};
use capos_schema::transfer::TransferVolumesClient;

/// How long a service may take to tell what it has counted, in nanoseconds. What it does not tell is told at the next look.
const PATIENCE: u64 = 1_000_000_000;
/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// The counts of one session's services.
pub struct Gauges {
    programs: Option<ProgramMeterClient>,
    homes: Option<HomesClient>,
    principal: String,
    volumes: Option<TransferVolumesClient>,
    /// What was counted at the last look; none of what was never told.
    cpu: Cell<Option<u64>>,
    memory: Cell<Option<u64>>,
    written: Cell<Option<u64>>,
    left: Cell<Option<u64>>,
    /// What programs may use in all.
    bound: Cell<Amounts>,
    turn: Rc<AsyncMutex>,
}

/// How much more it is than at the last look. A service that has restarted counts from nothing.
fn more(seen: &Cell<Option<u64>>, counted: Option<u64>) -> u64 {
    let Some(counted) = counted else { return 0 };
    match seen.replace(Some(counted)) {
        None => 0,
        Some(before) if counted >= before => counted.saturating_sub(before),
        Some(_) => counted,
    }
}

/// The answer of a service, if it comes in time.
async fn told<T>(call: impl Future<Output = Result<T, CallError>>) -> Option<T> {
    match capos_rt::timeout(PATIENCE, call).await {
        Ok(Ok(Ok(told))) => Some(told),
        Ok(Ok(Err(error))) => {
            log::debug!("the use of a session is counted later: {error}");
            None
        }
        _ => None,
    }
}

impl Gauges {
    /// Those of a session that holds a launcher with this meter, and a home in these, and these volumes.
    pub fn new(
        programs: Option<ProgramMeterClient>,
        (homes, principal): (Option<HomesClient>, &str),
        volumes: Option<TransferVolumesClient>,
    ) -> Rc<Self> {
        // No program has run yet.
        let counted = programs.is_some().then_some(0);
        Rc::new(Self {
            programs,
            homes,
            principal: principal.into(),
            volumes,
            cpu: Cell::new(counted),
            memory: Cell::new(counted),
            written: Cell::default(),
            left: Cell::default(),
            bound: Cell::new(Amounts::all(UNLIMITED)),
            turn: Rc::default(),
        })
    }

    /// What was used since the last look.
    pub async fn look(&self) -> Amounts {
        // One look at a time: an older count after a newer one would pass for a restart.
        let _turn = self.turn.lock().await;
        let mut used = Amounts::default();
        if let Some(programs) = &self.programs {
            let spent = told(programs.spent()).await;
            let cpu = spent.as_ref().map(|spent| spent.cpu_nanoseconds / MILLISECOND);
            used.set(Dimension::Cpu, more(&self.cpu, cpu));
            used.set(Dimension::Memory, more(&self.memory, spent.map(|spent| spent.memory_kib_milliseconds)));
        }
        if let Some(homes) = &self.homes {
            used.set(Dimension::Writes, more(&self.written, told(homes.written(&self.principal)).await));
        }
        if let Some(volumes) = &self.volumes {
            used.set(Dimension::Egress, more(&self.left, told(volumes.written()).await));
        }
        used
    }

    /// Has programs end when they have used this much more.
    pub async fn bind(&self, left: Amounts) {
        let Some(programs) = &self.programs else { return };
        let of = |seen: &Cell<Option<u64>>, dimension| {
            let left = left.get(dimension);
            if left == UNLIMITED { UNLIMITED } else { seen.get().unwrap_or_default().saturating_add(left) }
        };
        let bound = Amounts::of(Dimension::Cpu, of(&self.cpu, Dimension::Cpu))
            .with(Dimension::Memory, of(&self.memory, Dimension::Memory));
        if self.bound.get() == bound {
            return;
        }
        let cpu_nanoseconds = bound.get(Dimension::Cpu).saturating_mul(MILLISECOND);
        let most = ProgramsSpent { cpu_nanoseconds, memory_kib_milliseconds: bound.get(Dimension::Memory) };
        if told(programs.bound(&most)).await.is_some() {
            self.bound.set(bound);
        }
    }

    /// Why a dimension is not measured in this session; nothing if it is.
    pub fn unmeasured(&self, dimension: Dimension) -> &'static str {
        match dimension {
            Dimension::Cost => "no model reports a price",
            Dimension::Cpu | Dimension::Memory if self.programs.is_none() => "this session runs no programs",
            Dimension::Writes if self.homes.is_none() => "the files of this session are not kept",
            _ => "",
        }
    }
}

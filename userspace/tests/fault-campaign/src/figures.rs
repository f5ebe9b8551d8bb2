//! The machine's usage.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_rt::{Clock, Error};
use capos_schema::cap::CallError;
use capos_schema::storage::BlockDeviceClient;
use capos_schema::system::{ServiceInfo, ServiceState, SystemStatusClient};

use crate::patience::Patience;

/// The machine is at rest if nothing changes for this long, in nanoseconds, this many times in a row.
const PAUSE: u64 = 20_000_000;
const PAUSES: u32 = 10;
/// A machine that is not at rest after this many checks never will be.
const LOOKS: u32 = 5_000;

/// The smallest block of the kernel's heap, in bytes.
const BLOCK: u64 = 16;
/// One lost unit per this many kills counts as a leak. The first process is not killed. What it has in flight may
/// differ by 19 frames and 5 KiB of the kernel's heap, up or down.
const SHARE: u64 = 3;
/// The most bytes that a kept page of a file takes there: a group of pages, and two nodes above it.
const RECORD: u64 = 2 << 10;

/// The most bytes that the kernel's heap has for a frame of a process.
const HELD: u64 = 16;

/// The figures at rest.
pub struct Rest {
    /// The usage of the machine.
    figures: Figures,
    /// Frames of each service that is killed. A process may have more of its own memory in one instance than in
    /// another, by concurrent events; that ends with it.
    services: Vec<(String, u64)>,
}

impl Rest {
    /// The usage once the machine is at rest: nothing changes any more, no service starts, and no page-in is in flight.
    ///
    /// The service `own` is the one that kills.
    ///
    /// # Errors
    /// It does not come to rest.
    pub async fn now(
        status: &SystemStatusClient,
        disk: &BlockDeviceClient,
        clock: &Clock,
        patience: &Patience,
        own: &str,
    ) -> Result<Self, Error> {
        let (mut last, mut same) = (Figures::now(status).await?, 0_u32);
        for _ in 0..LOOKS {
            // That is answered after everything that others wait for now, however long the disk takes.
            patience.wait(disk.flush()).await??;
            clock.sleep(PAUSE).await;
            let now = Figures::now(status).await?;
            let services = status.services().await?;
            // The first process may read a program from a disk for longer than the pauses. No figure changes meanwhile.
            let starts = |info: &ServiceInfo| matches!(info.state, ServiceState::Starting | ServiceState::Restarting);
            let changes = now != last || services.iter().any(starts);
            same = if changes { 0 } else { same.saturating_add(1) };
            last = now;
            if same == PAUSES {
                let others = services.into_iter().filter(|info| info.name != own);
                let services = others.map(|info| (info.name, info.frames)).collect();
                return Ok(Self { figures: now, services });
            }
        }
        Err(Error::new("the machine does not come to rest"))
    }

    /// Frames of the services.
    fn held(&self) -> u64 {
        self.services.iter().fold(0, |sum: u64, (_, frames)| sum.saturating_add(*frames))
    }

    /// Frames that do not belong to a service: those of the kernel, the first process and the campaign. Reserved frames of a
    /// service count as in use.
    fn frames(&self) -> i64 {
        self.figures.frames.wrapping_sub(self.held()).cast_signed()
    }

    /// Whether frames were lost since `then`: at least one per [`SHARE`] kills.
    fn lost_frames(&self, then: &Self, kills: u64) -> bool {
        self.frames().saturating_sub(then.frames()) >= (kills / SHARE).cast_signed()
    }

    /// The same of the kernel's heap: a smallest block. There is a record of each page of a file that the kernel keeps.
    fn lost_heap(&self, then: &Self, kills: u64) -> bool {
        // The store is not killed, and grows with the records of each kill.
        let held = self.held().saturating_sub(then.held()).saturating_mul(HELD);
        let (now, then) = (&self.figures, &then.figures);
        let records = now.cached.abs_diff(then.cached).saturating_mul(RECORD).saturating_add(held);
        now.heap_bytes.saturating_sub(then.heap_bytes) >= (kills / SHARE).saturating_mul(BLOCK).saturating_add(records)
    }

    /// The differences between the services' frames, as text.
    fn difference(&self, before: &Self) -> String {
        let mut words = String::new();
        for ((name, now), (_, then)) in self.services.iter().zip(&before.services).filter(|(now, then)| now != then) {
            words.push_str(&format!(", `{name}` {now} frames where it had {then}"));
        }
        words
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { heap_bytes, cached, processes, threads, .. } = &self.figures;
        let frames = self.frames();
        write!(
            f,
            "{frames} frames beside the services' and {cached} pages of files, {heap_bytes} bytes in the kernel's heap, \
             {processes} processes, {threads} threads"
        )
    }
}

/// The figures at rest before a campaign, in it, and after it.
pub struct Ledger {
    before: Rest,
    /// With how often each service was killed since the one before.
    later: Vec<(Rest, u64)>,
}

impl Ledger {
    /// Begins with the figures before the first kill.
    pub const fn new(before: Rest) -> Self {
        Self { before, later: Vec::new() }
    }

    /// Records what was found after `kills` more kills of each service.
    pub fn note(&mut self, rest: Rest, kills: u64) {
        self.later.push((rest, kills));
    }

    /// Whether the machine holds at the end what it held before. A leak occurs with each kill, so that it shows in
    /// every part of the campaign; memory that a surviving process keeps for later, it keeps once.
    pub fn agrees(&self) -> bool {
        let rests = core::iter::once(&self.before).chain(self.later.iter().map(|(rest, _)| rest));
        let in_every_part = |lost: fn(&Rest, &Rest, u64) -> bool| {
            rests.clone().zip(&self.later).all(|(then, (now, kills))| lost(now, then, *kills))
        };
        let after = self.after();
        let runs = |rest: &Rest| (rest.figures.processes, rest.figures.threads);
        runs(after) == runs(&self.before) && !in_every_part(Rest::lost_frames) && !in_every_part(Rest::lost_heap)
    }

    fn after(&self) -> &Rest {
        self.later.last().map_or(&self.before, |(rest, _)| rest)
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "before there were {}", self.before)?;
        for (rest, kills) in &self.later {
            write!(f, "; after {kills} more kills of each service {rest}")?;
        }
        f.write_str(&self.after().difference(&self.before))
    }
}

/// The machine's usage. It is at rest when this stays the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Figures {
    /// Frames that are neither free nor pages of files, without those of the kernel's heap: their number depends on the
    /// order in which blocks were allocated and freed.
    frames: u64,
    /// Bytes of the kernel's heap.
    heap_bytes: u64,
    /// Pages of files that it keeps.
    cached: u64,
    /// Processes.
    processes: u32,
    /// Threads.
    threads: u32,
}

impl Figures {
    async fn now(status: &SystemStatusClient) -> Result<Self, CallError> {
        let statistics = status.statistics().await?;
        Ok(Self {
            frames: statistics
                .total_frames
                .saturating_sub(statistics.free_frames)
                .saturating_sub(statistics.cached_frames)
                .saturating_sub(statistics.heap_frames),
            cached: statistics.cached_frames,
            heap_bytes: statistics.heap_bytes,
            processes: statistics.processes,
            threads: statistics.threads,
        })
    }
}

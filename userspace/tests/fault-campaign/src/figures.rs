//! What the kernel holds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_rt::{Clock, Error};
use capos_schema::cap::CallError;
use capos_schema::storage::BlockDeviceClient;
use capos_schema::system::SystemStatusClient;

use crate::patience::Patience;

/// How long nothing may have changed for the machine to be at rest, in nanoseconds, so many times in a row.
const PAUSE: u64 = 20_000_000;
const PAUSES: u32 = 10;
/// A machine that is not at rest after so many looks never will be.
const LOOKS: u32 = 5_000;

/// What was found at rest.
pub struct Rest {
    /// What the kernel holds.
    pub figures: Figures,
    /// Frames of each service, to tell whose they are where the figures differ.
    services: Vec<(String, u64)>,
}

impl Rest {
    /// Where the frames differ, service by service; the rest is the kernel's, the first process's, or a program's.
    pub fn difference(&self, before: &Self) -> String {
        let mut words = String::new();
        for ((name, now), (_, then)) in self.services.iter().zip(&before.services).filter(|(now, then)| now != then) {
            words.push_str(&format!(", `{name}` {now} frames where it had {then}"));
        }
        words
    }
}

/// What the kernel holds. Pages of files that it keeps are not in it: they are as many as were read, and go when memory
/// is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Frames that are neither free nor pages of files, without those of the kernel's heap: how many these are depends on
    /// the order in which blocks were taken and given back.
    pub frames: u64,
    /// Bytes of the kernel's heap.
    pub heap_bytes: u64,
    /// Pages of files that it keeps.
    pub cached: u64,
    /// Processes.
    pub processes: u32,
    /// Threads.
    pub threads: u32,
}

/// The smallest block of the kernel's heap, in bytes.
const BLOCK: u64 = 16;
/// What a page of a file that is kept takes there at most, in bytes: a group of pages, and two nodes above it.
const RECORD: u64 = 2 << 10;

impl Figures {
    /// Whether this is what was held before so many kills: to the frame, the process and the thread, and in the heap at most
    /// less than one smallest block more for each kill. There is a record of each page of a file that the kernel keeps, and
    /// a process's table of capabilities is as large as it had to be.
    pub fn is_same(&self, before: &Self, kills: u64) -> bool {
        let heap = self.heap_bytes.saturating_sub(before.heap_bytes);
        let records = self.cached.abs_diff(before.cached).saturating_mul(RECORD);
        Self { heap_bytes: before.heap_bytes, cached: before.cached, ..*self } == *before
            && heap < kills.saturating_mul(BLOCK).saturating_add(records)
    }

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

    /// What it holds once the machine is at rest: nothing changes any more, and no page is on its way from the disk.
    ///
    /// # Errors
    /// It does not come to rest.
    pub async fn at_rest(
        status: &SystemStatusClient,
        disk: &BlockDeviceClient,
        clock: &Clock,
        patience: &Patience,
    ) -> Result<Rest, Error> {
        let (mut last, mut same) = (Self::now(status).await?, 0_u32);
        for _ in 0..LOOKS {
            // That is answered after what others wait for now, however long the disk takes.
            patience.wait(disk.flush()).await??;
            clock.sleep(PAUSE).await;
            let now = Self::now(status).await?;
            same = if now == last { same.saturating_add(1) } else { 0 };
            last = now;
            if same == PAUSES {
                let services = status.services().await?;
                let services = services.into_iter().map(|info| (info.name, info.frames)).collect();
                return Ok(Rest { figures: now, services });
            }
        }
        Err(Error::new("the machine does not come to rest"))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} frames and {} pages of files, {} bytes in its heap, {} processes, {} threads",
            self.frames, self.cached, self.heap_bytes, self.processes, self.threads
        )
    }
}

//! The same figures with more processes and with more capabilities: none of them may grow with either.

use capos_rt::Error;
use capos_schema::cap::{AsCap, Rights};
use capos_schema::kernel::CapabilityTableClient;

use crate::recorded::Recorded;
use crate::series::Series;
use crate::spawn::Spawner;
use crate::{Bench, entries, map};

/// The number of processes, the measuring one and its partner included.
const PROCESSES: [u64; 4] = [2, 10, 100, 1000];
/// Capabilities that the measuring process holds, besides the few that it works with.
const CAPABILITIES: [u64; 3] = [10, 1000, 100_000];
/// Operations of one ENTER while they are made.
const TOGETHER: u64 = 64;
/// How often each thing is measured at a point.
const ROUNDS: usize = 101;
/// The same for slower operations.
const FEW_ROUNDS: usize = 31;

impl Bench {
    /// All that must not grow, at one point.
    async fn point(&self, spawner: &Spawner, axis: &str, point: u64) -> Result<(), Error> {
        let series = Series::at(axis, point, ROUNDS);
        // First: its two threads queue after all that are ready, so from then on so do those that wait for ever. While
        // others are ready each exit from the kernel costs more: it checks whose turn it is.
        self.switches(&series).await?;
        self.null_call(&series).await?;
        self.ring_operation(&series)?;
        self.call_reply(&series).await?;
        self.call_reply_in_turns(&series).await?;
        self.call_reply_cap(&series).await?;
        self.cached_faults(&series).await?;
        let series = Series::at(axis, point, FEW_ROUNDS);
        map::measure(self, &series).await?;
        self.spawns(&series, spawner).await
    }

    /// While this process holds more and more capabilities, copies of one that its calls send.
    async fn capabilities(&self, spawner: &Spawner) -> Result<(), Error> {
        let table: CapabilityTableClient = self.env.cap("table")?;
        let original = self.given.as_cap().id();
        let derive =
            Recorded::of(async |table: CapabilityTableClient| table.derive(original, Rights::ALL.0).await.map(drop));
        let derive = derive.await?.entry(table.as_cap().id());
        let mut held = 0;
        for point in CAPABILITIES {
            while held < point {
                let more = (point - held).min(TOGETHER);
                (1..more).for_each(|_| entries::push(&derive));
                entries::run("a copy", &[derive])?;
                held += more;
            }
            self.point(spawner, "capabilities", point).await?;
        }
        table.revoke(original).await?;
        Ok(())
    }

    /// With more and more processes that wait, each with a copy of a capability that calls send.
    async fn processes(&self, spawner: &Spawner) -> Result<(), Error> {
        // The measuring one and the other side of each measurement.
        let mut there = 2;
        for point in PROCESSES {
            while there < point {
                spawner.idle()?;
                there += 1;
            }
            self.point(spawner, "processes", point).await?;
        }
        Ok(())
    }

    /// All curves.
    pub async fn curves(&self, spawner: &Spawner) -> Result<(), Error> {
        self.batches(ROUNDS).await?;
        self.capabilities(spawner).await?;
        self.processes(spawner).await
    }
}

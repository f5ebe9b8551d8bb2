//! Mapping memory that is there: 512 pages at once.

use capos_measure::{count, overhead};
use capos_rt::Error;
use capos_rt::memory::PAGE;
use capos_schema::cap::AsCap;
use capos_schema::kernel::{AddressSpaceAccess, AddressSpaceClient, MemoryObjectClient};

use crate::Bench;
use crate::entries;
use crate::recorded::Recorded;
use crate::series::Series;

/// Where this program maps what the runtime knows nothing of.
pub const OWN_ADDRESS: u64 = 0x0000_6000_0000_0000;
/// Pages of one call.
const PAGES: u64 = 512;
/// Not where a large page could begin, so that each page is mapped as one of 4 KiB.
const SMALL: u64 = OWN_ADDRESS + 3 * PAGE;
/// Where one can.
const LARGE: u64 = OWN_ADDRESS;

/// Maps 2 MiB of memory that has its frames, again and again.
pub async fn measure(bench: &Bench, series: &Series) -> Result<(), Error> {
    let memory: MemoryObjectClient = bench.account.create_memory(PAGES * PAGE).await?;
    let space: AddressSpaceClient = bench.env.cap("space")?;
    let access = AddressSpaceAccess { read: true, write: true, execute: false };
    let small = "AddressSpace.map of 512 pages of memory that has its frames, where no large page can begin, for each page; \
                 page tables included";
    let large = "the same where a large page can begin: one page of 2 MiB";
    for (name, address, per, how) in [("map_page_512", SMALL, PAGES, small), ("map_2m", LARGE, 1, large)] {
        let map =
            Recorded::of(async |space: AddressSpaceClient| space.map(&memory, address, 0, PAGES * PAGE, &access).await);
        let map = map.await?.entry(space.as_cap().id());
        let unmap = Recorded::of(async |space: AddressSpaceClient| space.unmap(address, PAGES * PAGE).await);
        let unmap = unmap.await?.entry(space.as_cap().id());
        let overhead = overhead();
        let mut samples = series.begin(name);
        for _ in 0..series.rounds {
            let from = count();
            entries::run("map", &[map])?;
            samples.add(from, count(), overhead);
            entries::run("unmap", &[unmap])?;
        }
        series.tell(name, samples, per, how);
    }
    Ok(())
}

//! Touching pages: of memory that a pager fills, and of memory that is in already.

use capos_measure::{count, overhead};
use capos_rt::Error;
use capos_rt::memory::{self, Access, PAGE};
use capos_schema::cap::Client;
use capos_schema::kernel::{MemoryObjectClient, PagerClient};

use crate::series::Series;
use crate::touch::touch;
use crate::{Bench, Partner};

/// Pages of the memory that is paged in.
const PAGES: u64 = 2048;
/// The same for a point of a curve.
const FEW_PAGES: u64 = 512;
/// Resident pages that the kernel maps at one fault, at most.
const AROUND: u64 = 16;
/// Pages of a window: its first touch brings in the rest.
const WINDOW: u64 = 32;

impl Bench {
    async fn pages(&self, part: &str, pages: u64) -> Result<(MemoryObjectClient, Partner), Error> {
        let partner = self.partner(part, 1, PagerClient::INTERFACE_ID).await?;
        let pager: PagerClient = partner.client.clone().cast();
        Ok((self.account.create_paged_memory(pages * PAGE, &pager).await?, partner))
    }

    /// Touches every page of memory that is not in yet; the cost of a page.
    fn cold(&self, series: &Series, name: &str, memory: &MemoryObjectClient, how: &str) -> Result<(), Error> {
        let mapping = memory::map(memory, 0, PAGES * PAGE, Access::Read)?;
        let overhead = overhead();
        let mut samples = series.begin(name);
        for window in 0..PAGES / WINDOW {
            let start = mapping.address() + window * WINDOW * PAGE;
            let from = count();
            for page in 0..WINDOW {
                touch(start + page * PAGE);
            }
            samples.add(from, count(), overhead);
        }
        series.tell(name, samples, WINDOW, how);
        Ok(())
    }

    /// Touches pages that are in, but not mapped yet.
    fn cached(&self, series: &Series, memory: &MemoryObjectClient, pages: u64) -> Result<(), Error> {
        let overhead = overhead();
        for (name, step, how) in [
            ("fault_cached", AROUND, "first touch of a page in the page cache, which maps it and the 15 after it"),
            ("fault_cached_per_page", 1, "the same, per page mapped"),
        ] {
            let mapping = memory::map(memory, 0, pages * PAGE, Access::Read)?;
            let mut samples = series.begin(name);
            for fault in 0..pages / AROUND {
                let address = mapping.address() + fault * AROUND * PAGE;
                let from = count();
                touch(address);
                samples.add(from, count(), overhead);
            }
            series.tell(name, samples, AROUND / step, how);
        }
        Ok(())
    }

    /// Faults that a pager answers, and faults that need none.
    pub async fn paging(&self, series: &Series) -> Result<(), Error> {
        let (empty, partner) = self.pages("empty-pager", PAGES).await?;
        self.cold(
            series,
            "page_in_4k_kernel",
            &empty,
            "cold page-in per 4 KiB, 32 at a time, from a pager that writes nothing",
        )?;
        partner.end().await?;
        let (full, partner) = self.pages("pager", PAGES).await?;
        let how = "the same from a pager that maps its window and writes every byte";
        self.cold(series, "page_in_4k_memory", &full, how)?;
        self.cached(series, &full, PAGES)?;
        partner.end().await
    }

    /// Faults that need no pager, alone.
    pub async fn cached_faults(&self, series: &Series) -> Result<(), Error> {
        let (memory, partner) = self.pages("empty-pager", FEW_PAGES).await?;
        let mapping = memory::map(&memory, 0, FEW_PAGES * PAGE, Access::Read)?;
        for page in 0..FEW_PAGES {
            touch(mapping.address() + page * PAGE);
        }
        self.cached(series, &memory, FEW_PAGES)?;
        partner.end().await
    }
}

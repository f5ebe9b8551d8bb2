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
/// Pages of 4 KiB in one of 2 MiB.
const LARGE: u64 = 512;

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

    /// Touches pages that are in, but not mapped yet, if no large page can be mapped: addresses and offsets in the
    /// memory differ by less than one.
    fn cached(&self, series: &Series, memory: &MemoryObjectClient, pages: u64) -> Result<(), Error> {
        let overhead = overhead();
        for (name, step, how) in [
            ("fault_cached", AROUND, "first touch of a page in the page cache, which maps it and the 15 after it"),
            ("fault_cached_per_page", 1, "the same, per page mapped"),
        ] {
            let mapping = memory::map(memory, AROUND * PAGE, (pages - AROUND) * PAGE, Access::Read)?;
            let mut samples = series.begin(name);
            for fault in 1..pages / AROUND {
                let address = mapping.address() + (fault - 1) * AROUND * PAGE;
                let from = count();
                touch(address);
                samples.add(from, count(), overhead);
            }
            series.tell(name, samples, AROUND / step, how);
        }
        Ok(())
    }

    /// Touches all pages that are in, but not mapped yet, each once: in their order, and in one in which hardly any is followed
    /// by a neighbour. The cost of a page, with the touches that find it mapped.
    fn cached_orders(series: &Series, memory: &MemoryObjectClient) -> Result<(), Error> {
        // Not a multiple of anything that divides the number of pages.
        const STRIDE: u64 = 1237;
        let overhead = overhead();
        for (name, stride, how) in [
            ("fault_cached_sequential", 1, "every page that is in touched once, in order, per page touched"),
            ("fault_cached_random", STRIDE, "the same in an order that jumps, per page touched"),
        ] {
            // If no large page can be mapped.
            let pages = PAGES - AROUND;
            let mapping = memory::map(memory, AROUND * PAGE, pages * PAGE, Access::Read)?;
            let mut samples = series.begin(name);
            let from = count();
            for touched in 0..PAGES {
                let page = touched * stride % PAGES;
                if page < pages {
                    touch(mapping.address() + page * PAGE);
                }
            }
            samples.add(from, count(), overhead);
            series.tell(name, samples, pages, how);
        }
        Ok(())
    }

    /// Touches large pages that are in, but not mapped yet.
    fn cached_large(series: &Series, memory: &MemoryObjectClient) -> Result<(), Error> {
        let (name, overhead) = ("fault_cached_2m", overhead());
        let mapping = memory::map(memory, 0, PAGES * PAGE, Access::Read)?;
        let mut samples = series.begin(name);
        for large in 0..PAGES / LARGE {
            let from = count();
            touch(mapping.address() + large * LARGE * PAGE);
            samples.add(from, count(), overhead);
        }
        series.tell(
            name,
            samples,
            1,
            "first touch of 2 MiB that lie in a row in the page cache, which maps them as one page",
        );
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
        Self::cached_orders(series, &full)?;
        Self::cached_large(series, &full)?;
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

//! Copying memory that is shared until one side writes, and the first write to a page of it.

use core::arch::asm;

use capos_measure::{count, overhead};
use capos_rt::Error;
use capos_rt::memory::{self, Access, PAGE};
use capos_schema::kernel::MemoryObjectClient;

use crate::Bench;
use crate::series::Series;

/// Pages of the memory.
const PAGES: u64 = 512;

/// Writes a byte of mapped memory, by an instruction of its own.
#[inline(always)]
fn write(address: u64) {
    // SAFETY: callers pass addresses inside mappings that they hold and may write, of memory without Rust objects.
    unsafe { asm!("mov byte ptr [{a}], 1", a = in(reg) address, options(nostack)) };
}

/// Copies 2 MiB, which a large page shows, and then writes to each page: first in the memory, then in its copy.
pub async fn measure(bench: &Bench, series: &Series) -> Result<(), Error> {
    let overhead = overhead();
    let memory: MemoryObjectClient = bench.account.create_memory(PAGES * PAGE).await?;
    let source = memory::map(&memory, 0, PAGES * PAGE, Access::ReadWrite)?;
    write(source.address());
    let mut copies = series.begin("copy_512");
    let from = count();
    let copy = memory.copy(&bench.account, 0, PAGES * PAGE).await?;
    copies.add(from, count(), overhead);
    let how =
        "MemoryObject.copy of 512 pages that a process shows, for each page: nothing but entries and counts is written";
    series.tell("copy_512", copies, PAGES, how);
    let copied = memory::map(&copy, 0, PAGES * PAGE, Access::ReadWrite)?;
    for (name, start, how) in [
        (
            "write_shared",
            source.address(),
            "first write to a page whose frame a copy has as well: a frame, 4 KiB copied",
        ),
        ("write_own", copied.address(), "the same where the other side has written: nobody else has the frame"),
    ] {
        let mut samples = series.begin(name);
        for page in 0..PAGES {
            let address = start + page * PAGE;
            let from = count();
            write(address);
            samples.add(from, count(), overhead);
        }
        series.tell(name, samples, 1, how);
    }
    Ok(())
}

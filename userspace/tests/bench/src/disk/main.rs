//! Measures a page-in from the disk: a mapped file of the boot medium, through the ISO 9660 server and
//! the disk driver. No other program runs, and none waits for a time, which would pass at once on a
//! machine that counts instructions. The line `bench NAME VALUE UNIT: HOW` goes to the log; then the
//! machine is ended.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

#[path = "../touch.rs"]
mod touch;

use capos_measure::{Samples, count, overhead};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Env, Error, log};
use capos_schema::kernel::IoPortsClient;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::SystemStatusClient;

use touch::touch;

/// A file that is large enough. Only its first page is in the page cache: a new memory object has a
/// cache of its own.
const FILE: &str = "boot/boot.tar";
/// The debug-exit device, and the value that means success.
const EXIT_PORT: u16 = 0xf4;
const PASSED: u32 = 0x10;
/// Pages of one sample: the kernel's largest window.
const WINDOW: u64 = 32;

async fn run(env: Env) -> Result<(), Error> {
    let medium: DirectoryClient = env.cap("medium")?;
    let file = medium.open(FILE).await.context("opening the model's file")?;
    let found = file.memory().await.context("its memory")?;
    let windows = found.bytes / (WINDOW * PAGE);
    let mapping = memory::map(&found.memory, 0, windows * WINDOW * PAGE, Access::Read)?;
    let (status, overhead) = (env.cap::<SystemStatusClient>("status")?, overhead());
    let mut samples = Samples::with_room(usize::try_from(windows).unwrap_or(0));
    for window in 0..windows {
        let start = mapping.address() + window * WINDOW * PAGE;
        // While the disk works nothing else does: that is time, not instructions.
        let idle = status.statistics().await?.idle_nanoseconds;
        let from = count();
        for page in 0..WINDOW {
            touch(start + page * PAGE);
        }
        // The first window was requested before: the file's headers were read.
        let to = count();
        let idle = status.statistics().await?.idle_nanoseconds.saturating_sub(idle);
        if window > 0 {
            samples.add(from, to, overhead.saturating_add(idle));
        }
    }
    let (value, words) = samples.median(WINDOW);
    log::info!(
        "bench page_in_4k {value} instructions: cold page-in per 4 KiB from the disk, 32 at a time, through ISO 9660 server and virtio driver; {words}"
    );
    let ports: IoPortsClient = env.cap("ports")?;
    ports.write(EXIT_PORT, 4, PASSED).await?;
    Ok(())
}

capos_rt::program!(run);

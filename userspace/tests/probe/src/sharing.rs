//! The pages of a file are read once, and shared by all processes that map it.

use alloc::format;
use alloc::vec::Vec;

use capos_abi::Rights;
use capos_rt::memory::FileMapping;
use capos_rt::{Context, Env, Error};
use capos_schema::cap::{AsCap, Client};
use capos_schema::kernel::{Limits, MachineStatistics, MemoryObjectClient};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{Grant, ProcessSpawnerClient, StandardClient, SystemStatusClient};

use crate::{Report, ensure};

/// The file that is mapped.
const FILE: &str = "boot/models/scripted.gguf";
/// The bytes of a page, as a length.
const PAGE: usize = capos_abi::PAGE as usize;
/// Frames that mapping a file may take besides its pages: page tables, bookkeeping, and other activity meanwhile.
const ASIDE: u64 = 1024;

fn touch(mapping: &FileMapping) -> u64 {
    mapping.iter().step_by(PAGE).fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

fn lost(before: &MachineStatistics, after: &MachineStatistics) -> u64 {
    before.free_frames.saturating_sub(after.free_frames)
}

/// Touches every page of a file twice, then lets another process map it too.
///
/// # Errors
/// A page is read twice, or takes more than one frame.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let status = env.cap::<SystemStatusClient>("status")?;
    let file = env.cap::<DirectoryClient>("medium")?.open(FILE).await?.memory().await?;
    let pages = file.bytes.div_ceil(PAGE as u64);
    let mapping = FileMapping::new(&file.memory, file.bytes)?;
    let start = status.statistics().await?;
    let sum = touch(&mapping);
    let cold = status.statistics().await?;
    let again = touch(&mapping);
    let warm = status.statistics().await?;
    let misses = cold.cache_misses.saturating_sub(start.cache_misses);
    ensure(sum == again, "the pages changed")?;
    ensure(misses > 0 && misses <= pages, format!("{misses} faults went to the pager for {pages} pages"))?;
    ensure(warm.cache_misses == cold.cache_misses, "pages that had been touched went to the pager again")?;
    let taken = lost(&start, &cold);
    let fits = taken >= pages.saturating_sub(ASIDE) && taken <= pages.saturating_add(ASIDE);
    ensure(fits, format!("{pages} pages took {taken} frames"))?;
    report.line(&format!("first: {pages} pages in one frame each, {misses} faults that went to the pager"));

    let grant = |name: &str, cap: &capos_schema::cap::Cap, interface: u64, rights: Rights| Grant {
        name: name.into(),
        capability: Client::from_cap(cap.clone()),
        interface,
        rights: rights.0,
    };
    let out = env.cap::<StandardClient>("out")?;
    let grants = Vec::from([
        grant("file", file.memory.as_cap(), MemoryObjectClient::INTERFACE_ID, Rights::READ.union(Rights::CALL)),
        grant("status", status.as_cap(), SystemStatusClient::INTERFACE_ID, Rights::CALL),
        grant("out", out.as_cap(), StandardClient::INTERFACE_ID, Rights::CALL),
    ]);
    let limits = Limits {
        frames: 2048,
        capabilities: 64,
        threads: 1,
        processes: 0,
        objects: 16,
        priority: 0,
        cpu_nanoseconds: 0,
    };
    let arguments = ["sharer".into(), format!("{}", file.bytes), format!("{sum}")];
    let spawner = env.cap::<ProcessSpawnerClient>("spawner")?;
    let process = spawner.spawn("sharer", "/bin/probe", &arguments, &grants, &limits).await?;
    let exit = process.wait().await?;
    ensure(exit.code == 0, format!("the second process: {}", exit.report))
}

/// The other process: it finds every page there already.
///
/// # Errors
/// It does not.
pub async fn second(env: &Env, report: &Report) -> Result<(), Error> {
    let number = |at: usize| env.arguments().get(at).and_then(|text| text.parse::<u64>().ok());
    let bytes = number(1).context("the first argument is the file's length")?;
    let wanted = number(2).context("the second argument is the sum of its pages")?;
    let status = env.cap::<SystemStatusClient>("status")?;
    let start = status.statistics().await?;
    let mapping = FileMapping::new(&env.cap::<MemoryObjectClient>("file")?, bytes)?;
    let sum = touch(&mapping);
    let end = status.statistics().await?;
    let (misses, taken) = (end.cache_misses.saturating_sub(start.cache_misses), lost(&start, &end));
    ensure(sum == wanted, "the two processes see different pages")?;
    ensure(misses == 0, format!("{misses} faults went to the pager again"))?;
    ensure(taken <= ASIDE, format!("the second mapping took {taken} frames"))?;
    report
        .line(&format!("second: {} pages, {taken} frames more, no fault that went to the pager", bytes / PAGE as u64));
    Ok(())
}

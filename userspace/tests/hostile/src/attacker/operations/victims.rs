//! The start of the random operations: objects of every kind, and processes that may be ended at any time.

use alloc::vec::Vec;

use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Error};
use capos_schema::cap::{AsCap, Client};
use capos_schema::kernel::{AddressSpaceAccess, Limits, MemoryObjectClient, PagerClient};

use super::Held;
use crate::kit::{self, Kit};

/// Where a victim's code is mapped. As a size it exceeds the machine's memory, so that no operation fills that much
/// with zeros.
pub const CODE: u64 = 0x1000_0000_0000;
/// Random addresses that are free in a victim.
pub const PLACES: u64 = 0x2000_0000_0000;
/// Where the rings of its first thread are.
const RING: u64 = 0x3000_0000_0000;

/// Loads from the first argument, stores to the second, ends the thread.
const TOUCH: [u8; 25] =
    [0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0xb8, 1, 0, 0, 0, 0xbf, 7, 0, 0, 0, 0xbe, 1, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b];
/// ENTER that takes nothing and waits for an answer, again and again.
const WAIT: [u8; 20] =
    [0x31, 0xc0, 0x31, 0xff, 0xbe, 1, 0, 0, 0, 0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x05, 0xeb, 0xec];
/// Ends the process.
const LEAVE: [u8; 13] = [0xb8, 1, 0, 0, 0, 0x31, 0xff, 0x31, 0xf6, 0x0f, 0x05, 0x0f, 0x0b];

/// Keeps a capability beyond its client: random operations decide its fate.
fn keep<C: AsCap + Client>(client: C) -> Held {
    let held = Held { id: kit::id(&client), interface: C::INTERFACE_ID };
    core::mem::forget(client);
    held
}

/// Memory that is neither paged nor a device's, and may be mapped into this process: its identifiers.
pub struct Safe(pub Vec<u64>);

/// Makes everything again.
///
/// # Errors
/// The account does not cover it: something was not freed.
pub async fn make(kit: &Kit, held: &mut Vec<Held>) -> Result<Safe, Error> {
    let endpoint = kit.account.create_endpoint().await.context("an endpoint")?;
    let client = endpoint.mint(3, kit::INTERFACE).await.context("a client")?;
    held.push(Held { id: kit::id(&client), interface: kit::INTERFACE });
    core::mem::forget(client);
    let pager: PagerClient = endpoint.mint(4, PagerClient::INTERFACE_ID).await.context("a pager's client")?.cast();
    let paged = kit.account.create_paged_memory(8 * PAGE, &pager).await.context("paged memory")?;
    held.extend([keep(endpoint), keep(pager), keep(paged)]);
    held.push(keep(kit.account.create_notification().await.context("a notification")?));
    let child =
        Limits { frames: 32, capabilities: 8, threads: 1, processes: 1, objects: 8, priority: 0, cpu_nanoseconds: 0 };
    held.push(keep(kit.account.carve(&child).await.context("an account")?));
    let code = memory::create(PAGE)?;
    {
        let mapping = memory::map(&code, 0, PAGE, Access::ReadWrite)?;
        mapping.write(0, &TOUCH)?;
        mapping.write(64, &WAIT)?;
        mapping.write(128, &LEAVE)?;
    }
    let mut safe = Safe(Vec::new());
    for pages in [1, 2, 4] {
        let memory = keep(memory::create(pages * PAGE)?);
        safe.0.push(memory.id);
        held.push(memory);
    }
    for _ in 0..2 {
        victim(kit, &code, held).await?;
    }
    held.push(keep(code));
    Ok(safe)
}

/// A process with code, a thread that waits, and nothing else.
async fn victim(kit: &Kit, code: &MemoryObjectClient, held: &mut Vec<Held>) -> Result<(), Error> {
    let limits =
        Limits { frames: 96, capabilities: 32, threads: 4, processes: 2, objects: 16, priority: 0, cpu_nanoseconds: 0 };
    let process = kit.account.create_process("victim", &limits).await.context("a victim")?;
    let space = process.address_space().await.context("its space")?;
    let access = AddressSpaceAccess { read: true, write: false, execute: true };
    space.map(code.as_cap(), CODE, 0, PAGE, &access).await.context("its code")?;
    let thread = process.create_thread(CODE + 64, 0, 0, 0, RING, 8, 16, 0).await.context("its thread")?;
    let (account, table) = (process.account().await?, process.table().await?);
    held.extend([keep(space), keep(thread), keep(account), keep(table), keep(process)]);
    Ok(())
}

//! Touching memory in ways that are not allowed, and mapping what must not be mapped.

use alloc::format;
use core::arch::asm;

use capos_abi::Status;
use capos_abi::bootstrap::{FIRST_RING, FIRST_STACK_TOP, LAUNCH_RECORD, PROGRAM_BASE, USER_END, USER_START};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Error};
use capos_schema::cap::{AsCap, CallError, Client};
use capos_schema::kernel::{AddressSpaceAccess, MemoryObjectClient, ObjectClient};

use crate::kit::{self, Kit};

/// Some address that is free in every process.
const FREE: u64 = 0x3000_0000_0000;

/// Reads a byte. An address that is not readable ends the process, which is the point.
pub fn touch(address: u64) -> u8 {
    let value: u8;
    // SAFETY: a load by an instruction of its own, so that the compiler assumes nothing about it.
    unsafe {
        asm!("mov {v}, byte ptr [{a}]", v = out(reg_byte) value, a = in(reg) address, options(nostack, readonly))
    };
    value
}

/// Writes a byte. An address that is not writable ends the process, which is the point.
pub fn poke(address: u64) {
    // SAFETY: as in `touch`. If the address is writable after all, the attack has succeeded and the
    // process reports that and ends.
    unsafe { asm!("mov byte ptr [{a}], 0x5a", a = in(reg) address, options(nostack)) };
}

/// Jumps to an address.
pub fn jump(address: u64) -> ! {
    // SAFETY: nothing is expected to be there; the process ends.
    unsafe { asm!("jmp {a}", a = in(reg) address, options(noreturn, nostack)) }
}

fn survived(what: &str, address: u64) -> Result<(), Error> {
    Err(Error::new(format!("{what} {address:#x} did no harm")))
}

/// `read:ADDRESS`, `write:ADDRESS`, `jump:ADDRESS`, with the address in hexadecimal digits.
pub fn access(verb: &str, address: u64) -> Result<(), Error> {
    match verb {
        "read" => {
            touch(address);
        }
        "write" => poke(address),
        _ => jump(address),
    }
    survived(verb, address)
}

/// Writes to its own constants, which are read-only.
pub fn write_constants() -> Result<(), Error> {
    poke(PROGRAM_BASE);
    survived("writing to", PROGRAM_BASE)
}

/// Writes to its own code.
pub fn write_code() -> Result<(), Error> {
    let code = (write_code as fn() -> Result<(), Error>) as usize as u64;
    poke(code);
    survived("writing to", code)
}

/// Writes to its launch record.
pub fn write_record() -> Result<(), Error> {
    poke(LAUNCH_RECORD);
    survived("writing to", LAUNCH_RECORD)
}

/// Executes data on its stack.
pub fn run_stack() -> Result<(), Error> {
    let code = core::hint::black_box([0xc3_u8; 64]);
    jump(code.as_ptr().expose_provenance() as u64)
}

/// Executes data in its heap.
pub fn run_heap() -> Result<(), Error> {
    let code = alloc::vec![0xc3_u8; 64];
    jump(core::hint::black_box(&code).as_ptr().expose_provenance() as u64)
}

/// Runs its ring.
pub fn run_ring() -> Result<(), Error> {
    jump(FIRST_RING)
}

/// Uses up its stack until it meets the page below.
pub fn overflow_stack() -> Result<(), Error> {
    fn deeper(depth: u64) -> u64 {
        let page = core::hint::black_box([depth; 128]);
        if core::hint::black_box(depth) == u64::MAX {
            return depth;
        }
        let below = deeper(core::hint::black_box(depth + 1));
        below + page.iter().sum::<u64>()
    }
    let depth = deeper(0);
    Err(Error::new(format!("the stack has no end ({depth})")))
}

async fn must_refuse(what: &str, result: Result<(), CallError>) -> Result<(), Error> {
    kit::ensure(result.is_err(), || format!("{what} was allowed"))
}

fn access_of(read: bool, write: bool, execute: bool) -> AddressSpaceAccess {
    AddressSpaceAccess { read, write, execute }
}

/// Asks for mappings that must be refused.
pub async fn maps(kit: &Kit) -> Result<(), Error> {
    let memory = memory::create(4 * PAGE)?;
    let read = access_of(true, false, false);
    let map = |address, offset, length, access: AddressSpaceAccess| {
        let (space, memory) = (kit.space.clone(), memory.clone());
        async move { space.map(memory.as_cap(), address, offset, length, &access).await }
    };
    for execute in [access_of(true, true, true), access_of(false, true, true)] {
        must_refuse("writable code", map(FREE, 0, PAGE, execute).await).await?;
    }
    let stack = FIRST_STACK_TOP - PAGE;
    for taken in [stack, FIRST_RING, LAUNCH_RECORD, PROGRAM_BASE, stack - 3 * PAGE, FIRST_RING - PAGE] {
        let length = 2 * PAGE;
        must_refuse("mapping over what is mapped", map(taken, 0, length, read.clone()).await).await?;
    }
    let ranges = [
        (0, PAGE),
        (USER_START - PAGE, PAGE),
        (USER_START - PAGE, 2 * PAGE),
        (USER_END, PAGE),
        (USER_END - PAGE, 2 * PAGE),
        (0x8000_0000_0000, PAGE),
        (0xffff_8000_0000_0000, PAGE),
        (0xffff_ffff_8000_0000, PAGE),
        (0xffff_ffff_ffff_f000, PAGE),
        (u64::MAX - 4095, PAGE),
        (FREE + 1, PAGE),
        (FREE + 8, PAGE),
        (FREE, 0),
        (FREE, 1),
        (FREE, PAGE + 8),
        (FREE, 5 * PAGE),
        (FREE, u64::MAX),
        (FREE, u64::MAX - 4095),
        (FREE, 1 << 63),
    ];
    for (address, length) in ranges {
        let what = format!("mapping {length:#x} bytes at {address:#x}");
        must_refuse(&what, map(address, 0, length, read.clone()).await).await?;
        if address != FREE || length % PAGE != 0 {
            let what = format!("unmapping {length:#x} bytes at {address:#x}");
            must_refuse(&what, kit.space.unmap(address, length).await).await?;
        }
    }
    for (offset, length) in [
        (4 * PAGE, PAGE),
        (3 * PAGE, 2 * PAGE),
        (1, PAGE),
        (u64::MAX - 4095, PAGE),
        (u64::MAX - 4095, 2 * PAGE),
        (1 << 63, PAGE),
    ] {
        let what = format!("mapping {length:#x} bytes from offset {offset:#x} of four pages");
        must_refuse(&what, map(FREE, offset, length, read.clone()).await).await?;
    }
    // Objects that cannot be mapped at all.
    for other in [kit.account.as_cap(), kit.endpoint.as_cap(), kit.client.as_cap(), kit.space.as_cap()] {
        must_refuse("mapping what is no memory", kit.space.map(other, FREE, 0, PAGE, &read).await).await?;
    }
    kit.still_served()
}

/// Maps through capabilities that lack the right.
pub async fn map_rights(kit: &Kit) -> Result<(), Error> {
    let memory = memory::create(PAGE)?;
    for (name, right, access) in [
        ("reading", capos_abi::Rights::READ, access_of(true, false, false)),
        ("writing", capos_abi::Rights::WRITE, access_of(true, true, false)),
        ("executing", capos_abi::Rights::EXECUTE, access_of(true, false, true)),
    ] {
        let weak = kit.table.derive(memory.as_cap().id(), !right.0).await?;
        let weak: MemoryObjectClient = capos_rt::adopt(weak);
        let result = kit.space.map(weak.as_cap(), FREE, 0, PAGE, &access).await;
        must_refuse(&format!("mapping for {name} without the right"), result).await?;
        let result = kit.space.map(memory.as_cap(), FREE, 0, PAGE, &access).await;
        kit::ensure(result.is_ok(), || format!("mapping for {name} with the right was refused: {result:?}"))?;
        kit.space.unmap(FREE, PAGE).await?;
    }
    kit.still_served()
}

/// Writes to memory that is mapped read-only while it is writable elsewhere.
pub async fn write_alias() -> Result<(), Error> {
    let memory = memory::create(PAGE)?;
    let writable = memory::map(&memory, 0, PAGE, Access::ReadWrite)?;
    let readable = memory::map(&memory, 0, PAGE, Access::Read)?;
    poke(writable.address());
    kit::ensure(touch(readable.address()) == 0x5a, || "two mappings of one page differ".into())?;
    poke(readable.address());
    survived("writing to", readable.address())
}

/// Touches memory whose capability it has revoked.
pub async fn revoked(kit: &Kit) -> Result<(), Error> {
    let memory = memory::create(PAGE)?;
    let derived = kit.table.derive(memory.as_cap().id(), u32::MAX).await?;
    let derived: MemoryObjectClient = capos_rt::adopt(derived);
    let mapping = memory::map(&derived, 0, PAGE, Access::ReadWrite)?;
    poke(mapping.address());
    kit.table.revoke(memory.as_cap().id()).await?;
    poke(mapping.address());
    survived("writing to", mapping.address())
}

/// Unmaps its own rings and continues to use the system calls.
pub async fn unmap_ring(kit: &Kit) -> Result<(), Error> {
    // Its answer is written to rings that it can no longer see.
    let answer = kit.space.unmap(FIRST_RING, 4 * PAGE);
    answer.await.context("unmapping the rings")?;
    survived("unmapping", FIRST_RING)
}

/// Unmaps its own code.
pub async fn unmap_code(kit: &Kit) -> Result<(), Error> {
    kit.space.unmap(PROGRAM_BASE, 1 << 30).await.context("unmapping the program")?;
    survived("unmapping", PROGRAM_BASE)
}

/// Unmaps its own stack.
pub async fn unmap_stack(kit: &Kit) -> Result<(), Error> {
    kit.space.unmap(FIRST_STACK_TOP - 64 * PAGE, 64 * PAGE).await.context("unmapping the stack")?;
    survived("unmapping", FIRST_STACK_TOP)
}

/// Unmaps everything that there could be.
pub async fn unmap_all(kit: &Kit) -> Result<(), Error> {
    kit.space.unmap(USER_START, USER_END - USER_START).await.context("unmapping everything")?;
    survived("unmapping from", USER_START)
}

/// Writes to the weights that it was given, and asks for a mapping that would let it.
pub async fn weights(kit: &Kit) -> Result<(), Error> {
    let weights: MemoryObjectClient = kit.env.cap("weights")?;
    let result = kit.space.map(weights.as_cap(), FREE, 0, PAGE, &access_of(true, true, false)).await;
    must_refuse("mapping the weights for writing", result).await?;
    let mapping = memory::map(&weights, 0, PAGE, Access::Read)?;
    kit::ensure(touch(mapping.address()) == crate::pager::CONTENT, || "the weights are not what they are".into())?;
    // The kernel must not write there either.
    let results = capos_abi::entry::Buffer { address: mapping.address(), length: 1024 };
    let caps = capos_abi::entry::CapArray::default();
    let params = capos_abi::entry::Buffer { address: kit.params, length: 16 };
    let account = capos_schema::kernel::ResourceAccountClient::INTERFACE_ID;
    let entry = kit::call(9, kit::id(&kit.account), account, 6, params, results, caps);
    kit::expect(&entry, Status::BadAddress).context("results into the weights")?;
    poke(mapping.address());
    survived("writing to", mapping.address())
}

/// Maps, unmaps, derives and revokes at random, in a small part of its space and with few objects, so
/// that everything meets everything.
pub async fn random(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut random = kit::Random::new(seed);
    let mut caps = alloc::vec::Vec::new();
    for _ in 0..3 {
        caps.push(memory::create(8 * PAGE)?);
    }
    for _ in 0..600 {
        let address = FREE + random.next() % 24 * PAGE;
        let length = (1 + random.next() % 8) * PAGE;
        let at = usize::try_from(random.next()).unwrap_or(0) % caps.len().max(1);
        let Some(memory) = caps.get(at) else { continue };
        match random.next() % 8 {
            0..=2 => {
                let access = access_of(true, random.next().is_multiple_of(2), false);
                let offset = random.next() % 9 * PAGE;
                drop(kit.space.map(memory.as_cap(), address, offset, length, &access).await);
            }
            3..=4 => drop(kit.space.unmap(address, length).await),
            5 => {
                let id = kit.table.derive(memory.as_cap().id(), u32::MAX).await;
                if let (Ok(id), true) = (id, caps.len() < 24) {
                    caps.push(capos_rt::adopt(id));
                }
            }
            6 => drop(kit.table.revoke(memory.as_cap().id()).await),
            _ if caps.len() > 3 => drop(caps.swap_remove(at)),
            _ => {}
        }
    }
    // Mapping an unmapped range works as before.
    kit.space.unmap(FREE, 40 * PAGE).await?;
    let memory = memory::create(40 * PAGE)?;
    kit.space
        .map(memory.as_cap(), FREE, 0, 40 * PAGE, &access_of(true, true, false))
        .await
        .context("a fresh mapping")?;
    poke(FREE + 39 * PAGE);
    kit.still_served()
}

/// Maps an object of another kind, by the wrong interface.
pub async fn confuse(kit: &Kit) -> Result<(), Error> {
    let memory: MemoryObjectClient = kit.account.clone().cast();
    kit::ensure(memory.info().await.is_err(), || "an account answered as memory".into())?;
    let object: ObjectClient = kit.account.clone().cast();
    kit::ensure(kit.space.map(object.as_cap(), FREE, 0, PAGE, &access_of(true, false, false)).await.is_err(), || {
        "an account was mapped".into()
    })?;
    kit.still_served()
}

//! Processes made by hand: one of 64 KiB up to its first instruction, and many that wait for ever.

use alloc::boxed::Box;

use capos_abi::bootstrap::{FIRST_RING, PROGRAM_BASE};
use capos_measure::count;
use capos_rt::memory::PAGE;
use capos_rt::{Env, Error};
use capos_schema::cap::{AsCap, Cap, Rights};
use capos_schema::kernel::{
    AddressSpaceAccess, AddressSpaceClient, Limits, MemoryObjectClient, ProcessClient, ResourceAccountClient,
};

use crate::entries;
use crate::map::OWN_ADDRESS;
use crate::recorded::Recorded;

/// Bytes of the measured process: half of them program, half of them data and stack.
const BYTES: u64 = 64 << 10;
const HALF: u64 = BYTES / 2;
/// Entries of its rings.
const RINGS: (u32, u32) = (8, 16);
/// Its limits.
const LIMITS: Limits =
    Limits { frames: 128, capabilities: 8, threads: 1, processes: 0, objects: 8, priority: 0, cpu_nanoseconds: 0 };

/// A program that exits at once; its code is the low half of the time-stamp counter at its first instruction.
const STAMP: [u8; 13] = [
    0x0f, 0x31, // rdtsc
    0x89, 0xc7, // mov edi, eax
    0xb8, 1, 0, 0, 0, // mov eax, EXIT
    0x31, 0xf6, // xor esi, esi
    0x0f, 0x05, // syscall
];
/// A program that waits for a completion that never comes.
const IDLE: [u8; 20] = [
    0x31, 0xc0, // xor eax, eax
    0x31, 0xff, // xor edi, edi
    0xbe, 1, 0, 0, 0, // mov esi, 1
    0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff, // mov rdx, NO_DEADLINE
    0x0f, 0x05, // syscall
    0xeb, 0xec, // jmp to the beginning
];

const CODE: AddressSpaceAccess = AddressSpaceAccess { read: true, write: false, execute: true };
const DATA: AddressSpaceAccess = AddressSpaceAccess { read: true, write: true, execute: false };

/// The bytes of a program, as its file would have them.
#[repr(C, align(4096))]
struct Program([u8; BYTES as usize]);

fn program(code: &[u8]) -> &'static [u8] {
    let mut program = Box::new(Program([0; BYTES as usize]));
    for (to, from) in program.0.iter_mut().zip(code) {
        *to = *from;
    }
    &Box::leak(program).0
}

/// Writes a program into memory that is mapped at [`OWN_ADDRESS`].
fn place(program: &[u8]) {
    let to = core::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(OWN_ADDRESS).unwrap_or(0));
    // SAFETY: callers have mapped at least as much memory there for writing, without references to it.
    unsafe { core::ptr::copy_nonoverlapping(program.as_ptr(), to, program.len()) };
}

/// Makes processes.
pub struct Spawner {
    account: ResourceAccountClient,
    space: AddressSpaceClient,
    stamp: &'static [u8],
    create_process: Recorded,
    address_space: Recorded,
    child_account: Recorded,
    create_memory: Recorded,
    map_here: Recorded,
    unmap_here: Recorded,
    map_code: Recorded,
    map_data: Recorded,
    create_thread: Recorded,
    wait: Recorded,
    /// A page with [`IDLE`], and how it gets into a process.
    idle: MemoryObjectClient,
    map_idle: Recorded,
    grant: Recorded,
}

impl Spawner {
    /// Lays out all calls that are needed to make a process; `given` is what the idle ones get.
    ///
    /// # Errors
    /// No memory.
    pub async fn new(env: &Env, given: &Cap) -> Result<Self, Error> {
        let (account, space): (ResourceAccountClient, AddressSpaceClient) = (env.cap("account")?, env.cap("space")?);
        let idle: MemoryObjectClient = account.create_memory(PAGE).await?;
        space.map(&idle, OWN_ADDRESS, 0, PAGE, &DATA).await?;
        place(&IDLE);
        space.unmap(OWN_ADDRESS, PAGE).await?;
        let top = PROGRAM_BASE + BYTES;
        let map = async |at: u64, offset: u64, length: u64, access: AddressSpaceAccess| {
            let memory = &idle;
            Recorded::of(async |space: AddressSpaceClient| space.map(memory, at, offset, length, &access).await).await
        };
        Ok(Self {
            stamp: program(&STAMP),
            create_process: Recorded::of(async |account: ResourceAccountClient| {
                account.create_process("spawned", &LIMITS).await.map(drop)
            })
            .await?,
            address_space: Recorded::of(async |process: ProcessClient| process.address_space().await.map(drop)).await?,
            child_account: Recorded::of(async |process: ProcessClient| process.account().await.map(drop)).await?,
            create_memory: Recorded::of(async |account: ResourceAccountClient| {
                account.create_memory(BYTES).await.map(drop)
            })
            .await?,
            map_here: map(OWN_ADDRESS, 0, BYTES, DATA).await?,
            unmap_here: Recorded::of(async |space: AddressSpaceClient| space.unmap(OWN_ADDRESS, BYTES).await).await?,
            map_code: map(PROGRAM_BASE, 0, HALF, CODE).await?,
            map_data: map(PROGRAM_BASE + HALF, HALF, HALF, DATA).await?,
            create_thread: Recorded::of(async |process: ProcessClient| {
                let (submissions, completions) = RINGS;
                let made = process.create_thread(PROGRAM_BASE, top, 0, 0, FIRST_RING, submissions, completions, 0);
                made.await.map(drop)
            })
            .await?,
            wait: Recorded::of(async |process: ProcessClient| process.wait().await.map(drop)).await?,
            map_idle: map(PROGRAM_BASE, 0, PAGE, CODE).await?,
            grant: Recorded::of(async |process: ProcessClient| process.grant(given, Rights::ALL.0).await.map(drop))
                .await?,
            account,
            space,
            idle,
        })
    }

    /// Makes a process of 64 KiB and waits for its end: instructions from the first call to its first one.
    ///
    /// # Errors
    /// The limits of the measuring process are reached.
    pub async fn spawn(&self) -> Result<u64, Error> {
        let (own_account, own_space) = (self.account.as_cap().id(), self.space.as_cap().id());
        let from = count();
        entries::run("createProcess", &[self.create_process.entry(own_account)])?;
        let process = self.create_process.received();
        entries::run("a process's own", &[self.address_space.entry(process), self.child_account.entry(process)])?;
        let (space, account) = (self.address_space.received(), self.child_account.received());
        entries::run("createMemory", &[self.create_memory.entry(account)])?;
        let memory = self.create_memory.received();
        for map in [&self.map_here, &self.map_code, &self.map_data] {
            map.send(memory);
        }
        entries::run("map", &[self.map_here.entry(own_space)])?;
        place(self.stamp);
        // Its thread runs when this one waits for its end.
        let last = [
            self.unmap_here.entry(own_space),
            self.map_code.entry(space),
            self.map_data.entry(space),
            self.create_thread.entry(process),
            self.wait.entry(process),
        ];
        entries::run("starting it", &last)?;
        let thread = self.create_thread.received();
        entries::run("releasing it", &[memory, thread, space, account].map(entries::release))?;
        // It has ended, and reports that each time it is asked.
        let process: ProcessClient = capos_rt::adopt(process);
        let exit = process.wait().await?;
        // The counter's low half is what its exit code can hold.
        let (first, start) = (exit.code.cast_unsigned(), from as u32);
        Ok(u64::from(first.wrapping_sub(start)))
    }

    /// Makes a process that waits for ever once it has run, and holds a copy of the capability that all of them get.
    ///
    /// # Errors
    /// The limits of the measuring process are reached.
    pub fn idle(&self) -> Result<(), Error> {
        entries::run("createProcess", &[self.create_process.entry(self.account.as_cap().id())])?;
        let process = self.create_process.received();
        entries::run("its space", &[self.address_space.entry(process)])?;
        let space = self.address_space.received();
        self.map_idle.send(self.idle.as_cap().id());
        let last = [self.map_idle.entry(space), self.grant.entry(process), self.create_thread.entry(process)];
        entries::run("starting it", &last)?;
        let thread = self.create_thread.received();
        entries::run("releasing it", &[space, thread].map(entries::release))
    }
}

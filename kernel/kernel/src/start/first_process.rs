//! The first process: found in the boot package, given everything there is to give.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;

use capnp::Word;
use capos_abi::bootstrap::{FIRST_RING, FIRST_STACK_BYTES, FIRST_STACK_TOP, LAUNCH_RECORD};
use capos_abi::{CapId, Rights, RingLayout, Status};
use capos_elf::{ElfError, Program, Segment};
use capos_schema::kernel_capnp::launch_record;
use capos_schema::sync::{self, Completion};
use capos_ustar::ArchiveError;

use crate::arch::{processors, time};
use crate::cpu::boot::{BootInfo, Module};
use crate::cpu::kernel_lock::Exclusive;
use crate::cpu::panic::refuse;
use crate::memory::page_table::Access;
use crate::memory::{frames, reserve};
use crate::object::account::{Account, Amounts};
use crate::object::address_space::{Backing, MapFailure};
use crate::object::capability::Object;
use crate::object::device::mmio::{self, Mmio};
use crate::object::device::ports::IoPorts;
use crate::object::memory::{MemoryObject, user_memory};
use crate::object::process::{Cause, End, Process};
use crate::object::reaper;
use crate::object::thread::{Start, Thread};
use crate::sched::scheduler;
use crate::start::tests;
use crate::syscall::methods::machine;

/// Name of the boot package, as the path or the words behind it end.
const PACKAGE: &str = "boot.tar";
/// Name of the first program in it.
const PROGRAM: &str = "init";
/// Frames that no account can have, at least: for the kernel's heap.
const RESERVED_FRAMES: u64 = 2048;
/// The part of memory that is reserved on large machines.
const RESERVED_PART: u64 = 16;
/// What the kernel's heap holds of a capability, its place in the derivation forest included, and of
/// an object, in bytes, with what growing tables waste.
const CAPABILITY_BYTES: u64 = 320;
const OBJECT_BYTES: u64 = 512;
/// Threads and processes that there can be. Their kernel memory is charged as frames.
const THREADS: u64 = 4096;
const PROCESSES: u64 = 1024;
/// Entries of the first thread's rings.
const SUBMISSIONS: u32 = 256;
const COMPLETIONS: u32 = 512;

/// Why there is no first process.
pub enum Failure {
    /// The boot loader brought no boot package.
    NoPackage,
    /// The boot package is no whole archive.
    Package(ArchiveError),
    /// The first program is not in it.
    NoProgram,
    /// The first program's file is no program.
    Program(ElfError),
    Words(&'static str),
    Status(Status),
    Map(MapFailure),
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::Package(error)
    }
}

impl From<ElfError> for Failure {
    fn from(error: ElfError) -> Self {
        Self::Program(error)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<MapFailure> for Failure {
    fn from(failure: MapFailure) -> Self {
        Self::Map(failure)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AGAIN: &str = "; write the image to its medium again, or build it again";
        match self {
            Self::NoPackage => {
                write!(f, "the boot loader brought no {PACKAGE}; its configuration has to name it as a module")
            }
            Self::Package(error) => write!(f, "{PACKAGE} is damaged: {error}{AGAIN}"),
            Self::NoProgram => write!(f, "{PACKAGE} holds no `{PROGRAM}`{AGAIN}"),
            Self::Program(error) => write!(f, "`{PROGRAM}` in {PACKAGE} cannot be loaded: {error}{AGAIN}"),
            Self::Words(words) => f.write_str(words),
            Self::Status(status) => f.write_str(status.words()),
            Self::Map(failure) => f.write_str(failure.words()),
        }
    }
}

/// Makes the first process and its thread ready to run. A machine without one stops with a sentence.
pub fn start(lock: &mut Exclusive, boot: BootInfo) {
    mmio::set_ram(boot.ram.clone());
    let boot = machine::set_boot(boot);
    let account = Account::root(limits(frames::free_count() as u64));
    reserve::keep(reserve::FRAMES);
    tests::run(&boot.command_line, &account);
    match prepare(lock, boot, account) {
        Ok(thread) => {
            reaper::set_first(thread.process.id);
            scheduler::wake(lock, &thread);
        }
        Err(failure) => refuse(format_args!("the first process cannot start: {failure}")),
    }
    machine::INIT_START.store(time::tsc(), Ordering::Relaxed);
}

/// What all processes together can have. What they can make the kernel's heap hold always fits in
/// what is reserved for it.
fn limits(free: u64) -> Amounts {
    let reserved = (free / RESERVED_PART).max(RESERVED_FRAMES);
    let bytes = reserved.saturating_mul(capos_elf::PAGE);
    [free.saturating_sub(reserved), bytes / 2 / CAPABILITY_BYTES, THREADS, PROCESSES, bytes / 4 / OBJECT_BYTES]
}

fn package(boot: &BootInfo) -> Option<&Module> {
    boot.modules.iter().find(|module| module.path.ends_with(PACKAGE) || module.command_line.ends_with(PACKAGE))
}

/// Makes the first process; gives its thread, which does not run yet.
///
/// # Errors
/// The boot package lacks something, or there is no memory. Nothing is left of the process then.
pub fn prepare(lock: &mut Exclusive, boot: &BootInfo, account: Arc<Account>) -> Result<Arc<Thread>, Failure> {
    let module = package(boot).ok_or(Failure::NoPackage)?;
    // All of the package is looked at, so that `init` need not doubt that it is whole.
    let image = capos_ustar::find(module.bytes, PROGRAM)?.ok_or(Failure::NoProgram)?;
    let program = Program::parse(image, image.len() as u64)?;
    let process = Process::new(lock, String::from(PROGRAM), account, None)?;
    let thread = furnish(lock, &process, module, &program, image);
    if thread.is_err() {
        process.doom(lock, End { cause: Cause::Exited, code: 0, report: String::new() });
    }
    thread
}

/// Gives the first process its memory, its capabilities and its thread.
fn furnish(
    lock: &mut Exclusive,
    process: &Arc<Process>,
    module: &Module,
    program: &Program,
    image: &[u8],
) -> Result<Arc<Thread>, Failure> {
    for segment in program.segments() {
        load(lock, process, segment, image)?;
    }
    let writable = Access { read: true, write: true, ..Access::default() };
    let stack = MemoryObject::anonymous(lock, &process.account, FIRST_STACK_BYTES)?;
    process.space.map(
        lock,
        Backing::Memory(stack),
        (FIRST_STACK_TOP - FIRST_STACK_BYTES, FIRST_STACK_BYTES),
        0,
        writable,
        None,
    )?;
    let record = launch_record(process, module)?;
    let bytes = Word::words_to_bytes(&record);
    let memory = MemoryObject::anonymous(lock, &process.account, bytes.len() as u64)?;
    if !user_memory::fill(&memory, 0, bytes) {
        return Err(Failure::Words("its launch record does not fit"));
    }
    let length = memory.bytes();
    let readable = Access { read: true, ..Access::default() };
    process.space.map(lock, Backing::Memory(memory), (LAUNCH_RECORD, length), 0, readable, None)?;
    let thread = scheduler::new_thread(
        lock,
        process,
        Start {
            entry: program.entry,
            stack: FIRST_STACK_TOP,
            arguments: [LAUNCH_RECORD, bytes.len() as u64],
            ring: FIRST_RING,
            layout: RingLayout::new(SUBMISSIONS, COMPLETIONS)?,
            thread_pointer: 0,
        },
    )?;
    Ok(thread)
}

fn load(lock: &mut Exclusive, process: &Process, segment: &Segment, image: &[u8]) -> Result<(), Failure> {
    let memory = MemoryObject::anonymous(lock, &process.account, segment.memory_bytes)?;
    let start = usize::try_from(segment.file_offset).map_err(|_| Status::InvalidArgument)?;
    let length = usize::try_from(segment.file_bytes).map_err(|_| Status::InvalidArgument)?;
    let bytes = image.get(start..).and_then(|rest| rest.get(..length)).ok_or(Status::InvalidArgument)?;
    if !user_memory::fill(&memory, 0, bytes) {
        return Err(Failure::Words("a segment of `init` does not fit"));
    }
    let access = Access { read: true, write: segment.write, execute: segment.execute, device: false };
    process.space.map(lock, Backing::Memory(memory), (segment.address, segment.memory_bytes), 0, access, None)?;
    Ok(())
}

/// What the first process is given, by name.
fn endowment(process: &Arc<Process>, module: &Module) -> Vec<(&'static str, Object, Rights)> {
    let mut all = alloc::vec![
        ("account", Object::Account(Arc::clone(&process.account)), Rights::ALL),
        ("space", Object::Space(Arc::clone(&process.space)), Rights::ALL),
        ("table", Object::Table(Arc::clone(process)), Rights::ALL),
        ("ports", Object::Ports(IoPorts { first: 0, count: 0x1_0000 }), Rights::ALL),
        ("mmio", Object::Mmio(Mmio { address: 0, bytes: mmio::PHYSICAL_END }), Rights::ALL),
        ("interrupts", Object::Interrupts, Rights::ALL),
        ("dma", Object::DmaDomain, Rights::ALL),
        ("timer", Object::Timer, Rights::ALL),
        ("clock", Object::Timer, Rights::ALL),
        ("entropy", Object::Entropy, Rights::ALL),
        ("log", Object::Log, Rights::ALL),
        ("machine", Object::Machine, Rights::ALL),
    ];
    if let Some((first, count)) = module.frames {
        let memory = MemoryObject::fixed(first, (count as u64).saturating_mul(capos_elf::PAGE));
        let rights = Rights::READ.union(Rights::CALL).union(Rights::GRANT);
        all.push(("boot", Object::Memory(memory), rights));
    }
    all
}

fn launch_record(process: &Arc<Process>, module: &Module) -> Result<Vec<Word>, Failure> {
    let mut given: Vec<(&str, CapId, u64)> = Vec::new();
    for (name, object, rights) in endowment(process, module) {
        let interface = object.interface();
        given.push((name, process.insert(object, rights, None)?, interface));
    }
    let answer = sync::results(|builder| {
        let mut record: launch_record::Builder<'_> = builder.init_as();
        record.set_name(PROGRAM);
        record.set_processors(processors::count() as u32);
        let mut list = record.init_capabilities(given.len() as u32);
        for (index, (name, id, interface)) in (0_u32..).zip(&given) {
            let mut capability = list.reborrow().get(index);
            capability.set_name(*name);
            capability.set_id(id.0);
            capability.set_interface(*interface);
        }
        Ok(Completion::Done)
    });
    answer.map(|answer| answer.words).map_err(|_| Failure::Words("its launch record cannot be made"))
}

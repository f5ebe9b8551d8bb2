//! Starting further processors.
//!
//! A processor that is started begins in real mode at a page below 1 MiB. The code there turns paging and long mode on
//! with tables of its own, which show that page and the kernel half, and continues in Rust.

use alloc::boxed::Box;
use core::arch::global_asm;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use capos_machine::page_entry::{Flags, PAGE, PageEntry};
use capos_machine::range::Range;
use spin::Mutex;

use crate::arch::gdt::{self, Segments, TaskStateSegment};
use crate::arch::percpu::{self, PerCpu, Prepared};
use crate::arch::{apic, cpu, entry, idt, processors, time};
use crate::cpu::kernel_lock;
use crate::events;
use crate::log;
use crate::memory::frames::Frame;
use crate::memory::heap::try_box;
use crate::memory::kernel_space::{self, SpaceError, Stack};
use crate::sched::CpuState;
use crate::syscall::bound_call::RecentCalls;

/// Pages that starting needs below 1 MiB: the code, and three page tables.
pub const PAGES: u64 = 4;
/// The firmware's and the screen's memory begins here.
pub const LOW_END: u64 = 0xa_0000;

/// How long a processor may take from its reset to the start command, and from there to its first word, nanoseconds.
const RESET: u64 = 10_000_000;
const REPEAT: u64 = 200_000;
const PATIENCE: u64 = 200_000_000;
/// How often a processor's clock is compared with that of the first.
const CLOCK_QUESTIONS: u32 = 16;

/// Where in the page the code finds what differs: its top table, its stack, where to go, and its number.
const DATA: usize = 0xf00;
/// The segments for the way to long mode: none, code.
const SEGMENTS: usize = 0xf40;
/// What `lgdt` takes, and where the far jump goes.
const SEGMENTS_POINTER: usize = 0xf60;
const FAR: usize = 0xf70;

// It lies in constants, since no processor runs it where it lies. All its addresses are offsets into the page that it is copied
// to, at which its code segment begins.
global_asm!(
    ".pushsection .rodata.startup, \"a\", @progbits",
    ".global startup_code, startup_long, startup_end",
    "startup_code:",
    ".code16",
    "cli",
    "cld",
    "movw %cs, %ax",
    "movw %ax, %ds",
    "movl {data}, %eax",
    "movl %eax, %cr3",
    // Physical address extension.
    "movl $0x20, %eax",
    "movl %eax, %cr4",
    // Long mode, and pages that cannot be executed.
    "movl $0xc0000080, %ecx",
    "rdmsr",
    "orl $0x900, %eax",
    "wrmsr",
    "lgdtl {segments}",
    // Paging and protection at once: this goes from real mode to long mode.
    "movl %cr0, %eax",
    "andl $0x9fffffff, %eax",
    "orl $0x80000001, %eax",
    "movl %eax, %cr0",
    "ljmpl *{far}",
    ".code64",
    "startup_long:",
    "leaq startup_code(%rip), %rbx",
    "movq {data} + 8(%rbx), %rsp",
    "movq {data} + 24(%rbx), %rdi",
    "xorl %ebp, %ebp",
    "callq *{data} + 16(%rbx)",
    "ud2",
    "startup_end:",
    ".popsection",
    data = const DATA,
    segments = const SEGMENTS_POINTER,
    far = const FAR,
    options(att_syntax)
);

unsafe extern "C" {
    static startup_code: u8;
    static startup_long: u8;
    static startup_end: u8;
}

/// What a processor that was started and the one that waits for it tell each other: in this order, but that the last may
/// come at any time. One that is refused is reset, and waits to be started again.
const AWAITED: u32 = 0;
const READY: u32 = 1;
const ACCEPTED: u32 = 2;
const JOINED: u32 = 3;
const REFUSED: u32 = 4;
static STATE: AtomicU32 = AtomicU32::new(AWAITED);
/// How often the first processor has asked for the time, and how often it was told.
static ASKED: AtomicU32 = AtomicU32::new(0);
static TOLD: AtomicU32 = AtomicU32::new(0);
/// The segments of the processor that is started next.
static SEGMENTS_OF_NEXT: AtomicPtr<Segments> = AtomicPtr::new(core::ptr::null_mut());
/// What it was told, by the other one's clock.
static TOLD_TIME: AtomicU64 = AtomicU64::new(0);
/// Ticks per second of the APICs' counters.
static COUNTER_HERTZ: AtomicU64 = AtomicU64::new(0);

/// Where further processors can begin: pages below 1 MiB that nothing uses.
pub fn home(usable: impl Iterator<Item = Range>) -> Option<Frame> {
    usable
        .map(|range| Range { start: range.start.max(PAGE), end: range.end.min(LOW_END) }.inner_pages())
        .find(|range| !range.is_empty() && range.length() >= PAGES * PAGE)
        .map(|range| Frame::from_address(range.start))
}

/// Starts the processors with these identifiers, of which this is none; `home` is where they begin.
pub fn start(identifiers: &[u32], home: Frame, counter_hertz: u64) {
    if identifiers.is_empty() {
        return;
    }
    COUNTER_HERTZ.store(counter_hertz, Ordering::Relaxed);
    prepare(home);
    let reached = || identifiers.iter().copied().filter(|identifier| apic::reaches(*identifier));
    reached().for_each(apic::reset);
    pause(RESET);
    for identifier in reached() {
        if processors::count() == processors::MOST {
            log!("warning: there are more processors than {}; the rest are not used", processors::MOST);
            break;
        }
        if let Err(reason) = start_one(identifier, home) {
            apic::reset(identifier);
            log!("warning: the processor with APIC identifier {identifier} is not used: {reason}");
        }
    }
}

/// Resets all other processors: they run nothing any more, until they are started again.
#[cfg(feature = "tests")]
pub fn reset_others() {
    processors::others().for_each(|other| apic::reset(other.apic_id.load(Ordering::Relaxed)));
    pause(RESET);
}

fn pause(nanoseconds: u64) {
    let end = time::now().saturating_add(nanoseconds);
    while time::now() < end {
        core::hint::spin_loop();
    }
}

/// Writes a word into the code's page.
fn write(home: Frame, offset: usize, value: u64) {
    // SAFETY: the page is RAM below 1 MiB that nothing else uses, in the direct map; the offsets are those of the
    // constants above, aligned to 8.
    unsafe { home.pointer().add(offset).cast::<u64>().write_volatile(value) };
}

/// Writes code and page tables.
fn prepare(home: Frame) {
    let (code, end) = (&raw const startup_code, &raw const startup_end);
    let length = (end as usize).saturating_sub(code as usize);
    // SAFETY: the code is shorter than a page, which is RAM that nothing else uses.
    unsafe { copy_nonoverlapping(code, home.pointer(), length.min(DATA)) };
    let [top, middle, low] = [1, 2, 3].map(|n| home.offset(n));
    let kernel = kernel_space::root();
    for index in 0..512_usize {
        let at = index << 3;
        // The kernel half as it is everywhere, and below it the first 2 MiB.
        // SAFETY: the kernel's top table is a frame in the direct map.
        let shared = unsafe { kernel.pointer().add(at).cast::<u64>().read_volatile() };
        let (first, second, third) = match index {
            0 => (
                PageEntry::new(middle.address(), Flags::PRESENT | Flags::WRITE).0,
                PageEntry::new(low.address(), Flags::PRESENT | Flags::WRITE).0,
                PageEntry::new(0, Flags::PRESENT | Flags::WRITE | Flags::LARGE).0,
            ),
            1..256 => (0, 0, 0),
            _ => (shared, 0, 0),
        };
        write(top, at, first);
        write(middle, at, second);
        write(low, at, third);
    }
    let base = home.address();
    // A code segment of 64 bits.
    write(home, SEGMENTS, 0);
    write(home, SEGMENTS + 8, 0x0020_9a00_0000_0000);
    let table = base.saturating_add(SEGMENTS as u64);
    write(home, SEGMENTS_POINTER, table << 16 | 15);
    let long = (&raw const startup_long as u64).saturating_sub(code as u64);
    write(home, FAR, 8 << 32 | base.saturating_add(long));
}

/// Makes the segments of a processor. `stack_top` is where entries from user mode start.
///
/// # Errors
/// Where no memory is left for them or for its stacks.
pub fn segments(stack_top: u64) -> Result<&'static Segments, SpaceError> {
    let stacks = [Stack::new()?, Stack::new()?, Stack::new()?];
    let task = try_box(TaskStateSegment::new()).ok_or(SpaceError::NoMemory)?;
    let table = try_box(Segments::empty()).ok_or(SpaceError::NoMemory)?;
    let ([task], [table]) = (Box::leak(task), Box::leak(table));
    Ok(gdt::prepare(table, task, stack_top, stacks.map(Stack::keep)))
}

/// The data of a processor before its first use.
pub struct Data {
    room: Box<[Prepared; 1]>,
    scheduler: CpuState,
}

impl Data {
    /// Makes them; `None` where there is no memory.
    pub fn new(index: u32, stack_top: u64) -> Option<Self> {
        Some(Self { room: try_box(Prepared::new(index, stack_top))?, scheduler: CpuState::new(index)? })
    }

    /// They are used from now on, and for good.
    pub fn keep(self) -> &'static PerCpu {
        let [room] = Box::leak(self.room);
        room.keep(Mutex::new(self.scheduler), RecentCalls::new())
    }
}

/// Segments and data of the next processor.
fn prepare_one() -> Result<(&'static Segments, &'static PerCpu), SpaceError> {
    let stack = Stack::new()?;
    let top = stack.top();
    let data = Data::new(processors::count() as u32, top).ok_or(SpaceError::NoMemory)?;
    let segments = segments(top)?;
    stack.keep();
    Ok((segments, data.keep()))
}

fn start_one(identifier: u32, home: Frame) -> Result<(), &'static str> {
    // All that it needs is there before it runs: it finds memory for itself nowhere.
    let (segments, data) = prepare_one().map_err(|_| "no memory is left for its stacks and data")?;
    SEGMENTS_OF_NEXT.store(core::ptr::from_ref(segments).cast_mut(), Ordering::Relaxed);
    write(home, DATA, home.offset(1).address());
    write(home, DATA + 8, data.stack_top());
    write(home, DATA + 16, begin as *const () as u64);
    write(home, DATA + 24, core::ptr::from_ref(data) as u64);
    STATE.store(AWAITED, Ordering::Release);
    let page = u8::try_from(home.address() / PAGE).map_err(|_| "it begins too high")?;
    let before = time::now();
    apic::start(identifier, page);
    pause(REPEAT);
    if STATE.load(Ordering::Acquire) == AWAITED {
        apic::start(identifier, page);
    }
    while STATE.load(Ordering::Acquire) == AWAITED {
        if time::now().saturating_sub(before) > PATIENCE
            && STATE.compare_exchange(AWAITED, REFUSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            return Err("it did not start");
        }
        core::hint::spin_loop();
    }
    if !clocks_agree() {
        return Err("its clock differs from that of the first");
    }
    if !processors::add(data) {
        return Err("there is no place for it");
    }
    STATE.store(ACCEPTED, Ordering::Release);
    // It runs, so it comes; nothing may be told to the next one before.
    while STATE.load(Ordering::Acquire) != JOINED {
        core::hint::spin_loop();
    }
    Ok(())
}

/// Asks a processor for the time, again and again: each answer must lie between two looks at the own clock.
fn clocks_agree() -> bool {
    (0..CLOCK_QUESTIONS).all(|_| {
        let number = ASKED.load(Ordering::Relaxed).wrapping_add(1);
        let before = time::now();
        ASKED.store(number, Ordering::Release);
        while TOLD.load(Ordering::Acquire) != number {
            core::hint::spin_loop();
        }
        (before..=time::now()).contains(&TOLD_TIME.load(Ordering::Relaxed))
    })
}

/// A further processor's first Rust code, on its own stack, with its data.
extern "C" fn begin(data: &'static PerCpu) -> ! {
    // SAFETY: code and stack lie in the kernel half, which is the same there.
    unsafe { kernel_space::load_root(kernel_space::root()) };
    cpu::join();
    // SAFETY: made for good, and noted before this processor was started.
    let segments = unsafe { SEGMENTS_OF_NEXT.load(Ordering::Acquire).as_ref() };
    segments.into_iter().for_each(gdt::load);
    percpu::load(data);
    data.set_root(kernel_space::root().address());
    idt::load();
    entry::initialize();
    // SAFETY: `map_device` maps as it wants it.
    let ready = unsafe { apic::initialize(0, kernel_space::map_device) }.is_ok();
    let ready = ready && apic::initialize_timer(COUNTER_HERTZ.load(Ordering::Relaxed));
    let ready = ready && STATE.compare_exchange(AWAITED, READY, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !ready {
        crate::arch::exit::halt();
    }
    while STATE.load(Ordering::Acquire) == READY {
        let asked = ASKED.load(Ordering::Acquire);
        if asked != TOLD.load(Ordering::Relaxed) {
            TOLD_TIME.store(time::now(), Ordering::Relaxed);
            TOLD.store(asked, Ordering::Release);
        }
        core::hint::spin_loop();
    }
    STATE.store(JOINED, Ordering::Release);
    events::leave(kernel_lock::acquire(data))
}

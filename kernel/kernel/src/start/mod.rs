//! From the loader's jump to the first scheduled thread.

pub mod acpi;
pub mod first_process;
pub mod startup;
mod tests;

use alloc::vec::Vec;
use core::fmt;

use capos_machine::acpi::madt::{Entry, Madt};
use capos_machine::range::Range;

use crate::arch::{
    apic, calibration, clock, cpu, entry, exit, gdt, idt, io_apic, percpu, pic, processors, serial, time,
};
use crate::cpu::boot::{self, BootInfo, Handover};
use crate::cpu::panic::refuse;
use crate::cpu::{entropy, kernel_lock};
use crate::events;
use crate::log;
use crate::memory::frames::{self, Frame};
use crate::memory::kernel_space::{self, SpaceError, Stack};
use crate::memory::{heap, hhdm};

/// The least memory of a machine, in MiB.
const LEAST_MEMORY: u64 = 256;

/// What firmware and devices may take of it, in MiB. QEMU's firmware takes 4 to 10.
const OF_FIRMWARE: u64 = 16;

/// What is carried from the loader's stack to the kernel's own.
struct Start {
    handover: Handover,
    /// Time-stamp counter at the first instruction.
    tsc: u64,
    stack_top: u64,
}

/// Where the loader jumps to: interrupts off, paging on, on a stack of the loader's.
#[unsafe(no_mangle)]
pub extern "C" fn kernel_entry() -> ! {
    let tsc = time::tsc();
    serial::initialize();
    let handover = boot::handover().unwrap_or_else(|reason| refuse(format_args!("{reason}")));
    hhdm::set_offset(handover.hhdm_offset);
    tests::begin(&handover);
    cpu::detect().unwrap_or_else(|reason| refuse(format_args!("{reason}")));
    let usable: u64 = handover.usable().chain(handover.reclaimable()).map(Range::length).sum();
    if usable >> 20 < LEAST_MEMORY - OF_FIRMWARE {
        let usable = usable >> 20;
        refuse(format_args!("it can use {usable} MiB of memory; it needs a machine with {LEAST_MEMORY} MiB"));
    }
    // SAFETY: the ranges are what the loader says that nothing uses, and its direct map holds them.
    if !unsafe { frames::initialize(handover.end(), handover.usable()) } {
        refuse(format_args!("its memory is in pieces too small for the frame table"));
    }
    // SAFETY: the loader's map is active. What is used from here on, the loader's stack and
    // answers among it, lies in the ranges given or in the image.
    let built = unsafe { kernel_space::initialize(handover.image, handover.mapped()) };
    let stack_top = built.and_then(|()| Stack::new()).unwrap_or_else(|error| refuse(format_args!("{error}"))).keep();
    let mut start = Start { handover, tsc, stack_top };
    // SAFETY: the new stack is mapped and empty; `start` lives on the old one, which stays until
    // `on_own_stack` has moved it out.
    unsafe {
        core::arch::asm!(
            "mov rsp, {stack}", "xor ebp, ebp", "call {next}", "ud2",
            stack = in(reg) stack_top, in("rdi") &raw mut start, next = sym on_own_stack,
            options(noreturn)
        );
    }
}

/// Continues where the loader's memory is not needed any more, except its answers.
///
/// # Safety
/// `start` is valid and not used by anybody else.
unsafe extern "C" fn on_own_stack(start: *mut Start) -> ! {
    // SAFETY: the caller's promise.
    let start = unsafe { start.read() };
    let segments = startup::segments(start.stack_top).unwrap_or_else(|error| refuse(format_args!("{error}")));
    gdt::load(segments);
    let data = startup::Data::new(0, start.stack_top);
    let data = data.unwrap_or_else(|| refuse(format_args!("no memory is left for its first processor's data")));
    let data = data.keep();
    percpu::load(data);
    processors::add(data);
    let mut lock = kernel_lock::acquire(data);
    idt::initialize();
    idt::load();
    entry::initialize();
    pic::disable();

    let mut boot = boot::copy(&start.handover);
    log!("capOS kernel {} on {} ({}), {}", env!("CARGO_PKG_VERSION"), boot.boot_loader, boot.firmware, Processor);
    let tables = start.handover.rsdp.map_or_else(|| Ok(acpi::Tables::default()), acpi::read);
    let tables = tables.unwrap_or_else(|error| refuse(format_args!("{error}")));
    let Some(madt) = tables.madt.and_then(Madt::new) else {
        refuse(format_args!("the firmware has no intact table of interrupt controllers (ACPI MADT)"));
    };
    boot.power_off = tables.power_off;
    exit::enable_power_off(&boot.power_off);
    boot.pci_config_base = tables.pci_config.map_or(0, |space| space.base);
    let lines = interrupt_controllers(&madt).unwrap_or_else(|error| refuse(format_args!("{error}")));

    let Some(frequencies) = calibration::measure(tables.fadt.timer, tables.fadt.timer_wide) else {
        refuse(format_args!("neither the ACPI timer nor the 8254 counts, so its clocks cannot be measured"));
    };
    let wall = clock::read(tables.fadt.century);
    if !time::initialize(frequencies.tsc, start.tsc, wall) || !apic::initialize_timer(frequencies.apic_counter) {
        refuse(format_args!("its time-stamp counter or APIC timer runs at an impossible frequency"));
    }
    let random = entropy::initialize(&seed(&boot, wall));
    let home = startup::home(start.handover.usable());
    if !tests::needs_loader() {
        reclaim(&start.handover);
    }
    boot.processors = start_processors(&madt, home, processor_limit(&boot), frequencies.apic_counter);
    report(&boot, lines, frequencies, random);
    first_process::start(&mut lock, boot);
    events::leave(lock)
}

fn interrupt_controllers(madt: &Madt<'_>) -> Result<u32, SpaceError> {
    // SAFETY: `map_device` maps as these two want it.
    unsafe {
        apic::initialize(madt.local_address(), kernel_space::map_device)?;
        io_apic::initialize(madt, kernel_space::map_device)
    }
}

/// How many processors the kernel's command line lets it use: `processors=N`.
fn processor_limit(boot: &BootInfo) -> usize {
    let words = boot.command_line.split_whitespace();
    let given = words.filter_map(|word| word.strip_prefix("processors=")).next_back();
    let tests = tests::processors(&boot.command_line);
    tests.or_else(|| given.and_then(|number| number.parse().ok())).unwrap_or(processors::MOST)
}

/// Starts the machine's other processors; how many run then.
fn start_processors(madt: &Madt<'_>, home: Option<Frame>, limit: usize, counter_hertz: u64) -> u32 {
    let all = madt.entries().filter_map(|entry| match entry {
        Entry::Processor { apic_id } => Some(apic_id),
        _ => None,
    });
    let own = apic::identifier();
    let mut others: Vec<u32> = all.filter(|identifier| *identifier != own).collect();
    // Some firmware lists a processor in both forms.
    others.sort_unstable();
    others.dedup();
    others.truncate(limit.saturating_sub(1));
    match home {
        Some(home) => startup::start(&others, home, counter_hertz),
        None if others.is_empty() => {}
        None => log!("warning: no memory below 640 KiB is free, so that only one processor is used"),
    }
    processors::count() as u32
}

/// What differs between machines and boots, for the random generator.
fn seed(boot: &BootInfo, wall: Option<u64>) -> [u8; 32] {
    let mut seed = [0; 32];
    let words = [wall.unwrap_or(0), time::tsc(), boot.memory_bytes, boot.pci_config_base];
    for (slot, byte) in seed.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())) {
        *slot = byte;
    }
    seed
}

/// Takes over the loader's memory, whose answers have been copied.
fn reclaim(handover: &Handover) {
    // The memory map itself lies in what is given away, so it is copied first.
    let ranges: Vec<Range> = handover.reclaimable().collect();
    for range in ranges {
        // SAFETY: nothing in the kernel refers to the loader's memory any more: segments,
        // interrupt table, page tables and stack are the kernel's, the answers copied. Modules and
        // the image lie in ranges of another kind.
        unsafe { frames::add(range) };
    }
}

fn report(boot: &BootInfo, lines: u32, frequencies: calibration::Frequencies, random: bool) {
    log!(
        "memory: {} MiB usable, {} frames free, {} KiB kernel image, {} bytes of heap",
        boot.memory_bytes >> 20,
        frames::free_count(),
        kernel_space::image_length() >> 10,
        heap::used()
    );
    log!(
        "time-stamp counter {} kHz{}, timer {}, measured against {}; interrupt lines: {}; processors: {}",
        frequencies.tsc / 1000,
        if cpu::features().invariant_tsc { " (invariant)" } else { "" },
        if cpu::features().tsc_deadline { "by deadline" } else { "by count" },
        frequencies.reference,
        lines,
        boot.processors
    );
    if !random {
        log!(
            "warning: this processor has no random source; keys made here are only as good as the jitter of its clock"
        );
    }
    log!("warning: no IOMMU is used; a driver that tells its device a wrong address lets it reach all memory");
    if boot.power_off.port == 0 {
        log!("warning: the firmware does not say how to power off");
    }
}

/// The processor and its protections, for the log.
struct Processor;

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features = cpu::features();
        write!(f, "{}", core::str::from_utf8(&features.vendor).unwrap_or("unknown processor"))?;
        let named = [
            (features.smep, "smep"),
            (features.smap, "smap"),
            (features.umip, "umip"),
            (features.xsave, "xsave"),
            (features.x2apic, "x2apic"),
            (features.huge_pages, "1G pages"),
            (features.hypervisor, "virtual"),
        ];
        for (there, name) in named {
            if there {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

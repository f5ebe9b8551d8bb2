//! Everything that touches the machine: memory by physical address, ports, model-specific registers, the console.

use core::arch::{asm, global_asm, x86_64::__cpuid};
use core::fmt::{self, Write};

use capos_loader::clock::Reading;
use capos_loader::interrupts::Physical;
use capos_loader::{HHDM, Refusal, Result};

global_asm!(include_str!("entry.s"));

unsafe extern "C" {
    static loader_start: u8;
    static loader_end: u8;
    static handover_gdt: [u64; 7];
    fn enter_kernel(root: u64, stack: u64, entry: u64, gdt_pointer: u64) -> !;
}

/// The range that the entry code maps: addresses below are reachable.
pub const REACHABLE: u64 = 1 << 32;

/// Physical memory below 4 GiB, readable.
pub struct LowMemory;

impl Physical for LowMemory {
    fn read(&self, address: u64, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length as u64)?;
        if address == 0 || end > REACHABLE {
            return None;
        }
        // SAFETY: the entry code mapped all of the first 4 GiB at its own address. The memory read here (the
        // Multiboot2 information, modules, firmware tables) is not written while the loader runs.
        Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) })
    }
}

/// Memory at a physical address, for writing.
///
/// # Safety
///
/// The range must have been allocated from the memory map, and nothing else may refer to it.
pub unsafe fn writable<T>(address: u64, count: usize) -> Result<&'static mut [T]> {
    let length = count.checked_mul(size_of::<T>()).and_then(|length| address.checked_add(length as u64));
    if address == 0 || !address.is_multiple_of(align_of::<T>() as u64) || length.is_none_or(|end| end > REACHABLE) {
        return Err(Refusal("Memory for the handover is out of the loader's reach (a fault of the loader)."));
    }
    // SAFETY: the range is mapped (see `LowMemory`), aligned, and the caller's alone.
    Ok(unsafe { core::slice::from_raw_parts_mut(address as *mut T, count) })
}

/// The loader's own place in memory: first address and length.
pub fn own_place() -> (u64, u64) {
    let (start, end) = (&raw const loader_start as u64, &raw const loader_end as u64);
    (start, end.saturating_sub(start))
}

fn write_port(port: u16, value: u8) {
    // SAFETY: the loader has exclusive use of the machine; it writes the serial port, the interrupt controllers' masks
    // and the clock's index only.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) }
}

fn read_port(port: u16) -> u8 {
    let value;
    // SAFETY: as for `write_port`; reading these ports has no effect on memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) }
    value
}

fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the registers read here exist on every processor with long mode.
    unsafe { asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack)) }
    u64::from(high) << 32 | u64::from(low)
}

fn write_msr(register: u32, value: u64) {
    // SAFETY: the values written here are valid for their registers and keep the loader's own mappings working.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack));
    }
}

/// The relevant features of the processor.
pub struct Processor {
    /// It can map pages of 1 GiB.
    pub gigabyte_pages: bool,
}

impl Processor {
    /// Checks what the kernel needs beyond long mode, which the entry code has checked.
    pub fn check() -> Result<Self> {
        let (basic, extended) = (__cpuid(1), __cpuid(0x8000_0001));
        if extended.edx & 1 << 20 == 0 {
            return Err(Refusal(
                "This processor cannot mark memory as not executable (NX), or the firmware has switched that off; \
                 capOS needs it.",
            ));
        }
        if basic.edx & 1 << 9 == 0 {
            return Err(Refusal("This processor has no local APIC, or it is switched off; capOS needs one."));
        }
        if basic.edx & 1 << 16 == 0 {
            return Err(Refusal("This processor has no page attribute table (PAT); capOS needs it."));
        }
        Ok(Self { gigabyte_pages: extended.edx & 1 << 26 != 0 })
    }

    /// Switches on no-execute pages and sets the page attribute table as the protocol wants it.
    pub fn prepare(&self) {
        const EFER: u32 = 0xc000_0080;
        const NO_EXECUTE: u64 = 1 << 11;
        const PAT: u32 = 0x277;
        // From entry 0: write-back, write-through, uncached-, uncached, write-protect, write-combining, and the
        // last two, which the protocol leaves open, uncached- and uncached.
        const TYPES: u64 = 0x0007_0105_0007_0406;
        write_msr(PAT, TYPES);
        write_msr(EFER, read_msr(EFER) | NO_EXECUTE);
    }
}

/// Masks every input of the two legacy interrupt controllers.
pub fn mask_legacy_interrupts() {
    write_port(0x21, 0xff);
    write_port(0xa1, 0xff);
}

/// Masks the inputs of an I/O APIC that deliver ordinary interrupts.
pub fn mask_io_apic(address: u64) {
    const VERSION: u32 = 1;
    const FIRST_INPUT: u32 = 0x10;
    const MASKED: u32 = 1 << 16;
    if address == 0 || !address.is_multiple_of(16) || address >= REACHABLE - 0x20 {
        return;
    }
    let (index, window) = (address as *mut u32, address.saturating_add(0x10) as *mut u32);
    // SAFETY: the ACPI tables say that an I/O APIC's index and data registers lie here; the address is mapped and
    // aligned, and nothing else uses them yet.
    unsafe {
        index.write_volatile(VERSION);
        let last_input = window.read_volatile() >> 16 & 0xff;
        for input in 0..=last_input {
            index.write_volatile(FIRST_INPUT.saturating_add(input << 1));
            let entry = window.read_volatile();
            let delivery = entry >> 8 & 7;
            if delivery <= 1 {
                window.write_volatile(entry | MASKED);
            }
        }
    }
}

/// Reads the battery-backed clock, twice the same to be sure that it was not just counting.
pub fn read_clock() -> Option<Reading> {
    const MOST_TRIES: usize = 100_000;
    let register = |index: u8| {
        write_port(0x70, index | 0x80);
        read_port(0x71)
    };
    let read = || Reading { fields: [0, 2, 4, 7, 8, 9].map(register), status_b: register(0x0b) };
    (0..MOST_TRIES).find_map(|_| {
        let updating = register(0x0a) & 0x80 != 0;
        let reading = read();
        (!updating && reading == read()).then_some(reading)
    })
}

/// Loads the page tables and the descriptor table of the handover and enters the kernel.
pub fn leave(root: u64, stack_top: u64, entry: u64) -> ! {
    #[repr(C, packed)]
    struct Pointer {
        limit: u16,
        base: u64,
    }
    let gdt = &raw const handover_gdt as u64;
    let pointer = Pointer { limit: const { (size_of::<[u64; 7]>() - 1) as u16 }, base: HHDM.saturating_add(gdt) };
    let trampoline = (enter_kernel as *const () as u64).saturating_add(HHDM);
    // SAFETY: the first 4 GiB, the loader's code among them, are mapped executable in the direct map by the entry
    // code, so this is `enter_kernel` under another address.
    let enter: unsafe extern "C" fn(u64, u64, u64, u64) -> ! = unsafe { core::mem::transmute(trampoline) };
    // SAFETY: the tables map the direct map, the kernel and the stack; the entry point was checked to be kernel code.
    unsafe { enter(root, stack_top, entry, &raw const pointer as u64) }
}

/// COM1, used for refusals only.
pub struct Console;

impl Console {
    /// Sets the port to 115200 baud, 8 bits, no parity.
    pub fn open() -> Self {
        for (offset, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 7)] {
            write_port(0x3f8 | offset, value);
        }
        Self
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Without a port nothing is ever ready.
        const MOST_TRIES: usize = 1 << 20;
        for byte in text.bytes() {
            let _ = (0..MOST_TRIES).find(|_| read_port(0x3fd) & 0x20 != 0);
            write_port(0x3f8, byte);
        }
        Ok(())
    }
}

/// Prints a sentence and stops.
pub fn refuse(reason: impl fmt::Display) -> ! {
    // The console cannot fail; there is no other place to report to.
    let _ = write!(Console::open(), "\r\ncapOS does not start. {reason}\r\n");
    loop {
        // SAFETY: interrupts are off; the processor sleeps for good.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    refuse(format_args!("The loader failed: {info}"))
}

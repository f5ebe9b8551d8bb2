//! This processor's local APIC: end of interrupt, and its one-shot timer.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use capos_machine::clock::Scale;
use spin::Once;

use super::interrupts::{SPURIOUS, TIMER};
use super::{cpu, msr};
use crate::arch::{percpu, processors};

/// Offsets of the registers.
const IDENTIFIER: u32 = 0x20;
const TASK_PRIORITY: u32 = 0x80;
const END: u32 = 0xb0;
const SPURIOUS_VECTOR: u32 = 0xf0;
const COMMAND: u32 = 0x300;
const COMMAND_DESTINATION: u32 = 0x310;
const ERROR_STATUS: u32 = 0x280;
const TIMER_ENTRY: u32 = 0x320;
const THERMAL_ENTRY: u32 = 0x330;
const PERFORMANCE_ENTRY: u32 = 0x340;
const LINT0_ENTRY: u32 = 0x350;
const LINT1_ENTRY: u32 = 0x360;
const ERROR_ENTRY: u32 = 0x370;
const INITIAL_COUNT: u32 = 0x380;
const CURRENT_COUNT: u32 = 0x390;
const DIVIDE: u32 = 0x3e0;

/// Kinds of interrupts between processors, and that a line is asserted.
const NMI: u32 = 4 << 8;
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
const ALL_OTHERS: u32 = 3 << 18;
/// The last one has not been sent yet.
const PENDING: u32 = 1 << 12;

const MASKED: u32 = 1 << 16;
const DEADLINE_MODE: u32 = 2 << 17;
/// The counter advances once in 16 ticks of its clock.
const DIVIDE_BY_16: u32 = 3;

const BASE_ENABLE: u64 = 1 << 11;
const BASE_X2: u64 = 1 << 10;

static WIDE: AtomicBool = AtomicBool::new(false);
static REGISTERS: AtomicU64 = AtomicU64::new(0);
/// Frequency of the counter; unset where the timer takes deadlines of the time-stamp counter.
static COUNTER: Once<Scale> = Once::new();

fn read(register: u32) -> u32 {
    if WIDE.load(Ordering::Relaxed) {
        return msr::read(0x800 | register >> 4) as u32;
    }
    let address = REGISTERS.load(Ordering::Relaxed).wrapping_add(u64::from(register));
    // SAFETY: `initialize` was given the 4 KiB of registers, mapped uncached; the offset is one of the above.
    unsafe { (address as *const u32).read_volatile() }
}

fn write(register: u32, value: u32) {
    if WIDE.load(Ordering::Relaxed) {
        return msr::write(0x800 | register >> 4, u64::from(value));
    }
    let address = REGISTERS.load(Ordering::Relaxed).wrapping_add(u64::from(register));
    // SAFETY: as in `read`; none of the values written makes the APIC touch memory.
    unsafe { (address as *mut u32).write_volatile(value) };
}

/// Turns this processor's APIC on with all local sources masked. `address` is where the firmware
/// says that its registers are; the processor knows better where they differ.
///
/// # Errors
/// That of `map`.
///
/// # Safety
/// `map` must map registers at a physical address, with the given length, uncached and for good.
pub unsafe fn initialize<E>(address: u64, map: impl FnOnce(u64, u64) -> Result<*mut u8, E>) -> Result<(), E> {
    let mut base = msr::read(msr::APIC_BASE);
    let own = base & 0x000f_ffff_ffff_f000;
    let address = if own == 0 { address } else { own };
    if cpu::features().x2apic {
        // Two steps: the processor refuses to go from off to the wide mode at once.
        base |= BASE_ENABLE;
        msr::write(msr::APIC_BASE, base);
        msr::write(msr::APIC_BASE, base | BASE_X2);
        WIDE.store(true, Ordering::Relaxed);
    } else {
        msr::write(msr::APIC_BASE, base | BASE_ENABLE);
        let registers = map(address, 0x1000)?;
        REGISTERS.store(registers as u64, Ordering::Relaxed);
    }
    for entry in [TIMER_ENTRY, LINT0_ENTRY, LINT1_ENTRY, ERROR_ENTRY] {
        write(entry, MASKED);
    }
    // The number of the highest entry says whether these two exist.
    let highest = read(0x30) >> 16 & 0xff;
    if highest >= 4 {
        write(PERFORMANCE_ENTRY, MASKED);
    }
    if highest >= 5 {
        write(THERMAL_ENTRY, MASKED);
    }
    write(ERROR_STATUS, 0);
    write(TASK_PRIORITY, 0);
    write(SPURIOUS_VECTOR, 1 << 8 | u32::from(SPURIOUS));
    // What the firmware left in service would hold back everything of lower priority.
    for _ in 0..8 {
        end_of_interrupt();
    }
    write(DIVIDE, DIVIDE_BY_16);
    let identifier = read(IDENTIFIER);
    let identifier = if WIDE.load(Ordering::Relaxed) { identifier } else { identifier >> 24 };
    percpu::current().apic_id.store(identifier, Ordering::Relaxed);
    Ok(())
}

/// This processor's identifier.
pub fn identifier() -> u32 {
    percpu::current().apic_id.load(Ordering::Relaxed)
}

/// The first processor's identifier: there interrupts of devices go.
pub fn first_identifier() -> u32 {
    processors::all().next().map_or(0, |first| first.apic_id.load(Ordering::Relaxed))
}

/// Lets the APIC raise the next interrupt.
pub fn end_of_interrupt() {
    write(END, 0);
}

/// Sends a command to the processor with an identifier. What was written before is seen by who takes the interrupt.
fn command(identifier: u32, command: u32) {
    fence(Ordering::SeqCst);
    if WIDE.load(Ordering::Relaxed) {
        // Writing the register waits for no earlier store, not even behind a fence of stores alone.
        // SAFETY: a fence has no other effect.
        unsafe { core::arch::asm!("mfence", "lfence", options(nostack, preserves_flags)) };
        return msr::write(0x800 + (COMMAND >> 4), u64::from(identifier) << 32 | u64::from(command));
    }
    while read(COMMAND) & PENDING != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_DESTINATION, identifier << 24);
    write(COMMAND, command);
}

/// Raises a vector on another processor.
pub fn send(identifier: u32, vector: u8) {
    command(identifier, ASSERT | u32::from(vector));
}

/// Whether this processor can send to one with this identifier.
pub fn reaches(identifier: u32) -> bool {
    WIDE.load(Ordering::Relaxed) || identifier < 0xff
}

/// Resets another processor, which then waits for [`start`].
pub fn reset(identifier: u32) {
    command(identifier, ASSERT | INIT);
}

/// Lets a processor that was reset begin, in real mode, at the page of this number.
pub fn start(identifier: u32, page: u8) {
    command(identifier, ASSERT | STARTUP | u32::from(page));
}

/// Stops all other processors, whatever they do.
pub fn stop_others() {
    command(0, ASSERT | NMI | ALL_OTHERS);
}

/// Starts the counter at its largest value, for measuring; no interrupt comes of it.
pub fn start_counter() {
    write(TIMER_ENTRY, MASKED | u32::from(TIMER));
    write(INITIAL_COUNT, u32::MAX);
}

/// Ticks of the counter since [`start_counter`].
pub fn counted() -> u32 {
    u32::MAX.saturating_sub(read(CURRENT_COUNT))
}

/// Sets the timer up: to deadlines where the processor has them, else to counting at the
/// frequency that was measured. False where that makes no sense.
pub fn initialize_timer(counter_hertz: u64) -> bool {
    write(INITIAL_COUNT, 0);
    if cpu::features().tsc_deadline {
        write(TIMER_ENTRY, DEADLINE_MODE | u32::from(TIMER));
        // The mode must be in force before the first deadline is written, which is no access to
        // the APIC's registers and would not wait for it.
        // SAFETY: a fence has no other effect.
        unsafe { core::arch::asm!("mfence", options(nostack, preserves_flags)) };
        return true;
    }
    let Some(scale) = Scale::new(counter_hertz) else { return false };
    COUNTER.call_once(|| scale);
    write(TIMER_ENTRY, u32::from(TIMER));
    true
}

/// Stops the timer.
pub fn disarm() {
    match COUNTER.get() {
        Some(_) => write(INITIAL_COUNT, 0),
        None => msr::write(msr::TSC_DEADLINE, 0),
    }
}

/// Raises the timer's vector when the time-stamp counter reaches `deadline`, which is
/// `nanoseconds` away.
pub fn arm(deadline: u64, nanoseconds: u64) {
    match COUNTER.get() {
        // A count of 0 would stop the timer. One tick more, so that the deadline has passed when
        // the interrupt comes.
        Some(scale) => {
            let count = scale.ticks(nanoseconds).saturating_add(1);
            write(INITIAL_COUNT, u32::try_from(count).unwrap_or(u32::MAX));
        }
        None => msr::write(msr::TSC_DEADLINE, deadline.max(1)),
    }
}

//! The end: a defect of the kernel, or a machine that fails.

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::arch::serial::{self, Port};
use crate::arch::{apic, cpu, exit, percpu, processors};

/// Status that the debug-exit device is given.
const STATUS: u8 = 0x7f;

/// The processor that panics or stops the system, see [`own_number`]; 0 while none does.
static PANICKING: AtomicU64 = AtomicU64::new(0);

/// Whether the processor that panics may not be able to tell which it is.
static DISTRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on a panic does not look at the data of its processor.
pub fn distrust_processor() {
    DISTRUSTED.store(true, Ordering::Relaxed);
}

/// Whether a processor has panicked or stopped the system.
pub fn is_over() -> bool {
    PANICKING.load(Ordering::Relaxed) != 0
}

/// Writes to both serial ports without locks or allocation.
struct Direct;

impl fmt::Write for Direct {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        serial::write(Port::Com1, text.as_bytes());
        serial::write(Port::Com2, text.as_bytes());
        Ok(())
    }
}

fn stop_others() {
    if processors::count() > 1 {
        apic::stop_others();
    }
}

/// A number of this processor that needs none of its data, which may be what is broken; never 0.
fn own_number() -> u64 {
    u64::from(cpu::apic_number()) + 1
}

/// Whether the processor that runs this is the first to end the system, and not in the midst of saying so. One that is later
/// than another does not get on: the first has to finish what it says.
fn is_first() -> bool {
    match PANICKING.compare_exchange(0, own_number(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(first) if first == own_number() => false,
        Err(_) => exit::halt(),
    }
}

/// What tests want to know of the end.
#[cfg(feature = "tests")]
static ON_END: spin::Once<fn(fmt::Arguments<'_>)> = spin::Once::new();

/// Has `hook` called when the kernel panics or refuses a machine, with the reason.
#[cfg(feature = "tests")]
pub fn on_end(hook: fn(fmt::Arguments<'_>)) {
    ON_END.call_once(|| hook);
}

/// Tells a test that the kernel ends.
#[cfg(feature = "tests")]
fn tell(reason: fmt::Arguments<'_>) {
    if let Some(hook) = ON_END.get() {
        hook(reason);
    }
}

#[cfg(not(feature = "tests"))]
fn tell(_: fmt::Arguments<'_>) {}

/// Says what happened and where, then ends the machine.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    tell(format_args!("{}", info.message()));
    // What is formatted may itself panic: then the first half of the story has to do.
    if is_first() {
        stop_others();
        let place = info.location().map_or(("?", 0), |l| (l.file(), l.line()));
        // Direct::write_str never fails.
        let _ = writeln!(Direct, "\nkernel: panic at {}:{}: {}", place.0, place.1, info.message());
        for processor in processors::all() {
            let is_here = !DISTRUSTED.load(Ordering::Relaxed) && core::ptr::eq(processor, percpu::current());
            let here = if is_here { ", where this happened" } else { "" };
            let _ = match processor.thread.load(Ordering::Relaxed) {
                0 => writeln!(Direct, "processor {} had nothing to run{here}", processor.index),
                thread => writeln!(Direct, "processor {} ran thread {thread}{here}", processor.index),
            };
        }
    }
    exit::debug_exit(STATUS)
}

/// Says in one sentence why this machine cannot run the kernel, then stops.
pub fn refuse(reason: fmt::Arguments<'_>) -> ! {
    tell(reason);
    let _ = writeln!(Direct, "\ncapOS cannot run here: {reason}.");
    exit::debug_exit(STATUS)
}

/// Says in one sentence why the system cannot go on, then stops.
pub fn stop(reason: fmt::Arguments<'_>) -> ! {
    if is_first() {
        stop_others();
    }
    let _ = writeln!(Direct, "\ncapOS stops here: {reason}.");
    exit::debug_exit(STATUS)
}

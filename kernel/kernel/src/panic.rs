//! The end: a defect of the kernel, or a machine that fails.

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::exit;
use crate::arch::serial::{self, Port};

/// Status that the debug-exit device is given.
const STATUS: u8 = 0x7f;

static PANICKING: AtomicBool = AtomicBool::new(false);

/// Writes to both serial ports without locks or allocation.
struct Direct;

impl fmt::Write for Direct {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        serial::write(Port::Com1, text.as_bytes());
        serial::write(Port::Com2, text.as_bytes());
        Ok(())
    }
}

/// Says what happened and where, then ends the machine.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // What is formatted may itself panic: then the first half of the story has to do.
    if !PANICKING.swap(true, Ordering::Relaxed) {
        let place = info.location().map_or(("?", 0), |l| (l.file(), l.line()));
        // Direct::write_str never fails.
        let _ = writeln!(Direct, "\nkernel: panic at {}:{}: {}", place.0, place.1, info.message());
    }
    exit::debug_exit(STATUS)
}

/// Says in one sentence why this machine cannot run the kernel, then stops.
pub fn refuse(reason: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Direct, "\ncapOS cannot run here: {reason}.");
    exit::debug_exit(STATUS)
}

/// Says in one sentence why the system cannot go on, then stops.
pub fn stop(reason: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Direct, "\ncapOS stops here: {reason}.");
    exit::debug_exit(STATUS)
}

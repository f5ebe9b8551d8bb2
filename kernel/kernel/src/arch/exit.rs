//! Ways out: the debug-exit device, and halting.

use super::port::{self, Width};
use crate::acpi::PowerOff;

/// The I/O port of QEMU's isa-debug-exit device.
const DEBUG_EXIT: u16 = 0xf4;

/// Ends the virtual machine with status `code * 2 + 1` where it has the debug-exit device;
/// otherwise stops the processor for good.
pub fn debug_exit(code: u8) -> ! {
    port::output(DEBUG_EXIT, Width::Four, u32::from(code));
    halt()
}

/// Stops this processor for good.
pub fn halt() -> ! {
    loop {
        // SAFETY: with interrupts off nothing wakes the processor but an NMI, which panics.
        unsafe { core::arch::asm!("cli", "hlt", options(nostack, nomem)) };
    }
}

/// Control bit that says that the machine is in ACPI mode.
const SCI_ENABLED: u32 = 1;

/// Powers the machine off the way the firmware's tables say; returns where that does nothing.
pub fn power_off(way: &PowerOff) {
    if way.port == 0 {
        return;
    }
    if way.enable_port != 0 && way.enable_value != 0 && port::input(way.port, Width::Two) & SCI_ENABLED == 0 {
        port::write_byte(way.enable_port, way.enable_value);
        for _ in 0..100_000 {
            if port::input(way.port, Width::Two) & SCI_ENABLED != 0 {
                break;
            }
        }
    }
    port::output(way.port, Width::Two, u32::from(way.value));
    if way.second_port != 0 {
        port::output(way.second_port, Width::Two, u32::from(way.second_value));
    }
}

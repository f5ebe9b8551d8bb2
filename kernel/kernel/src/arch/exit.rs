//! Ways out: the debug-exit device, and halting.

use super::port::{self, Width};

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

/// How to power the machine off: write `value` to `port`. Machines whose control register has a
/// second half exist on paper only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerOff {
    /// 0 where the firmware does not say.
    pub port: u16,
    pub value: u16,
    /// Port and value that turn ACPI mode on, where it is off; port 0 where that is not needed.
    pub enable_port: u16,
    pub enable_value: u8,
}

/// Control bit that says that the machine is in ACPI mode.
const SCI_ENABLED: u32 = 1;

/// Puts the machine into ACPI mode where the firmware left it in its own, since many machines do
/// not power off otherwise. The interrupt that then reports the power button stays masked.
pub fn enable_power_off(way: &PowerOff) {
    let is_on = || port::input(way.port, Width::Two) & SCI_ENABLED != 0;
    if way.port == 0 || way.enable_port == 0 || way.enable_value == 0 || is_on() {
        return;
    }
    port::write_byte(way.enable_port, way.enable_value);
    // The firmware answers within microseconds; where it does not, powering off is still tried.
    for _ in 0..100_000 {
        if is_on() {
            return;
        }
    }
}

//! Vectors, and the devices that have them.

use spin::Mutex;

use super::io_apic::Route;
use super::{apic, io_apic};

/// The local APIC's timer.
pub const TIMER: u8 = 0xf0;
/// Another processor calls this one to look at its queue.
pub const CALL: u8 = 0xf1;
/// Another processor waits for this one to do something.
pub const REQUEST: u8 = 0xf2;
/// What the local APIC raises when an interrupt went away before it was taken.
pub const SPURIOUS: u8 = 0xff;
/// Where the 8259s are put, though they are masked: they too can raise spurious interrupts.
pub const LEGACY: u8 = 0x20;
/// Vectors for devices.
pub const FIRST: u8 = 0x40;
pub const LAST: u8 = 0xef;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    /// An input of an I/O APIC.
    Line(Route),
    /// Raised by a message that a device writes.
    Message,
}

static USES: Mutex<[Use; 256]> = Mutex::new([Use::Free; 256]);

/// A vector for the ISA interrupt `irq` (0 to 15) or, above that, the I/O APIC input of that
/// number, masked. `None` where there is no such input, it is in use, or no vector is left.
pub fn line(irq: u8) -> Option<u8> {
    let route = io_apic::route(irq)?;
    let mut uses = USES.lock();
    if uses.iter().any(|purpose| matches!(purpose, Use::Line(other) if other.input == route.input)) {
        return None;
    }
    let vector = take(&mut uses, Use::Line(route))?;
    if io_apic::connect(route, vector, apic::first_identifier()) {
        Some(vector)
    } else {
        give(&mut uses, vector);
        None
    }
}

/// A vector for a device that raises it by writing: the vector, and the address and data of the
/// write. `None` where no vector is left.
pub fn message() -> Option<(u8, u64, u32)> {
    let destination = apic::first_identifier();
    // The address holds eight bits of the identifier; a processor beyond needs remapping hardware.
    let destination = u8::try_from(destination).ok()?;
    let vector = take(&mut USES.lock(), Use::Message)?;
    Some((vector, 0xfee0_0000 | u64::from(destination) << 12, u32::from(vector)))
}

/// Stops a line from being raised. Messages are masked at their device.
pub fn mask(vector: u8) {
    if let Use::Line(route) = usage(vector) {
        io_apic::set_mask(route.input, true);
    }
}

/// Stops a line that has come from being raised again at once: a level stays raised until its driver has served the
/// device, and comes again after [`unmask`]. An edge is not masked, since the I/O APIC forgets edges that come
/// while it is: one between the driver's last look at the device and its [`unmask`] would never be told.
pub fn hold(vector: u8) {
    if let Use::Line(route) = usage(vector)
        && route.wiring.level
    {
        io_apic::set_mask(route.input, true);
    }
}

/// Lets a line be raised again.
pub fn unmask(vector: u8) {
    if let Use::Line(route) = usage(vector) {
        io_apic::set_mask(route.input, false);
    }
}

/// Gives a vector back; a line is masked.
pub fn release(vector: u8) {
    mask(vector);
    give(&mut USES.lock(), vector);
}

/// Whether a vector is a line.
pub fn is_line(vector: u8) -> bool {
    matches!(usage(vector), Use::Line(_))
}

fn usage(vector: u8) -> Use {
    USES.lock().get(usize::from(vector)).copied().unwrap_or(Use::Free)
}

fn take(uses: &mut [Use; 256], purpose: Use) -> Option<u8> {
    let vector = (FIRST..=LAST).find(|v| uses.get(usize::from(*v)) == Some(&Use::Free))?;
    *uses.get_mut(usize::from(vector))? = purpose;
    Some(vector)
}

fn give(uses: &mut [Use; 256], vector: u8) {
    if let Some(slot) = uses.get_mut(usize::from(vector)) {
        *slot = Use::Free;
    }
}

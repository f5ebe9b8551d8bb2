//! Mmio: device memory.

use alloc::vec::Vec;

use capos_machine::range::Range;
use spin::Once;

/// First address that no processor of today has.
pub const PHYSICAL_END: u64 = 1 << 52;

static RAM: Once<Vec<Range>> = Once::new();

/// Says where RAM is: no process maps that as a device.
pub fn set_ram(ranges: Vec<Range>) {
    RAM.call_once(|| ranges);
}

/// Whether a range holds no RAM.
pub fn is_device(address: u64, bytes: u64) -> bool {
    let Some(end) = address.checked_add(bytes) else { return false };
    RAM.get().is_some_and(|ram| ram.iter().all(|range| end <= range.start || address >= range.end))
}

/// A range of device memory.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    pub address: u64,
    pub bytes: u64,
}

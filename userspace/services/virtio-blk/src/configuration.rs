//! A PCI function's configuration space as the transport wants to see it: a copy, read once.
//!
//! The bus manager has sized the windows and enabled the function already, so nothing is ever
//! written to the device from here. Writing all ones to a window's register and reading its size
//! back is answered from what the bus manager said.

use alloc::vec::Vec;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

/// Register of the first base address.
const FIRST_BAR: u8 = 0x10;
/// Base address registers of an ordinary function.
pub const BARS: usize = 6;

/// A copy of one function's configuration space.
pub struct Configuration {
    bytes: Vec<u8>,
    /// Window sizes in bytes by register, 0 where there is none.
    sizes: [u64; BARS],
    /// Which registers are being sized.
    sizing: [bool; BARS],
}

impl Configuration {
    /// The copy, with the sizes of its memory windows.
    pub fn new(bytes: Vec<u8>, sizes: [u64; BARS]) -> Self {
        Self { bytes, sizes, sizing: [false; BARS] }
    }

    fn word(&self, register: u8) -> u32 {
        let at = usize::from(register);
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn bar(register: u8) -> Option<usize> {
        let index = usize::from(register.checked_sub(FIRST_BAR)? / 4);
        (index < BARS && register.is_multiple_of(4)).then_some(index)
    }

    /// What a register of ones reads back as: the window's size mask above its flag bits.
    fn size_mask(&self, bar: usize) -> u32 {
        let flags = self.word(FIRST_BAR.saturating_add(u8::try_from(bar * 4).unwrap_or(0)));
        if let Some(size) = self.sizes.get(bar).filter(|size| **size != 0) {
            let mask = !(size.wrapping_sub(1));
            return (mask as u32 & !0xf) | (flags & 0xf);
        }
        // The upper half of a 64-bit window answers with the upper half of the mask.
        let below = bar.checked_sub(1).and_then(|below| self.sizes.get(below)).copied().unwrap_or(0);
        if below != 0 { (!(below.wrapping_sub(1)) >> 32) as u32 } else { 0 }
    }
}

impl ConfigurationAccess for Configuration {
    fn read_word(&self, _function: DeviceFunction, register: u8) -> u32 {
        match Self::bar(register) {
            Some(bar) if self.sizing.get(bar).copied().unwrap_or(false) => self.size_mask(bar),
            _ => self.word(register),
        }
    }

    fn write_word(&mut self, _function: DeviceFunction, register: u8, data: u32) {
        if let Some(sizing) = Self::bar(register).and_then(|bar| self.sizing.get_mut(bar)) {
            *sizing = data == u32::MAX;
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), sizes: self.sizes, sizing: self.sizing }
    }
}

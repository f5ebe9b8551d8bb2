//! The memory windows of a function.

use alloc::vec::Vec;

use crate::function::Place;
use crate::scan::Registers;

/// Windows of a function that is no bridge.
const WINDOWS: u8 = 6;
/// Offset of the first window's register.
const FIRST: u8 = 0x10;
/// Offset of the command register, and its bit with which a device answers in its memory windows. The upper half is the status:
/// a 0 that is written there changes nothing.
const COMMAND: u8 = 4;
const MEMORY: u32 = 1 << 1;
const STATUS: u32 = 0xffff_0000;

/// Registers that can be written, too.
pub trait WritableRegisters: Registers {
    /// Writes the register at this offset, a multiple of 4.
    fn write(&self, place: Place, offset: u8, value: u32) -> impl Future<Output = Result<(), Self::Error>>;
}

/// What one of the window registers of a function stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Window {
    /// Nothing, or the upper half of the window before it.
    #[default]
    Absent,
    /// Ports.
    Ports,
    /// Memory.
    Memory {
        /// Where it begins.
        address: u64,
        /// Its size.
        bytes: u64,
    },
}

/// Returns the six windows of a function. A window's register shows its size after all its bits are written, so this must
/// be done before anything uses the function. The function does not answer meanwhile. Without an error all registers are as
/// before afterwards.
///
/// # Errors
/// A register cannot be read or written.
pub async fn windows<R: WritableRegisters>(registers: &R, place: Place) -> Result<[Window; 6], R::Error> {
    let command = read(registers, place, COMMAND).await? & !STATUS;
    registers.write(place, COMMAND, command & !MEMORY).await?;
    let measured = measured(registers, place).await;
    registers.write(place, COMMAND, command).await?;
    measured
}

async fn measured<R: WritableRegisters>(registers: &R, place: Place) -> Result<[Window; 6], R::Error> {
    let mut windows = [Window::Absent; 6];
    let mut upper = false;
    for (index, window) in (0..WINDOWS).zip(windows.iter_mut()) {
        if core::mem::take(&mut upper) {
            continue;
        }
        let offset = FIRST.saturating_add(index.saturating_mul(4));
        let low = read(registers, place, offset).await?;
        if low & 1 != 0 {
            *window = Window::Ports;
            continue;
        }
        let mask_low = mask(registers, place, offset, low).await? & !0xf;
        let (mut high, mut mask_high) = (0, u32::MAX);
        upper = (low >> 1) & 3 == 2 && index.saturating_add(1) < WINDOWS;
        if upper {
            let offset = offset.saturating_add(4);
            high = read(registers, place, offset).await?;
            mask_high = mask(registers, place, offset, high).await?;
        }
        let address = joined(low & !0xf, high);
        // Without a bit that can be written there is no window. One of 4 GiB or more has such bits in its upper half alone.
        let none = mask_low == 0 && (!upper || mask_high == 0);
        if address != 0 && !none {
            *window = Window::Memory { address, bytes: (!joined(mask_low, mask_high)).wrapping_add(1) };
        }
    }
    Ok(windows)
}

/// The bits of a register that can be written; it keeps its value.
async fn mask<R: WritableRegisters>(registers: &R, place: Place, offset: u8, value: u32) -> Result<u32, R::Error> {
    registers.write(place, offset, u32::MAX).await?;
    let mask = read(registers, place, offset).await?;
    registers.write(place, offset, value).await?;
    Ok(mask)
}

async fn read<R: Registers>(registers: &R, place: Place, offset: u8) -> Result<u32, R::Error> {
    let values: Vec<u32> = registers.read_all(&[place], offset).await?;
    // A place without a function reads as all ones.
    Ok(values.first().copied().unwrap_or(u32::MAX))
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

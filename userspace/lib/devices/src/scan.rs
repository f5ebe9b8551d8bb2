//! All functions of a machine.

use alloc::vec::Vec;

use crate::function::{Found, Place};

/// Functions that are listed at most. A bus has room for 256.
pub const MAX_FUNCTIONS: usize = 1024;
/// Registers that are read at once at most.
pub const BATCH: usize = 256;

/// Devices of a bus, and functions of a device.
const DEVICES: u8 = 32;
const FUNCTIONS: u8 = 8;
/// Registers: vendor and device; class and revision; header type.
const IDENTITY: u8 = 0;
const CLASS: u8 = 8;
const HEADER: u8 = 12;
/// In the header type: the device has other functions than the first.
const SEVERAL: u32 = 0x0080_0000;
/// The vendor of a place without a function.
const NOTHING: u16 = 0xffff;

/// The configuration spaces of a segment.
pub trait Registers {
    /// Why one cannot be read.
    type Error;

    /// Reads the register at this offset, a multiple of 4, at each of at most [`BATCH`] places. A place without a function
    /// reads as all ones.
    fn read_all(&self, places: &[Place], offset: u8) -> impl Future<Output = Result<Vec<u32>, Self::Error>>;
}

/// What a machine has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scan {
    /// Its functions, in the order of their places.
    pub found: Vec<Found>,
    /// How many more there are than are listed.
    pub left_out: usize,
}

/// Lists the functions of all buses.
///
/// Every bus number is asked. So the number of roots, the first bus of each and the depth of bridges do not matter.
/// Nothing is listed twice, whatever bridges claim.
///
/// # Errors
/// A register cannot be read.
pub async fn scan<R: Registers>(registers: &R) -> Result<Scan, R::Error> {
    let devices = |bus| (0..DEVICES).map(move |device| Place { bus, device, function: 0 });
    let firsts: Vec<Place> = (0..=u8::MAX).flat_map(devices).collect();
    let mut there = present(registers, &firsts).await?;
    let headers = read(registers, &there, HEADER).await?;
    let several = there.iter().zip(headers).filter(|(_, header)| header & SEVERAL != 0);
    let others = several.flat_map(|((first, _), _)| (1..FUNCTIONS).map(|function| Place { function, ..*first }));
    let others: Vec<Place> = others.collect();
    there.extend(present(registers, &others).await?);
    there.sort_by_key(|(place, _)| *place);
    let left_out = there.len().saturating_sub(MAX_FUNCTIONS);
    there.truncate(MAX_FUNCTIONS);
    let classes = read(registers, &there, CLASS).await?;
    let found = there.into_iter().zip(classes).map(|((place, identity), class)| {
        let [vendor, device] = halves(identity);
        Found { place, vendor, device, class: class >> 8 }
    });
    Ok(Scan { found: found.collect(), left_out })
}

/// Those of the places that have a function, with what it says it is.
async fn present<R: Registers>(registers: &R, places: &[Place]) -> Result<Vec<(Place, u32)>, R::Error> {
    let mut there = Vec::new();
    for batch in places.chunks(BATCH) {
        let identities = registers.read_all(batch, IDENTITY).await?;
        let all = batch.iter().copied().zip(identities);
        there.extend(all.filter(|(_, identity)| halves(*identity)[0] != NOTHING));
    }
    Ok(there)
}

/// A register of each of these.
async fn read<R: Registers>(registers: &R, there: &[(Place, u32)], offset: u8) -> Result<Vec<u32>, R::Error> {
    let mut values = Vec::with_capacity(there.len());
    for batch in there.chunks(BATCH) {
        let places: Vec<Place> = batch.iter().map(|(place, _)| *place).collect();
        values.extend(registers.read_all(&places, offset).await?);
    }
    Ok(values)
}

/// The lower and the upper half of a register.
fn halves(register: u32) -> [u16; 2] {
    let [a, b, c, d] = register.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}

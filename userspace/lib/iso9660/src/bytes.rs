//! Reading fixed fields; every read checks that the field is there.

use crate::{Malformed, Place, Problem};

/// The `N` bytes at `at`.
pub(crate) fn array<const N: usize>(
    bytes: &[u8],
    at: usize,
    field: &'static str,
    place: Place,
) -> Result<[u8; N], Malformed> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .ok_or_else(|| place.wrong(Problem::Short { field }))
}

/// One byte.
pub(crate) fn byte(bytes: &[u8], at: usize, field: &'static str, place: Place) -> Result<u8, Malformed> {
    array::<1>(bytes, at, field, place).map(|[value]| value)
}

/// A 32-bit number stored in both byte orders (8 bytes).
pub(crate) fn both32(bytes: &[u8], at: usize, field: &'static str, place: Place) -> Result<u32, Malformed> {
    let [a, b, c, d, e, f, g, h] = array::<8>(bytes, at, field, place)?;
    let (little, big) = (u32::from_le_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    if little == big { Ok(little) } else { Err(place.wrong(Problem::BothEndian { field, little, big })) }
}

/// A 16-bit number stored in both byte orders (4 bytes).
pub(crate) fn both16(bytes: &[u8], at: usize, field: &'static str, place: Place) -> Result<u16, Malformed> {
    let [a, b, c, d] = array::<4>(bytes, at, field, place)?;
    let (little, big) = (u16::from_le_bytes([a, b]), u16::from_be_bytes([c, d]));
    if little == big {
        Ok(little)
    } else {
        Err(place.wrong(Problem::BothEndian { field, little: little.into(), big: big.into() }))
    }
}

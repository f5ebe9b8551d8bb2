//! Reading ACPI tables.
//!
//! Tables are bytes in firmware's memory. Each reader checks signature, length and checksum and
//! looks at nothing outside the slice it was given; malformed data gives `None`.

pub mod fadt;
pub mod madt;
pub mod mcfg;
pub mod root;
pub mod sleep;

/// Bytes of the header that every system description table begins with.
pub const HEADER: usize = 36;

/// A table whose header was checked.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table at the start of `bytes`, if it carries `signature` and its checksum is right.
    #[must_use]
    pub fn new(bytes: &'a [u8], signature: &[u8; 4]) -> Option<Self> {
        if bytes.get(..4)? != signature {
            return None;
        }
        let length = length(bytes)?;
        let bytes = bytes.get(..length)?;
        (length >= HEADER && checksum(bytes) == 0).then_some(Self { bytes })
    }

    /// The whole table, header included.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Revision in the header.
    #[must_use]
    pub fn revision(&self) -> u8 {
        self.bytes.get(8).copied().unwrap_or(0)
    }
}

/// The length that a header claims.
#[must_use]
pub fn length(header: &[u8]) -> Option<usize> {
    usize::try_from(u32_at(header, 4)?).ok()
}

/// The sum of all bytes, zero for an intact table.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

#[cfg(test)]
pub(crate) mod build {
    //! Tables for tests.

    use super::{HEADER, checksum};

    /// A table with this body and a right checksum.
    pub fn table(signature: &[u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(signature);
        bytes[8] = revision;
        bytes.extend_from_slice(body);
        let length = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        seal(&mut bytes, 9);
        bytes
    }

    /// Puts the checksum at `at`.
    pub fn seal(bytes: &mut [u8], at: usize) {
        bytes[at] = 0;
        bytes[at] = 0u8.wrapping_sub(checksum(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intact_tables_are_read() {
        let good = build::table(b"TEST", 2, &[1, 2, 3]);
        assert_eq!(Table::new(&good, b"TEST").unwrap().bytes().len(), 39);
        assert_eq!(Table::new(&good, b"TEST").unwrap().revision(), 2);
        assert!(Table::new(&good, b"ELSE").is_none());
        let mut broken = good.clone();
        broken[37] ^= 1;
        assert!(Table::new(&broken, b"TEST").is_none(), "checksum");
        for end in 0..good.len() {
            assert!(Table::new(&good[..end], b"TEST").is_none(), "cut at {end}");
        }
        let mut short = good;
        short[4] = 10;
        build::seal(&mut short, 9);
        assert!(Table::new(&short, b"TEST").is_none(), "shorter than its header");
    }
}

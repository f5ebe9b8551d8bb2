//! Commands for optical drives (SPC and MMC), as encoded in a command table, and their answers.

/// Bytes of a packet. Drives that want 16 are not optical ones.
pub const BYTES: usize = 12;
/// Bytes of a sector of data.
pub const SECTOR: u32 = 2048;
/// Bytes of a capacity's answer.
pub const CAPACITY_BYTES: usize = 8;
/// Bytes of a sense that are asked for: all of the fixed format that has a use.
pub const SENSE_BYTES: u8 = 18;

/// Codes.
mod code {
    pub const TEST_UNIT_READY: u8 = 0x00;
    pub const REQUEST_SENSE: u8 = 0x03;
    pub const PREVENT_ALLOW_MEDIUM_REMOVAL: u8 = 0x1e;
    pub const READ_CAPACITY_10: u8 = 0x25;
    pub const READ_10: u8 = 0x28;
    pub const READ_12: u8 = 0xa8;
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet(pub [u8; BYTES]);

impl Packet {
    /// Whether the drive can be read.
    #[must_use]
    pub fn test_unit_ready() -> Self {
        Self([code::TEST_UNIT_READY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Why the last command failed: [`SENSE_BYTES`].
    #[must_use]
    pub fn request_sense() -> Self {
        Self([code::REQUEST_SENSE, 0, 0, 0, SENSE_BYTES, 0, 0, 0, 0, 0, 0, 0])
    }

    /// How large the medium is: [`CAPACITY_BYTES`].
    #[must_use]
    pub fn read_capacity() -> Self {
        Self([code::READ_CAPACITY_10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Whether the drive's button opens it.
    #[must_use]
    pub fn lock(locked: bool) -> Self {
        Self([code::PREVENT_ALLOW_MEDIUM_REMOVAL, 0, 0, 0, u8::from(locked), 0, 0, 0, 0, 0, 0, 0])
    }

    /// Reads sectors, with READ(10), which every drive knows, if `count` fits into it.
    #[must_use]
    pub fn read(sector: u32, count: u32) -> Self {
        let [s0, s1, s2, s3] = sector.to_be_bytes();
        let [c0, c1, c2, c3] = count.to_be_bytes();
        Self(match u16::try_from(count) {
            Ok(_) => [code::READ_10, 0, s0, s1, s2, s3, 0, c2, c3, 0, 0, 0],
            Err(_) => [code::READ_12, 0, s0, s1, s2, s3, c0, c1, c2, c3, 0, 0],
        })
    }
}

/// Sectors of a medium, from the answer to [`Packet::read_capacity`]; `None` if no medium has such sectors.
#[must_use]
pub fn capacity(answer: &[u8]) -> Option<u64> {
    let (last, rest) = answer.split_first_chunk()?;
    let bytes = u32::from_be_bytes(*rest.first_chunk()?);
    // For discs with more than one kind of track, drives report the length of raw sectors, or nothing; sectors of data
    // are read all the same.
    matches!(bytes, SECTOR | 0 | 2336 | 2340 | 2352).then(|| u64::from(u32::from_be_bytes(*last)).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_highest_byte_first() {
        assert_eq!(Packet::read(0x0102_0304, 0x0506).0, [0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0, 0, 0]);
        assert_eq!(Packet::read(1, 0xffff).0, [0x28, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0, 0, 0]);
        assert_eq!(Packet::read(0x0102_0304, 0x0001_0203).0, [0xa8, 0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0]);
    }

    #[test]
    fn a_capacity_is_one_more_than_the_last_sector() {
        assert_eq!(capacity(&[0, 0, 1, 2, 0, 0, 8, 0]), Some(0x103));
        assert_eq!(capacity(&[0xff, 0xff, 0xff, 0xff, 0, 0, 8, 0]), Some(1 << 32));
        assert_eq!(capacity(&[0, 0, 0, 9, 0, 0, 9, 0x30]), Some(10), "raw sectors");
        assert_eq!(capacity(&[0, 0, 1, 2, 0, 0, 2, 0]), None, "sectors of 512 bytes");
        assert_eq!(capacity(&[0, 0, 1, 2, 0, 0, 8]), None);
        assert_eq!(capacity(&[]), None);
    }
}

//! A drive's description of itself.

use alloc::string::String;

/// Bytes of an identity.
pub const BYTES: usize = 512;
/// Sizes of a disk's sectors, in bytes.
const SECTORS: core::ops::RangeInclusive<u32> = 512..=4096;

/// A disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Its model, printable.
    pub model: String,
    /// How many sectors it has.
    pub sectors: u64,
    /// How many bytes each has: a power of two of 512 to 4,096.
    pub sector_bytes: u32,
    /// Whether it writes past its cache on request.
    pub forces_writes: bool,
}

/// A drive that takes packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketDrive {
    /// Its model, printable.
    pub model: String,
    /// Whether it reads discs.
    pub optical: bool,
    /// Whether it must know the direction of data.
    pub wants_direction: bool,
}

fn word(identity: &[u8; BYTES], number: usize) -> u16 {
    let (words, _) = identity.as_chunks();
    words.get(number).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// The model: 40 characters, two to a word with the first in the upper half.
fn model(identity: &[u8; BYTES]) -> String {
    let bytes = (27..47).flat_map(|number| word(identity, number).to_be_bytes());
    let text: String = bytes.map(|byte| if matches!(byte, 0x20..0x7f) { char::from(byte) } else { '?' }).collect();
    text.trim().into()
}

impl Disk {
    /// Reads the answer to IDENTIFY DEVICE.
    ///
    /// # Errors
    /// Why this is not a usable disk.
    pub fn parse(identity: &[u8; BYTES]) -> Result<Self, &'static str> {
        let commands = word(identity, 83);
        // Bits 15 and 14 say that the others mean something.
        if word(identity, 0) & 0x8000 != 0 || commands & 0xc000 != 0x4000 {
            return Err("its identification is not that of a disk");
        }
        if commands & (1 << 10) == 0 {
            return Err("it does not take sector numbers of 48 bits");
        }
        let large = word(identity, 106);
        let sector_bytes = match large & 0xd000 {
            0x5000 => {
                let words = u32::from(word(identity, 117)) | (u32::from(word(identity, 118)) << 16);
                words.saturating_mul(2)
            }
            _ => 512,
        };
        if !SECTORS.contains(&sector_bytes) || !sector_bytes.is_power_of_two() {
            return Err("its sectors have neither 512 nor 4096 bytes");
        }
        let sectors = (100..104).rev().fold(0, |sum, number| (sum << 16) | u64::from(word(identity, number)));
        if sectors == 0 || sectors > crate::fis::SECTORS_END {
            return Err("it has no sectors, or more than can be named");
        }
        // As above: bits 15 and 14 say that the others mean something, and bit 6 is WRITE DMA FUA EXT.
        let forces_writes = word(identity, 84) & 0xc040 == 0x4040;
        Ok(Self { model: model(identity), sectors, sector_bytes, forces_writes })
    }
}

impl PacketDrive {
    /// Reads the answer to IDENTIFY PACKET DEVICE.
    ///
    /// # Errors
    /// Why this is not a drive that takes packets of 12 bytes.
    pub fn parse(identity: &[u8; BYTES]) -> Result<Self, &'static str> {
        let general = word(identity, 0);
        if general & 0xc000 != 0x8000 {
            return Err("its identification is not that of a drive with packets");
        }
        if general & 3 != 0 {
            return Err("its packets are not of 12 bytes");
        }
        Ok(Self {
            model: model(identity),
            optical: (general >> 8) & 0x1f == 5,
            wants_direction: word(identity, 62) & 0x8000 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(words: &[(usize, u16)]) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (number, value) in words {
            bytes[number * 2..][..2].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    const DISK: [(usize, u16); 5] = [(0, 0x40), (27, 0x5145), (28, 0x4d00), (83, 0x4400), (101, 2)];

    #[test]
    fn a_disk_says_its_size() {
        let disk = Disk::parse(&identity(&DISK)).unwrap();
        assert_eq!(disk.sectors, 0x2_0000);
        assert_eq!(disk.sector_bytes, 512);
        assert!(disk.model.starts_with("QEM?"), "{}", disk.model);
        assert!(!disk.forces_writes);
        let with = |word| Disk::parse(&identity(&[&DISK[..], &[(84, word)]].concat())).unwrap().forces_writes;
        assert!(with(0x4040) && !with(0x4000) && !with(0x0040) && !with(0xffff));
        let large = [&DISK[..], &[(106, 0x5000), (117, 2048), (118, 0)]].concat();
        assert_eq!(Disk::parse(&identity(&large)).unwrap().sector_bytes, 4096);
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let with = |number, value| Disk::parse(&identity(&[&DISK[..], &[(number, value)]].concat()));
        assert!(with(0, 0x8580).is_err());
        assert!(with(83, 0x4000).is_err(), "without 48 bits");
        assert!(with(83, 0xffff).is_err());
        assert!(with(101, 0).is_err(), "without sectors");
        assert!(with(103, 2).is_err(), "with more than there are numbers");
        let odd = [&DISK[..], &[(106, 0x5000), (117, 260)]].concat();
        assert!(Disk::parse(&identity(&odd)).is_err());
    }

    #[test]
    fn an_optical_drive_is_told_from_others() {
        let drive = PacketDrive::parse(&identity(&[(0, 0x85c0)])).unwrap();
        assert!(drive.optical && !drive.wants_direction);
        let tape = PacketDrive::parse(&identity(&[(0, 0x8180), (62, 0x8000)])).unwrap();
        assert!(!tape.optical && tape.wants_direction);
        assert!(PacketDrive::parse(&identity(&[(0, 0x8581)])).is_err(), "packets of 16 bytes");
        assert!(PacketDrive::parse(&identity(&DISK)).is_err());
        assert!(PacketDrive::parse(&[0; BYTES]).is_err());
    }

    proptest! {
        #[test]
        fn any_identity_is_judged(bytes in prop::collection::vec(any::<u8>(), BYTES)) {
            let bytes: [u8; BYTES] = bytes.try_into().unwrap();
            if let Ok(disk) = Disk::parse(&bytes) {
                prop_assert!(SECTORS.contains(&disk.sector_bytes));
                prop_assert!(disk.model.bytes().all(|byte| matches!(byte, 0x20..0x7f)));
            }
            let _ = PacketDrive::parse(&bytes);
        }
    }
}

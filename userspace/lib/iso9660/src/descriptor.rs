//! Volume descriptors: the structures at sector 16 and on that say what the volume is.

use alloc::string::{String, ToString};

use crate::bytes::{array, both16, both32, byte};
use crate::{Malformed, Place, Problem, Record, SECTOR};

const STRUCTURE: &str = "the volume descriptor";

/// First sector that holds a volume descriptor.
pub const FIRST: u32 = 16;

/// One volume descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeDescriptor {
    /// The primary one, which leads to the root directory.
    Primary(Primary),
    /// The last one.
    Terminator,
    /// One that is not needed here: boot records, Joliet, partitions.
    Other {
        /// Its type code.
        code: u8,
    },
}

/// What the primary volume descriptor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// The volume's name, without blanks at its ends.
    pub label: String,
    /// Size of the volume in sectors.
    pub sectors: u32,
    /// Number of this volume in its set.
    pub sequence: u16,
    /// First sector of the root directory.
    pub root_lba: u32,
    /// Length of the root directory in bytes.
    pub root_bytes: u32,
    /// Date of the root directory.
    pub root_date: [u8; 7],
}

impl VolumeDescriptor {
    /// Reads the descriptor that `sector`, the bytes of sector `lba`, holds.
    ///
    /// # Errors
    /// [`Malformed`] where it is none, or one that contradicts itself.
    pub fn parse(sector: &[u8], lba: u32) -> Result<Self, Malformed> {
        let place = Place::new(STRUCTURE, lba);
        let code = byte(sector, 0, "type", place)?;
        if array::<5>(sector, 1, "identifier", place)? != *b"CD001" {
            return Err(place.rule("there is no ISO 9660 volume here (the mark CD001 is missing)"));
        }
        let version = byte(sector, 6, "version", place)?;
        match code {
            1 if version != 1 => Err(place.rule("its version is not 1")),
            1 => Primary::parse(sector, place).map(Self::Primary),
            255 => Ok(Self::Terminator),
            code => Ok(Self::Other { code }),
        }
    }
}

impl Primary {
    fn parse(sector: &[u8], place: Place) -> Result<Self, Malformed> {
        let block = both16(sector, 128, "logical block size", place)?;
        if usize::from(block) != SECTOR {
            return Err(place.wrong(Problem::Rule("its logical block size is not 2048 bytes")));
        }
        if byte(sector, 881, "file structure version", place)? != 1 {
            return Err(place.rule("its file structure version is not 1"));
        }
        let root_place = place.at("the root directory's record", 156);
        let root_record = array::<34>(sector, 156, "root directory record", place)?;
        let root = Record::parse(&root_record, root_place)?.ok_or_else(|| root_place.rule("it is empty"))?;
        if !root.flags().directory() || root.flags().more_extents() || root.identifier() != [0] {
            return Err(root_place.rule("it is not the record of a root directory"));
        }
        let label = array::<32>(sector, 40, "volume identifier", place)?;
        let label = label.map(|c| if (0x20..0x7f).contains(&c) { char::from(c) } else { ' ' });
        Ok(Self {
            label: label.iter().collect::<String>().trim().to_string(),
            sectors: both32(sector, 80, "volume space size", place)?,
            sequence: both16(sector, 124, "volume sequence number", place)?,
            root_lba: root.first_sector()?,
            root_bytes: root.data_length(),
            root_date: root.date(),
        })
    }
}

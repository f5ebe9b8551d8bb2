//! The directory records in a directory's sectors.

use crate::bytes::{array, both16, both32, byte};
use crate::{Malformed, Place, SECTOR};

const STRUCTURE: &str = "the directory record";

/// Bytes of a record before its identifier.
const FIXED: usize = 33;

/// The flag byte of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFlags(pub u8);

impl RecordFlags {
    /// The record is of a directory.
    pub fn directory(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// The record is of a file that only belongs to another one (a resource fork).
    pub fn associated(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// The next record is of a further extent of the same file.
    pub fn more_extents(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// A directory record; borrows the sector it lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    place: Place,
    extent: u32,
    attributes: u8,
    data_length: u32,
    date: [u8; 7],
    flags: RecordFlags,
    sequence: u16,
    identifier: &'a [u8],
    system_use: &'a [u8],
    system_use_at: usize,
    length: usize,
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes`, which reach to the end of its sector. None
    /// where the record's length is zero, which means that the rest of the sector is unused.
    ///
    /// # Errors
    /// [`Malformed`] where the record does not fit its length or the sector, where a number's
    /// two byte orders differ, where it is interleaved, or where unused bytes are in use.
    pub fn parse(bytes: &'a [u8], place: Place) -> Result<Option<Self>, Malformed> {
        let length = usize::from(byte(bytes, 0, "length", place)?);
        if length == 0 {
            return if bytes.iter().all(|byte| *byte == 0) {
                Ok(None)
            } else {
                Err(place.rule("its length is zero, but the rest of the sector is in use"))
            };
        }
        let record = bytes.get(..length).ok_or_else(|| place.rule("it reaches over the end of its sector"))?;
        let identifier_length = usize::from(byte(record, 32, "identifier length", place)?);
        if identifier_length == 0 {
            return Err(place.rule("its identifier is empty"));
        }
        let identifier_end = FIXED.saturating_add(identifier_length);
        let identifier =
            record.get(FIXED..identifier_end).ok_or_else(|| place.rule("its identifier reaches over its end"))?;
        // A byte of padding makes the start of the system use area even.
        let system_use_at = identifier_end.saturating_add(identifier_end & 1).min(length);
        if byte(record, 26, "file unit size", place)? != 0 || byte(record, 27, "interleave gap size", place)? != 0 {
            return Err(place.rule("the file is interleaved, which is not supported"));
        }
        Ok(Some(Self {
            place,
            extent: both32(record, 2, "location of extent", place)?,
            attributes: byte(record, 1, "extended attribute record length", place)?,
            data_length: both32(record, 10, "data length", place)?,
            date: array(record, 18, "recording date", place)?,
            flags: RecordFlags(byte(record, 25, "file flags", place)?),
            sequence: both16(record, 28, "volume sequence number", place)?,
            identifier,
            system_use: record.get(system_use_at..).unwrap_or(&[]),
            system_use_at,
            length,
        }))
    }

    /// Where the record lies.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Bytes of the whole record.
    pub fn length(&self) -> usize {
        self.length
    }

    /// First sector of the extent's data, behind its extended attributes.
    ///
    /// # Errors
    /// [`Malformed`] past the last sector that a number can name.
    pub fn first_sector(&self) -> Result<u32, Malformed> {
        self.extent
            .checked_add(self.attributes.into())
            .ok_or_else(|| self.place.rule("its extent lies past the last possible sector"))
    }

    /// Length of the extent's data in bytes.
    pub fn data_length(&self) -> u32 {
        self.data_length
    }

    /// The recording date in its 7-byte form.
    pub fn date(&self) -> [u8; 7] {
        self.date
    }

    /// The flags.
    pub fn flags(&self) -> RecordFlags {
        self.flags
    }

    /// Number of the volume that holds the data.
    pub fn sequence(&self) -> u16 {
        self.sequence
    }

    /// The identifier: `[0]` for the directory itself, `[1]` for its parent, else a name.
    pub fn identifier(&self) -> &'a [u8] {
        self.identifier
    }

    /// The system use area, where Rock Ridge keeps its entries, and its place.
    pub fn system_use(&self) -> (&'a [u8], Place) {
        let offset = self.place.offset as usize;
        (self.system_use, self.place.at("the system use area", offset.saturating_add(self.system_use_at)))
    }
}

/// The records of one sector of a directory, up to the first that is wrong.
pub fn records_in_sector(sector: &[u8], lba: u32) -> impl Iterator<Item = Result<Record<'_>, Malformed>> {
    let mut at = 0usize;
    core::iter::from_fn(move || {
        let rest = sector.get(at..).filter(|rest| !rest.is_empty())?;
        let place = Place::new(STRUCTURE, lba).at(STRUCTURE, at);
        match Record::parse(rest, place) {
            Ok(Some(record)) => {
                at = at.saturating_add(record.length());
                Some(Ok(record))
            }
            Ok(None) => {
                at = SECTOR;
                None
            }
            Err(malformed) => {
                at = SECTOR;
                Some(Err(malformed))
            }
        }
    })
}

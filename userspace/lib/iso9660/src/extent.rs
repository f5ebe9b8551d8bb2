//! Where a file's bytes lie.

use alloc::vec::Vec;

use crate::{Malformed, Place, Problem, SECTOR, limits};

/// Consecutive sectors of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first sector.
    pub lba: u32,
    /// Bytes in use; a multiple of [`SECTOR`] in all but a file's last extent.
    pub bytes: u32,
}

impl Extent {
    /// Number of sectors that the extent touches.
    pub fn sectors(&self) -> u32 {
        self.bytes.div_ceil(SECTOR as u32)
    }

    /// The sector behind the last one.
    pub fn end(&self) -> u64 {
        u64::from(self.lba).saturating_add(self.sectors().into())
    }

    /// Whether some sector belongs to both.
    pub fn overlaps(&self, other: &Self) -> bool {
        u64::from(self.lba) < other.end() && u64::from(other.lba) < self.end()
    }
}

/// Bytes of a file that lie one after another on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The sector in which the run begins.
    pub lba: u32,
    /// Bytes of that sector before the run; 0 where the run's offset in the file is a multiple
    /// of [`SECTOR`].
    pub skip: u32,
    /// Length of the run in bytes.
    pub bytes: u64,
}

/// Collects the extents of one file and checks that they can be one.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    list: Vec<Extent>,
    size: u64,
}

impl Extents {
    pub fn push(&mut self, extent: Extent, place: Place) -> Result<(), Malformed> {
        if !self.size.is_multiple_of(SECTOR as u64) {
            return Err(place.rule("an extent that is not the file's last ends within a sector"));
        }
        if extent.bytes == 0 {
            return Ok(());
        }
        if let Some(other) = self.list.iter().find(|other| other.overlaps(&extent)) {
            let problem = Problem::Overlap { with: "an earlier extent of the same file", first: other.lba };
            return Err(place.wrong(problem));
        }
        if self.list.len() >= limits::EXTENTS {
            let (found, limit) = (limits::EXTENTS as u64, limits::EXTENTS as u64);
            return Err(place.wrong(Problem::TooLarge {
                what: "the number of extents of a file",
                found: found.saturating_add(1),
                limit,
            }));
        }
        self.size = self.size.saturating_add(extent.bytes.into());
        self.list.push(extent);
        Ok(())
    }

    pub fn into_parts(self) -> (Vec<Extent>, u64) {
        (self.list, self.size)
    }
}

/// The runs of a range of a file, in order.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    extents: core::slice::Iter<'a, Extent>,
    /// Bytes still to skip from the next extent's start.
    skip: u64,
    left: u64,
}

impl<'a> Runs<'a> {
    /// The runs of a part of a file that lies in these extents.
    #[must_use]
    pub fn new(extents: &'a [Extent], offset: u64, bytes: u64) -> Self {
        Self { extents: extents.iter(), skip: offset, left: bytes }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        while self.left > 0 {
            let extent = self.extents.next()?;
            let Some(after) = u64::from(extent.bytes).checked_sub(self.skip).filter(|after| *after > 0) else {
                self.skip = self.skip.saturating_sub(extent.bytes.into());
                continue;
            };
            let bytes = after.min(self.left);
            let sectors = u32::try_from(self.skip >> SECTOR.ilog2()).ok()?;
            let run = Run {
                lba: extent.lba.checked_add(sectors)?,
                skip: u32::try_from(self.skip & (SECTOR as u64).saturating_sub(1)).ok()?,
                bytes,
            };
            self.skip = 0;
            self.left = self.left.saturating_sub(bytes);
            return Some(run);
        }
        None
    }
}

//! Rock Ridge: names, modes, times and links in the system use areas of directory records.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{array, both32, byte};
use crate::{Malformed, Place, Problem, SECTOR, date, limits};

/// A further piece of a system use area, somewhere else on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// Its sector.
    pub lba: u32,
    /// Its first byte in the sector.
    pub offset: u32,
    /// Its length in bytes; it never leaves the sector.
    pub length: u32,
}

impl Continuation {
    /// The piece itself, out of the bytes of its sector.
    pub fn slice<'a>(&self, sector: &'a [u8]) -> &'a [u8] {
        let start = self.offset as usize;
        sector.get(start..start.saturating_add(self.length as usize)).unwrap_or(&[])
    }
}

/// What the entries of one record's system use area say, collected piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RockRidge {
    /// The name, where there is one (NM).
    pub name: Option<Vec<u8>>,
    /// File mode bits as POSIX has them (PX).
    pub mode: Option<u32>,
    /// Target of the symbolic link (SL).
    pub target: Option<Vec<u8>>,
    /// Time of the last modification in seconds since 1970 (TF).
    pub modified: Option<i64>,
    /// Where the directory that this record stands for really lies (CL).
    pub child: Option<u32>,
    /// In a `..` record: where the directory was before it was moved (PL).
    pub parent: Option<u32>,
    /// The record is the real place of a moved directory, and not to be shown (RE).
    pub moved: bool,
    /// Bytes to skip at the start of every other system use area (SP), in the root's record.
    pub skip: Option<u8>,
    /// Rock Ridge announces itself (ER), in the root's record.
    pub announced: bool,
    name_goes_on: bool,
    target_goes_on: bool,
    component_goes_on: bool,
    ended: bool,
}

impl RockRidge {
    /// Takes the next piece of the area and gives the place of the one after it, if any.
    ///
    /// # Errors
    /// [`Malformed`] for entries that do not fit their lengths, contradict one another or
    /// describe a file that cannot be read here (compressed, sparse).
    pub fn add(&mut self, mut area: &[u8], mut place: Place) -> Result<Option<Continuation>, Malformed> {
        let mut next = None;
        // Up to three bytes of padding may follow the last entry.
        while area.len() >= 4 && !self.ended {
            let [first, second, length, version] = array::<4>(area, 0, "entry", place)?;
            let entry = area
                .get(..usize::from(length))
                .filter(|entry| entry.len() >= 4)
                .ok_or_else(|| place.rule("an entry's length is below 4 or past the area's end"))?;
            let known = self.entry([first, second], version, entry, place)?;
            if let Some(continuation) = known
                && next.replace(continuation).is_some()
            {
                return Err(place.rule("it has two continuations"));
            }
            area = area.get(entry.len()..).unwrap_or(&[]);
            let offset = (place.offset as usize).saturating_add(entry.len());
            place = place.at(place.structure, offset);
        }
        Ok(if self.ended { None } else { next })
    }

    /// Checks what can only be judged when all pieces have been seen.
    ///
    /// # Errors
    /// [`Malformed`] where a name or a link's target breaks off.
    pub fn finish(&self, place: Place) -> Result<(), Malformed> {
        if self.name_goes_on || self.target_goes_on || self.component_goes_on {
            return Err(place.rule("a name or link target says that it goes on, and does not"));
        }
        Ok(())
    }

    fn entry(
        &mut self,
        signature: [u8; 2],
        version: u8,
        entry: &[u8],
        place: Place,
    ) -> Result<Option<Continuation>, Malformed> {
        let understood =
            matches!(&signature, b"CE" | b"SP" | b"ST" | b"ER" | b"PX" | b"NM" | b"SL" | b"TF" | b"CL" | b"PL" | b"RE");
        if understood && version != 1 {
            return Err(place.rule("an entry's version is not 1"));
        }
        match &signature {
            b"CE" => return continuation(entry, place).map(Some),
            b"SP" => {
                if array::<2>(entry, 4, "check bytes", place)? != [0xbe, 0xef] {
                    return Err(place.rule("the check bytes of the entry SP are wrong"));
                }
                self.skip = Some(byte(entry, 6, "skipped bytes", place)?);
            }
            b"ST" => self.ended = true,
            b"ER" => {
                let length = usize::from(byte(entry, 4, "identifier length", place)?);
                let identifier = entry
                    .get(8..length.saturating_add(8))
                    .ok_or_else(|| place.wrong(Problem::Short { field: "extension identifier" }))?;
                self.announced |= [&b"RRIP_1991A"[..], b"IEEE_P1282", b"IEEE_1282"].contains(&identifier);
            }
            b"PX" => self.mode = Some(both32(entry, 4, "file mode", place)?),
            b"NM" => self.name(entry, place)?,
            b"SL" => self.link(entry, place)?,
            b"TF" => self.times(entry, place)?,
            b"CL" => self.child = Some(both32(entry, 4, "child link", place)?),
            b"PL" => self.parent = Some(both32(entry, 4, "parent link", place)?),
            b"RE" => self.moved = true,
            b"ZF" => {
                return Err(place.rule("the file is compressed (zisofs), which is not supported"));
            }
            b"SF" => return Err(place.rule("the file is sparse, which is not supported")),
            _ => {}
        }
        Ok(None)
    }

    fn name(&mut self, entry: &[u8], place: Place) -> Result<(), Malformed> {
        let flags = byte(entry, 4, "name flags", place)?;
        if self.name.is_some() && !self.name_goes_on {
            return Err(place.rule("there are two names"));
        }
        self.name_goes_on = flags & 0x01 != 0;
        if flags & 0x06 != 0 {
            // "." or "..": the record's identifier says so too, and is what counts.
            self.name_goes_on = false;
            return Ok(());
        }
        let name = self.name.get_or_insert_default();
        name.extend_from_slice(entry.get(5..).unwrap_or(&[]));
        limit("the length of a name", name.len(), limits::NAME_BYTES, place)
    }

    fn link(&mut self, entry: &[u8], place: Place) -> Result<(), Malformed> {
        let flags = byte(entry, 4, "link flags", place)?;
        if self.target.is_some() && !self.target_goes_on {
            return Err(place.rule("there are two link targets"));
        }
        self.target_goes_on = flags & 0x01 != 0;
        let target = self.target.get_or_insert_default();
        let mut rest = entry.get(5..).unwrap_or(&[]);
        while let Some((&flags, after)) = rest.split_first() {
            let length = usize::from(byte(after, 0, "link component length", place)?);
            let text = after
                .get(1..length.saturating_add(1))
                .ok_or_else(|| place.wrong(Problem::Short { field: "link component" }))?;
            rest = after.get(length.saturating_add(1)..).unwrap_or(&[]);
            if !self.component_goes_on && target.last().is_some_and(|last| *last != b'/') {
                target.push(b'/');
            }
            match flags & 0x3e {
                0 => target.extend_from_slice(text),
                0x02 => target.push(b'.'),
                0x04 => target.extend_from_slice(b".."),
                0x08 if target.is_empty() => target.push(b'/'),
                // Image makers write an empty component ("a//b") like this.
                0x08 => {}
                _ => return Err(place.rule("a link component of an unknown kind")),
            }
            self.component_goes_on = flags & 0x01 != 0;
            limit("the length of a link's target", target.len(), limits::LINK_BYTES, place)?;
        }
        Ok(())
    }

    fn times(&mut self, entry: &[u8], place: Place) -> Result<(), Malformed> {
        let flags = byte(entry, 4, "time flags", place)?;
        if flags & 0x02 == 0 {
            return Ok(());
        }
        // The time of creation, where there is one, comes first.
        let before = usize::from(flags & 0x01);
        self.modified = Some(if flags & 0x80 == 0 {
            date::short(array(entry, before.saturating_mul(7).saturating_add(5), "time", place)?)
        } else {
            date::long(array(entry, before.saturating_mul(17).saturating_add(5), "time", place)?)
        });
        Ok(())
    }
}

fn continuation(entry: &[u8], place: Place) -> Result<Continuation, Malformed> {
    let lba = both32(entry, 4, "continuation sector", place)?;
    let offset = both32(entry, 12, "continuation offset", place)?;
    let length = both32(entry, 20, "continuation length", place)?;
    let end = u64::from(offset).saturating_add(u64::from(length));
    if end > SECTOR as u64 {
        return Err(place.rule("its continuation reaches over the end of a sector"));
    }
    Ok(Continuation { lba, offset, length })
}

fn limit(what: &'static str, found: usize, limit: usize, place: Place) -> Result<(), Malformed> {
    if found <= limit {
        return Ok(());
    }
    Err(place.wrong(Problem::TooLarge { what, found: found as u64, limit: limit as u64 }))
}

/// A link's target as text.
pub(crate) fn target_text(target: &[u8], place: Place) -> Result<String, Malformed> {
    let text = core::str::from_utf8(target).map_err(|_| place.rule("a link's target is not UTF-8"))?;
    if text.is_empty() || text.contains('\0') {
        return Err(place.rule("a link's target is empty or holds a NUL"));
    }
    Ok(text.into())
}

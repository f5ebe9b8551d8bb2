//! Reading a directory, entry by entry.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::extent::Extents;
use crate::node::Lineage;
use crate::rock_ridge::target_text;
use crate::{
    Continuation, Error, Extent, Kind, Malformed, Node, Place, Problem, ReadSectors, Record, RockRidge, SECTOR, Volume,
    date, limits, name, records_in_sector,
};

/// Sectors of a directory that are read at once.
const CHUNK: u32 = 8;

/// File type bits of a POSIX mode, and some of their values.
const MODE_TYPE: u32 = 0o170_000;
const MODE_FILE: u32 = 0o100_000;
const MODE_DIRECTORY: u32 = 0o040_000;
const MODE_LINK: u32 = 0o120_000;

/// A name in a directory, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: 1 to 255 bytes, no `/`, no NUL, not `.` or `..`.
    pub name: String,
    /// What it stands for.
    pub node: Node,
}

/// Reads the entries of a directory in the volume's order; made by [`Volume::entries`].
pub struct DirectoryReader<'v, R> {
    volume: &'v Volume<R>,
    directory: Node,
    extent: Extent,
    /// Sectors of the directory that have been read.
    sectors_read: u32,
    chunk: Vec<u8>,
    /// First sector of the chunk, and the byte in the chunk that is looked at next.
    chunk_lba: u32,
    at: usize,
    /// Records seen; the first two are the directory itself and its parent.
    seen: u32,
    continuation: SectorCache,
    stopped: bool,
}

/// The last sector of continuation areas that was read; neighbours often share one.
struct SectorCache {
    lba: Option<u32>,
    bytes: Vec<u8>,
    reads_left: u32,
}

/// A record with its Rock Ridge entries, free of the sector it came from.
struct Parsed {
    place: Place,
    identifier: Vec<u8>,
    extent: Extent,
    directory: bool,
    associated: bool,
    more_extents: bool,
    date: [u8; 7],
    sequence: u16,
    rock: RockRidge,
    /// The piece of the system use area that was not looked at yet.
    next: Option<Continuation>,
}

impl<'v, R: ReadSectors> DirectoryReader<'v, R> {
    pub(crate) fn new(volume: &'v Volume<R>, directory: &Node) -> Result<Self, Error<R::Error>> {
        let extent = match (directory.kind(), directory.extents.as_slice()) {
            (Kind::Directory, [extent]) => *extent,
            _ => {
                return Err(Error::NotADirectory { path: String::new() });
            }
        };
        Ok(Self {
            volume,
            directory: directory.clone(),
            extent,
            sectors_read: 0,
            chunk: Vec::new(),
            chunk_lba: extent.lba,
            at: 0,
            seen: 0,
            continuation: SectorCache::new(),
            stopped: false,
        })
    }

    /// The next entry, or None behind the last.
    ///
    /// # Errors
    /// [`Error::Source`] or [`Error::Malformed`]; nothing more is read after one.
    pub async fn next(&mut self) -> Result<Option<Entry>, Error<R::Error>> {
        let entry = self.next_of_any_name().await?.transpose();
        self.stopped |= entry.is_err();
        Ok(entry?)
    }

    /// As [`Self::next`], without entries whose names are refused: `skipped` is told of each, and the entries after it follow.
    ///
    /// # Errors
    /// As [`Self::next`], for all but names.
    pub async fn next_named(&mut self, mut skipped: impl FnMut(Malformed)) -> Result<Option<Entry>, Error<R::Error>> {
        while let Some(entry) = self.next_of_any_name().await? {
            match entry {
                Ok(entry) => return Ok(Some(entry)),
                Err(malformed) => skipped(malformed),
            }
        }
        Ok(None)
    }

    /// The next entry, or what is wrong with its name.
    async fn next_of_any_name(&mut self) -> Result<Option<Result<Entry, Malformed>>, Error<R::Error>> {
        if self.stopped {
            return Ok(None);
        }
        let result = self.next_entry().await;
        self.stopped = !matches!(result, Ok(Some(_)));
        result
    }

    async fn next_entry(&mut self) -> Result<Option<Result<Entry, Malformed>>, Error<R::Error>> {
        loop {
            let Some(first) = self.next_record().await? else {
                return if self.seen < 2 {
                    Err(self.place().rule("it lacks the records of itself and its parent").into())
                } else {
                    Ok(None)
                };
            };
            if self.seen <= 2 {
                self.check_dot(&first)?;
                continue;
            }
            let mut extents = Extents::default();
            extents.push(first.extent, first.place)?;
            let mut goes_on = first.more_extents;
            while goes_on {
                let more = self
                    .next_record()
                    .await?
                    .ok_or_else(|| first.place.rule("it announces a further extent, and the directory ends"))?;
                if more.identifier != first.identifier || more.directory || first.directory {
                    return Err(first.place.rule("it announces a further extent, and another file follows").into());
                }
                extents.push(more.extent, more.place)?;
                goes_on = more.more_extents;
            }
            // Directories that were moved are shown where they were before.
            if first.associated || (first.rock.moved && self.volume.rock_ridge().is_some()) {
                continue;
            }
            return self.entry(first, extents).await.map(Some);
        }
    }

    /// Makes the entry of a record, or says what is wrong with its name.
    async fn entry(&mut self, record: Parsed, extents: Extents) -> Result<Result<Entry, Malformed>, Error<R::Error>> {
        let place = record.place;
        let name = match &record.rock.name {
            Some(name) => name::accept(name, place),
            None if matches!(record.identifier.as_slice(), [0] | [1]) => {
                return Err(place.rule("the record of the directory or its parent is there again").into());
            }
            None => name::from_identifier(&record.identifier, place),
        };
        let name = match name {
            Ok(name) => name,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let mode = record.rock.mode.unwrap_or(0);
        let modified = record.rock.modified.unwrap_or_else(|| date::short(record.date));
        let parent = &self.directory.lineage;
        let mut node = Node {
            kind: Kind::File,
            size: 0,
            extents: Vec::new(),
            mode,
            modified,
            lineage: Arc::clone(parent),
            moved_from: None,
        };
        if let Some(lba) = record.rock.child {
            let extent = self.moved_directory(lba, place).await?;
            node.moved_from = Some(self.extent.lba);
            self.make_directory(&mut node, extent, place)?;
        } else if record.directory {
            if !matches!(mode & MODE_TYPE, 0 | MODE_DIRECTORY) {
                return Err(place.rule("it is a directory by its flags and none by its mode").into());
            }
            self.make_directory(&mut node, record.extent, place)?;
        } else if let Some(target) = &record.rock.target {
            node.kind = Kind::Link(target_text(target, place)?);
        } else {
            match mode & MODE_TYPE {
                0 | MODE_FILE => (node.extents, node.size) = extents.into_parts(),
                MODE_DIRECTORY => {
                    return Err(place.rule("it is a directory by its mode and none by its flags").into());
                }
                MODE_LINK => {
                    return Err(place.rule("it is a symbolic link without a target").into());
                }
                _ => node.kind = Kind::Special,
            }
        }
        Ok(Ok(Entry { name, node }))
    }

    /// Turns a node into a directory, which must lie apart from those it is in.
    fn make_directory(&self, node: &mut Node, extent: Extent, place: Place) -> Result<(), Malformed> {
        let parent = &self.directory.lineage;
        if let Some(above) = parent.upwards().find(|above| above.extent.overlaps(&extent)) {
            let with = "a directory that it is in (the directories form a loop)";
            return Err(place.wrong(Problem::Overlap { with, first: above.extent.lba }));
        }
        let depth = parent.depth.saturating_add(1);
        if depth > limits::DEPTH {
            let (found, limit) = (depth as u64, limits::DEPTH as u64);
            return Err(place.wrong(Problem::TooLarge { what: "the depth of directories", found, limit }));
        }
        check_directory(extent, place)?;
        node.kind = Kind::Directory;
        node.size = extent.bytes.into();
        node.extents = vec![extent];
        node.lineage = Arc::new(Lineage { extent, parent: Some(Arc::clone(parent)), depth });
        Ok(())
    }

    /// The extent of a directory whose first sector alone is known: its own first record has the
    /// length.
    async fn moved_directory(&mut self, lba: u32, place: Place) -> Result<Extent, Error<R::Error>> {
        self.volume.check_extent(Extent { lba, bytes: SECTOR as u32 }, place)?;
        let sector = self.continuation.get(self.volume, lba, place).await?;
        let dot = records_in_sector(sector, lba).next().transpose()?;
        match dot {
            Some(dot) if dot.identifier() == [0] && dot.first_sector()? == lba => {
                let extent = Extent { lba, bytes: dot.data_length() };
                self.volume.check_extent(extent, dot.place())?;
                Ok(extent)
            }
            _ => Err(place.rule("it leads to a moved directory that is not there").into()),
        }
    }

    /// Checks the first two records: the directory itself, and the one it lies in.
    fn check_dot(&self, record: &Parsed) -> Result<(), Malformed> {
        let place = record.place;
        let (identifier, expected) = if self.seen == 1 {
            (0, self.extent.lba)
        } else {
            let lineage = &self.directory.lineage;
            let parent = lineage.parent.as_ref().map_or(self.extent.lba, |parent| parent.extent.lba);
            (1, parent)
        };
        if record.identifier != [identifier] || !record.directory {
            return Err(place.rule("a directory's first two records are not itself and its parent"));
        }
        // The parent of a moved directory is told by its entry PL.
        let found = match (self.seen, self.directory.moved_from) {
            (2, Some(_)) => record.rock.parent,
            _ => Some(record.extent.lba),
        };
        if found != Some(expected) {
            return Err(place.rule("it should point to the directory itself or its parent, and does not"));
        }
        if self.seen == 1 && record.extent.bytes != self.extent.bytes {
            return Err(place.rule("the directory's length differs from the one its parent tells"));
        }
        Ok(())
    }

    /// The next record with its Rock Ridge entries, its extent checked to lie in the volume.
    async fn next_record(&mut self) -> Result<Option<Parsed>, Error<R::Error>> {
        let mut parsed = loop {
            if self.at >= self.chunk.len() && !self.next_chunk().await? {
                return Ok(None);
            }
            if let Some(found) = self.record_here()? {
                break found;
            }
        };
        let mut hops = 0usize;
        while let Some(continuation) = parsed.next {
            let Continuation { lba, offset, .. } = continuation;
            hops = hops.saturating_add(1);
            if hops > limits::CONTINUATIONS {
                let (found, limit) = (hops as u64, limits::CONTINUATIONS as u64);
                let what = "the number of continuations of a record (they may form a loop)";
                return Err(parsed.place.wrong(Problem::TooLarge { what, found, limit }).into());
            }
            let sector = self.continuation.get(self.volume, lba, parsed.place).await?;
            let place = Place { structure: "the continuation area", lba, offset };
            parsed.next = parsed.rock.add(continuation.slice(sector), place)?;
        }
        parsed.rock.finish(parsed.place)?;
        // The sectors of links and moved directories are not looked at, so they may be anything.
        let contents = parsed.rock.target.is_none() && parsed.rock.child.is_none();
        if (parsed.directory || contents) && parsed.extent.bytes > 0 {
            self.volume.check_extent(parsed.extent, parsed.place)?;
            self.volume.check_sequence(parsed.sequence, parsed.place)?;
        }
        self.seen = self.seen.saturating_add(1);
        Ok(Some(parsed))
    }

    /// Reads the record at the current place and moves behind it; where the sector's rest is
    /// unused it moves to the next sector and gives None.
    fn record_here(&mut self) -> Result<Option<Parsed>, Malformed> {
        let in_sector = self.at & SECTOR.saturating_sub(1);
        let sector_start = self.at.saturating_sub(in_sector);
        let sector_end = sector_start.saturating_add(SECTOR);
        let sectors = u32::try_from(sector_start >> SECTOR.ilog2()).unwrap_or(u32::MAX);
        let lba = self.chunk_lba.saturating_add(sectors);
        let place = Place::new("the directory record", lba).at("the directory record", in_sector);
        let rest = self.chunk.get(self.at..sector_end).unwrap_or(&[]);
        let Some(record) = Record::parse(rest, place)? else {
            self.at = sector_end;
            return Ok(None);
        };
        let mut rock = RockRidge::default();
        let mut next = None;
        if let Some(skip) = self.volume.rock_ridge() {
            let (area, area_place) = record.system_use();
            // The root's own record is where the bytes to skip are told; it skips none itself.
            let root = self.seen == 0 && self.directory.lineage.parent.is_none();
            let skip = if root { 0 } else { usize::from(skip) };
            next = rock.add(area.get(skip..).unwrap_or(&[]), area_place)?;
        }
        let flags = record.flags();
        let parsed = Parsed {
            place,
            identifier: record.identifier().to_vec(),
            extent: Extent { lba: record.first_sector()?, bytes: record.data_length() },
            directory: flags.directory(),
            associated: flags.associated(),
            more_extents: flags.more_extents(),
            date: record.date(),
            sequence: record.sequence(),
            rock,
            next,
        };
        self.at = self.at.saturating_add(record.length());
        Ok(Some(parsed))
    }

    /// Reads the next sectors of the directory; false behind the last.
    async fn next_chunk(&mut self) -> Result<bool, Error<R::Error>> {
        let sectors = self.extent.sectors().saturating_sub(self.sectors_read).min(CHUNK);
        if sectors == 0 {
            return Ok(false);
        }
        self.chunk_lba = self.extent.lba.saturating_add(self.sectors_read);
        self.chunk.resize((sectors as usize).saturating_mul(SECTOR), 0);
        self.volume.read_sectors(self.chunk_lba, &mut self.chunk).await?;
        self.sectors_read = self.sectors_read.saturating_add(sectors);
        self.at = 0;
        Ok(true)
    }

    fn place(&self) -> Place {
        Place::new("the directory", self.extent.lba)
    }
}

impl SectorCache {
    fn new() -> Self {
        Self { lba: None, bytes: Vec::new(), reads_left: limits::CONTINUATION_READS }
    }

    async fn get<R: ReadSectors>(
        &mut self,
        volume: &Volume<R>,
        lba: u32,
        place: Place,
    ) -> Result<&[u8], Error<R::Error>> {
        if self.lba != Some(lba) {
            volume.check_extent(Extent { lba, bytes: SECTOR as u32 }, place)?;
            self.reads_left = self.reads_left.checked_sub(1).ok_or_else(|| {
                let limit = u64::from(limits::CONTINUATION_READS);
                let what = "the continuation sectors read for one directory";
                place.wrong(Problem::TooLarge { what, found: limit.saturating_add(1), limit })
            })?;
            self.lba = None;
            self.bytes.resize(SECTOR, 0);
            volume.read_sectors(lba, &mut self.bytes).await?;
            self.lba = Some(lba);
        }
        Ok(&self.bytes)
    }
}

/// Checks the length of a directory.
pub(crate) fn check_directory(extent: Extent, place: Place) -> Result<(), Malformed> {
    if extent.bytes == 0 || extent.bytes & (SECTOR as u32).saturating_sub(1) != 0 {
        return Err(place.rule("a directory's length is not a multiple of 2048 above zero"));
    }
    if extent.bytes > limits::DIRECTORY_BYTES {
        let (found, limit) = (extent.bytes.into(), limits::DIRECTORY_BYTES.into());
        return Err(place.wrong(Problem::TooLarge { what: "a directory's length", found, limit }));
    }
    Ok(())
}

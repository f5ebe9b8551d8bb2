//! A mounted volume.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::descriptor::FIRST;
use crate::directory::check_directory;
use crate::node::Lineage;
use crate::{
    DirectoryReader, Entry, Error, Extent, Kind, Malformed, Node, Place, Primary, Problem, ReadSectors, RockRidge,
    SECTOR, VolumeDescriptor, date, limits, records_in_sector,
};

/// A volume that has been recognised. It keeps no state about open files; [`Node`]s do.
pub struct Volume<R> {
    source: R,
    label: String,
    sectors: u32,
    /// First sector behind the volume descriptors.
    data: u32,
    sequence: u16,
    /// Bytes to skip in system use areas where the volume has Rock Ridge.
    rock_ridge: Option<u8>,
    root: Node,
}

impl<R: ReadSectors> Volume<R> {
    /// Recognises the volume on a device of `device_sectors` sectors of 2048 bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] where there is no volume, one that is cut off, or one that
    /// contradicts itself; [`Error::Source`] where the device cannot be read.
    pub async fn mount(source: R, device_sectors: u64) -> Result<Self, Error<R::Error>> {
        let mut sector = vec![0; SECTOR];
        let mut primary: Option<Primary> = None;
        let mut lba = FIRST;
        loop {
            let place = Place::new("the volume descriptor", lba);
            if lba >= FIRST.saturating_add(limits::DESCRIPTORS) || u64::from(lba) >= device_sectors {
                return Err(place.rule("the list of volume descriptors has no end").into());
            }
            source.read(lba, &mut sector).await.map_err(|error| Error::Source { lba, error })?;
            match VolumeDescriptor::parse(&sector, lba)? {
                VolumeDescriptor::Primary(found) if primary.is_none() => primary = Some(found),
                VolumeDescriptor::Primary(_) | VolumeDescriptor::Other { .. } => {}
                VolumeDescriptor::Terminator => break,
            }
            lba = lba.saturating_add(1);
        }
        let place = Place::new("the volume descriptor", FIRST);
        let primary = primary.ok_or_else(|| place.rule("there is no primary volume descriptor"))?;
        if u64::from(primary.sectors) > device_sectors {
            let (found, limit) = (primary.sectors.into(), device_sectors);
            let what = "the volume's sectors, on a device that has fewer (the image may be cut off)";
            return Err(place.wrong(Problem::TooLarge { what, found, limit }).into());
        }
        let extent = Extent { lba: primary.root_lba, bytes: primary.root_bytes };
        let root_place = place.at("the root directory's record", 156);
        let root = Node {
            kind: Kind::Directory,
            size: extent.bytes.into(),
            extents: vec![extent],
            mode: 0,
            modified: date::short(primary.root_date),
            lineage: Arc::new(Lineage { extent, parent: None, depth: 0 }),
            moved_from: None,
        };
        let mut volume = Self {
            source,
            label: primary.label,
            sectors: primary.sectors,
            data: lba.saturating_add(1),
            sequence: primary.sequence,
            rock_ridge: None,
            root,
        };
        check_directory(extent, root_place)?;
        volume.check_extent(extent, root_place)?;
        volume.rock_ridge = volume.find_rock_ridge(extent.lba, sector).await?;
        Ok(volume)
    }

    /// Looks into the root directory's own record for the marks of Rock Ridge.
    async fn find_rock_ridge(&self, lba: u32, mut sector: Vec<u8>) -> Result<Option<u8>, Error<R::Error>> {
        self.read_sectors(lba, &mut sector).await?;
        let mut rock = RockRidge::default();
        let (place, mut next) = {
            let Some(dot) = records_in_sector(&sector, lba).next().transpose()? else {
                return Err(Place::new("the root directory", lba).rule("it is empty").into());
            };
            let (area, place) = dot.system_use();
            if !area.starts_with(b"SP") {
                return Ok(None);
            }
            (place, rock.add(area, place)?)
        };
        let mut hops = 0usize;
        while let Some(continuation) = next {
            hops = hops.saturating_add(1);
            if hops > limits::CONTINUATIONS {
                let (found, limit) = (hops as u64, limits::CONTINUATIONS as u64);
                let what = "the number of continuations of a record (they may form a loop)";
                return Err(place.wrong(Problem::TooLarge { what, found, limit }).into());
            }
            let lba = continuation.lba;
            self.check_extent(Extent { lba, bytes: SECTOR as u32 }, place)?;
            self.read_sectors(lba, &mut sector).await?;
            let area_place = Place { structure: "the continuation area", lba, offset: continuation.offset };
            next = rock.add(continuation.slice(&sector), area_place)?;
        }
        Ok(rock.skip.filter(|_| rock.announced))
    }

    /// The volume's name.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The volume's size in sectors.
    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Whether names, modes and links come from Rock Ridge.
    pub fn has_rock_ridge(&self) -> bool {
        self.rock_ridge.is_some()
    }

    pub(crate) fn rock_ridge(&self) -> Option<u8> {
        self.rock_ridge
    }

    /// The root directory.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Where sectors come from.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// Reads a directory's entries one by one.
    ///
    /// # Errors
    /// [`Error::NotADirectory`] for other nodes.
    pub fn entries(&self, directory: &Node) -> Result<DirectoryReader<'_, R>, Error<R::Error>> {
        DirectoryReader::new(self, directory)
    }

    /// Reads all entries of a directory, in the volume's order. Those whose names are refused are left out, and `skipped` is told
    /// of each.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::Malformed`], [`Error::Source`].
    pub async fn list(
        &self,
        directory: &Node,
        mut skipped: impl FnMut(Malformed),
    ) -> Result<Vec<Entry>, Error<R::Error>> {
        let mut reader = self.entries(directory)?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_named(&mut skipped).await? {
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Looks up one name, which is compared byte for byte.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::Malformed`], [`Error::Source`].
    pub async fn lookup(&self, directory: &Node, name: &str) -> Result<Node, Error<R::Error>> {
        let mut reader = self.entries(directory)?;
        while let Some(entry) = reader.next_named(|_| ()).await? {
            if entry.name == name {
                return Ok(entry.node);
            }
        }
        Err(Error::NotFound { path: name.to_string() })
    }

    /// Copies contents of a regular file from `offset` on into `buffer` and tells how many bytes
    /// there were: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// [`Error::NotAFile`], [`Error::Source`].
    pub async fn read(&self, file: &Node, offset: u64, buffer: &mut [u8]) -> Result<usize, Error<R::Error>> {
        if !file.is_file() {
            return Err(Error::NotAFile);
        }
        let mut left: &mut [u8] = buffer;
        let mut count = 0usize;
        for run in file.runs(offset, left.len() as u64) {
            let bytes = usize::try_from(run.bytes).unwrap_or(usize::MAX).min(left.len());
            let (now, rest) = left.split_at_mut(bytes);
            self.read_run(run.lba, run.skip as usize, now).await?;
            count = count.saturating_add(bytes);
            left = rest;
        }
        Ok(count)
    }

    /// Reads consecutive bytes that begin `skip` bytes into a sector: whole sectors straight
    /// into the buffer, the ends by way of another.
    async fn read_run(&self, mut lba: u32, mut skip: usize, mut buffer: &mut [u8]) -> Result<(), Error<R::Error>> {
        let mut sector = [0; SECTOR];
        while !buffer.is_empty() {
            let whole = buffer.len().saturating_sub(buffer.len() & SECTOR.saturating_sub(1));
            let took = if skip == 0 && whole > 0 {
                let (now, _) = buffer.split_at_mut(whole);
                self.read_sectors(lba, now).await?;
                whole
            } else {
                self.read_sectors(lba, &mut sector).await?;
                let part = sector.get(skip..).unwrap_or(&[]);
                let took = part.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..took), part.get(..took)) {
                    to.copy_from_slice(from);
                }
                took
            };
            let sectors = took.saturating_add(skip) >> SECTOR.ilog2();
            lba = lba.saturating_add(u32::try_from(sectors).unwrap_or(u32::MAX));
            skip = 0;
            buffer = buffer.get_mut(took..).unwrap_or_default();
        }
        Ok(())
    }

    pub(crate) async fn read_sectors(&self, lba: u32, buffer: &mut [u8]) -> Result<(), Error<R::Error>> {
        self.source.read(lba, buffer).await.map_err(|error| Error::Source { lba, error })
    }
}

impl<R> Volume<R> {
    /// Checks that an extent lies in the volume, behind its descriptors.
    pub(crate) fn check_extent(&self, extent: Extent, place: Place) -> Result<(), Malformed> {
        if extent.lba >= self.data && extent.end() <= u64::from(self.sectors) {
            return Ok(());
        }
        Err(place.wrong(Problem::OutsideVolume {
            first: extent.lba,
            sectors: extent.sectors().into(),
            data: self.data,
            volume: self.sectors,
        }))
    }

    /// Checks that an extent lies on this volume and no other of a set.
    pub(crate) fn check_sequence(&self, sequence: u16, place: Place) -> Result<(), Malformed> {
        if sequence == self.sequence {
            return Ok(());
        }
        Err(place.rule("its contents lie on another volume of a set"))
    }
}

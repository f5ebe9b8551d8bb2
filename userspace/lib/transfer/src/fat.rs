//! FAT volumes, by the crate `hadris-fat`.
//!
//! The driver orders its writes so that a power cut between any two of them loses nothing that was on the volume before. This
//! module adds two things. Each write is on the medium before the next one begins, since a disk may reorder what it keeps back.
//! The whole volume is checked before the first write: on a damaged one, such as with a cluster in two chains, even an ordered
//! write overwrites data of another file.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, Ordering};

use hadris_fat::async_::{FatFs, check};
use hadris_fat::{CacheOptions, Detail, RootLocation};
use hadris_fs::{
    Clock, DateTime, DirCursor, ErrorKind, Extent, FileType, Metadata, MountOptions, Name, NoClock, NodeId, OpenMode,
    RenameMode, SetAttr,
};

use crate::cached::Cached;
use crate::copy::is_part;
use crate::device::Device;
use crate::folder::{self, ENTRY};
use crate::name::{check_fat, is_accepted};
use crate::{Disk, Entry, Error, Fault, Kind, MAX_FILE, MAX_GAP, MAX_LIST, Status};

/// Bytes of the bitmap that the check of a volume uses, with its path: one pass for a million clusters.
const CHECK_BYTES: usize = 128 << 10;
/// Files and folders that are open or on the way to one, at most.
const NODES: usize = 1024;
/// The first byte of an entry that was removed.
const DELETED: u8 = 0xe5;
/// The number of the volume's top, where other folders have that of their first cluster.
const TOP: u32 = 0;
/// Bytes that one answer carries at most.
const MAX_READ: usize = 1 << 20;

/// Seconds since 1970, for entries that are made or changed.
static NOW: AtomicI64 = AtomicI64::new(0);

/// Sets the time that new and changed entries get, in seconds since 1970. Before the first call it is FAT's earliest, 1980.
pub fn set_time(seconds: i64) {
    NOW.store(seconds, Ordering::Relaxed);
}

struct Now;

impl Clock for Now {
    fn now(&self) -> DateTime {
        match NOW.load(Ordering::Relaxed) {
            0 => NoClock::TIME,
            seconds => DateTime::from_unix_seconds(seconds).unwrap_or(NoClock::TIME),
        }
    }
}

/// An open file.
#[derive(Debug)]
pub struct FatFile {
    node: NodeId,
    write: bool,
}

/// A mounted volume.
pub struct Fat<D: Disk> {
    fs: FatFs<Device<D>>,
    disk: Rc<Cached<D>>,
    writable: Result<bool, Error>,
}

type Failed = hadris_io::Error<Fault>;

impl<D: Disk> Fat<D> {
    pub async fn mount(disk: Rc<Cached<D>>, writable: bool) -> Result<Self, Error> {
        let device = Device::new(&disk, writable).ok_or_else(|| {
            Error::Malformed(format!("blocks of {} bytes are none of a FAT volume", disk.disk().block_bytes()))
        })?;
        let options = MountOptions::new().with_clock(&Now).with_node_limit(NODES);
        let writable = match (writable, disk.disk().is_writable()) {
            (true, true) => Ok(false),
            (false, _) => Err(Error::ReadOnly("it was opened to be read")),
            (_, false) => Err(Fault::ReadOnly.into()),
        };
        let fs = FatFs::mount(device, options).await.map_err(|error| refused(error.into_error(), ""))?;
        // Blocks of metadata are kept below the driver.
        Ok(Self { fs: fs.with_cache(CacheOptions::new().with_blocks(0)), disk, writable })
    }

    pub async fn label(&mut self) -> Result<String, Error> {
        let mut buffer = [0; 384];
        let label = self.fs.label(&mut buffer).await.map_err(|error| refused(error, ""))?;
        Ok(label.unwrap_or_default().into())
    }

    /// Whether the volume may be written.
    pub async fn check_writable(&mut self) -> Result<(), Error> {
        if self.writable == Ok(false) {
            self.writable = self.check().await.map(|()| true);
        }
        self.writable.clone().map(drop)
    }

    /// Looks at the whole volume. Nothing of it was written before.
    async fn check(&mut self) -> Result<(), Error> {
        let Some(damage) = self.find_damage().await? else { return Ok(()) };
        // A power cut while a complete copy gets its name leaves it with both.
        if damage.detail == Some(Detail::CrossLink) && self.finish_rename(&damage.path).await? {
            return self.find_damage().await?.map_or(Ok(()), |damage| Err(damage.into()));
        }
        Err(damage.into())
    }

    async fn find_damage(&self) -> Result<Option<Damage>, Error> {
        let mut device = Device::new(&self.disk, false).ok_or(Error::Removed)?;
        let mut scratch = vec![0; CHECK_BYTES];
        let mut damage = None;
        let found = |finding: &hadris_fs::Finding<'_>| {
            let detail = Detail::from_code(finding.detail());
            if damage.is_none() && detail.is_none_or(is_dangerous) {
                let path = finding.path().and_then(|path| core::str::from_utf8(path).ok()).unwrap_or_default();
                damage = Some(Damage { what: finding.message(), path: path.into(), detail });
            }
        };
        check(&mut device, &mut scratch, found).await.map_err(|error| refused(error, ""))?;
        Ok(damage)
    }

    /// Removes the first name of a copy that has its final one as well. `path` is one of the two. Nothing else is changed: both
    /// are files of one folder, with the same bytes at the same place.
    async fn finish_rename(&mut self, path: &str) -> Result<bool, Error> {
        let Ok((folder, name)) = capos_tree::path::parent_and_name(path) else { return Ok(false) };
        let Ok(one) = self.place(&[folder.as_slice(), &[name]].concat()).await else { return Ok(false) };
        let (mut first_name, mut final_name) = (None, None);
        for entry in self.list(&folder).await?.0 {
            if entry.status == one.status
                && let Ok(other) = self.place(&[folder.as_slice(), &[&entry.name]].concat()).await
                && other.first == one.first
            {
                let names = if is_part(&entry.name) { &mut first_name } else { &mut final_name };
                *names = Some(other.entry);
            }
        }
        let (Some(entry), Some(_)) = (first_name, final_name) else { return Ok(false) };
        let bytes = u64::from(self.disk.disk().block_bytes());
        let (block, within) = (entry.checked_div(bytes), entry.checked_rem(bytes));
        let (block, within) = (block.unwrap_or(0), within.and_then(|within| usize::try_from(within).ok()));
        let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.disk.read(block, &mut buffer).await?;
        match within.and_then(|within| buffer.get_mut(within)) {
            Some(first) => *first = DELETED,
            None => return Ok(false),
        }
        self.disk.write(block, buffer).await?;
        self.fs.clear_cache();
        Ok(true)
    }

    /// Where a file lies on the disk.
    async fn place(&mut self, path: &[&str]) -> Result<Place, Error> {
        let node = self.find(path).await?;
        let place = self.place_of(node).await;
        self.fs.forget(node, 1);
        place.map_err(|error| refused(error, &path.join("/")))
    }

    async fn place_of(&mut self, node: NodeId) -> Result<Place, Failed> {
        let status = status(&self.fs.stat(node).await?);
        let (mut first, mut entry) = ([Extent::new(0, 0)], [Extent::new(0, 0)]);
        self.fs.extents(node, 0, &mut first).await?;
        self.fs.records(node, &mut entry).await?;
        if status.kind != Kind::File || first.iter().any(Extent::is_empty) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let ([first], [entry]) = (first, entry);
        Ok(Place { status, first: first.offset(), entry: entry.offset() })
    }

    pub async fn status(&mut self, path: &[&str]) -> Result<Status, Error> {
        let node = self.find(path).await?;
        let found = self.fs.stat(node).await;
        self.fs.forget(node, 1);
        found.map(|found| status(&found)).map_err(|error| refused(error, &path.join("/")))
    }

    pub async fn list(&mut self, path: &[&str]) -> Result<(Vec<Entry>, usize), Error> {
        let node = self.find(path).await?;
        let listed = self.list_node(node).await;
        self.fs.forget(node, 1);
        listed.map_err(|error| error.map_or(Error::TooMany, |error| refused(error, &path.join("/"))))
    }

    async fn list_node(&mut self, node: NodeId) -> Result<(Vec<Entry>, usize), Option<Failed>> {
        let (mut entries, mut left_out, mut at, mut bytes) = (Vec::new(), 0_usize, DirCursor::START, 0_usize);
        let mut folders = BTreeSet::new();
        while let Some(entry) = self.fs.readdir(node, at).await.map_err(Some)? {
            at = entry.next_cursor();
            // A folder with two names here would be walked twice, and what is below it four times.
            let is_again = entry.file_type() == FileType::Dir
                && self.folder_cluster(entry.node()).await.map_err(Some)?.is_some_and(|folder| !folders.insert(folder));
            match entry.name().to_str().ok().filter(|name| !is_again && is_accepted(name)) {
                Some(name) => {
                    let entry = Entry { name: name.into(), status: status(entry.metadata()) };
                    bytes = bytes.saturating_add(entry.weight());
                    entries.push(entry);
                }
                None => left_out = left_out.saturating_add(1),
            }
            if bytes > MAX_LIST {
                return Err(None);
            }
        }
        Ok((entries, left_out))
    }

    pub async fn open(&mut self, path: &[&str], write: bool) -> Result<FatFile, Error> {
        if write {
            self.check_writable().await?;
        }
        let node = self.find(path).await?;
        self.open_node(node, write, path.last().copied().unwrap_or("/")).await
    }

    /// Opens a pinned node; its pin goes with the file, or is given up.
    async fn open_node(&mut self, node: NodeId, write: bool, name: &str) -> Result<FatFile, Error> {
        let mode = if write { OpenMode::Write } else { OpenMode::Read };
        match self.fs.open(node, mode).await {
            Ok(()) => Ok(FatFile { node, write }),
            Err(error) => {
                self.fs.forget(node, 1);
                Err(refused(error, name))
            }
        }
    }

    pub async fn create(&mut self, folder: &[&str], name: &str) -> Result<FatFile, Error> {
        let folder = self.writable_folder(folder, name).await?;
        let made = self.fs.create(folder, Name::new(name), &SetAttr::new()).await;
        self.fs.forget(folder, 1);
        let node = made.map_err(|error| refused(error, name))?;
        let file = self.open_node(node, true, name).await?;
        match self.complete().await {
            Ok(()) => Ok(file),
            Err(error) => {
                // The error of the change is the one that counts.
                let _ = self.close(file).await;
                Err(error)
            }
        }
    }

    pub async fn status_of(&mut self, file: &FatFile) -> Result<Status, Error> {
        self.fs.stat(file.node).await.map(|found| status(&found)).map_err(|error| refused(error, "the file"))
    }

    pub async fn read(&mut self, file: &FatFile, offset: u64, most: usize) -> Result<Vec<u8>, Error> {
        let size = self.status_of(file).await?.bytes;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; most.min(left).min(MAX_READ)];
        let mut done = 0_usize;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let from = offset.saturating_add(done as u64);
            match self.fs.read(file.node, from, rest).await.map_err(|error| refused(error, "the file"))? {
                0 => break,
                read => done = done.saturating_add(read),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    pub async fn write(&mut self, file: &FatFile, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(file, offset, offset.checked_add(bytes.len() as u64)).await?;
        let mut done = 0_usize;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            match self.fs.write(file.node, at, rest).await.map_err(|error| refused(error, "the file"))? {
                0 => return Err(Error::NoSpace),
                written => done = done.saturating_add(written),
            }
        }
        self.complete().await
    }

    pub async fn truncate(&mut self, file: &FatFile, bytes: u64) -> Result<(), Error> {
        self.check_range(file, bytes, Some(bytes)).await?;
        self.fs.truncate(file.node, bytes).await.map_err(|error| refused(error, "the file"))?;
        self.complete().await
    }

    /// Whether a file may be written from `start` to `end`.
    async fn check_range(&mut self, file: &FatFile, start: u64, end: Option<u64>) -> Result<(), Error> {
        if !file.write {
            return Err(Error::ReadOnly("the file was opened to be read"));
        }
        if end.is_none_or(|end| end > MAX_FILE) {
            return Err(Error::TooLarge);
        }
        let size = self.status_of(file).await?.bytes;
        if start.saturating_sub(size) > MAX_GAP { Err(Error::Gap) } else { Ok(()) }
    }

    pub async fn close(&mut self, file: FatFile) -> Result<(), Error> {
        let closed = self.fs.close(file.node).await;
        self.fs.forget(file.node, 1);
        closed.map_err(|error| refused(error, "the file"))?;
        if file.write { self.complete().await } else { Ok(()) }
    }

    pub async fn make_folder(&mut self, folder: &[&str], name: &str) -> Result<(), Error> {
        let folder = self.writable_folder(folder, name).await?;
        let made = self.fs.mkdir(folder, Name::new(name), &SetAttr::new()).await;
        self.fs.forget(folder, 1);
        let node = made.map_err(|error| refused(error, name))?;
        self.fs.forget(node, 1);
        self.complete().await
    }

    pub async fn remove_file(&mut self, folder: &[&str], name: &str) -> Result<(), Error> {
        self.check_writable().await?;
        let folder = self.find(folder).await?;
        let removed = self.fs.unlink(folder, Name::new(name)).await;
        self.fs.forget(folder, 1);
        removed.map_err(|error| refused(error, name))?;
        self.complete().await
    }

    pub async fn remove_folder(&mut self, folder: &[&str], name: &str) -> Result<(), Error> {
        self.check_writable().await?;
        let folder = self.find(folder).await?;
        let removed = self.fs.rmdir(folder, Name::new(name)).await;
        self.fs.forget(folder, 1);
        removed.map_err(|error| refused(error, name))?;
        self.complete().await
    }

    pub async fn rename(&mut self, from: (&[&str], &str), to: (&[&str], &str)) -> Result<(), Error> {
        let to_folder = self.writable_folder(to.0, to.1).await?;
        let from_folder = match self.find(from.0).await {
            Ok(folder) => folder,
            Err(error) => {
                self.fs.forget(to_folder, 1);
                return Err(error);
            }
        };
        let (source, target) = (Name::new(from.1), Name::new(to.1));
        let renamed = self.fs.rename(from_folder, source, to_folder, target, RenameMode::Replace).await;
        self.fs.forget(from_folder, 1);
        self.fs.forget(to_folder, 1);
        renamed.map_err(|error| match error.kind() {
            // Both names were checked before.
            ErrorKind::InvalidInput => Error::IntoItself,
            _ => refused(error, from.1),
        })?;
        self.complete().await
    }

    pub async fn set_modified(&mut self, path: &[&str], seconds: i64) -> Result<(), Error> {
        self.check_writable().await?;
        let time = DateTime::from_unix_seconds(seconds).unwrap_or(NoClock::TIME);
        let node = self.find(path).await?;
        let set = self.fs.setattr(node, &SetAttr::new().with_modified(time)).await;
        self.fs.forget(node, 1);
        set.map_err(|error| refused(error, &path.join("/")))?;
        self.complete().await
    }

    /// Writes what the driver keeps, and marks the volume clean.
    async fn complete(&mut self) -> Result<(), Error> {
        self.fs.sync().await.map_err(|error| refused(error, ""))
    }

    /// The folder for a new name, pinned.
    async fn writable_folder(&mut self, folder: &[&str], name: &str) -> Result<NodeId, Error> {
        check_fat(name)?;
        self.check_writable().await?;
        self.find(folder).await
    }

    /// The node of a path, pinned.
    async fn find(&mut self, path: &[&str]) -> Result<NodeId, Error> {
        let (mut node, mut above) = (self.fs.root(), TOP);
        for (depth, part) in path.iter().enumerate() {
            let found = self.fs.lookup(node, Name::new(part)).await;
            self.fs.forget(node, 1);
            let so_far = || path.get(..=depth).unwrap_or(path).join("/");
            node = found.map_err(|error| refused(error, &so_far()))?;
            let misplaced = match self.enter(node, above).await {
                Ok(Some(cluster)) => {
                    above = cluster;
                    continue;
                }
                Ok(None) => Error::Malformed(format!(
                    "the folder `{}` lies in another folder by its own entry `..`, so it is in two places or in itself; \
                     repair the volume on another system",
                    so_far().escape_debug()
                )),
                Err(error) => refused(error, &so_far()),
            };
            self.fs.forget(node, 1);
            return Err(misplaced);
        }
        Ok(node)
    }

    /// The first cluster of a folder that was found in the one at `above`, or [`TOP`] for a file. None if the folder itself
    /// says that it lies elsewhere.
    async fn enter(&mut self, node: NodeId, above: u32) -> Result<Option<u32>, Failed> {
        let Some(cluster) = self.folder_cluster(node).await? else { return Ok(Some(TOP)) };
        let (kind, root) = (self.fs.info().kind(), self.fs.info().root());
        let start = self.fs.info().cluster_offset(cluster).ok_or(ErrorKind::Corrupt)?;
        let mut second = [0; ENTRY];
        self.fs.read_raw(start.saturating_add(ENTRY as u64), &mut second).await?;
        // Some systems write the number of the top's cluster there.
        let told =
            folder::above(&second, kind).map(|told| if root == RootLocation::Cluster(told) { TOP } else { told });
        Ok((told == Some(above)).then_some(cluster))
    }

    /// The first cluster that the entry of a folder names; none for a file.
    async fn folder_cluster(&mut self, node: NodeId) -> Result<Option<u32>, Failed> {
        let (mut place, mut entry) = ([Extent::new(0, 0)], [0; ENTRY]);
        self.fs.records(node, &mut place).await?;
        let [place] = place;
        self.fs.read_raw(place.offset(), &mut entry).await?;
        Ok(folder::cluster(&entry, self.fs.info().kind()))
    }
}

/// Where a file lies on the disk, in bytes: its beginning and its entry in a folder.
struct Place {
    status: Status,
    first: u64,
    entry: u64,
}

/// Damage that makes writing dangerous.
struct Damage {
    what: &'static str,
    path: String,
    detail: Option<Detail>,
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        match damage.path.as_str() {
            "" => Self::Damaged(damage.what.into()),
            path => Self::Damaged(format!("{}, at `{}`", damage.what, path.escape_debug())),
        }
    }
}

/// Whether a write to a volume with this damage can reach data of another file. All other findings are of files that cannot be
/// read as a whole, of names, or of space that is lost.
fn is_dangerous(detail: Detail) -> bool {
    matches!(
        detail,
        Detail::BootSector
            | Detail::InvalidCluster
            | Detail::BrokenChain
            | Detail::CyclicChain
            | Detail::CrossLink
            | Detail::DotEntries
            | Detail::BadCluster
    )
}

fn status(found: &Metadata) -> Status {
    let kind = if found.file_type() == FileType::Dir { Kind::Folder } else { Kind::File };
    let modified = found.modified().map_or(0, |time| time.unix_seconds());
    Status { kind, bytes: if kind == Kind::File { found.len() } else { 0 }, modified }
}

/// The error for a caller that named `path`.
fn refused(error: Failed, path: &str) -> Error {
    if let Some(fault) = error.device_error() {
        return fault.clone().into();
    }
    let path = String::from(path);
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidHandle => Error::NotFound(path),
        ErrorKind::AlreadyExists => Error::Exists(path),
        ErrorKind::NotADirectory => Error::NotFolder(path),
        ErrorKind::IsADirectory => Error::IsFolder(path),
        ErrorKind::DirectoryNotEmpty => Error::NotEmpty(path),
        ErrorKind::NoSpace => Error::NoSpace,
        ErrorKind::ReadOnly => Error::ReadOnly("its medium is write-protected"),
        ErrorKind::FileTooLarge => Error::TooLarge,
        ErrorKind::Busy => Error::Busy(path),
        _ => Error::Malformed(error.to_string()),
    }
}

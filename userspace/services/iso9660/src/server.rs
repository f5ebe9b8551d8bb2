//! Directories and files of the volume, served; and the pager of the files' memory.

use crate::disk::Disk;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_abi::PAGE;
use capos_iso9660::{Error, Extent, Kind, Malformed, Node, Runs, SECTOR, Volume};
use capos_rt::Server;
use capos_rt::memory::{self, Access};
use capos_schema::authority::Label;
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::kernel::{MemoryObjectClient, PagerClient, PagerServer, ResourceAccountClient};
use capos_schema::storage::{
    DirectoryClient, DirectoryCompareFilesResults, DirectoryEntriesResults, DirectoryEntry, DirectoryFindFilesResults,
    DirectoryListResults, DirectoryOpenWithResults, DirectoryReadLinkResults, DirectoryReadTextResults,
    DirectorySearchTextResults, DirectoryServer, DirectoryStatusResults, EntryInfo, EntryKind, FileBasis, FileClient,
    FileError, FileStatus, OpenOptions, ReadOnlyFileClient, ReadOnlyFileMemoryResults, ReadOnlyFileServer,
};
use capos_tree::{TextError, TextPiece};
use core::cell::RefCell;

/// The most that one read carries, in bytes.
const MAX_READ: usize = 256 * 1024;
/// The most that one list of entries takes, in bytes.
const MAX_LIST: usize = 256 * 1024;
/// What an entry of such a list takes besides its name, in bytes.
const ENTRY_BYTES: usize = 80;
/// Sectors that one request to the device carries at most.
const MAX_SECTORS: u32 = 1024;

/// The mounted volume and what is shared by all that is served.
pub struct Medium {
    volume: Volume<Disk>,
    account: ResourceAccountClient,
    server: Rc<Server>,
    /// Memory of files by their first sector, so that all who map a file share its pages.
    memories: RefCell<BTreeMap<u32, Paged>>,
}

/// A file's memory. Only the kernel calls its pager, so it is held here to keep it alive.
struct Paged {
    memory: MemoryObjectClient,
    _pager: PagerClient,
}

impl Medium {
    /// A mounted volume.
    pub fn new(volume: Volume<Disk>, account: ResourceAccountClient, server: Rc<Server>) -> Rc<Self> {
        Rc::new(Self { volume, account, server, memories: RefCell::default() })
    }

    async fn memory(self: &Rc<Self>, node: &Node) -> Result<MemoryObjectClient, CallError> {
        if node.size() == 0 {
            return Err(CallError::invalid_argument("an empty file has no memory; use `read`"));
        }
        let key = node.extents().first().map_or(0, |extent| extent.lba);
        if let Some(paged) = self.memories.borrow().get(&key) {
            return Ok(paged.memory.clone());
        }
        let pager = match durable_key(node.extents()) {
            Some(key) => Client::from_cap(self.server.durable(key, PagerClient::INTERFACE_ID)?),
            None => PagerClient::serve(
                &self.server,
                Rc::new(FilePager { medium: self.clone(), extents: node.extents().to_vec() }),
            )?,
        };
        let memory = self.account.create_paged_memory(node.size(), &pager).await?;
        Ok(self.memories.borrow_mut().entry(key).or_insert(Paged { memory, _pager: pager }).memory.clone())
    }

    /// Fills memory with whole pages of a file; what lies past its end is left zero.
    async fn read_into(
        &self,
        extents: &[Extent],
        offset: u64,
        bytes: u64,
        memory: &MemoryObjectClient,
        memory_offset: u64,
    ) -> Result<(), CallError> {
        if [offset, bytes, memory_offset].iter().any(|value| !value.is_multiple_of(PAGE)) {
            return Err(CallError::invalid_argument("offsets and length must be multiples of 4096 bytes"));
        }
        let sector = SECTOR as u64;
        let mut done = 0_u64;
        for run in Runs::new(extents, offset, bytes) {
            let mut lba = run.lba.saturating_add(run.skip / u32::try_from(SECTOR).unwrap_or(u32::MAX));
            let mut left = u32::try_from(run.bytes.div_ceil(sector)).unwrap_or(u32::MAX);
            let mut at = memory_offset.saturating_add(done);
            while left > 0 {
                let count = left.min(MAX_SECTORS);
                self.volume.source().fill(lba, count, memory, at).await?;
                lba = lba.saturating_add(count);
                at = at.saturating_add(u64::from(count).saturating_mul(sector));
                left = left.saturating_sub(count);
            }
            done = done.saturating_add(run.bytes);
        }
        if !done.is_multiple_of(sector) {
            clear_tail(memory, memory_offset.saturating_add(done))?;
        }
        Ok(())
    }
}

/// Zeroes from the end of a file to the end of its last page: what the medium holds there is not the file.
fn clear_tail(memory: &MemoryObjectClient, end: u64) -> Result<(), CallError> {
    let page = end / PAGE * PAGE;
    let within = end.saturating_sub(page);
    let length = usize::try_from(PAGE.saturating_sub(within)).unwrap_or(0);
    memory::map(memory, page, PAGE, Access::ReadWrite)?.clear(within, length)
}

/// What a caller is told of an error of the volume.
fn refused(error: Error<CallError>, path: &str) -> CallError {
    match error {
        Error::Source { lba, error } => CallError::failed(format!("sector {lba} cannot be read: {error}")),
        Error::Malformed(malformed) => {
            capos_rt::log::error!("{malformed}");
            CallError::failed(malformed.to_string())
        }
        other => CallError::invalid_argument(format!("`{path}`: {other}")),
    }
}

/// Logs an entry that is left out because of its name.
fn leave_out(malformed: Malformed) {
    capos_rt::log::warning!("an entry is left out: {malformed}");
}

fn kind(node: &Node) -> EntryKind {
    match node.kind() {
        Kind::File => EntryKind::File,
        Kind::Directory => EntryKind::Directory,
        _ => EntryKind::Link,
    }
}

fn status(node: &Node) -> FileStatus {
    FileStatus {
        kind: kind(node),
        bytes: node.size(),
        modified_milliseconds: node.modified().saturating_mul(1000),
        // An empty file lies nowhere.
        id: node.extents().first().map_or(0, |extent| u64::from(extent.lba)),
    }
}

fn info(name: &str, node: &Node) -> EntryInfo {
    EntryInfo { name: name.to_string(), kind: kind(node), bytes: node.size(), modified_unix: node.modified() }
}

fn read_only<T>() -> Result<T, CallError> {
    Err(CallError::invalid_argument("the boot medium is read-only"))
}

/// A directory of the volume: the root of what its holder sees.
pub struct DirectoryObject {
    medium: Rc<Medium>,
    node: Node,
}

impl DirectoryObject {
    /// The volume's root.
    pub fn root(medium: &Rc<Medium>) -> Rc<Self> {
        Rc::new(Self { medium: medium.clone(), node: medium.volume.root().clone() })
    }

    async fn find(&self, path: &str) -> Result<Node, CallError> {
        self.medium.volume.resolve(&self.node, path).await.map_err(|error| refused(error, path))
    }

    /// What a path names, for those who are told why it does not.
    async fn look(&self, path: &str, follow: bool) -> Result<Result<Node, FileError>, CallError> {
        let volume = &self.medium.volume;
        let found = match follow {
            true => volume.resolve(&self.node, path).await,
            false => volume.resolve_link(&self.node, path).await,
        };
        Ok(Err(match found {
            Ok(node) => return Ok(Ok(node)),
            Err(Error::NotFound { .. }) => FileError::NotFound,
            Err(Error::NotADirectory { .. }) => FileError::NotDirectory,
            Err(Error::TooManyLinks { .. }) => FileError::IsLink,
            Err(Error::BadPath { .. }) => FileError::BadPath,
            Err(other) => return Err(refused(other, path)),
        }))
    }

    /// Nothing on the medium changes.
    async fn refuse_change(&self, path: &str) -> Result<FileError, CallError> {
        Ok(self.look(path, false).await?.map_or_else(|error| error, |_| FileError::ReadOnly))
    }

    async fn file(&self, path: &str) -> Result<Rc<FileObject>, CallError> {
        let node = self.find(path).await?;
        if !node.is_file() {
            return Err(CallError::invalid_argument(format!("`{path}` is not a file")));
        }
        Ok(Rc::new(FileObject { medium: self.medium.clone(), node }))
    }
}

impl DirectoryServer for DirectoryObject {
    async fn list(&self, _cx: &CallContext, path: String) -> Result<DirectoryListResults, CallError> {
        let node = self.find(&path).await?;
        let entries = self.medium.volume.list(&node, leave_out).await.map_err(|error| refused(error, &path))?;
        let entries = entries.iter().map(|entry| info(&entry.name, &entry.node)).collect();
        Ok(DirectoryListResults { entries, left_out: 0 })
    }

    async fn stat(&self, _cx: &CallContext, path: String) -> Result<EntryInfo, CallError> {
        let node = self.find(&path).await?;
        Ok(info(path.rsplit('/').next().unwrap_or(&path), &node))
    }

    async fn open(&self, _cx: &CallContext, path: String) -> Result<ReadOnlyFileClient, CallError> {
        ReadOnlyFileClient::serve(&self.medium.server, self.file(&path).await?)
    }

    async fn create(&self, _cx: &CallContext, _path: String) -> Result<FileClient, CallError> {
        read_only()
    }

    async fn open_directory(&self, _cx: &CallContext, path: String) -> Result<DirectoryClient, CallError> {
        let node = self.find(&path).await?;
        if !node.is_directory() {
            return Err(CallError::invalid_argument(format!("`{path}` is not a folder")));
        }
        DirectoryClient::serve(&self.medium.server, Rc::new(Self { medium: self.medium.clone(), node }))
    }

    async fn read_text(
        &self,
        _cx: &CallContext,
        path: String,
        offset: u32,
        length: u32,
    ) -> Result<DirectoryReadTextResults, CallError> {
        let file = self.file(&path).await?;
        let size = file.node.size();
        let no_text = |error: TextError| CallError::invalid_argument(format!("`{path}` {error}"));
        let piece = TextPiece::choose(size, offset, length).map_err(&no_text)?;
        let (first, count) = piece.bytes();
        let bytes = file.bytes(first, count).await?;
        let (text, start) = piece.text(&bytes).map_err(&no_text)?;
        Ok(DirectoryReadTextResults { text: text.into(), start, bytes: size, label: Label::default() })
    }

    async fn write_text(
        &self,
        _cx: &CallContext,
        _path: String,
        _text: String,
        _append: bool,
        _label: Option<Label>,
        _basis: Option<FileBasis>,
    ) -> Result<(), CallError> {
        read_only()
    }

    async fn remove(&self, _cx: &CallContext, _path: String) -> Result<(), CallError> {
        read_only()
    }

    async fn make_directory(&self, _cx: &CallContext, _path: String) -> Result<(), CallError> {
        read_only()
    }

    async fn read_only(&self, _cx: &CallContext) -> Result<DirectoryClient, CallError> {
        let directory = Self { medium: self.medium.clone(), node: self.node.clone() };
        DirectoryClient::serve(&self.medium.server, Rc::new(directory))
    }

    async fn open_with(
        &self,
        _cx: &CallContext,
        path: String,
        options: OpenOptions,
    ) -> Result<DirectoryOpenWithResults, CallError> {
        let refuse = |error| Ok(DirectoryOpenWithResults { error, ..DirectoryOpenWithResults::default() });
        let node = match self.look(&path, !options.no_follow).await? {
            Ok(_) if options.create && options.exclusive => return refuse(FileError::Exists),
            Ok(node) if node.is_directory() && options.write => return refuse(FileError::IsDirectory),
            Ok(node) if options.write && node.is_file() => return refuse(FileError::ReadOnly),
            Ok(node) => node,
            Err(FileError::NotFound) if options.create => return refuse(FileError::ReadOnly),
            Err(error) => return refuse(error),
        };
        let mut results = DirectoryOpenWithResults { status: status(&node), ..DirectoryOpenWithResults::default() };
        let (medium, server) = (self.medium.clone(), &self.medium.server);
        if node.is_directory() {
            results.directory = Some(DirectoryClient::serve(server, Rc::new(Self { medium, node }))?);
        } else if node.is_file() {
            results.reader = Some(ReadOnlyFileClient::serve(server, Rc::new(FileObject { medium, node }))?);
        } else {
            return refuse(FileError::IsLink);
        }
        Ok(results)
    }

    async fn status(&self, _cx: &CallContext, path: String, follow: bool) -> Result<DirectoryStatusResults, CallError> {
        Ok(match self.look(&path, follow).await? {
            Ok(node) => DirectoryStatusResults { error: FileError::None, status: status(&node) },
            Err(error) => DirectoryStatusResults { error, status: FileStatus::default() },
        })
    }

    async fn entries(
        &self,
        _cx: &CallContext,
        path: String,
        after: String,
    ) -> Result<DirectoryEntriesResults, CallError> {
        let mut results = DirectoryEntriesResults::default();
        let node = match self.look(&path, true).await? {
            Ok(node) if node.is_directory() => node,
            Ok(_) => return Ok(DirectoryEntriesResults { error: FileError::NotDirectory, ..results }),
            Err(error) => return Ok(DirectoryEntriesResults { error, ..results }),
        };
        let mut entries = self.medium.volume.list(&node, leave_out).await.map_err(|error| refused(error, &path))?;
        entries.retain(|entry| entry.name > after);
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut bytes = 0_usize;
        for entry in entries {
            bytes = bytes.saturating_add(entry.name.len()).saturating_add(ENTRY_BYTES);
            if bytes > MAX_LIST {
                results.more = true;
                break;
            }
            results.entries.push(DirectoryEntry { status: status(&entry.node), name: entry.name });
        }
        Ok(results)
    }

    async fn create_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        Ok(match self.look(&path, false).await? {
            Ok(_) => FileError::Exists,
            Err(FileError::NotFound) => FileError::ReadOnly,
            Err(error) => error,
        })
    }

    async fn remove_file(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.refuse_change(&path).await
    }

    async fn remove_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.refuse_change(&path).await
    }

    async fn rename(&self, _cx: &CallContext, from: String, _to: String) -> Result<FileError, CallError> {
        self.refuse_change(&from).await
    }

    async fn set_modified(&self, _cx: &CallContext, path: String, _milliseconds: i64) -> Result<FileError, CallError> {
        self.refuse_change(&path).await
    }

    async fn read_link(&self, _cx: &CallContext, path: String) -> Result<DirectoryReadLinkResults, CallError> {
        let (error, target) = match self.look(&path, false).await? {
            Ok(node) => match node.kind() {
                Kind::Link(target) => (FileError::None, target.clone()),
                _ => (FileError::NotLink, String::new()),
            },
            Err(error) => (error, String::new()),
        };
        Ok(DirectoryReadLinkResults { error, target })
    }

    async fn labelled(&self, cx: &CallContext, _label: Label) -> Result<DirectoryClient, CallError> {
        // What a medium holds has no labels, and nothing is written to it.
        self.read_only(cx).await
    }

    async fn label(&self, _cx: &CallContext) -> Result<Label, CallError> {
        Ok(Label::default())
    }

    async fn copy_file(&self, _cx: &CallContext, _from: String, _to: String) -> Result<u64, CallError> {
        Err(of_homes())
    }

    async fn move_file(&self, _cx: &CallContext, _from: String, _to: String) -> Result<(), CallError> {
        Err(of_homes())
    }

    async fn find_files(
        &self,
        _cx: &CallContext,
        _name: String,
        _path: String,
    ) -> Result<DirectoryFindFilesResults, CallError> {
        Err(of_homes())
    }

    async fn search_text(
        &self,
        _cx: &CallContext,
        _text: String,
        _path: String,
    ) -> Result<DirectorySearchTextResults, CallError> {
        Err(of_homes())
    }

    async fn compare_files(
        &self,
        _cx: &CallContext,
        _first: String,
        _second: String,
    ) -> Result<DirectoryCompareFilesResults, CallError> {
        Err(of_homes())
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        Ok(())
    }
}

/// A file of the volume, served to readers.
pub struct FileObject {
    medium: Rc<Medium>,
    node: Node,
}

impl FileObject {
    async fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>, CallError> {
        let left = usize::try_from(self.node.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut buffer = alloc::vec![0; count.min(left)];
        let read =
            self.medium.volume.read(&self.node, offset, &mut buffer).await.map_err(|error| refused(error, "file"))?;
        buffer.truncate(read);
        Ok(buffer)
    }
}

impl ReadOnlyFileServer for FileObject {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Ok(info("", &self.node))
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        self.bytes(offset, usize::try_from(count).unwrap_or(usize::MAX).min(MAX_READ)).await
    }

    async fn memory(&self, _cx: &CallContext) -> Result<ReadOnlyFileMemoryResults, CallError> {
        let memory = self.medium.memory(&self.node).await?;
        Ok(ReadOnlyFileMemoryResults { memory, bytes: self.node.size() })
    }

    async fn read_into(
        &self,
        _cx: &CallContext,
        offset: u64,
        bytes: u64,
        memory: MemoryObjectClient,
        memory_offset: u64,
    ) -> Result<(), CallError> {
        self.medium.read_into(self.node.extents(), offset, bytes, &memory, memory_offset).await
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Ok(status(&self.node))
    }

    async fn lock(&self, _cx: &CallContext, exclusive: bool, _wait: bool) -> Result<bool, CallError> {
        if exclusive {
            return Err(CallError::unimplemented(
                "a file of the boot medium never changes and takes no exclusive lock; take a shared one",
            ));
        }
        Ok(true)
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        Ok(())
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        Ok(())
    }
}

/// The key of a file's pager, from which every instance of this service finds the file's content again:
/// where it lies and how long it is. Programs outlive this service while it is restarted, and their text
/// must still be paged in. Files of several extents, over 4 GiB, have none.
fn durable_key(extents: &[Extent]) -> Option<u64> {
    match extents {
        [one] if one.lba < 1 << 30 => Some((u64::from(one.lba) << 32) | u64::from(one.bytes)),
        _ => None,
    }
}

/// The pager of one file's memory.
pub struct FilePager {
    medium: Rc<Medium>,
    extents: Vec<Extent>,
}

impl FilePager {
    /// The pager with a key that [`durable_key`] made.
    pub fn find(medium: &Rc<Medium>, key: u64) -> Option<Self> {
        let extent = Extent { lba: u32::try_from(key >> 32).ok()?, bytes: u32::try_from(key & 0xffff_ffff).ok()? };
        Some(Self { medium: medium.clone(), extents: alloc::vec![extent] })
    }
}

impl PagerServer for FilePager {
    async fn page_in(
        &self,
        _cx: &CallContext,
        offset: u64,
        bytes: u64,
        window: MemoryObjectClient,
    ) -> Result<(), CallError> {
        self.medium.read_into(&self.extents, offset, bytes, &window, 0).await
    }
}

/// Of a method that only home directories have.
fn of_homes() -> CallError {
    CallError::invalid_argument("files are copied, moved, found, searched and compared in home directories only")
}

//! Directories and files of the tree, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_policy::join;
use capos_rt::Server;
use capos_schema::authority::Label;
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::kernel::{MemoryObjectClient, TimerClient};
use capos_schema::storage::{
    DirectoryClient, DirectoryEntriesResults, DirectoryEntry, DirectoryOpenWithResults, DirectoryReadLinkResults,
    DirectoryReadTextResults, DirectoryServer, DirectoryStatusResults, EntryInfo, EntryKind, FileClient, FileError,
    FileServer, FileStatus, OpenOptions, ReadOnlyFileClient, ReadOnlyFileMemoryResults, ReadOnlyFileServer,
};
use capos_tree::{Holder, Info, Kind, NodeId, PathError, TextError, TextPiece, Trail, Trails, Tree, TreeError};
use core::cell::RefCell;

use crate::locks::LockQueue;

/// The most that one read or write carries, in bytes.
const MAX_TRANSFER: usize = 256 * 1024;
/// The most that one list of entries takes, in bytes.
const MAX_LIST: usize = 256 * 1024;
/// How often a holder of a lock that is waited for is checked for having died, in nanoseconds.
const HOLDERS_CHECKED: u64 = 1_000_000_000;
/// Calls that may wait for locks: the service answers others meanwhile.
const MAX_WAITING: usize = 8;
/// The key of the durable capability to the root, read-only.
const READ_ONLY_ROOT: u64 = 0;
/// What an entry of such a list takes besides its name, in bytes.
const ENTRY_BYTES: usize = 80;

/// The tree, shared by all that is served.
pub struct Volume {
    tree: RefCell<Tree>,
    timer: TimerClient,
    exporter: Rc<Server>,
    locks: LockQueue,
    trails: Trails,
}

impl Volume {
    /// An empty volume with a budget in bytes. `start` is the time since power-on, in nanoseconds.
    pub fn new(budget: u64, timer: TimerClient, exporter: Rc<Server>, start: u64) -> Rc<Self> {
        let (tree, trails) = (RefCell::new(Tree::new(budget)), Trails::new(start));
        Rc::new(Self { tree, timer, exporter, locks: LockQueue::default(), trails })
    }

    /// The root behind a durable capability.
    pub fn durable(self: &Rc<Self>, key: u64) -> DirectoryObject {
        let (trail, writable) = if key == READ_ONLY_ROOT { Default::default() } else { self.trails.find(key) };
        DirectoryObject { volume: self.clone(), node: Tree::ROOT, writable, trail }
    }

    /// The tree, for filling it at start.
    pub fn tree(&self) -> &RefCell<Tree> {
        &self.tree
    }

    /// Milliseconds since 1970: the tree's times.
    async fn now(&self) -> i64 {
        self.timer.wall_clock().await.ok().and_then(|time| i64::try_from(time).ok()).unwrap_or(0)
    }

    /// Changes the tree. Where there is no space, files that have lost their names and their holders go first.
    fn change<T>(&self, change: impl Fn(&mut Tree) -> Result<T, TreeError>) -> Result<T, TreeError> {
        let changed = change(&mut self.tree.borrow_mut());
        match changed {
            Err(TreeError::NoSpace { .. }) if self.exporter.sweep() > 0 => change(&mut self.tree.borrow_mut()),
            other => other,
        }
    }
}

fn refused(error: TreeError) -> CallError {
    match error {
        TreeError::NoSpace { .. } => CallError::overloaded(error.to_string()),
        TreeError::Gone => CallError::disconnected(error.to_string()),
        _ => CallError::invalid_argument(error.to_string()),
    }
}

fn kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::File => EntryKind::File,
        Kind::Directory => EntryKind::Directory,
    }
}

fn entry(info: Info) -> EntryInfo {
    EntryInfo { name: info.name, kind: kind(info.kind), bytes: info.bytes, modified_unix: info.modified / 1000 }
}

fn status(node: NodeId, info: &Info) -> FileStatus {
    FileStatus { kind: kind(info.kind), bytes: info.bytes, modified_milliseconds: info.modified, id: node.number() }
}

/// What a program is told.
fn told(error: &TreeError) -> FileError {
    match error {
        TreeError::Path(PathError::TooLong | PathError::NameTooLong(_)) => FileError::TooLong,
        TreeError::Path(PathError::NoName) => FileError::IsDirectory,
        TreeError::Path(_) => FileError::BadPath,
        TreeError::NotFound(_) | TreeError::Gone => FileError::NotFound,
        TreeError::IsDirectory(_) => FileError::IsDirectory,
        TreeError::NotDirectory(_) => FileError::NotDirectory,
        TreeError::Exists(_) => FileError::Exists,
        TreeError::NotEmpty(_) => FileError::NotEmpty,
        TreeError::IntoItself(_) => FileError::IntoItself,
        TreeError::NoSpace { .. } => FileError::NoSpace,
        TreeError::TooLarge => FileError::TooLarge,
    }
}

fn told_of<T>(result: Result<T, TreeError>) -> FileError {
    result.map_or_else(|error| told(&error), |_| FileError::None)
}

/// A directory as a client holds it.
pub struct DirectoryObject {
    volume: Rc<Volume>,
    node: NodeId,
    writable: bool,
    trail: Trail,
}

impl DirectoryObject {
    /// The root of a volume.
    pub fn root(volume: &Rc<Volume>, writable: bool) -> Rc<Self> {
        Rc::new(Self { volume: volume.clone(), node: Tree::ROOT, writable, trail: Trail::default() })
    }

    fn find(&self, path: &str) -> Result<NodeId, CallError> {
        self.volume.tree.borrow().find(self.node, path).map_err(refused)
    }

    fn may_write(&self) -> Result<(), CallError> {
        if self.writable { Ok(()) } else { Err(CallError::invalid_argument("this directory is read-only")) }
    }

    fn directory(&self, node: NodeId) -> Result<DirectoryClient, CallError> {
        self.narrower(node, self.writable, self.trail.clone())
    }

    fn narrower(&self, node: NodeId, writable: bool, trail: Trail) -> Result<DirectoryClient, CallError> {
        let directory = Self { volume: self.volume.clone(), node, writable, trail };
        DirectoryClient::serve(&self.volume.exporter, Rc::new(directory))
    }

    fn file(&self, node: NodeId) -> Result<Rc<FileObject>, TreeError> {
        FileObject::open(&self.volume, node, self.trail.clone())
    }

    /// Changes the tree where this directory may, with the time; says what a program is told.
    async fn change<T>(&self, change: impl Fn(&mut Tree, i64) -> Result<T, TreeError>) -> FileError {
        if !self.writable {
            return FileError::ReadOnly;
        }
        let now = self.volume.now().await;
        told_of(self.volume.change(|tree| change(tree, now)))
    }

    /// The node that is opened, made or emptied as the options say.
    fn prepare(&self, path: &str, options: &OpenOptions, now: i64) -> Result<NodeId, FileError> {
        let found = self.volume.tree.borrow().find(self.node, path);
        let changes = options.write && options.truncate;
        let node = match found {
            Ok(_) if options.create && options.exclusive => return Err(FileError::Exists),
            Ok(node) => node,
            Err(TreeError::NotFound(_)) if options.create => {
                if !self.writable {
                    return Err(FileError::ReadOnly);
                }
                return self.volume.change(|tree| tree.create(self.node, path, now)).map_err(|error| told(&error));
            }
            Err(error) => return Err(told(&error)),
        };
        if options.write && !self.writable {
            return Err(FileError::ReadOnly);
        }
        if options.write {
            self.volume.tree.borrow().read(node, 0, 0).map_err(|error| told(&error))?;
        }
        if changes {
            self.volume.tree.borrow_mut().truncate(node, 0, now).map_err(|error| told(&error))?;
        }
        Ok(node)
    }

    fn opened(&self, node: NodeId, write: bool) -> Result<DirectoryOpenWithResults, CallError> {
        let info = self.volume.tree.borrow().info(node).map_err(refused)?;
        let status = status(node, &info);
        let mut results = DirectoryOpenWithResults { status, ..DirectoryOpenWithResults::default() };
        if info.kind == Kind::Directory {
            results.directory = Some(self.directory(node)?);
            return Ok(results);
        }
        let file = self.file(node).map_err(refused)?;
        if write {
            results.file = Some(FileClient::serve(&self.volume.exporter, file)?);
        } else {
            results.reader = Some(ReadOnlyFileClient::serve(&self.volume.exporter, file)?);
        }
        Ok(results)
    }

    fn status_of(&self, path: &str) -> Result<FileStatus, TreeError> {
        let tree = self.volume.tree.borrow();
        let node = tree.find(self.node, path)?;
        Ok(status(node, &tree.info(node)?))
    }

    fn entries_after(&self, path: &str, after: &str) -> Result<DirectoryEntriesResults, TreeError> {
        let tree = self.volume.tree.borrow();
        let mut results = DirectoryEntriesResults::default();
        let mut bytes = 0_usize;
        for (node, info) in tree.list_after(tree.find(self.node, path)?, after)? {
            bytes = bytes.saturating_add(info.name.len()).saturating_add(ENTRY_BYTES);
            if bytes > MAX_LIST {
                results.more = true;
                break;
            }
            results.entries.push(DirectoryEntry { status: status(node, &info), name: info.name });
        }
        Ok(results)
    }
}

impl DirectoryServer for DirectoryObject {
    async fn list(&self, _cx: &CallContext, path: String) -> Result<Vec<EntryInfo>, CallError> {
        let node = self.find(&path)?;
        let entries = self.volume.tree.borrow().list(node).map_err(refused)?;
        Ok(entries.into_iter().map(entry).collect())
    }

    async fn stat(&self, _cx: &CallContext, path: String) -> Result<EntryInfo, CallError> {
        let node = self.find(&path)?;
        self.volume.tree.borrow().info(node).map(entry).map_err(refused)
    }

    async fn open(&self, _cx: &CallContext, path: String) -> Result<ReadOnlyFileClient, CallError> {
        let node = self.find(&path)?;
        ReadOnlyFileClient::serve(&self.volume.exporter, self.file(node).map_err(refused)?)
    }

    async fn create(&self, _cx: &CallContext, path: String) -> Result<FileClient, CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        let node = self.volume.change(|tree| tree.create(self.node, &path, now)).map_err(refused)?;
        FileClient::serve(&self.volume.exporter, self.file(node).map_err(refused)?)
    }

    async fn open_directory(&self, _cx: &CallContext, path: String) -> Result<DirectoryClient, CallError> {
        let node = self.find(&path)?;
        self.volume.tree.borrow().list(node).map_err(refused)?;
        self.directory(node)
    }

    async fn read_text(
        &self,
        _cx: &CallContext,
        path: String,
        offset: u32,
        length: u32,
    ) -> Result<DirectoryReadTextResults, CallError> {
        let node = self.find(&path)?;
        let no_text = |error: TextError| CallError::invalid_argument(format!("`{path}` {error}"));
        let tree = self.volume.tree.borrow();
        let size = tree.info(node).map_err(refused)?.bytes;
        let piece = TextPiece::choose(size, offset, length).map_err(&no_text)?;
        let (first, count) = piece.bytes();
        let bytes = tree.read(node, first, count).map_err(refused)?;
        let (text, start) = piece.text(bytes).map_err(&no_text)?;
        let label = tree.label(node).map_err(refused)?.clone();
        self.trail.join(&label);
        Ok(DirectoryReadTextResults { text: text.to_string(), start, bytes: size, label })
    }

    async fn write_text(
        &self,
        _cx: &CallContext,
        path: String,
        text: String,
        append: bool,
        label: Option<Label>,
    ) -> Result<(), CallError> {
        self.may_write()?;
        let label = join(&label.unwrap_or_default(), &self.trail.label());
        let now = self.volume.now().await;
        let store = |tree: &mut Tree| tree.store(self.node, &path, text.as_bytes(), append, &label, now);
        self.volume.change(store).map_err(refused)
    }

    async fn remove(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        self.volume.tree.borrow_mut().remove(self.node, &path, now).map_err(refused)
    }

    async fn make_directory(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        self.volume.change(|tree| tree.make_directory(self.node, &path, now)).map(|_| ()).map_err(refused)
    }

    async fn read_only(&self, _cx: &CallContext) -> Result<DirectoryClient, CallError> {
        if self.node == Tree::ROOT && self.trail.is_none() {
            // The manifest gives this to services, which continue when this one is restarted.
            let cap = self.volume.exporter.durable(READ_ONLY_ROOT, DirectoryClient::INTERFACE_ID)?;
            return Ok(DirectoryClient::from_cap(cap));
        }
        self.narrower(self.node, false, self.trail.clone())
    }

    async fn open_with(
        &self,
        _cx: &CallContext,
        path: String,
        options: OpenOptions,
    ) -> Result<DirectoryOpenWithResults, CallError> {
        let now = self.volume.now().await;
        match self.prepare(&path, &options, now) {
            Ok(node) => self.opened(node, options.write),
            Err(error) => Ok(DirectoryOpenWithResults { error, ..DirectoryOpenWithResults::default() }),
        }
    }

    async fn status(
        &self,
        _cx: &CallContext,
        path: String,
        _follow: bool,
    ) -> Result<DirectoryStatusResults, CallError> {
        Ok(match self.status_of(&path) {
            Ok(status) => DirectoryStatusResults { error: FileError::None, status },
            Err(error) => DirectoryStatusResults { error: told(&error), status: FileStatus::default() },
        })
    }

    async fn entries(
        &self,
        _cx: &CallContext,
        path: String,
        after: String,
    ) -> Result<DirectoryEntriesResults, CallError> {
        Ok(self.entries_after(&path, &after).unwrap_or_else(|error| DirectoryEntriesResults {
            error: told(&error),
            ..DirectoryEntriesResults::default()
        }))
    }

    async fn create_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        Ok(match self.change(|tree, now| tree.make_directory(self.node, &path, now)).await {
            // The directory itself.
            FileError::IsDirectory => FileError::Exists,
            other => other,
        })
    }

    async fn remove_file(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        Ok(self.change(|tree, now| tree.remove_file(self.node, &path, now)).await)
    }

    async fn remove_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        Ok(self.change(|tree, now| tree.remove_directory(self.node, &path, now)).await)
    }

    async fn rename(&self, _cx: &CallContext, from: String, to: String) -> Result<FileError, CallError> {
        Ok(self.change(|tree, now| tree.rename(self.node, &from, &to, now)).await)
    }

    async fn set_modified(&self, _cx: &CallContext, path: String, milliseconds: i64) -> Result<FileError, CallError> {
        Ok(self
            .change(|tree, _| {
                let node = tree.find(self.node, &path)?;
                tree.set_modified(node, milliseconds)
            })
            .await)
    }

    async fn read_link(&self, _cx: &CallContext, path: String) -> Result<DirectoryReadLinkResults, CallError> {
        // There are no links here.
        let error = self.status_of(&path).map_or_else(|error| told(&error), |_| FileError::NotLink);
        Ok(DirectoryReadLinkResults { error, target: String::new() })
    }

    async fn labelled(&self, _cx: &CallContext, label: Label) -> Result<DirectoryClient, CallError> {
        let trail = self.trail.labelled(&label);
        if self.node == Tree::ROOT {
            // Programs get this, and continue when this one is restarted.
            let key = self.volume.trails.keep(trail, self.writable);
            return Ok(DirectoryClient::from_cap(self.volume.exporter.durable(key, DirectoryClient::INTERFACE_ID)?));
        }
        self.narrower(self.node, self.writable, trail)
    }

    async fn label(&self, _cx: &CallContext) -> Result<Label, CallError> {
        Ok(self.trail.label())
    }
}

/// A file as a client holds it: served as `File` to writers and as `ReadOnlyFile` to readers.
pub struct FileObject {
    volume: Rc<Volume>,
    node: NodeId,
    holder: Holder,
    trail: Trail,
}

impl FileObject {
    fn open(volume: &Rc<Volume>, node: NodeId, trail: Trail) -> Result<Rc<Self>, TreeError> {
        volume.tree.borrow_mut().open(node)?;
        Ok(Rc::new(Self { volume: volume.clone(), node, holder: volume.locks.holder(), trail }))
    }

    /// Changes the file, which then carries the labels of what its writer has read.
    async fn change<T>(&self, change: impl Fn(&mut Tree, i64) -> Result<T, TreeError>) -> Result<T, CallError> {
        let (now, label) = (self.volume.now().await, self.trail.label());
        let marked = |tree: &mut Tree| {
            tree.mark(self.node, &label)?;
            change(tree, now)
        };
        self.volume.change(marked).map_err(refused)
    }

    /// Whether the file is locked then.
    async fn lock(&self, exclusive: bool, wait: bool) -> Result<bool, CallError> {
        let Volume { locks, exporter, .. } = &*self.volume;
        // A holder may have died, of which no message comes.
        if locks.attempt(self.node, self.holder, exclusive)
            || (exporter.sweep() > 0 && locks.attempt(self.node, self.holder, exclusive))
        {
            return Ok(true);
        }
        if !wait {
            return Ok(false);
        }
        let _waiting = locks.enter(MAX_WAITING).ok_or_else(|| {
            CallError::overloaded(format!(
                "{MAX_WAITING} calls wait for locks already; try again when a lock is released"
            ))
        })?;
        loop {
            let locked = capos_rt::timeout(HOLDERS_CHECKED, locks.wait(self.node, self.holder, exclusive));
            if locked.await.map_err(|error| CallError::failed(error.to_string()))?.is_ok() {
                return Ok(true);
            }
            exporter.sweep();
        }
    }

    fn unlock(&self) {
        self.volume.locks.release(self.node, self.holder);
    }

    fn status(&self) -> Result<FileStatus, CallError> {
        self.volume.tree.borrow().info(self.node).map(|info| status(self.node, &info)).map_err(refused)
    }

    fn info(&self) -> Result<EntryInfo, CallError> {
        self.volume.tree.borrow().info(self.node).map(entry).map_err(refused)
    }

    fn read(&self, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(MAX_TRANSFER);
        let tree = self.volume.tree.borrow();
        self.trail.join(tree.label(self.node).map_err(refused)?);
        tree.read(self.node, offset, count).map(<[u8]>::to_vec).map_err(refused)
    }
}

impl Drop for FileObject {
    fn drop(&mut self) {
        self.volume.locks.release(self.node, self.holder);
        self.volume.tree.borrow_mut().close(self.node);
    }
}

impl ReadOnlyFileServer for FileObject {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Self::info(self)
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, count)
    }

    async fn memory(&self, _cx: &CallContext) -> Result<ReadOnlyFileMemoryResults, CallError> {
        Err(CallError::unimplemented("a scratch file can change and has no shared memory; read it instead"))
    }

    async fn read_into(
        &self,
        _cx: &CallContext,
        _offset: u64,
        _bytes: u64,
        _memory: MemoryObjectClient,
        _memory_offset: u64,
    ) -> Result<(), CallError> {
        Err(CallError::unimplemented("a scratch file has no shared memory; use `read`"))
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Self::status(self)
    }

    async fn lock(&self, _cx: &CallContext, exclusive: bool, wait: bool) -> Result<bool, CallError> {
        Self::lock(self, exclusive, wait).await
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        Self::unlock(self);
        Ok(())
    }
}

impl FileServer for FileObject {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Self::info(self)
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, count)
    }

    async fn write(&self, _cx: &CallContext, offset: u64, data: Vec<u8>) -> Result<u32, CallError> {
        if data.len() > MAX_TRANSFER {
            return Err(CallError::invalid_argument(format!(
                "one write carries at most {MAX_TRANSFER} bytes; divide it"
            )));
        }
        self.change(|tree, now| tree.write(self.node, offset, &data, now)).await?;
        Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
    }

    async fn truncate(&self, _cx: &CallContext, bytes: u64) -> Result<(), CallError> {
        self.change(|tree, now| tree.truncate(self.node, bytes, now)).await
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Self::status(self)
    }

    async fn append(&self, _cx: &CallContext, data: Vec<u8>) -> Result<u64, CallError> {
        if data.len() > MAX_TRANSFER {
            return Err(CallError::invalid_argument(format!(
                "one write carries at most {MAX_TRANSFER} bytes; divide it"
            )));
        }
        let append = |tree: &mut Tree, now| {
            let end = tree.info(self.node)?.bytes;
            tree.write(self.node, end, &data, now).map(|()| end)
        };
        self.change(append).await
    }

    async fn set_modified(&self, _cx: &CallContext, milliseconds: i64) -> Result<(), CallError> {
        self.volume.tree.borrow_mut().set_modified(self.node, milliseconds).map_err(refused)
    }

    async fn lock(&self, _cx: &CallContext, exclusive: bool, wait: bool) -> Result<bool, CallError> {
        Self::lock(self, exclusive, wait).await
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        Self::unlock(self);
        Ok(())
    }
}

//! Directories and files of the tree, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_schema::cap::{CallContext, CallError, Export};
use capos_schema::kernel::{MemoryObjectClient, TimerClient};
use capos_schema::storage::{
    DirectoryClient, DirectoryServer, EntryInfo, EntryKind, FileClient, FileServer, ReadOnlyFileClient,
    ReadOnlyFileMemoryResults, ReadOnlyFileServer,
};
use capos_tree::{Info, Kind, NodeId, Tree, TreeError};
use core::cell::RefCell;

/// The most that one read or write carries, in bytes.
const MAX_TRANSFER: usize = 256 * 1024;

/// The tree, shared by all that is served.
pub struct Volume {
    tree: RefCell<Tree>,
    timer: TimerClient,
    exporter: Rc<dyn Export>,
}

impl Volume {
    /// An empty volume with a budget in bytes.
    pub fn new(budget: u64, timer: TimerClient, exporter: Rc<dyn Export>) -> Rc<Self> {
        Rc::new(Self { tree: RefCell::new(Tree::new(budget)), timer, exporter })
    }

    /// The tree, for filling it at start.
    pub fn tree(&self) -> &RefCell<Tree> {
        &self.tree
    }

    async fn now(&self) -> i64 {
        self.timer.wall_clock().await.ok().and_then(|time| i64::try_from(time / 1000).ok()).unwrap_or(0)
    }
}

fn refused(error: TreeError) -> CallError {
    match error {
        TreeError::NoSpace { .. } => CallError::overloaded(error.to_string()),
        TreeError::Gone => CallError::disconnected(error.to_string()),
        _ => CallError::invalid_argument(error.to_string()),
    }
}

fn entry(info: Info) -> EntryInfo {
    EntryInfo {
        name: info.name,
        kind: match info.kind {
            Kind::File => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
        },
        bytes: info.bytes,
        modified_unix: info.modified,
    }
}

/// A directory as a client holds it.
pub struct DirectoryObject {
    volume: Rc<Volume>,
    node: NodeId,
    writable: bool,
}

impl DirectoryObject {
    /// The root of a volume.
    pub fn root(volume: &Rc<Volume>, writable: bool) -> Rc<Self> {
        Rc::new(Self { volume: volume.clone(), node: Tree::ROOT, writable })
    }

    fn find(&self, path: &str) -> Result<NodeId, CallError> {
        self.volume.tree.borrow().find(self.node, path).map_err(refused)
    }

    fn may_write(&self) -> Result<(), CallError> {
        if self.writable { Ok(()) } else { Err(CallError::invalid_argument("this directory is read-only")) }
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
        self.volume.tree.borrow().read(node, 0, 0).map_err(refused)?;
        let file = Rc::new(FileObject { volume: self.volume.clone(), node });
        ReadOnlyFileClient::serve(&self.volume.exporter, file)
    }

    async fn create(&self, _cx: &CallContext, path: String) -> Result<FileClient, CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        let node = self.volume.tree.borrow_mut().create(self.node, &path, now).map_err(refused)?;
        FileClient::serve(&self.volume.exporter, Rc::new(FileObject { volume: self.volume.clone(), node }))
    }

    async fn open_directory(&self, _cx: &CallContext, path: String) -> Result<DirectoryClient, CallError> {
        let node = self.find(&path)?;
        self.volume.tree.borrow().list(node).map_err(refused)?;
        let directory = Self { volume: self.volume.clone(), node, writable: self.writable };
        DirectoryClient::serve(&self.volume.exporter, Rc::new(directory))
    }

    async fn read_text(&self, _cx: &CallContext, path: String) -> Result<String, CallError> {
        let node = self.find(&path)?;
        let tree = self.volume.tree.borrow();
        let bytes = tree.read(node, 0, MAX_TRANSFER.saturating_add(1)).map_err(refused)?;
        if bytes.len() > MAX_TRANSFER {
            return Err(CallError::invalid_argument(format!(
                "`{path}` is larger than {MAX_TRANSFER} bytes; open it and read it in pieces"
            )));
        }
        core::str::from_utf8(bytes)
            .map(ToString::to_string)
            .map_err(|error| CallError::invalid_argument(format!("`{path}` is not UTF-8 text: {error}")))
    }

    async fn write_text(&self, _cx: &CallContext, path: String, text: String) -> Result<(), CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        self.volume.tree.borrow_mut().replace(self.node, &path, text.as_bytes(), now).map_err(refused)
    }

    async fn remove(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        self.volume.tree.borrow_mut().remove(self.node, &path, now).map_err(refused)
    }

    async fn make_directory(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        self.volume.tree.borrow_mut().make_directory(self.node, &path, now).map(|_| ()).map_err(refused)
    }

    async fn read_only(&self, _cx: &CallContext) -> Result<DirectoryClient, CallError> {
        let directory = Self { volume: self.volume.clone(), node: self.node, writable: false };
        DirectoryClient::serve(&self.volume.exporter, Rc::new(directory))
    }
}

/// A file as a client holds it: served as `File` to writers and as `ReadOnlyFile` to readers.
pub struct FileObject {
    volume: Rc<Volume>,
    node: NodeId,
}

impl FileObject {
    fn info(&self) -> Result<EntryInfo, CallError> {
        self.volume.tree.borrow().info(self.node).map(entry).map_err(refused)
    }

    fn read(&self, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(MAX_TRANSFER);
        self.volume.tree.borrow().read(self.node, offset, count).map(<[u8]>::to_vec).map_err(refused)
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
        Err(CallError::unimplemented("a scratch file is read by `read`"))
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
            return Err(CallError::invalid_argument(format!("one write carries at most {MAX_TRANSFER} bytes")));
        }
        let now = self.volume.now().await;
        self.volume.tree.borrow_mut().write(self.node, offset, &data, now).map_err(refused)?;
        Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
    }

    async fn truncate(&self, _cx: &CallContext, bytes: u64) -> Result<(), CallError> {
        let now = self.volume.now().await;
        self.volume.tree.borrow_mut().truncate(self.node, bytes, now).map_err(refused)
    }
}

//! Files as memory that is paged in.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use capos_rt::memory::{self, Access};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{MemoryObjectClient, PagerClient, PagerServer, ResourceAccountClient};
use capos_schema::storage::ReadOnlyFileMemoryResults;
use capos_tree::{FileTree, NodeId};

use crate::key::Key;
use crate::volume::{Volume, refused};

/// Files that have memory at most. A file with memory is held, so that it stays when its name is removed.
const MAX_MEMORIES: usize = 64;
/// Bytes that are copied at once.
const PIECE: u64 = 256 << 10;

/// A file's memory, and the file's length when that was made.
struct Made {
    memory: MemoryObjectClient,
    bytes: u64,
}

/// The memory of files, shared by all who map them until they change.
pub struct Memories {
    account: ResourceAccountClient,
    made: RefCell<BTreeMap<NodeId, Made>>,
    changes: Cell<u64>,
}

impl Memories {
    pub fn new(account: ResourceAccountClient) -> Self {
        Self { account, made: RefCell::default(), changes: Cell::new(0) }
    }

    /// Releases the memory of a file that has changed: a program that maps the file from now on sees the new content.
    pub fn forget<T: FileTree>(&self, tree: &T, id: NodeId) {
        self.changes.set(self.changes.get().wrapping_add(1));
        if self.made.borrow_mut().remove(&id).is_some() {
            tree.close(id);
        }
    }

    /// Releases all. Whether there was any.
    pub fn clear<T: FileTree>(&self, tree: &T) -> bool {
        let made = core::mem::take(&mut *self.made.borrow_mut());
        made.keys().for_each(|id| tree.close(*id));
        !made.is_empty()
    }

    /// A file's memory. The caller holds the file.
    pub async fn memory<T: FileTree + 'static>(
        &self,
        volume: &Volume<T>,
        id: NodeId,
    ) -> Result<ReadOnlyFileMemoryResults, CallError> {
        if let Some(Made { memory, bytes }) = self.made.borrow().get(&id) {
            return Ok(ReadOnlyFileMemoryResults { memory: memory.clone(), bytes: *bytes });
        }
        let changes = self.changes.get();
        let bytes = volume.tree.info(id).await.map_err(refused)?.bytes;
        if bytes == 0 {
            return Err(CallError::unimplemented("an empty file has no memory; read it instead"));
        }
        let pager: PagerClient = volume.durable(Key::Pager(id))?;
        let memory = self.account.create_paged_memory(bytes, &pager).await?;
        volume.tree.hold(id).await.map_err(refused)?;
        let is_current = changes == self.changes.get() && !self.made.borrow().contains_key(&id);
        if is_current {
            if self.made.borrow().len() >= MAX_MEMORIES {
                self.clear(&volume.tree);
            }
            self.made.borrow_mut().insert(id, Made { memory: memory.clone(), bytes });
        } else {
            volume.tree.close(id);
        }
        Ok(ReadOnlyFileMemoryResults { memory, bytes })
    }
}

/// The pager of one file's memory.
pub struct FilePager<T> {
    volume: Rc<Volume<T>>,
    node: NodeId,
}

impl<T> FilePager<T> {
    pub fn new(volume: &Rc<Volume<T>>, node: NodeId) -> Self {
        Self { volume: volume.clone(), node }
    }
}

impl<T: FileTree + 'static> PagerServer for FilePager<T> {
    /// The window is zeros where the file has become shorter.
    async fn page_in(
        &self,
        _cx: &CallContext,
        offset: u64,
        bytes: u64,
        window: MemoryObjectClient,
    ) -> Result<(), CallError> {
        copy(&self.volume.tree, self.node, offset, bytes, &window, 0).await
    }
}

/// Fills memory with bytes of a file, and with zeros behind its end. Offsets and length are whole pages.
pub async fn copy<T: FileTree>(
    tree: &T,
    id: NodeId,
    offset: u64,
    bytes: u64,
    memory: &MemoryObjectClient,
    memory_offset: u64,
) -> Result<(), CallError> {
    if bytes == 0 {
        return Ok(());
    }
    let mapping = memory::map(memory, memory_offset, bytes, Access::ReadWrite)?;
    let mut done = 0;
    while done < bytes {
        let count = usize::try_from(bytes.saturating_sub(done).min(PIECE)).unwrap_or(0);
        let (data, _) = tree.read(id, offset.saturating_add(done), count).await.map_err(refused)?;
        if data.is_empty() {
            mapping.clear(done, usize::try_from(bytes.saturating_sub(done)).unwrap_or(0))?;
            break;
        }
        mapping.write(done, &data)?;
        done = done.saturating_add(data.len() as u64);
    }
    Ok(())
}

//! Files of the tree, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::Cell;

use capos_abi::PAGE;
use capos_schema::authority::Label;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::{EntryInfo, FileServer, FileStatus, ReadOnlyFileMemoryResults, ReadOnlyFileServer};
use capos_tree::{FileTree, Holder, NodeId, Trail, TreeError, WriteAt};

use crate::memory;
use crate::volume::{Volume, entry, refused, status};

/// The most that one read or write carries, in bytes.
const MAX_TRANSFER: usize = 256 * 1024;
/// How often a holder of a lock that is waited for is checked for having died, in nanoseconds.
const HOLDERS_CHECKED: u64 = 1_000_000_000;
/// Calls that may wait for locks: the service answers others meanwhile.
const MAX_WAITING: usize = 8;

/// A file as a client holds it: served as `File` to writers and as `ReadOnlyFile` to readers.
pub struct FileObject<T: FileTree + 'static> {
    volume: Rc<Volume<T>>,
    node: NodeId,
    holder: Holder,
    trail: Trail,
    /// The tree's losses that its holder knows of.
    losses: Cell<u64>,
}

impl<T: FileTree + 'static> FileObject<T> {
    /// A file that was opened; it is closed with this.
    pub fn opened(volume: &Rc<Volume<T>>, node: NodeId, trail: Trail) -> Rc<Self> {
        let losses = volume.tree.losses().into();
        Rc::new(Self { volume: volume.clone(), node, holder: volume.locks.holder(), trail, losses })
    }

    /// Changes the file, which then carries the labels of what its writer has read.
    async fn change<R>(&self, change: impl AsyncFn(&T, &Label, i64) -> Result<R, TreeError>) -> Result<R, CallError> {
        let (now, label) = (self.volume.now().await, self.trail.label());
        let changed = self.volume.change(async |tree| change(tree, &label, now).await).await.map_err(refused)?;
        self.volume.forget_memory(self.node);
        Ok(changed)
    }

    async fn write_at(&self, at: WriteAt, data: &[u8]) -> Result<u64, CallError> {
        if data.len() > MAX_TRANSFER {
            return Err(CallError::invalid_argument(format!(
                "one write carries at most {MAX_TRANSFER} bytes; divide it"
            )));
        }
        self.change(async |tree, label, now| tree.write(self.node, at, data, label, now).await).await
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

    async fn status(&self) -> Result<FileStatus, CallError> {
        self.volume.tree.info(self.node).await.map(|info| status(self.node, &info)).map_err(refused)
    }

    async fn info(&self) -> Result<EntryInfo, CallError> {
        self.volume.tree.info(self.node).await.map(entry).map_err(refused)
    }

    async fn read(&self, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(MAX_TRANSFER);
        let (data, label) = self.volume.tree.read(self.node, offset, count).await.map_err(refused)?;
        self.trail.join(&label);
        Ok(data)
    }

    /// Notes that all of the file is read by other means.
    async fn read_elsewhere(&self) -> Result<(), CallError> {
        self.read(0, 0).await.map(drop)
    }

    async fn sync(&self) -> Result<(), CallError> {
        let since = self.losses.replace(self.volume.tree.losses());
        self.volume.tree.sync(since).await.map_err(refused)
    }
}

impl<T: FileTree + 'static> Drop for FileObject<T> {
    fn drop(&mut self) {
        self.volume.locks.release(self.node, self.holder);
        self.volume.tree.close(self.node);
    }
}

impl<T: FileTree + 'static> ReadOnlyFileServer for FileObject<T> {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Self::info(self).await
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, count).await
    }

    async fn memory(&self, _cx: &CallContext) -> Result<ReadOnlyFileMemoryResults, CallError> {
        let Some(memories) = &self.volume.memories else {
            return Err(CallError::unimplemented("a file in memory has no shared memory; read it instead"));
        };
        self.read_elsewhere().await?;
        memories.memory(&self.volume, self.node).await
    }

    async fn read_into(
        &self,
        _cx: &CallContext,
        offset: u64,
        bytes: u64,
        memory: MemoryObjectClient,
        memory_offset: u64,
    ) -> Result<(), CallError> {
        if [offset, bytes, memory_offset].iter().any(|value| !value.is_multiple_of(PAGE)) {
            return Err(CallError::invalid_argument("offsets and length must be multiples of 4096 bytes"));
        }
        self.read_elsewhere().await?;
        memory::copy(&self.volume.tree, self.node, offset, bytes, &memory, memory_offset).await
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Self::status(self).await
    }

    async fn lock(&self, _cx: &CallContext, exclusive: bool, wait: bool) -> Result<bool, CallError> {
        Self::lock(self, exclusive, wait).await
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        Self::unlock(self);
        Ok(())
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        Self::sync(self).await
    }
}

impl<T: FileTree + 'static> FileServer for FileObject<T> {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Self::info(self).await
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, count).await
    }

    async fn write(&self, _cx: &CallContext, offset: u64, data: Vec<u8>) -> Result<u32, CallError> {
        self.write_at(WriteAt::Offset(offset), &data).await?;
        Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
    }

    async fn truncate(&self, _cx: &CallContext, bytes: u64) -> Result<(), CallError> {
        self.change(async |tree, label, now| tree.truncate(self.node, bytes, label, now).await).await
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Self::status(self).await
    }

    async fn append(&self, _cx: &CallContext, data: Vec<u8>) -> Result<u64, CallError> {
        self.write_at(WriteAt::End, &data).await
    }

    async fn set_modified(&self, _cx: &CallContext, milliseconds: i64) -> Result<(), CallError> {
        self.volume.change(async |tree| tree.set_modified(self.node, milliseconds).await).await.map_err(refused)
    }

    async fn lock(&self, _cx: &CallContext, exclusive: bool, wait: bool) -> Result<bool, CallError> {
        Self::lock(self, exclusive, wait).await
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        Self::unlock(self);
        Ok(())
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        Self::sync(self).await
    }
}

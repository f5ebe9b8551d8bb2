//! Open files of a volume, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::{
    EntryInfo, EntryKind, FileServer, FileStatus, ReadOnlyFileMemoryResults, ReadOnlyFileServer,
};
use capos_transfer::{Handle, Kind, Status};

use crate::refused::refused;
use crate::volumes::{Mounted, Volumes};

/// The most that one read or write carries, in bytes.
pub const MAX_TRANSFER: usize = 256 * 1024;

pub fn kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::File => EntryKind::File,
        Kind::Folder => EntryKind::Directory,
        Kind::Link => EntryKind::Link,
    }
}

pub fn info(name: String, status: &Status) -> EntryInfo {
    EntryInfo { name, kind: kind(status.kind), bytes: status.bytes, modified_unix: status.modified }
}

pub fn file_status(status: &Status) -> FileStatus {
    FileStatus {
        kind: kind(status.kind),
        bytes: status.bytes,
        modified_milliseconds: status.modified.saturating_mul(1000),
        id: 0,
    }
}

/// A file as a client holds it.
pub struct FileObject {
    volumes: Rc<Volumes>,
    mounted: Rc<Mounted>,
    /// There until it is dropped.
    handle: Option<Handle>,
}

impl Drop for FileObject {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.mounted.close_later(handle);
        }
    }
}

impl FileObject {
    pub fn new(volumes: &Rc<Volumes>, mounted: &Rc<Mounted>, handle: Handle) -> Rc<Self> {
        Rc::new(Self { volumes: volumes.clone(), mounted: mounted.clone(), handle: Some(handle) })
    }

    fn handle(&self) -> Result<&Handle, CallError> {
        self.handle.as_ref().ok_or_else(|| CallError::failed("the file is closed"))
    }

    fn refused(&self, error: &capos_transfer::Error) -> CallError {
        refused(&self.mounted.name, error)
    }

    pub async fn status(&self) -> Result<Status, CallError> {
        let handle = self.handle()?;
        self.mounted.with(async |volume| volume.status_of(handle).await).await.map_err(|error| self.refused(&error))
    }

    pub async fn read(&self, offset: u64, count: usize) -> Result<Vec<u8>, CallError> {
        let handle = self.handle()?;
        let count = count.min(MAX_TRANSFER);
        let read = self.mounted.with(async |volume| volume.read(handle, offset, count).await);
        read.await.map_err(|error| self.refused(&error))
    }

    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), CallError> {
        if data.len() > MAX_TRANSFER {
            return Err(CallError::invalid_argument(format!("one write carries at most {MAX_TRANSFER} bytes")));
        }
        let handle = self.handle()?;
        self.volumes.set_time().await;
        // What failed may have left the machine in part.
        self.volumes.written.set(self.volumes.written.get().saturating_add(data.len() as u64));
        let written = self.mounted.with(async |volume| volume.write(handle, offset, data).await);
        written.await.map_err(|error| self.refused(&error))
    }

    pub async fn truncate(&self, bytes: u64) -> Result<(), CallError> {
        let handle = self.handle()?;
        self.volumes.set_time().await;
        let cut = self.mounted.with(async |volume| volume.truncate(handle, bytes).await);
        cut.await.map_err(|error| self.refused(&error))
    }
}

fn no_lock<T>() -> Result<T, CallError> {
    Err(CallError::unimplemented("files of a transfer volume have no locks"))
}

impl ReadOnlyFileServer for FileObject {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Ok(info(String::new(), &Self::status(self).await?))
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, usize::try_from(count).unwrap_or(usize::MAX)).await
    }

    async fn memory(&self, _cx: &CallContext) -> Result<ReadOnlyFileMemoryResults, CallError> {
        Err(CallError::unimplemented(
            "a transfer volume can be removed, and its files cannot be mapped; read it instead",
        ))
    }

    async fn read_into(
        &self,
        _cx: &CallContext,
        _offset: u64,
        _bytes: u64,
        _memory: MemoryObjectClient,
        _memory_offset: u64,
    ) -> Result<(), CallError> {
        Err(CallError::unimplemented("a file of a transfer volume is read by `read`"))
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Ok(file_status(&Self::status(self).await?))
    }

    async fn lock(&self, _cx: &CallContext, _exclusive: bool, _wait: bool) -> Result<bool, CallError> {
        no_lock()
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        no_lock()
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        // What was answered is on the medium.
        Ok(())
    }
}

impl FileServer for FileObject {
    async fn info(&self, _cx: &CallContext) -> Result<EntryInfo, CallError> {
        Ok(info(String::new(), &Self::status(self).await?))
    }

    async fn read(&self, _cx: &CallContext, offset: u64, count: u32) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, usize::try_from(count).unwrap_or(usize::MAX)).await
    }

    async fn write(&self, _cx: &CallContext, offset: u64, data: Vec<u8>) -> Result<u32, CallError> {
        Self::write(self, offset, &data).await?;
        Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
    }

    async fn truncate(&self, _cx: &CallContext, bytes: u64) -> Result<(), CallError> {
        Self::truncate(self, bytes).await
    }

    async fn status(&self, _cx: &CallContext) -> Result<FileStatus, CallError> {
        Ok(file_status(&Self::status(self).await?))
    }

    async fn append(&self, _cx: &CallContext, data: Vec<u8>) -> Result<u64, CallError> {
        let end = Self::status(self).await?.bytes;
        Self::write(self, end, &data).await?;
        Ok(end)
    }

    async fn set_modified(&self, _cx: &CallContext, _milliseconds: i64) -> Result<(), CallError> {
        Err(CallError::unimplemented("the time of an open file of a transfer volume is that of its last change"))
    }

    async fn lock(&self, _cx: &CallContext, _exclusive: bool, _wait: bool) -> Result<bool, CallError> {
        no_lock()
    }

    async fn unlock(&self, _cx: &CallContext) -> Result<(), CallError> {
        no_lock()
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        // What was answered is on the medium.
        Ok(())
    }
}

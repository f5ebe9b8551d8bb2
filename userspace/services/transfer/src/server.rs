//! The volumes, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_rt::log;
use capos_schema::authority::Label;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::DirectoryClient;
use capos_schema::transfer::{
    CopiedFile, TransferVolume, TransferVolumesCopyingResults, TransferVolumesListResults, TransferVolumesServer,
};
use capos_transfer::copy::part_name;
use capos_transfer::{Error, MAX_FILE, Volume};

use crate::copies::{self, Home, Running, VolumeFile, check_label};
use crate::directory::DirectoryObject;
use crate::disk::BlockDisk;
use crate::file::{FileObject, info};
use crate::refused::refused;
use crate::volumes::{Mounted, Volumes};

/// Bytes of a list in an answer, and what an entry takes besides its name.
const MAX_LIST: usize = 60_000;
const ENTRY_BYTES: usize = 48;

/// The volumes.
pub struct Server {
    volumes: Rc<Volumes>,
    running: Running,
}

impl Server {
    pub fn new(volumes: Rc<Volumes>) -> Self {
        Self { volumes, running: Running::default() }
    }

    /// Works with a volume; the error names it.
    async fn with<T>(
        mounted: &Mounted,
        work: impl AsyncFnOnce(&mut Volume<BlockDisk>) -> Result<T, Error>,
    ) -> Result<T, CallError> {
        mounted.with(work).await.map_err(|error| refused(&mounted.name, &error))
    }
}

impl TransferVolumesServer for Server {
    async fn volumes(&self, _cx: &CallContext) -> Result<Vec<TransferVolume>, CallError> {
        self.volumes.list().await
    }

    async fn list(
        &self,
        _cx: &CallContext,
        volume: String,
        path: String,
    ) -> Result<TransferVolumesListResults, CallError> {
        let mounted = self.volumes.find(&volume).await?;
        let listing = Self::with(&mounted, async |volume| volume.list(&path).await).await?;
        let bytes: usize = listing.entries.iter().map(|entry| entry.name.len().saturating_add(ENTRY_BYTES)).sum();
        if bytes > MAX_LIST {
            return Err(CallError::invalid_argument(format!(
                "the folder has {} entries, too many for one list; name a folder in it or a file",
                listing.entries.len()
            )));
        }
        let entries = listing.entries.into_iter().map(|entry| info(entry.name, &entry.status)).collect();
        Ok(TransferVolumesListResults { entries, left_out: u32::try_from(listing.left_out).unwrap_or(u32::MAX) })
    }

    async fn import_file(
        &self,
        _cx: &CallContext,
        volume: String,
        path: String,
        home: DirectoryClient,
        to: String,
    ) -> Result<CopiedFile, CallError> {
        let home = Home(home);
        let mounted = self.volumes.find(&volume).await?;
        let to = copies::place(&to, &path);
        home.check_free(&to).await?;
        let handle = Self::with(&mounted, async |volume| volume.open(&path, false).await).await?;
        let source = VolumeFile(FileObject::new(&self.volumes, &mounted, handle));
        let part = part_name(&to);
        let copied = copies::run(&self.running, source, home.writer(&part).await?, u64::MAX).await?;
        home.check_free(&to).await?;
        home.rename(&part, &to).await?;
        log::info!("imported {} bytes from volume {}", copied.bytes, mounted.name);
        Ok(copied)
    }

    async fn export_file(
        &self,
        _cx: &CallContext,
        home: DirectoryClient,
        path: String,
        volume: String,
        to: String,
        label: Label,
    ) -> Result<CopiedFile, CallError> {
        check_label(&label)?;
        let (source, trail) = Home(home).reader(&path).await?;
        // The label of a file is that of all of it: reading any of it tells.
        source.read(0, 1).await?;
        check_label(&trail.label().await?)?;
        let mounted = self.volumes.find(&volume).await?;
        let to = copies::place(&to, &path);
        let part = part_name(&to);
        self.volumes.set_time().await;
        let handle = Self::with(&mounted, async |volume| {
            match volume.status(&to).await {
                Err(Error::NotFound(_)) => {}
                Ok(_) => return Err(Error::Exists(to.clone())),
                Err(error) => return Err(error),
            }
            match volume.open(&part, true).await {
                Err(Error::NotFound(_)) => volume.create(&part).await,
                result => result,
            }
        })
        .await?;
        let target = VolumeFile(FileObject::new(&self.volumes, &mounted, handle));
        let copied = copies::run(&self.running, source, target, MAX_FILE).await?;
        // The file may have been written meanwhile, by something with a label.
        if let Err(error) = check_label(&trail.label().await?) {
            Self::with(&mounted, async |volume| volume.remove_file(&part).await).await?;
            return Err(error);
        }
        Self::with(&mounted, async |volume| match volume.status(&to).await {
            Err(Error::NotFound(_)) => volume.rename(&part, &to).await,
            Ok(_) => Err(Error::Exists(to.clone())),
            Err(error) => Err(error),
        })
        .await?;
        log::info!("exported {} bytes to volume {}", copied.bytes, mounted.name);
        Ok(copied)
    }

    async fn copying(&self, _cx: &CallContext) -> Result<TransferVolumesCopyingResults, CallError> {
        let progress = self.running.progress();
        Ok(TransferVolumesCopyingResults { done: progress.done, total: progress.total })
    }

    async fn written(&self, _cx: &CallContext) -> Result<u64, CallError> {
        Ok(self.volumes.written.get())
    }

    async fn open(&self, _cx: &CallContext, volume: String) -> Result<DirectoryClient, CallError> {
        let mounted = self.volumes.find(&volume).await?;
        DirectoryClient::serve(&self.volumes.exporter, DirectoryObject::root(&self.volumes, &mounted))
    }
}

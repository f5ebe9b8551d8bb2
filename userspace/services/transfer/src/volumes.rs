//! The volumes that are attached.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_async_lock::AsyncMutex;
use capos_rt::{Server, log};
use capos_schema::cap::CallError;
use capos_schema::kernel::{ResourceAccountClient, TimerClient};
use capos_schema::storage::{DiskContent, DiskInfo};
use capos_schema::transfer::{TransferDisksClient, TransferVolume};
use capos_transfer::{Error, Format, Handle, Volume};

use crate::disk::BlockDisk;
use crate::refused::refused;

/// The longest name that is made of a label.
const MAX_NAME: usize = 32;

/// A mounted volume.
pub struct Mounted {
    /// Its name in requests.
    pub name: String,
    disk: DiskInfo,
    volume: RefCell<Volume<BlockDisk>>,
    mutex: Rc<AsyncMutex>,
    /// Files whose holders are gone.
    closing: RefCell<Vec<Handle>>,
    /// Its medium or its disk failed, so that it has to be mounted again.
    lost: Cell<bool>,
}

impl Mounted {
    /// Works with the volume while nobody else does.
    #[expect(clippy::await_holding_refcell_ref, reason = "only the holder of the mutex borrows")]
    pub async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Volume<BlockDisk>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _turn = self.mutex.lock().await;
        let mut volume = self.volume.borrow_mut();
        loop {
            let Some(file) = self.closing.borrow_mut().pop() else { break };
            if let Err(error) = volume.close(file).await {
                log::warning!("volume {}: closing a file: {}", self.name, error.to_string().escape_debug());
            }
        }
        let result = work(&mut volume).await;
        if matches!(result, Err(Error::Removed | Error::Disk(_))) {
            self.lost.set(true);
        }
        result
    }

    /// Closes a file at the next request: a holder that is gone waits for nothing.
    pub fn close_later(&self, file: Handle) {
        self.closing.borrow_mut().push(file);
    }

    fn is_of(&self, disk: &DiskInfo) -> bool {
        let same = |disk: &DiskInfo| (disk.place.clone(), disk.content, disk.details.clone(), disk.blocks);
        // To look at an optical drive is to open it again, which ends what was opened before.
        !self.lost.get() && !disk.optical && same(&self.disk) == same(disk)
    }
}

/// All volumes.
pub struct Volumes {
    disks: TransferDisksClient,
    account: ResourceAccountClient,
    timer: TimerClient,
    /// Serves what the clients hold.
    pub exporter: Rc<Server>,
    mounted: RefCell<Vec<Rc<Mounted>>>,
    mutex: Rc<AsyncMutex>,
    /// Bytes that were written to files of all volumes.
    pub written: Cell<u64>,
}

impl Volumes {
    pub fn new(
        disks: TransferDisksClient,
        account: ResourceAccountClient,
        timer: TimerClient,
        exporter: Rc<Server>,
    ) -> Self {
        let (mounted, mutex, written) = Default::default();
        Self { disks, account, timer, exporter, mounted, mutex, written }
    }

    /// Sets the time that changed files get.
    pub async fn set_time(&self) {
        if let Ok(milliseconds) = self.timer.wall_clock().await {
            capos_transfer::set_time(i64::try_from(milliseconds / 1000).unwrap_or(0));
        }
    }

    /// Looks at the disks, and mounts the volumes that are new.
    pub async fn list(&self) -> Result<Vec<TransferVolume>, CallError> {
        let _turn = self.mutex.lock().await;
        let disks = self.disks.list().await?;
        self.mounted.borrow_mut().retain(|mounted| disks.iter().any(|disk| mounted.is_of(disk)));
        let mut volumes = Vec::new();
        for disk in disks {
            let format = match disk.content {
                DiskContent::Fat => Format::Fat,
                DiskContent::Iso9660 => Format::Iso9660,
                _ => continue,
            };
            let mut volume = TransferVolume {
                place: disk.place.clone(),
                content: disk.content,
                writable: format == Format::Fat && !disk.read_only,
                ..TransferVolume::default()
            };
            let known = self.mounted.borrow().iter().find(|mounted| mounted.is_of(&disk)).cloned();
            let mounted = match known {
                Some(mounted) => Ok(mounted),
                None => self.mount(disk, format).await,
            };
            match mounted {
                Ok(mounted) => volume.name.clone_from(&mounted.name),
                Err(error) => volume.problem = error.to_string(),
            }
            volumes.push(volume);
        }
        Ok(volumes)
    }

    async fn mount(&self, disk: DiskInfo, format: Format) -> Result<Rc<Mounted>, CallError> {
        let device = self.disks.open(&disk.place).await?;
        let writable = format == Format::Fat && !disk.read_only;
        let blocks = BlockDisk::new(device, &self.account).await?;
        let refused = |error| refused(&disk.place, &error);
        let mut volume = Volume::mount(blocks, format, writable).await.map_err(refused)?;
        let label = volume.label().await.map_err(refused)?;
        let name = self.free_name(&label, if format == Format::Fat { "fat" } else { "disc" });
        log::info!("volume {name} is {}", disk.place.escape_debug());
        let (volume, lost) = (RefCell::new(volume), Cell::new(false));
        let mounted = Rc::new(Mounted { name, disk, volume, mutex: Rc::default(), closing: RefCell::default(), lost });
        self.mounted.borrow_mut().push(mounted.clone());
        Ok(mounted)
    }

    /// A name that no other volume has, made of a label.
    fn free_name(&self, label: &str, without: &str) -> String {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
        let name: String = label.trim().chars().map(letter).take(MAX_NAME).collect();
        let name = if name.is_empty() { without } else { &name };
        let mounted = self.mounted.borrow();
        let is_free = |name: &String| !mounted.iter().any(|mounted| mounted.name.eq_ignore_ascii_case(name));
        // One of as many names as there are volumes, and one more, is free.
        (1..=mounted.len().saturating_add(1))
            .map(|number| if number == 1 { name.to_string() } else { format!("{name}-{number}") })
            .find(is_free)
            .unwrap_or_default()
    }

    /// The volume of this name, in capital or small letters.
    pub async fn find(&self, name: &str) -> Result<Rc<Mounted>, CallError> {
        let find = || {
            let mounted = self.mounted.borrow();
            let found = mounted.iter().find(|mounted| mounted.name.eq_ignore_ascii_case(name) && !mounted.lost.get());
            found.cloned()
        };
        if let Some(mounted) = find() {
            return Ok(mounted);
        }
        let names: Vec<String> = self.list().await?.into_iter().map(|volume| volume.name).collect();
        find().ok_or_else(|| {
            CallError::invalid_argument(match names.is_empty() {
                true => "no FAT or ISO 9660 volume is attached; /disks lists the disks".to_string(),
                false => format!("there is no volume `{}`; there is {}", name.escape_debug(), names.join(", ")),
            })
        })
    }
}

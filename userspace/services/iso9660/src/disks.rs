//! All disks of the machine, and what they hold.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_async_lock::AsyncMutex;
use capos_disk_content::{Content, classify, sample};
use capos_rt::memory::{self, Mapping};
use capos_rt::{Env, Error};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::{
    BlockDeviceClient, BlockDeviceInfoResults, DiskAccessServer, DiskContent, DiskControllerClient, DiskInfo,
    DisksServer,
};
use capos_schema::transfer::TransferDisksServer;

/// Bytes that are read at once: more than the longest place of a sample.
const BUFFER: u64 = 128 << 10;

/// The disks.
pub struct Disks {
    virtio: Vec<BlockDeviceClient>,
    controllers: Vec<DiskControllerClient>,
    account: ResourceAccountClient,
    /// The place of the boot medium. Its drive is not opened again, since that would close it to those who read it.
    medium: String,
    medium_device: BlockDeviceClient,
    /// SATA disks that were opened, by their places.
    opened: RefCell<BTreeMap<String, BlockDeviceClient>>,
    mutex: Rc<AsyncMutex>,
}

impl Disks {
    /// The disks whose drivers the process was given; `medium` is the place of the one that was booted.
    ///
    /// # Errors
    /// A grant is of another kind.
    pub fn new(
        env: &Env,
        account: ResourceAccountClient,
        medium: String,
        medium_device: BlockDeviceClient,
    ) -> Result<Self, Error> {
        let (virtio, controllers) = (env.each("device")?, env.each("drives")?);
        let opened = RefCell::default();
        Ok(Self { virtio, controllers, account, medium, medium_device, opened, mutex: Rc::default() })
    }

    async fn look(&self, buffer: &Buffer, place: String, optical: bool, device: &BlockDeviceClient) -> DiskInfo {
        let mut disk = DiskInfo { place, optical, ..DiskInfo::default() };
        let found = async {
            let info = device.info().await?;
            (disk.block_bytes, disk.blocks, disk.read_only) = (info.block_bytes, info.blocks, info.read_only);
            buffer.content(device, &info).await
        };
        match found.await {
            Ok(content) => {
                disk.details = content.details();
                disk.content = match &content {
                    _ if self.is_medium(&disk.place) => DiskContent::BootMedium,
                    Content::DataDisk { uuid, .. } => {
                        disk.id = uuid.to_string();
                        DiskContent::DataDisk
                    }
                    Content::Iso9660 { .. } => DiskContent::Iso9660,
                    Content::Fat(_) => DiskContent::Fat,
                    Content::Partitions(_) => DiskContent::PartitionTable,
                    Content::Blank => DiskContent::Blank,
                    Content::Unknown => DiskContent::Unknown,
                };
            }
            Err(error) => disk.problem = error.to_string(),
        }
        disk
    }
}

impl Disks {
    /// Every disk that is attached, in the order of the lists.
    async fn attached(&self) -> Result<Vec<Attached<'_>>, CallError> {
        let mut all = Vec::new();
        for (number, device) in (1_usize..).zip(&self.virtio) {
            let place = virtio_place(number, self.virtio.len());
            all.push(Attached { place, optical: false, at: At::Virtio(device) });
        }
        for (number, controller) in (1_usize..).zip(&self.controllers) {
            for drive in controller.drives().await? {
                let place = drive_place(&drive.model, drive.port, number, self.controllers.len());
                all.push(Attached { place, optical: drive.optical, at: At::Port(controller, drive.port) });
            }
        }
        Ok(all)
    }

    /// The device of a disk. A drive is opened once for all, since opening it again may close it to those who read it.
    async fn device(&self, disk: &Attached<'_>) -> Result<BlockDeviceClient, CallError> {
        if disk.place == self.medium {
            return Ok(self.medium_device.clone());
        }
        let (controller, port) = match disk.at {
            At::Virtio(device) => return Ok(device.clone()),
            At::Port(controller, port) => (controller, port),
        };
        // The disc in an optical drive may be another one by now.
        if disk.optical {
            return controller.open(port).await;
        }
        let known = self.opened.borrow().get(&disk.place).cloned();
        if let Some(device) = known {
            return Ok(device);
        }
        let device = controller.open(port).await?;
        self.opened.borrow_mut().insert(disk.place.clone(), device.clone());
        Ok(device)
    }

    /// What the disks hold. Those for which `wanted` does not hold are named and not looked at.
    pub async fn list(&self, wanted: impl Fn(&Attached<'_>) -> bool) -> Result<Vec<DiskInfo>, CallError> {
        // One look at a time: opening an optical drive closes it to another look.
        let _turn = self.mutex.lock().await;
        let buffer = Buffer::new(&self.account).await?;
        let mut disks = Vec::new();
        for disk in self.attached().await? {
            let known = DiskInfo { place: disk.place.clone(), optical: disk.optical, ..DiskInfo::default() };
            if !wanted(&disk) {
                let content = if self.is_medium(&disk.place) { DiskContent::BootMedium } else { known.content };
                disks.push(DiskInfo { content, ..known });
                continue;
            }
            disks.push(match self.device(&disk).await {
                Ok(device) => self.look(&buffer, disk.place, disk.optical, &device).await,
                Err(error) => DiskInfo { problem: error.to_string(), ..known },
            });
        }
        Ok(disks)
    }

    /// The device of the disk at a place, to write it.
    ///
    /// # Errors
    /// No disk is there, or it is the boot medium or optical; the drive's.
    pub async fn open(&self, place: &str) -> Result<BlockDeviceClient, CallError> {
        let attached = self.attached().await?;
        let Some(disk) = attached.iter().find(|disk| disk.place == place) else {
            let places: Vec<&str> = attached.iter().map(|disk| disk.place.as_str()).collect();
            let why = format!("there is no disk `{place}`; there are: {}", places.join(", "));
            return Err(CallError::invalid_argument(why));
        };
        if disk.optical || self.is_medium(place) {
            let what = if disk.optical { "an optical drive" } else { "the boot medium" };
            return Err(CallError::invalid_argument(format!("{place} is {what}, which is never written")));
        }
        let _turn = self.mutex.lock().await;
        self.device(disk).await
    }

    /// The device of the disk at a place, if it holds a FAT or ISO 9660 volume now.
    ///
    /// # Errors
    /// No disk is there, or it holds anything else, or is the boot medium; the drive's.
    pub async fn open_volume(&self, place: &str) -> Result<BlockDeviceClient, CallError> {
        let _turn = self.mutex.lock().await;
        let attached = self.attached().await?;
        let disk = attached.iter().find(|disk| disk.place == place && !self.is_medium(place));
        let disk = disk.ok_or_else(|| CallError::invalid_argument(format!("there is no volume at {place}")))?;
        let device = self.device(disk).await?;
        let buffer = Buffer::new(&self.account).await?;
        match self.look(&buffer, place.to_string(), disk.optical, &device).await.content {
            DiskContent::Fat | DiskContent::Iso9660 => Ok(device),
            _ => Err(CallError::invalid_argument(format!("{place} holds no FAT or ISO 9660 volume"))),
        }
    }

    /// Whether the disk at a place is the one that was booted.
    pub fn is_medium(&self, place: &str) -> bool {
        place == self.medium
    }
}

/// A disk that is attached.
pub struct Attached<'a> {
    pub place: String,
    pub optical: bool,
    at: At<'a>,
}

/// Where it is attached.
enum At<'a> {
    Virtio(&'a BlockDeviceClient),
    Port(&'a DiskControllerClient, u32),
}

/// The disks, told to operators.
pub struct Told(pub Rc<Disks>);

impl DisksServer for Told {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<DiskInfo>, CallError> {
        self.0.list(|_| true).await
    }
}

/// The disks, for the store, which writes one of them. It is not told what the boot medium and optical discs hold: looking at
/// them takes time in which the machine starts.
pub struct Access(pub Rc<Disks>);

impl DiskAccessServer for Access {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<DiskInfo>, CallError> {
        self.0.list(|disk| !disk.optical && !self.0.is_medium(&disk.place)).await
    }

    async fn open(&self, _cx: &CallContext, disk: String) -> Result<BlockDeviceClient, CallError> {
        self.0.open(&disk).await
    }
}

/// The disks with volumes, for the service that carries files from and to other machines.
pub struct Transfer(pub Rc<Disks>);

impl TransferDisksServer for Transfer {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<DiskInfo>, CallError> {
        let mut disks = self.0.list(|disk| !self.0.is_medium(&disk.place)).await?;
        disks.retain(|disk| matches!(disk.content, DiskContent::Fat | DiskContent::Iso9660));
        Ok(disks)
    }

    async fn open(&self, _cx: &CallContext, disk: String) -> Result<BlockDeviceClient, CallError> {
        self.0.open_volume(&disk).await
    }
}

/// The name of a virtio disk.
pub fn virtio_place(number: usize, count: usize) -> String {
    match count {
        1 => "the virtio disk".into(),
        count => format!("virtio disk {number} of {count}"),
    }
}

/// The name of a drive at a SATA controller.
pub fn drive_place(model: &str, port: u32, controller: usize, count: usize) -> String {
    match count {
        1 => format!("`{model}` at SATA port {port}"),
        count => format!("`{model}` at port {port} of SATA controller {controller} of {count}"),
    }
}

/// Memory that devices fill.
struct Buffer {
    memory: MemoryObjectClient,
    mapping: Mapping,
}

impl Buffer {
    async fn new(account: &ResourceAccountClient) -> Result<Self, CallError> {
        let memory = account.create_memory(BUFFER).await?;
        let mapping = memory::map(&memory, 0, BUFFER, memory::Access::Read)?;
        Ok(Self { memory, mapping })
    }

    async fn content(&self, device: &BlockDeviceClient, info: &BlockDeviceInfoResults) -> Result<Content, CallError> {
        let block = u64::from(info.block_bytes);
        if info.blocks == 0 || !info.block_bytes.is_power_of_two() || block > 4096 {
            return Err(CallError::failed(format!("it has {} blocks of {block} bytes", info.blocks)));
        }
        let (mut head, mut others) = (Vec::new(), Vec::new());
        for place in sample(info.blocks.saturating_mul(block)) {
            let bytes = place.end.saturating_sub(place.start);
            let (first, blocks) = (place.start / block, bytes / block);
            device.read(first, u32::try_from(blocks).unwrap_or(u32::MAX), &self.memory, 0).await?;
            let mut read = vec![0; usize::try_from(bytes).unwrap_or(0)];
            self.mapping.read(0, &mut read)?;
            if place.start == 0 {
                head = read;
            } else if read.iter().any(|byte| *byte != 0) {
                // Zeros say nothing, and are not kept.
                others.push(read);
            }
        }
        Ok(classify(&head, others.iter().map(Vec::as_slice)))
    }
}

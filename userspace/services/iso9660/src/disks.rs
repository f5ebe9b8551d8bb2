//! All disks of the machine, and what they hold.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_async_lock::AsyncMutex;
use capos_disk_content::{Content, classify, sample};
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Env, Error};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::{
    BlockDeviceClient, BlockDeviceInfoResults, DiskContent, DiskControllerClient, DiskInfo, DisksServer,
};

/// Bytes that are read at once: more than the longest place of a sample.
const BUFFER: u64 = 128 << 10;

/// The disks, served.
pub struct Disks {
    virtio: Vec<BlockDeviceClient>,
    controllers: Vec<DiskControllerClient>,
    account: ResourceAccountClient,
    /// The place of the boot medium. Its drive is not opened again, since that would close it to those who read it.
    medium: String,
    medium_device: BlockDeviceClient,
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
        Ok(Self { virtio, controllers, account, medium, medium_device, mutex: Rc::default() })
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
                    _ if disk.place == self.medium => DiskContent::BootMedium,
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

impl DisksServer for Disks {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<DiskInfo>, CallError> {
        // One look at a time: opening a drive closes it to another look.
        let _turn = self.mutex.lock().await;
        let buffer = Buffer::new(&self.account).await?;
        let mut disks = Vec::new();
        for (number, device) in (1_usize..).zip(&self.virtio) {
            disks.push(self.look(&buffer, virtio_place(number, self.virtio.len()), false, device).await);
        }
        for (number, controller) in (1_usize..).zip(&self.controllers) {
            for drive in controller.drives().await? {
                let place = drive_place(&drive.model, drive.port, number, self.controllers.len());
                let opened = match place == self.medium {
                    true => Ok(self.medium_device.clone()),
                    false => controller.open(drive.port).await,
                };
                disks.push(match opened {
                    Ok(device) => self.look(&buffer, place, drive.optical, &device).await,
                    Err(error) => {
                        DiskInfo { place, optical: drive.optical, problem: error.to_string(), ..DiskInfo::default() }
                    }
                });
            }
        }
        Ok(disks)
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
        let mapping = memory::map(&memory, 0, BUFFER, Access::Read)?;
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

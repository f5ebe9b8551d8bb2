//! The drives as a `DiskController`, and each as a `BlockDevice`.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use capos_ahci::command::Piece;
use capos_rt::Server;
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::kernel::{DmaDomainClient, MemoryObjectClient};
use capos_schema::storage::{
    BlockDeviceClient, BlockDeviceInfoResults, BlockDeviceServer, DiskControllerServer, Drive as DriveInfo,
};

use crate::drive::Drive;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of one request at most. However scattered its pages are, their list fits into the command table and into the
/// kernel's answer.
const MAX_REQUEST: u64 = 63 * PAGE;

/// The drives of the controller, served.
pub struct Drives {
    drives: Vec<Rc<Device>>,
    server: Rc<Server>,
}

impl Drives {
    /// Serves these.
    pub fn new(drives: Vec<Rc<Device>>, server: Rc<Server>) -> Self {
        Self { drives, server }
    }

    /// The one at a port. Ports are what stays the same when the driver is started again.
    pub fn find(&self, port: u64) -> Option<Rc<Device>> {
        self.drives.iter().find(|device| u64::from(device.drive.port()) == port).cloned()
    }
}

impl DiskControllerServer for Drives {
    async fn drives(&self, _cx: &CallContext) -> Result<Vec<DriveInfo>, CallError> {
        let info = |device: &Rc<Device>| DriveInfo {
            port: device.drive.port(),
            model: device.drive.model().into(),
            optical: device.drive.is_optical(),
        };
        Ok(self.drives.iter().map(info).collect())
    }

    async fn open(&self, _cx: &CallContext, port: u32) -> Result<BlockDeviceClient, CallError> {
        let device = self.find(port.into());
        let device = device.ok_or_else(|| CallError::invalid_argument(format!("port {port} has no drive")))?;
        device.drive.open().await?;
        let cap = self.server.durable(port.into(), BlockDeviceClient::INTERFACE_ID)?;
        Ok(BlockDeviceClient::from_cap(cap))
    }
}

/// A drive, served.
pub struct Device {
    drive: Drive,
    dma: DmaDomainClient,
}

impl Device {
    /// Serves this drive; its callers' memory is made reachable for the controller through `dma`.
    pub fn new(drive: Drive, dma: DmaDomainClient) -> Self {
        Self { drive, dma }
    }

    async fn transfer(
        &self,
        write: bool,
        block: u64,
        count: u32,
        memory: &MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        let (sectors, sector_bytes) = (self.drive.sectors(), self.drive.sector_bytes());
        // Without a medium there are none; the drive then says why.
        if sectors != 0 && block.checked_add(u64::from(count)).is_none_or(|end| end > sectors) {
            return Err(CallError::invalid_argument(format!(
                "blocks {block} to {} lie outside the medium, which has {sectors}",
                block.saturating_add(u64::from(count))
            )));
        }
        if !offset.is_multiple_of(512) {
            return Err(CallError::invalid_argument("the offset must be a multiple of 512 bytes"));
        }
        let most = u32::try_from(MAX_REQUEST.checked_div(sector_bytes.into()).unwrap_or(1)).unwrap_or(1);
        let (mut block, mut left, mut offset) = (block, count, offset);
        while left > 0 {
            let taken = left.min(most);
            let bytes = u64::from(taken).saturating_mul(sector_bytes.into());
            let start = offset / PAGE * PAGE;
            let within = offset.saturating_sub(start);
            let pinned = self.dma.pin(memory, start, within.saturating_add(bytes).next_multiple_of(PAGE)).await?;
            let piece =
                |segment: &capos_schema::kernel::DmaSegment| Piece { address: segment.address, bytes: segment.bytes };
            let pieces: Vec<Piece> = pinned.segments.iter().map(piece).collect();
            // Calls of this service are never dropped before they are answered, so the memory stays pinned until the
            // drive is done with it.
            let result = self.drive.transfer(write, block, taken, &pieces, within).await;
            drop(pinned.region);
            result?;
            block = block.saturating_add(u64::from(taken));
            left = left.saturating_sub(taken);
            offset = offset.saturating_add(bytes);
        }
        Ok(())
    }
}

impl BlockDeviceServer for Device {
    async fn info(&self, _cx: &CallContext) -> Result<BlockDeviceInfoResults, CallError> {
        Ok(BlockDeviceInfoResults {
            block_bytes: self.drive.sector_bytes(),
            blocks: self.drive.sectors(),
            read_only: self.drive.is_optical(),
        })
    }

    async fn read(
        &self,
        _cx: &CallContext,
        block: u64,
        count: u32,
        memory: MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        self.transfer(false, block, count, &memory, offset).await
    }

    async fn write(
        &self,
        _cx: &CallContext,
        block: u64,
        count: u32,
        memory: MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        self.transfer(true, block, count, &memory, offset).await
    }

    async fn flush(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.drive.flush().await
    }
}

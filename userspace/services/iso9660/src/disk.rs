//! The medium, as the reader of directories wants it: sectors through a bounce buffer, with a small cache.
//! File contents never come this way when they are paged in: the driver fills those pages itself.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use capos_async_lock::AsyncMutex;
use capos_iso9660::{ReadSectors, SECTOR};
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Context, Error};
use capos_schema::cap::CallError;
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::BlockDeviceClient;
use core::cell::RefCell;

/// Bytes of the bounce buffer.
const BOUNCE: usize = 64 * 1024;
/// Sectors that are kept.
const CACHED: usize = 512;

/// The medium.
pub struct Disk {
    blocks: Blocks,
    sectors: u64,
    bounce: Rc<Bounce>,
    cache: RefCell<Cache>,
}

/// The device, by sectors.
#[derive(Clone)]
struct Blocks {
    device: BlockDeviceClient,
    block_bytes: u32,
}

/// Memory that the device fills for one reader at a time.
struct Bounce {
    memory: MemoryObjectClient,
    mapping: Mapping,
    mutex: Rc<AsyncMutex>,
}

#[derive(Default)]
struct Cache {
    sectors: BTreeMap<u32, Box<[u8]>>,
    order: VecDeque<u32>,
}

impl Cache {
    fn keep(&mut self, lba: u32, bytes: &[u8]) {
        if self.sectors.insert(lba, bytes.into()).is_none() {
            self.order.push_back(lba);
        }
        while self.order.len() > CACHED {
            if let Some(oldest) = self.order.pop_front() {
                self.sectors.remove(&oldest);
            }
        }
    }
}

/// How often a read is tried again when the driver has died over it.
const RETRIES: u32 = 3;

impl Disk {
    /// The medium in a device.
    ///
    /// # Errors
    /// Its blocks do not fit into sectors, or there is no memory.
    pub async fn new(device: BlockDeviceClient, account: &ResourceAccountClient) -> Result<Self, Error> {
        let info = device.info().await.context("asking the block device")?;
        let sector = u32::try_from(SECTOR).unwrap_or(u32::MAX);
        if info.block_bytes == 0 || !sector.is_multiple_of(info.block_bytes) {
            return Err(Error::new(alloc::format!(
                "the block device has blocks of {} bytes, which do not fit into sectors of {SECTOR}",
                info.block_bytes
            )));
        }
        let sectors = info.blocks / u64::from(sector / info.block_bytes);
        let memory = account.create_memory(BOUNCE as u64).await?;
        let mapping = memory::map(&memory, 0, BOUNCE as u64, Access::Read)?;
        let bounce = Bounce { memory, mapping, mutex: Rc::default() };
        Ok(Self {
            blocks: Blocks { device, block_bytes: info.block_bytes },
            sectors,
            bounce: Rc::new(bounce),
            cache: RefCell::default(),
        })
    }

    /// Sectors of the device.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Lets the device fill memory with whole sectors.
    ///
    /// # Errors
    /// The device's.
    pub async fn fill(
        &self,
        lba: u32,
        sectors: u32,
        memory: &MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        self.blocks.fill(lba, sectors, memory, offset).await
    }

    async fn bounce(&self, lba: u32, buffer: &mut [u8]) -> Result<(), CallError> {
        let sectors = u32::try_from(buffer.len() / SECTOR).unwrap_or(u32::MAX);
        let guard = self.bounce.mutex.lock().await;
        let (blocks, into) = (self.blocks.clone(), self.bounce.clone());
        // A task of its own: where this reader is cancelled, the device still writes into the buffer, and
        // nothing else may use it before it is done.
        let filling = capos_rt::spawn(async move { (blocks.fill(lba, sectors, &into.memory, 0).await, guard) });
        let Some((filled, _turn)) = filling.await else {
            return Err(CallError::failed("the read was cancelled before the device was done"));
        };
        filled?;
        self.bounce.mapping.read(0, buffer)
    }
}

impl Blocks {
    /// Lets the device fill memory with whole sectors. Where its driver dies meanwhile, the next one is
    /// asked: reading changes nothing.
    async fn fill(&self, lba: u32, sectors: u32, memory: &MemoryObjectClient, offset: u64) -> Result<(), CallError> {
        let factor = u32::try_from(SECTOR).unwrap_or(u32::MAX).checked_div(self.block_bytes).unwrap_or(1);
        let block = u64::from(lba).saturating_mul(u64::from(factor));
        let count = sectors.saturating_mul(factor);
        let mut tries = RETRIES;
        loop {
            match self.device.read(block, count, memory, offset).await {
                Err(error) if error.is_disconnected() && tries > 0 => tries = tries.saturating_sub(1),
                result => return result,
            }
        }
    }
}

impl ReadSectors for Disk {
    type Error = CallError;

    async fn read(&self, lba: u32, buffer: &mut [u8]) -> Result<(), CallError> {
        if buffer.len() == SECTOR {
            if let Some(sector) = self.cache.borrow().sectors.get(&lba) {
                buffer.copy_from_slice(sector);
                return Ok(());
            }
            self.bounce(lba, buffer).await?;
            self.cache.borrow_mut().keep(lba, buffer);
            return Ok(());
        }
        let mut at = lba;
        for piece in buffer.chunks_mut(BOUNCE) {
            self.bounce(at, piece).await?;
            at = at.saturating_add(u32::try_from(piece.len() / SECTOR).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

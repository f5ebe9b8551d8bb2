//! A block device as the volumes read and write it, through memory that the device fills.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use capos_async_lock::AsyncMutex;
use capos_rt::memory::{self, Access, Mapping};
use capos_schema::cap::CallError;
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::{BlockDeviceClient, BlockDeviceInfoResults};
use capos_transfer::{Disk, Fault};

/// Bytes of the memory; longer requests go in pieces.
const BOUNCE: usize = 128 << 10;
/// How often a request is repeated if the driver ends during it. The next driver reads or writes the same bytes.
const RETRIES: u32 = 3;

/// The device.
pub struct BlockDisk {
    bounce: Rc<Bounce>,
    info: BlockDeviceInfoResults,
}

/// The device and its memory, for one request at a time.
struct Bounce {
    device: BlockDeviceClient,
    memory: MemoryObjectClient,
    mapping: Mapping,
    mutex: Rc<AsyncMutex>,
}

impl BlockDisk {
    /// # Errors
    /// The device does not answer, or there is no memory.
    pub async fn new(device: BlockDeviceClient, account: &ResourceAccountClient) -> Result<Self, CallError> {
        let info = device.info().await?;
        let memory = account.create_memory(BOUNCE as u64).await?;
        let mapping = memory::map(&memory, 0, BOUNCE as u64, Access::ReadWrite)?;
        Ok(Self { bounce: Rc::new(Bounce { device, memory, mapping, mutex: Rc::default() }), info })
    }

    fn blocks_of(&self, bytes: usize) -> u64 {
        (bytes as u64).checked_div(self.info.block_bytes.into()).unwrap_or(0)
    }
}

impl Bounce {
    async fn read(&self, block: u64, out: &mut [u8], count: u32) -> Result<(), CallError> {
        self.repeated(async || self.device.read(block, count, &self.memory, 0).await).await?;
        self.mapping.read(0, out)
    }

    async fn write(&self, block: u64, bytes: &[u8], count: u32) -> Result<(), CallError> {
        self.mapping.write(0, bytes)?;
        self.repeated(async || self.device.write(block, count, &self.memory, 0, true).await).await
    }

    async fn repeated(&self, request: impl AsyncFn() -> Result<(), CallError>) -> Result<(), CallError> {
        let mut tries = RETRIES;
        loop {
            match request().await {
                Err(error) if error.is_disconnected() && tries > 0 => tries = tries.saturating_sub(1),
                result => return result,
            }
        }
    }
}

fn fault(error: &CallError, block: u64) -> Fault {
    if error.is_disconnected() { Fault::Removed } else { Fault::Failed(format!("at block {block}: {error}")) }
}

/// Runs a request as a task of its own: if its caller is cancelled, the device still uses the memory, and nothing else may use
/// it before the device is done.
async fn apart<T: 'static>(work: impl Future<Output = T> + 'static) -> Result<T, Fault> {
    capos_rt::spawn(work).await.ok_or_else(|| Fault::Failed("the request was ended before the device was done".into()))
}

impl Disk for BlockDisk {
    fn block_bytes(&self) -> u32 {
        self.info.block_bytes
    }

    fn blocks(&self) -> u64 {
        self.info.blocks
    }

    fn is_writable(&self) -> bool {
        !self.info.read_only
    }

    async fn read(&self, block: u64, count: u32) -> Result<Vec<u8>, Fault> {
        let bytes =
            usize::try_from(u64::from(count).saturating_mul(self.info.block_bytes.into())).unwrap_or(usize::MAX);
        let per_piece = self.blocks_of(BOUNCE);
        let bounce = self.bounce.clone();
        apart(async move {
            let _turn = bounce.mutex.lock().await;
            let mut out = alloc::vec![0; bytes];
            for (at, piece) in out.chunks_mut(BOUNCE).enumerate() {
                let first = block.saturating_add(per_piece.saturating_mul(at as u64));
                let left = u64::from(count).saturating_sub(per_piece.saturating_mul(at as u64));
                let count = u32::try_from(left.min(per_piece)).unwrap_or(u32::MAX);
                bounce.read(first, piece, count).await.map_err(|error| fault(&error, first))?;
            }
            Ok(out)
        })
        .await?
    }

    async fn write(&self, block: u64, bytes: Vec<u8>) -> Result<(), Fault> {
        let (count, per_piece) = (self.blocks_of(bytes.len()), self.blocks_of(BOUNCE));
        let bounce = self.bounce.clone();
        apart(async move {
            let _turn = bounce.mutex.lock().await;
            for (at, piece) in bytes.chunks(BOUNCE).enumerate() {
                let first = block.saturating_add(per_piece.saturating_mul(at as u64));
                let left = count.saturating_sub(per_piece.saturating_mul(at as u64));
                let count = u32::try_from(left.min(per_piece)).unwrap_or(u32::MAX);
                bounce.write(first, piece, count).await.map_err(|error| fault(&error, first))?;
            }
            Ok(())
        })
        .await?
    }
}

//! A disk served as a `BlockDevice`: a call's request is checked, its memory is made accessible to the device, and it
//! is cut into requests.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;

use capos_abi::PAGE;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{DmaDomainClient, DmaSegment, MemoryObjectClient};
use capos_schema::storage::{BlockDeviceInfoResults, BlockDeviceServer, BlockRun};

/// Bytes of memory that are pinned at once at most. The list of their addresses fits into the kernel's answer, however
/// scattered the pages are.
pub const MAX_REQUEST: u64 = 63 * PAGE;
/// The start of a transfer in memory is a multiple of this, in bytes.
const ALIGNMENT: u64 = 512;

/// What a transfer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Disk to memory.
    Read,
    /// Memory to disk, perhaps only to its cache.
    Write,
    /// Memory to the medium of a disk for which [`Disk::forces_writes`] holds.
    DurableWrite,
}

/// A disk, as its driver knows it.
pub trait Disk {
    /// Bytes of a block.
    fn block_bytes(&self) -> u32;

    /// How many blocks there are now; 0 without a medium.
    fn blocks(&self) -> u64;

    /// Whether it cannot be written.
    fn read_only(&self) -> bool;

    /// Whether it writes past its cache on request. If not, a flush follows what has to be durable.
    fn forces_writes(&self) -> bool;

    /// Reads blocks into memory that the device can access, or writes them: the memory from `skip` on, of at
    /// most [`MAX_REQUEST`] bytes. The future is not dropped before it ends, except with the process.
    fn transfer(
        &self,
        transfer: Transfer,
        block: u64,
        count: u32,
        memory: &[DmaSegment],
        skip: u64,
    ) -> impl Future<Output = Result<(), CallError>>;

    /// The same of several runs, whose memory follows each other, in any order. It ends when all of them have.
    fn transfer_runs(
        &self,
        transfer: Transfer,
        runs: &[BlockRun],
        memory: &[DmaSegment],
        skip: u64,
    ) -> impl Future<Output = Result<(), CallError>> {
        async move {
            let mut skip = skip;
            for run in runs.iter().filter(|run| run.count > 0) {
                self.transfer(transfer, run.block, run.count, memory, skip).await?;
                skip = skip.saturating_add(u64::from(run.count).saturating_mul(self.block_bytes().into()));
            }
            Ok(())
        }
    }

    /// Waits until earlier requests are done, and makes written data durable.
    fn flush(&self) -> impl Future<Output = Result<(), CallError>>;
}

/// A disk, served.
pub struct Device<D> {
    disk: D,
    dma: DmaDomainClient,
}

impl<D: Disk> Device<D> {
    /// Serves this disk; makes its callers' memory accessible to the device through `dma`.
    pub fn new(disk: D, dma: DmaDomainClient) -> Self {
        Self { disk, dma }
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Checks that a run lies on the disk, and where its memory begins.
    fn check(&self, block: u64, count: u32, offset: u64) -> Result<(), CallError> {
        let blocks = self.disk.blocks();
        // Without a medium there are none; the driver then says why.
        if blocks != 0 && block.checked_add(u64::from(count)).is_none_or(|end| end > blocks) {
            return Err(CallError::invalid_argument(format!(
                "blocks {block} to {} lie outside the disk, which has {blocks}",
                block.saturating_add(u64::from(count))
            )));
        }
        if !offset.is_multiple_of(ALIGNMENT) {
            return Err(CallError::invalid_argument(format!("the offset must be a multiple of {ALIGNMENT} bytes")));
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<(), CallError> {
        if self.disk.read_only() { Err(CallError::invalid_argument("the disk is read-only")) } else { Ok(()) }
    }

    async fn transfer_runs(
        &self,
        transfer: Transfer,
        runs: &[BlockRun],
        memory: &MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        let mut bytes = 0_u64;
        for run in runs {
            self.check(run.block, run.count, offset)?;
            bytes = bytes.saturating_add(u64::from(run.count).saturating_mul(self.disk.block_bytes().into()));
        }
        let skip = offset % PAGE;
        if skip.saturating_add(bytes) > MAX_REQUEST {
            let why = format!("{bytes} bytes are too many for one request; it takes {MAX_REQUEST} at most");
            return Err(CallError::invalid_argument(why));
        }
        if bytes == 0 {
            return Ok(());
        }
        let pages = skip.saturating_add(bytes).next_multiple_of(PAGE);
        let pinned = self.dma.pin(memory, offset.saturating_sub(skip), pages).await?;
        let result = self.disk.transfer_runs(transfer, runs, &pinned.segments, skip).await;
        drop(pinned.region);
        result
    }

    async fn transfer(
        &self,
        transfer: Transfer,
        block: u64,
        count: u32,
        memory: &MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        let block_bytes = self.disk.block_bytes();
        self.check(block, count, offset)?;
        let most = u32::try_from(MAX_REQUEST.checked_div(block_bytes.into()).unwrap_or(1)).unwrap_or(1);
        let (mut block, mut left, mut offset) = (block, count, offset);
        while left > 0 {
            let taken = left.min(most);
            let bytes = u64::from(taken).saturating_mul(block_bytes.into());
            let skip = offset % PAGE;
            let start = offset.saturating_sub(skip);
            let pinned = self.dma.pin(memory, start, skip.saturating_add(bytes).next_multiple_of(PAGE)).await?;
            // Calls are never dropped before they are answered, so the memory stays pinned until the device is done with it.
            let result = self.disk.transfer(transfer, block, taken, &pinned.segments, skip).await;
            drop(pinned.region);
            result?;
            block = block.saturating_add(u64::from(taken));
            left = left.saturating_sub(taken);
            offset = offset.saturating_add(bytes);
        }
        Ok(())
    }
}

impl<D: Disk> BlockDeviceServer for Device<D> {
    async fn info(&self, _cx: &CallContext) -> Result<BlockDeviceInfoResults, CallError> {
        Ok(BlockDeviceInfoResults {
            block_bytes: self.disk.block_bytes(),
            blocks: self.disk.blocks(),
            read_only: self.disk.read_only(),
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
        self.transfer(Transfer::Read, block, count, &memory, offset).await
    }

    async fn write(
        &self,
        _cx: &CallContext,
        block: u64,
        count: u32,
        memory: MemoryObjectClient,
        offset: u64,
        durable: bool,
    ) -> Result<(), CallError> {
        self.check_writable()?;
        let forced = durable && self.disk.forces_writes();
        let transfer = if forced { Transfer::DurableWrite } else { Transfer::Write };
        self.transfer(transfer, block, count, &memory, offset).await?;
        if durable && !forced { self.disk.flush().await } else { Ok(()) }
    }

    async fn flush(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.disk.flush().await
    }

    async fn read_runs(
        &self,
        _cx: &CallContext,
        runs: Vec<BlockRun>,
        memory: MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        self.transfer_runs(Transfer::Read, &runs, &memory, offset).await
    }

    async fn write_runs(
        &self,
        _cx: &CallContext,
        runs: Vec<BlockRun>,
        memory: MemoryObjectClient,
        offset: u64,
        flush: bool,
    ) -> Result<(), CallError> {
        self.check_writable()?;
        self.transfer_runs(Transfer::Write, &runs, &memory, offset).await?;
        if flush { self.disk.flush().await } else { Ok(()) }
    }
}

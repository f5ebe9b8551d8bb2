//! The disk as a `BlockDevice`.

use crate::disk::{Answer, Command, Disk, Segment};
use crate::hal::{self, Stretch};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use capos_rt::Error;
use capos_rt::memory::{self, Access, Mapping};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{DmaDomainClient, DmaRegionClient, MemoryObjectClient, NotificationClient};
use capos_schema::storage::{BlockDeviceInfoResults, BlockDeviceServer};
use capos_virtio::{Limits, MAX_PIECES, SECTOR, total};
use core::cell::RefCell;
use core::task::{Poll, Waker};

/// Bytes that are made reachable at once: what one request of the longest kind can carry, however scattered its pages.
const REACH: u64 = (MAX_PIECES as u64 - 1) * PAGE;
/// Bytes of a page.
const PAGE: u64 = 4096;

enum Waiting {
    Nobody,
    Task(Waker),
    Answered(Answer),
}

/// The device, served.
pub struct Device {
    disk: RefCell<Disk>,
    dma: DmaDomainClient,
    notification: NotificationClient,
    /// By number.
    requests: RefCell<BTreeMap<u64, Waiting>>,
    /// Tasks that wait for room in the queue, or for answers to what was sent before.
    crowd: RefCell<Vec<Waker>>,
}

/// Memory that is mapped here and reachable by the device.
struct Reachable {
    mapping: Mapping,
    /// The bytes of each stretch that lies together on the bus.
    stretches: Vec<u64>,
    _region: DmaRegionClient,
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let length = usize::try_from(self.mapping.len()).unwrap_or(0);
        hal::remove_reachable_range(self.mapping.pointer().expose_provenance(), length);
    }
}

impl Device {
    /// Serves a disk whose interrupts come through the notification.
    pub fn new(disk: Disk, dma: DmaDomainClient, notification: NotificationClient) -> Self {
        Self { disk: RefCell::new(disk), dma, notification, requests: RefCell::default(), crowd: RefCell::default() }
    }

    /// Takes answers as they come, for ever.
    ///
    /// # Errors
    /// The interrupt is gone.
    pub async fn listen(&self) -> Result<(), Error> {
        loop {
            capos_rt::wait(&self.notification).await?;
            self.reap();
        }
    }

    fn reap(&self) {
        let answers = self.disk.borrow_mut().reap();
        for (number, answer) in answers {
            let before = self.requests.borrow_mut().insert(number, Waiting::Answered(answer));
            if let Some(Waiting::Task(waker)) = before {
                waker.wake();
            }
        }
        let crowd = core::mem::take(&mut *self.crowd.borrow_mut());
        for waker in crowd {
            waker.wake();
        }
    }

    /// Makes whole pages of memory reachable.
    async fn reach(&self, memory: &MemoryObjectClient, start: u64, length: u64) -> Result<Reachable, CallError> {
        let pinned = self.dma.pin(memory, start, length).await?;
        let mapping = memory::map(memory, start, length, Access::ReadWrite)?;
        let base = mapping.pointer().expose_provenance();
        let stretches = pinned.segments.iter().map(|segment| segment.bytes).collect();
        let mut address = base;
        for segment in &pinned.segments {
            let bytes = usize::try_from(segment.bytes).unwrap_or(0);
            hal::add_reachable(Stretch { address, bus: segment.address, bytes });
            address = address.wrapping_add(bytes);
        }
        Ok(Reachable { mapping, stretches, _region: pinned.region })
    }

    async fn request(&self, command: Command, sector: u64, segments: Vec<Segment>) -> Result<(), CallError> {
        core::future::poll_fn(|context| {
            if self.disk.borrow().has_room(segments.len()) {
                return Poll::Ready(());
            }
            self.crowd.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        // SAFETY: the segments lie in a `Reachable` that `transfer` keeps until this returns, and
        // this returns only after the device has answered: dispatch futures of this service are
        // never dropped before, since the process answers every call that it has taken.
        let sent = unsafe { self.disk.borrow_mut().send(command, sector, segments) };
        let number = sent.map_err(|error| CallError::failed(format!("the device takes no request: {error}")))?;
        self.requests.borrow_mut().insert(number, Waiting::Nobody);
        let answer = core::future::poll_fn(|context| {
            let mut requests = self.requests.borrow_mut();
            if let Some(Waiting::Answered(answer)) = requests.get(&number) {
                let answer = *answer;
                requests.remove(&number);
                return Poll::Ready(answer);
            }
            requests.insert(number, Waiting::Task(context.waker().clone()));
            Poll::Pending
        })
        .await;
        match answer {
            Answer::Done => Ok(()),
            Answer::MediumError => Err(CallError::failed(format!("the disk reports an error at sector {sector}"))),
            Answer::Unsupported => Err(CallError::unimplemented("the disk does not know this request")),
            Answer::Broken => Err(CallError::disconnected("the disk broke the protocol")),
        }
    }

    /// Waits until the device has answered what was sent to it before.
    async fn settled(&self) {
        let Some(last) = self.requests.borrow().last_key_value().map(|(number, _)| *number) else { return };
        core::future::poll_fn(|context| {
            let under_way = |waiting: &Waiting| !matches!(waiting, Waiting::Answered(_));
            if !self.requests.borrow().range(..=last).any(|(_, waiting)| under_way(waiting)) {
                return Poll::Ready(());
            }
            self.crowd.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn transfer(
        &self,
        command: Command,
        block: u64,
        count: u32,
        memory: &MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        let (blocks, limits) = (self.blocks(), self.disk.borrow().limits());
        if block.checked_add(u64::from(count)).is_none_or(|end| end > blocks) {
            return Err(CallError::invalid_argument(format!(
                "blocks {block} to {} lie outside the disk, which has {blocks}",
                block.saturating_add(u64::from(count))
            )));
        }
        if !offset.is_multiple_of(u64::from(SECTOR)) {
            return Err(CallError::invalid_argument("the offset must be a multiple of 512 bytes"));
        }
        let (first, bytes) = (sectors_of(&limits).saturating_mul(block), bytes_of(&limits, count));
        let mut done = 0_u64;
        while done < bytes {
            let at = offset.saturating_add(done);
            let start = at / PAGE * PAGE;
            let mut skip = at.saturating_sub(start);
            let piece = bytes.saturating_sub(done).min(REACH);
            let reachable = self.reach(memory, start, skip.saturating_add(piece).next_multiple_of(PAGE)).await?;
            let base = reachable.mapping.pointer().expose_provenance();
            let mut left = piece;
            while left > 0 {
                let pieces = limits.cut(reachable.stretches.iter().copied(), skip, left);
                let taken = total(&pieces);
                if taken == 0 {
                    // A block that lies over the end of what was made reachable comes with the next pages.
                    break;
                }
                let segment = |(begin, bytes): (u64, u64)| Segment {
                    address: base.wrapping_add(usize::try_from(begin).unwrap_or(0)),
                    bytes: usize::try_from(bytes).unwrap_or(0),
                };
                let sector = first.saturating_add(done / u64::from(SECTOR));
                self.request(command, sector, pieces.into_iter().map(segment).collect()).await?;
                skip = skip.saturating_add(taken);
                left = left.saturating_sub(taken);
                done = done.saturating_add(taken);
            }
            if left == piece {
                return Err(CallError::failed("a request to the disk carries less than one of its blocks"));
            }
        }
        Ok(())
    }

    /// Size in blocks.
    fn blocks(&self) -> u64 {
        let disk = self.disk.borrow();
        disk.sectors().checked_div(sectors_of(&disk.limits())).unwrap_or(0)
    }
}

/// Sectors of a block.
fn sectors_of(limits: &Limits) -> u64 {
    u64::from(limits.block_bytes / SECTOR)
}

/// Bytes of blocks.
fn bytes_of(limits: &Limits, count: u32) -> u64 {
    u64::from(count).saturating_mul(limits.block_bytes.into())
}

impl BlockDeviceServer for Device {
    async fn info(&self, _cx: &CallContext) -> Result<BlockDeviceInfoResults, CallError> {
        let (block_bytes, read_only) = (self.disk.borrow().limits().block_bytes, self.disk.borrow().read_only());
        Ok(BlockDeviceInfoResults { block_bytes, blocks: self.blocks(), read_only })
    }

    async fn read(
        &self,
        _cx: &CallContext,
        block: u64,
        count: u32,
        memory: MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        self.transfer(Command::Read, block, count, &memory, offset).await
    }

    async fn write(
        &self,
        _cx: &CallContext,
        block: u64,
        count: u32,
        memory: MemoryObjectClient,
        offset: u64,
    ) -> Result<(), CallError> {
        if self.disk.borrow().read_only() {
            return Err(CallError::invalid_argument("the disk is read-only"));
        }
        self.transfer(Command::Write, block, count, &memory, offset).await
    }

    async fn flush(&self, _cx: &CallContext) -> Result<(), CallError> {
        // A device flushes what it has answered.
        self.settled().await;
        if self.disk.borrow().flushable() { self.request(Command::Flush, 0, Vec::new()).await } else { Ok(()) }
    }
}

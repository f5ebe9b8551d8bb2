//! The disk as a `BlockDevice`.

use crate::disk::{Answer, Command, Disk, MAX_SEGMENTS, SECTOR, Segment};
use crate::hal::{self, Stretch};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use capos_rt::Error;
use capos_rt::memory::{self, Access, Mapping};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{DmaDomainClient, DmaRegionClient, DmaSegment, MemoryObjectClient, NotificationClient};
use capos_schema::storage::{BlockDeviceInfoResults, BlockDeviceServer};
use core::cell::RefCell;
use core::task::{Poll, Waker};

/// Bytes of one request at most: what always fits into the segments, however scattered its pages.
const MAX_REQUEST: u64 = (MAX_SEGMENTS as u64 - 1) * PAGE;
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

/// Memory that is mapped here and reachable by the device, for one request.
struct Reachable {
    mapping: Mapping,
    segments: Vec<Segment>,
    _region: DmaRegionClient,
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

    async fn reach(&self, memory: &MemoryObjectClient, offset: u64, bytes: u64) -> Result<Reachable, CallError> {
        let start = offset / PAGE * PAGE;
        let within = offset.saturating_sub(start);
        let length = within.saturating_add(bytes).next_multiple_of(PAGE);
        let pinned = self.dma.pin(memory, start, length).await?;
        let mapping = memory::map(memory, start, length, Access::ReadWrite)?;
        let base = mapping.pointer().expose_provenance();
        let segments = segments(base, &pinned.segments, within, bytes);
        let mut address = base;
        for segment in &pinned.segments {
            let bytes = usize::try_from(segment.bytes).unwrap_or(0);
            hal::add_reachable(Stretch { address, bus: segment.address, bytes });
            address = address.wrapping_add(bytes);
        }
        Ok(Reachable { mapping, segments, _region: pinned.region })
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
        // SAFETY: the segments belong to a `Reachable` that `transfer` keeps until this returns, and
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
            Answer::MediumError => Err(CallError::failed(format!("the disk reports an error at block {sector}"))),
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
        let sectors = self.disk.borrow().sectors();
        if block.checked_add(u64::from(count)).is_none_or(|end| end > sectors) {
            return Err(CallError::invalid_argument(format!(
                "blocks {block} to {} lie outside the disk, which has {sectors}",
                block.saturating_add(u64::from(count))
            )));
        }
        if !offset.is_multiple_of(u64::from(SECTOR)) {
            return Err(CallError::invalid_argument("the offset must be a multiple of 512 bytes"));
        }
        let bytes = u64::from(count).saturating_mul(u64::from(SECTOR));
        let mut done = 0_u64;
        while done < bytes {
            let piece = bytes.saturating_sub(done).min(MAX_REQUEST);
            let reachable = self.reach(memory, offset.saturating_add(done), piece).await?;
            let base = reachable.mapping.pointer().expose_provenance();
            let length = usize::try_from(reachable.mapping.len()).unwrap_or(0);
            let sector = block.saturating_add(done / u64::from(SECTOR));
            let result = self.request(command, sector, reachable.segments.clone()).await;
            hal::remove_reachable_range(base, length);
            drop(reachable);
            result?;
            done = done.saturating_add(piece);
        }
        Ok(())
    }
}

/// Cuts `bytes` from `within` on out of pinned memory that is mapped at `base`; neighbours on the bus
/// are joined.
fn segments(base: usize, pinned: &[DmaSegment], within: u64, bytes: u64) -> Vec<Segment> {
    let (mut skip, mut left) = (within, bytes);
    let mut address = base;
    let mut segments: Vec<Segment> = Vec::new();
    for segment in pinned {
        let skipped = skip.min(segment.bytes);
        skip = skip.saturating_sub(skipped);
        let taken = segment.bytes.saturating_sub(skipped).min(left);
        left = left.saturating_sub(taken);
        if taken > 0 {
            let start = address.wrapping_add(usize::try_from(skipped).unwrap_or(0));
            segments.push(Segment { address: start, bytes: usize::try_from(taken).unwrap_or(0) });
        }
        address = address.wrapping_add(usize::try_from(segment.bytes).unwrap_or(0));
    }
    segments
}

impl BlockDeviceServer for Device {
    async fn info(&self, _cx: &CallContext) -> Result<BlockDeviceInfoResults, CallError> {
        let disk = self.disk.borrow();
        Ok(BlockDeviceInfoResults { block_bytes: SECTOR, blocks: disk.sectors(), read_only: disk.read_only() })
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

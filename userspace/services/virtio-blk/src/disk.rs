//! The disk behind the transport: its start, and its requests.

use crate::transport::MessageTransport;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use capos_async_lock::Waiters;
use capos_block_server::{Disk as BlockDisk, Transfer};
use capos_rt::memory::Mapping;
use capos_rt::{Clock, Either, Error, select};
use capos_schema::cap::CallError;
use capos_schema::kernel::{DmaSegment, NotificationClient};
use capos_schema::storage::BlockRun;
use capos_virtio::{Answer, Command, Limits, Memory, Offer, Piece, ProtocolError, Queue, Refusal, SECTOR, total};
use core::cell::RefCell;
use core::task::{Poll, Waker};
use virtio_drivers::transport::Transport;

/// How long the disk may take for a request, in nanoseconds. It covers a disk of the host that spins up.
const LIMIT: u64 = 30_000_000_000;

/// The only queue of a disk.
const REQUESTS: u16 = 0;

/// Feature bits (virtio 1.2, sections 5.2.3 and 6).
const FEATURE_SIZE_MAX: u64 = 1 << 1;
const FEATURE_SEG_MAX: u64 = 1 << 2;
const FEATURE_READ_ONLY: u64 = 1 << 5;
const FEATURE_BLK_SIZE: u64 = 1 << 6;
const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_VERSION_1: u64 = 1 << 32;

bitflags::bitflags! {
    /// Features that this driver takes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Features: u64 {
        const SIZE_MAX = FEATURE_SIZE_MAX;
        const SEG_MAX = FEATURE_SEG_MAX;
        const READ_ONLY = FEATURE_READ_ONLY;
        const BLK_SIZE = FEATURE_BLK_SIZE;
        const FLUSH = FEATURE_FLUSH;
        const VERSION_1 = FEATURE_VERSION_1;
    }
}

/// What follows where the device cannot be trusted with memory any more.
const ENDS: &str = "the driver ends, so that the disk is reset";

/// Places in the device's configuration (virtio 1.2, section 5.2.4).
const CAPACITY: usize = 0;
const SIZE_MAX: usize = 8;
const SEG_MAX: usize = 12;
const BLK_SIZE: usize = 20;

/// The queue's memory, mapped here.
pub struct Shared(pub Mapping);

impl Memory for Shared {
    fn read_word(&self, at: u64) -> u32 {
        self.0.read_word(at).unwrap_or(u32::MAX)
    }

    fn write_word(&self, at: u64, word: u32) {
        // The queue keeps to its bytes, all of which are mapped.
        let _ = self.0.write_word(at, word);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let _ = self.0.write(at, bytes);
    }
}

/// A request: where it begins on the disk, and its memory.
struct Request {
    sector: u64,
    pieces: Vec<Piece>,
}

/// A request that has been sent.
enum Sent {
    Waiting(Waker),
    Answered(Answer),
}

/// A virtio disk.
pub struct Disk {
    transport: RefCell<MessageTransport>,
    queue: RefCell<Queue<Shared>>,
    limits: Limits,
    sectors: u64,
    read_only: bool,
    flushable: bool,
    /// By number.
    requests: RefCell<BTreeMap<u64, Sent>>,
    /// Tasks that wait for room in the queue, or for answers to what was sent before.
    crowd: Waiters,
    clock: Clock,
    /// Why the driver ends, once it has to.
    fatal: RefCell<Option<String>>,
    ending: Waiters,
}

/// Why the device cannot be used.
pub enum StartError {
    /// It has no modern interface.
    NotModern,
    /// The library refused it.
    Library(virtio_drivers::Error),
    /// What it can do is not enough.
    Refused(Refusal),
    /// It does not take our interrupt.
    NoInterrupt,
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotModern => {
                f.write_str("it offers only the interface from before virtio 1.0 (with QEMU: omit disable-modern)")
            }
            Self::Library(error) => write!(f, "{error}"),
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::NoInterrupt => f.write_str("it does not take a message-signalled interrupt for its queue"),
        }
    }
}

impl Disk {
    /// Starts the device with a queue in this memory, which it finds at `base`.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn start(mut transport: MessageTransport, shared: Shared, base: u64, clock: Clock) -> Result<Self, StartError> {
        if transport.read_device_features() & FEATURE_VERSION_1 == 0 {
            return Err(StartError::NotModern);
        }
        let features = transport.begin_init(Features::all());
        let word = |at| transport.read_config_space::<u32>(at).map_err(StartError::Library);
        let said = |feature, at| features.contains(feature).then(|| word(at)).transpose();
        let (low, high) = (word(CAPACITY)?, word(CAPACITY + 4)?);
        let (pieces, piece_bytes) = (said(Features::SEG_MAX, SEG_MAX)?, said(Features::SIZE_MAX, SIZE_MAX)?);
        let block_bytes = said(Features::BLK_SIZE, BLK_SIZE)?;
        let offer = Offer { queue: transport.max_queue_size(REQUESTS), pieces, piece_bytes, block_bytes };
        let limits = Limits::agree(&offer).map_err(StartError::Refused)?;
        let queue = Queue::new(shared, base, limits.queue);
        let [descriptors, available, used] = queue.addresses();
        transport.queue_set(REQUESTS, limits.queue.into(), descriptors, available, used);
        if !transport.vector_taken(REQUESTS) {
            return Err(StartError::NoInterrupt);
        }
        transport.finish_init();
        Ok(Self {
            transport: RefCell::new(transport),
            queue: RefCell::new(queue),
            limits,
            sectors: u64::from(low) | (u64::from(high) << 32),
            read_only: features.contains(Features::READ_ONLY),
            flushable: features.contains(Features::FLUSH),
            requests: RefCell::default(),
            crowd: Waiters::default(),
            clock,
            fatal: RefCell::default(),
            ending: Waiters::default(),
        })
    }

    /// Size in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// What requests must keep to.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sectors of a block.
    fn block_sectors(&self) -> u64 {
        u64::from(self.limits.block_bytes / SECTOR)
    }

    /// Takes answers until the process ends.
    ///
    /// # Errors
    /// The interrupt is gone, the device broke the protocol, or it did not answer in time. In both last cases it may
    /// still reach memory that it must not reach, and only the end of this process prevents that.
    pub async fn listen(&self, notification: &NotificationClient) -> Result<(), Error> {
        let listening = async {
            loop {
                capos_rt::wait(notification).await?;
                self.reap().map_err(|error| Error::new(format!("the disk broke the protocol: {error}; {ENDS}")))?;
            }
        };
        let late = core::future::poll_fn(|context| match self.fatal.borrow_mut().take() {
            Some(words) => Poll::Ready(words),
            None => {
                self.ending.add(context);
                Poll::Pending
            }
        });
        match select(late, listening).await {
            Either::First(words) => Err(Error::new(format!("{words}; {ENDS}"))),
            Either::Second(result) => result,
        }
    }

    fn reap(&self) -> Result<(), ProtocolError> {
        let _cause = self.transport.borrow_mut().ack_interrupt();
        while let Some((number, answer)) = self.queue.borrow_mut().take()? {
            let before = self.requests.borrow_mut().insert(number, Sent::Answered(answer));
            if let Some(Sent::Waiting(waker)) = before {
                waker.wake();
            }
        }
        self.crowd.wake();
        Ok(())
    }

    /// Tells the device of requests that were sent.
    fn notify(&self) {
        if self.queue.borrow().wants_notice() {
            self.transport.borrow_mut().notify(REQUESTS);
        }
    }

    /// Waits for room in the queue and sends a request there. The device is not told of it yet.
    async fn send(&self, command: Command, request: &Request) -> Option<u64> {
        core::future::poll_fn(|context| {
            if self.queue.borrow().has_room(request.pieces.len()) {
                return Poll::Ready(());
            }
            // What was sent before makes room once it is answered.
            self.notify();
            self.crowd.add(context);
            Poll::Pending
        })
        .await;
        let number = self.queue.borrow_mut().send(command, request.sector, &request.pieces)?;
        self.requests.borrow_mut().insert(number, Sent::Waiting(Waker::noop().clone()));
        Some(number)
    }

    /// Has the device work on all of these requests, and waits until it has answered each.
    async fn request(&self, command: Command, requests: &[Request]) -> Result<(), CallError> {
        let sent = RefCell::new(Vec::with_capacity(requests.len()));
        let mut result = Ok(());
        // The limit holds for the wait for room, too: a disk that answers nothing makes none.
        let end = self.clock.now().saturating_add(LIMIT);
        let answered = async {
            for request in requests {
                match self.send(command, request).await {
                    Some(number) => sent.borrow_mut().push((number, request.sector)),
                    None => result = Err(CallError::failed("the request does not fit into the disk's queue")),
                }
            }
            self.notify();
            core::future::poll_fn(|context| {
                let mut requests = self.requests.borrow_mut();
                let mut is_ready = true;
                for (number, _) in sent.borrow().iter() {
                    if let Some(Sent::Waiting(waker)) = requests.get_mut(number) {
                        waker.clone_from(context.waker());
                        is_ready = false;
                    }
                }
                if is_ready { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        };
        let what = |sector: u64| {
            let block = sector.checked_div(self.block_sectors()).unwrap_or(0);
            match command {
                Command::Read => format!("block {block} of the disk cannot be read"),
                Command::Write => format!("block {block} of the disk cannot be written"),
                Command::Flush => "the disk cannot be flushed".into(),
            }
        };
        let ended = select(answered, self.clock.sleep_until(end)).await;
        let sent = sent.take();
        if let Either::Second(()) = ended {
            // The device may still use the memory of these requests. It is reset before anybody else may use that, so
            // they end with the driver, and their caller learns that the driver is gone.
            let is_waiting = |number: &u64| matches!(self.requests.borrow().get(number), Some(Sent::Waiting(_)));
            let late = sent.iter().find(|(number, _)| is_waiting(number)).map_or(0, |(_, sector)| *sector);
            let words = format!("{}: the disk did not answer within {} s", what(late), LIMIT / 1_000_000_000);
            *self.fatal.borrow_mut() = Some(words);
            self.ending.wake();
            return core::future::pending().await;
        }
        for (number, sector) in sent {
            let failed = match self.requests.borrow_mut().remove(&number) {
                Some(Sent::Answered(Answer::MediumError)) => {
                    CallError::failed(format!("{}: the disk reports an error", what(sector)))
                }
                Some(Sent::Answered(Answer::Unsupported)) => {
                    CallError::unimplemented(format!("{}: the disk does not know this request", what(sector)))
                }
                _ => continue,
            };
            result = result.and(Err(failed));
        }
        result
    }

    /// Waits until the device has answered what was sent to it before.
    async fn settled(&self) {
        let Some(last) = self.requests.borrow().last_key_value().map(|(number, _)| *number) else { return };
        core::future::poll_fn(|context| {
            if !self.requests.borrow().range(..=last).any(|(_, sent)| matches!(sent, Sent::Waiting(_))) {
                return Poll::Ready(());
            }
            self.crowd.add(context);
            Poll::Pending
        })
        .await;
    }
}

impl BlockDisk for Disk {
    fn block_bytes(&self) -> u32 {
        self.limits.block_bytes
    }

    fn blocks(&self) -> u64 {
        self.sectors.checked_div(self.block_sectors()).unwrap_or(0)
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn forces_writes(&self) -> bool {
        // Virtio has no such request. A disk that offers no FLUSH has written what it has answered.
        false
    }

    async fn transfer(
        &self,
        transfer: Transfer,
        block: u64,
        count: u32,
        memory: &[DmaSegment],
        skip: u64,
    ) -> Result<(), CallError> {
        self.transfer_runs(transfer, &[BlockRun { block, count }], memory, skip).await
    }

    async fn transfer_runs(
        &self,
        transfer: Transfer,
        runs: &[BlockRun],
        memory: &[DmaSegment],
        skip: u64,
    ) -> Result<(), CallError> {
        let command = if transfer == Transfer::Read { Command::Read } else { Command::Write };
        let mut requests = Vec::with_capacity(runs.len());
        let mut at = skip;
        for run in runs {
            let mut sector = self.block_sectors().saturating_mul(run.block);
            let end = at.saturating_add(u64::from(run.count).saturating_mul(self.limits.block_bytes.into()));
            while at < end {
                let stretches = memory.iter().map(|segment| (segment.address, segment.bytes));
                let pieces = self.limits.cut(stretches, at, end.saturating_sub(at));
                if pieces.is_empty() {
                    return Err(CallError::failed("a request to the disk carries less than one of its blocks"));
                }
                let bytes = total(&pieces);
                requests.push(Request { sector, pieces });
                sector = sector.saturating_add(bytes / u64::from(SECTOR));
                at = at.saturating_add(bytes);
            }
        }
        self.request(command, &requests).await
    }

    async fn flush(&self) -> Result<(), CallError> {
        // A device flushes what it has answered.
        self.settled().await;
        let flush = Request { sector: 0, pieces: Vec::new() };
        if self.flushable { self.request(Command::Flush, &[flush]).await } else { Ok(()) }
    }
}

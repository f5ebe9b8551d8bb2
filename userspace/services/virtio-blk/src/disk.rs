//! The disk behind the transport: requests out, answers in.

use crate::queue::{self, Queue};
use crate::transport::MessageTransport;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use capos_virtio::{Limits, Offer, Refusal};
use core::ptr::NonNull;
use virtio_drivers::Error;
use virtio_drivers::transport::Transport;

/// The only queue of a disk.
const REQUESTS: u16 = 0;
/// Bytes of one request's head (16) and status (1), each slot on its own cache line.
const SLOT: usize = 64;
/// Requests in flight at most.
pub const SLOTS: usize = 32;
/// Memory that the slots need, in bytes.
pub const SLOT_BYTES: usize = SLOT * SLOTS;

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

/// Places in the device's configuration (virtio 1.2, section 5.2.4).
const CAPACITY: usize = 0;
const SIZE_MAX: usize = 8;
const SEG_MAX: usize = 12;
const BLK_SIZE: usize = 20;

/// What a request does; the number is the device's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Command {
    /// Device to memory.
    Read = 0,
    /// Memory to device.
    Write = 1,
    /// Make what was written durable.
    Flush = 4,
}

/// A piece of mapped, device-reachable memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Address in this process.
    pub address: usize,
    /// Length in bytes, never 0.
    pub bytes: usize,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done.
    Done,
    /// The device reports an error of the medium.
    MediumError,
    /// The device does not know the command.
    Unsupported,
    /// The device broke the protocol.
    Broken,
}

struct InFlight {
    number: u64,
    slot: usize,
    command: Command,
    segments: Vec<Segment>,
}

/// A virtio disk.
pub struct Disk {
    transport: MessageTransport,
    queue: Box<dyn Queue>,
    limits: Limits,
    slots: NonNull<u8>,
    free: Vec<usize>,
    /// By the queue's token, which a new request may get as soon as an old one was reaped.
    in_flight: BTreeMap<u16, InFlight>,
    /// Number of the next request; never used twice.
    next: u64,
    sectors: u64,
    read_only: bool,
    flushable: bool,
}

/// Why the device cannot be used.
pub enum StartError {
    /// It has no modern interface.
    NotModern,
    /// The library refused it.
    Library(Error),
    /// What it can do is not enough.
    Refused(Refusal),
    /// It does not take our interrupt.
    NoInterrupt,
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotModern => f.write_str("it offers only the interface from before virtio 1.0"),
            Self::Library(error) => write!(f, "{error}"),
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::NoInterrupt => f.write_str("it does not take a message-signalled interrupt for its queue"),
        }
    }
}

impl Disk {
    /// Starts the device.
    ///
    /// # Safety
    /// `slots` must be [`SLOT_BYTES`] of zeroed memory, reachable by the device and used by nothing else.
    pub unsafe fn start(mut transport: MessageTransport, slots: NonNull<u8>) -> Result<Self, StartError> {
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
        let queue = queue::make(&mut transport, REQUESTS, limits.queue).map_err(StartError::Library)?;
        if !transport.vector_taken(REQUESTS) {
            return Err(StartError::NoInterrupt);
        }
        transport.finish_init();
        Ok(Self {
            transport,
            queue,
            limits,
            slots,
            free: (0..SLOTS).rev().collect(),
            in_flight: BTreeMap::new(),
            next: 0,
            sectors: u64::from(low) | (u64::from(high) << 32),
            read_only: features.contains(Features::READ_ONLY),
            flushable: features.contains(Features::FLUSH),
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

    /// Whether it refuses writes.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether it knows [`Command::Flush`].
    pub fn flushable(&self) -> bool {
        self.flushable
    }

    /// Whether a request of so many segments fits now.
    pub fn has_room(&self, segments: usize) -> bool {
        !self.free.is_empty() && self.queue.free() >= segments.saturating_add(2)
    }

    fn slot(&self, slot: usize) -> NonNull<u8> {
        // SAFETY: slots are numbered below SLOTS, so the result lies in the SLOT_BYTES given to `start`.
        unsafe { self.slots.add(slot.min(SLOTS - 1) * SLOT) }
    }

    /// Sends a request; its number comes back from [`Disk::reap`].
    ///
    /// # Safety
    /// The segments must stay mapped, reachable and untouched until then.
    pub unsafe fn send(&mut self, command: Command, sector: u64, segments: Vec<Segment>) -> Result<u64, Error> {
        let slot = self.free.pop().ok_or(Error::QueueFull)?;
        let head = self.slot(slot);
        // SAFETY: the slot is free, so neither the device nor another request uses it; it is 64-byte aligned.
        unsafe {
            head.cast::<u32>().write(command as u32);
            head.cast::<u32>().add(1).write(0);
            head.cast::<u64>().add(1).write(sector);
            head.add(16).write(0xff);
        }
        // SAFETY: the caller keeps the segments; the slot is ours.
        let added =
            unsafe { with_buffers(head, command, &segments, |inputs, outputs| self.queue.add(inputs, outputs)) };
        match added {
            Ok(token) => {
                let number = self.next;
                self.next = number.wrapping_add(1);
                self.in_flight.insert(token, InFlight { number, slot, command, segments });
                if self.queue.wants_notice() {
                    self.transport.notify(REQUESTS);
                }
                Ok(number)
            }
            Err(error) => {
                self.free.push(slot);
                Err(error)
            }
        }
    }

    /// Takes the answers that have come.
    pub fn reap(&mut self) -> Vec<(u64, Answer)> {
        let mut answers = Vec::new();
        let _cause = self.transport.ack_interrupt();
        while let Some(token) = self.queue.answered() {
            let Some(request) = self.in_flight.remove(&token) else {
                // The device names a request that is not in flight: it cannot be trusted with any further one.
                let lost = core::mem::take(&mut self.in_flight);
                answers.extend(lost.into_values().map(|request| (request.number, Answer::Broken)));
                break;
            };
            let head = self.slot(request.slot);
            // SAFETY: these are the buffers that `send` added under this token.
            let popped = unsafe {
                with_buffers(head, request.command, &request.segments, |inputs, outputs| {
                    self.queue.take(token, inputs, outputs)
                })
            };
            // SAFETY: the request has ended, so the slot is ours again.
            let status = unsafe { head.add(16).read_volatile() };
            self.free.push(request.slot);
            answers.push((
                request.number,
                match (popped, status) {
                    (Ok(_), 0) => Answer::Done,
                    (Ok(_), 1) => Answer::MediumError,
                    (Ok(_), 2) => Answer::Unsupported,
                    _ => Answer::Broken,
                },
            ));
        }
        answers
    }
}

/// Calls with the buffers of a request, in the order that the device wants: head, data, status.
///
/// # Safety
/// `head` must be a slot and the segments mapped, and none of it used otherwise during the call.
unsafe fn with_buffers<R>(
    head: NonNull<u8>,
    command: Command,
    segments: &[Segment],
    call: impl for<'a> FnOnce(&'a [&'a [u8]], &'a mut [&'a mut [u8]]) -> R,
) -> R {
    let pointer = |segment: &Segment| core::ptr::with_exposed_provenance_mut::<u8>(segment.address);
    let mut inputs: Vec<&[u8]> = Vec::with_capacity(segments.len().saturating_add(1));
    let mut outputs: Vec<&mut [u8]> = Vec::with_capacity(segments.len().saturating_add(1));
    // SAFETY: the head is 16 bytes of the slot, apart from the status byte.
    inputs.push(unsafe { core::slice::from_raw_parts(head.as_ptr(), 16) });
    for segment in segments {
        // SAFETY: the caller promises mapped segments that nothing else uses; they do not overlap.
        unsafe {
            match command {
                Command::Write => inputs.push(core::slice::from_raw_parts(pointer(segment), segment.bytes)),
                _ => outputs.push(core::slice::from_raw_parts_mut(pointer(segment), segment.bytes)),
            }
        }
    }
    // SAFETY: the status byte follows the head in the slot.
    outputs.push(unsafe { core::slice::from_raw_parts_mut(head.as_ptr().add(16), 1) });
    call(&inputs, &mut outputs)
}

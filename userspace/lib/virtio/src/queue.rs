//! The queue of requests of a virtio disk (virtio 1.2, sections 2.7 and 5.2.6).
//!
//! The device writes only the used ring and each request's status. All else is written here and never read back, so no
//! value of the device's is an address, an index or a length before it was checked.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{Ordering, fence};

use crate::{ENDS, MAX_QUEUE, Piece};

/// Bytes of the memory that a queue needs: its rings in the first page, the ends of its requests in the second.
pub const QUEUE_BYTES: u64 = 8192;

/// Where the parts of a queue of [`MAX_QUEUE`] descriptors lie in that memory, whatever its length.
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = DESCRIPTORS + 16 * MAX_QUEUE as u64;
const USED: u64 = AVAILABLE + 512;
const REQUESTS: u64 = 4096;
// A ring has two words of 16 bits before its entries and one behind them.
const _: () = assert!(AVAILABLE + 6 + 2 * MAX_QUEUE as u64 <= USED && USED + 6 + 8 * MAX_QUEUE as u64 <= REQUESTS);
/// Bytes of a request's head and status, which lie at the number of its first descriptor.
const REQUEST: u64 = 32;
const HEAD: u64 = 16;

/// Flags of a descriptor: another one follows; the device writes to it.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Flag of the used ring: the device does not want to be told of new requests.
const NO_NOTICE: u32 = 1;
/// A status that no device reports.
const NO_STATUS: u8 = 0xff;

/// Zeroed memory that the device reaches, used by nothing else. Places are counted in bytes from its beginning.
pub trait Memory {
    /// Reads a word of 32 bits in one access, at a multiple of 4.
    fn read_word(&self, at: u64) -> u32;

    /// Writes one in one access.
    fn write_word(&self, at: u64, word: u32);

    /// Writes bytes, in any number of accesses.
    fn write(&self, at: u64, bytes: &[u8]);
}

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

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done.
    Done,
    /// The device reports an error of the medium.
    MediumError,
    /// The device does not know the command.
    Unsupported,
}

/// How the device broke the protocol. Which memory it still uses is not known then, so nothing of it may be used otherwise
/// until the device was reset or kept from memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    /// Its used ring has more new entries than there are requests in flight.
    Entries { new: u16, in_flight: usize },
    /// An entry names a request that is not in flight.
    Request(u32),
    /// An entry says that more bytes were written than the request has room for.
    Length { written: u32, room: u32 },
    /// A request ended with this status, which the protocol does not have.
    Status(u8),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries { new, in_flight } => {
                write!(f, "its used ring has {new} new entries, and {in_flight} requests are in flight")
            }
            Self::Request(id) => write!(f, "its used ring names request {id}, which is not in flight"),
            Self::Length { written, room } => {
                write!(f, "it reports {written} bytes written to a request with room for {room}")
            }
            Self::Status(status) => write!(f, "it ended a request with the unknown status {status:#04x}"),
        }
    }
}

#[derive(Debug)]
struct InFlight {
    number: u64,
    /// Its descriptors, in order.
    chain: Vec<u16>,
    /// Bytes that the device may write.
    room: u32,
}

/// A queue of requests.
#[derive(Debug)]
pub struct Queue<M> {
    memory: M,
    /// Where the device finds the memory.
    base: u64,
    free: Vec<u16>,
    /// By the number of the first descriptor.
    in_flight: BTreeMap<u16, InFlight>,
    length: u16,
    /// Requests that were ever sent and taken back, as the rings count them.
    sent: u16,
    taken: u16,
    /// Number of the next request; never used twice.
    next: u64,
}

impl<M: Memory> Queue<M> {
    /// A queue of this many descriptors, a power of two of at most [`MAX_QUEUE`], in [`QUEUE_BYTES`] of memory that the device
    /// finds at `base`.
    pub fn new(memory: M, base: u64, descriptors: u16) -> Self {
        let length = descriptors.clamp(1, MAX_QUEUE);
        let free = (0..length).rev().collect();
        Self { memory, base, free, in_flight: BTreeMap::new(), length, sent: 0, taken: 0, next: 0 }
    }

    /// Where the device finds the descriptors, the available ring and the used ring.
    pub fn addresses(&self) -> [u64; 3] {
        [DESCRIPTORS, AVAILABLE, USED].map(|place| self.base.saturating_add(place))
    }

    /// Whether a request of this many pieces fits now.
    pub fn has_room(&self, pieces: usize) -> bool {
        self.free.len() >= pieces.saturating_add(ENDS.into())
    }

    /// Whether the device wants to be told of what was sent.
    pub fn wants_notice(&self) -> bool {
        fence(Ordering::SeqCst);
        self.memory.read_word(USED) & NO_NOTICE == 0
    }

    /// Sends a request for memory at the device's addresses; its number comes back from [`Self::take`]. `None` if there is no
    /// room for it, or a piece has more bytes than a descriptor can say.
    pub fn send(&mut self, command: Command, sector: u64, pieces: &[Piece]) -> Option<u64> {
        let direction = if command == Command::Read { WRITE } else { 0 };
        let mut buffers = Vec::with_capacity(pieces.len().saturating_add(ENDS.into()));
        buffers.push((0, u32::try_from(HEAD).ok()?, 0));
        let mut room = 1_u32;
        for (address, bytes) in pieces {
            let bytes = u32::try_from(*bytes).ok()?;
            buffers.push((*address, bytes, direction));
            room = if direction == WRITE { room.saturating_add(bytes) } else { room };
        }
        buffers.push((0, 1, WRITE));
        let chain = self.free.split_off(self.free.len().checked_sub(buffers.len())?);
        let first = *chain.first()?;
        // The ends lie in the queue's own memory.
        let place = request(first);
        let address = self.base.saturating_add(place);
        if let [head, .., status] = buffers.as_mut_slice() {
            head.0 = address;
            status.0 = address.saturating_add(HEAD);
        }
        let head = u128::from(command as u32) | (u128::from(sector) << 64);
        self.memory.write(place, &head.to_le_bytes());
        self.memory.write(place.saturating_add(HEAD), &[NO_STATUS]);
        let followers = chain.iter().skip(1).map(Some).chain([None]);
        for ((descriptor, (address, bytes, flags)), next) in chain.iter().zip(&buffers).zip(followers) {
            let flags = if next.is_some() { flags | NEXT } else { *flags };
            let links = (u128::from(flags) << 96) | (u128::from(next.copied().unwrap_or(0)) << 112);
            let entry = u128::from(*address) | (u128::from(*bytes) << 64) | links;
            let place = DESCRIPTORS.saturating_add(u64::from(*descriptor).saturating_mul(16));
            self.memory.write(place, &entry.to_le_bytes());
        }
        let slot = u64::from(self.slot(self.sent));
        self.memory.write(AVAILABLE.saturating_add(4).saturating_add(slot.saturating_mul(2)), &first.to_le_bytes());
        // The device sees the request before it sees that there is one.
        fence(Ordering::SeqCst);
        self.sent = self.sent.wrapping_add(1);
        self.memory.write_word(AVAILABLE, u32::from(self.sent).wrapping_shl(16));
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.in_flight.insert(first, InFlight { number, chain, room });
        Some(number)
    }

    /// Takes the next request that was answered, with its number.
    ///
    /// # Errors
    /// The device broke the protocol. The queue must not be used again.
    pub fn take(&mut self) -> Result<Option<(u64, Answer)>, ProtocolError> {
        let index = halves(self.memory.read_word(USED))[1];
        let new = index.wrapping_sub(self.taken);
        if new == 0 {
            return Ok(None);
        }
        if usize::from(new) > self.in_flight.len() {
            return Err(ProtocolError::Entries { new, in_flight: self.in_flight.len() });
        }
        // What the entry says is read after it was seen that there is one.
        fence(Ordering::Acquire);
        let slot = u64::from(self.slot(self.taken));
        let entry = USED.saturating_add(4).saturating_add(slot.saturating_mul(8));
        let (id, written) = (self.memory.read_word(entry), self.memory.read_word(entry.saturating_add(4)));
        let first = u16::try_from(id).ok().filter(|first| self.in_flight.contains_key(first));
        let first = first.ok_or(ProtocolError::Request(id))?;
        let room = self.in_flight.get(&first).map_or(0, |request| request.room);
        // Fewer bytes than there is room for are no error: some hosts, such as bhyve, say 1 for every request.
        if written > room {
            return Err(ProtocolError::Length { written, room });
        }
        let [status, ..] = self.memory.read_word(request(first).saturating_add(HEAD)).to_le_bytes();
        let answer = match status {
            0 => Answer::Done,
            1 => Answer::MediumError,
            2 => Answer::Unsupported,
            _ => return Err(ProtocolError::Status(status)),
        };
        let ended = self.in_flight.remove(&first).ok_or(ProtocolError::Request(id))?;
        self.free.extend(ended.chain);
        self.taken = self.taken.wrapping_add(1);
        Ok(Some((ended.number, answer)))
    }

    /// The place in a ring of the entry with this count.
    fn slot(&self, count: u16) -> u16 {
        count.checked_rem(self.length).unwrap_or(0)
    }
}

/// Where the ends of a request lie that begins with this descriptor.
fn request(first: u16) -> u64 {
    REQUESTS.saturating_add(u64::from(first).saturating_mul(REQUEST))
}

/// The lower and the upper half of a word.
fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}

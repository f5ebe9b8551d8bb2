//! What a driver of virtio disks agrees on with its device, how it cuts requests to that, and the queue that they go through.
//!
//! Every number here is the device's where it says one; the driver's own are upper bounds.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod queue;

use alloc::vec::Vec;
use core::fmt;

pub use queue::{Answer, Command, Memory, ProtocolError, QUEUE_BYTES, Queue};

/// Bytes of a sector, in which the device counts whatever its blocks are.
pub const SECTOR: u32 = 512;
/// Descriptors of the queue at most.
pub const MAX_QUEUE: u16 = 128;
/// Pieces of memory of one request at most.
pub const MAX_PIECES: u16 = 64;
/// Descriptors of a request besides those of its memory: its head and its status.
const ENDS: u16 = 2;
/// Bytes of a block at most: a page.
const MAX_BLOCK: u32 = 4096;

/// What a device says of itself (virtio 1.2, section 5.2.4). `None` where it does not offer the feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offer {
    /// Descriptors of its queue at most.
    pub queue: u32,
    /// Pieces of memory of one request at most.
    pub pieces: Option<u32>,
    /// Bytes of one piece at most.
    pub piece_bytes: Option<u32>,
    /// Bytes of a block, the least that it reads or writes.
    pub block_bytes: Option<u32>,
}

/// Why a device cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its queue is too short for a request.
    Queue(u32),
    /// Its blocks are of a size that is not supported.
    Block(u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(found) => write!(f, "its queue has {found} descriptors, and a request takes three at least"),
            Self::Block(found) => {
                write!(f, "its blocks have {found} bytes; a power of two from {SECTOR} to {MAX_BLOCK} is supported")
            }
        }
    }
}

/// What was agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Descriptors of the queue, a power of two.
    pub queue: u16,
    /// Pieces of memory of one request at most.
    pub pieces: u16,
    /// Bytes of one piece at most.
    pub piece_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// A piece of memory: where the device finds it, and its bytes.
pub type Piece = (u64, u64);

impl Limits {
    /// The largest numbers that both sides can do with. A number of zero says nothing.
    ///
    /// # Errors
    /// There are none.
    pub fn agree(offer: &Offer) -> Result<Self, Refusal> {
        let most = u16::try_from(offer.queue).unwrap_or(u16::MAX).min(MAX_QUEUE);
        // The queue of a device is a power of two, and a driver may make it shorter.
        let queue = most.checked_ilog2().map_or(0, |log| 1_u16.checked_shl(log).unwrap_or(0));
        let room = queue.checked_sub(ENDS).filter(|room| *room > 0).ok_or(Refusal::Queue(offer.queue))?;
        let said = |number: Option<u32>| number.filter(|number| *number > 0).unwrap_or(u32::MAX);
        let block_bytes = offer.block_bytes.unwrap_or(SECTOR);
        if !block_bytes.is_power_of_two() || !(SECTOR..=MAX_BLOCK).contains(&block_bytes) {
            return Err(Refusal::Block(block_bytes));
        }
        Ok(Self {
            queue,
            pieces: u16::try_from(said(offer.pieces)).unwrap_or(u16::MAX).min(room).min(MAX_PIECES),
            piece_bytes: said(offer.piece_bytes).into(),
            block_bytes,
        })
    }

    /// The next request: the pieces of memory of as many whole blocks as one request can carry, of `bytes` that begin at
    /// `skip` in the memory of consecutive `stretches`. Empty where not even one block fits.
    pub fn cut(&self, stretches: impl IntoIterator<Item = Piece>, skip: u64, bytes: u64) -> Vec<Piece> {
        let end = skip.saturating_add(bytes);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut begin = 0_u64;
        for (address, stretch) in stretches {
            let stretch_end = begin.saturating_add(stretch);
            let mut at = begin.max(skip);
            while at < stretch_end.min(end) && pieces.len() < usize::from(self.pieces) {
                let taken = stretch_end.min(end).saturating_sub(at).min(self.piece_bytes);
                pieces.push((address.saturating_add(at.saturating_sub(begin)), taken));
                at = at.saturating_add(taken);
            }
            begin = stretch_end;
        }
        // What is left behind the last whole block is taken off again.
        let mut over = total(&pieces).checked_rem(self.block_bytes.into()).unwrap_or(0);
        while let Some((_, last)) = pieces.last_mut().filter(|_| over > 0) {
            let taken = over.min(*last);
            *last = last.saturating_sub(taken);
            over = over.saturating_sub(taken);
            if *last == 0 {
                pieces.pop();
            }
        }
        pieces
    }
}

/// Bytes of a request's memory.
pub fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

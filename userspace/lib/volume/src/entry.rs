//! Entries of the tree: where a block's newest version is, and what proves it.

use alloc::boxed::Box;

use crate::cipher::{NONCE, TAG};
use crate::disk::BLOCK;
use crate::error::Error;

/// Bytes of an entry.
pub const ENTRY: usize = 32;
/// Entries of a node.
pub const FANOUT: u64 = 128;
/// Blocks that one mount may seal. Mounts begin at random sequence numbers, and ranges of this length hardly ever meet.
const MOST_SEALS: u64 = 1 << 48;

/// What an entry says about its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The block was never written and reads as zeros.
    Empty,
    /// The block lies in the slot of this number, 0 or 1.
    Stored,
    /// The block reads as zeros. The next write in the same epoch goes to the slot.
    Discarded,
}

/// An entry of a node; the root's stands in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub state: State,
    pub slot: u8,
    pub stamp: Stamp,
    pub tag: [u8; TAG],
}

/// The nonce of a seal: no two seals of a volume have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub mount: u32,
    pub sequence: u64,
}

impl Stamp {
    pub fn nonce(self) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        put(&mut nonce, 0, &self.mount.to_le_bytes());
        put(&mut nonce, 4, &self.sequence.to_le_bytes());
        nonce
    }
}

/// Copies `bytes` to `at`, as far as there is room.
#[inline]
pub fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    let room = into.get_mut(at..).unwrap_or_default();
    let length = room.len().min(bytes.len());
    if let (Some(to), Some(from)) = (room.get_mut(..length), bytes.get(..length)) {
        to.copy_from_slice(from);
    }
}

/// The `N` bytes at `at`; zeros beyond the end.
#[inline]
pub fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut taken = [0; N];
    put(&mut taken, 0, bytes.get(at..).unwrap_or_default());
    taken
}

impl Entry {
    /// A block that was never written. Its first write goes to slot 0.
    pub const EMPTY: Self =
        Self { state: State::Empty, slot: 1, stamp: Stamp { mount: 0, sequence: 0 }, tag: [0; TAG] };

    pub fn encode(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        put(&mut bytes, 0, &self.stamp.nonce());
        put(&mut bytes, 12, &self.tag);
        let state: u32 = match (self.state, self.slot) {
            (State::Empty, _) => 0,
            (State::Stored, 0) => 1,
            (State::Stored, _) => 2,
            (State::Discarded, 0) => 3,
            (State::Discarded, _) => 4,
        };
        put(&mut bytes, 28, &state.to_le_bytes());
        bytes
    }

    /// The entry of these bytes; `None` if no version of the format writes them.
    pub fn decode(bytes: &[u8; ENTRY]) -> Option<Self> {
        let (state, slot) = match u32::from_le_bytes(take(bytes, 28)) {
            0 if bytes.iter().all(|byte| *byte == 0) => return Some(Self::EMPTY),
            1 => (State::Stored, 0),
            2 => (State::Stored, 1),
            3 => (State::Discarded, 0),
            4 => (State::Discarded, 1),
            _ => return None,
        };
        let stamp = Stamp { mount: u32::from_le_bytes(take(bytes, 0)), sequence: u64::from_le_bytes(take(bytes, 4)) };
        Some(Self { state, slot, stamp, tag: take(bytes, 12) })
    }
}

/// The source of stamps, and the memory of which ones belong to the epoch in progress.
pub struct Pen {
    mount: u32,
    /// The first sequence number of the epoch in progress.
    first: u64,
    next: u64,
    left: u64,
}

impl Pen {
    pub fn new(mount: u32, start: u64) -> Self {
        Self { mount, first: start, next: start, left: MOST_SEALS }
    }

    /// A stamp that was never used.
    pub fn stamp(&mut self) -> Result<Stamp, Error> {
        self.left = self.left.checked_sub(1).ok_or(Error::Exhausted)?;
        let stamp = Stamp { mount: self.mount, sequence: self.next };
        self.next = self.next.wrapping_add(1);
        Ok(stamp)
    }

    /// The slot that the next version of a block goes to: never the one that the last durable state refers to.
    pub fn free_slot(&self, entry: &Entry) -> u8 {
        let of_this_epoch = entry.stamp.mount == self.mount
            && entry.stamp.sequence.wrapping_sub(self.first) < self.next.wrapping_sub(self.first);
        if of_this_epoch && entry.state != State::Empty { entry.slot } else { entry.slot ^ 1 }
    }

    pub fn end_epoch(&mut self) {
        self.first = self.next;
    }
}

/// A node of the tree.
#[derive(Clone)]
pub struct Node(pub Box<[u8]>);

impl Node {
    pub fn empty() -> Self {
        Self(alloc::vec![0; BLOCK].into_boxed_slice())
    }

    /// The entry of a child; `None` if its bytes are malformed.
    pub fn entry(&self, child: u64) -> Option<Entry> {
        let at = usize::try_from(child).ok()?.checked_mul(ENTRY)?;
        Entry::decode(self.0.get(at..)?.first_chunk()?)
    }

    pub fn set(&mut self, child: u64, entry: &Entry) {
        let at = usize::try_from(child).unwrap_or(usize::MAX).saturating_mul(ENTRY);
        put(&mut self.0, at, &entry.encode());
    }
}

//! The header: geometry, epoch, root of the tree, key slots.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use hmac::Mac;
use sha2::{Digest, Sha256};

use crate::cipher::CipherKind;
use crate::disk::BLOCK;
use crate::entry::{ENTRY, Entry, put, take};
use crate::layout::Geometry;
use crate::secret::mac;
use crate::slot::{KeySlot, SLOT, SLOTS};

/// The version of the format that this crate reads and writes.
pub const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"CAPOSVOL";
const SLOTS_AT: usize = 512;
const MAC_AT: usize = BLOCK - 64;
const CHECKSUM_AT: usize = BLOCK - 32;

/// What a header says. Until a key is known it is only what the disk claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub cipher: CipherKind,
    pub uuid: [u8; 16],
    /// Grows by one with each header.
    pub epoch: u64,
    pub geometry: Geometry,
    /// How often the volume was opened for writing.
    pub mount: u32,
    pub(crate) root: Entry,
    pub(crate) slots: [Option<KeySlot>; SLOTS],
}

/// Why a block is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// It does not begin with the volume's mark.
    NoMark,
    /// Its checksum is wrong.
    Damaged,
    /// It is whole, and of another version.
    Version { found: u32 },
    /// It is whole, and a field has a value that no capOS writes.
    Malformed,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMark => f.write_str("the block is no volume header"),
            Self::Damaged => f.write_str("the volume header is damaged"),
            Self::Version { found } => write!(f, "the volume header has format {found}"),
            Self::Malformed => f.write_str("the volume header has a field of no known value"),
        }
    }
}

impl Header {
    /// Parses a header block.
    ///
    /// # Errors
    /// The block is no header of this version.
    pub fn parse(block: &[u8]) -> Result<Self, HeaderFault> {
        let Some(block) = block.first_chunk::<BLOCK>().filter(|block| block.starts_with(MAGIC)) else {
            return Err(HeaderFault::NoMark);
        };
        if Sha256::digest(block.get(..CHECKSUM_AT).unwrap_or_default())[..] != take::<32>(block, CHECKSUM_AT) {
            return Err(HeaderFault::Damaged);
        }
        let version = u32::from_le_bytes(take(block, 8));
        if version != VERSION {
            return Err(HeaderFault::Version { found: version });
        }
        Self::fields(block).filter(|header| header.body()[..] == block[..MAC_AT]).ok_or(HeaderFault::Malformed)
    }

    fn fields(block: &[u8; BLOCK]) -> Option<Self> {
        let mut slots = [const { None }; SLOTS];
        for (slot, bytes) in slots.iter_mut().zip(block.get(SLOTS_AT..)?.as_chunks::<SLOT>().0) {
            *slot = KeySlot::decode(bytes).ok()?;
        }
        let number = |at| u64::from_le_bytes(take(block, at));
        Some(Self {
            cipher: CipherKind::from_number(u32::from_le_bytes(take(block, 12)))?,
            uuid: take(block, 16),
            epoch: number(32),
            geometry: Geometry::new(number(40), number(48))?,
            mount: u32::from_le_bytes(take(block, 56)),
            root: Entry::decode(&take::<ENTRY>(block, 64))?,
            slots,
        })
    }

    /// The bytes before the two checks.
    fn body(&self) -> Box<[u8]> {
        let mut body = vec![0; MAC_AT].into_boxed_slice();
        put(&mut body, 0, MAGIC);
        put(&mut body, 8, &VERSION.to_le_bytes());
        put(&mut body, 12, &(self.cipher as u32).to_le_bytes());
        put(&mut body, 16, &self.uuid);
        put(&mut body, 32, &self.epoch.to_le_bytes());
        put(&mut body, 40, &self.geometry.physical().to_le_bytes());
        put(&mut body, 48, &self.geometry.blocks().to_le_bytes());
        put(&mut body, 56, &self.mount.to_le_bytes());
        put(&mut body, 64, &self.root.encode());
        let places = body.get_mut(SLOTS_AT..).unwrap_or_default().as_chunks_mut::<SLOT>().0;
        for (place, slot) in places.iter_mut().zip(&self.slots) {
            if let Some(slot) = slot {
                *place = slot.encode();
            }
        }
        body
    }

    /// The header's block, authenticated by `key`.
    pub(crate) fn encode(&self, key: &[u8]) -> Box<[u8]> {
        let mut block = vec![0; BLOCK].into_boxed_slice();
        let body = self.body();
        put(&mut block, 0, &body);
        put(&mut block, MAC_AT, &mac(key, &[&body]).finalize().into_bytes());
        let checksum = Sha256::digest(block.get(..CHECKSUM_AT).unwrap_or_default());
        put(&mut block, CHECKSUM_AT, &checksum);
        block
    }

    /// True if a block was written with `key`.
    pub(crate) fn is_authentic(block: &[u8], key: &[u8]) -> bool {
        let body = block.get(..MAC_AT).unwrap_or_default();
        mac(key, &[body]).verify_slice(&take::<32>(block, MAC_AT)).is_ok()
    }

    /// A digest of the state that the header stands for: the volume, the epoch, and the root of the tree.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(b"capos-volume head");
        digest.update(self.uuid);
        digest.update(self.epoch.to_le_bytes());
        digest.update(self.root.encode());
        digest.finalize().into()
    }
}

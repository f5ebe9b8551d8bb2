//! Creating a volume, and opening one.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use crate::Random;
use crate::attempts::COUNTERS;
use crate::cipher::CipherKind;
use crate::disk::{BLOCK, Disk};
use crate::entry::Entry;
use crate::error::{Error, Operation};
use crate::header::{Header, HeaderFault};
use crate::keys::erase_headers;
use crate::layout::Geometry;
use crate::secret::{Cost, KEY, Secret};
use crate::slot::{KeySlot, SLOTS, SlotSecret};
use crate::volume::{Keys, Volume};

/// What a volume is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing on the disk changes.
    Read,
    /// The opening writes a header first.
    Write,
}

/// How a volume is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub access: Access,
    /// Nodes of the tree that stay in memory, of 4 KiB each. A node covers 128 blocks.
    pub cache_nodes: usize,
}

/// What a new volume is like.
#[derive(Clone, Copy, Debug)]
pub struct Format<'a> {
    pub cipher: CipherKind,
    /// The cost of the first slot's passphrase.
    pub cost: Cost,
    /// The label of the first slot.
    pub label: &'a str,
    pub cache_nodes: usize,
}

/// A volume key that a secret has unwrapped, or that was kept.
pub struct Key {
    key: Zeroizing<[u8; KEY]>,
    slot: Option<usize>,
    own: Option<SlotSecret>,
}

impl Key {
    /// The volume key, for [`Locked::resume`]. Its holder can read and change the volume.
    pub fn bytes(&self) -> Zeroizing<[u8; KEY]> {
        self.key.clone()
    }

    /// What else the secret gives; nothing of a key that was kept.
    pub fn own(&self) -> Option<&SlotSecret> {
        self.own.as_ref()
    }

    /// The number of the slot that the secret opened; none of a key that was kept.
    pub fn slot(&self) -> Option<usize> {
        self.slot
    }
}

/// A whole header as the disk holds it.
struct Candidate {
    header: Header,
    block: Box<[u8]>,
}

/// A volume whose key is not known yet.
pub struct Locked<D> {
    disk: D,
    /// The different headers on the disk, the newest first.
    candidates: Vec<Candidate>,
    /// Disk blocks of header copies that are not whole.
    damaged: Vec<u64>,
}

impl<D: Disk> Locked<D> {
    /// Reads the headers of a disk. Give `&mut disk` to keep the disk if it holds no volume.
    ///
    /// # Errors
    /// The disk holds no volume, one of another version, or no whole header; or no header can be read.
    pub fn read(mut disk: D) -> Result<Self, Error> {
        let blocks = disk.blocks();
        if blocks < Geometry::LEAST.saturating_add(COUNTERS) {
            return Err(Error::NotAVolume);
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut damaged = Vec::new();
        let mut worst = Error::NotAVolume;
        for (copy, place) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            // The disk may have grown since: the second copies are where the first ones say.
            let alone = blocks.saturating_sub(COUNTERS);
            let end = candidates.first().map_or(alone, |known| known.header.geometry.physical());
            let number = Geometry::header(end, place, copy);
            let mut block = vec![0; BLOCK].into_boxed_slice();
            let fault = match disk.read(number, &mut block) {
                Err(error) => Some(Error::Disk { operation: Operation::Read, block: number, error }),
                Ok(()) => match Header::parse(&block) {
                    Ok(header) => {
                        if candidates.iter().all(|known| known.block != block) {
                            candidates.push(Candidate { header, block });
                        }
                        continue;
                    }
                    Err(HeaderFault::Version { found }) => Some(Error::Version { found }),
                    Err(HeaderFault::Damaged | HeaderFault::Malformed) => Some(Error::DamagedHeader),
                    Err(HeaderFault::NoMark) => None,
                },
            };
            damaged.push(number);
            // A version says more than damage, and damage more than nothing.
            match (fault, worst) {
                (Some(fault @ Error::Version { .. }), _) | (Some(fault), Error::NotAVolume) => worst = fault,
                _ => {}
            }
        }
        candidates.sort_by_key(|candidate| core::cmp::Reverse(candidate.header.epoch));
        let first = candidates.first().ok_or(worst)?;
        let needed = first.header.geometry.physical().saturating_add(COUNTERS);
        if needed > blocks {
            return Err(Error::Shrunk { blocks, needed });
        }
        Ok(Self { disk, candidates, damaged })
    }

    /// The newest header, not authenticated: what the disk claims.
    pub fn header(&self) -> Option<&Header> {
        self.candidates.first().map(|candidate| &candidate.header)
    }

    /// Disk blocks of header copies that are not whole. A crash may leave some; a bad sector too.
    pub fn damaged_headers(&self) -> &[u64] {
        &self.damaged
    }

    /// Unwraps the volume key. `slot` is the slot to try, or all of the secret's kind if `None`.
    /// A passphrase's slot takes at most `memory` bytes; [`header`](Self::header) tells before how much it takes.
    ///
    /// # Errors
    /// No slot accepts the secret, or only slots are left that need more memory, or the headers were changed.
    pub fn unlock(&self, secret: &Secret<'_>, slot: Option<usize>, memory: u64) -> Result<Key, Error> {
        let mut tried: Vec<(usize, &KeySlot)> = Vec::new();
        let mut outcome = Error::WrongKey;
        for Candidate { header, .. } in &self.candidates {
            for (number, used) in header.slots.iter().enumerate() {
                let Some(used) = used.as_ref().filter(|_| slot.is_none_or(|slot| slot == number)) else {
                    continue;
                };
                if tried.contains(&(number, used)) {
                    continue;
                }
                tried.push((number, used));
                let (key, own) = match used.unwrap_key(&header.uuid, secret, memory) {
                    Ok(Some(found)) => found,
                    Ok(None) => continue,
                    Err(error) => {
                        outcome = error;
                        continue;
                    }
                };
                // The slot must be in the newest header: an older one may hold a slot that was removed since.
                match self.newest(&key) {
                    Some(newest) if newest.header.slots.get(number) == Some(&Some(used.clone())) => {
                        return Ok(Key { key, slot: Some(number), own: Some(own) });
                    }
                    Some(_) => {}
                    None => outcome = Error::AlteredHeader,
                }
            }
        }
        Err(outcome)
    }

    /// The volume key from [`Volume::key`], for a process that continues the work of one that has ended.
    ///
    /// # Errors
    /// No header was written with this key.
    pub fn resume(&self, key: &[u8; KEY]) -> Result<Key, Error> {
        self.newest(key).ok_or(Error::AlteredHeader)?;
        Ok(Key { key: Zeroizing::new(*key), slot: None, own: None })
    }

    /// The disk. Writing to it damages the volume.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// The newest header that was written with the key.
    fn newest(&self, key: &[u8; KEY]) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|known| Header::is_authentic(&known.block, &*Keys::new(key, &known.header.uuid).header))
    }

    /// Opens the volume. The time does not depend on its size.
    ///
    /// # Errors
    /// The root of the tree is damaged, or the disk fails.
    pub fn open(self, key: Key, options: Options, random: Random<'_>) -> Result<Volume<D>, Error> {
        let newest = self.newest(&key.key).ok_or(Error::AlteredHeader)?;
        let header = newest.header.clone();
        let physical = header.geometry.physical();
        let (place, whole) = (header.epoch, newest.block.clone());
        let keys = Keys::new(&key.key, &header.uuid);
        let writable = options.access == Access::Write;
        let mut disk = self.disk;
        // A second copy of the newest header may be missing.
        let mut alone = false;
        if writable {
            let mut other = vec![0; BLOCK].into_boxed_slice();
            for copy in 0..2 {
                let read = disk.read(Geometry::header(physical, place, copy), &mut other);
                alone |= read.is_err() || other != whole;
            }
        }
        let mut volume = Volume::new(disk, key.key, keys, header, options.cache_nodes, writable);
        volume.check_root()?;
        if writable {
            // The newest header may be in the disk's cache alone, and the next one takes the place of the one before it.
            volume.disk_write(&[], &[], true)?;
            let mut sequence = [0; 8];
            random(&mut sequence);
            volume.begin_mount(u64::from_le_bytes(sequence))?;
            if alone {
                volume.next_header(|_| {})?;
            }
        }
        Ok(volume)
    }
}

impl<D: Disk> Volume<D> {
    /// Creates a volume on a disk, with one key slot. What the disk held before is no longer readable as a volume.
    /// The time does not depend on the disk's size.
    ///
    /// # Errors
    /// The disk is too small or fails, or the secret is too short.
    pub fn format(disk: D, format: Format<'_>, secret: &Secret<'_>, random: Random<'_>) -> Result<Self, Error> {
        Self::format_own(disk, format, secret, random).map(|(volume, _)| volume)
    }

    /// The same, with what else the secret gives.
    ///
    /// # Errors
    /// As for [`format`](Self::format).
    pub fn format_own(
        mut disk: D,
        format: Format<'_>,
        secret: &Secret<'_>,
        random: Random<'_>,
    ) -> Result<(Self, SlotSecret), Error> {
        let blocks = disk.blocks();
        let geometry = Geometry::largest(blocks.saturating_sub(COUNTERS))
            .map_err(|_| Error::TooSmall { blocks, needed: Geometry::LEAST.saturating_add(COUNTERS) })?;
        let mut key = Zeroizing::new([0; KEY]);
        let mut uuid = [0; 16];
        random(&mut *key);
        random(&mut uuid);
        let mut slots = [const { None }; SLOTS];
        let (slot, own) = KeySlot::new(&uuid, &key, secret, format.cost, format.label, random)?;
        slots[0] = Some(slot);
        let header = Header { cipher: format.cipher, uuid, epoch: 0, geometry, mount: 0, root: Entry::EMPTY, slots };
        erase_headers(&mut disk, geometry.physical(), &[0; BLOCK])?;
        let keys = Keys::new(&key, &uuid);
        let mut volume = Self::new(disk, key, keys, header, format.cache_nodes, true);
        let mut sequence = [0; 8];
        random(&mut sequence);
        volume.begin_mount(u64::from_le_bytes(sequence))?;
        volume.next_header(|_| {})?;
        Ok((volume, own))
    }
}

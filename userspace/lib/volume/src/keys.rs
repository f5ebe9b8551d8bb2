//! Changing key slots, and wiping a volume.

use alloc::vec;

use crate::Random;
use crate::attempts::COUNTERS;
use crate::disk::{BLOCK, Disk};
use crate::error::{Error, Operation};
use crate::layout::Geometry;
use crate::open::Locked;
use crate::secret::{Cost, Secret};
use crate::slot::{KeySlot, SLOTS, SlotSecret};
use crate::volume::Volume;

/// A slot that is not in the header yet.
pub struct NewSlot {
    number: usize,
    slot: KeySlot,
}

impl<D: Disk> Volume<D> {
    /// The key slots in use, with their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &KeySlot)> {
        self.header.slots()
    }

    /// Adds a key slot. Returns its number.
    ///
    /// # Errors
    /// All slots are in use, the secret is too short, or the disk fails.
    pub fn add_slot(
        &mut self,
        secret: &Secret<'_>,
        cost: Cost,
        label: &str,
        random: Random<'_>,
    ) -> Result<usize, Error> {
        let (new, _) = self.new_slot(secret, cost, label, random)?;
        let number = new.number;
        self.put_slot(new)?;
        Ok(number)
    }

    /// Replaces the secret of a slot. The label stays.
    ///
    /// # Errors
    /// The slot is not in use, the secret is too short, or the disk fails.
    pub fn change_slot(
        &mut self,
        slot: usize,
        secret: &Secret<'_>,
        cost: Cost,
        random: Random<'_>,
    ) -> Result<(), Error> {
        let (new, _) = self.changed_slot(slot, secret, cost, random)?;
        self.put_slot(new)
    }

    /// Makes what [`add_slot`](Self::add_slot) puts into the header, and what else the secret gives. Nothing is written.
    ///
    /// # Errors
    /// As for `add_slot`.
    pub fn new_slot(
        &self,
        secret: &Secret<'_>,
        cost: Cost,
        label: &str,
        random: Random<'_>,
    ) -> Result<(NewSlot, SlotSecret), Error> {
        let free = self.header.slots.iter().position(Option::is_none).ok_or(Error::SlotsFull)?;
        self.make_slot(free, secret, cost, label, random)
    }

    /// Makes what [`change_slot`](Self::change_slot) puts into the header, in the same way.
    ///
    /// # Errors
    /// As for `change_slot`.
    pub fn changed_slot(
        &self,
        slot: usize,
        secret: &Secret<'_>,
        cost: Cost,
        random: Random<'_>,
    ) -> Result<(NewSlot, SlotSecret), Error> {
        let used = self.header.slots.get(slot).and_then(Option::as_ref).ok_or(Error::NoSlot { slot })?;
        self.make_slot(slot, secret, cost, &used.label, random)
    }

    /// Puts a slot into the header. It is there with the first of two headers.
    ///
    /// # Errors
    /// The disk fails.
    pub fn put_slot(&mut self, new: NewSlot) -> Result<(), Error> {
        self.write_slot(new.number, Some(new.slot))
    }

    /// Removes a slot. Its secret no longer opens the volume.
    ///
    /// # Errors
    /// The slot is not in use, it is the last one, or the disk fails.
    pub fn remove_slot(&mut self, slot: usize) -> Result<(), Error> {
        if !self.slots().any(|(number, _)| number == slot) {
            return Err(Error::NoSlot { slot });
        }
        if self.slots().count() < 2 {
            return Err(Error::LastSlot);
        }
        self.write_slot(slot, None)
    }

    /// Whether a secret opens a slot: what else it gives. A passphrase takes at most `memory` bytes.
    ///
    /// # Errors
    /// The slot is not in use, or needs more memory.
    pub fn opens(&self, slot: usize, secret: &Secret<'_>, memory: u64) -> Result<Option<SlotSecret>, Error> {
        let used = self.header.slots.get(slot).and_then(Option::as_ref).ok_or(Error::NoSlot { slot })?;
        let found = used.unwrap_key(&self.header.uuid, secret, memory)?;
        Ok(found.and_then(|(key, own)| (key == self.key).then_some(own)))
    }

    fn make_slot(
        &self,
        number: usize,
        secret: &Secret<'_>,
        cost: Cost,
        label: &str,
        random: Random<'_>,
    ) -> Result<(NewSlot, SlotSecret), Error> {
        self.check_writable()?;
        let (slot, own) = KeySlot::new(&self.header.uuid, &self.key, secret, cost, label, random)?;
        Ok((NewSlot { number, slot }, own))
    }

    /// Writes two headers, so that no place keeps the old slots. The change is atomic: it happens with the first.
    fn write_slot(&mut self, slot: usize, new: Option<KeySlot>) -> Result<(), Error> {
        self.next_header(|header| {
            if let Some(place) = header.slots.get_mut(slot) {
                *place = new;
            }
        })?;
        self.next_header(|_| {})
    }
}

impl crate::Header {
    /// The key slots in use, with their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &KeySlot)> {
        (0..SLOTS).zip(&self.slots).filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }
}

/// Makes a volume unreadable for ever, without its key: overwrites every key slot, with random bytes and then zeros.
///
/// A disk that remaps sectors may keep old copies; the passphrase's strength then protects them.
///
/// # Errors
/// The disk fails.
pub fn wipe<D: Disk>(disk: &mut D, random: Random<'_>) -> Result<(), Error> {
    let mut noise = vec![0; BLOCK];
    random(&mut noise);
    // Where the headers are that there are; without any, where a new volume would have them.
    let alone = disk.blocks().saturating_sub(COUNTERS);
    let found = Locked::read(&mut *disk).ok();
    let physical = found.and_then(|locked| Some(locked.header()?.geometry.physical())).unwrap_or(alone);
    erase_headers(disk, physical, &noise)?;
    erase_headers(disk, physical, &[0; BLOCK])
}

/// Overwrites the four header copies of a volume that takes this many blocks.
pub(crate) fn erase_headers<D: Disk>(disk: &mut D, physical: u64, with: &[u8]) -> Result<(), Error> {
    for (copy, place) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let block = Geometry::header(physical, place, copy);
        let failed = |error| Error::Disk { operation: Operation::Write, block, error };
        disk.write(block, with).map_err(failed)?;
    }
    disk.flush().map_err(|error| Error::Disk { operation: Operation::Flush, block: 0, error })
}

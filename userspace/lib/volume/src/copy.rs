//! A copy of the key slots, for what lies elsewhere and is opened with the same secrets: a backup.

use zeroize::Zeroizing;

use crate::disk::Disk;
use crate::entry::{put, take};
use crate::error::Error;
use crate::secret::{KEY, Secret, derive};
use crate::slot::{KeySlot, SLOT, SLOTS, SlotSecret};
use crate::volume::Volume;

/// A copy of the key slots. Whoever has the secret of one gets keys that follow from the volume key, never the volume key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCopy {
    uuid: [u8; 16],
    slots: [Option<KeySlot>; SLOTS],
}

impl SlotCopy {
    /// Bytes of a copy.
    pub const BYTES: usize = 16 + SLOTS * SLOT;

    /// The UUID of the volume.
    pub fn uuid(&self) -> &[u8; 16] {
        &self.uuid
    }

    /// The copied slots, with their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &KeySlot)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    /// The copy without the slots of other labels: those of other people, or with an empty one the recovery code's alone.
    #[must_use]
    pub fn of_label(mut self, label: &str) -> Self {
        for slot in &mut self.slots {
            slot.take_if(|slot| slot.label != label);
        }
        self
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &self.uuid);
        for (number, slot) in self.slots() {
            put(&mut bytes, number.saturating_mul(SLOT).saturating_add(16), &slot.encode());
        }
        bytes
    }

    /// From bytes; `None` if they are not a copy.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut slots = [const { None }; SLOTS];
        for (number, slot) in slots.iter_mut().enumerate() {
            let at = number.saturating_mul(SLOT).saturating_add(16);
            *slot = KeySlot::decode(&take(bytes, at)).ok()?;
        }
        Some(Self { uuid: take(bytes, 0), slots })
    }

    /// The key for a purpose, and what else the secret gives. A passphrase's slot takes at most `memory` bytes.
    ///
    /// # Errors
    /// No slot accepts the secret, or only slots are left that need more memory.
    pub fn derive(
        &self,
        secret: &Secret<'_>,
        memory: u64,
        purpose: &[u8],
    ) -> Result<(Zeroizing<[u8; KEY]>, SlotSecret), Error> {
        let mut outcome = Error::WrongKey;
        for (_, slot) in self.slots() {
            match slot.unwrap_key(&self.uuid, secret, memory) {
                Ok(Some((key, own))) => return Ok((for_purpose(&key, &self.uuid, purpose), own)),
                Ok(None) => {}
                Err(error) => outcome = error,
            }
        }
        Err(outcome)
    }
}

impl<D: Disk> Volume<D> {
    /// A copy of the key slots.
    pub fn slot_copy(&self) -> SlotCopy {
        SlotCopy { uuid: self.header.uuid, slots: self.header.slots.clone() }
    }

    /// The key for a purpose, as [`SlotCopy::derive`] gives it.
    pub fn derive(&self, purpose: &[u8]) -> Zeroizing<[u8; KEY]> {
        for_purpose(&self.key, &self.header.uuid, purpose)
    }
}

fn for_purpose(key: &[u8; KEY], uuid: &[u8; 16], purpose: &[u8]) -> Zeroizing<[u8; KEY]> {
    derive(key, &[b"capos-volume derived", uuid, purpose])
}

//! Key slots: the volume key, wrapped by the key of a secret.

use alloc::string::String;

use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use zeroize::Zeroizing;

use crate::Random;
use crate::entry::{put, take};
use crate::error::Error;
use crate::secret::{self, Cost, KEY, Secret};

/// Key slots of a volume.
pub const SLOTS: usize = 8;
/// The most bytes of a slot's label.
pub const LABEL: usize = 64;
/// Bytes of a slot in the header.
pub const SLOT: usize = 192;
/// Bytes of a slot that are bound to the wrapped key.
const BOUND: usize = 48;

/// What opens a slot; the number stands in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    Passphrase = 1,
    Recovery = 2,
    KeyFile = 3,
}

impl SlotKind {
    const ALL: [Self; 3] = [Self::Passphrase, Self::Recovery, Self::KeyFile];

    fn of(secret: &Secret<'_>) -> Self {
        match secret {
            Secret::Passphrase(_) => Self::Passphrase,
            Secret::Recovery(_) => Self::Recovery,
            Secret::KeyFile(_) => Self::KeyFile,
        }
    }
}

/// What the secret of a slot gives besides the volume key: a key of its owner's own, which follows from the secret alone. Whoever
/// has the volume key, and no more, does not have it.
#[derive(Clone)]
pub struct SlotSecret {
    /// Tells the slots of all times apart. It says nothing about the key.
    pub id: [u8; SLOT_ID],
    pub key: Zeroizing<[u8; KEY]>,
}

/// What a secret opens: the volume key, and what is its owner's own.
pub(crate) type Opened = (Zeroizing<[u8; KEY]>, SlotSecret);

/// Bytes of a slot's identity.
pub const SLOT_ID: usize = 16;

/// A key slot in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    pub kind: SlotKind,
    /// What deriving the key takes; only passphrases take more than the least.
    pub cost: Cost,
    /// Text that tells slots apart, such as a user's name. It is readable without a key.
    pub label: String,
    salt: [u8; 32],
    nonce: [u8; 24],
    wrapped: [u8; KEY],
    tag: [u8; 16],
}

impl KeySlot {
    /// What tells the slot apart from all others, earlier ones of the same label included: it changes with the secret.
    pub fn id(&self) -> [u8; SLOT_ID] {
        take(&*secret::derive(&self.salt, &[b"capos-volume slot"]), 0)
    }

    /// Wraps the volume key. Returns what else the secret gives, too.
    pub(crate) fn new(
        uuid: &[u8; 16],
        key: &[u8; KEY],
        secret: &Secret<'_>,
        cost: Cost,
        label: &str,
        random: Random<'_>,
    ) -> Result<(Self, SlotSecret), Error> {
        secret::check(secret)?;
        if label.len() > LABEL || label.contains('\0') {
            return Err(Error::LongLabel { most: LABEL });
        }
        let kind = SlotKind::of(secret);
        let cost = if kind == SlotKind::Passphrase { cost } else { Cost::LEAST };
        if !cost.is_valid() {
            return Err(Error::Cost);
        }
        let mut slot =
            Self { kind, cost, label: label.into(), salt: [0; 32], nonce: [0; 24], wrapped: [0; KEY], tag: [0; 16] };
        random(&mut slot.salt);
        random(&mut slot.nonce);
        let (cipher, own) = slot.cipher(uuid, secret, u64::MAX)?;
        slot.wrapped = *key;
        let bound = slot.bound(uuid);
        let sealed = cipher.encrypt_inout_detached((&slot.nonce).into(), &bound, slot.wrapped.as_mut_slice().into());
        slot.tag = sealed.map_err(|_| Error::Cost)?.into();
        Ok((slot, own))
    }

    /// What the key of the slot is for: the volume key, and what is its owner's own.
    fn cipher(
        &self,
        uuid: &[u8; 16],
        secret: &Secret<'_>,
        limit: u64,
    ) -> Result<(XChaCha20Poly1305, SlotSecret), Error> {
        let key = secret::slot_key(secret, self.cost, &self.salt, limit)?;
        let own = SlotSecret { id: self.id(), key: secret::derive(&*key, &[b"capos-volume own", uuid]) };
        Ok((XChaCha20Poly1305::new((&*key).into()), own))
    }

    /// What the wrapped key is bound to: the volume, the kind, the cost and the salt.
    fn bound(&self, uuid: &[u8; 16]) -> [u8; 16 + BOUND] {
        let mut bound = [0; 16 + BOUND];
        put(&mut bound, 0, uuid);
        put(&mut bound, 16, &take::<BOUND>(&self.encode(), 0));
        bound
    }

    /// The volume key, and what else the secret gives; `None` if it does not open the slot.
    pub(crate) fn unwrap_key(&self, uuid: &[u8; 16], secret: &Secret<'_>, limit: u64) -> Result<Option<Opened>, Error> {
        if self.kind != SlotKind::of(secret) {
            return Ok(None);
        }
        let (cipher, own) = self.cipher(uuid, secret, limit)?;
        let mut key = Zeroizing::new(self.wrapped);
        let bound = self.bound(uuid);
        let opened =
            cipher.decrypt_inout_detached((&self.nonce).into(), &bound, key.as_mut_slice().into(), (&self.tag).into());
        Ok(opened.is_ok().then_some((key, own)))
    }

    pub(crate) fn encode(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        put(&mut bytes, 0, &(self.kind as u32).to_le_bytes());
        put(&mut bytes, 4, &self.cost.memory_kib.to_le_bytes());
        put(&mut bytes, 8, &self.cost.passes.to_le_bytes());
        put(&mut bytes, 16, &self.salt);
        put(&mut bytes, 48, &self.nonce);
        put(&mut bytes, 72, &self.wrapped);
        put(&mut bytes, 104, &self.tag);
        put(&mut bytes, 120, self.label.as_bytes());
        bytes
    }

    /// Reads a slot: `Ok(None)` if it is not in use.
    pub(crate) fn decode(bytes: &[u8; SLOT]) -> Result<Option<Self>, ()> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let number = u32::from_le_bytes(take(bytes, 0));
        let kind = SlotKind::ALL.into_iter().find(|kind| *kind as u32 == number).ok_or(())?;
        let cost = Cost { memory_kib: u32::from_le_bytes(take(bytes, 4)), passes: u32::from_le_bytes(take(bytes, 8)) };
        let label: [u8; LABEL] = take(bytes, 120);
        let end = label.iter().rposition(|byte| *byte != 0).map_or(0, |last| last.saturating_add(1));
        let label = label.get(..end).and_then(|label| core::str::from_utf8(label).ok()).ok_or(())?;
        let slot = Self {
            kind,
            cost,
            label: label.into(),
            salt: take(bytes, 16),
            nonce: take(bytes, 48),
            wrapped: take(bytes, 72),
            tag: take(bytes, 104),
        };
        (cost.is_valid() && !label.contains('\0') && slot.encode() == *bytes).then_some(Some(slot)).ok_or(())
    }
}

//! Who can open a home's key, as it is kept.

use alloc::vec::Vec;

use capos_volume::{CipherKind, SLOT_ID, SlotSecret};

use crate::Random;
use crate::home::{HomeKey, ID};
use crate::pair::{BOX, PUBLIC, Pair, WRAPPED};

/// The version of records.
pub const VERSION: u8 = 1;

/// A secret of the user: the pair of its slot, and the key of the home sealed to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub slot: [u8; SLOT_ID],
    public: [u8; PUBLIC],
    wrapped: [u8; WRAPPED],
    /// None after somebody who did not have the key of the home has set the secret.
    sealed: Option<[u8; BOX]>,
}

impl Entry {
    /// The entry of a secret, without the key of a home. `None` never happens with random bytes.
    pub fn new(own: &SlotSecret, random: Random<'_>) -> Option<Self> {
        let pair = Pair::new(random)?;
        Some(Self { slot: own.id, public: *pair.public(), wrapped: pair.wrap(own, random)?, sealed: None })
    }

    /// Whether it has the key of the home.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.sealed.is_some()
    }
}

/// The key of a user's home, for all who can open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: [u8; ID],
    pub cipher: CipherKind,
    pub entries: Vec<Entry>,
    /// The key, sealed to public halves of recovery codes.
    recoveries: Vec<([u8; PUBLIC], [u8; BOX])>,
}

/// What a key of a home is sealed for.
fn purpose(id: &[u8; ID]) -> Vec<u8> {
    [b"capos-home key".as_slice(), id].concat()
}

impl Record {
    /// The record of a new key that nobody can open yet.
    #[must_use]
    pub fn new(home: &HomeKey) -> Self {
        Self { id: home.id, cipher: home.cipher, entries: Vec::new(), recoveries: Vec::new() }
    }

    /// Adds a secret of the user, with the key of the home if that is at hand. One of the same slot is replaced. False never
    /// happens with random bytes.
    pub fn add(&mut self, own: &SlotSecret, home: Option<&HomeKey>, random: Random<'_>) -> bool {
        let Some(entry) = Entry::new(own, random) else { return false };
        self.entries.retain(|known| known.slot != own.id);
        self.entries.push(entry);
        home.is_none_or(|home| self.complete(home, random))
    }

    /// Gives the key of the home to the secrets that lack it.
    pub fn complete(&mut self, home: &HomeKey, random: Random<'_>) -> bool {
        let purpose = purpose(&self.id);
        self.entries.iter_mut().filter(|entry| entry.sealed.is_none()).all(|entry| {
            entry.sealed = Pair::seal(&entry.public, &purpose, &home.key, random);
            entry.sealed.is_some()
        })
    }

    /// Whether the recovery code of this public half opens the key.
    #[must_use]
    pub fn is_recovered_by(&self, public: &[u8; PUBLIC]) -> bool {
        self.recoveries.iter().any(|(known, _)| known == public)
    }

    /// Seals the key to a recovery code.
    pub fn seal_to(&mut self, public: &[u8; PUBLIC], home: &HomeKey, random: Random<'_>) -> bool {
        if self.is_recovered_by(public) {
            return true;
        }
        let sealed = Pair::seal(public, &purpose(&self.id), &home.key, random);
        self.recoveries.extend(sealed.map(|sealed| (*public, sealed)));
        sealed.is_some()
    }

    /// Forgets secrets and recovery codes that open nothing any more. Whether anything has changed.
    pub fn keep(&mut self, slots: &[[u8; SLOT_ID]], recoveries: &[[u8; PUBLIC]]) -> bool {
        let before = (self.entries.len(), self.recoveries.len());
        self.entries.retain(|entry| slots.contains(&entry.slot));
        self.recoveries.retain(|(public, _)| recoveries.contains(public));
        before != (self.entries.len(), self.recoveries.len())
    }

    /// The key of the home, with a secret of the user.
    #[must_use]
    pub fn open(&self, own: &SlotSecret) -> Option<HomeKey> {
        let entry = self.entries.iter().find(|entry| entry.slot == own.id)?;
        let pair = Pair::unwrap(&entry.wrapped, &entry.public, own)?;
        self.home(&pair, entry.sealed.as_ref()?)
    }

    /// The key of the home, with the pair of a recovery code.
    #[must_use]
    pub fn recover(&self, pair: &Pair) -> Option<HomeKey> {
        let (_, sealed) = self.recoveries.iter().find(|(public, _)| public == pair.public())?;
        self.home(pair, sealed)
    }

    fn home(&self, pair: &Pair, sealed: &[u8; BOX]) -> Option<HomeKey> {
        Some(HomeKey::of(self.id, self.cipher, pair.open(sealed, &purpose(&self.id))?))
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from([VERSION, self.cipher as u8]);
        bytes.extend_from_slice(&self.id);
        bytes.push(u8::try_from(self.entries.len()).unwrap_or(u8::MAX));
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.slot);
            bytes.extend_from_slice(&entry.public);
            bytes.extend_from_slice(&entry.wrapped);
            bytes.push(u8::from(entry.sealed.is_some()));
            bytes.extend(entry.sealed.iter().flatten());
        }
        bytes.push(u8::try_from(self.recoveries.len()).unwrap_or(u8::MAX));
        for (public, sealed) in &self.recoveries {
            bytes.extend_from_slice(public);
            bytes.extend_from_slice(sealed);
        }
        bytes
    }

    /// From bytes; `None` if they are no record of this version.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let [version, cipher] = take(from)?;
        let cipher = CipherKind::from_number(cipher.into()).filter(|_| version == VERSION)?;
        let id = take(from)?;
        let mut entries = Vec::new();
        for _ in 0..take::<1>(from)?[0] {
            let (slot, public, wrapped) = (take(from)?, take(from)?, take(from)?);
            let sealed = match take::<1>(from)? {
                [0] => None,
                [1] => Some(take(from)?),
                _ => return None,
            };
            entries.push(Entry { slot, public, wrapped, sealed });
        }
        let mut recoveries = Vec::new();
        for _ in 0..take::<1>(from)?[0] {
            recoveries.push((take(from)?, take(from)?));
        }
        bytes.is_empty().then_some(Self { id, cipher, entries, recoveries })
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*first)
}

/// The pair of a recovery code, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    pub slot: [u8; SLOT_ID],
    pub public: [u8; PUBLIC],
    wrapped: [u8; WRAPPED],
}

impl Recovery {
    /// The pair of a new code. `None` never happens with random bytes.
    pub fn new(pair: &Pair, own: &SlotSecret, random: Random<'_>) -> Option<Self> {
        Some(Self { slot: own.id, public: *pair.public(), wrapped: pair.wrap(own, random)? })
    }

    /// The pair, with its code.
    #[must_use]
    pub fn open(&self, own: &SlotSecret) -> Option<Pair> {
        Pair::unwrap(&self.wrapped, &self.public, own)
    }
}

/// The pairs of recovery codes: one, or two while the code is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recoveries(pub Vec<Recovery>);

impl Recoveries {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from([VERSION]);
        for Recovery { slot, public, wrapped } in &self.0 {
            bytes.extend_from_slice(slot);
            bytes.extend_from_slice(public);
            bytes.extend_from_slice(wrapped);
        }
        bytes
    }

    /// From bytes; `None` if they are none of this version.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        if take(from)? != [VERSION] {
            return None;
        }
        let mut all = Vec::new();
        while !from.is_empty() {
            all.push(Recovery { slot: take(from)?, public: take(from)?, wrapped: take(from)? });
        }
        Some(Self(all))
    }
}

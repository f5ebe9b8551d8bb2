//! The key of a home, and what it seals: values, and names within keys.

use alloc::vec::Vec;
use core::fmt;

use capos_volume::{CipherKind, KEY, derive};
use zeroize::Zeroizing;

use crate::Random;
use crate::seal::{open, seal};

/// Bytes of a home's identity.
pub const ID: usize = 16;
/// Bytes that a sealed name is longer.
pub const NAME_OVERHEAD: usize = 16;
/// Bytes of the number before a name. It stays unchanged, so that names of one number are beside each other.
pub const NUMBER: usize = 8;

/// The key of a home.
#[derive(Clone)]
pub struct HomeKey {
    pub id: [u8; ID],
    /// The cipher of its values.
    pub cipher: CipherKind,
    pub(crate) key: Zeroizing<[u8; KEY]>,
    values: Zeroizing<[u8; KEY]>,
    names: Zeroizing<[u8; KEY]>,
}

impl fmt::Debug for HomeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomeKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Parts that cannot be taken for others.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    all
}

impl HomeKey {
    /// A new key.
    pub fn new(cipher: CipherKind, random: Random<'_>) -> Self {
        let (mut id, mut key) = ([0; ID], Zeroizing::new([0; KEY]));
        random(&mut id);
        random(&mut *key);
        Self::of(id, cipher, key)
    }

    /// The key with these bytes.
    #[must_use]
    pub fn of(id: [u8; ID], cipher: CipherKind, key: Zeroizing<[u8; KEY]>) -> Self {
        let (values, names) = (derive(&*key, &[b"capos-home values"]), derive(&*key, &[b"capos-home names"]));
        Self { id, cipher, key, values, names }
    }

    /// Its bytes, for [`of`](Self::of). Their holder can read the home.
    #[must_use]
    pub fn bytes(&self) -> &Zeroizing<[u8; KEY]> {
        &self.key
    }

    /// A value, sealed for its place: the namespace, the table and the key. No two seals may have the same salt.
    #[must_use]
    pub fn seal(&self, place: &[&[u8]], value: &[u8], salt: &[u8; 24]) -> Option<Vec<u8>> {
        seal(self.cipher, &self.values, &joined(place), value, salt)
    }

    /// The value that was sealed; `None` if it is not one of this home and place.
    #[must_use]
    pub fn open(&self, place: &[&[u8]], sealed: &[u8]) -> Option<Vec<u8>> {
        open(self.cipher, &self.values, &joined(place), sealed).map(|mut value| core::mem::take(&mut *value))
    }

    /// A key whose name is sealed: what follows the number. The same name of the same number and table always has the same
    /// sealed form. A key without a name stays unchanged.
    #[must_use]
    pub fn seal_name(&self, table: &[&[u8]], key: &[u8]) -> Vec<u8> {
        let Some((number, name)) = key.split_first_chunk::<NUMBER>().filter(|(_, name)| !name.is_empty()) else {
            return key.to_vec();
        };
        let mark = self.mark(table, number, name);
        let mut sealed = [number.as_slice(), &mark, name].concat();
        self.mix(&mark, sealed.get_mut(NUMBER.saturating_add(NAME_OVERHEAD)..).unwrap_or_default());
        sealed
    }

    /// The key that was sealed; `None` if it is not one of this home and table.
    #[must_use]
    pub fn open_name(&self, table: &[&[u8]], sealed: &[u8]) -> Option<Vec<u8>> {
        let Some((number, rest)) = sealed.split_first_chunk::<NUMBER>().filter(|(_, rest)| !rest.is_empty()) else {
            return Some(sealed.to_vec());
        };
        let (mark, name) = rest.split_first_chunk::<NAME_OVERHEAD>()?;
        let mut key = [number.as_slice(), name].concat();
        self.mix(mark, key.get_mut(NUMBER..).unwrap_or_default());
        (self.mark(table, number, key.get(NUMBER..)?) == *mark).then_some(key)
    }

    /// A digest of the name that only the key's holder can compute. The name's seal follows from it.
    fn mark(&self, table: &[&[u8]], number: &[u8; NUMBER], name: &[u8]) -> [u8; NAME_OVERHEAD] {
        let digest = derive(&*self.names, &[b"mark", &joined(table), number, name]);
        digest.first_chunk().copied().unwrap_or_default()
    }

    /// Combines bytes with a stream that follows from the mark.
    fn mix(&self, mark: &[u8; NAME_OVERHEAD], bytes: &mut [u8]) {
        for (part, number) in bytes.chunks_mut(KEY).zip(0_u32..) {
            let stream = derive(&*self.names, &[b"stream", mark, &number.to_le_bytes()]);
            part.iter_mut().zip(stream.iter()).for_each(|(byte, with)| *byte ^= with);
        }
    }
}

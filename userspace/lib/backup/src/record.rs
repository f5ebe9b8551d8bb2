//! What a backup consists of, and the sum of it.

use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest, Sha256};

/// One part of a store. Entries belong to the namespace before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A namespace and its quota in bytes. The entries of its tables follow, in the order of tables and keys.
    Namespace { name: String, limit: u64 },
    /// An entry.
    Entry { table: String, key: Vec<u8>, value: Vec<u8> },
}

const NAMESPACE: u8 = 1;
const ENTRY: u8 = 2;

impl Record {
    /// Appends its bytes: a kind, the lengths, and what they are of. All numbers are little-endian.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let mut text = |bytes: &[u8]| {
            into.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
            into.extend_from_slice(bytes);
        };
        match self {
            Self::Namespace { name, limit } => {
                text(&[NAMESPACE]);
                text(name.as_bytes());
                text(&limit.to_le_bytes());
            }
            Self::Entry { table, key, value } => {
                text(&[ENTRY]);
                text(table.as_bytes());
                text(key);
                text(value);
            }
        }
    }

    /// Takes the first record from bytes; none if they are not whole records.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let kind = part(bytes)?;
        let name = |bytes: &mut &[u8]| Some(String::from(core::str::from_utf8(part(bytes)?).ok()?));
        match kind {
            [NAMESPACE] => {
                Some(Self::Namespace { name: name(bytes)?, limit: u64::from_le_bytes(part(bytes)?.try_into().ok()?) })
            }
            [ENTRY] => {
                Some(Self::Entry { table: name(bytes)?, key: part(bytes)?.to_vec(), value: part(bytes)?.to_vec() })
            }
            _ => None,
        }
    }

    /// What decides whether a chunk may end behind it: the same for the same key, whatever is around it.
    pub(crate) fn mark(&self) -> u8 {
        let mut hash = Sha256::new();
        match self {
            Self::Namespace { name, .. } => hash.update(name),
            Self::Entry { table, key, .. } => {
                hash.update(table);
                hash.update([0]);
                hash.update(key);
            }
        }
        hash.finalize().first().copied().unwrap_or(0)
    }
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(part)
}

/// How much a backup holds, and a hash of all its records in their order. Two stores with the same sum are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub records: u64,
    /// Of the records, encoded.
    pub bytes: u64,
    /// SHA-256 of the records, encoded.
    pub hash: [u8; 32],
}

/// Counts and hashes records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adder {
    records: u64,
    bytes: u64,
    hash: Sha256,
}

impl Adder {
    pub(crate) fn add(&mut self, encoded: &[u8], records: u64) {
        self.records = self.records.saturating_add(records);
        self.bytes = self.bytes.saturating_add(encoded.len() as u64);
        self.hash.update(encoded);
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn sum(&self) -> Sum {
        Sum { records: self.records, bytes: self.bytes, hash: self.hash.clone().finalize().into() }
    }
}

//! Namespaces, and what each of them takes.

use alloc::string::String;

/// Bytes of a namespace's name at most.
pub const MAX_NAME: usize = 64;

/// What the names of namespaces begin with that were set aside. No client has such a name.
pub const ASIDE: &str = "\0aside ";

/// What an entry takes in addition to its key and value, in bytes: its place in the tree.
const ENTRY: u64 = 32;

/// A namespace. It names a part of one store and stays the same as long as that part exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub(crate) u64);

impl Namespace {
    /// Its number, which no other namespace of the store gets.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What a namespace takes and may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its name.
    pub name: String,
    /// Bytes that it may take.
    pub limit: u64,
    /// Bytes that it takes: keys, values, and 32 for each entry.
    pub used: u64,
}

/// Bytes that an entry counts as.
pub(crate) fn cost(key: usize, value: usize) -> u64 {
    (key as u64).saturating_add(value as u64).saturating_add(ENTRY)
}

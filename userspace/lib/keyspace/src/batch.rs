//! Changes that are done together.

use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::store::{Change, ChangeKind};

/// What a change counts in addition to its table, key and value, in bytes.
const CHANGE: usize = 64;

/// Bytes that a change counts.
fn bytes_of(change: &Change) -> usize {
    let parts = [change.table.len(), change.key.len(), change.value.len(), CHANGE];
    parts.into_iter().fold(0, usize::saturating_add)
}

/// Changes that are done together, in their order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
    bytes: usize,
}

impl Batch {
    /// No changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn push(&mut self, table: &str, kind: ChangeKind, key: &[u8], value: &[u8]) -> &mut Self {
        let change = Change { table: String::from(table), kind, key: key.to_vec(), value: value.to_vec() };
        self.bytes = self.bytes.saturating_add(bytes_of(&change));
        self.changes.push(change);
        self
    }

    /// Gives a key a value.
    pub fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> &mut Self {
        self.push(table, ChangeKind::Put, key, value)
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, table: &str, key: &[u8]) -> &mut Self {
        self.push(table, ChangeKind::Remove, key, &[])
    }

    /// Removes all keys from `from` up to, and without, `to`; up to the table's end if that is empty.
    pub fn remove_range(&mut self, table: &str, from: &[u8], to: &[u8]) -> &mut Self {
        self.push(table, ChangeKind::RemoveRange, from, to)
    }

    /// Changes the number at a key, 8 bytes in little-endian order, by what the changes before add to, or free of, what the
    /// keyspace takes. Such growth beyond `most` is rejected with [`Fault::Quota`](crate::Fault::Quota). If the batch is
    /// repeated after it was done, it adds nothing.
    pub fn count(&mut self, table: &str, key: &[u8], most: Option<u64>) -> &mut Self {
        let most = most.map(u64::to_le_bytes);
        self.push(table, ChangeKind::Count, key, most.as_ref().map_or(&[], |most| most.as_slice()))
    }

    /// The same changes, of tables whose names have this prefix.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Self {
        let mut batch = self.clone();
        batch.add_prefix(prefix);
        batch
    }

    /// Puts a prefix before the names of all tables.
    pub(crate) fn add_prefix(&mut self, prefix: &str) {
        for change in &mut self.changes {
            change.table.insert_str(0, prefix);
            self.bytes = self.bytes.saturating_add(prefix.len());
        }
    }

    /// Takes away the prefix that was put before the names of all tables.
    pub(crate) fn remove_prefix(&mut self, prefix: &str) {
        for change in &mut self.changes {
            if change.table.starts_with(prefix) {
                change.table.drain(..prefix.len());
                self.bytes = self.bytes.saturating_sub(prefix.len());
            }
        }
    }

    /// Removes the changes behind the first `changes` ones.
    pub fn truncate(&mut self, changes: usize) {
        let removed = self.changes.get(changes..).unwrap_or_default().iter().map(bytes_of);
        self.bytes = self.bytes.saturating_sub(removed.fold(0, usize::saturating_add));
        self.changes.truncate(changes);
    }

    /// The changes.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Bytes that it counts: tables, keys, values, and 64 for each change.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

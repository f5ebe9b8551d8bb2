//! Reading what is committed.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use redb::{ReadTransaction, ReadableTable};

use crate::error::database;
use crate::store::ENTRIES;
use crate::{Namespace, StoreError, key};

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The committed entries of one moment.
pub struct Snapshot(ReadTransaction);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

impl Snapshot {
    pub(crate) fn new(transaction: ReadTransaction) -> Self {
        Self(transaction)
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// The blocks fail; a name or key is empty or too long.
    pub fn get(&self, namespace: Namespace, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let table = (self.0.open_table(ENTRIES).map_err(database)?, key::whole(namespace.0, table, key)?);
        get(&table.0, &table.1)
    }

    /// At most `most` entries of a table, in the order of their keys, from `from` on.
    ///
    /// # Errors
    /// The blocks fail; the table's name is empty or too long.
    pub fn range(
        &self,
        namespace: Namespace,
        table: &str,
        from: Bound<&[u8]>,
        most: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let entries = self.0.open_table(ENTRIES).map_err(database)?;
        range(&entries, namespace, table, from, most)
    }
}

/// The value of a whole key.
pub(crate) fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(table.get(key).map_err(database)?.map(|value| value.value().to_vec()))
}

/// Entries of a table from a key on.
pub(crate) fn range(
    entries: &impl ReadableTable<&'static [u8], &'static [u8]>,
    namespace: Namespace,
    table: &str,
    from: Bound<&[u8]>,
    most: usize,
) -> Result<Vec<Entry>, StoreError> {
    let prefix = key::prefix(namespace.0, table)?;
    let end = key::after(&prefix);
    let whole = |key: &[u8]| [prefix.as_slice(), key].concat();
    let start = match from {
        Bound::Included(key) => Bound::Included(whole(key)),
        Bound::Excluded(key) => Bound::Excluded(whole(key)),
        Bound::Unbounded => Bound::Included(prefix.clone()),
    };
    let start = start.as_ref().map(Vec::as_slice);
    let end = end.as_ref().map(Vec::as_slice);
    let mut found = Vec::new();
    for entry in entries.range((start, end)).map_err(database)?.take(most) {
        let (key, value) = entry.map_err(database)?;
        found.push((key.value().get(prefix.len()..).unwrap_or_default().to_vec(), value.value().to_vec()));
    }
    Ok(found)
}

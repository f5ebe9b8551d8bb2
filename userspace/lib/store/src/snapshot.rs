//! Reading what is committed.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use crate::error::database;
use crate::namespace::cost;
use crate::store::NAMESPACES;
use crate::tree::Trees;
use crate::{Namespace, StoreError, Usage, key};

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Which entries of a table are read.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Where they begin.
    pub from: Bound<&'a [u8]>,
    /// Where they end.
    pub to: Bound<&'a [u8]>,
    /// The last ones come first.
    pub reverse: bool,
    /// How many come at most.
    pub most: usize,
    /// Bytes that they come to at most, if not a single entry is longer: keys, values, and 32 for each entry.
    pub most_bytes: usize,
    /// Values are left out.
    pub keys_only: bool,
}

impl<'a> Query<'a> {
    /// At most `most` entries from `from` on.
    #[must_use]
    pub fn from(from: Bound<&'a [u8]>, most: usize) -> Self {
        Self { from, to: Bound::Unbounded, reverse: false, most, most_bytes: usize::MAX, keys_only: false }
    }
}

/// The committed entries of one moment.
pub struct Snapshot(ReadTransaction, Trees);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

impl Snapshot {
    pub(crate) fn new(transaction: ReadTransaction, trees: Trees) -> Self {
        Self(transaction, trees)
    }

    /// The entries of the tree that has those of a namespace.
    fn entries(&self, namespace: Namespace) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>, StoreError> {
        self.0.open_table(self.1.of(namespace.0).table()).map_err(database)
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// The blocks fail; a name or key is empty or too long.
    pub fn get(&self, namespace: Namespace, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let whole = key::whole(namespace.0, table, key)?;
        get(&self.entries(namespace)?, &whole)
    }

    /// The namespaces with their names and quotas, as of this moment.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn namespaces(&self) -> Result<Vec<(Namespace, Usage)>, StoreError> {
        let table = self.0.open_table(NAMESPACES).map_err(database)?;
        let usages = table.iter().map_err(database)?.map(|entry| {
            let (number, usage) = entry.map_err(database)?;
            let (name, limit, used) = usage.value();
            Ok((Namespace(number.value()), Usage { name: name.into(), limit, used }))
        });
        usages.collect()
    }

    /// The first entry of a namespace behind this table and key, of any table; the first of all if there is none before. Tables
    /// come in the order of the lengths of their names, then of the names.
    ///
    /// # Errors
    /// The blocks fail; the table's name or the key is empty or too long.
    pub fn next(
        &self,
        namespace: Namespace,
        before: Option<(&str, &[u8])>,
    ) -> Result<Option<(String, Entry)>, StoreError> {
        let entries = self.entries(namespace)?;
        let all = namespace.0.to_be_bytes();
        let start = match before {
            Some((table, key)) => Bound::Excluded(key::whole(namespace.0, table, key)?),
            None => Bound::Included(all.to_vec()),
        };
        let end = key::after(&all);
        let range = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
        let Some(entry) = entries.range(range).map_err(database)?.next() else { return Ok(None) };
        let (whole, value) = entry.map_err(database)?;
        let Some((table, key)) = key::parts(whole.value()) else { return Ok(None) };
        Ok(Some((table.into(), (key.to_vec(), value.value().to_vec()))))
    }

    /// Entries of a table, and whether there are more.
    ///
    /// # Errors
    /// The blocks fail; the table's name is empty or too long.
    pub fn range(&self, namespace: Namespace, table: &str, query: Query<'_>) -> Result<(Vec<Entry>, bool), StoreError> {
        let entries = self.entries(namespace)?;
        range(&entries, namespace, table, query)
    }
}

/// The value of a whole key.
pub(crate) fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(table.get(key).map_err(database)?.map(|value| value.value().to_vec()))
}

/// Entries of a table, and whether there are more.
pub(crate) fn range(
    entries: &impl ReadableTable<&'static [u8], &'static [u8]>,
    namespace: Namespace,
    table: &str,
    query: Query<'_>,
) -> Result<(Vec<Entry>, bool), StoreError> {
    let prefix = key::prefix(namespace.0, table)?;
    let (start, end) = key::bounds(&prefix, query.from, query.to);
    if key::is_empty(&start, &end) {
        return Ok((Vec::new(), false));
    }
    let (start, end) = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
    let mut range = entries.range((start, end)).map_err(database)?;
    let (mut found, mut bytes) = (Vec::new(), 0_u64);
    // To find the end, the database reads the entry behind it, which may be large. Nothing lies between a key and the one that a
    // zero byte follows.
    let is_last = |whole: &[u8]| match end {
        Bound::Excluded(end) => end.split_last() == Some((&0, whole)),
        Bound::Included(end) => end == whole,
        Bound::Unbounded => false,
    };
    let most_bytes = query.most_bytes as u64;
    while let Some(entry) = if query.reverse { range.next_back() } else { range.next() } {
        let (whole, value) = entry.map_err(database)?;
        let is_last = !query.reverse && is_last(whole.value());
        let key = whole.value().get(prefix.len()..).unwrap_or_default().to_vec();
        let value = if query.keys_only { Vec::new() } else { value.value().to_vec() };
        bytes = bytes.saturating_add(cost(key.len(), value.len()));
        if found.len() >= query.most || (bytes > most_bytes && !found.is_empty()) {
            return Ok((found, true));
        }
        found.push((key, value));
        if is_last {
            break;
        }
    }
    Ok((found, false))
}

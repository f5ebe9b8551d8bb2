//! Transactions that change something.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use redb::{ReadableTable, WriteTransaction};

use crate::error::{database, misused};
use crate::key::{self, MAX_VALUE};
use crate::log::Changes;
use crate::namespace::cost;
use crate::snapshot::{self, Entry, Query};
use crate::store::{NAMESPACES, NEXT, NUMBERS, Store, begin_tree};
use crate::tree::Tree;
use crate::{Blocks, Namespace, StoreError, Usage};

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it returns.
    Now,
    /// With the next sync or durable commit. Readers see it at once; a crash or an error before takes it back.
    Later,
}

/// A transaction. Dropped without a commit, it has no effect. An error of the blocks ends it: later calls fail.
pub struct Write<'s, B: Blocks> {
    store: &'s mut Store<B>,
    /// None once an error has ended it.
    transaction: Option<WriteTransaction>,
    /// What changed of namespaces; none where one was removed.
    namespaces: BTreeMap<u64, Option<Usage>>,
    /// Bytes that all namespaces take, as this transaction leaves them.
    total: u64,
    /// Bytes of the entries that changed, old and new ones.
    changed: u64,
    /// What changed, for the log.
    changes: Changes,
}

impl<B: Blocks> fmt::Debug for Write<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

impl<'s, B: Blocks> Write<'s, B> {
    pub(crate) fn new(store: &'s mut Store<B>, transaction: WriteTransaction) -> Self {
        let total = store.namespaces.values().fold(0, |sum: u64, usage| sum.saturating_add(usage.used));
        let changes = Changes::new(store.log.room());
        Self { store, transaction: Some(transaction), namespaces: BTreeMap::new(), total, changed: 0, changes }
    }

    /// What a namespace takes and may take, as this transaction leaves it.
    ///
    /// # Errors
    /// There is no such namespace.
    pub fn usage(&self, namespace: Namespace) -> Result<&Usage, StoreError> {
        let changed = self.namespaces.get(&namespace.0);
        changed.map_or_else(|| self.store.namespaces.get(&namespace.0), Option::as_ref).ok_or(StoreError::Gone)
    }

    /// The tree of a namespace that is there.
    fn tree(&self, namespace: Namespace) -> Result<Tree, StoreError> {
        self.usage(namespace)?;
        Ok(self.store.trees.of(namespace.0))
    }

    /// The value of a key, as this transaction leaves it.
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::Snapshot::get); there is no such namespace.
    pub fn get(&mut self, namespace: Namespace, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let tree = self.tree(namespace)?;
        let key = key::whole(namespace.0, table, key)?;
        self.attempt(|transaction| snapshot::get(&transaction.open_table(tree.table()).map_err(database)?, &key))
    }

    /// Entries of a table as this transaction leaves them, and whether there are more.
    ///
    /// # Errors
    /// As [`Snapshot::range`](crate::Snapshot::range); there is no such namespace.
    pub fn range(
        &mut self,
        namespace: Namespace,
        table: &str,
        query: Query<'_>,
    ) -> Result<(Vec<Entry>, bool), StoreError> {
        let tree = self.tree(namespace)?;
        key::prefix(namespace.0, table)?;
        self.attempt(|transaction| {
            let entries = transaction.open_table(tree.table()).map_err(database)?;
            snapshot::range(&entries, namespace, table, query)
        })
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// It does not fit into the namespace's quota or the store, is too long or empty; there is no such namespace; the blocks
    /// fail.
    pub fn put(&mut self, namespace: Namespace, table: &str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let whole = key::whole(namespace.0, table, key)?;
        if value.len() > MAX_VALUE {
            return Err(StoreError::Length { what: "value", bytes: value.len(), most: MAX_VALUE });
        }
        let tree = self.tree(namespace)?;
        let old = self.attempt(|transaction| {
            let entries = transaction.open_table(tree.table()).map_err(database)?;
            let old = entries.get(whole.as_slice()).map_err(database)?;
            Ok(old.map_or(0, |old| cost(whole.len(), old.value().len())))
        })?;
        self.charge(namespace, old, cost(whole.len(), value.len()))?;
        self.changes.put(&whole, value);
        self.attempt(|transaction| {
            let mut entries = transaction.open_table(tree.table()).map_err(database)?;
            entries.insert(whole.as_slice(), value).map_err(database)?;
            Ok(())
        })
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// A name or key is too long or empty; there is no such namespace; the blocks fail.
    pub fn remove(&mut self, namespace: Namespace, table: &str, key: &[u8]) -> Result<bool, StoreError> {
        let whole = key::whole(namespace.0, table, key)?;
        let tree = self.tree(namespace)?;
        let old = self.attempt(|transaction| {
            let mut entries = transaction.open_table(tree.table()).map_err(database)?;
            let old = entries.remove(whole.as_slice()).map_err(database)?;
            Ok(old.map(|old| cost(whole.len(), old.value().len())))
        })?;
        if let Some(old) = old {
            self.charge(namespace, old, 0)?;
            self.changes.remove(&whole);
        }
        Ok(old.is_some())
    }

    /// Removes the keys of a table from `from` to `to`.
    ///
    /// # Errors
    /// The table's name is too long or empty; there is no such namespace; the blocks fail.
    pub fn remove_range(
        &mut self,
        namespace: Namespace,
        table: &str,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<(), StoreError> {
        let prefix = key::prefix(namespace.0, table)?;
        let (start, end) = key::bounds(&prefix, from, to);
        let tree = self.tree(namespace)?;
        if key::is_empty(&start, &end) {
            return Ok(());
        }
        self.changes.exclude();
        let freed = self.attempt(|transaction| {
            let mut entries = transaction.open_table(tree.table()).map_err(database)?;
            let range = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
            let mut freed = 0_u64;
            entries
                .retain_in(range, |key, value| {
                    freed = freed.saturating_add(cost(key.len(), value.len()));
                    false
                })
                .map_err(database)?;
            Ok(freed)
        })?;
        self.charge(namespace, freed, 0)
    }

    /// Commits it. Nothing of it is there if this fails.
    ///
    /// # Errors
    /// The blocks fail. Earlier commits that were not durable are lost with it.
    pub fn commit(mut self, durability: Durability) -> Result<(), StoreError> {
        let changed = core::mem::take(&mut self.namespaces);
        let known = self.store.next;
        let next = changed.keys().map(|number| number.saturating_add(1)).max().unwrap_or(0).max(known);
        self.attempt(|transaction| {
            let mut table = transaction.open_table(NAMESPACES).map_err(database)?;
            for (number, usage) in &changed {
                match usage {
                    Some(Usage { name, limit, used }) => {
                        drop(table.insert(number, (name.as_str(), *limit, *used)).map_err(database)?);
                    }
                    None => drop(table.remove(number).map_err(database)?),
                }
            }
            if next != known {
                let mut numbers = transaction.open_table(NUMBERS).map_err(database)?;
                drop(numbers.insert(NEXT, next).map_err(database)?);
            }
            Ok(())
        })?;
        if next != known {
            self.changes.exclude();
        }
        for (number, usage) in &changed {
            match (usage, self.store.namespaces.get(number)) {
                (Some(new), Some(old)) if (&new.name, new.limit) == (&old.name, old.limit) => {
                    self.changes.used(*number, new.used);
                }
                _ => self.changes.exclude(),
            }
        }
        let Some(transaction) = self.transaction.take() else { return Err(ended()) };
        if let Err(error) = self.store.end_write(transaction, durability, self.changed, self.changes.into_bytes()) {
            return Err(self.store.failed(error));
        }
        self.store.next = next;
        for (number, usage) in changed {
            match usage {
                Some(usage) => drop(self.store.namespaces.insert(number, usage)),
                None => drop(self.store.namespaces.remove(&number)),
            }
        }
        match durability {
            Durability::Now => self.store.sync(),
            Durability::Later => Ok(()),
        }
    }

    pub(crate) fn create(&mut self, namespace: Namespace, usage: Usage) {
        self.namespaces.insert(namespace.0, Some(usage));
    }

    /// Changes what a namespace may take.
    ///
    /// # Errors
    /// There is no such namespace.
    pub fn set_limit(&mut self, namespace: Namespace, limit: u64) -> Result<(), StoreError> {
        let usage = Usage { limit, ..self.usage(namespace)?.clone() };
        self.namespaces.insert(namespace.0, Some(usage));
        Ok(())
    }

    /// Gives a namespace another name, and a new one its name and a tree of its own.
    pub(crate) fn set_aside(&mut self, namespace: Namespace, name: &str, new: Namespace) -> Result<(), StoreError> {
        let usage = self.usage(namespace)?.clone();
        self.attempt(|transaction| begin_tree(transaction, new.0))?;
        self.namespaces.insert(namespace.0, Some(Usage { name: name.into(), ..usage.clone() }));
        self.namespaces.insert(new.0, Some(Usage { used: 0, ..usage }));
        Ok(())
    }

    pub(crate) fn remove_namespace(&mut self, namespace: Namespace) -> Result<(), StoreError> {
        let (used, tree) = (self.usage(namespace)?.used, self.tree(namespace)?);
        let begin = namespace.0.to_be_bytes();
        self.attempt(|transaction| {
            let mut entries = transaction.open_table(tree.table()).map_err(database)?;
            let end = key::after(&begin);
            let range = (Bound::Included(begin.as_slice()), end.as_ref().map(Vec::as_slice));
            entries.retain_in(range, |_, _| false).map_err(database)
        })?;
        self.namespaces.insert(namespace.0, None);
        self.changed = self.changed.saturating_add(used);
        self.total = self.total.saturating_sub(used);
        Ok(())
    }

    /// Charges a namespace `new` bytes instead of `old`.
    fn charge(&mut self, namespace: Namespace, old: u64, new: u64) -> Result<(), StoreError> {
        let usage = self.usage(namespace)?;
        let used = usage.used.saturating_sub(old).saturating_add(new);
        if new > old && used > usage.limit {
            return Err(StoreError::Quota { name: usage.name.clone(), limit: usage.limit, needed: used });
        }
        let (capacity, needed) = (self.store.capacity(), self.total.saturating_sub(old).saturating_add(new));
        if new > old && needed > capacity {
            return Err(StoreError::Full { capacity, needed });
        }
        let changed = self.namespaces.entry(namespace.0);
        if let Some(usage) = changed.or_insert_with(|| self.store.namespaces.get(&namespace.0).cloned()) {
            usage.used = used;
        }
        self.total = needed;
        self.changed = self.changed.saturating_add(old).saturating_add(new);
        Ok(())
    }

    /// Works on the transaction; an error of the database ends it.
    fn attempt<T>(&mut self, work: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let Some(transaction) = &self.transaction else { return Err(ended()) };
        match work(transaction) {
            Ok(done) => Ok(done),
            Err(error) => {
                self.transaction = None;
                Err(self.store.failed(error))
            }
        }
    }
}

fn ended() -> StoreError {
    misused("an earlier error has ended the transaction")
}

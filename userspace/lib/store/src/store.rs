//! The store.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use redb::{Builder, Database, ReadableTable, TableDefinition, WriteTransaction};
use spin::Mutex;

use crate::backend::{Backend, File, Shared};
use crate::error::{database, misused};
use crate::key::fits;
use crate::tree::{Tree, Trees};
use crate::{Blocks, Durability, MAX_NAME, Namespace, Snapshot, StoreError, Usage, Write};

/// The newest format that this version reads. A store has it from the first namespace on that was set aside, and 1 before. A
/// newer one is rejected.
pub const FORMAT: u64 = 2;
/// The format of a store whose entries are all in one tree.
const ONE_TREE: u64 = 1;

/// The numbers from which on namespaces have their entries in a tree of their own, in [`FORMAT`] 2.
const TREES: TableDefinition<'static, u64, ()> = TableDefinition::new("trees");
/// Name, limit and use of each namespace, by its number.
pub(crate) const NAMESPACES: TableDefinition<'static, u64, (&str, u64, u64)> = TableDefinition::new("namespaces");
/// Numbers of the store itself.
pub(crate) const NUMBERS: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");
/// In [`NUMBERS`]: the format, and the number of the next namespace.
const FORMAT_NUMBER: &str = "format";
pub(crate) const NEXT: &str = "next namespace";

/// Bytes of memory for pages that were read.
const CACHE: usize = 1 << 20;
/// Bytes of entries that may change before the database writes its state.
const UNWRITTEN: u64 = 4 << 20;
/// Of the blocks, what namespaces may take: the database writes changed pages to new places before it frees the old ones.
const SHARE: u64 = 2;

/// A store on blocks.
pub struct Store<B: Blocks> {
    /// None after an error, until it is opened again.
    pub(crate) database: Option<Database>,
    pub(crate) file: Shared<B>,
    pub(crate) namespaces: BTreeMap<u64, Usage>,
    pub(crate) trees: Trees,
    pub(crate) next: u64,
    losses: u64,
    /// Bytes of entries that changed in commits whose state the database has not written yet.
    unwritten: u64,
}

impl<B: Blocks> fmt::Debug for Store<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

impl<B: Blocks> Store<B> {
    /// Opens the store on these blocks; blocks of zeros become an empty one.
    ///
    /// The time does not depend on how much there is in it.
    ///
    /// # Errors
    /// The blocks fail, hold something else, or a store of a newer format.
    pub fn open(blocks: B) -> Result<Self, StoreError> {
        let Some(file) = File::open(blocks)? else {
            return Err(StoreError::Format("the first block is not that of a store".into()));
        };
        let file = Arc::new(Mutex::new(file));
        let mut store = Self {
            database: None,
            file,
            namespaces: BTreeMap::new(),
            trees: Trees::default(),
            next: 0,
            losses: 0,
            unwritten: 0,
        };
        store.reopen()?;
        Ok(store)
    }

    /// Makes everything durable and gives the blocks back.
    ///
    /// # Errors
    /// The blocks fail. What was durable before still is.
    pub fn close(mut self) -> Result<B, StoreError> {
        self.sync()?;
        self.database = None;
        self.file.lock().sync()?;
        // The database was the only other holder.
        let file = Arc::into_inner(self.file).ok_or_else(|| misused("it cannot be closed while a snapshot is open"))?;
        Ok(file.into_inner().into_blocks())
    }

    /// Gives the blocks back without making anything durable, for example after they failed. None while a snapshot is open.
    pub fn abandon(mut self) -> Option<B> {
        self.database = None;
        Arc::into_inner(self.file).map(|file| file.into_inner().into_blocks())
    }

    /// Looks at the blocks.
    pub fn with_blocks<T>(&self, look: impl FnOnce(&B) -> T) -> T {
        look(self.file.lock().blocks())
    }

    /// Works on the blocks. Writing to them damages the store.
    pub fn with_blocks_mut<T>(&mut self, work: impl FnOnce(&mut B) -> T) -> T {
        work(self.file.lock().blocks_mut())
    }

    /// Bytes that all namespaces together may take.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.file.lock().capacity().checked_div(SHARE).unwrap_or(0)
    }

    /// The namespaces with what they take.
    #[must_use]
    pub fn usage(&self) -> Vec<(Namespace, Usage)> {
        self.namespaces.iter().map(|(number, usage)| (Namespace(*number), usage.clone())).collect()
    }

    /// The namespace of this name.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Namespace> {
        self.namespaces.iter().find(|(_, usage)| usage.name == name).map(|(number, _)| Namespace(*number))
    }

    /// Makes a namespace that may take `limit` bytes, durably.
    ///
    /// # Errors
    /// There is one of this name; the name is empty or too long; the blocks fail.
    pub fn create_namespace(&mut self, name: &str, limit: u64) -> Result<Namespace, StoreError> {
        fits("namespace's name", name.len(), MAX_NAME)?;
        if self.namespace(name).is_some() {
            return Err(StoreError::Exists(name.into()));
        }
        let namespace = Namespace(self.next);
        let mut write = self.begin()?;
        write.create(namespace, Usage { name: name.into(), limit, used: 0 });
        write.commit(Durability::Now)?;
        Ok(namespace)
    }

    /// Changes what a namespace may take. If it takes more than that already, it can only become smaller.
    ///
    /// # Errors
    /// There is no such namespace; the blocks fail.
    pub fn set_limit(&mut self, namespace: Namespace, limit: u64) -> Result<(), StoreError> {
        let mut write = self.begin()?;
        write.set_limit(namespace, limit)?;
        write.commit(Durability::Now)
    }

    /// Removes a namespace with all that is in it, durably.
    ///
    /// # Errors
    /// There is no such namespace; the blocks fail.
    pub fn remove_namespace(&mut self, namespace: Namespace) -> Result<(), StoreError> {
        let mut write = self.begin()?;
        write.remove_namespace(namespace)?;
        write.commit(Durability::Now)
    }

    /// Sets a namespace aside under another name, and begins an empty one of its name and limit, durably.
    ///
    /// The new one and all later ones have their entries in a tree of their own, so that nothing which is damaged in the trees
    /// before has to be read for them.
    ///
    /// # Errors
    /// There is no such namespace, or there is one of the other name; the blocks fail.
    pub fn set_aside(&mut self, namespace: Namespace, name: &str) -> Result<Namespace, StoreError> {
        fits("namespace's name", name.len(), MAX_NAME)?;
        if self.namespace(name).is_some() {
            return Err(StoreError::Exists(name.into()));
        }
        let new = Namespace(self.next);
        let mut write = self.begin()?;
        write.set_aside(namespace, name, new)?;
        write.commit(Durability::Now)?;
        self.trees.0.push(new.0);
        Ok(new)
    }

    /// Begins a transaction. Nothing of it is there before it is committed.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn begin(&mut self) -> Result<Write<'_, B>, StoreError> {
        let begun = self.database()?.begin_write().map_err(database);
        match begun {
            Ok(transaction) => Ok(Write::new(self, transaction)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// What is committed now, for reading. It does not change with later commits.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        use redb::ReadableDatabase;
        let begun = self.database()?.begin_read().map_err(database);
        match begun {
            Ok(transaction) => Ok(Snapshot::new(transaction, self.trees.clone())),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Reads what is committed now. After an error of the blocks the database is opened again, since it reads nothing any more.
    ///
    /// # Errors
    /// Those of the reading. After one of the blocks, commits since the last sync are lost.
    pub fn read<T>(&mut self, work: impl FnOnce(&Snapshot) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let snapshot = self.snapshot()?;
        let done = work(&snapshot);
        drop(snapshot);
        done.map_err(|error| match error {
            StoreError::Database(_) => self.failed(error),
            other => other,
        })
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    /// The blocks fail. Commits since the last sync are lost.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if self.unwritten > 0 {
            let begun = self.database()?.begin_write().map_err(database);
            let ended = begun.and_then(|transaction| self.end_write(transaction, Durability::Now, 0));
            ended.map_err(|error| self.failed(error))?;
        }
        let synced = self.file.lock().sync();
        synced.map_err(|error| self.failed(StoreError::Blocks(error)))
    }

    /// Commits a transaction of the database that changed so many bytes. The blocks are synced elsewhere.
    ///
    /// For a commit that is durable later the database writes no state: neither its roots, nor which of its pages are free.
    /// It frees pages only when it does, so that has a bound.
    pub(crate) fn end_write(
        &mut self,
        mut transaction: WriteTransaction,
        durability: Durability,
        changed: u64,
    ) -> Result<(), StoreError> {
        let unwritten = self.unwritten.saturating_add(changed).saturating_add(1);
        let is_later = durability == Durability::Later && unwritten <= UNWRITTEN;
        self.unwritten = if is_later { unwritten } else { 0 };
        if is_later {
            transaction.set_durability(redb::Durability::None).map_err(database)?;
        } else {
            // The state is whole, so that opening it after a crash takes no longer with its size.
            transaction.set_quick_repair(true);
        }
        transaction.commit().map_err(database)
    }

    /// The open database; opened again after an error.
    fn database(&mut self) -> Result<&Database, StoreError> {
        // Somebody's snapshot has met an error, after which the database reads nothing any more.
        if self.file.lock().has_failed() {
            self.end();
        }
        if self.database.is_none() {
            self.reopen()?;
        }
        self.database.as_ref().ok_or_else(|| misused("it is not open"))
    }

    /// Takes back what was not synced, after an error, and says what the error was.
    pub(crate) fn failed(&mut self, error: StoreError) -> StoreError {
        self.end();
        let cause = self.file.lock().take_error();
        match (cause, error) {
            (Some(cause), StoreError::Database(_)) => StoreError::Blocks(cause),
            (_, error) => error,
        }
    }

    /// Ends the database; what it writes meanwhile is taken back as well.
    fn end(&mut self) {
        self.database = None;
        self.unwritten = 0;
        self.losses = self.losses.saturating_add(1);
    }

    /// How often commits that were not synced have been taken back after an error.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Opens the database again if an error has ended it, as every call does.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn recover(&mut self) -> Result<(), StoreError> {
        self.database().map(drop)
    }

    /// Opens the blocks again, after they were open for reading alone. Commits since the last sync are lost.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn open_again(&mut self) -> Result<(), StoreError> {
        self.end();
        self.reopen()
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.file.lock().forget()?;
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE);
        let opened = builder.create_with_backend(Backend::new(&self.file)).map_err(database);
        let database = opened.map_err(|error| self.failed(error))?;
        let read = read(&database);
        (self.namespaces, self.next, self.trees) = read.map_err(|error| self.failed(error))?;
        self.database = Some(database);
        Ok(())
    }
}

/// The namespaces of a database, the number of the next one, and the trees. A new database gets its tables.
fn read(opened: &Database) -> Result<(BTreeMap<u64, Usage>, u64, Trees), StoreError> {
    let mut write = opened.begin_write().map_err(database)?;
    write.set_quick_repair(true);
    let (mut namespaces, mut trees) = (BTreeMap::new(), Trees::default());
    let next;
    {
        let mut numbers = write.open_table(NUMBERS).map_err(database)?;
        let format = numbers.get(FORMAT_NUMBER).map_err(database)?.map(|found| found.value());
        match format {
            Some(ONE_TREE) => {}
            Some(FORMAT) => {
                for entry in write.open_table(TREES).map_err(database)?.iter().map_err(database)? {
                    trees.0.push(entry.map_err(database)?.0.value());
                }
            }
            None => drop(numbers.insert(FORMAT_NUMBER, ONE_TREE).map_err(database)?),
            Some(other) => {
                let told = alloc::format!("its format is {other}, and this version of capOS knows {FORMAT}");
                return Err(StoreError::Format(told));
            }
        }
        next = numbers.get(NEXT).map_err(database)?.map_or(0, |found| found.value());
        write.open_table(Tree::FIRST.table()).map_err(database)?;
        let table = write.open_table(NAMESPACES).map_err(database)?;
        for entry in table.iter().map_err(database)? {
            let (number, usage) = entry.map_err(database)?;
            let (name, limit, used) = usage.value();
            namespaces.insert(number.value(), Usage { name: String::from(name), limit, used });
        }
    }
    write.commit().map_err(database)?;
    Ok((namespaces, next, trees))
}

/// Notes in a transaction that namespaces from this number on have a tree of their own.
pub(crate) fn begin_tree(write: &WriteTransaction, first: u64) -> Result<(), StoreError> {
    write.open_table(NUMBERS).map_err(database)?.insert(FORMAT_NUMBER, FORMAT).map_err(database)?;
    write.open_table(TREES).map_err(database)?.insert(first, ()).map_err(database)?;
    write.open_table(Tree::from(first).table()).map_err(database)?;
    Ok(())
}

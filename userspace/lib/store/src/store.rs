//! The store.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use redb::{Builder, Database, ReadableTable, TableDefinition, WriteTransaction};
use spin::Mutex;

use crate::backend::{Backend, File, Shared};
use crate::error::{database, misused};
use crate::key::fits;
use crate::log::{self, LeftOut, Log, Place};
use crate::tree::{Tree, Trees};
use crate::{BlockError, Blocks, Durability, MAX_NAME, Namespace, Snapshot, StoreError, Usage, Write};

/// The newest format that this version reads, which a new store has: there may be changes in its log. A newer one is rejected.
pub const FORMAT: u64 = 3;
/// The format of a store without a log whose entries are all in one tree.
const ONE_TREE: u64 = 1;
/// The format of a store without a log, from the first namespace on that was set aside.
const TREES_ALONE: u64 = 2;

/// The numbers from which on namespaces have their entries in a tree of their own, in [`FORMAT`] 2 and 3.
const TREES: TableDefinition<'static, u64, ()> = TableDefinition::new("trees");
/// Name, limit and use of each namespace, by its number.
pub(crate) const NAMESPACES: TableDefinition<'static, u64, (&str, u64, u64)> = TableDefinition::new("namespaces");
/// Numbers of the store itself.
pub(crate) const NUMBERS: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");
/// In [`NUMBERS`]: the format, the generation of the log, and the number of the next namespace.
const FORMAT_NUMBER: &str = "format";
const GENERATION: &str = "log";
pub(crate) const NEXT: &str = "next namespace";

/// Bytes of memory for pages. Half of it may be changed pages that were not written. If that is less than a few chunks of files,
/// the database writes pages that the same transaction replaces, and reads pages again for their checksums.
const CACHE: usize = 1 << 22;
/// Bytes of entries that may change before the database writes its state; on a small store, a part of its capacity. Until then the
/// pages of the last state are not free, and each small change takes a page.
const UNWRITTEN: u64 = 4 << 20;
const UNWRITTEN_PART: u64 = 32;
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
    pub(crate) log: Log,
    /// How many changes of the log were not done, because a block of what they change is damaged.
    left_out: BTreeMap<LeftOut, u64>,
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
            log: Log::none(),
            left_out: BTreeMap::new(),
        };
        store.reopen()?;
        Ok(store)
    }

    /// Makes everything durable and gives the blocks back.
    ///
    /// # Errors
    /// The blocks fail. What was durable before still is.
    pub fn close(mut self) -> Result<B, StoreError> {
        self.write_state()?;
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
        if self.unwritten > 0 && !self.write_log()? {
            self.write_state()?;
        }
        let synced = self.file.lock().sync();
        synced.map_err(|error| self.failed(StoreError::Blocks(error)))
    }

    /// Tells the blocks that no sync comes for a while.
    ///
    /// # Errors
    /// The blocks fail. Commits since the last sync are lost.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        let settled = self.file.lock().blocks_mut().settle();
        settled.map_err(|error| self.failed(StoreError::Blocks(error)))
    }

    /// Writes into the log what the database has not written. Returns false if the log cannot have it.
    fn write_log(&mut self) -> Result<bool, StoreError> {
        let written = self.log.write(self.file.lock().blocks_mut());
        written.map_err(|error| self.failed(StoreError::Blocks(error)))
    }

    /// Has the database write its state, which empties the log. The blocks are synced elsewhere.
    fn write_state(&mut self) -> Result<(), StoreError> {
        let begun = self.database()?.begin_write().map_err(database);
        let ended = begun.and_then(|transaction| self.end_write(transaction, Durability::Now, 0, None));
        ended.map_err(|error| self.failed(error))
    }

    fn most_unwritten(&self) -> u64 {
        self.capacity().checked_div(UNWRITTEN_PART).unwrap_or(0).min(UNWRITTEN)
    }

    /// Commits a transaction of the database that changed `changed` bytes, with its changes for the log. The blocks are synced
    /// elsewhere.
    ///
    /// If the log has the changes, or they are durable later, the database writes no state: neither its roots, nor which of its
    /// pages are free. It frees pages only when it does, so that has a bound.
    pub(crate) fn end_write(
        &mut self,
        mut transaction: WriteTransaction,
        durability: Durability,
        changed: u64,
        changes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let unwritten = self.unwritten.saturating_add(changed).saturating_add(1);
        let is_noted = self.log.note(changes);
        if unwritten <= self.most_unwritten() && (is_noted || durability == Durability::Later) {
            self.unwritten = unwritten;
            transaction.set_durability(redb::Durability::None).map_err(database)?;
            return transaction.commit().map_err(database);
        }
        self.unwritten = 0;
        if let Some(generation) = self.log.end() {
            let mut numbers = transaction.open_table(NUMBERS).map_err(database)?;
            numbers.insert(GENERATION, generation).map_err(database)?;
        }
        // The state is whole, so that opening it after a crash takes no longer with its size.
        transaction.set_quick_repair(true);
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

    /// How many changes of the log were lost with damaged blocks, since the store was opened. Other changes of the same commits
    /// are there.
    #[must_use]
    pub fn left_out(&self) -> &BTreeMap<LeftOut, u64> {
        &self.left_out
    }

    /// Adds what was lost before the store was opened. What is in both is counted once.
    pub fn add_left_out(&mut self, earlier: &BTreeMap<LeftOut, u64>) {
        for (left_out, count) in earlier {
            let known = self.left_out.entry(left_out.clone()).or_default();
            *known = (*known).max(*count);
        }
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

    /// A change of the log is left out if a damaged block of the database prevents it. It belongs to entries that the block has
    /// cost, and their holder finds the block. All other changes are done, those of the same commit too. After an error the
    /// database reads nothing, so each change that is left out takes one more opening.
    fn reopen(&mut self) -> Result<(), StoreError> {
        let (mut without, mut met) = (BTreeMap::new(), BTreeSet::new());
        loop {
            let mut at = Place::default();
            match self.reopen_without(&without, &mut at) {
                Err(StoreError::Blocks(BlockError::Damaged { block, .. })) if at.number > 0 => {
                    // A disk that could not read a block once may read it the second time.
                    if !met.insert(block) {
                        without.insert(at.number, (at.namespace, block));
                    }
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        let mut left_out = BTreeMap::new();
        for (namespace, block) in without.into_values() {
            let name = self.namespaces.get(&namespace).map(|usage| usage.name.clone());
            let namespace = name.unwrap_or_default();
            let count =
                left_out.entry(LeftOut { generation: self.log.generation(), namespace, block }).or_insert(0_u64);
            *count = count.saturating_add(1);
        }
        self.add_left_out(&left_out);
        Ok(())
    }

    fn reopen_without(&mut self, without: &BTreeMap<u64, (u64, u64)>, at: &mut Place) -> Result<(), StoreError> {
        let is_blank = {
            let mut file = self.file.lock();
            file.forget()?;
            file.length() == 0
        };
        if is_blank {
            self.reserve();
        }
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE);
        let opened = builder.create_with_backend(Backend::new(&self.file)).map_err(database);
        let database = opened.map_err(|error| self.failed(error))?;
        let read = self.read_state(&database, without, at);
        read.map_err(|error| self.failed(error))?;
        self.database = Some(database);
        Ok(())
    }

    /// Keeps the log's blocks apart from the file. Returns how many numbers there are.
    fn reserve(&self) -> u64 {
        let mut file = self.file.lock();
        let numbers = file.blocks().numbers();
        file.reserve(log::length(numbers));
        numbers
    }

    /// Reads what the store keeps of its database in memory, after doing again what the log has. A new database gets its tables.
    fn read_state(
        &mut self,
        opened: &Database,
        without: &BTreeMap<u64, (u64, u64)>,
        at: &mut Place,
    ) -> Result<(), StoreError> {
        let mut write = opened.begin_write().map_err(database)?;
        write.set_quick_repair(true);
        (self.namespaces, self.trees, self.log) = (BTreeMap::new(), Trees::default(), Log::none());
        write.open_table(Tree::FIRST.table()).map_err(database)?;
        let (format, generation) = {
            let mut numbers = write.open_table(NUMBERS).map_err(database)?;
            let number = |key| numbers.get(key).map(|found| found.map(|found| found.value())).map_err(database);
            let (format, generation) = (number(FORMAT_NUMBER)?, number(GENERATION)?.unwrap_or(1));
            self.next = number(NEXT)?.unwrap_or(0);
            if format.is_none() {
                numbers.insert(FORMAT_NUMBER, FORMAT).map_err(database)?;
            }
            (format.unwrap_or(FORMAT), generation)
        };
        match format {
            ONE_TREE => {}
            TREES_ALONE | FORMAT => {
                for entry in write.open_table(TREES).map_err(database)?.iter().map_err(database)? {
                    self.trees.0.push(entry.map_err(database)?.0.value());
                }
            }
            other => {
                let told = alloc::format!("its format is {other}, and this version of capOS knows {FORMAT}");
                return Err(StoreError::Format(told));
            }
        }
        if format == FORMAT {
            self.log = Log::new(self.reserve(), generation);
            self.replay(&write, without, at)?;
        }
        {
            let table = write.open_table(NAMESPACES).map_err(database)?;
            for entry in table.iter().map_err(database)? {
                let (number, usage) = entry.map_err(database)?;
                let (name, limit, used) = usage.value();
                self.namespaces.insert(number.value(), Usage { name: String::from(name), limit, used });
            }
        }
        write.commit().map_err(database)
    }

    /// Does again what the log has, so that the next log begins.
    fn replay(
        &mut self,
        write: &WriteTransaction,
        without: &BTreeMap<u64, (u64, u64)>,
        at: &mut Place,
    ) -> Result<(), StoreError> {
        let changes = self.log.read(self.file.lock().blocks_mut())?;
        log::replay(write, &self.trees, &changes, without, at)?;
        if !changes.is_empty() {
            let generation = self.log.skip();
            let mut numbers = write.open_table(NUMBERS).map_err(database)?;
            numbers.insert(GENERATION, generation).map_err(database)?;
        }
        Ok(())
    }
}

/// Notes in a transaction that namespaces from this number on have a tree of their own.
pub(crate) fn begin_tree(write: &WriteTransaction, first: u64) -> Result<(), StoreError> {
    {
        let mut numbers = write.open_table(NUMBERS).map_err(database)?;
        let format = numbers.get(FORMAT_NUMBER).map_err(database)?.map_or(ONE_TREE, |found| found.value());
        numbers.insert(FORMAT_NUMBER, format.max(TREES_ALONE)).map_err(database)?;
    }
    write.open_table(TREES).map_err(database)?.insert(first, ()).map_err(database)?;
    write.open_table(Tree::from(first).table()).map_err(database)?;
    Ok(())
}

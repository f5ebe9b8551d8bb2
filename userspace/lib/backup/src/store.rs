//! Backups of a store, and restoring into one.

use alloc::string::{String, ToString};
use alloc::vec::{IntoIter, Vec};

use capos_store::{ASIDE, Blocks, Durability, Namespace, Snapshot, Store, StoreError, Usage};

use crate::record::Adder;
use crate::{Error, Files, Record, Repository, Source, Sum, read};

/// Bytes of entries that are restored in one transaction.
const AT_ONCE: usize = 1 << 20;

/// The namespace of a restore that has not come to its end: a store with it is not whole. No client has such a name.
const UNFINISHED: &str = "\0restore";

/// Whether a restore into this store was cut off.
pub fn is_unfinished<B: Blocks>(store: &Store<B>) -> bool {
    store.namespace(UNFINISHED).is_some()
}

fn failed(error: StoreError) -> Error {
    Error::Store(error.to_string())
}

/// Table and key of an entry.
type Place = (String, Vec<u8>);

/// The records of a store as it is now. Later commits do not change them.
pub struct StoreSource {
    snapshot: Snapshot,
    namespaces: IntoIter<(Namespace, Usage)>,
    /// The namespace that is read, and the place of its last entry.
    at: Option<(Namespace, Option<Place>)>,
}

impl StoreSource {
    /// The records of a store.
    ///
    /// # Errors
    /// [`Error::Store`]
    pub fn new<B: Blocks>(store: &mut Store<B>) -> Result<Self, Error> {
        let snapshot = store.snapshot().map_err(failed)?;
        let mut namespaces = snapshot.namespaces().map_err(failed)?;
        // What is damaged is in no backup.
        namespaces.retain(|(_, usage)| !usage.name.starts_with(ASIDE));
        namespaces.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        Ok(Self { snapshot, namespaces: namespaces.into_iter(), at: None })
    }

    /// Reads what is left, for its sum.
    fn sum(&mut self) -> Result<Sum, Error> {
        let (mut sum, mut bytes) = (Adder::default(), Vec::new());
        while let Some(record) = self.next_record()? {
            bytes.clear();
            record.encode(&mut bytes);
            sum.add(&bytes, 1);
        }
        Ok(sum.sum())
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        if let Some((namespace, before)) = &mut self.at {
            let known = before.as_ref().map(|(table, key)| (table.as_str(), key.as_slice()));
            if let Some((table, (key, value))) = self.snapshot.next(*namespace, known).map_err(failed)? {
                *before = Some((table.clone(), key.clone()));
                return Ok(Some(Record::Entry { table, key, value }));
            }
            self.at = None;
        }
        Ok(self.namespaces.next().map(|(namespace, Usage { name, limit, .. })| {
            self.at = Some((namespace, None));
            Record::Namespace { name, limit }
        }))
    }
}

impl Source for StoreSource {
    async fn next(&mut self) -> Result<Option<Record>, Error> {
        self.next_record()
    }
}

/// Restores the backup of a time into a store without namespaces, and reads all of it again to compare. If it fails, what it
/// has written is removed, and the store has no namespaces again. If it is cut off, the store [is unfinished](is_unfinished).
/// `progress` is called with the bytes so far, about, and `finish` with the whole store before it counts as finished.
///
/// # Errors
/// The store has namespaces or no room; a file of the backup is missing or altered; the files or the store fail.
pub async fn restore<B: Blocks>(
    repository: &Repository,
    files: &impl Files,
    time: u64,
    store: &mut Store<B>,
    mut progress: impl FnMut(u64),
    finish: impl FnOnce(&mut Store<B>) -> Result<(), String>,
) -> Result<Sum, Error> {
    if !store.usage().is_empty() {
        return Err(Error::Store("a backup is restored onto a blank disk alone, and this one holds something".into()));
    }
    let mark = store.create_namespace(UNFINISHED, 0).map_err(failed)?;
    let mut restoring = Restoring { store, namespace: None, entries: Vec::new(), bytes: 0, all: 0 };
    let mut read = read(repository, files, time, |record| {
        restoring.take(record)?;
        progress(restoring.all);
        Ok(())
    })
    .await;
    if let (Ok(_), Err(error)) = (&read, restoring.commit()) {
        read = Err(error);
    }
    let compared = read.and_then(|sum| {
        store.sync().map_err(failed)?;
        let mut source = StoreSource::new(store)?;
        source.namespaces = Vec::from_iter(source.namespaces.filter(|(namespace, _)| *namespace != mark)).into_iter();
        let equal = source.sum()? == sum;
        equal.then_some(sum).ok_or_else(|| Error::Store("the disk did not keep what was restored onto it".into()))
    });
    match compared.and_then(|sum| finish(store).map(|()| sum).map_err(Error::Store)) {
        Ok(sum) => {
            store.remove_namespace(mark).map_err(failed)?;
            Ok(sum)
        }
        Err(error) => {
            for (namespace, _) in store.usage() {
                store.remove_namespace(namespace).map_err(failed)?;
            }
            Err(error)
        }
    }
}

/// Copies everything that a store holds into one that is empty. One that is cut off is [unfinished](is_unfinished).
///
/// # Errors
/// [`Error::Store`]
pub fn copy<A: Blocks, B: Blocks>(from: &mut Store<A>, to: &mut Store<B>) -> Result<(), Error> {
    let mark = to.create_namespace(UNFINISHED, 0).map_err(failed)?;
    let mut source = StoreSource::new(from)?;
    let mut copying = Restoring { store: to, namespace: None, entries: Vec::new(), bytes: 0, all: 0 };
    while let Some(record) = source.next_record()? {
        copying.take(record)?;
    }
    copying.commit()?;
    to.sync().map_err(failed)?;
    to.remove_namespace(mark).map_err(failed)
}

struct Restoring<'a, B: Blocks> {
    store: &'a mut Store<B>,
    namespace: Option<Namespace>,
    /// Entries that are not committed yet: table, key and value.
    entries: Vec<(String, Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// Bytes of all entries so far.
    all: u64,
}

impl<B: Blocks> Restoring<'_, B> {
    fn take(&mut self, record: Record) -> Result<(), Error> {
        match record {
            Record::Namespace { name, limit } => {
                self.commit()?;
                self.namespace = Some(self.store.create_namespace(&name, limit).map_err(failed)?);
            }
            Record::Entry { table, key, value } => {
                let bytes = key.len().saturating_add(value.len());
                self.bytes = self.bytes.saturating_add(bytes);
                self.all = self.all.saturating_add(bytes as u64);
                self.entries.push((table, key, value));
                if self.bytes >= AT_ONCE {
                    self.commit()?;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let entries = core::mem::take(&mut self.entries);
        self.bytes = 0;
        if entries.is_empty() {
            return Ok(());
        }
        let namespace = self.namespace.ok_or_else(|| Error::Store("the backup has entries of no namespace".into()))?;
        let mut write = self.store.begin().map_err(failed)?;
        for (table, key, value) in &entries {
            write.put(namespace, table, key, value).map_err(failed)?;
        }
        write.commit(Durability::Later).map_err(failed)
    }
}

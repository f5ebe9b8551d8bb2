//! A keyspace over a store in the same process. The store's service answers its holders with the same functions.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Bound;

use capos_schema::store::{Change, ChangeKind};
use capos_store::{ASIDE, BlockError, Blocks, Namespace, Query, Store, StoreError, Write};

use crate::{Batch, Durability, Entries, Fault, Info, Keyspace, MAX_BATCH, MAX_KEY, MAX_VALUE, Range, table_aside};

/// Bytes of entries in one answer, each with 32 for its place in the message.
const ANSWER: usize = 512 << 10;

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        match error {
            StoreError::Blocks(BlockError::Damaged { .. }) => Self::Damaged(why),
            StoreError::Full { .. } | StoreError::Blocks(BlockError::Full) => Self::Full(why),
            StoreError::Quota { .. } => Self::Quota(why),
            StoreError::Length { .. } | StoreError::Exists(_) => Self::Invalid(why),
            _ => Self::Medium(why),
        }
    }
}

fn length(what: &'static str, bytes: usize, most: usize) -> Result<(), Fault> {
    if bytes > most {
        return Err(Fault::Invalid(alloc::format!("a {what} of {bytes} bytes is too long; it may have {most}")));
    }
    Ok(())
}

/// Where a range ends.
fn end(to: &[u8]) -> Bound<&[u8]> {
    if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) }
}

fn name_aside(number: u32, name: &str) -> String {
    alloc::format!("{ASIDE}{number} {name}")
}

/// How often the namespace of this name was set aside.
#[must_use]
pub fn asides<B: Blocks>(store: &Store<B>, name: &str) -> u32 {
    (1_u32..).take_while(|number| store.namespace(&name_aside(*number, name)).is_some()).last().unwrap_or_default()
}

/// The namespace that is read by this name of a table, if it is one that was set aside, and the table there.
///
/// # Errors
/// There is none of this number.
pub fn read_aside<'a, B: Blocks>(
    store: &Store<B>,
    name: &str,
    table: &'a str,
) -> Result<Option<(Namespace, &'a str)>, Fault> {
    let Some((number, table)) = table_aside(table) else { return Ok(None) };
    let found = store.namespace(&name_aside(number, name));
    let found = found.ok_or_else(|| Fault::Invalid(alloc::format!("there is no part {number} that was set aside")))?;
    Ok(Some((found, table)))
}

/// Sets a namespace aside. Returns the one that has its name from then on, and the number of the part.
///
/// # Errors
/// [`Fault`]
pub fn set_aside<B: Blocks>(store: &mut Store<B>, namespace: Namespace, name: &str) -> Result<(Namespace, u32), Fault> {
    let number = asides(store, name).saturating_add(1);
    let new = store.set_aside(namespace, &name_aside(number, name))?;
    Ok((new, number))
}

/// The value of a key.
///
/// # Errors
/// [`Fault`]
pub fn get<B: Blocks>(
    store: &mut Store<B>,
    namespace: Namespace,
    table: &str,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Fault> {
    Ok(store.read(|snapshot| snapshot.get(namespace, table, key))?)
}

/// Entries of a table.
///
/// # Errors
/// [`Fault`]
pub fn range<B: Blocks>(store: &mut Store<B>, namespace: Namespace, range: Range<'_>) -> Result<Entries, Fault> {
    let query = Query {
        from: Bound::Included(range.from),
        to: end(range.to),
        reverse: range.reverse,
        most: usize::try_from(range.most).unwrap_or(usize::MAX),
        most_bytes: ANSWER,
        keys_only: range.keys_only,
    };
    let (entries, more) = store.read(|snapshot| snapshot.range(namespace, range.table, query))?;
    Ok(Entries { entries, more })
}

/// Changes the number at a key by what the namespace takes more, or less, than it did before.
fn count<B: Blocks>(
    write: &mut Write<'_, B>,
    namespace: Namespace,
    Change { table, key, value, .. }: &Change,
    before: u64,
) -> Result<(), Fault> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
    let malformed = |_| Fault::Invalid(alloc::format!("a count in table `{table}` is not a number of 8 bytes"));
    let old = write.get(namespace, table, key)?.map_or(Ok(0), |old| number(&old)).map_err(malformed)?;
    let now = write.usage(namespace)?.used;
    let new = old.saturating_add(now.saturating_sub(before)).saturating_sub(before.saturating_sub(now));
    if now > before && !value.is_empty() {
        let most = number(value).map_err(malformed)?;
        if new > most {
            return Err(Fault::Quota(alloc::format!("it would take {new} bytes of the {most} that it may take")));
        }
    }
    Ok(write.put(namespace, table, key, &new.to_le_bytes())?)
}

/// Checks the lengths of a batch.
///
/// # Errors
/// [`Fault::Invalid`]
pub fn check(changes: &[Change]) -> Result<(), Fault> {
    let mut bytes = 0_usize;
    for change in changes {
        length("key", change.key.len(), MAX_KEY)?;
        length("value", change.value.len(), MAX_VALUE)?;
        if table_aside(&change.table).is_some() {
            return Err(Fault::Invalid("a part that was set aside can only be read".into()));
        }
        bytes = [change.table.len(), change.key.len(), change.value.len(), 64]
            .into_iter()
            .fold(bytes, usize::saturating_add);
    }
    length("batch", bytes, MAX_BATCH)
}

/// Does all changes, or none. Their lengths were [checked](check).
///
/// # Errors
/// [`Fault`]
pub fn commit<B: Blocks>(
    store: &mut Store<B>,
    namespace: Namespace,
    changes: &[Change],
    durability: Durability,
) -> Result<(), Fault> {
    let mut write = store.begin()?;
    let mut counted = write.usage(namespace)?.used;
    for change in changes {
        let Change { table, kind, key, value } = change;
        match kind {
            ChangeKind::Put => write.put(namespace, table, key, value)?,
            ChangeKind::Remove => drop(write.remove(namespace, table, key)?),
            ChangeKind::RemoveRange => write.remove_range(namespace, table, Bound::Included(key), end(value))?,
            ChangeKind::Count => {
                count(&mut write, namespace, change, counted)?;
                counted = write.usage(namespace)?.used;
            }
        }
    }
    write.commit(match durability {
        Durability::Now => capos_store::Durability::Now,
        Durability::Later => capos_store::Durability::Later,
    })?;
    Ok(())
}

/// One namespace of a store in the same process.
#[derive(Debug)]
pub struct LocalKeyspace<B: Blocks> {
    store: Rc<RefCell<Store<B>>>,
    name: Rc<str>,
}

impl<B: Blocks> Clone for LocalKeyspace<B> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), name: self.name.clone() }
    }
}

impl<B: Blocks> LocalKeyspace<B> {
    /// The namespace of this name, which is made if there is none.
    ///
    /// # Errors
    /// The blocks fail.
    pub fn new(store: Rc<RefCell<Store<B>>>, name: &str, limit: u64) -> Result<Self, StoreError> {
        let found = store.borrow().namespace(name);
        if found.is_none() {
            store.borrow_mut().create_namespace(name, limit)?;
        }
        Ok(Self { store, name: name.into() })
    }

    fn namespace(&self) -> Result<Namespace, Fault> {
        let found = self.store.borrow().namespace(&self.name);
        found.ok_or_else(|| Fault::Invalid("the namespace was removed".into()))
    }

    /// The namespace and the table that are read by this name.
    fn read<'a>(&self, table: &'a str) -> Result<(Namespace, &'a str), Fault> {
        let aside = read_aside(&self.store.borrow(), &self.name, table)?;
        aside.map_or_else(|| Ok((self.namespace()?, table)), Ok)
    }

    /// The store.
    pub fn store(&self) -> &Rc<RefCell<Store<B>>> {
        &self.store
    }
}

impl<B: Blocks> Keyspace for LocalKeyspace<B> {
    async fn info(&self) -> Result<Info, Fault> {
        let namespace = self.namespace()?;
        let usage = self.store.borrow().usage();
        let (_, usage) = usage.into_iter().find(|(known, _)| *known == namespace).ok_or(StoreError::Gone)?;
        let asides = asides(&self.store.borrow(), &self.name);
        Ok(Info { limit: usage.limit, used: usage.used, version: 0, lasting: true, read_only: false, asides })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let (namespace, table) = self.read(table)?;
        get(&mut self.store.borrow_mut(), namespace, table, key)
    }

    async fn range(&self, query: Range<'_>) -> Result<Entries, Fault> {
        let (namespace, table) = self.read(query.table)?;
        range(&mut self.store.borrow_mut(), namespace, Range { table, ..query })
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        check(batch.changes())?;
        let namespace = self.namespace()?;
        commit(&mut self.store.borrow_mut(), namespace, batch.changes(), durability)
    }

    async fn sync(&self) -> Result<(), Fault> {
        Ok(self.store.borrow_mut().sync()?)
    }

    async fn set_aside(&self) -> Result<u32, Fault> {
        let namespace = self.namespace()?;
        Ok(set_aside(&mut self.store.borrow_mut(), namespace, &self.name)?.1)
    }
}

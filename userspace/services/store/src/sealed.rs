//! Tables that are kept under the key of a user's home: what is sealed, and the keys that are at hand.
//!
//! Which tables are sealed stands in the store's own namespace ([`NAMESPACE`]). The keys are in memory alone, from a user's login
//! on. `docs/reference/home-keys.md` has the tables.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use capos_home_keys::{HomeKey, ID, NAME_OVERHEAD, OVERHEAD};
use capos_keyspace::{Entries, NUMBER, Range, SEALED_NAME, SEALED_VALUE};
use capos_schema::store::{Change, ChangeKind, StoreFault};
use capos_store::{Blocks, Durability, Namespace, Query, Random, Store, StoreError, Write};
use capos_volume::derive;
use zeroize::Zeroizing;

use crate::spaces::Refusal;

/// The namespace of the store's own. No client has such a name.
pub const NAMESPACE: &str = "\0keys";
/// What it may take: the records of all users, and of 4,095 homes.
pub const LIMIT: u64 = 4 << 20;
/// Which tables are sealed, by the client, a zero byte and the part.
const PARTS: &str = "parts";
/// The version of a part's value.
const VERSION: u8 = 1;
/// Entries that are sealed at once, and their bytes.
const AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 256 << 10;
/// Where the entries of a table are while their names are being sealed. No client's table has such a name.
const MOVING: &str = "\0moving";

const _: () = assert!(OVERHEAD == SEALED_VALUE && NAME_OVERHEAD == SEALED_NAME && capos_home_keys::NUMBER == NUMBER);

/// A table that is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    /// The key that seals it.
    home: [u8; ID],
    owner: Rc<str>,
    /// What follows the first bytes of a key is a name, and sealed.
    named: bool,
}

/// A part of a namespace that is to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What the names of its tables begin with.
    pub name: &'a str,
    pub owner: &'a str,
    pub tables: &'a [String],
    /// Those whose keys hold names.
    pub named: &'a [String],
}

/// What is sealed, and the keys that are at hand.
#[derive(Debug, Default)]
pub struct Sealed {
    /// By client and table. None while it was not read, or may have changed.
    tables: Option<BTreeMap<String, BTreeMap<String, Table>>>,
    /// The keys, by their owners.
    homes: BTreeMap<Rc<str>, Rc<HomeKey>>,
    /// Owners who gave their secret and have no key all the same, with the reason.
    without: BTreeMap<Rc<str>, String>,
    /// Salts follow from a random number and a count.
    salts: (Zeroizing<[u8; 32]>, u64),
}

/// A table with the key that opens it.
pub struct Open<'a> {
    home: Rc<HomeKey>,
    named: bool,
    client: &'a str,
    table: &'a str,
}

impl Open<'_> {
    fn table(&self) -> [&[u8]; 2] {
        [self.client.as_bytes(), self.table.as_bytes()]
    }

    /// A key as it is stored.
    #[must_use]
    pub fn key(&self, key: &[u8]) -> Vec<u8> {
        if self.named { self.home.seal_name(&self.table(), key) } else { key.to_vec() }
    }

    /// Where a range begins: with a key, or behind the one that a zero byte follows.
    fn from(&self, from: &[u8]) -> Vec<u8> {
        match from.split_last() {
            Some((0, key)) if self.named && key.len() >= NUMBER => {
                let mut behind = self.key(key);
                behind.push(0);
                behind
            }
            _ => self.key(from),
        }
    }

    fn damaged(&self) -> Refusal {
        let why = "an entry of a home is not what was sealed there; restore the home from a backup";
        Refusal::Fault(StoreFault::Damaged, why.into())
    }

    /// A value as its holder gave it; `key` is the stored one.
    ///
    /// # Errors
    /// It is not what was sealed here.
    pub fn value(&self, key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Refusal> {
        let [client, table] = self.table();
        self.home.open(&[client, table, key], sealed).ok_or_else(|| self.damaged())
    }

    fn sealed(&self, key: &[u8], value: &[u8], salt: &[u8; 24]) -> Result<Vec<u8>, Refusal> {
        let [client, table] = self.table();
        self.home.seal(&[client, table, key], value, salt).ok_or_else(|| self.damaged())
    }

    /// Reads a range of the stored entries.
    ///
    /// # Errors
    /// It ends within names, the store fails, or an entry is not what was sealed here.
    pub fn range(
        &self,
        range: Range<'_>,
        read: impl FnOnce(Range<'_>) -> Result<Entries, Refusal>,
    ) -> Result<Entries, Refusal> {
        if self.named && range.to.len() > NUMBER {
            return Err(Refusal::Invalid(format!("a range of sealed names ends at {NUMBER} bytes")));
        }
        let from = self.from(range.from);
        let found = read(Range { from: &from, ..range })?;
        let open = |(key, value): (Vec<u8>, Vec<u8>)| {
            let value = if range.keys_only { value } else { self.value(&key, &value)? };
            let [client, table] = self.table();
            let key = if self.named { self.home.open_name(&[client, table], &key) } else { Some(key) };
            Ok((key.ok_or_else(|| self.damaged())?, value))
        };
        let entries = found.entries.into_iter().map(open).collect::<Result<_, Refusal>>()?;
        Ok(Entries { entries, more: found.more })
    }
}

/// Why a user's home is closed, with what to do.
fn locked(owner: &str, without: Option<&String>) -> Refusal {
    let why =
        without.cloned().unwrap_or_else(|| format!("the home of {owner} is locked; it opens when {owner} logs in"));
    Refusal::Fault(StoreFault::Locked, why)
}

impl Sealed {
    /// Nothing is at hand yet.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        let mut sealed = Self::default();
        random(&mut *sealed.salts.0);
        sealed
    }

    fn salt(&mut self) -> [u8; 24] {
        let (seed, count) = &mut self.salts;
        *count = count.wrapping_add(1);
        derive(&**seed, &[b"salt", &count.to_le_bytes()]).first_chunk().copied().unwrap_or_default()
    }

    /// A user's key is at hand from now on.
    pub fn enter(&mut self, owner: &str, home: HomeKey) {
        self.without.remove(owner);
        self.homes.insert(owner.into(), Rc::new(home));
    }

    /// A user has no key, and this is why.
    pub fn without(&mut self, owner: &str, why: String) {
        self.homes.remove(owner);
        self.without.insert(owner.into(), why);
    }

    /// Forgets a user's key.
    pub fn lock(&mut self, owner: &str) {
        self.homes.remove(owner);
        self.without.remove(owner);
    }

    /// A user's key, if it is at hand.
    #[must_use]
    pub fn home(&self, owner: &str) -> Option<Rc<HomeKey>> {
        self.homes.get(owner).cloned()
    }

    /// Why a user who gave their secret has no key.
    #[must_use]
    pub fn why_without(&self, owner: &str) -> Option<&String> {
        self.without.get(owner)
    }

    /// All keys that are at hand, by owner.
    pub fn homes(&self) -> impl Iterator<Item = (&str, &HomeKey)> {
        self.homes.iter().map(|(owner, home)| (&**owner, &**home))
    }

    /// Reads again what is sealed: an error may have taken something back.
    pub fn look_again(&mut self) {
        self.tables = None;
    }

    /// Whether it is known which tables of a client are sealed. If the list cannot be read, that concerns the holder of the homes
    /// alone: no other client has sealed tables.
    fn knows<B: Blocks>(&mut self, store: &mut Store<B>, client: &str) -> Result<bool, Refusal> {
        match self.read(store) {
            Ok(()) => Ok(true),
            Err(Refusal::Fault(StoreFault::Damaged, _)) if client != capos_formats::FILES.namespace => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn read<B: Blocks>(&mut self, store: &mut Store<B>) -> Result<(), Refusal> {
        if self.tables.is_some() {
            return Ok(());
        }
        let mut tables = BTreeMap::new();
        if let Some(namespace) = store.namespace(NAMESPACE) {
            let mut from = Vec::new();
            loop {
                let query = Query { most_bytes: BYTES_AT_ONCE, ..Query::from(Bound::Excluded(&from), AT_ONCE) };
                let (entries, more) = store.read(|snapshot| snapshot.range(namespace, PARTS, query))?;
                for (key, value) in entries {
                    decode(&key, &value, &mut tables).ok_or_else(|| {
                        let why = "the list of the sealed homes is malformed; restore a backup";
                        Refusal::Fault(StoreFault::Damaged, why.into())
                    })?;
                    from = key;
                }
                if !more {
                    break;
                }
            }
        }
        self.tables = Some(tables);
        Ok(())
    }

    fn of(&self, client: &str, table: &str) -> Option<&Table> {
        self.tables.as_ref()?.get(client)?.get(table)
    }

    /// The key of a table; none if it is not sealed.
    ///
    /// # Errors
    /// The key is not at hand, or the store fails.
    pub fn open<'a, B: Blocks>(
        &mut self,
        store: &mut Store<B>,
        client: &'a str,
        table: &'a str,
    ) -> Result<Option<Open<'a>>, Refusal> {
        if !self.knows(store, client)? {
            return Ok(None);
        }
        let Some(Table { home: id, owner, named }) = self.of(client, table) else { return Ok(None) };
        match self.homes.get(owner).filter(|home| home.id == *id) {
            Some(home) => Ok(Some(Open { home: home.clone(), named: *named, client, table })),
            None if self.homes.contains_key(owner) => {
                let why = format!("the home of {owner} was sealed with a key that is gone; restore it from a backup");
                Err(Refusal::Fault(StoreFault::Locked, why))
            }
            None => Err(locked(owner, self.without.get(owner))),
        }
    }

    /// The changes as they are stored; none if they are of no sealed table.
    ///
    /// # Errors
    /// A key is not at hand, a change is of a kind that a sealed table does not have, or the store fails.
    pub fn changes<B: Blocks>(
        &mut self,
        store: &mut Store<B>,
        client: &str,
        changes: &[Change],
    ) -> Result<Option<Vec<Change>>, Refusal> {
        if !self.knows(store, client)? {
            return Ok(None);
        }
        if changes.iter().all(|change| self.of(client, &change.table).is_none()) {
            return Ok(None);
        }
        let seal = |change: &Change| {
            let is_whole = change.key.is_empty() && change.value.is_empty();
            if change.kind == ChangeKind::RemoveRange && is_whole {
                return Ok(change.clone());
            }
            let Some(open) = self.open(store, client, &change.table)? else { return Ok(change.clone()) };
            let (key, value) = match change.kind {
                ChangeKind::Put => {
                    let key = open.key(&change.key);
                    let value = open.sealed(&key, &change.value, &self.salt())?;
                    (key, value)
                }
                ChangeKind::Remove => (open.key(&change.key), Vec::new()),
                ChangeKind::RemoveRange if open.named && change.value.len() > NUMBER => {
                    return Err(Refusal::Invalid(format!("a range of sealed names ends at {NUMBER} bytes")));
                }
                ChangeKind::RemoveRange => (open.from(&change.key), change.value.clone()),
                ChangeKind::Count => {
                    return Err(Refusal::Invalid(format!(
                        "table `{}` is sealed, and cannot hold a count",
                        change.table
                    )));
                }
            };
            Ok(Change { table: change.table.clone(), kind: change.kind, key, value })
        };
        changes.iter().map(seal).collect::<Result<_, _>>().map(Some)
    }

    /// Whether a part is sealed with its owner's key, which is at hand.
    ///
    /// # Errors
    /// It is sealed with another, or for another owner.
    pub fn is_sealed<B: Blocks>(
        &mut self,
        store: &mut Store<B>,
        client: &str,
        part: Part<'_>,
    ) -> Result<bool, Refusal> {
        for table in part.tables.iter().chain(part.named) {
            let table = format!("{}{table}", part.name);
            self.read(store)?;
            if let Some(found) = self.of(client, &table)
                && *found.owner != *part.owner
            {
                let why = format!("the home of {} is sealed as that of {}; restore a backup", part.owner, found.owner);
                return Err(Refusal::Fault(StoreFault::Damaged, why));
            }
            if self.open(store, client, &table)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Seals a part with its owner's key, in one durable transaction.
    ///
    /// # Errors
    /// The owner's key is not at hand, or the store fails. Nothing is sealed then.
    pub fn seal<B: Blocks>(
        &mut self,
        store: &mut Store<B>,
        (client, namespace): (&str, Namespace),
        part: Part<'_>,
    ) -> Result<(), Refusal> {
        let home = self.home(part.owner).ok_or_else(|| locked(part.owner, self.without.get(part.owner)))?;
        let own = own(store)?;
        let (limit, capacity) = (limit(store, namespace), store.capacity());
        let mut write = store.begin()?;
        // The quota holds for what its holder writes.
        write.set_limit(namespace, limit.max(capacity))?;
        for (tables, named) in [(part.tables, false), (part.named, true)] {
            for table in tables {
                let table = format!("{}{table}", part.name);
                let open = Open { home: home.clone(), named, client, table: &table };
                self.table(&mut write, namespace, &open)?;
            }
        }
        write.set_limit(namespace, limit)?;
        write.put(own, PARTS, &[client.as_bytes(), &[0], part.name.as_bytes()].concat(), &encode(&home.id, part))?;
        let done = write.commit(Durability::Now);
        // It may have been done all the same.
        self.look_again();
        Ok(done?)
    }

    fn table<B: Blocks>(
        &mut self,
        write: &mut Write<'_, B>,
        namespace: Namespace,
        open: &Open<'_>,
    ) -> Result<(), Refusal> {
        let query = || Query { most_bytes: BYTES_AT_ONCE, ..Query::from(Bound::Unbounded, AT_ONCE) };
        if !open.named {
            let mut from = Vec::new();
            loop {
                let query = Query { from: Bound::Excluded(&from), ..query() };
                let (entries, more) = write.range(namespace, open.table, query)?;
                for (key, value) in entries {
                    write.put(namespace, open.table, &key, &open.sealed(&key, &value, &self.salt())?)?;
                    from = key;
                }
                if !more {
                    return Ok(());
                }
            }
        }
        // Sealed keys come in another order, so the entries go by another table.
        for to_sealed in [true, false] {
            let (from, to) = if to_sealed { (open.table, MOVING) } else { (MOVING, open.table) };
            loop {
                let (entries, more) = write.range(namespace, from, query())?;
                for (key, value) in entries {
                    write.remove(namespace, from, &key)?;
                    if to_sealed {
                        let sealed = open.key(&key);
                        let value = open.sealed(&sealed, &value, &self.salt())?;
                        write.put(namespace, to, &sealed, &value)?;
                    } else {
                        write.put(namespace, to, &key, &value)?;
                    }
                }
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The namespace of the store's own, which is made at its first use.
///
/// # Errors
/// The store fails.
pub fn own<B: Blocks>(store: &mut Store<B>) -> Result<Namespace, StoreError> {
    match store.namespace(NAMESPACE) {
        Some(namespace) => Ok(namespace),
        None => store.create_namespace(NAMESPACE, LIMIT),
    }
}

fn limit<B: Blocks>(store: &Store<B>, namespace: Namespace) -> u64 {
    store.usage().into_iter().find(|(known, _)| *known == namespace).map_or(0, |(_, usage)| usage.limit)
}

fn encode(home: &[u8; ID], part: Part<'_>) -> Vec<u8> {
    let mut bytes = Vec::from([VERSION]);
    bytes.extend_from_slice(home);
    let mut text = |text: &str| {
        bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(text.as_bytes());
    };
    text(part.owner);
    for (tables, named) in [(part.tables, ""), (part.named, "named")] {
        for table in tables {
            text(named);
            text(table);
        }
    }
    bytes
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    let (length, rest) = from.split_first()?;
    let (text, rest) = rest.split_at_checked((*length).into())?;
    *from = rest;
    core::str::from_utf8(text).ok()
}

fn decode(key: &[u8], value: &[u8], tables: &mut BTreeMap<String, BTreeMap<String, Table>>) -> Option<()> {
    let (client, part) = core::str::from_utf8(key).ok()?.split_once('\0')?;
    let rest = value.strip_prefix(&[VERSION])?;
    let (home, mut rest) = rest.split_first_chunk::<ID>()?;
    let owner: Rc<str> = text(&mut rest)?.into();
    let tables = tables.entry(client.into()).or_default();
    while !rest.is_empty() {
        let named = !text(&mut rest)?.is_empty();
        let table = Table { home: *home, owner: owner.clone(), named };
        tables.insert(format!("{part}{}", text(&mut rest)?), table);
    }
    Some(())
}

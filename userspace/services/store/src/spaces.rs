//! The namespaces of an open store: what each client may take, and which version its namespace has.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::local;
use capos_keyspace::{Durability, Entries, Fault, Range};
use capos_schema::store::{Change, NamespaceInfo, StoreFault};
use capos_store::{LeftOut, Namespace, Store, StoreError};

use crate::base::{Base, DataDisk};
use crate::marks::Marks;
use crate::sealed::{Part, Sealed};
use crate::shares::Shares;

/// Bytes of the name of a part, and of its owner.
const MAX_TEXT: usize = 64;

/// Why a namespace did not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The holder can act on it.
    Fault(StoreFault, String),
    /// The call is wrong.
    Invalid(String),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let why = format!("{fault}");
        fault.answer().map_or(Self::Invalid(why.clone()), |fault| Self::Fault(fault, why))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Fault::from(error).into()
    }
}

/// An open store, by the names of its clients.
#[derive(Debug)]
pub struct Spaces<D: DataDisk> {
    store: Store<Base<D>>,
    shares: Shares,
    known: BTreeMap<String, Namespace>,
    /// The version of each namespace that was changed in this life.
    versions: BTreeMap<Namespace, u64>,
    /// Those with commits that are not durable.
    unsynced: Marks,
    /// Those whose commits were taken back, and who were not told yet.
    lost: Marks,
    /// Of the store, when that was looked at last.
    losses: u64,
    /// How many changes of the log were lost, as far as this was told.
    left_out: u64,
    /// The failure of the disk that was told last.
    told: Option<String>,
    /// Of a store that is read alone although the disk can be written.
    reading: Option<Reading<D>>,
    /// What is kept under keys of users' homes.
    sealed: Sealed,
}

/// How a store is read of which this version of capOS does not know all parts.
#[derive(Debug)]
struct Reading<D: DataDisk> {
    /// Why it is read alone.
    why: String,
    /// The clients that read it.
    clients: &'static [&'static str],
    /// The store in memory of all others.
    others: Box<Spaces<D>>,
}

impl<D: DataDisk> Spaces<D> {
    /// Opens the store on a base.
    ///
    /// # Errors
    /// The base fails, or holds something else.
    pub fn open(base: Base<D>, shares: Shares) -> Result<Self, StoreError> {
        Ok(Self::new(Store::open(base)?, shares))
    }

    /// The namespaces of an open store.
    #[must_use]
    pub fn new(store: Store<Base<D>>, shares: Shares) -> Self {
        Self {
            losses: store.losses(),
            left_out: 0,
            store,
            shares,
            known: BTreeMap::new(),
            versions: BTreeMap::new(),
            unsynced: Marks::default(),
            lost: Marks::default(),
            told: None,
            reading: None,
            sealed: Sealed::default(),
        }
    }

    /// Keeps homes under their users' keys.
    #[must_use]
    pub fn with_keys(self, sealed: Sealed) -> Self {
        Self { sealed, ..self }
    }

    /// The keys that are at hand.
    pub fn sealed(&mut self) -> &mut Sealed {
        &mut self.sealed
    }

    /// The store, with the keys that are at hand.
    pub fn parts(&mut self) -> (&mut Store<Base<D>>, &mut Sealed) {
        (&mut self.store, &mut self.sealed)
    }

    /// Lets these clients read the store, which is open for reading alone. All others get a store in memory.
    #[must_use]
    pub fn read_by(mut self, clients: &'static [&'static str], why: String, others: Self) -> Self {
        self.reading = Some(Reading { why, clients, others: Box::new(others) });
        self
    }

    /// The namespaces in memory, for a client who does not read the store that is read alone.
    fn others(&mut self, client: &str) -> Option<&mut Self> {
        let reading = self.reading.as_mut().filter(|reading| !reading.clients.contains(&client))?;
        Some(&mut *reading.others)
    }

    /// Continues an earlier life of the process, in which these had commits that were not durable and this was lost.
    pub fn continue_after(&mut self, unsynced: &Marks, left_out: &BTreeMap<LeftOut, u64>) {
        self.lost.add(unsynced);
        self.store.add_left_out(left_out);
    }

    /// Changes of the log that were lost with damaged blocks, in this life of the process and in earlier ones.
    #[must_use]
    pub fn left_out(&self) -> &BTreeMap<LeftOut, u64> {
        self.store.left_out()
    }

    /// Who is to be told, should the process end now. In memory everything ends with it.
    #[must_use]
    pub fn at_risk(&self) -> Marks {
        if !self.is_lasting() || self.reading.is_some() {
            return Marks::all();
        }
        let mut marks = self.unsynced.clone();
        marks.add(&self.lost);
        marks
    }

    /// Why the disk cannot be written although it could be, with what to do.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.store.with_blocks(Base::failure).map(|why| {
            format!(
                "the data disk failed ({why}), so the volume is open for reading alone: copy what you need to another \
                 disk, replace this one, and restore a backup"
            )
        })
    }

    /// What has changed with the disk since this was asked last, as a sentence.
    pub fn news(&mut self) -> Option<String> {
        let left_out = self.store.left_out().values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        if left_out > self.left_out {
            self.left_out = left_out;
            return Some(self.lost());
        }
        let failure = self.failure();
        if failure == self.told {
            return None;
        }
        self.told.clone_from(&failure);
        Some(failure.unwrap_or_else(|| "the data disk can be written again".into()))
    }

    /// What the store has lost of what was saved last because blocks are damaged, as a sentence; empty if it has lost nothing.
    #[must_use]
    pub fn lost(&self) -> String {
        let mut counts = BTreeMap::new();
        for (LeftOut { namespace, block, .. }, number) in self.store.left_out() {
            let count = counts.entry((namespace, block)).or_insert(0_u64);
            *count = count.saturating_add(*number);
        }
        let parts: Vec<String> = counts
            .into_iter()
            .map(|((namespace, block), number)| {
                let known = capos_formats::ALL.iter().find(|format| format.namespace == namespace);
                let name = known.map_or(namespace.as_str(), |format| format.name);
                format!("{} of the {name} (block {block} of the data disk)", capos_plural::count(number, "change"))
            })
            .collect();
        if parts.is_empty() {
            return String::new();
        }
        format!(
            "the data disk is damaged, and of what was saved last it has lost {}; other changes saved together with them are there, and \
             a backup may have these",
            parts.join(", ")
        )
    }

    /// Notes whose commits an error has taken back.
    pub(crate) fn settle(&mut self) {
        if self.losses != self.store.losses() {
            self.lost.add(&core::mem::take(&mut self.unsynced));
            // Whether it can still be written is known when it is open again; if that fails, the next call says so.
            let _ = self.store.recover();
            self.losses = self.store.losses();
            self.sealed.look_again();
        }
    }

    /// Does something with the store.
    fn with<T>(&mut self, work: impl FnOnce(&mut Store<Base<D>>) -> Result<T, Fault>) -> Result<T, Refusal> {
        let done = work(&mut self.store);
        self.settle();
        done.map_err(|fault| match fault {
            Fault::Medium(why) => {
                Refusal::Fault(StoreFault::Medium, format!("{why}; check the data disk and its cable"))
            }
            other => other.into(),
        })
    }

    /// A client begins to change something. After a failure of the disk, its writing is tried again.
    fn begin(&mut self, client: &str) -> Result<Namespace, Refusal> {
        if self.failure().is_some() {
            self.with(|store| Ok(store.open_again()?))?;
        }
        if let Some(refusal) = self.reading_alone() {
            return Err(refusal);
        }
        let namespace = self.namespace(client)?;
        if self.lost.remove(namespace) {
            let why = "the disk or the store failed, and changes that were not durable yet were lost; what was durable is \
                       there; do it again";
            return Err(Refusal::Fault(StoreFault::Lost, why.into()));
        }
        Ok(namespace)
    }

    /// Why nothing can be written, with what to do.
    #[must_use]
    pub fn why_read_only(&self) -> Option<String> {
        let reading = || self.reading.as_ref().map(|reading| reading.why.clone());
        self.is_read_only().then(|| {
            self.failure().or_else(reading).unwrap_or_else(|| {
                "the data disk cannot be written, so the volume is open for reading alone; attach it writable and start \
                 again"
                    .into()
            })
        })
    }

    fn reading_alone(&self) -> Option<Refusal> {
        self.why_read_only().map(|why| Refusal::Fault(StoreFault::ReadOnly, why))
    }

    /// Whether a client's namespace is on a disk.
    pub fn is_lasting_for(&mut self, client: &str) -> bool {
        self.others(client).is_none() && self.is_lasting()
    }

    /// Whether it is on a disk.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.store.with_blocks(Base::is_lasting)
    }

    /// Whether nothing can be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.reading.is_some() || self.store.with_blocks(Base::is_read_only)
    }

    /// Works on the store as a whole, for all clients.
    pub fn with_store<T>(&mut self, work: impl FnOnce(&mut Store<Base<D>>) -> T) -> T {
        work(&mut self.store)
    }

    /// Works on the base. Writing to it damages the store.
    pub fn with_base<T>(&mut self, work: impl FnOnce(&mut Base<D>) -> T) -> T {
        self.store.with_blocks_mut(work)
    }

    /// The namespace of a client, which is made at its first use. Its limit is the client's share.
    fn namespace(&mut self, client: &str) -> Result<Namespace, Refusal> {
        if let Some(known) = self.known.get(client) {
            return Ok(*known);
        }
        let limit = self.shares.limit(client, self.store.capacity());
        let read_only = self.reading_alone();
        let found = self.store.namespace(client);
        let namespace = match found {
            Some(namespace) => {
                let now = self.store.usage().into_iter().find(|(known, _)| *known == namespace);
                if read_only.is_none() && now.is_some_and(|(_, usage)| usage.limit != limit) {
                    self.with(|store| Ok(store.set_limit(namespace, limit)?))?;
                }
                namespace
            }
            None if let Some(refusal) = read_only => return Err(refusal),
            None => self.with(|store| Ok(store.create_namespace(client, limit)?))?,
        };
        self.known.insert(client.into(), namespace);
        Ok(namespace)
    }

    /// Versions grow over lives of the process, and when an error takes back what was not synced: the volume counts how often
    /// it was opened.
    fn version(&self, namespace: Namespace) -> u64 {
        let base = u64::from(self.store.with_blocks(Base::mounts)) << 32;
        self.versions.get(&namespace).copied().unwrap_or(0).max(base).max(1)
    }

    /// What a client's namespace is like.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn info(&mut self, client: &str) -> Result<NamespaceInfo, Refusal> {
        if let Some(others) = self.others(client) {
            return others.info(client);
        }
        let namespace = self.namespace(client)?;
        let found = self.store.usage().into_iter().find(|(known, _)| *known == namespace);
        let (_, usage) = found.ok_or(StoreError::Gone)?;
        Ok(NamespaceInfo {
            limit: usage.limit,
            used: usage.used,
            version: self.version(namespace),
            lasting: self.is_lasting(),
            read_only: self.is_read_only(),
            asides: local::asides(&self.store, client),
        })
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn get(&mut self, client: &str, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        if let Some(others) = self.others(client) {
            return others.get(client, table, key);
        }
        if let Some((aside, table)) = local::read_aside(&self.store, client, table)? {
            return self.with(|store| local::get(store, aside, table, key));
        }
        let namespace = self.namespace(client)?;
        let Some(open) = self.sealed.open(&mut self.store, client, table)? else {
            return self.with(|store| local::get(store, namespace, table, key));
        };
        let key = open.key(key);
        let found = self.with(|store| local::get(store, namespace, table, &key))?;
        found.map(|value| open.value(&key, &value)).transpose()
    }

    /// Entries of a table.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn range(&mut self, client: &str, range: Range<'_>) -> Result<Entries, Refusal> {
        if let Some(others) = self.others(client) {
            return others.range(client, range);
        }
        if let Some((aside, table)) = local::read_aside(&self.store, client, range.table)? {
            return self.with(|store| local::range(store, aside, Range { table, ..range }));
        }
        let namespace = self.namespace(client)?;
        match self.sealed.open(&mut self.store, client, range.table)? {
            Some(open) => open.range(range, |range| self.with(|store| local::range(store, namespace, range))),
            None => self.with(|store| local::range(store, namespace, range)),
        }
    }

    /// Does all changes, or none. `based` is the version that they are based on, or 0. Returns the new version.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn commit(&mut self, client: &str, changes: &[Change], durable: bool, based: u64) -> Result<u64, Refusal> {
        if let Some(others) = self.others(client) {
            return others.commit(client, changes, durable, based);
        }
        let namespace = self.begin(client)?;
        let version = self.version(namespace);
        if based != 0 && based != version {
            let why =
                format!("the namespace has version {version}, and the changes are based on {based}; read it again");
            return Err(Refusal::Fault(StoreFault::Changed, why));
        }
        let durability = if durable { Durability::Now } else { Durability::Later };
        local::check(changes)?;
        let sealed = self.sealed.changes(&mut self.store, client, changes)?;
        let changes = sealed.as_deref().unwrap_or(changes);
        self.with(|store| local::commit(store, namespace, changes, durability))?;
        if durable {
            self.unsynced = Marks::default();
        } else {
            self.unsynced.insert(namespace);
        }
        Ok(self.next_version(namespace))
    }

    /// Starts a client's namespace over, and keeps what it held. Returns the number of that part.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn set_aside(&mut self, client: &str) -> Result<u32, Refusal> {
        if self.others(client).is_some() || !self.is_lasting() {
            return Err(Refusal::Invalid("nothing is set aside of what is in memory".into()));
        }
        let namespace = self.begin(client)?;
        let (new, number) = self.with(|store| local::set_aside(store, namespace, client))?;
        // That was durable, and with it all before.
        self.unsynced = Marks::default();
        let version = self.version(namespace).saturating_add(1);
        self.versions.insert(new, version);
        self.known.insert(client.into(), new);
        Ok(number)
    }

    fn next_version(&mut self, namespace: Namespace) -> u64 {
        let next = self.version(namespace).saturating_add(1);
        self.versions.insert(namespace, next);
        next
    }

    /// Keeps a part of a client's namespace under the key of its owner's home. False if there is no such key, with the reason
    /// where the owner could have one.
    ///
    /// # Errors
    /// The part's key, or that of its owner, is not at hand; [`Refusal`].
    pub fn protect(
        &mut self,
        client: &str,
        part: Part<'_>,
        why_not: Option<String>,
    ) -> Result<(bool, String), Refusal> {
        if self.others(client).is_some() || !self.is_lasting() {
            return Ok((false, String::new()));
        }
        if part.name.is_empty() || part.name.len() > MAX_TEXT || part.owner.len() > MAX_TEXT {
            return Err(Refusal::Invalid(format!("a part and its owner have names of 1 to {MAX_TEXT} bytes")));
        }
        if self.sealed.is_sealed(&mut self.store, client, part)? {
            return Ok((true, String::new()));
        }
        if let Some(why) = why_not {
            return Ok((false, why));
        }
        let namespace = self.begin(client)?;
        let sealed = self.sealed.seal(&mut self.store, (client, namespace), part);
        self.settle();
        match sealed {
            Ok(()) => {
                self.unsynced = Marks::default();
                self.next_version(namespace);
                Ok((true, String::new()))
            }
            // It is no less readable than before.
            Err(Refusal::Fault(fault @ (StoreFault::Full | StoreFault::Quota), why)) => {
                Ok((false, format!("there is no room to seal it ({why}; {fault:?})")))
            }
            Err(other) => Err(other),
        }
    }

    /// Makes all commits durable, of every client.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn sync(&mut self, client: &str) -> Result<(), Refusal> {
        if let Some(others) = self.others(client) {
            return others.sync(client);
        }
        self.begin(client)?;
        self.with(|store| Ok(store.sync()?))?;
        self.unsynced = Marks::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use capos_schema::store::ChangeKind;
    use capos_store::MemoryBlocks;

    use super::*;

    #[derive(Clone)]
    struct NoDisk;

    impl capos_volume::Disk for NoDisk {
        fn blocks(&self) -> u64 {
            0
        }

        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), capos_volume::DiskError> {
            Err(capos_volume::DiskError::Gone)
        }

        fn write(&mut self, _: u64, _: &[u8]) -> Result<(), capos_volume::DiskError> {
            Err(capos_volume::DiskError::Gone)
        }

        fn flush(&mut self) -> Result<(), capos_volume::DiskError> {
            Err(capos_volume::DiskError::Gone)
        }
    }

    fn in_memory(shares: &str) -> Spaces<NoDisk> {
        Spaces::open(Base::Memory(MemoryBlocks::new(1024)), Shares::parse(shares).unwrap()).unwrap()
    }

    fn put(key: &[u8], bytes: usize) -> Vec<Change> {
        alloc::vec![Change {
            table: "t".into(),
            kind: ChangeKind::Put,
            key: key.to_vec(),
            value: alloc::vec![7; bytes]
        }]
    }

    fn fault(refusal: Result<u64, Refusal>) -> StoreFault {
        match refusal {
            Err(Refusal::Fault(fault, why)) if !why.is_empty() => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_client_has_its_own_namespace_and_share() {
        let mut spaces = in_memory("files=50");
        let (files, other) = (spaces.info("files").unwrap(), spaces.info("other").unwrap());
        assert_eq!((files.limit / 5, files.used, files.lasting), (other.limit, 0, false));
        spaces.commit("files", &put(b"a", 1000), true, 0).unwrap();
        assert_eq!(spaces.get("other", "t", b"a"), Ok(None));
        assert_eq!(spaces.get("files", "t", b"a").unwrap().unwrap().len(), 1000);
        assert!(spaces.info("files").unwrap().used > 1000 && spaces.info("other").unwrap().used == 0);
        let large = usize::try_from(other.limit).unwrap();
        assert_eq!(fault(spaces.commit("other", &put(b"a", large), true, 0)), StoreFault::Quota);
        assert!(matches!(spaces.commit("other", &put(b"", 1), true, 0), Err(Refusal::Invalid(_))));
        assert_eq!(spaces.sync("files"), Ok(()));
    }

    #[test]
    fn a_commit_that_is_based_on_an_older_version_is_rejected() {
        let mut spaces = in_memory("");
        let first = spaces.info("a").unwrap().version;
        let second = spaces.commit("a", &put(b"k", 1), true, first).unwrap();
        assert!(first > 0 && second > first && spaces.info("a").unwrap().version == second);
        assert_eq!(fault(spaces.commit("a", &put(b"k", 2), true, first)), StoreFault::Changed);
        assert_eq!(spaces.get("a", "t", b"k").unwrap().unwrap().len(), 1);
        // Another namespace's version is its own.
        spaces.commit("b", &put(b"k", 1), true, 0).unwrap();
        assert!(spaces.commit("a", &put(b"k", 3), true, second).is_ok());
    }

    #[test]
    fn a_share_that_the_manifest_changes_is_changed() {
        let blocks = MemoryBlocks::new(1024);
        let mut spaces: Spaces<NoDisk> = Spaces::open(Base::Memory(blocks), Shares::parse("a=50").unwrap()).unwrap();
        let before = spaces.info("a").unwrap().limit;
        let base = spaces.store.close().unwrap();
        let mut spaces = Spaces::open(base, Shares::default()).unwrap();
        assert_eq!(spaces.info("a").unwrap().limit, before / 5);
    }
}

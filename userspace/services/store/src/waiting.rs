//! A store that is unlocked and not served yet: some of its parts have other formats than this version of capOS knows.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Bound;

use capos_formats::{Entry, Format, KEY, Plan, TABLE, Tables};
use capos_schema::store::VolumeState;
use capos_store::{BlockError, Blocks, Durability, Namespace, Query, Store, StoreError, Write};
use capos_volume::Access;

use crate::base::{Base, DataDisk};

/// The clients who can read a store of which other parts are not known: who the users are, and their files.
pub const READERS: &[&str] = &["broker", "files"];

/// A store that waits for a person, open for reading alone.
pub struct Waiting<D: DataDisk> {
    store: Store<Base<D>>,
    plan: Plan,
    formats: &'static [Format],
}

/// What an unlocked store is.
pub enum Looked<D: DataDisk> {
    /// All parts have the formats that are known.
    Known(Store<Base<D>>),
    Waiting(Waiting<D>),
}

impl<D: DataDisk> Looked<D> {
    /// One that waits is open for reading alone.
    ///
    /// # Errors
    /// It cannot be opened so.
    pub fn unwritten(mut self) -> Result<Self, StoreError> {
        if let Self::Waiting(waiting) = &mut self {
            waiting.read_alone()?;
        }
        Ok(self)
    }

    /// Whether a restore onto the volume was cut off.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let (Self::Known(store) | Self::Waiting(Waiting { store, .. })) = self;
        capos_backup::store::is_unfinished(store)
    }
}

/// Looks at the formats of a store that is open for reading alone. Nothing is written to the disk.
///
/// # Errors
/// The store cannot be read, or is of another format itself.
pub fn look<D: DataDisk>(base: Base<D>, formats: &'static [Format]) -> Result<Looked<D>, StoreError> {
    let mut store = Store::open(base)?;
    let plan = plan(&mut store, formats)?;
    Ok(if plan.is_empty() { Looked::Known(store) } else { Looked::Waiting(Waiting { store, plan, formats }) })
}

/// What is to be done with a store.
fn plan<D: DataDisk>(store: &mut Store<Base<D>>, formats: &'static [Format]) -> Result<Plan, StoreError> {
    Plan::new(formats, |name| {
        let Some(namespace) = store.namespace(name) else { return Ok(None) };
        match store.read(|snapshot| snapshot.get(namespace, TABLE, KEY)) {
            // Its holder finds that, and the others go on.
            Err(StoreError::Blocks(BlockError::Damaged { .. })) => Ok(None),
            read => read,
        }
    })
}

impl<D: DataDisk> Waiting<D> {
    /// What it waits for.
    #[must_use]
    pub fn state(&self) -> VolumeState {
        if self.plan.newer.is_empty() { VolumeState::Older } else { VolumeState::OtherVersion }
    }

    /// State and way out, as a sentence that begins with the volume.
    #[must_use]
    pub fn details(&self) -> String {
        match self.state() {
            VolumeState::Older => {
                "was written by an older version of capOS; it is migrated before anybody logs in".into()
            }
            _ => format!(
                "was written by a newer version of capOS: {}; nothing was changed; start the newer version",
                self.plan.unknown()
            ),
        }
    }

    /// What happens once it is confirmed, a sentence each; none if there is nothing to confirm.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        if self.state() == VolumeState::Older {
            return self.plan.sentences();
        }
        if !READERS.iter().all(|client| self.plan.knows(client)) {
            return Vec::new();
        }
        Vec::from(
            [
                "You can log in and read your files, and export them to a transfer volume.",
                "No file can be changed. Everything else of the session is in memory: its conversation and its audit log end \
                 with the machine, and what is saved of others is not shown.",
            ]
            .map(ToString::to_string),
        )
    }

    /// Works on the base. Writing to it damages the store.
    pub fn with_base<T>(&mut self, work: impl FnOnce(&mut Base<D>) -> T) -> T {
        self.store.with_blocks_mut(work)
    }

    /// The store, to be read as it is.
    #[must_use]
    pub fn into_store(self) -> Store<Base<D>> {
        self.store
    }

    /// Migrates all parts in one transaction. After an error the disk holds what it held before, and that was looked at again.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn migrate(&mut self) -> Result<(), String> {
        let done = self.write();
        let Err(why) = done else { return Ok(()) };
        let again = self.read_alone().and_then(|()| plan(&mut self.store, self.formats));
        self.plan = again.map_err(|error| error.to_string())?;
        if !self.plan.is_empty() {
            return Err(why);
        }
        // The disk has it all the same.
        open_for_writing(&mut self.store).map_err(|error| error.to_string())
    }

    fn read_alone(&mut self) -> Result<(), StoreError> {
        self.store.with_blocks_mut(|base| base.set_access(Access::Read));
        self.store.open_again()
    }

    fn write(&mut self) -> Result<(), String> {
        let told = |error: StoreError| error.to_string();
        open_for_writing(&mut self.store).map_err(told)?;
        if self.store.with_blocks(Base::is_read_only) {
            let failure = self.store.with_blocks(Base::failure);
            return Err(failure.unwrap_or_else(|| "the disk cannot be written".into()));
        }
        let (capacity, parts) = (self.store.capacity(), &self.plan.older);
        let found = parts.iter().filter_map(|part| Some((part, self.store.namespace(part.format.namespace)?)));
        let found: Vec<_> = found.collect();
        let mut write = self.store.begin().map_err(told)?;
        for (part, namespace) in found {
            // The quota holds for what its holder writes. It is set again when the holder comes.
            write.set_limit(namespace, capacity).map_err(told)?;
            part.migrate(&mut Inside { write: &mut write, namespace })?;
            let version = part.format.version().to_le_bytes();
            write.put(namespace, TABLE, KEY, &version).map_err(told)?;
        }
        write.commit(Durability::Now).map_err(told)
    }
}

/// Opens a store again for writing; for reading alone if the disk cannot be written.
///
/// # Errors
/// It cannot be read either.
pub fn open_for_writing<D: DataDisk>(store: &mut Store<Base<D>>) -> Result<(), StoreError> {
    store.with_blocks_mut(|base| base.set_access(Access::Write));
    store.open_again()
}

/// A part of the store inside the transaction.
struct Inside<'w, 's, B: Blocks> {
    write: &'w mut Write<'s, B>,
    namespace: Namespace,
}

impl<B: Blocks> Tables for Inside<'_, '_, B> {
    fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.write.get(self.namespace, table, key).map_err(|error| error.to_string())
    }

    fn after(&mut self, table: &str, key: &[u8]) -> Result<Option<Entry>, String> {
        let from = if key.is_empty() { Bound::Unbounded } else { Bound::Excluded(key) };
        let found = self.write.range(self.namespace, table, Query::from(from, 1));
        found.map(|(entries, _)| entries.into_iter().next()).map_err(|error| error.to_string())
    }

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.write.put(self.namespace, table, key, value).map_err(|error| error.to_string())
    }

    fn remove(&mut self, table: &str, key: &[u8]) -> Result<(), String> {
        self.write.remove(self.namespace, table, key).map(drop).map_err(|error| error.to_string())
    }
}

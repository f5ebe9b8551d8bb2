//! The boot package: a ustar archive in the memory that the loader left it in.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;

use capos_rt::memory::{Access, Mapping, map_all};
use capos_rt::{Context, Error};
use capos_schema::cap::CallError;
use capos_schema::kernel::MemoryObjectClient;
use capos_ustar::{ArchiveError, BLOCK, Entry};

/// Files at most: many more than a package needs.
const MAX_FILES: usize = 64;

/// The boot package.
#[derive(Debug)]
pub struct BootPackage {
    mapping: Mapping,
    entries: Vec<Entry>,
}

/// Why the package cannot be listed.
enum Failure {
    Archive(ArchiveError),
    TooMany,
    Read(CallError),
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive(error) => error.fmt(f),
            Self::TooMany => write!(f, "it has more than {MAX_FILES} files"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl BootPackage {
    /// Opens the package in this memory.
    ///
    /// # Errors
    /// It cannot be mapped, or is damaged.
    pub fn open(memory: &MemoryObjectClient) -> Result<Self, Error> {
        let mapping = map_all(memory, Access::Read).context("mapping the boot package")?;
        let mut entries = Vec::new();
        let read = |at, block: &mut [u8; BLOCK]| mapping.read(at, block).map_err(Failure::Read);
        capos_ustar::entries(mapping.len(), read, |entry| {
            if entries.len() == MAX_FILES {
                return Err(Failure::TooMany);
            }
            entries.push(entry);
            Ok(())
        })
        .context("the boot package is damaged (write the image to its medium again, or build it again)")?;
        Ok(Self { mapping, entries })
    }

    /// Names of its files.
    pub fn names(&self) -> Vec<&str> {
        self.entries.iter().map(Entry::name).collect()
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn file(&self, name: &str) -> Result<Rc<[u8]>, Error> {
        let missing = || format!("the boot package has no `{name}`; it has {}", self.names().join(", "));
        let entry = self.entries.iter().find(|entry| entry.name() == name).with_context(missing)?;
        let bytes = usize::try_from(entry.bytes).ok().with_context(|| format!("`{name}` is too large"))?;
        Ok(self.mapping.read_vec(entry.offset, bytes)?.into())
    }
}

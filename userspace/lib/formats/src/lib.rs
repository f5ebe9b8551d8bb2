//! Formats of what lasts: the version of each part of the store, and the steps to it from older ones.
//!
//! Each part is a namespace. Its table `format` has the version under the key `version`, in 4 bytes, little-endian. Whoever
//! changes what a part holds so that an older version of capOS would misread it raises the version here and adds a step.
//! The store runs the steps of all parts in one transaction, before it answers any namespace.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod plan;
#[cfg(feature = "next")]
mod trial;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use plan::{Part, Plan};

/// The table of a version, and its key there.
pub const TABLE: &str = "format";
pub const KEY: &[u8] = b"version";

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The tables of one part, as the steps so far leave them.
pub trait Tables {
    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// The first entry of a table behind a key; behind an empty one, the first of all.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn after(&mut self, table: &str, key: &[u8]) -> Result<Option<Entry>, String>;

    /// Gives a key a value.
    ///
    /// # Errors
    /// Why it cannot.
    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), String>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// Why it cannot.
    fn remove(&mut self, table: &str, key: &[u8]) -> Result<(), String>;
}

/// From one version of a part to the next. It is a function of the part's tables alone.
pub struct Step {
    /// What it does, for a person: the rest of a sentence that begins with the part's name.
    pub says: &'static str,
    /// Does it.
    ///
    /// # Errors
    /// Why it cannot: the tables are not those of its version, or the store has no room.
    pub run: fn(&mut dyn Tables) -> Result<(), String>,
}

/// A part of the store.
pub struct Format {
    /// Its namespace: the service that keeps it.
    pub namespace: &'static str,
    /// What it is called, in the plural.
    pub name: &'static str,
    /// The steps, from version 1 on. No version is ever left out.
    pub steps: &'static [Step],
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.namespace, self.version())
    }
}

impl Format {
    /// The version that this version of capOS reads and writes.
    #[must_use]
    pub const fn version(&self) -> u32 {
        let mut version: u32 = 1;
        let mut left = self.steps;
        while let [_, rest @ ..] = left {
            (version, left) = (version.saturating_add(1), rest);
        }
        version
    }
}

/// Users and settings.
pub const USERS: Format = Format { namespace: "broker", name: "users and settings", steps: &[] };
/// Home directories and installed models. The tree of each home has a version of its own, below its prefix.
pub const FILES: Format = Format {
    namespace: "files",
    name: "home directories",
    // An older version would read sealed entries as if they were none. They are sealed when their owner is there.
    steps: &[Step { says: "get keys of their own, each at a login of its user", run: |_| Ok(()) }],
};
/// Who can open the keys of homes. Only the store itself reads this namespace.
pub const KEYS: Format = Format { namespace: "\0keys", name: "keys of homes", steps: &[] };
/// The records of the audit log, and what is computed from them.
pub const AUDIT: Format = Format { namespace: "audit", name: "records of the audit log", steps: &[] };
/// Saved conversations.
pub const CONVERSATIONS: Format = Format {
    namespace: "conversations",
    name: "conversations",
    #[cfg(not(feature = "next"))]
    steps: &[],
    #[cfg(feature = "next")]
    steps: &[trial::TITLES],
};

/// All parts.
pub const ALL: &[Format] = &[USERS, FILES, KEYS, AUDIT, CONVERSATIONS];

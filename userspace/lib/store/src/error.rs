//! Why the store could not do something.

use alloc::string::{String, ToString};
use core::fmt;

use crate::BlockError;

/// Why the store could not do something. The transaction that met it has no effect.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The blocks failed.
    Blocks(BlockError),
    /// The blocks hold something else, or a store of another format; they are left alone.
    Format(String),
    /// There is no room for it on the blocks.
    Full {
        /// Bytes that all namespaces may take.
        capacity: u64,
        /// Bytes that they would take.
        needed: u64,
    },
    /// The namespace's quota does not cover it.
    Quota {
        /// The namespace.
        name: String,
        /// Bytes that it may take.
        limit: u64,
        /// Bytes that it would take.
        needed: u64,
    },
    /// A name, key or value is longer than it may be, or empty.
    Length {
        /// What it is.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The most that it may have.
        most: usize,
    },
    /// There is a namespace of this name already.
    Exists(String),
    /// There is no such namespace any more.
    Gone,
    /// After an error the store was opened again, and this snapshot is of the time before.
    Stale,
    /// The database below met something that it should not have; the text is its own.
    Database(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(error) => write!(f, "the store's disk: {error}"),
            Self::Format(found) => write!(f, "the disk holds no store of this format: {found}"),
            Self::Full { capacity, needed } => {
                write!(
                    f,
                    "the store is full: {needed} bytes are needed and it holds {capacity}; delete something first"
                )
            }
            Self::Quota { name, limit, needed } => write!(
                f,
                "the quota of `{name}` is {limit} bytes and {needed} are needed; delete something or have it raised"
            ),
            Self::Length { what, bytes: 0, .. } => write!(f, "a {what} of the store is empty"),
            Self::Length { what, bytes, most } => {
                write!(f, "a {what} of the store has {bytes} bytes; it may have {most}")
            }
            Self::Exists(name) => write!(f, "the store has a namespace `{name}` already"),
            Self::Stale => f.write_str("the store was opened again after an error; begin again with a new snapshot"),
            Self::Gone => f.write_str("the namespace was removed from the store"),
            Self::Database(why) => write!(f, "the store's database: {why}"),
        }
    }
}

impl core::error::Error for StoreError {}

impl From<BlockError> for StoreError {
    fn from(error: BlockError) -> Self {
        Self::Blocks(error)
    }
}

/// The database's error, in its own words.
pub(crate) fn database(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::DatabaseClosed => StoreError::Stale,
        other => StoreError::Database(other.to_string()),
    }
}

/// An error of the store's own about its database.
pub(crate) fn misused(why: &str) -> StoreError {
    StoreError::Database(why.into())
}

//! A part of a keyspace.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};

/// The tables of a keyspace whose names begin with a prefix, without that.
#[derive(Clone, Debug)]
pub struct Within<K> {
    space: K,
    prefix: String,
}

impl<K> Within<K> {
    /// Those with this prefix. None may be the beginning of another.
    #[must_use]
    pub fn new(space: K, prefix: String) -> Self {
        Self { space, prefix }
    }

    fn table(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl<K: Keyspace> Keyspace for Within<K> {
    /// Limit and use are those of the whole keyspace.
    async fn info(&self) -> Result<Info, Fault> {
        self.space.info().await
    }

    fn cost(&self, table: &str, key: &[u8], value: &[u8]) -> u64 {
        self.space.cost(&self.table(table), key, value)
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.space.get(&self.table(table), key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.space.range(Range { table: &self.table(range.table), ..range }).await
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        self.space.commit(&batch.with_prefix(&self.prefix), durability).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.space.sync().await
    }
}

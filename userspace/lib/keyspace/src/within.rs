//! A part of a keyspace.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Batch, Durability, Entries, Fault, Info, Keyspace, NUMBER, Range, SEALED_NAME, SEALED_VALUE};

/// Tables that the store seals: by their values alone, and with the names in their keys.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    pub tables: &'static [&'static str],
    pub named: &'static [&'static str],
}

/// The tables of a keyspace whose names begin with a prefix, without that.
#[derive(Clone, Debug)]
pub struct Within<K> {
    space: K,
    prefix: String,
    sealed: Option<Sealed>,
}

impl<K> Within<K> {
    /// Those with this prefix. None may be the beginning of another.
    #[must_use]
    pub fn new(space: K, prefix: String) -> Self {
        Self { space, prefix, sealed: None }
    }

    /// The same, of which the store seals these tables: their entries take more.
    #[must_use]
    pub fn sealed(self, sealed: Sealed) -> Self {
        Self { sealed: Some(sealed), ..self }
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

    fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    fn cost(&self, table: &str, key: &[u8], value: &[u8]) -> u64 {
        let (mut more, is_in) = (0, |tables: &[&str]| tables.contains(&table));
        if let Some(Sealed { tables, named }) = self.sealed {
            if is_in(tables) || is_in(named) {
                more = SEALED_VALUE;
            }
            if is_in(named) && key.len() > NUMBER {
                more = more.saturating_add(SEALED_NAME);
            }
        }
        self.space.cost(&self.table(table), key, value).saturating_add(more as u64)
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

    async fn commit_lent(&self, batch: &mut Batch, durability: Durability) -> Result<(), Fault> {
        batch.add_prefix(&self.prefix);
        let done = self.space.commit_lent(batch, durability).await;
        batch.remove_prefix(&self.prefix);
        done
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.space.sync().await
    }
}

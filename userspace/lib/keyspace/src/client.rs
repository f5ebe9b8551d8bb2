//! A namespace of the store's process.

use alloc::format;
use alloc::vec::Vec;

use capos_schema::cap::CallError;
use capos_schema::store::NamespaceClient;

use crate::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};

/// The fault of a call that was not answered.
fn unanswered(error: CallError) -> Fault {
    if error.is_disconnected() {
        return Fault::Lost(format!("the store has ended: {error}"));
    }
    Fault::Invalid(format!("{error}"))
}

impl Keyspace for NamespaceClient {
    async fn info(&self) -> Result<Info, Fault> {
        let answer = NamespaceClient::info(self).await.map_err(unanswered)?;
        Fault::of(answer.fault, answer.why)?;
        let info = answer.info;
        Ok(Info {
            limit: info.limit,
            used: info.used,
            version: info.version,
            lasting: info.lasting,
            read_only: info.read_only,
            asides: info.asides,
        })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let answer = NamespaceClient::get(self, table, key).await.map_err(unanswered)?;
        Fault::of(answer.fault, answer.why)?;
        Ok(answer.found.then_some(answer.value))
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        let Range { table, from, to, reverse, most, keys_only } = range;
        let answer =
            NamespaceClient::range(self, table, from, to, reverse, most, keys_only).await.map_err(unanswered)?;
        Fault::of(answer.fault, answer.why)?;
        let entries = answer.entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        Ok(Entries { entries, more: answer.more })
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        let durable = durability == Durability::Now;
        let answer = NamespaceClient::commit(self, batch.changes(), durable, 0).await.map_err(unanswered)?;
        Fault::of(answer.fault, answer.why)
    }

    async fn sync(&self) -> Result<(), Fault> {
        let answer = NamespaceClient::sync(self).await.map_err(unanswered)?;
        Fault::of(answer.fault, answer.why)
    }

    async fn set_aside(&self) -> Result<u32, Fault> {
        let answer = NamespaceClient::set_aside(self).await.map_err(unanswered)?;
        Fault::of(answer.fault, answer.why)?;
        Ok(answer.number)
    }
}

//! The process's grants.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use capos_ring::BlockingCap;
pub use capos_ring::wait;
use capos_schema::cap::Client;
use capos_schema::kernel::LaunchRecord;
use spin::Once;

use crate::guest::threads::thread_block;

/// A capability of the process, from the launch record.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub id: u64,
    pub interface: u64,
}

/// The launch record, read.
#[derive(Debug)]
pub struct Grants {
    pub name: String,
    pub arguments: Vec<String>,
    pub environment: Vec<String>,
    /// How many processors run threads.
    pub processors: u32,
    caps: BTreeMap<String, Grant>,
}

static GRANTS: Once<Grants> = Once::new();

/// Keeps the content of the launch record, once, before anything asks.
pub fn keep(record: LaunchRecord) {
    GRANTS.call_once(|| Grants {
        name: record.name,
        arguments: record.arguments,
        environment: record.environment,
        processors: record.processors.max(1),
        caps: record
            .capabilities
            .into_iter()
            .map(|named| (named.name, Grant { id: named.id, interface: named.interface }))
            .collect(),
    });
}

/// The process's grants; `None` before its start has read it.
pub fn grants() -> Option<&'static Grants> {
    GRANTS.get()
}

impl Grants {
    /// A granted capability, if there is one of this name and interface.
    pub fn cap<C: Client>(&self, name: &str) -> Option<C> {
        let grant = self.caps.get(name).filter(|grant| grant.interface == C::INTERFACE_ID)?;
        // SAFETY: every thread's block contains its ring.
        Some(unsafe { BlockingCap::borrowed(thread_block::here, grant.id) })
    }

    /// Names and identifiers of all grants of one interface.
    pub fn all<C: Client>(&self) -> impl Iterator<Item = (&str, u64)> {
        let offers = |(_, grant): &(&String, &Grant)| grant.interface == C::INTERFACE_ID;
        self.caps.iter().filter(offers).map(|(name, grant)| (name.as_str(), grant.id))
    }
}

/// A granted capability.
pub fn cap<C: Client>(name: &str) -> Option<C> {
    grants()?.cap(name)
}

/// The identifier of a granted capability.
pub fn id<C: Client>(name: &str) -> Option<u64> {
    grants()?.all::<C>().find(|(granted, _)| *granted == name).map(|(_, id)| id)
}

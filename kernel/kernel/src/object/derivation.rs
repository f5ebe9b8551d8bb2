//! Which capability derives from which, over all processes, and revocation.
//!
//! The forest's lock is held only inside the functions here. A capability table's lock may be held
//! when it is taken, never the other way round.

use alloc::sync::Weak;

use capos_abi::{CapId, Status};
use capos_captable::{Forest, ForestError, Found, NodeId};
use spin::Mutex;

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::address_space::Mapping;
use crate::object::memory::MemoryObject;
use crate::object::memory::page_request;
use crate::object::operation::Ticket;
use crate::object::process::Process;
use crate::object::thread::Thread;

/// The holder of a node of the forest.
#[derive(Clone, Debug)]
pub enum Holder {
    /// A slot of a process's capability table.
    Slot(Weak<Process>, CapId),
    /// A mapping that was made through a capability.
    Mapping(Weak<Mapping>),
    /// A call in flight through a capability that is not in its caller's table any more.
    Call(Weak<Thread>, Ticket),
    /// Paged memory whose pages come from the server that is called through a capability.
    Pager(Weak<MemoryObject>),
    /// The kernel itself.
    Kernel,
}

static FOREST: Mutex<Forest<Holder>> = Mutex::new(Forest::new());

fn status(error: ForestError) -> Status {
    match error {
        ForestError::Gone => Status::StaleCapability,
        ForestError::Exhausted => Status::OutOfMemory,
        ForestError::Busy => Status::Overloaded,
    }
}

/// Adds a capability that derives from `parent`, or from nothing.
///
/// # Errors
/// The parent is gone; no memory.
pub fn add(parent: Option<NodeId>, holder: Holder) -> Result<NodeId, Status> {
    let mut forest = FOREST.lock();
    match parent {
        Some(parent) => forest.insert_child(parent, holder),
        None => forest.insert_root(holder),
    }
    .map_err(status)
}

/// Adds what was made through a capability.
///
/// # Errors
/// The capability is gone; no memory.
pub fn attach(parent: NodeId, holder: Holder) -> Result<NodeId, Status> {
    FOREST.lock().attach(parent, holder).map_err(status)
}

/// Removes a node; what derives from it lives on.
pub fn forget(node: NodeId) {
    let holder = FOREST.lock().remove(node);
    drop(holder);
}

/// The capability has moved.
pub fn moved(node: NodeId, holder: Holder) {
    let old = FOREST.lock().set_holder(node, holder);
    drop(old);
}

/// Whether capabilities derive from a node. It may stay true while what was made through released ones lives.
pub fn has_derived(node: NodeId) -> bool {
    FOREST.lock().has_derived(node)
}

/// Nodes in the forest, for tests and statistics.
#[cfg(feature = "tests")]
pub fn count() -> usize {
    FOREST.lock().len()
}

/// Bytes that the forest holds for nodes to come.
pub fn spare_bytes() -> usize {
    FOREST.lock().spare_bytes()
}

/// Begins to revoke what derives from a node, in steps: nothing is added to that from now on. It ends with [`revoke`], or by
/// [`end_revocation`].
pub fn begin_revocation(node: NodeId) {
    FOREST.lock().begin_revocation(node);
}

/// Does not go on with a revocation.
pub fn end_revocation(node: NodeId) {
    FOREST.lock().end_revocation(node);
}

/// Kills what derives from a node, as far as the budget allows; counts the capabilities. Whether nothing derives from it any more.
pub fn revoke(lock: &mut Exclusive, node: NodeId, count: &mut u32, budget: &mut Budget) -> bool {
    while budget.allows() {
        let (found, holder) = match FOREST.lock().find_descendant(node) {
            None => return true,
            Some(Found::Joint) => {
                budget.spend(cost::JOINT);
                continue;
            }
            Some(Found::Thing(found, holder)) => (found, holder.clone()),
        };
        budget.spend(cost::CAPABILITY);
        match holder {
            Holder::Slot(process, id) => {
                if let Some(process) = process.upgrade() {
                    if !process.lose(lock, id, found, budget) {
                        continue;
                    }
                    *count = count.saturating_add(1);
                }
            }
            Holder::Mapping(mapping) => {
                if let Some(mapping) = mapping.upgrade()
                    && let Some(space) = mapping.space.upgrade()
                    && !space.remove_mapping(lock, &mapping, budget)
                {
                    continue;
                }
            }
            Holder::Call(thread, ticket) => {
                if let Some(thread) = thread.upgrade() {
                    thread.cancel_ticket(lock, ticket);
                }
            }
            Holder::Pager(memory) => {
                if let Some(memory) = memory.upgrade()
                    && !page_request::lose(lock, &memory, budget)
                {
                    continue;
                }
            }
            Holder::Kernel => {}
        }
        forget(found);
    }
    false
}

/// Kills everything that derives from a node, however long that takes; gives how many capabilities that were.
pub fn revoke_at_once(lock: &mut Exclusive, node: NodeId) -> u32 {
    let mut count = 0;
    while !revoke(lock, node, &mut count, &mut Budget::new()) {}
    count
}

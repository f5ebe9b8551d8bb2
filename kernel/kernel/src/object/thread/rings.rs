//! The rings of a thread that is yet to be made: in steps.

use alloc::sync::Arc;

use capos_abi::Status;
use capos_abi::ring::RingLayout;
use capos_paging::PAGE;

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::{Account, Charge, Resource};
use crate::object::memory::MemoryObject;
use crate::object::operation::Operations;

/// The memory of two rings, and the bookkeeping of as many operations as they may have in flight.
#[derive(Debug)]
pub struct Rings {
    pub(super) layout: RingLayout,
    pub(super) memory: Arc<MemoryObject>,
    pub(super) operations: Operations,
    pub(super) bookkeeping: Charge,
}

impl Rings {
    /// Rings that `account` pays for, to be [filled](Self::fill) before a thread has them.
    ///
    /// # Errors
    /// Quota; no memory.
    pub fn new(account: &Arc<Account>, layout: RingLayout) -> Result<Self, Status> {
        let places = layout.completion_entries();
        let bookkeeping = account.hold(Resource::Frames, Operations::frames(places))?;
        let memory = MemoryObject::without_frames(account, layout.bytes() as u64)?;
        Ok(Self { layout, memory, operations: Operations::without_places(places)?, bookkeeping })
    }

    /// Takes memory and makes places for operations, as far as the budget allows. Whether all are there, and a thread can be made in this
    /// step.
    ///
    /// # Errors
    /// No memory.
    pub fn fill(&mut self, lock: &mut Exclusive, budget: &mut Budget) -> Result<bool, Status> {
        let pages = (self.layout.bytes() as u64 / PAGE) as u32;
        let making = cost::NEW_THREAD.saturating_add(cost::RING_PAGE.saturating_mul(pages));
        if !self.memory.fill(lock, budget)? || !self.operations.make_places(budget) || !budget.allows() {
            return Ok(false);
        }
        budget.spend(making);
        Ok(true)
    }
}

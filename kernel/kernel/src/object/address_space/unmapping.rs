//! Unmapping, and what is left of an address space that has ended: in steps.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Status;
use capos_paging::{Cleared, PAGE};

use super::{AddressSpace, Backing, Mapping};
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames;
use crate::memory::page_table::PageTable;
use crate::object::account::Resource;
use crate::object::memory::MemoryObject;

/// Page tables that are given back at once.
const TABLES: usize = 128;

impl AddressSpace {
    /// Removes what is mapped in a range, as far as the budget allows; whether nothing is left there. Only a hole in one mapping costs
    /// anything, so memory can be given back where nothing can be paid any more.
    ///
    /// # Errors
    /// Not a range of whole pages of user memory; the space is gone; quota, where the range lies inside of one
    /// mapping, which it would leave in two pieces. Nothing is removed then.
    pub fn unmap(&self, lock: &mut Exclusive, start: u64, length: u64, budget: &mut Budget) -> Result<bool, Status> {
        while budget.allows() {
            // An object whose last mapping this was is dropped after the lock is.
            let (removed, is_all) = {
                let mut guard = self.inner.lock();
                let inner = guard.as_mut().ok_or(Status::Disconnected)?;
                let end = inner.regions.check(start, length).map_err(|_| Status::InvalidArgument)?;
                let Some(part) = inner.regions.next_part(start, end, |at| inner.span(at, length)) else {
                    return Ok(true);
                };
                if part.content {
                    inner.budget(&self.account, inner.regions.len().saturating_add(1))?;
                }
                inner.changes = inner.changes.wrapping_add(1);
                let removed = inner.regions.cut(part.start, part.length);
                inner.settle(&self.account);
                budget.spend(cost::UNMAP.saturating_mul(inner.table.unmap_range(lock, part.start, part.length)));
                (removed, part.length == length)
            };
            budget.spend(cost::REGION);
            drop(removed);
            if is_all {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same, however long it takes: for tests.
    ///
    /// # Errors
    /// As for [`Self::unmap`].
    #[cfg(feature = "tests")]
    pub fn unmap_at_once(&self, lock: &mut Exclusive, start: u64, length: u64) -> Result<(), Status> {
        while !self.unmap(lock, start, length, &mut Budget::new())? {}
        Ok(())
    }

    /// Ends a mapping wherever pieces of it are left, as far as the budget allows; whether none is left. What it costs does not depend on what
    /// else the space shows.
    pub fn remove_mapping(&self, lock: &mut Exclusive, mapping: &Arc<Mapping>, budget: &mut Budget) -> bool {
        let mut guard = self.inner.lock();
        let Some(inner) = guard.as_mut() else { return true };
        inner.changes = inner.changes.wrapping_add(1);
        while budget.allows() {
            let Some(piece) = inner.regions.piece(mapping.id).map(|region| region.start..region.end()) else {
                inner.settle(&self.account);
                return true;
            };
            let Some(part) = inner.regions.next_part(piece.start, piece.end, |at| inner.span(at, u64::MAX)) else {
                return true;
            };
            // The caller keeps the mapping, so it does not end here.
            inner.regions.cut(part.start, part.length);
            budget.spend(cost::UNMAP.saturating_mul(inner.table.unmap_range(lock, part.start, part.length)));
            budget.spend(cost::REGION);
        }
        false
    }

    /// Removes from a range what shows a memory object, and nothing else, as far as the budget allows. Whether nothing is left.
    pub fn unmap_object(
        &self,
        lock: &mut Exclusive,
        (start, length): (u64, u64),
        object: &Arc<MemoryObject>,
        budget: &mut Budget,
    ) -> bool {
        let mut removed = alloc::vec::Vec::new();
        let mut guard = self.inner.lock();
        if let Some(inner) = guard.as_mut() {
            inner.changes = inner.changes.wrapping_add(1);
            let end = start.saturating_add(length);
            let mut at = start;
            // A region at a time: a range of pages holds no more regions than pages.
            while at < end {
                if !budget.allows() {
                    drop(guard);
                    drop(removed);
                    return false;
                }
                budget.spend(cost::LOOK);
                let region = inner.regions.find(at).map(|region| {
                    let shows =
                        matches!(&region.content.backing, Backing::Memory(memory) if Arc::ptr_eq(memory, object));
                    (region.end().min(end), shows)
                });
                let (next, shows) = region.unwrap_or((at.saturating_add(PAGE), false));
                if shows {
                    let length = next.saturating_sub(at);
                    budget.spend(cost::UNMAP.saturating_mul(inner.table.unmap_range(lock, at, length)));
                    budget.spend(cost::REGION);
                    // At most one for each page of a ring, whose memory is not mapped elsewhere.
                    if let Ok(regions) = inner.regions.remove(at, length) {
                        removed.extend(regions);
                    }
                }
                at = next;
            }
            inner.settle(&self.account);
        }
        drop(guard);
        drop(removed);
        true
    }
}

/// What is left of an address space that has ended.
#[derive(Debug)]
pub struct Remains {
    regions: Cleared<Arc<Mapping>>,
    table: PageTable,
}

impl Remains {
    pub(super) const fn new(regions: Cleared<Arc<Mapping>>, table: PageTable) -> Self {
        Self { regions, table }
    }

    /// Gives back what was mapped in `space`, and its tables, as far as the budget allows. Whether nothing is left.
    pub fn give_back(&mut self, space: &AddressSpace, budget: &mut Budget) -> bool {
        while budget.allows() {
            let Some(region) = self.regions.next() else {
                let done = self.table.destroy(TABLES, &mut frames::free);
                budget.spend(cost::TABLES);
                if done {
                    space.account.refund(Resource::Frames, space.tables.swap(0, Ordering::Relaxed));
                    return true;
                }
                continue;
            };
            drop(region);
            budget.spend(cost::REGION);
        }
        false
    }
}

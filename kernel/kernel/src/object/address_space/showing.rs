//! Mapping a part of an object: in steps.

use alloc::sync::Arc;

use capos_abi::Status;
use capos_captable::NodeId;
use capos_paging::{LARGE_PAGE, PAGE};

use super::{AddressSpace, Backing, MapFailure, Mapping};
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::page_table::{Access, MapError, Run};
use crate::object::derivation::{self, Holder};
use crate::object::memory::cache;

/// Small pages that are entered as one piece of work.
const PIECE: u64 = 256;
/// Frames for page tables that the page cache gives way to in one step: more than a piece needs.
const TABLES: usize = 8;

/// A mapping whose pages are being entered, from its start on.
#[derive(Debug)]
pub struct Showing {
    mapping: Arc<Mapping>,
    /// How many bytes from its start on have their pages entered.
    done: u64,
    /// How often a region had gone when it was known that all of the mapping is there.
    changes: u64,
    /// Why it cannot be mapped, as soon as that is known: then what was entered is removed again.
    failure: Option<MapFailure>,
}

impl AddressSpace {
    /// Begins to show a part of an object. `node` is the capability that it is made through; the mapping ends
    /// when that is revoked.
    ///
    /// # Errors
    /// A range that is not whole pages of user memory or of the object; something is mapped there;
    /// quota; no memory; the space or the capability is gone. Nothing is mapped then.
    pub fn begin_map(
        &self,
        backing: Backing,
        (start, length): (u64, u64),
        offset: u64,
        access: Access,
        node: Option<NodeId>,
    ) -> Result<Showing, MapFailure> {
        if access.write && access.execute {
            return Err(MapFailure::WritableCode);
        }
        if access.write && backing.is_paged() {
            return Err(MapFailure::PagedIsReadOnly);
        }
        let end = offset.checked_add(length).ok_or(MapFailure::OutsideObject)?;
        if !offset.is_multiple_of(PAGE) || end > backing.bytes() {
            return Err(MapFailure::OutsideObject);
        }
        let access = Access { device: matches!(backing, Backing::Mmio(_)), ..access };
        let mapping = Arc::new(Mapping::new(self.itself.clone(), backing, access, (start, length, offset)));
        if let Some(node) = node {
            let attached = derivation::attach(node, Holder::Mapping(Arc::downgrade(&mapping)))?;
            *mapping.node.lock() = Some(attached);
        }
        let changes = {
            let mut guard = self.inner.lock();
            let inner = guard.as_mut().ok_or(MapFailure::Status(Status::Disconnected))?;
            inner.budget(&self.account, inner.regions.len().saturating_add(1))?;
            let inserted = inner.regions.insert(start, length, offset, Arc::clone(&mapping));
            inserted.inspect_err(|_| inner.settle(&self.account))?;
            inner.changes
        };
        // What becomes of the object's pages while they are entered reaches those that are.
        if let Backing::Memory(memory) = &mapping.backing {
            memory.note_mapping(&mapping);
        }
        Ok(Showing { mapping, done: 0, changes, failure: None })
    }

    /// Shows a part of an object, however long it takes: for parts whose length the kernel knows.
    ///
    /// # Errors
    /// As for [`Self::begin_map`].
    pub fn map(
        &self,
        lock: &mut Exclusive,
        backing: Backing,
        range: (u64, u64),
        offset: u64,
        access: Access,
        node: Option<NodeId>,
    ) -> Result<(), MapFailure> {
        let mut showing = self.begin_map(backing, range, offset, access, node)?;
        while !showing.go_on(self, lock, &mut Budget::new())? {}
        Ok(())
    }

    /// Enters a piece of a mapping's pages from `done` bytes on; how many bytes of it.
    fn enter_piece(
        &self,
        lock: &mut Exclusive,
        Showing { mapping, done, changes, .. }: &Showing,
        budget: &mut Budget,
    ) -> Result<u64, MapFailure> {
        let mut guard = self.inner.lock();
        let inner = guard.as_mut().ok_or(MapFailure::Status(Status::Disconnected))?;
        let address = mapping.start.saturating_add(*done);
        let mut left = mapping.length.saturating_sub(*done);
        if inner.changes != *changes {
            // Another thread may have unmapped it, and mapped something else.
            let region = inner.regions.find(address).filter(|region| Arc::ptr_eq(&region.content, mapping));
            left = left.min(region.ok_or(MapFailure::Gone)?.end().saturating_sub(address));
        }
        let from = mapping.offset.saturating_add(*done);
        // A frame that others may have is written by no process: who tries to gets his own.
        let write = mapping.access.write && !mapping.backing.may_be_shared();
        let access = Access { write, ..mapping.access };
        let block = match mapping.backing.block(from) {
            Some(physical) if mapping.is_aligned() && left >= LARGE_PAGE => Some(physical),
            _ => None,
        };
        if let Some(physical) = block {
            budget.spend(cost::LARGE_PAGE);
            let mut entered = false;
            self.enter(inner, address, access, |run| {
                entered = run.put_large(lock, physical)?;
                Ok(())
            })?;
            if entered {
                return Ok(LARGE_PAGE);
            }
        }
        // Up to the next place of a large page.
        let behind = (from | (LARGE_PAGE - 1)).saturating_add(1).saturating_sub(from);
        let length = left.min(behind).min(PIECE * PAGE);
        budget.spend(cost::MAP_PIECE.saturating_add(cost::MAP.saturating_mul((length / PAGE) as u32)));
        let mut shown: u64 = 0;
        self.enter(inner, address, access, |run| {
            shown = enter_each(run, &mapping.backing, from, length / PAGE)?;
            Ok(())
        })?;
        if shown.saturating_mul(PAGE) == length { Ok(length) } else { Err(MapFailure::OutsideObject) }
    }
}

impl Showing {
    /// Enters pages in the address space in which it was begun, as far as the budget allows; whether all are.
    ///
    /// # Errors
    /// As for [`AddressSpace::begin_map`], and that a part without pages was unmapped meanwhile. Nothing of the mapping is left then.
    /// It is of another space.
    pub fn go_on(
        &mut self,
        space: &AddressSpace,
        lock: &mut Exclusive,
        budget: &mut Budget,
    ) -> Result<bool, MapFailure> {
        if !core::ptr::eq(self.mapping.space.as_ptr(), space) {
            return Err(MapFailure::Gone);
        }
        if self.failure.is_none() {
            match self.enter(space, lock, budget) {
                Ok(done) => return Ok(done),
                Err(failure) => self.failure = Some(failure),
            }
        }
        match self.failure {
            Some(failure) if space.remove_mapping(lock, &self.mapping, budget) => Err(failure),
            _ => Ok(false),
        }
    }

    /// Removes what was entered, as far as the budget allows, since the call has failed. Whether nothing is left.
    pub fn undo(&mut self, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        self.failure.get_or_insert(MapFailure::Gone);
        self.mapping.space.upgrade().is_none_or(|space| space.remove_mapping(lock, &self.mapping, budget))
    }

    fn enter(&mut self, space: &AddressSpace, lock: &mut Exclusive, budget: &mut Budget) -> Result<bool, MapFailure> {
        // Pages of paged memory come when they are used.
        if self.mapping.backing.is_paged() {
            return Ok(true);
        }
        let mut gave_way = false;
        while self.done < self.mapping.length {
            if !budget.allows() {
                return Ok(false);
            }
            match space.enter_piece(lock, self, budget) {
                Ok(entered) => self.done = self.done.saturating_add(entered),
                // The page cache gives way to page tables too, where nothing is locked.
                Err(MapFailure::Status(Status::OutOfMemory))
                    if !gave_way && cache::spending(budget, || cache::gives_way(lock, TABLES)) =>
                {
                    gave_way = true;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(true)
    }
}

/// Enters pages of an object from an offset on that are there for good; how many there were up to the first that was not.
#[inline(never)]
fn enter_each(run: &mut Run<'_>, backing: &Backing, from: u64, pages: u64) -> Result<u64, MapError> {
    let mut shown: u64 = 0;
    backing.each_page(from, pages, |physical| {
        shown = shown.wrapping_add(1);
        run.put(physical).map(|_| ())
    })?;
    Ok(shown)
}

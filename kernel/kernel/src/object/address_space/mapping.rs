//! Mapping: a part of an object that an address space shows.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};

use capos_captable::NodeId;
use capos_paging::{Keyed, LARGE_PAGE, PAGE};
use spin::Mutex;

use super::AddressSpace;
use crate::memory::frames::Frame;
use crate::memory::page_table::Access;
use crate::object::derivation::{self};
use crate::object::device::dma::DmaRegion;
use crate::object::device::mmio::Mmio;
use crate::object::memory::MemoryObject;

/// What can be mapped.
#[derive(Clone, Debug)]
pub enum Backing {
    Memory(Arc<MemoryObject>),
    Mmio(Mmio),
    Dma(Arc<DmaRegion>),
}

impl Backing {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.bytes(),
            Self::Mmio(mmio) => mmio.bytes,
            Self::Dma(region) => region.bytes(),
        }
    }

    /// Physical address of a page that is there for good.
    pub(super) fn physical(&self, offset: u64) -> Option<u64> {
        match self {
            Self::Memory(memory) => memory.stable_frame(offset / PAGE).map(Frame::address),
            Self::Mmio(mmio) => mmio.address.checked_add(offset),
            Self::Dma(region) => region.physical(offset),
        }
    }

    /// Calls `visit` with the physical addresses of pages that are there for good, one after the other, until one is not.
    ///
    /// # Errors
    /// Those of `visit`.
    pub(super) fn each_page<E>(
        &self,
        offset: u64,
        pages: u64,
        mut visit: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Self::Memory(memory) = self {
            return memory.each_stable_frame(offset / PAGE, pages, |frame| visit(frame.address()));
        }
        for page in 0..pages {
            match self.physical(offset.saturating_add(page.saturating_mul(PAGE))) {
                Some(physical) => visit(physical)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Physical address of a large page that is there for good.
    pub(super) fn block(&self, offset: u64) -> Option<u64> {
        match self {
            Self::Memory(memory) => memory.stable_block(offset / PAGE).map(Frame::address),
            // A large page would have one kind of memory in all its parts, which the ranges of a device need not.
            Self::Mmio(_) | Self::Dma(_) => None,
        }
    }

    /// Whether other objects may have frames of this one.
    pub(super) fn may_be_shared(&self) -> bool {
        matches!(self, Self::Memory(memory) if memory.may_be_shared())
    }

    pub(super) fn is_paged(&self) -> bool {
        matches!(self, Self::Memory(memory) if memory.paged_content().is_some())
    }
}

/// The number that the next mapping gets.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// One mapping as it was made. Unmapping a part of it leaves pieces that share this.
#[derive(Debug)]
pub struct Mapping {
    /// Tells it from every other one.
    pub id: u64,
    pub space: Weak<AddressSpace>,
    pub backing: Backing,
    pub access: Access,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) offset: u64,
    pub(super) node: Mutex<Option<NodeId>>,
}

impl Mapping {
    /// That of `length` bytes of an object from `offset` on, at address `start`.
    pub(super) fn new(
        space: Weak<AddressSpace>,
        backing: Backing,
        access: Access,
        (start, length, offset): (u64, u64, u64),
    ) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, space, backing, access, start, length, offset, node: Mutex::new(None) }
    }

    /// Whether large pages of the object would be shown where large pages can begin.
    pub(super) fn is_aligned(&self) -> bool {
        self.length >= LARGE_PAGE && (self.start ^ self.offset).is_multiple_of(LARGE_PAGE)
    }

    /// The offset of the large page of the object around `offset`, where it would be shown as a whole, and where one can
    /// begin.
    pub fn large_around(&self, offset: u64) -> Option<u64> {
        let first = offset & !(LARGE_PAGE - 1);
        let last = self.length.saturating_sub(LARGE_PAGE);
        let is_shown = || first.checked_sub(self.offset).is_some_and(|at| at <= last);
        (self.is_aligned() && is_shown()).then_some(first)
    }

    /// Where the page of the object that begins at `offset` would be shown.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let distance = offset.checked_sub(self.offset)?;
        (distance < self.length).then(|| self.start.saturating_add(distance))
    }
}

impl Keyed for Mapping {
    fn key(&self) -> u64 {
        self.id
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Backing::Memory(memory) = &self.backing {
            memory.forget_mapping(self.id);
        }
        if let Some(node) = self.node.lock().take() {
            derivation::forget(node);
        }
    }
}

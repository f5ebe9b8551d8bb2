//! DmaDomain and DmaRegion: memory that a device may reach.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::{Rights, Status};
use capos_paging::PAGE;
use capos_schema::kernel_capnp::{dma_domain, dma_region, dma_segment};
use capos_schema::kernel_dispatch::{DmaDomainKernel, DmaRegionKernel};
use capos_schema::sync::{Completion, Exception, capability};

use crate::memory::frames::Frame;
use crate::object::Answer;
use crate::object::account::{Charge, Resource};
use crate::object::capability::Object;
use crate::object::invocation::{Invocation, refused};
use crate::object::memory::MemoryObject;

/// The most memory that one region holds, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes of a segment in a message.
const SEGMENT: usize = 16;

/// Memory as a device sees it. Keeps the memory object, and with it the frames.
#[derive(Debug)]
pub struct DmaRegion {
    memory: Arc<MemoryObject>,
    offset: u64,
    bytes: u64,
    /// Physical address and length of each contiguous part.
    segments: Vec<(u64, u64)>,
    _object: Charge,
}

impl DmaRegion {
    fn new(memory: Arc<MemoryObject>, offset: u64, bytes: u64, object: Charge) -> Result<Self, Exception> {
        // What a device writes is to be seen in this memory, and in no other.
        memory.pin(offset / PAGE, bytes / PAGE).map_err(refused)?;
        let mut segments: Vec<(u64, u64)> = Vec::new();
        for page in offset / PAGE..offset.saturating_add(bytes) / PAGE {
            let frame = memory.stable_frame(page);
            let address = frame.ok_or_else(|| Exception::failed("paged memory cannot be pinned"))?.address();
            match segments.last_mut() {
                Some((start, length)) if start.checked_add(*length) == Some(address) => {
                    *length = length.saturating_add(PAGE);
                }
                _ => {
                    segments.try_reserve(1).map_err(|_| refused(Status::OutOfMemory))?;
                    segments.push((address, PAGE));
                }
            }
        }
        Ok(Self { memory, offset, bytes, segments, _object: object })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether what a device writes there does not matter any more: the pager that wanted it has
    /// answered.
    pub fn is_settled(&self) -> bool {
        self.memory.is_settled()
    }

    /// Physical address of a byte.
    pub fn physical(&self, offset: u64) -> Option<u64> {
        if offset >= self.bytes {
            return None;
        }
        self.memory.stable_frame(self.offset.checked_add(offset)? / PAGE).map(Frame::address)
    }

    fn write_segments(&self, mut list: capnp::struct_list::Builder<'_, dma_segment::Owned>) {
        for (index, (address, bytes)) in (0_u32..).zip(&self.segments) {
            let mut segment = list.reborrow().get(index);
            segment.set_address(*address);
            segment.set_bytes(*bytes);
        }
    }

    fn segment_count(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Makes sure that the segments can be told.
    fn expect(&self, cx: &mut Invocation<'_>) -> Result<(), Exception> {
        let bytes = self.segments.len().saturating_mul(SEGMENT);
        if bytes > cx.capacity() {
            return Err(Exception::failed("the caller's buffer has no room for so many segments"));
        }
        cx.expect(bytes)
    }
}

/// The authority to let devices reach memory.
pub struct Domain;

impl DmaDomainKernel<Invocation<'_>> for Domain {
    fn allocate(
        &self,
        cx: &mut Invocation<'_>,
        params: dma_domain::allocate_params::Reader<'_>,
        mut results: dma_domain::allocate_results::Builder<'_>,
    ) -> Answer {
        let account = &cx.process().account;
        if params.get_bytes() > MAX_BYTES {
            return Err(Exception::invalid_argument("a region has at most 64 MiB"));
        }
        let object = account.hold(Resource::Objects, 1).map_err(refused)?;
        let memory = MemoryObject::contiguous(account, params.get_bytes()).map_err(refused)?;
        let bytes = memory.bytes();
        let region = DmaRegion::new(memory, 0, bytes, object)?;
        results.set_address(region.physical(0).unwrap_or(0));
        cx.give(Object::Dma(Arc::new(region)), Rights::ALL, cx.node);
        results.set_region(capability());
        Ok(Completion::Done)
    }

    fn pin(
        &self,
        cx: &mut Invocation<'_>,
        params: dma_domain::pin_params::Reader<'_>,
        mut results: dma_domain::pin_results::Builder<'_>,
    ) -> Answer {
        let pinned = cx.capability()?;
        let Object::Memory(memory) = &pinned.object else {
            return Err(Exception::invalid_argument("only a MemoryObject can be pinned"));
        };
        if !pinned.rights.contains(Rights::READ.union(Rights::WRITE)) {
            return Err(Exception::failed("the memory's capability lacks the right to read or write"));
        }
        let (offset, bytes) = (params.get_offset(), params.get_bytes());
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes());
        if bytes == 0 || bytes > MAX_BYTES || !inside || !offset.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(Exception::invalid_argument(
                "offset and length must be whole pages inside the memory, 64 MiB at most",
            ));
        }
        let object = cx.process().account.hold(Resource::Objects, 1).map_err(refused)?;
        let region = DmaRegion::new(Arc::clone(memory), offset, bytes, object)?;
        region.expect(cx)?;
        region.write_segments(results.reborrow().init_segments(region.segment_count()));
        cx.give(Object::Dma(Arc::new(region)), Rights::ALL, pinned.node);
        results.set_region(capability());
        Ok(Completion::Done)
    }
}

impl DmaRegionKernel<Invocation<'_>> for Arc<DmaRegion> {
    fn info(
        &self,
        cx: &mut Invocation<'_>,
        _params: dma_region::info_params::Reader<'_>,
        mut results: dma_region::info_results::Builder<'_>,
    ) -> Answer {
        self.expect(cx)?;
        results.set_bytes(self.bytes);
        self.write_segments(results.init_segments(self.segment_count()));
        Ok(Completion::Done)
    }
}

//! The methods of DmaDomain and DmaRegion.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_paging::PAGE;
use capos_schema::kernel_capnp::{dma_domain, dma_region, dma_segment};
use capos_schema::kernel_dispatch::{DmaDomainKernel, DmaRegionKernel};
use capos_schema::sync::{Completion, Exception, capability};

use crate::object::Answer;
use crate::object::account::Resource;
use crate::object::capability::Object;
use crate::object::device::dma::DmaRegion;
use crate::object::invocation::{Invocation, refused};
use crate::object::memory::MemoryObject;
use crate::object::thread::Unfinished;

/// The most memory that one region holds, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes of a segment in a message.
const SEGMENT: usize = 16;

fn write_segments(region: &DmaRegion, mut list: capnp::struct_list::Builder<'_, dma_segment::Owned>) {
    for (index, (address, bytes)) in (0_u32..).zip(region.segments()) {
        let mut segment = list.reborrow().get(index);
        segment.set_address(*address);
        segment.set_bytes(*bytes);
    }
}

fn segment_count(region: &DmaRegion) -> u32 {
    region.segments().len() as u32
}

/// Makes sure that the segments can be told.
fn expect(region: &DmaRegion, cx: &mut Invocation<'_>) -> Result<(), Exception> {
    let bytes = region.segments().len().saturating_mul(SEGMENT);
    if bytes > cx.capacity() {
        return Err(Exception::failed("the caller's buffer has no room for so many segments"));
    }
    cx.expect(bytes)
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
        let memory = match cx.thread.take_unfinished() {
            Some(Unfinished::Memory(memory)) => memory,
            _ => MemoryObject::contiguous(cx.lock, account, params.get_bytes()).map_err(refused)?,
        };
        if !cx.within_budget(|cx, budget| memory.fill(cx.lock, budget)).map_err(refused)? {
            return cx.go_on_later(Unfinished::Memory(memory));
        }
        let bytes = memory.bytes();
        let region = DmaRegion::new(cx.lock, memory, 0, bytes, object)?;
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
        let region = DmaRegion::new(cx.lock, Arc::clone(memory), offset, bytes, object)?;
        expect(&region, cx)?;
        write_segments(&region, results.reborrow().init_segments(segment_count(&region)));
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
        expect(self, cx)?;
        results.set_bytes(self.bytes());
        write_segments(self, results.init_segments(segment_count(self)));
        Ok(Completion::Done)
    }
}

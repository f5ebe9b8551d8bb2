//! The methods of MemoryObject.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_paging::PAGE;
use capos_schema::kernel_capnp::memory_object as m;
use capos_schema::kernel_dispatch::MemoryObjectKernel;
use capos_schema::sync::{Completion, Exception};

use super::Answer;
use super::memory::MemoryObject;
use crate::cache;
use crate::kernel_call::Invocation;
use crate::memory::frames::Frame;

/// How many frames one call names at most.
const MAX_IDS: u32 = 512;

impl MemoryObjectKernel<Invocation<'_>> for Arc<MemoryObject> {
    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        mut results: m::info_results::Builder<'_>,
    ) -> Answer {
        results.set_bytes(self.bytes());
        results.set_resident_pages(self.resident_pages());
        results.set_paged(self.paged_content().is_some());
        Ok(Completion::Done)
    }

    fn evict(&self, cx: &mut Invocation<'_>) -> Result<u64, Exception> {
        cx.need(Rights::MANAGE)?;
        Ok(cache::evict_object(self))
    }

    fn frames(
        &self,
        cx: &mut Invocation<'_>,
        params: m::frames_params::Reader<'_>,
        results: m::frames_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let (offset, count) = (params.get_offset(), params.get_count());
        let end = offset.checked_add(u64::from(count) * PAGE);
        if !offset.is_multiple_of(PAGE) || count > MAX_IDS || end.is_none_or(|end| end > self.bytes()) {
            return Err(Exception::invalid_argument(
                "offset and count must name at most 512 whole pages of the object",
            ));
        }
        cx.expect(count as usize * size_of::<u64>())?;
        let mut ids = results.init_ids(count);
        for index in 0..count {
            let frame = self.resident_frame(offset / PAGE + u64::from(index));
            ids.set(index, frame.map_or(0, |frame: Frame| frame.address() / PAGE));
        }
        Ok(Completion::Done)
    }
}

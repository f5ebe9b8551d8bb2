//! The methods of MemoryObject.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_paging::PAGE;
use capos_schema::kernel_capnp::memory_object as m;
use capos_schema::kernel_dispatch::MemoryObjectKernel;
use capos_schema::sync::{Completion, Exception, capability};

use crate::memory::frames::Frame;
use crate::object::Answer;
use crate::object::capability::Object;
use crate::object::invocation::{Invocation, refused};
use crate::object::memory::MemoryObject;
use crate::object::memory::cache::Eviction;
use crate::object::memory::partial_copy::{self, Copying, PartialCopy};
use crate::object::operation::Kind;
use crate::object::thread::Unfinished;

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
        let mut eviction = match cx.thread.take_unfinished() {
            Some(Unfinished::Eviction(begun)) => begun,
            _ => Eviction::default(),
        };
        if !cx.within_budget(|cx, budget| eviction.go_on(cx.lock, self, budget)) {
            cx.go_on_later(Unfinished::Eviction(eviction))?;
        }
        Ok(eviction.count)
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
        cx.expect((count as usize).saturating_mul(size_of::<u64>()))?;
        let mut ids = results.init_ids(count);
        for index in 0..count {
            let frame = self.resident_frame((offset / PAGE).saturating_add(u64::from(index)));
            ids.set(index, frame.map_or(0, |frame: Frame| frame.address() / PAGE));
        }
        Ok(Completion::Done)
    }

    fn copy(
        &self,
        cx: &mut Invocation<'_>,
        params: m::copy_params::Reader<'_>,
        mut results: m::copy_results::Builder<'_>,
    ) -> Answer {
        let (source, mut copy) = match cx.thread.take_unfinished() {
            Some(Unfinished::Copy(source, copy)) => (source, copy),
            _ => (Arc::clone(self), begin_copy(self, cx, params)?),
        };
        if !cx.within_budget(|cx, budget| copy.go_on(cx.lock, &source, budget)).map_err(refused)? {
            return cx.go_on_later(Unfinished::Copy(source, copy));
        }
        if !copy.is_whole() {
            let copying = Copying::new(&source, copy);
            let operation = cx.defer(|call| Kind::Copy { call, copying })?;
            partial_copy::go_on(cx.lock, &operation);
            return Ok(Completion::Pending);
        }
        let memory = copy.finish();
        cx.give(Object::Memory(memory), Rights::ALL, None);
        results.set_memory(capability());
        Ok(Completion::Done)
    }
}

/// Begins the copy that a call asks for.
fn begin_copy(
    source: &MemoryObject,
    cx: &mut Invocation<'_>,
    params: m::copy_params::Reader<'_>,
) -> Result<PartialCopy, Exception> {
    cx.need(Rights::READ)?;
    let payer = cx.capability()?;
    let account = match &payer.object {
        Object::Account(account) if payer.rights.contains(Rights::CALL) => account,
        Object::Account(_) => return Err(Exception::failed("the account's capability lacks the right to call")),
        _ => return Err(Exception::invalid_argument("only an account can pay for a copy")),
    };
    let (offset, bytes) = (params.get_offset(), params.get_bytes());
    let inside = offset.checked_add(bytes).is_some_and(|end| end <= source.bytes());
    if bytes == 0 || !inside || !offset.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
        return Err(Exception::invalid_argument("offset and length must be whole pages inside the memory"));
    }
    PartialCopy::new(source, account, offset / PAGE, bytes / PAGE).map_err(refused)
}

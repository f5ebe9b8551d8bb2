//! The methods of AddressSpace.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_schema::kernel_capnp::address_space as m;
use capos_schema::kernel_dispatch::AddressSpaceKernel;
use capos_schema::sync::{Completion, Exception};

use crate::memory::page_table::Access;
use crate::object::Answer;
use crate::object::address_space::{AddressSpace, Backing, MapFailure, Showing};
use crate::object::capability::Object;
use crate::object::device::mmio;
use crate::object::invocation::{Invocation, refused};
use crate::object::thread::Unfinished;

impl AddressSpaceKernel<Invocation<'_>> for Arc<AddressSpace> {
    fn map(
        &self,
        cx: &mut Invocation<'_>,
        params: m::map_params::Reader<'_>,
        _results: m::map_results::Builder<'_>,
    ) -> Answer {
        let mut showing = match cx.thread.take_unfinished() {
            Some(Unfinished::Mapping(showing)) => showing,
            _ => begin_map(self, cx, params)?,
        };
        if !cx.within_budget(|cx, budget| showing.go_on(self, cx.lock, budget)).map_err(not_mapped)? {
            return cx.go_on_later(Unfinished::Mapping(showing));
        }
        Ok(Completion::Done)
    }

    fn unmap(
        &self,
        cx: &mut Invocation<'_>,
        params: m::unmap_params::Reader<'_>,
        _results: m::unmap_results::Builder<'_>,
    ) -> Answer {
        let (address, length) = (params.get_address(), params.get_length());
        if !cx.within_budget(|cx, budget| self.as_ref().unmap(cx.lock, address, length, budget)).map_err(refused)? {
            return cx.pause();
        }
        Ok(Completion::Done)
    }
}

/// Begins the mapping that a call asks for.
fn begin_map(
    space: &AddressSpace,
    cx: &mut Invocation<'_>,
    params: m::map_params::Reader<'_>,
) -> Result<Showing, Exception> {
    let memory = cx.capability()?;
    let wanted = params.get_access()?;
    let access =
        Access { read: wanted.get_read(), write: wanted.get_write(), execute: wanted.get_execute(), device: false };
    for (asked, right, refusal) in [
        (access.read, Rights::READ, "the memory's capability lacks the right to read"),
        (access.write, Rights::WRITE, "the memory's capability lacks the right to write"),
        (access.execute, Rights::EXECUTE, "the memory's capability lacks the right to execute"),
    ] {
        if asked && !memory.rights.contains(right) {
            return Err(Exception::failed(refusal));
        }
    }
    let range = (params.get_address(), params.get_length());
    let backing = match &memory.object {
        Object::Memory(object) => Backing::Memory(Arc::clone(object)),
        Object::Dma(region) if !access.execute => Backing::Dma(Arc::clone(region)),
        Object::Mmio(device) if !access.execute => {
            let first = device.address.saturating_add(params.get_offset());
            if !mmio::is_device(first, range.1) {
                return Err(Exception::invalid_argument("the range is RAM, no device"));
            }
            Backing::Mmio(*device)
        }
        Object::Dma(_) | Object::Mmio(_) => {
            return Err(Exception::invalid_argument("device memory cannot be executed"));
        }
        other => {
            return Err(Exception::invalid_argument(alloc::format!("a {} cannot be mapped", other.kind())));
        }
    };
    space.begin_map(backing, range, params.get_offset(), access, memory.node).map_err(not_mapped)
}

fn not_mapped(failure: MapFailure) -> Exception {
    match failure {
        MapFailure::Status(status) => refused(status),
        other => Exception::invalid_argument(other.words()),
    }
}

//! The methods of Mmio.

use capos_paging::PAGE;
use capos_schema::kernel_capnp::mmio as m;
use capos_schema::kernel_dispatch::MmioKernel;
use capos_schema::sync::{Completion, Exception, capability};

use crate::object::Answer;
use crate::object::capability::Object;
use crate::object::device::mmio::{self, Mmio};
use crate::object::invocation::Invocation;

impl MmioKernel<Invocation<'_>> for Mmio {
    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        mut results: m::info_results::Builder<'_>,
    ) -> Answer {
        results.set_address(self.address);
        results.set_bytes(self.bytes);
        Ok(Completion::Done)
    }

    fn narrow(
        &self,
        cx: &mut Invocation<'_>,
        params: m::narrow_params::Reader<'_>,
        mut results: m::narrow_results::Builder<'_>,
    ) -> Answer {
        let (address, bytes) = (params.get_address(), params.get_bytes());
        let end = address.checked_add(bytes);
        let inside = end.is_some_and(|end| end <= self.address.saturating_add(self.bytes)) && address >= self.address;
        if bytes == 0 || !inside || !address.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(Exception::invalid_argument("the range must be whole pages inside the capability's range"));
        }
        if !mmio::is_device(address, bytes) {
            return Err(Exception::invalid_argument("the range is RAM, no device"));
        }
        cx.give(Object::Mmio(Self { address, bytes }), cx.rights, cx.node);
        results.set_mmio(capability());
        Ok(Completion::Done)
    }
}

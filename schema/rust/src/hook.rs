//! A placeholder for a capability inside a message.
//!
//! Messages carry only indexes into the capability array that travels with them.

use alloc::boxed::Box;
use alloc::string::ToString;

use capnp::any_pointer;
use capnp::capability::{Promise, Request};
use capnp::private::capability::{ClientHook, ParamsHook, RequestHook, ResultsHook};
use capnp::{Error, MessageSize};

/// The capability at this index of the array.
#[derive(Clone, Copy)]
pub(crate) struct Slot(pub(crate) usize);

/// A request to a slot, which leads nowhere.
struct NoRequest {
    message: capnp::message::Builder<capnp::message::HeapAllocator>,
}

fn refusal() -> Error {
    Error::unimplemented("a capability inside a message is called through its typed client".to_string())
}

impl ClientHook for Slot {
    fn add_ref(&self) -> Box<dyn ClientHook> {
        Box::new(*self)
    }

    fn new_call(
        &self,
        _interface: u64,
        _method: u16,
        _size: Option<MessageSize>,
    ) -> Request<any_pointer::Owned, any_pointer::Owned> {
        Request::new(Box::new(NoRequest { message: capnp::message::Builder::new_default() }))
    }

    fn call(
        &self,
        _interface: u64,
        _method: u16,
        _params: Box<dyn ParamsHook>,
        _results: Box<dyn ResultsHook>,
    ) -> Promise<(), Error> {
        Promise::err(refusal())
    }

    fn get_brand(&self) -> usize {
        0
    }

    fn get_ptr(&self) -> usize {
        self.0
    }

    fn get_resolved(&self) -> Option<Box<dyn ClientHook>> {
        None
    }

    fn when_more_resolved(&self) -> Option<Promise<Box<dyn ClientHook>, Error>> {
        None
    }

    fn when_resolved(&self) -> Promise<(), Error> {
        Promise::ok(())
    }
}

/// A pipeline that leads nowhere.
struct NoPipeline;

impl capnp::private::capability::PipelineHook for NoPipeline {
    fn add_ref(&self) -> Box<dyn capnp::private::capability::PipelineHook> {
        Box::new(Self)
    }

    fn get_pipelined_cap(&self, _ops: &[capnp::private::capability::PipelineOp]) -> Box<dyn ClientHook> {
        Box::new(Slot(usize::MAX))
    }
}

impl RequestHook for NoRequest {
    fn get(&mut self) -> any_pointer::Builder<'_> {
        self.message.init_root()
    }

    fn get_brand(&self) -> usize {
        0
    }

    fn send(self: Box<Self>) -> capnp::capability::RemotePromise<any_pointer::Owned> {
        capnp::capability::RemotePromise {
            promise: Promise::err(refusal()),
            pipeline: any_pointer::Pipeline::new(Box::new(NoPipeline)),
        }
    }

    fn send_streaming(self: Box<Self>) -> Promise<(), Error> {
        Promise::err(refusal())
    }

    fn tail_send(
        self: Box<Self>,
    ) -> Option<(u32, Promise<(), Error>, Box<dyn capnp::private::capability::PipelineHook>)> {
        None
    }
}

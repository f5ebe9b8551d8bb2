//! The methods of Thread.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Rights;
use capos_schema::kernel_capnp::thread as m;
use capos_schema::kernel_dispatch::ThreadKernel;
use capos_schema::sync::Completion;

use super::Answer;
use super::thread::{State, Thread};
use crate::kernel_call::Invocation;

impl ThreadKernel<Invocation<'_>> for Arc<Thread> {
    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        mut results: m::info_results::Builder<'_>,
    ) -> Answer {
        results.set_id(self.id);
        results.set_cpu_nanoseconds(self.cpu_nanoseconds.load(Ordering::Relaxed));
        results.set_alive(self.state() != State::Dead);
        Ok(Completion::Done)
    }

    fn kill(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::kill_params::Reader<'_>,
        _results: m::kill_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        Thread::kill(self);
        Ok(Completion::Done)
    }
}

//! Timer: time, and waiting for it.

use capos_schema::kernel_capnp::timer as m;
use capos_schema::kernel_dispatch::TimerKernel;
use capos_schema::sync::{Completion, Exception};

use capos_abi::Rights;

use crate::arch::time;
use crate::object::Answer;
use crate::object::deadline::{self, Due};
use crate::object::invocation::Invocation;
use crate::object::operation::Kind;

/// The machine's clocks.
pub struct Timer;

impl<L> TimerKernel<Invocation<'_, L>> for Timer {
    fn now(&self, _cx: &mut Invocation<'_, L>) -> Result<u64, Exception> {
        Ok(time::now())
    }

    fn sleep_until(
        &self,
        cx: &mut Invocation<'_, L>,
        params: m::sleep_until_params::Reader<'_>,
        _results: m::sleep_until_results::Builder<'_>,
    ) -> Answer {
        let until = params.get_nanoseconds();
        if until <= time::now() {
            return Ok(Completion::Done);
        }
        let operation = cx.defer(|call| Kind::Delivered { call })?;
        let key = deadline::add(until, Due::Sleep(operation.clone()));
        operation.thread.update(operation.ticket, |kind| {
            if let Some(call) = kind.call() {
                *kind = Kind::Sleep { call, deadline: key };
            }
        });
        Ok(Completion::Pending)
    }

    fn set_wall_clock(
        &self,
        cx: &mut Invocation<'_, L>,
        params: m::set_wall_clock_params::Reader<'_>,
        _results: m::set_wall_clock_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let milliseconds = params.get_unix_milliseconds();
        if !time::set_wall_clock(milliseconds) {
            return Err(Exception::invalid_argument("the clock holds the years 2000 to 2099"));
        }
        Ok(Completion::Done)
    }

    fn wall_clock(&self, _cx: &mut Invocation<'_, L>) -> Result<u64, Exception> {
        Ok(time::wall_clock_ms())
    }
}

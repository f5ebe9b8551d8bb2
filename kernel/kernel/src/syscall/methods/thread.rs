//! The methods of Thread.

use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Rights;
use capos_schema::kernel_capnp::thread as m;
use capos_schema::kernel_dispatch::ThreadKernel;
use capos_schema::sync::{Completion, Exception};

use crate::arch::{processors, time};
use crate::object::Answer;
use crate::object::ending::write_exit;
use crate::object::invocation::Invocation;
use crate::object::priority::{HIGHEST, LOWEST};
use crate::object::thread_handle::ThreadHandle;
use crate::sched::{accounting, scheduler};

/// The longest name, in bytes.
const MAX_NAME: usize = 32;

impl ThreadKernel<Invocation<'_>> for Arc<ThreadHandle> {
    fn info(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        mut results: m::info_results::Builder<'_>,
    ) -> Answer {
        accounting::settle_times(cx.lock);
        results.set_id(self.id);
        results.set_cpu_nanoseconds(time::lasting(self.cpu_ticks.load(Ordering::Relaxed)));
        results.set_alive(!self.ending.has_come());
        results.set_name(self.name().as_str());
        results.set_priority(self.priority());
        Ok(Completion::Done)
    }

    fn kill(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::kill_params::Reader<'_>,
        _results: m::kill_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        if let Some(thread) = self.living() {
            cx.within_budget(|cx, budget| scheduler::kill(cx.lock, &thread, &cx.thread.process, budget));
        }
        Ok(Completion::Done)
    }

    fn wait(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::wait_params::Reader<'_>,
        results: m::wait_results::Builder<'_>,
    ) -> Answer {
        if Arc::ptr_eq(self, &cx.thread.handle) {
            return Err(Exception::invalid_argument("a thread cannot wait for its own end"));
        }
        self.ending.wait(cx, |end| write_exit(end, results.init_exit()))
    }

    fn set_name(
        &self,
        cx: &mut Invocation<'_>,
        params: m::set_name_params::Reader<'_>,
        _results: m::set_name_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let text = params.get_name()?.to_str().unwrap_or_default();
        if text.is_empty() || text.len() > MAX_NAME || text.chars().any(char::is_control) {
            return Err(Exception::invalid_argument(
                "a thread's name is UTF-8 of 1 to 32 bytes without control characters",
            ));
        }
        let mut name = String::new();
        name.try_reserve_exact(text.len()).map_err(|_| Exception::overloaded("no memory for the name"))?;
        name.push_str(text);
        ThreadHandle::set_name(self, name);
        Ok(Completion::Done)
    }

    fn set_priority(
        &self,
        cx: &mut Invocation<'_>,
        params: m::set_priority_params::Reader<'_>,
        _results: m::set_priority_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let priority = params.get_priority();
        if !(LOWEST..=HIGHEST).contains(&priority) {
            return Err(Exception::invalid_argument("priorities are -1, 0, 1 and 2"));
        }
        let Some(thread) = self.living() else { return Err(Exception::failed("the thread has ended")) };
        if priority > thread.process.account.priority() {
            return Err(Exception::failed("the limits of its process do not allow this priority"));
        }
        scheduler::rank(cx.lock, &thread, priority);
        Ok(Completion::Done)
    }

    fn set_affinity(
        &self,
        cx: &mut Invocation<'_>,
        params: m::set_affinity_params::Reader<'_>,
        _results: m::set_affinity_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let wanted = params.get_processors();
        // There are as many as `wanted` has bits, or fewer.
        let there = u64::MAX.checked_shr(processors::MOST.saturating_sub(processors::count()) as u32).unwrap_or(0);
        if wanted & there == 0 {
            return Err(Exception::invalid_argument("none of these processors is there"));
        }
        let Some(thread) = self.living() else { return Err(Exception::failed("the thread has ended")) };
        ThreadHandle::set_affinity(self, wanted);
        scheduler::settle(cx.lock, &thread);
        Ok(Completion::Done)
    }
}

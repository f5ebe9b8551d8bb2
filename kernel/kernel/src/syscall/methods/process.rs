//! The methods of Process.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use capos_abi::{Rights, RingLayout};
use capos_schema::kernel_capnp::process as m;
use capos_schema::kernel_dispatch::ProcessKernel;
use capos_schema::sync::{Completion, Exception, capability};

use crate::object::Answer;
use crate::object::capability::Object;
use crate::object::ending::write_exit;
use crate::object::invocation::{Invocation, refused};
use crate::object::process::{Cause, End, Process};
use crate::object::thread::{Rings, Start, Unfinished};
use crate::sched::scheduler;

/// The longest reason that a killer may give, in bytes.
const MAX_REASON: usize = 256;

impl ProcessKernel<Invocation<'_>> for Arc<Process> {
    fn address_space(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::address_space_params::Reader<'_>,
        mut results: m::address_space_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        cx.give(Object::Space(Arc::clone(&self.space)), Rights::ALL, cx.node);
        results.set_space(capability());
        Ok(Completion::Done)
    }

    fn account(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::account_params::Reader<'_>,
        mut results: m::account_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        cx.give(Object::Account(Arc::clone(&self.account)), Rights::ALL, cx.node);
        results.set_account(capability());
        Ok(Completion::Done)
    }

    fn grant(
        &self,
        cx: &mut Invocation<'_>,
        params: m::grant_params::Reader<'_>,
        mut results: m::grant_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let granted = cx.capability()?;
        let (true, Some(node)) = (granted.rights.contains(Rights::GRANT), granted.node) else {
            return Err(Exception::failed("the capability may not be passed on"));
        };
        let rights = granted.rights.intersection(Rights(params.get_rights()));
        let id = self.insert(granted.object.clone(), rights, Some(node)).map_err(refused)?;
        results.set_id(id.0);
        Ok(Completion::Done)
    }

    fn table(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::table_params::Reader<'_>,
        mut results: m::table_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        cx.give(Object::Table(Arc::clone(self)), Rights::ALL, cx.node);
        results.set_table(capability());
        Ok(Completion::Done)
    }

    fn create_thread(
        &self,
        cx: &mut Invocation<'_>,
        params: m::create_thread_params::Reader<'_>,
        mut results: m::create_thread_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::EXECUTE)?;
        let layout =
            RingLayout::new(params.get_submission_entries(), params.get_completion_entries()).map_err(|_| {
                Exception::invalid_argument(
                    "ring sizes are powers of two from 2 to 4096, completions not fewer than submissions",
                )
            })?;
        let start = Start {
            entry: params.get_entry(),
            stack: params.get_stack(),
            arguments: [params.get_argument0(), params.get_argument1()],
            ring: params.get_ring(),
            layout,
            thread_pointer: params.get_thread_pointer(),
        };
        let mut rings = match cx.thread.take_unfinished() {
            Some(Unfinished::Rings(rings)) => rings,
            _ => Rings::new(&self.account, layout).map_err(refused)?,
        };
        if !cx.within_budget(|cx, budget| rings.fill(cx.lock, budget)).map_err(refused)? {
            return cx.go_on_later(Unfinished::Rings(rings));
        }
        let thread = scheduler::new_thread_with(cx.lock, self, start, rings).map_err(refused)?;
        cx.give(Object::Thread(Arc::clone(&thread.handle)), Rights::ALL, None);
        cx.start(thread);
        results.set_thread(capability());
        Ok(Completion::Done)
    }

    fn kill(
        &self,
        cx: &mut Invocation<'_>,
        params: m::kill_params::Reader<'_>,
        _results: m::kill_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let reason = params.get_reason()?.to_str().unwrap_or("no text");
        let cut = reason.get(..reason.floor_char_boundary(MAX_REASON)).unwrap_or_default();
        let reason: String = cut.chars().filter(|c| !c.is_control()).collect();
        let report = format!("killed by `{}`: {reason}", cx.process().name);
        self.doom(cx.lock, End { cause: Cause::Killed, code: 0, report });
        Ok(Completion::Done)
    }

    fn wait(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::wait_params::Reader<'_>,
        results: m::wait_results::Builder<'_>,
    ) -> Answer {
        self.ending.wait(cx, |end| write_exit(end, results.init_exit()))
    }

    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        mut results: m::info_results::Builder<'_>,
    ) -> Answer {
        results.set_name(self.name.as_str());
        results.set_id(self.id);
        results.set_threads(u32::try_from(self.thread_count()).unwrap_or(u32::MAX));
        results.set_alive(!self.is_doomed());
        Ok(Completion::Done)
    }

    fn current_thread(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::current_thread_params::Reader<'_>,
        mut results: m::current_thread_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::EXECUTE)?;
        if !Arc::ptr_eq(self, cx.process()) {
            return Err(Exception::failed("the calling thread is one of another process"));
        }
        cx.give(Object::Thread(Arc::clone(&cx.thread.handle)), Rights::ALL, None);
        results.set_thread(capability());
        Ok(Completion::Done)
    }
}

//! The methods of ResourceAccount.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use capos_abi::{Rights, Status};
use capos_schema::kernel_capnp::{limits, resource_account as m};
use capos_schema::kernel_dispatch::{PAGER, ResourceAccountKernel};
use capos_schema::sync::{Completion, Exception, capability};

use crate::arch::time;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::Answer;
use crate::object::account::{Account, Amounts, CarveError, DEEPEST, Resource};
use crate::object::capability::Object;
use crate::object::endpoint::Endpoint;
use crate::object::invocation::{Invocation, refused};
use crate::object::memory::MemoryObject;
use crate::object::notification::Notification;
use crate::object::process::Process;
use crate::object::thread::Unfinished;
use crate::sched::accounting;

/// The longest name of a process, in bytes.
const MAX_NAME: usize = 64;

fn amounts(limits: limits::Reader<'_>) -> Amounts {
    [
        limits.get_frames(),
        limits.get_capabilities().into(),
        limits.get_threads().into(),
        limits.get_processes().into(),
        limits.get_objects().into(),
    ]
}

fn small(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

fn name(text: capnp::text::Reader<'_>) -> Result<String, Exception> {
    let text = text.to_str().map_err(|_| Exception::invalid_argument("a process's name is UTF-8"))?;
    if text.is_empty() || text.len() > MAX_NAME || text.chars().any(char::is_control) {
        return Err(Exception::invalid_argument("a process's name has 1 to 64 bytes and no control characters"));
    }
    Ok(String::from(text))
}

/// Gives a new account the limit of CPU time that is wanted, if any.
fn limit_cpu(lock: &Exclusive, account: &Arc<Account>, wanted: limits::Reader<'_>) -> Result<(), Exception> {
    match wanted.get_cpu_nanoseconds() {
        0 => Ok(()),
        time => {
            accounting::settle_times(lock);
            account.limit_cpu(lock, time).map_err(refused)
        }
    }
}

fn write_limits(account: &Account, mut limits: limits::Builder<'_>) {
    let [frames, capabilities, threads, processes, objects] = account.limits();
    limits.set_frames(frames);
    limits.set_capabilities(small(capabilities));
    limits.set_threads(small(threads));
    limits.set_processes(small(processes));
    limits.set_objects(small(objects));
    limits.set_priority(account.priority());
    limits.set_cpu_nanoseconds(account.cpu_limit().unwrap_or(0));
}

fn not_carved(why: CarveError) -> Exception {
    match why {
        CarveError::QuotaExceeded => refused(Status::QuotaExceeded),
        CarveError::TooDeep => Exception::invalid_argument(format!(
            "the account is the last of {DEEPEST} that were carved from each other, as many as there may be; carve \
             from one further up"
        )),
    }
}

impl ResourceAccountKernel<Invocation<'_>> for Arc<Account> {
    fn create_memory(
        &self,
        cx: &mut Invocation<'_>,
        params: m::create_memory_params::Reader<'_>,
        mut results: m::create_memory_results::Builder<'_>,
    ) -> Answer {
        let memory = match cx.thread.take_unfinished() {
            Some(Unfinished::Memory(memory)) => memory,
            _ => MemoryObject::without_frames(self, params.get_bytes()).map_err(refused)?,
        };
        if !cx.within_budget(|cx, budget| memory.fill(cx.lock, budget)).map_err(refused)? {
            return cx.go_on_later(Unfinished::Memory(memory));
        }
        cx.give(Object::Memory(memory), Rights::ALL, None);
        results.set_memory(capability());
        Ok(Completion::Done)
    }

    fn create_paged_memory(
        &self,
        cx: &mut Invocation<'_>,
        params: m::create_paged_memory_params::Reader<'_>,
        mut results: m::create_paged_memory_results::Builder<'_>,
    ) -> Answer {
        let pager = cx.capability()?;
        let Object::Client(client) = &pager.object else {
            return Err(Exception::invalid_argument("the pager is not a capability to an endpoint"));
        };
        if client.interface != PAGER || !pager.rights.contains(Rights::CALL) {
            return Err(Exception::invalid_argument(
                "the pager's capability does not offer Pager, or cannot be called",
            ));
        }
        let memory = MemoryObject::paged(self, params.get_bytes(), client.clone(), pager.node).map_err(refused)?;
        cx.give(Object::Memory(memory), Rights::ALL, None);
        results.set_memory(capability());
        Ok(Completion::Done)
    }

    fn create_endpoint(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::create_endpoint_params::Reader<'_>,
        mut results: m::create_endpoint_results::Builder<'_>,
    ) -> Answer {
        let charge = self.hold(Resource::Objects, 1).map_err(refused)?;
        cx.give(Object::Endpoint(Endpoint::new(charge).map_err(refused)?), Rights::ALL, None);
        results.set_endpoint(capability());
        Ok(Completion::Done)
    }

    fn create_notification(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::create_notification_params::Reader<'_>,
        mut results: m::create_notification_results::Builder<'_>,
    ) -> Answer {
        let charge = self.hold(Resource::Objects, 1).map_err(refused)?;
        cx.give(Object::Notification(Notification::new(Some(charge))), Rights::ALL, None);
        results.set_notification(capability());
        Ok(Completion::Done)
    }

    fn create_process(
        &self,
        cx: &mut Invocation<'_>,
        params: m::create_process_params::Reader<'_>,
        mut results: m::create_process_results::Builder<'_>,
    ) -> Answer {
        let name = name(params.get_name()?)?;
        let charge = self.hold(Resource::Processes, 1).map_err(refused)?;
        let limits = params.get_limits()?;
        let account = self.carve(amounts(limits), limits.get_priority()).map_err(not_carved)?;
        limit_cpu(cx.lock, &account, limits)?;
        let process = Process::new(cx.lock, name, account, Some(charge)).map_err(refused)?;
        cx.give(Object::Process(process), Rights::ALL, None);
        results.set_process(capability());
        Ok(Completion::Done)
    }

    fn carve(
        &self,
        cx: &mut Invocation<'_>,
        params: m::carve_params::Reader<'_>,
        mut results: m::carve_results::Builder<'_>,
    ) -> Answer {
        let limits = params.get_limits()?;
        let account = self.carve_object(amounts(limits), limits.get_priority()).map_err(not_carved)?;
        limit_cpu(cx.lock, &account, limits)?;
        cx.give(Object::Account(account), Rights::ALL, None);
        results.set_account(capability());
        Ok(Completion::Done)
    }

    fn usage(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::usage_params::Reader<'_>,
        mut results: m::usage_results::Builder<'_>,
    ) -> Answer {
        accounting::settle_times(cx.lock);
        let [frames, capabilities, threads, processes, objects] = Account::usage(self);
        let mut usage = results.reborrow().init_usage();
        usage.set_frames(frames);
        usage.set_capabilities(small(capabilities));
        usage.set_threads(small(threads));
        usage.set_processes(small(processes));
        usage.set_objects(small(objects));
        usage.set_cpu_nanoseconds(time::lasting(self.cpu_ticks.load(core::sync::atomic::Ordering::Relaxed)));
        results.set_cpu_left(self.cpu_left().unwrap_or(u64::MAX));
        write_limits(self, results.init_limits());
        Ok(Completion::Done)
    }

    fn cut(
        &self,
        cx: &mut Invocation<'_>,
        params: m::cut_params::Reader<'_>,
        results: m::cut_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        if self.has_retired() {
            return Err(Exception::failed("the account has retired: what it had is its parent's"));
        }
        let wanted = params.get_limits()?;
        Account::cut(self, amounts(wanted));
        let time = wanted.get_cpu_nanoseconds();
        if time != 0 {
            // What threads have run for until now is not of what they may use from now on.
            accounting::settle_times(cx.lock);
            self.cut_cpu(cx.lock, time).map_err(refused)?;
            accounting::limits_changed(cx.lock);
        }
        write_limits(self, results.init_limits());
        Ok(Completion::Done)
    }
}

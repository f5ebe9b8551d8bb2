//! How long the kernel lock is held exclusively by what takes long, with the largest tables that the accounts of these tests allow.
//! The scenario counts instructions in place of time.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::ring::RingLayout;
use capos_abi::{CapId, Rights, Status};
use capos_schema::{kernel_capnp as schema, kernel_dispatch as interface};

use super::bench::{Actor, alone, buffer, capabilities, settle};
use crate::arch::time;
use crate::cpu::budget::Budget;
use crate::events::reap;
use crate::ipc;
use crate::log;
use crate::memory::page_table::Access;
use crate::object::account::{Account, Resource};
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::memory::MemoryObject;
use crate::object::notification::Notification;
use crate::object::operation::{Call, Progress};
use crate::object::process::{Cause, End, Process};
use crate::object::thread::{Start, Thread};
use crate::object::{derivation, reaper};
use crate::sched::scheduler;
use crate::syscall;
use crate::syscall::methods::table::AT_ONCE;

/// What the measured processes may hold.
pub(super) const LIMITS: [u64; 5] = [40_000, 8192, 40, 4, 2048];
pub(super) const BASE: u64 = 0x1000_0000;
pub(super) const PAGE: u64 = 4096;
pub(super) const READ: Access = Access { read: true, write: false, execute: false, device: false };

/// Does all steps, of which none may take too long.
pub(super) fn measure(what: &str, step: impl FnMut() -> bool) {
    measure_between(what, || {}, step);
}

/// The same; something else happens before each step.
fn measure_between(what: &str, mut before: impl FnMut(), mut step: impl FnMut() -> bool) {
    let (mut steps, mut longest, mut all, mut done) = (0, 0, 0, false);
    while !done {
        before();
        let start = time::tsc();
        done = step();
        let took = time::tsc() - start;
        longest = longest.max(took);
        all += took;
        steps += 1;
    }
    log!("{what}: {steps} steps of {} instructions on average, {longest} in the longest", all / steps);
    assert!(steps > 1, "{what} takes one step, so nothing is shown");
    assert!(longest <= Budget::BOUND, "{what}: {longest} instructions in one step");
}

/// What must end ends.
pub(super) fn measure_end(what: &str) {
    measure(what, || {
        reap::step(&mut alone());
        !reaper::has_rest()
    });
    settle();
}

pub(super) fn process(account: &Arc<Account>) -> Arc<Process> {
    Process::new(&mut alone(), String::from("large"), account.carve(LIMITS, 0).unwrap(), None).unwrap()
}

pub(super) fn doom(process: &Process) {
    process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
}

fn thread(process: &Arc<Process>, ring: u64, completions: u32) -> Arc<Thread> {
    let layout = RingLayout::new(2, completions).unwrap();
    let start = Start { entry: 0, stack: 0, arguments: [0, 0], ring, layout, thread_pointer: 0 };
    scheduler::new_thread(&mut alone(), process, start).unwrap()
}

/// A thread with as many waits at a notification as its ring has completions.
fn busy_thread(process: &Arc<Process>, ring: u64, completions: u32) -> Arc<Thread> {
    let thread = thread(process, ring, completions);
    let cap = process.insert(Object::Notification(Notification::new(None)), Rights::ALL, None).unwrap();
    for tag in 0..u64::from(completions) {
        assert!(matches!(ipc::wait(&mut alone(), &thread, tag, cap), Progress::Pending));
    }
    thread
}

/// Shows an object of that many pages at an address, in small pages.
pub(super) fn show(process: &Arc<Process>, address: u64, pages: u64, through: Option<capos_captable::NodeId>) {
    // One page aside, so that no large page can be shown.
    let memory = MemoryObject::anonymous(&mut alone(), &process.account, (pages + 1) * PAGE).unwrap();
    let range = (address, pages * PAGE);
    process.space.map(&mut alone(), Backing::Memory(memory), range, PAGE, READ, through).unwrap();
}

/// Shows one page `count` times, `apart` bytes from each other.
fn show_often(process: &Process, count: u64, apart: u64) {
    let memory = MemoryObject::anonymous(&mut alone(), &process.account, PAGE).unwrap();
    for number in 0..count {
        let (backing, range) = (Backing::Memory(Arc::clone(&memory)), (BASE + number * apart, PAGE));
        process.space.map(&mut alone(), backing, range, 0, READ, None).unwrap();
    }
}

/// The end of processes with many capabilities, threads, operations, mappings and pages.
pub fn ends_are_bounded(account: &Arc<Account>) {
    let many = process(account);
    while many.account.usage()[1] < 8000 {
        many.insert(Object::Timer, Rights::ALL, None).unwrap();
    }
    doom(&many);
    measure_end("the end of a process with 8000 capabilities");

    let busy = process(account);
    for number in 0..32 {
        busy_thread(&busy, BASE + number * 0x10_0000, 512);
    }
    doom(&busy);
    measure_end("the end of a process with 32 threads and 16384 operations");

    let mapped = process(account);
    show_often(&mapped, 10_000, 2 * PAGE);
    doom(&mapped);
    measure_end("the end of a process with 10000 mappings");

    let large = process(account);
    show(&large, BASE, 16_000, None);
    doom(&large);
    measure_end("the end of a process with 16000 pages");

    // A page for each GiB: each has two tables of its own.
    let sparse = process(account);
    show_often(&sparse, 2000, 1 << 30);
    doom(&sparse);
    measure_end("the end of a process with 4000 sparse page tables");

    let server = process(account);
    for number in 0..500 {
        let object = server.account.hold(Resource::Objects, 1).unwrap();
        server.insert(Object::Endpoint(Endpoint::new(object).unwrap()), Rights::ALL, None).unwrap();
        assert!(number < 500);
    }
    doom(&server);
    measure_end("the end of a process with 500 endpoints");
}

/// The end of one thread among others, and of an endpoint.
pub fn small_ends_are_bounded(account: &Arc<Account>) {
    let process = process(account);
    let (_other, busy) = (thread(&process, BASE, 16), busy_thread(&process, BASE + 0x100_0000, 4096));
    let start = time::tsc();
    scheduler::kill(&mut alone(), &busy, &process, &mut Budget::new());
    assert!(time::tsc() - start <= Budget::BOUND);
    measure_end("the end of a thread with 4096 operations");
    assert_eq!((process.thread_count(), busy.in_flight()), (1, 0));
    assert!(busy.handle.ending.has_come());

    // Calls of one thread that no receiver has taken.
    let client = thread(&process, BASE + 0x300_0000, 2048);
    let object = process.account.hold(Resource::Objects, 1).unwrap();
    let endpoint = Endpoint::new(object).unwrap();
    let receives = process.insert(Object::Endpoint(Arc::clone(&endpoint)), Rights::ALL, None).unwrap();
    let caller = Client { endpoint: Arc::clone(&endpoint), badge: 0, interface: 7 };
    let (params, results) = (Buffer::default(), Buffer::default());
    let call = Call { interface: 7, method: 0, params, results, caps: CapArray::default() };
    for tag in 0..2048 {
        let called = ipc::call(&mut alone(), &client, tag, CapId(0), caller.clone(), call);
        assert!(matches!(called, Progress::Pending));
    }
    let start = time::tsc();
    process.release(&mut alone(), receives).unwrap();
    assert!(time::tsc() - start <= Budget::BOUND);
    measure_end("the end of an endpoint with 2048 calls");
    assert_eq!(client.in_flight(), 0);
    doom(&process);
    settle();
}

/// Runs an entry to its end, a step at a time.
pub(super) fn run(what: &str, actor: &mut Actor, operation: Operation) -> (i32, u32) {
    actor.push(1, operation);
    let mut begun = false;
    measure(what, || {
        match core::mem::replace(&mut begun, true) {
            true => syscall::resume(&mut alone(), &actor.thread),
            false => {
                actor.enter(0);
            }
        }
        !actor.thread.has_resume()
    });
    let last = actor.completions().pop().unwrap();
    (last.status, last.length)
}

pub(super) fn call(actor: &Actor, cap: CapId, (interface, method): (u64, u16), params: Buffer) -> Operation {
    assert!(params.length > 0, "{:?}", actor.process);
    let caps = CapArray { address: super::bench::SCRATCH + 0x2000, sent: 0, accepted: 1 };
    Operation::Call { cap: cap.0, interface, method, params, results: buffer(0x1000, 0x1000), caps }
}

/// Revocation of everything that can derive from a capability.
pub fn revocations_are_bounded(account: &Arc<Account>) {
    let before = derivation::count();
    let mut owner = Actor::new(account, "owner");
    let holder = process(account);
    let root = owner.give(Object::Timer);
    let node = owner.process.get(root).unwrap().node.unwrap();
    // A chain, and a star at its end.
    let mut last = node;
    let mut ids = alloc::vec::Vec::new();
    for number in 0..6000 {
        let id = holder.insert(Object::Timer, Rights::ALL, Some(last)).unwrap();
        ids.push(id);
        if number < 2000 {
            last = holder.get(id).unwrap().node.unwrap();
        }
    }
    // Much in flight through one of them, and a mapping of many pages.
    let thread = thread(&holder, BASE, 1024);
    let waited = holder.insert(Object::Notification(Notification::new(None)), Rights::ALL, Some(last)).unwrap();
    for tag in 0..1024 {
        assert!(matches!(ipc::wait(&mut alone(), &thread, tag, waited), Progress::Pending));
    }
    show(&holder, BASE + 0x100_0000, 12_000, Some(last));
    let table = owner.give(Object::Table(Arc::clone(&owner.process)));
    let params = owner.params(|params| {
        params.init_as::<schema::capability_table::revoke_params::Builder<'_>>().set_id(root.0);
    });
    let revoke = call(&owner, table, (interface::CAPABILITY_TABLE, 3), params);
    let mut others = 0;
    owner.push(1, revoke);
    owner.enter(0);
    let what = "the revocation of 6001 capabilities, 1024 operations and 12000 pages";
    let add = || {
        // Who still holds some of it cannot make it longer.
        if let Some(kept) = ids.iter().rev().find_map(|id| holder.get(*id).ok()) {
            let refused = holder.insert(kept.object, Rights::ALL, kept.node).err();
            // Overloaded: it lies too deep to tell.
            assert!(matches!(refused, Some(Status::StaleCapability | Status::Overloaded)), "{refused:?}");
            others += 1;
        }
    };
    measure_between(what, add, || {
        syscall::resume(&mut alone(), &owner.thread);
        !owner.thread.has_resume()
    });
    let completions = owner.completions();
    assert_eq!((completions.len(), completions[0].status), (1, 0));
    let results = owner.read(super::bench::SCRATCH + 0x1000, 16);
    assert_eq!(u32::from_le_bytes(results[8..12].try_into().unwrap()), 6001);
    assert!(others > 10);
    assert_eq!((holder.capability_count(), thread.in_flight()), (0, 0));
    assert!(holder.space.check(&mut alone(), BASE + 0x100_0000, 1, false).is_err());
    // It is over: something can derive from it again.
    holder.insert(Object::Timer, Rights::ALL, Some(node)).unwrap();

    // One that ends with its thread refuses nothing any more.
    let middle = holder.insert(Object::Timer, Rights::ALL, Some(node)).unwrap();
    let middle = holder.get(middle).unwrap().node;
    for _ in 0..1000 {
        holder.insert(Object::Timer, Rights::ALL, middle).unwrap();
    }
    owner.push(2, revoke);
    owner.enter(0);
    assert!(owner.thread.has_resume());
    drop(owner);
    let left = holder.capability_count();
    assert!(left > 0, "the owner ended before its revocation did");
    if let Some(kept) = capabilities(&holder).last() {
        holder.insert(Object::Timer, Rights::ALL, kept.1.node).unwrap();
    }
    doom(&holder);
    settle();
    assert_eq!(derivation::count(), before);
}

/// Capabilities are told some at a time, however many there are, derive from each other, and were released between them.
pub fn lists_are_bounded(account: &Arc<Account>) {
    let mut actor = Actor::with_limits(account, "holder", LIMITS, RingLayout::new(16, 16).unwrap());
    let table = actor.give(Object::Table(Arc::clone(&actor.process)));
    let (mut ids, mut node) = (Vec::new(), None);
    while let Ok(id) = actor.process.insert(Object::Timer, Rights::ALL, node) {
        node = actor.process.get(id).unwrap().node;
        ids.push(id);
    }
    let newest = ids.last().copied();
    // With free places between them, and with more of these in a row than one call looks at.
    let is_kept = |index: u32| index < 1500 && index.is_multiple_of(7) || index > 7500;
    ids.retain(|id| is_kept(id.index()) || actor.process.release(&mut alone(), *id).is_err());
    assert!(ids.len() > 300, "{} capabilities", ids.len());
    ids.push(table);
    ids.sort_unstable_by_key(|id| id.index());
    // With room for as many as are told at once, and for two.
    for (length, most) in [(0x4000, AT_ONCE.0), (0x180, 2)] {
        let (mut told, mut from, mut longest, mut calls) = (Vec::new(), 0, 0, 0);
        loop {
            let params = actor.params(|params| {
                params.init_as::<schema::capability_table::list_params::Builder<'_>>().set_from(from);
            });
            let (results, caps) = (buffer(0x1000, length), CapArray::default());
            let call = Operation::Call {
                cap: table.0,
                interface: interface::CAPABILITY_TABLE,
                method: 0,
                params,
                results,
                caps,
            };
            let start = time::tsc();
            let done = actor.once(call);
            longest = longest.max(time::tsc() - start);
            assert_eq!(done.status, 0);
            let next = actor.results(results, done.length, |results| {
                let results: schema::capability_table::list_results::Reader<'_> = results.get_as().unwrap();
                let list = results.get_capabilities().unwrap();
                assert!(list.len() <= most);
                for info in list {
                    told.push(CapId(info.get_id()));
                    // From each but the newest another one derives.
                    let is_last = [Some(table), newest].contains(&told.last().copied());
                    assert_eq!(info.get_derived(), !is_last, "{}", info.get_id());
                }
                results.get_next()
            });
            calls += 1;
            if next == 0 {
                break;
            }
            assert!(next > from, "it has no end");
            from = next;
        }
        assert_eq!(told, ids);
        log!("listing {} capabilities: {calls} calls, {longest} instructions in the longest", ids.len());
        assert!(longest <= Budget::BOUND, "listing: {longest} instructions in one call");
    }
}

/// Between two steps: nothing reaches what is ending, and the event loop does not do one step after the other.
pub fn ends_are_ends_between_steps(account: &Arc<Account>) {
    // A signal does not go to a thread that is ending, which still waits in the notification's queue.
    let mut other = Actor::new(account, "waiter");
    let shared = process(account);
    let (_first, dying) = (thread(&shared, BASE, 16), thread(&shared, BASE + 0x100_0000, 4096));
    let notification = Notification::new(None);
    let cap = shared.insert(Object::Notification(Arc::clone(&notification)), Rights::ALL, None).unwrap();
    for tag in 0..4096 {
        assert!(matches!(ipc::wait(&mut alone(), &dying, tag, cap), Progress::Pending));
    }
    let waited = other.give(Object::Notification(notification));
    assert!(other.run(7, Operation::Wait { cap: waited.0 }).is_empty());
    scheduler::kill(&mut alone(), &dying, &shared, &mut Budget::new());
    assert!(reaper::has_work(), "it ends in several steps");
    let told = other.run(8, Operation::Notify { notification: waited.0, bits: 1 });
    assert!(told.iter().any(|done| done.user_data == 7), "the signal went to a thread that was ending");

    // A process whose threads end: killing one of them on its own skips no other.
    let many = process(account);
    let threads: alloc::vec::Vec<_> = (0..8).map(|n| busy_thread(&many, BASE + n * 0x10_0000, 256)).collect();
    doom(&many);
    reap::step(&mut alone());
    for killed in &threads {
        scheduler::kill(&mut alone(), killed, &shared, &mut Budget::new());
    }
    // Nothing is carved out of the account of a process that ends, so no process below it is missed.
    assert!(many.account.carve([1, 1, 1, 0, 1], 0).is_err());
    settle();
    assert!(threads.iter().all(|thread| thread.handle.ending.has_come()));
    assert_eq!(many.account.usage()[2], 0);
    doom(&shared);
    settle();

    // A step that gives many objects up has made work for later, not for now.
    let holder = process(account);
    for _ in 0..200 {
        let memory = MemoryObject::anonymous(&mut alone(), &holder.account, 64 * PAGE).unwrap();
        holder.insert(Object::Memory(memory), Rights::ALL, None).unwrap();
    }
    doom(&holder);
    while reaper::has_rest() || reaper::has_work() {
        reap::step(&mut alone());
        assert!(!reaper::has_work(), "the event loop would do the next step at once");
    }
}

/// Several long entries of one ENTER share a budget, and a revocation whose parameters change leaves nothing behind.
pub fn entries_share_a_budget(account: &Arc<Account>) {
    let own = account.carve(LIMITS, 0).unwrap();
    let mut actor = Actor::new(account, "user");
    let paid = actor.give(Object::Account(Arc::clone(&own)));
    let params = actor.params(|params| {
        params.init_as::<schema::resource_account::create_memory_params::Builder<'_>>().set_bytes(30 * PAGE);
    });
    let create = call(&actor, paid, (interface::RESOURCE_ACCOUNT, 0), params);
    for tag in 0..7 {
        actor.push(tag, create);
    }
    let last = call(&actor, paid, (interface::RESOURCE_ACCOUNT, 0), params);
    run("making 30 pages of memory eight times by one ENTER", &mut actor, last);
    drop(actor);
    assert_eq!(own.usage()[0], 0);

    let mut owner = Actor::new(account, "owner");
    let (one, two) = (owner.give(Object::Timer), owner.give(Object::Timer));
    let node = owner.process.get(one).unwrap().node;
    let holder = process(account);
    for _ in 0..200 {
        holder.insert(Object::Timer, Rights::ALL, node).unwrap();
    }
    let table = owner.give(Object::Table(Arc::clone(&owner.process)));
    let params = |owner: &Actor, id: CapId| {
        owner.params(|params| {
            params.init_as::<schema::capability_table::revoke_params::Builder<'_>>().set_id(id.0);
        })
    };
    let of_one = params(&owner, one);
    owner.push(1, call(&owner, table, (interface::CAPABILITY_TABLE, 3), of_one));
    owner.enter(0);
    assert!(owner.thread.has_resume());
    params(&owner, two);
    while owner.thread.has_resume() {
        syscall::resume(&mut alone(), &owner.thread);
    }
    assert_eq!(owner.completions().len(), 1);
    // Something can derive from the first again.
    holder.insert(Object::Timer, Rights::ALL, node).unwrap();
    doom(&holder);
    settle();
}

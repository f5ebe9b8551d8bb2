//! Tests of threads that share a process: ends, waits for ends, priorities, pages.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::syscall::{EXIT, EXIT_PROCESS, EXIT_THREAD};
use capos_abi::{CapId, Rights, Status};
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, SCRATCH, alone, buffer, memory, settle, shared, status};
use super::words::{wait, wake};
use crate::arch::{percpu, time};
use crate::cpu::budget::Budget;
use crate::cpu::kernel_lock::{self, Entered};
use crate::memory::page_table::Access;
use crate::memory::{frames, heap};
use crate::object::account::{Account, Resource};
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::memory::MemoryObject;
use crate::object::notification::Notification;
use crate::object::process::{Cause, End, Process};
use crate::object::thread::State;
use crate::paging::fault;
use crate::sched::{accounting, scheduler, switching};

/// Where calls here put their results.
const RESULTS: u64 = 0x1000;
/// Zeros: parameters of methods that have none.
const NOTHING: u64 = 0x3800;

fn handle(actor: &Actor, of: &Actor) -> CapId {
    actor.give(Object::Thread(Arc::clone(&of.thread.handle)))
}

fn wait_for(cap: CapId) -> Operation {
    Operation::Call {
        cap: cap.0,
        interface: interface::THREAD,
        method: 2,
        params: buffer(NOTHING, 8),
        results: buffer(RESULTS, 512),
        caps: CapArray::default(),
    }
}

/// Cause and code of the ExitInfo that lies among the results.
fn exit_info(actor: &Actor) -> (u16, i32) {
    let raw = actor.read(SCRATCH + RESULTS + 16, 8);
    (u16::from_le_bytes(raw[..2].try_into().unwrap()), i32::from_le_bytes(raw[4..].try_into().unwrap()))
}

/// A thread's EXIT ends it alone; the last one's ends the process with its code; a scope that there
/// is not ends the process with a sentence.
pub fn threads_end_alone(account: &Arc<Account>) {
    let mut first = Actor::new(account, "threads");
    let second = first.sibling(1);
    let ring = second.ring;
    assert_eq!(first.process.thread_count(), 2);
    assert!(first.process.space.check(&mut alone(), ring, 16, true).is_ok());
    second.system_call(EXIT, [5, EXIT_THREAD, 0]);
    assert_eq!((first.process.thread_count(), second.thread.state()), (1, State::Dead));
    assert!(first.process.space.check(&mut alone(), ring, 16, true).is_err(), "its rings are unmapped");
    assert_eq!(first.once(Operation::Nop).status, 0);
    assert_eq!(second.enter(1), second.enter(0), "a thread that has ended takes no entries");

    // What was put in place of its rings stays.
    let third = first.sibling(2);
    let other = memory(&first.process.account, 1, 9);
    first.process.space.unmap_at_once(&mut alone(), third.ring, 0x1000).unwrap();
    let access = Access { read: true, ..Access::default() };
    first.process.space.map(&mut alone(), Backing::Memory(other), (third.ring, 0x1000), 0, access, None).unwrap();
    third.system_call(EXIT, [0, EXIT_THREAD, 0]);
    assert_eq!(first.read(third.ring, 4), [9; 4]);
    assert!(
        first.process.space.check(&mut alone(), third.ring + 0x1000, 16, true).is_err(),
        "the rest of them is gone"
    );

    first.system_call(EXIT, [-7_i64 as u64, EXIT_THREAD, 0]);
    let end = first.process.ending.get().unwrap();
    assert_eq!((end.cause, end.code), (Cause::Exited, -7));

    let first = Actor::new(account, "whole");
    let second = first.sibling(1);
    second.system_call(EXIT, [3, EXIT_PROCESS, 0]);
    assert_eq!((first.thread.state(), first.process.ending.get().unwrap().code), (State::Dead, 3));

    let actor = Actor::new(account, "scope");
    actor.thread.handle.set_name(String::from("the culprit"));
    actor.system_call(EXIT, [0, 2, 0]);
    let report = actor.report().unwrap();
    assert!(report.contains("scope 0x2") && report.contains("`the culprit`"), "{report}");
}

/// A thread that has ended gives back all it had at once, also while others designate it, a server
/// still has its call, and its entries were in flight.
pub fn threads_give_everything_back(account: &Arc<Account>) {
    let mut server = Actor::new(account, "server");
    let object = Endpoint::new(server.process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
    let endpoint = server.give(Object::Endpoint(Arc::clone(&object)));
    let first = Actor::new(account, "spawner");
    let client = first.give(Object::Client(Client { endpoint: object, badge: 0, interface: 7 }));
    let mut live = |held: bool| {
        let before = first.process.account.usage();
        let mut second = first.sibling(1);
        let cap = held.then(|| handle(&first, &second));
        let receive = Operation::Recv { endpoint: endpoint.0, buffer: buffer(0, 256), caps: CapArray::default() };
        assert!(server.run(1, receive).is_empty());
        let call = Operation::Call {
            cap: client.0,
            interface: 7,
            method: 0,
            params: buffer(0, 16),
            results: buffer(0x100, 64),
            caps: CapArray::default(),
        };
        for tag in 0..3 {
            assert!(second.run(tag, call).is_empty());
        }
        assert!(second.run(9, wait(SCRATCH + 0x40, 0)).is_empty());
        assert_eq!(server.completions().len(), 1);
        second.system_call(EXIT, [0, EXIT_THREAD, 0]);
        drop(second);
        let [frames, capabilities, threads, processes, objects] = before;
        let held = u64::from(held);
        let left = [frames, capabilities + held, threads, processes, objects + held];
        assert_eq!(first.process.account.usage(), left, "what the server still has of the call costs nothing here");
        let reply = u64::from_le_bytes(server.read(SCRATCH + 16, 8).try_into().unwrap());
        assert_eq!(server.once(Operation::Release { cap: reply }).status, 0);
        if let Some(cap) = cap {
            first.process.release(&mut alone(), cap).unwrap();
        }
        assert_eq!(first.process.account.usage(), before);
    };
    live(true);
    live(false);
    let before = (frames::free_count(), heap::used(), derivation::count());
    for held in [true, false, true, false] {
        live(held);
    }
    assert_eq!(before, (frames::free_count(), heap::used(), derivation::count()));
}

/// Where the capability of a new thread does not reach who made it, no thread runs and nothing of it
/// stays; the same call with room for the capability succeeds.
pub fn threads_run_once_they_are_known(account: &Arc<Account>) {
    let mut maker = Actor::new(account, "maker");
    let own = maker.process.insert(Object::Process(Arc::clone(&maker.process)), Rights::ALL, None).unwrap();
    let begun =
        Process::new(&mut alone(), String::from("begun"), account.carve([32, 4, 1, 0, 4], 0).unwrap(), None).unwrap();
    let first_of = maker.give(Object::Process(Arc::clone(&begun)));
    for (cap, process) in [(own, Arc::clone(&maker.process)), (first_of, begun)] {
        let params = maker.params(|params| {
            let mut params: schema::process::create_thread_params::Builder<'_> = params.init_as();
            params.set_entry(SCRATCH);
            params.set_ring(0x40_0000);
            params.set_submission_entries(2);
            params.set_completion_entries(2);
        });
        let create = |results, accepted, address| Operation::Call {
            cap: cap.0,
            interface: interface::PROCESS,
            method: 4,
            params,
            results,
            caps: CapArray { address, sent: 0, accepted },
        };
        let room = buffer(RESULTS, 64);
        let array = SCRATCH + 0x2000;
        // Page tables stay.
        assert_eq!(maker.once(create(room, 0, 0)).status, status(Status::TooLarge));
        let before = (process.account.usage(), process.thread_count());
        for (create, expected) in [
            (create(room, 0, 0), Status::TooLarge),
            (create(buffer(RESULTS, 8), 1, array), Status::TooLarge),
            (create(room, 1, 0x6000_0000), Status::BadAddress),
            (create(Buffer { address: 0x6000_0000, length: 64 }, 1, array), Status::BadAddress),
        ] {
            assert_eq!(maker.once(create).status, status(expected));
            assert_eq!((process.account.usage(), process.thread_count()), before);
            assert!(process.ending.get().is_none());
        }
        assert_eq!(maker.once(create(room, 1, array)).status, 0);
        assert_eq!(process.thread_count(), before.1 + 1);
        if Arc::ptr_eq(&process, &maker.process) {
            let thread = maker.received_caps(array, 1)[0];
            assert_eq!(maker.call_kernel(thread, interface::THREAD, 1, &[], |_| {}).0, 0);
        } else {
            process.doom(&mut alone(), End { cause: Cause::Killed, code: 0, report: String::new() });
        }
    }
    settle();
    while maker.process.insert(Object::Timer, Rights::ALL, None).is_ok() {}
    let (refused, _) = maker.call_kernel(own, interface::PROCESS, 4, &[], |params| {
        let mut params: schema::process::create_thread_params::Builder<'_> = params.init_as();
        params.set_entry(SCRATCH);
        params.set_ring(0x40_0000);
        params.set_submission_entries(2);
        params.set_completion_entries(2);
    });
    assert_eq!((refused, maker.process.thread_count()), (status(Status::QuotaExceeded), 1));
}

/// A wait answers when the thread ends, however it does, and at once where it has ended.
pub fn threads_are_waited_for(account: &Arc<Account>) {
    let mut first = Actor::new(account, "joiner");
    let own = handle(&first, &first);
    assert_eq!(first.once(wait_for(own)).status, 5, "nobody waits for itself");

    let second = first.sibling(1);
    let cap = handle(&first, &second);
    assert!(first.run(1, wait_for(cap)).is_empty());
    second.system_call(EXIT, [41, EXIT_THREAD, 0]);
    assert_eq!(first.completions()[0].status, 0);
    assert_eq!(exit_info(&first), (0, 41));
    assert_eq!(first.once(wait_for(cap)).status, 0, "and again");
    assert_eq!(exit_info(&first), (0, 41));

    // Killed, by a holder with the right to.
    let second = first.sibling(2);
    let cap = handle(&first, &second);
    let weak = first.process.insert(Object::Thread(Arc::clone(&second.thread.handle)), Rights::CALL, None).unwrap();
    let kill = |cap: CapId| Operation::Call {
        cap: cap.0,
        interface: interface::THREAD,
        method: 1,
        params: buffer(NOTHING, 8),
        results: buffer(0x2000, 256),
        caps: CapArray::default(),
    };
    assert_eq!(first.once(kill(weak)).status, 1);
    assert!(first.run(1, wait_for(cap)).is_empty());
    let done = first.run(2, kill(cap));
    assert_eq!((done[0].user_data, done[0].status, done[1].status), (1, 0, 0));
    assert_eq!((exit_info(&first), second.thread.state()), ((1, 0), State::Dead));
    assert_eq!(first.once(kill(cap)).status, 0, "once more changes nothing");

    // A wait that is cancelled, and one from outside that the process's end answers.
    let second = first.sibling(3);
    let cap = handle(&first, &second);
    assert!(first.run(1, wait_for(cap)).is_empty());
    let cancelled = first.run(2, Operation::Cancel { target: 1 });
    assert_eq!(cancelled[0].status, status(Status::Cancelled));
    let mut outside = Actor::new(account, "outside");
    let cap = handle(&outside, &second);
    assert!(outside.run(1, wait_for(cap)).is_empty());
    fault::page_fault(&mut alone(), &second.thread, 0, false, false, true);
    settle();
    assert_eq!(outside.completions()[0].status, 0);
    assert_eq!(exit_info(&outside).0, 2);
    assert!(first.report().unwrap().contains("null pointer"));

    // Itself: the rest of its entries stay where they are.
    let mut first = Actor::new(account, "suicide");
    let second = first.sibling(1);
    let own = handle(&first, &first);
    first.push(1, kill(own));
    first.push(2, Operation::Nop);
    first.enter(2);
    assert_eq!((first.thread.state(), second.process.ending.get().is_none()), (State::Dead, true));
}

/// A process whose threads wait in as many ways as there are ends, and everything comes back.
pub fn threads_wait_in_every_way(account: &Arc<Account>) {
    let live = |cause: usize| {
        let first = Actor::new(account, "many");
        let mut others: Vec<Actor> = (1..7).map(|number| first.sibling(number)).collect();
        let endpoint = first
            .give(Object::Endpoint(Endpoint::new(first.process.account.hold(Resource::Objects, 1).unwrap()).unwrap()));
        let notification = first.give(Object::Notification(Notification::new(None)));
        let timer = first.give(Object::Timer);
        let process = first.give(Object::Process(Arc::clone(&first.process)));
        let thread = handle(&first, &first);
        // A struct of one word: the end of time, for who sleeps.
        first.write(SCRATCH + 0x3000, &[(1_u64 << 32).to_le_bytes(), u64::MAX.to_le_bytes()].concat());
        let call = |cap: CapId, interface, method| Operation::Call {
            cap: cap.0,
            interface,
            method,
            params: buffer(0x3000, 16),
            results: buffer(RESULTS, 512),
            caps: CapArray::default(),
        };
        let ways = [
            wait(SCRATCH + 0x40, 0),
            Operation::Recv { endpoint: endpoint.0, buffer: buffer(0, 256), caps: CapArray::default() },
            Operation::Wait { cap: notification.0 },
            call(timer, interface::TIMER, 1),
            call(process, interface::PROCESS, 6),
            wait_for(thread),
        ];
        for (actor, way) in others.iter_mut().zip(ways) {
            actor.push(1, way);
            actor.enter(1);
            assert_eq!(actor.thread.state(), State::Blocked, "{way:?}");
        }
        match cause {
            0 => first.system_call(EXIT, [0, EXIT_PROCESS, 0]),
            1 => fault::page_fault(&mut alone(), &others[0].thread, 0, true, false, true),
            _ => scheduler::kill(&mut alone(), &others[1].thread, &first.process, &mut Budget::new()),
        }
        settle();
        assert_eq!(first.process.ending.get().is_none(), cause == 2);
    };
    (0..3).for_each(&live);
    let before = (frames::free_count(), heap::used(), derivation::count(), account.usage());
    (0..3).for_each(&live);
    assert_eq!(before, (frames::free_count(), heap::used(), derivation::count(), account.usage()));
}

/// A thread's priority is at most what its account allows; an account allows at most what its parent
/// does.
pub fn priorities_are_bounded(account: &Arc<Account>) {
    assert_eq!(account.carve([0; 5], 99).unwrap().priority(), 2);
    let high = account.carve([0; 5], 1).unwrap();
    assert_eq!((high.priority(), high.carve([0; 5], 2).unwrap().priority()), (1, 1));
    assert_eq!(high.carve([0; 5], -100).unwrap().priority(), -1);
    let mut actor = Actor::new(account, "eager");
    let own = handle(&actor, &actor);
    let mut set = |priority: i8| {
        let (status, _) = actor.call_kernel(own, interface::THREAD, 4, &[], |params| {
            let mut params: schema::thread::set_priority_params::Builder<'_> = params.init_as();
            params.set_priority(priority);
        });
        (status, actor.thread.priority())
    };
    assert_eq!(set(1), (1, 0));
    assert_eq!(set(2), (1, 0));
    assert_eq!(set(3), (5, 0));
    assert_eq!(set(-2), (5, 0));
    assert_eq!(set(-1), (0, -1));
    assert_eq!(set(0), (0, 0));
    let mut allow = |processors: u64| {
        let (status, _) = actor.call_kernel(own, interface::THREAD, 5, &[], |params| {
            let mut params: schema::thread::set_affinity_params::Builder<'_> = params.init_as();
            params.set_processors(processors);
        });
        let handle = &actor.thread.handle;
        (status, [0, 1, 63, 64].map(|processor| handle.may_run_on(processor)))
    };
    // The tests run while there is one processor.
    assert_eq!(allow(2), (5, [true, true, true, false]));
    assert_eq!(allow(0), (5, [true, true, true, false]));
    assert_eq!(allow(1), (0, [true, false, false, false]));
    assert_eq!(allow(1 << 63 | 1), (0, [true, false, true, false]));
    let mut name = |name: &str| {
        let (status, _) = actor.call_kernel(own, interface::THREAD, 3, &[], |params| {
            let mut params: schema::thread::set_name_params::Builder<'_> = params.init_as();
            params.set_name(name);
        });
        (status, actor.thread.handle.name())
    };
    assert_eq!(name("worker 1"), (0, String::from("worker 1")));
    for bad in ["", "a\nb", "a name that is longer than a name may be"] {
        assert_eq!(name(bad), (5, String::from("worker 1")));
    }
}

/// A thread that waits can be switched in where another processor has switched it out, and not before: its registers are being saved
/// there.
pub fn threads_are_put_down_first(account: &Arc<Account>) {
    let actor = Actor::new(account, "moving");
    assert!(switching::may_begin(&actor.thread));
    assert!(!actor.thread.take_up(6), "processor 6 did not run it before");
    assert_eq!(actor.thread.processor(), Some(6));
    assert!(!switching::may_begin(&actor.thread));
    actor.thread.put_down();
    assert!(switching::may_begin(&actor.thread));
}

/// A thread that waits is switched out before this processor holds the kernel lock exclusively, which others may have had before. The
/// time until another thread is chosen is its own, once.
pub fn who_waits_is_laid_down(account: &Arc<Account>) {
    let actor = Actor::new(account, "waiting");
    let own = percpu::current();
    let ticks = || {
        let read = |ticks: &AtomicU64| ticks.load(Ordering::Relaxed);
        (read(&actor.thread.handle.cpu_ticks), read(&actor.process.account.cpu_ticks))
    };
    let from = time::tsc();
    let had_current = switching::with_current(own, &actor.thread, || {
        assert_eq!(actor.thread.processor(), Some(own.index));
        let lock = scheduler::upgrade(shared());
        assert_eq!(actor.thread.processor(), None);
        // What it used so far is seen by who looks then.
        accounting::settle_times(&lock);
        let (used, of_account) = ticks();
        assert!(used > 0 && used == of_account, "{used} ticks of the thread, {of_account} of its account");
    });
    assert!(had_current);
    let (used, of_account) = ticks();
    assert!(used == of_account && used <= time::tsc() - from, "{used} ticks");
    let before = used;
    accounting::settle_times(&alone());
    assert_eq!(ticks(), (before, before), "it runs no more");
}

/// A system call shares the kernel lock, and holds it exclusively from where it needs that.
pub fn system_calls_share_the_lock(_: &Arc<Account>) {
    let own = percpu::current();
    let is_shared = || own.presence.is_in();
    assert!(!is_shared(), "the tests have the kernel to themselves");
    alone().release();
    let shared = match kernel_lock::enter(own) {
        Entered::Shared(lock) => Some(lock),
        Entered::Exclusive(_) => None,
    };
    let lock = shared.unwrap();
    assert!(is_shared());
    lock.release();
    assert!(!is_shared());
    let lock = kernel_lock::try_enter(own).unwrap();
    let times = kernel_lock::times_exclusive();
    let lock = scheduler::upgrade(lock);
    assert_eq!((is_shared(), kernel_lock::times_exclusive()), (false, times + 1));
    lock.release();
    let _ = kernel_lock::acquire(own);
    assert_eq!((is_shared(), kernel_lock::times_exclusive()), (false, times + 2));
}

/// Two threads that touch the same page wait for one request; one that ends meanwhile leaves nothing.
pub fn threads_share_pages(account: &Arc<Account>) {
    const PAGED: u64 = 0x100_0000;
    let mut pager = Actor::new(account, "pager");
    let object = Endpoint::new(pager.process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
    let endpoint = pager.give(Object::Endpoint(Arc::clone(&object)));
    let first = Actor::new(account, "sharing");
    let client = Client { endpoint: object, badge: 3, interface: interface::PAGER };
    let paged = MemoryObject::paged(&first.process.account, 4 * 4096, client, None).unwrap();
    let access = Access { read: true, ..Access::default() };
    first
        .process
        .space
        .map(&mut alone(), Backing::Memory(Arc::clone(&paged)), (PAGED, 4 * 4096), 0, access, None)
        .unwrap();
    let touch = |actor: &Actor, page: u64| {
        actor.thread.change(State::Blocked, State::Running);
        actor.thread.change(State::Ready, State::Running);
        fault::page_fault(&mut alone(), &actor.thread, PAGED + page * 4096, false, false, true);
        settle();
        actor.thread.state()
    };
    let second = first.sibling(1);
    let third = first.sibling(2);
    let used = first.process.account.usage()[2];
    assert_eq!([touch(&first, 1), touch(&second, 1), touch(&third, 2)], [State::Blocked; 3]);
    let caps = CapArray { address: SCRATCH + 0x200, sent: 0, accepted: 1 };
    let receive = Operation::Recv { endpoint: endpoint.0, buffer: buffer(0, 256), caps };
    assert_eq!(pager.once(receive).status, 0);
    assert!(pager.run(7, receive).is_empty(), "one request serves all three");
    pager.run(8, Operation::Cancel { target: 7 });
    let weak = Arc::downgrade(&third.thread);
    scheduler::kill(&mut alone(), &third.thread, &first.process, &mut Budget::new());
    settle();
    drop(third);
    assert!(weak.upgrade().is_none(), "nobody keeps a thread that has ended");
    assert_eq!(first.process.account.usage()[2], used - 1);
    let reply = u64::from_le_bytes(pager.read(SCRATCH + 16, 8).try_into().unwrap());
    let answer = Operation::Return { reply, exception: 0, results: Buffer::default(), caps: CapArray::default() };
    assert_eq!(pager.once(answer).status, 0);
    settle();
    assert_eq!((first.thread.state(), second.thread.state()), (State::Ready, State::Ready));
    assert_eq!([touch(&first, 1), touch(&second, 1)], [State::Running; 2]);
    // A word of paged memory is waited for once it is in.
    let mut second = second;
    assert_eq!(crate::object::memory::cache::evict_object(&mut alone(), &paged), 3);
    second.push(1, wait(PAGED + 4096, 1));
    second.enter(0);
    assert_eq!(second.thread.state(), State::Blocked, "the page comes in first");
    assert_eq!(pager.once(receive).status, 0);
    let reply = u64::from_le_bytes(pager.read(SCRATCH + 16, 8).try_into().unwrap());
    let answer = Operation::Return { reply, exception: 0, results: Buffer::default(), caps: CapArray::default() };
    assert_eq!(pager.once(answer).status, 0);
    second.thread.change(State::Ready, State::Running);
    crate::syscall::resume(&mut alone(), &second.thread);
    assert_eq!(second.completions()[0].status, status(Status::Changed));
    assert_eq!(second.once(wake(PAGED + 4096, 1)).value, 0);
}

/// FS base is what a thread says, unless that is no user address.
pub fn thread_pointers_are_set(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "local");
    let pointer = |actor: &Actor| actor.thread.with_context(|context| context.thread_pointer());
    assert_eq!(actor.once(Operation::ThreadPointer { address: 0x1234_5679 }).status, 0);
    assert_eq!(pointer(&actor), 0x1234_5679);
    for address in [0x8000_0000_0000, 0xffff_8000_0000_0000, u64::MAX] {
        assert_eq!(actor.once(Operation::ThreadPointer { address }).status, status(Status::BadAddress));
    }
    assert_eq!(pointer(&actor), 0x1234_5679);
    assert_eq!(actor.once(Operation::ThreadPointer { address: 0 }).status, 0);
    assert_eq!(pointer(&actor), 0);
}

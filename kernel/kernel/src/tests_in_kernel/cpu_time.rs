//! Tests of limits of CPU time, of the order in which threads wait, and of processes that no process holds.

use alloc::string::String;
use alloc::sync::Arc;

use capos_abi::Status;
use capos_abi::entry::Operation;
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, alone, settle};
use crate::object::account::{Account, Resource};
use crate::object::capability::Object;
use crate::object::process::{Cause, End, Process};
use crate::object::thread::State;
use crate::sched::scheduler;

/// How a process has ended.
fn cause(actor: &Actor) -> Option<Cause> {
    actor.process.ending.get().map(|end| end.cause)
}

/// CPU time is carved, used, shared and given back; and no way leads out of a limit.
pub fn cpu_time_is_carved(account: &Arc<Account>) {
    assert_eq!((account.cpu_left(), account.is_cpu_limited()), (None, false));
    let object = |of: &Arc<Account>, objects: u64| of.carve_object([1, 0, 0, 0, objects], 0).unwrap();
    let limited = object(account, 8);
    limited.limit_cpu(&alone(), 1000).unwrap();
    let left = |account: &Arc<Account>| account.cpu_left().unwrap();
    assert_eq!((left(&limited), limited.cpu_limit()), (1000, Some(1000)));
    // One with a limit of its own, and one that shares.
    let own = limited.carve_object([0, 0, 0, 0, 1], 0).unwrap();
    own.limit_cpu(&alone(), 600).unwrap();
    let sharing = limited.carve_object([1, 0, 0, 0, 2], 0).unwrap();
    assert_eq!((left(&limited), left(&own), left(&sharing), sharing.cpu_limit()), (400, 600, 400, None));
    let greedy = limited.carve_object([0; 5], 0).unwrap();
    assert_eq!((greedy.limit_cpu(&alone(), 401), left(&limited)), (Err(Status::QuotaExceeded), 400));
    assert!(sharing.is_cpu_limited());
    sharing.spend(&alone(), 100);
    own.spend(&alone(), 200);
    assert_eq!((left(&limited), left(&own)), (300, 400));
    // What is below in one comes out of it and goes back to it, also when it went first.
    let below = own.carve_object([0; 5], 0).unwrap();
    below.limit_cpu(&alone(), 50).unwrap();
    below.spend(&alone(), 20);
    own.close_cpu();
    assert_eq!((left(&limited), left(&own), left(&below)), (650, 0, 30));
    drop(below);
    assert_eq!((left(&limited), left(&own)), (680, 0));
    // What came back came off its limit: the rest is what it and the one below it have used.
    assert_eq!(own.cpu_limit(), Some(220));
    drop(own);
    assert_eq!(left(&limited), 680);
    // What goes beyond a limit is used of the one above, and of the one above that; none of it comes back.
    let outer = limited.carve_object([0, 0, 0, 0, 1], 0).unwrap();
    outer.limit_cpu(&alone(), 30).unwrap();
    let inner = outer.carve_object([0; 5], 0).unwrap();
    inner.limit_cpu(&alone(), 10).unwrap();
    assert_eq!((left(&limited), left(&outer), left(&inner)), (650, 20, 10));
    inner.spend(&alone(), 25);
    assert_eq!((left(&limited), left(&outer), left(&inner)), (650, 5, 0));
    inner.spend(&alone(), 15);
    assert_eq!((left(&limited), left(&outer), left(&inner)), (640, 0, 0));
    drop((inner, outer));
    assert_eq!(left(&limited), 640);
    // An account that has retired still limits those below it, and what is given back does not lead past it.
    let kept = sharing.hold(Resource::Frames, 1).unwrap();
    let given = sharing.carve_object([0, 0, 0, 0, 0], 0).unwrap();
    sharing.retire();
    limited.retire();
    drop((kept, sharing));
    assert_eq!(given.cpu_left(), Some(640));
    given.spend(&alone(), 700);
    assert_eq!(given.cpu_left(), Some(0));
    drop((given, greedy, limited));
    // Time that no process has used is its parent's, but not more.
    let first = object(account, 4);
    first.limit_cpu(&alone(), u64::MAX).unwrap();
    first.cut_cpu(&alone(), 500).unwrap();
    assert_eq!(left(&first), 500);
    first.cut_cpu(&alone(), 900).unwrap();
    assert_eq!(left(&first), 500);
    let second = first.carve_object([0; 5], 0).unwrap();
    second.cut_cpu(&alone(), 700).unwrap();
    assert_eq!((left(&first), left(&second)), (0, 500));
    second.cut_cpu(&alone(), 100).unwrap();
    assert_eq!((left(&first), left(&second)), (400, 100));
    drop((second, first));
    settle();
}

/// A limit that is used up ends those processes that use of it, with its words, and no others.
pub fn cpu_time_ends_with_its_limit(account: &Arc<Account>) {
    let before = account.usage();
    let group = account.carve_object([600, 200, 20, 10, 100], 0).unwrap();
    group.limit_cpu(&alone(), 1_000_000).unwrap();
    let (one, other, own) = (Actor::new(&group, "one"), Actor::new(&group, "other"), Actor::new(account, "own"));
    own.process.account.limit_cpu(&alone(), 5_000).unwrap();
    let free = Actor::new(account, "free");
    assert!(one.process.account.is_cpu_limited() && !free.process.account.is_cpu_limited());
    one.process.account.spend(&alone(), 999_999);
    settle();
    assert_eq!((cause(&one), cause(&other)), (None, None));
    other.process.account.spend(&alone(), 1);
    settle();
    for actor in [&one, &other] {
        assert_eq!((cause(actor), actor.thread.state()), (Some(Cause::CpuTime), State::Dead));
        let report = actor.report().unwrap();
        assert!(report.contains("the limit of CPU time that it shares with its parent is used up"), "{report}");
    }
    assert_eq!((cause(&own), cause(&free)), (None, None));
    own.process.account.spend(&alone(), 6_000);
    settle();
    assert!(own.report().unwrap().starts_with("its limit of CPU time is used up"));
    assert_eq!((cause(&own), cause(&free)), (Some(Cause::CpuTime), None));
    // A process whose limit is set while it runs.
    assert_eq!(free.process.account.cpu_left(), None);
    let below = free.process.account.carve([16, 2, 1, 0, 1], 0).unwrap();
    let child = Process::new(&mut alone(), String::from("child"), Arc::clone(&below), None).unwrap();
    free.process.account.cut_cpu(&alone(), 10).unwrap();
    assert!(below.is_cpu_limited());
    below.spend(&alone(), 10);
    settle();
    assert_eq!((cause(&free), child.ending.get().map(|end| end.cause)), (Some(Cause::CpuTime), Some(Cause::CpuTime)));
    drop((one, other, own, free, child, below, group));
    assert_eq!(account.usage(), before);
}

/// What is cut off an account is its parent's; nothing that is in use is.
pub fn accounts_are_cut(account: &Arc<Account>) {
    let before = account.usage();
    let parent = account.carve_object([100, 50, 10, 5, 50], 0).unwrap();
    let child = parent.carve_object([40, 20, 5, 2, 20], 0).unwrap();
    let used = child.hold(Resource::Frames, 30).unwrap();
    assert_eq!(parent.usage(), [40, 20, 5, 2, 21]);
    child.cut([10, 8, 99, 0, 20]);
    assert_eq!((child.limits(), parent.usage()), ([30, 8, 5, 0, 20], [30, 8, 5, 0, 21]));
    assert_eq!(child.charge(Resource::Frames, 1), Err(Status::QuotaExceeded));
    drop(used);
    assert_eq!((child.usage()[0], child.limits()[0]), (0, 30));
    child.cut([0; 5]);
    assert_eq!((child.limits(), parent.usage()), ([0; 5], [0, 0, 0, 0, 1]));
    child.retire();
    child.cut([0; 5]);
    drop(child);
    assert_eq!(parent.usage(), [0; 5]);
    // Where the parent has retired, the difference is who has its rest.
    let child = parent.carve_object([40, 0, 0, 0, 0], 0).unwrap();
    parent.retire();
    child.cut([15, 0, 0, 0, 0]);
    assert_eq!((account.usage()[0] - before[0], child.limits()[0]), (15, 15));
    drop((child, parent));
    assert_eq!(account.usage(), before);
}

/// A thread that waits for a processor waits by the priority that it has now.
pub fn priorities_hold_at_once(account: &Arc<Account>) {
    let mut caller = Actor::new(account, "caller");
    let waiting = [(); 4].map(|()| Actor::new(account, "waiting"));
    let [first, second, third, next] = waiting.each_ref().map(|actor| &actor.thread);
    // The last one is to run next, and the others wait in the queue, in this order.
    for thread in [first, second, third, next] {
        scheduler::wake(&mut alone(), thread);
    }
    let mut set = |thread: &Arc<_>, priority: i8| {
        let actor = waiting.iter().find(|actor| Arc::ptr_eq(&actor.thread, thread)).unwrap();
        let cap = caller.give(Object::Thread(Arc::clone(&actor.thread.handle)));
        let (status, _) = caller.call_kernel(cap, interface::THREAD, 4, &[], |params| {
            let mut params: schema::thread::set_priority_params::Builder<'_> = params.init_as();
            params.set_priority(priority);
        });
        assert_eq!((status, actor.thread.priority()), (0, priority));
        caller.process.release(&mut alone(), cap).unwrap();
    };
    set(first, -1);
    // To the end of those of its priority; one whose priority stays keeps its place.
    set(second, -1);
    set(second, 0);
    set(third, 0);
    for expected in [third, second, first] {
        let found = scheduler::take_waiting(&mut alone()).unwrap();
        assert!(Arc::ptr_eq(&found, expected), "{found:?} in place of {expected:?}");
    }
    assert!(scheduler::take_waiting(&mut alone()).is_none());
}

/// A process that no capability names any more continues, and is paid for, until it ends or who pays for it does.
pub fn orphans_go_on(account: &Arc<Account>) {
    let before = account.usage();
    let mut maker = Actor::new(account, "maker");
    let own = Arc::clone(&maker.process.account);
    let idle = own.usage();
    let orphan = Actor::orphan(&own, "orphan");
    let held = own.usage();
    assert!(held[0] > idle[0] && held[3] == idle[3] + 1, "{idle:?} became {held:?}");
    let cap = maker.give(Object::Process(Arc::clone(&orphan.process)));
    assert_eq!(maker.once(Operation::Release { cap: cap.0 }).status, 0);
    settle();
    assert_eq!((cause(&orphan), own.usage()), (None, held));
    maker.process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
    settle();
    assert_eq!(cause(&orphan), Some(Cause::Killed));
    let report = orphan.report().unwrap();
    assert!(report.contains("`maker`, whose account paid for it, has ended"), "{report}");
    drop((orphan, own, maker));
    assert_eq!(account.usage(), before);
}

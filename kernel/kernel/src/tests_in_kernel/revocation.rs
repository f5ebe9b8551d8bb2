//! Tests of what revocation costs. The scenario counts instructions in place of time.

use alloc::string::String;
use alloc::sync::Arc;

use capos_abi::{Rights, RingLayout};

use super::bench::{alone, memory, settle};
use crate::arch::time;
use crate::ipc;
use crate::log;
use crate::memory::page_table::Access;
use crate::object::account::Account;
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::notification::Notification;
use crate::object::operation::Progress;
use crate::object::process::{Cause, End, Process};
use crate::object::thread::Start;
use crate::sched::scheduler;

/// What the measured processes may hold.
const LIMITS: [u64; 5] = [2048, 64, 4, 4, 32];
const BASE: u64 = 0x100_0000;

/// Instructions that revoking `count` mappings of one object takes, where a mapping that is not revoked
/// lies between each two.
fn revoke_mappings(account: &Arc<Account>, count: u64) -> u64 {
    let own = account.carve(LIMITS, 0).unwrap();
    let process = Process::new(&mut alone(), String::from("mapper"), own, None).unwrap();
    let object = memory(&process.account, 1, 1);
    let access = Access { read: true, ..Access::default() };
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    let before = process.account.usage();
    for page in 0..count * 2 {
        let range = (BASE + page * 4096, 4096);
        let through = page.is_multiple_of(2).then_some(node);
        process.space.map(&mut alone(), Backing::Memory(Arc::clone(&object)), range, 0, access, through).unwrap();
    }
    let bookkeeping = process.account.usage()[0] - before[0];
    assert!(bookkeeping * 12 >= count * 2, "{bookkeeping} frames are charged for {} regions", count * 2);
    let start = time::tsc();
    derivation::revoke_at_once(&mut alone(), root);
    let cost = time::tsc() - start;
    assert!(process.space.check(&mut alone(), BASE, 1, false).is_err());
    assert!(process.space.check(&mut alone(), BASE + 4096, 1, false).is_ok());
    derivation::forget(node);
    derivation::forget(root);
    process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
    settle();
    cost
}

/// Revoking many mappings costs not much more for each of them than revoking few.
pub fn many_mappings_cost_as_few(account: &Arc<Account>) {
    let [few, more, many] = [100, 1000, 10_000].map(|count| {
        let cost = revoke_mappings(account, count) / count;
        log!("revoking {count} mappings among as many others: {cost} instructions each");
        cost
    });
    assert!(more < few * 2 && many < few * 3, "{few}, {more} and {many} instructions for each mapping");
}

/// One process's operations in many threads' large rings end without looking at every place for each.
pub fn large_rings_end(account: &Arc<Account>) {
    let cost = |places: u32| {
        let own = account.carve([2048, 64, 4, 4, 32], 0).unwrap();
        let process = Process::new(&mut alone(), String::from("waiter"), own, None).unwrap();
        let layout = RingLayout::new(2, places).unwrap();
        let start = Start { entry: 0, stack: 0, arguments: [0, 0], ring: BASE, layout, thread_pointer: 0 };
        let thread = scheduler::new_thread(&mut alone(), &process, start).unwrap();
        let notification = Notification::new(None);
        let cap = process.insert(Object::Notification(Arc::clone(&notification)), Rights::ALL, None).unwrap();
        for tag in 0..u64::from(places) {
            assert!(matches!(ipc::wait(&mut alone(), &thread, tag, cap), Progress::Pending));
        }
        assert_eq!(thread.in_flight(), places);
        let start = time::tsc();
        process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
        settle();
        (time::tsc() - start) / u64::from(places)
    };
    let (few, many) = (cost(64), cost(4096));
    assert!(many < few * 3, "{few} and {many} instructions for each operation");
}

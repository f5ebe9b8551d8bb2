//! Tests of accounts: what is carved out of one comes back to it, whoever keeps what was made with it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::{CapId, Status};

use super::bench::{Actor, alone, memory, settle};
use crate::object::account::{Account, Amounts, CarveError, DEEPEST, Resource};
use crate::object::capability::Object;
use crate::object::endpoint::Endpoint;
use crate::object::notification::Notification;
use crate::object::process::{Cause, End, Process};

/// How many accounts a chain has: one less than there may be below the root, whose account the tests have.
const LENGTH: u64 = DEEPEST as u64 - 1;

/// A chain of accounts, each carved from the one before; the first is the first of them.
fn chain(account: &Arc<Account>) -> Vec<Arc<Account>> {
    let mut all: Vec<Arc<Account>> = Vec::with_capacity(LENGTH as usize);
    for left in (0..LENGTH).rev() {
        let parent = all.last().unwrap_or(account);
        let next = parent.carve_object([1, 0, 0, 0, left], 0).unwrap();
        all.push(next);
    }
    all
}

/// A chain of accounts is paid for, and has an end.
pub fn chains_of_accounts_end(account: &Arc<Account>) {
    let before = account.usage();
    let last = chain(account).pop().unwrap();
    assert_eq!(last.carve_object([0; 5], 0).err(), Some(CarveError::QuotaExceeded));
    assert_eq!(last.carve([2, 0, 0, 0, 0], 0).err(), Some(CarveError::QuotaExceeded));
    let deepest = last.carve([1, 0, 0, 0, 0], 0).unwrap();
    assert_eq!(deepest.carve([0; 5], 0).err(), Some(CarveError::TooDeep));
    assert_eq!(deepest.carve_object([0; 5], 0).err(), Some(CarveError::TooDeep));
    assert_eq!((last.usage()[0], deepest.usage()), (1, [0; 5]));
    drop(deepest);
    assert_eq!(last.usage(), [0; 5]);
    assert_eq!(account.usage()[4] - before[4], LENGTH);
    drop(last);
    assert_eq!(account.usage(), before);
}

/// A chain whose accounts no capability names any more keeps of its limits what is in use. Where the last ones went
/// first, the accounts themselves are: each knows only the one that it was carved from.
pub fn chains_of_accounts_retire(account: &Arc<Account>) {
    let before = account.usage();
    let after = |frames: u64, objects: u64| {
        let mut after = before;
        (after[0], after[4]) = (before[0] + frames, before[4] + objects);
        after
    };
    for (from_the_first, left) in [(true, 1), (false, LENGTH)] {
        let accounts = chain(account);
        assert_eq!(account.usage(), after(1, LENGTH));
        let last = Arc::clone(accounts.last().unwrap());
        let object = last.hold(Resource::Frames, 1).unwrap();
        if from_the_first {
            accounts.iter().for_each(|account| account.retire());
        } else {
            accounts.iter().rev().for_each(|account| account.retire());
        }
        assert_eq!((last.usage(), last.limits()), ([0; 5], [0; 5]));
        assert_eq!(last.charge(Resource::Frames, 1), Err(Status::QuotaExceeded));
        drop(last);
        // Each account is an object for as long as it is there.
        assert_eq!(account.usage(), after(1, LENGTH));
        drop(accounts);
        assert_eq!(account.usage(), after(1, left));
        drop(object);
        assert_eq!(account.usage(), before);
    }
}

/// A chain that retired from its end is gone through once: then nothing leads to those between any more.
pub fn retired_accounts_are_passed_by(account: &Arc<Account>) {
    let before = account.usage();
    let accounts = chain(account);
    let object = accounts.last().unwrap().hold(Resource::Frames, 1).unwrap();
    accounts.iter().rev().for_each(|account| account.retire());
    let known_below = |accounts: &[Arc<Account>]| accounts.iter().filter(|one| Arc::strong_count(one) > 1).count();
    assert_eq!(known_below(&accounts), accounts.len());
    drop(object);
    assert_eq!(known_below(&accounts), 0);
    for one in &accounts {
        assert!(Arc::ptr_eq(&one.nearest().unwrap(), account));
    }
    drop(accounts);
    assert_eq!(account.usage(), before);
}

/// One processor finds the nearest account above that has not retired; before it passes those between by, that one
/// retires as well, and another processor passes it by. The first one's knowledge is old then, and changes nothing.
pub fn a_late_shortening_makes_no_circle(account: &Arc<Account>) {
    let before = account.usage();
    let accounts = chain(account);
    let [above, found, between, below] = accounts.first_chunk().unwrap();
    below.retire();
    between.retire();
    let nearest = below.nearest().unwrap();
    assert!(Arc::ptr_eq(&nearest, found));
    found.retire();
    let other = below.nearest().unwrap();
    assert!(Arc::ptr_eq(&other, above));
    below.pass_by(&other);
    below.pass_by(&nearest);
    assert!(below.is_below(above) && !above.is_below(found) && !account.is_below(found));
    assert!(Arc::ptr_eq(&below.nearest().unwrap(), above));
    drop((nearest, other, accounts));
    assert_eq!(account.usage(), before);
}

/// What others keep of a process that has ended is all that its parent lacks, until they give it up.
pub fn objects_outlast_their_accounts(account: &Arc<Account>) {
    let mut keeper = Actor::new(account, "keeper");
    let before = account.usage();
    let check = |more: Amounts| {
        let found: Vec<u64> = account.usage().iter().zip(before).map(|(now, then)| now - then).collect();
        assert_eq!(found, more, "frames, capabilities, threads, processes, objects");
    };
    let maker = Actor::new(account, "maker");
    let own = Arc::clone(&maker.process.account);
    let object = |of: &Arc<Account>| of.hold(Resource::Objects, 1).unwrap();
    let process = |of: &Arc<Account>| {
        let charge = of.hold(Resource::Processes, 1).unwrap();
        Process::new(&mut alone(), String::from("child"), of.carve([16, 2, 1, 0, 1], 0).unwrap(), Some(charge)).unwrap()
    };
    // An account that the maker alone can name, and one that is given away.
    let (named, given) = (own.carve_object([8, 1, 1, 1, 8], 0).unwrap(), own.carve_object([4, 3, 2, 1, 5], 0).unwrap());
    maker.give(Object::Account(Arc::clone(&own)));
    maker.give(Object::Account(Arc::clone(&named)));
    let child = process(&own);
    let kept: [(Object, Amounts); 6] = [
        (Object::Endpoint(Endpoint::new(object(&own)).unwrap()), [0, 0, 0, 0, 1]),
        (Object::Notification(Notification::new(Some(object(&own)))), [0, 0, 0, 0, 1]),
        (Object::Memory(memory(&own, 3, 1)), [3, 0, 0, 0, 1]),
        // With the account that it was charged to.
        (Object::Memory(memory(&named, 5, 1)), [5, 0, 0, 0, 2]),
        (Object::Process(Arc::clone(&child)), [0, 0, 0, 1, 0]),
        (Object::Account(Arc::clone(&given)), [4, 3, 2, 1, 6]),
    ];
    let ids: Vec<(CapId, Amounts)> = kept.into_iter().map(|(object, cost)| (keeper.give(object), cost)).collect();
    maker.give(Object::Process(child));
    drop((named, maker));
    assert_eq!((own.usage(), own.limits()), ([0; 5], [0; 5]));
    assert_eq!(own.charge(Resource::Frames, 1), Err(Status::QuotaExceeded));
    assert_eq!(own.carve([0, 0, 0, 0, 1], 0).err(), Some(CarveError::QuotaExceeded));
    drop(own);
    // An account that was given away is still one to make things with.
    given.charge(Resource::Objects, 5).unwrap();
    given.refund(Resource::Objects, 5);
    drop(given);
    let mut left = [0; 5];
    for (_, cost) in &ids {
        left.iter_mut().zip(cost).for_each(|(sum, more)| *sum += more);
    }
    check(left);
    for (id, cost) in ids {
        assert_eq!(keeper.once(capos_abi::entry::Operation::Release { cap: id.0 }).status, 0);
        settle();
        left.iter_mut().zip(cost).for_each(|(sum, less)| *sum -= less);
        check(left);
    }
    // One that never ran, and that no process can start any more.
    let idle = process(account);
    let kept = memory(&idle.account, 2, 1);
    idle.doom(&mut alone(), End { cause: Cause::Killed, code: 0, report: String::new() });
    settle();
    drop(idle);
    check([2, 0, 0, 0, 1]);
    drop(kept);
    check([0; 5]);
}

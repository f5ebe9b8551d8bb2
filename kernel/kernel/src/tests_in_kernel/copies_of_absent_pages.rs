//! Tests of copies of paged memory some of whose pages are not in: their pager is asked, and the call waits.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{CapArray, Operation};
use capos_abi::{CapId, ExceptionKind, Rights, Status, TransferMode};
use capos_paging::PAGE;
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, Hog, SCRATCH, alone, buffer, settle, status};
use super::calls::header;
use super::processes::{PAGED_AT, Paging, paging, paging_through};
use crate::cpu::budget::Budget;
use crate::memory::page_table::Access;
use crate::memory::{frames, heap};
use crate::object::account::Account;
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::memory::{MemoryObject, cache};
use crate::object::thread::State;
use crate::paging::fault;
use crate::sched::scheduler;

const READ_WRITE: Access = Access { read: true, write: true, execute: false, device: false };
const COPIED: u64 = 0x5000_0000;
/// Where the user's calls have their results and their capabilities.
const RESULTS: u64 = 0x1000;
const CAPS: u64 = 0x2000;
const TAG: u64 = 5;

/// What no process may have more of afterwards.
fn held(account: &Account) -> (usize, [u64; 5], usize) {
    settle();
    (frames::free_count() + heap::frames(), account.usage(), derivation::count())
}

/// The user's capabilities to the paged memory, and to the account that pays.
fn capabilities(paging: &Paging) -> (CapId, CapId) {
    let account = Object::Account(Arc::clone(&paging.user.process.account));
    (paging.user.give(Object::Memory(Arc::clone(&paging.memory))), paging.user.give(account))
}

/// The user's call of `copy`.
fn copy(paging: &Paging, (source, payer): (CapId, CapId), first: u64, pages: u64) -> Operation {
    let params = paging.user.params(|params| {
        let mut params: schema::memory_object::copy_params::Builder<'_> = params.init_as();
        params.set_offset(first * PAGE);
        params.set_bytes(pages * PAGE);
        params.set_account(capos_schema::sync::capability());
    });
    paging.user.send_caps(SCRATCH + CAPS, &[payer], TransferMode::Copy);
    Operation::Call {
        cap: source.0,
        interface: interface::MEMORY_OBJECT,
        method: interface::MEMORY_OBJECT_COPY,
        params,
        results: buffer(RESULTS, 0x1000),
        caps: CapArray { address: SCRATCH + CAPS, sent: 1, accepted: 1 },
    }
}

/// The user begins to copy: pages of it are not in.
fn begin(paging: &mut Paging, caps: (CapId, CapId), first: u64, pages: u64) {
    let call = copy(paging, caps, first, pages);
    assert!(paging.user.run(TAG, call).is_empty(), "it waits");
}

/// The memory that the call that has ended gave.
fn made(paging: &mut Paging) -> Arc<MemoryObject> {
    let done = paging.user.completions();
    assert_eq!(done.iter().map(|done| (done.user_data, done.status, done.caps)).collect::<Vec<_>>(), [(TAG, 0, 1)]);
    let given = paging.user.received_caps(SCRATCH + CAPS, 1)[0];
    let object = paging.user.process.get(given).unwrap().object;
    paging.user.process.release(&mut alone(), given).unwrap();
    let memory = if let Object::Memory(memory) = object { Some(memory) } else { None };
    memory.unwrap()
}

/// How the call that has ended was refused: its kind, and why.
fn refused(paging: &mut Paging) -> (i32, String) {
    let done = paging.user.completions();
    assert_eq!((done.len(), done[0].user_data, done[0].caps), (1, TAG, 0));
    let reason = paging.user.read(SCRATCH + RESULTS, done[0].length as usize);
    (done[0].status, String::from_utf8(reason).unwrap())
}

/// The pager answers one request; which pages it was for.
fn serve(paging: &mut Paging) -> (u64, u64) {
    let (reply, offset, bytes, window) = paging.take();
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    (offset / PAGE, bytes / PAGE)
}

/// Whether the pager is asked for nothing.
fn is_idle(paging: &mut Paging) -> bool {
    let caps = CapArray { address: SCRATCH + 0x200, sent: 0, accepted: 1 };
    let receive = Operation::Recv { endpoint: paging.endpoint.0, buffer: buffer(0, 256), caps };
    let idle = paging.pager.run(1, receive).is_empty();
    let cancelled = paging.pager.run(2, Operation::Cancel { target: 1 });
    idle && cancelled.iter().any(|done| (done.user_data, done.status) == (1, status(Status::Cancelled)))
}

/// What an actor reads at the start of pages of memory.
fn numbers(actor: &Actor, memory: &Arc<MemoryObject>) -> Vec<u64> {
    actor
        .process
        .space
        .map(&mut alone(), Backing::Memory(Arc::clone(memory)), (COPIED, memory.bytes()), 0, READ_WRITE, None)
        .unwrap();
    let number = |page| u64::from_le_bytes(actor.read(COPIED + page * PAGE, 8).try_into().unwrap());
    let numbers = (0..memory.bytes() / PAGE).map(number).collect();
    actor.process.space.unmap_at_once(&mut alone(), COPIED, memory.bytes()).unwrap();
    numbers
}

/// A copy has the content of pages that were not in, asked for as far as it goes and no farther, and keeps what it has while
/// it waits, though the cache gives that up. It is paid for from the start.
pub fn absent_pages_are_copied(account: &Arc<Account>) {
    let before = held(account);
    let mut paging = paging(account, 100);
    let caps = capabilities(&paging);
    paging.touch(10);
    assert_eq!(serve(&mut paging), (10, 32));
    let charged = paging.user.process.account.usage();
    begin(&mut paging, caps, 5, 60);
    let paid = paging.user.process.account.usage();
    assert_eq!(paid[0] - charged[0], 60, "all of it, before a page is asked for");
    assert_eq!(cache::evict_object(&mut alone(), &paging.memory), 32);
    assert_eq!(serve(&mut paging), (5, 5), "up to what was in");
    assert_eq!(cache::evict_object(&mut alone(), &paging.memory), 5);
    assert_eq!(serve(&mut paging), (42, 23), "up to the end of the copy");
    let copy = made(&mut paging);
    assert_eq!(paging.user.process.account.usage()[0], paid[0]);
    assert!(is_idle(&mut paging));
    assert_eq!(cache::evict_object(&mut alone(), &paging.memory), 23);
    assert_eq!(numbers(&paging.user, &copy), (5..65).collect::<Vec<_>>());

    // A thread and two copies wait for one request. Each of the copies is written to alone, and the paged memory never.
    paging.touch(0);
    begin(&mut paging, caps, 0, 2);
    assert_eq!(serve(&mut paging), (0, 32));
    let first = made(&mut paging);
    paging.touch(0);
    assert_eq!((paging.number_at(0), first.resident_frame(1)), (Some(0), paging.memory.resident_frame(1)));
    begin(&mut paging, caps, 40, 1);
    let (reply, offset, bytes, window) = paging.take();
    let call = self::copy(&paging, caps, 39, 2);
    assert!(paging.user.run(TAG + 1, call).is_empty());
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    let second = made(&mut paging);
    assert_eq!(numbers(&paging.user, &second), [40]);
    assert_eq!(serve(&mut paging), (39, 1));
    assert_eq!(paging.user.completions().first().map(|done| (done.user_data, done.status)), Some((TAG + 1, 0)));
    paging
        .user
        .process
        .space
        .map(&mut alone(), Backing::Memory(Arc::clone(&first)), (COPIED, PAGE), 0, READ_WRITE, None)
        .unwrap();
    paging.user.write(COPIED, b"written!");
    assert_eq!(paging.number_at(0), Some(0));

    // What became of the memory does not matter to its copies.
    let Paging { pager, user, memory, .. } = paging;
    drop((pager, memory));
    user.process.space.unmap_at_once(&mut alone(), COPIED, PAGE).unwrap();
    assert_eq!(numbers(&user, &copy), (5..65).collect::<Vec<_>>());
    drop((user, copy, first, second));
    assert_eq!(held(account), before);
}

/// A copy whose pages do not come is refused with the page and the reason, and has cost nothing; one that is given up, also by
/// the end of its caller, gives everything back at once, whatever its pager does.
pub fn copies_of_absent_pages_end(account: &Arc<Account>) {
    let before = held(account);
    let mut paging = paging(account, 100);
    let caps = capabilities(&paging);
    let charged = paging.user.process.account.usage();
    // Several pages are refused, so the first is asked for alone, and is good; the second is not.
    begin(&mut paging, caps, 10, 8);
    let (reply, ..) = paging.take();
    paging.answer(reply, 1);
    assert_eq!(serve(&mut paging), (10, 1));
    let (reply, offset, bytes, _) = paging.take();
    assert_eq!((offset, bytes), (11 * PAGE, PAGE));
    paging.pager.write(SCRATCH + 0x300, b"bad disk");
    paging.answer(reply, 1);
    let (kind, reason) = refused(&mut paging);
    assert_eq!(kind, ExceptionKind::Failed as i32);
    assert!(reason.contains("page 11 ") && reason.ends_with("bad disk"), "{reason}");
    assert_eq!(paging.user.process.account.usage(), charged);

    // Given up while the pager has the request, which then serves whoever comes later.
    begin(&mut paging, caps, 20, 8);
    let (reply, offset, bytes, window) = paging.take();
    assert_eq!(paging.user.run(6, Operation::Cancel { target: TAG }).len(), 2);
    assert_eq!(paging.user.process.account.usage(), charged);
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    assert!(paging.user.completions().is_empty());
    paging.touch(21);
    assert_eq!(paging.number_at(21), Some(21));

    // The capability that it goes through is revoked.
    let charged = paging.user.process.account.usage();
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let memory = Object::Memory(Arc::clone(&paging.memory));
    let lost = paging.user.process.insert(memory, Rights::ALL, Some(root)).unwrap();
    begin(&mut paging, (lost, caps.1), 30, 8);
    let (reply, ..) = paging.take();
    derivation::revoke_at_once(&mut alone(), root);
    derivation::forget(root);
    assert_eq!(paging.user.completions().first().map(|done| done.status), Some(status(Status::Cancelled)));
    assert_eq!(paging.user.process.account.usage(), charged);
    paging.answer(reply, 1);

    // The pager ends: while it has the request, and before it has taken it.
    for takes in [true, false] {
        let mut other = self::paging(account, 4);
        let caps = capabilities(&other);
        begin(&mut other, caps, 0, 4);
        if takes {
            let _ = other.take();
        }
        other.pager = Actor::new(account, "another");
        settle();
        let (kind, reason) = refused(&mut other);
        assert!(kind > 0 && reason.starts_with("page 0 "), "{kind}: {reason}");
    }
    // It is revoked: at once where it has the request, and for later requests.
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    let mut other = paging_through(account, 40, Some(node));
    let others = capabilities(&other);
    begin(&mut other, others, 0, 40);
    derivation::revoke_at_once(&mut alone(), root);
    settle();
    let (kind, reason) = refused(&mut other);
    assert!(kind == ExceptionKind::Disconnected as i32 && reason.contains("is gone"), "{kind}: {reason}");
    let call = copy(&other, others, 3, 1);
    assert_eq!(other.user.run(TAG, call).len(), 1);
    drop(other);
    derivation::forget(node);
    derivation::forget(root);

    // The caller ends: everything is back, while the pager has the request.
    begin(&mut paging, caps, 50, 40);
    assert_eq!(serve(&mut paging), (50, 32));
    let (reply, ..) = paging.take();
    let Paging { pager, user, memory, endpoint } = paging;
    drop(user);
    settle();
    let spare = Actor::new(account, "spare");
    let mut paging = Paging { pager, user: spare, memory, endpoint };
    paging.answer(reply, 0);
    drop(paging);
    assert_eq!(held(account), before);
}

/// Where memory is short, or there is none, when the pages come, the call is refused, and the pager's answer is not; then it
/// works again.
pub fn copies_wait_without_memory(account: &Arc<Account>) {
    let before = held(account);
    for (left, done) in [(frames::free_count(), true), (512, true), (500, false), (0, false)] {
        let mut paging = paging(account, 8);
        let caps = capabilities(&paging);
        let charged = paging.user.process.account.usage();
        begin(&mut paging, caps, 0, 8);
        let (reply, offset, bytes, window) = paging.take();
        paging.fill(offset, bytes, window);
        let mut hog = (left <= 512).then(Hog::new);
        hog.iter_mut().for_each(|hog| hog.leave(left));
        paging.answer(reply, 0);
        // What the cache had gave way before the call was refused.
        let memory = paging.user.completions();
        assert_eq!(memory.len(), 1, "with {left} frames");
        drop(hog);
        if done {
            assert_eq!((memory[0].status, memory[0].caps), (0, 1), "with {left} frames");
        } else {
            assert_eq!((memory[0].status, memory[0].caps), (ExceptionKind::Overloaded as i32, 0), "with {left} frames");
            assert_eq!(paging.user.process.account.usage(), charged);
        }
        drop(paging);
        assert_eq!(held(account), before);
    }
    // A frame is refused, whichever.
    for granted in 0.. {
        let mut paging = paging(account, 8);
        let caps = capabilities(&paging);
        let call = copy(&paging, caps, 0, 8);
        frames::refuse_after(granted);
        let early = paging.user.run(TAG, call);
        let answered = if early.is_empty() {
            let caps = CapArray { address: SCRATCH + 0x200, sent: 0, accepted: 1 };
            let received =
                paging.pager.once(Operation::Recv { endpoint: paging.endpoint.0, buffer: buffer(0, 256), caps });
            assert_eq!((received.status, received.caps), (0, 1));
            paging.answer(header(&paging.pager).reply, 0);
            paging.user.completions()
        } else {
            early
        };
        let none = frames::refuse_none();
        assert_eq!((answered.len(), answered[0].status == 0), (1, !none), "with {granted} frames");
        drop(paging);
        assert_eq!(held(account), before, "with {granted} frames");
        if !none {
            assert!(granted > 0);
            break;
        }
    }
}

/// A request that the pager has not taken, and that no thread waits for any more, is no more: no account pays for its window.
pub fn unwanted_requests_end(account: &Arc<Account>) {
    let before = held(account);
    let mut paging = paging(account, 4096);
    let caps = capabilities(&paging);
    let free = frames::free_count() + heap::frames();
    for round in 0..40 {
        begin(&mut paging, caps, round * 32, 32);
        assert_eq!(paging.user.run(6, Operation::Cancel { target: TAG }).len(), 2);
        let waiter = paging.user.sibling(1);
        waiter.thread.change(State::Blocked, State::Running);
        fault::page_fault(&mut alone(), &waiter.thread, PAGED_AT + (2000 + round * 32) * PAGE, false, false, true);
        settle();
        scheduler::kill(&mut alone(), &waiter.thread, &paging.user.process, &mut Budget::new());
        drop(waiter);
        settle();
    }
    cache::let_go();
    let lost = free - (frames::free_count() + heap::frames());
    assert!(lost <= 8, "{lost} frames");
    assert!(is_idle(&mut paging));
    // One of two who wait goes: the request stays.
    paging.touch(7);
    begin(&mut paging, caps, 7, 4);
    assert_eq!(paging.user.run(6, Operation::Cancel { target: TAG }).len(), 2);
    assert_eq!(serve(&mut paging), (7, 32));
    paging.touch(7);
    assert_eq!(paging.number_at(7), Some(7));
    // What was withdrawn can be asked for again.
    begin(&mut paging, caps, 64, 1);
    assert_eq!(serve(&mut paging), (64, 1));
    let copy = made(&mut paging);
    assert_eq!(numbers(&paging.user, &copy), [64]);
    drop(copy);
    drop(paging);
    assert_eq!(held(account), before);
}

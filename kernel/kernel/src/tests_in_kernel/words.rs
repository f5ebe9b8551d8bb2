//! Tests of waits for words of memory.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::Status;
use capos_abi::entry::Operation;
use capos_paging::PAGE;

use super::bench::{Actor, SCRATCH, alone, status};
use crate::memory::heap;
use crate::memory::page_table::Access;
use crate::object::account::Account;
use crate::object::address_space::Backing;

const WORD: u64 = SCRATCH + 0x40;

pub(super) fn wait(address: u64, expected: u32) -> Operation {
    Operation::WaitWord { address, expected }
}

pub(super) fn wake(address: u64, count: u32) -> Operation {
    Operation::WakeWord { address, count }
}

fn woken(actor: &mut Actor, address: u64, count: u32) -> u64 {
    let done = actor.run(90, wake(address, count));
    let own = done.iter().find(|done| done.user_data == 90).copied().unwrap();
    assert_eq!(own.status, 0);
    own.value
}

/// Who waits is woken, oldest first, as many as asked for, by other threads and by the same.
pub fn words_are_woken(account: &Arc<Account>) {
    let mut first = Actor::new(account, "words");
    let mut second = first.sibling(1);
    first.write(WORD, &7_u32.to_le_bytes());
    assert_eq!(first.once(wait(WORD, 8)).status, status(Status::Changed));
    assert!(first.run(1, wait(WORD, 7)).is_empty());
    assert_eq!(woken(&mut second, WORD + 4, 9), 0, "another word");
    assert_eq!(woken(&mut second, WORD, 0), 0);
    assert!(first.completions().is_empty());
    assert_eq!(woken(&mut second, WORD, 9), 1);
    assert_eq!(woken(&mut second, WORD, 9), 0);
    let done = first.completions();
    assert_eq!((done.len(), done[0].user_data, done[0].status, done[0].value), (1, 1, 0, 0));

    for tag in 0..4 {
        assert!(first.run(tag, wait(WORD, 7)).is_empty());
        assert!(second.run(tag, wait(WORD, 7)).is_empty());
    }
    assert_eq!(woken(&mut first, WORD, 3), 3);
    let tags = |actor: &mut Actor| -> Vec<u64> { actor.completions().iter().map(|done| done.user_data).collect() };
    assert_eq!(tags(&mut second), [0], "with the two that its waker has read");
    assert_eq!(woken(&mut first, WORD, u32::MAX), 5);
    assert_eq!(tags(&mut second), [1, 2, 3]);

    // The same address of another process is another word.
    let mut other = Actor::new(account, "other words");
    other.write(WORD, &7_u32.to_le_bytes());
    assert!(first.run(1, wait(WORD, 7)).is_empty());
    assert_eq!(woken(&mut other, WORD, 9), 0);
    assert_eq!(woken(&mut first, WORD, 9), 1);

    // Equal hash, equal line, distinct words.
    for tag in 0..8 {
        first.write(WORD + 4 * tag, &0_u32.to_le_bytes());
        assert!(first.run(tag, wait(WORD + 4 * tag, 0)).is_empty());
    }
    for tag in (0..8).rev() {
        assert_eq!(woken(&mut second, WORD + 4 * tag, 1), 1);
        assert_eq!(first.completions()[0].user_data, tag);
    }
}

/// Only words of user memory that can be read are waited for, and only addresses of user memory are
/// woken.
pub fn words_are_checked(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "bad words");
    let bad = status(Status::BadAddress);
    for address in [0, 1, WORD + 1, WORD + 2, WORD + 3, u64::MAX, u64::MAX - 3, 0x8000_0000_0000, 0xffff_8000_0000_1000]
    {
        assert_eq!(actor.once(wait(address, 0)).status, bad, "a wait at {address:#x}");
        assert_eq!(actor.once(wake(address, 1)).status, bad, "a wake at {address:#x}");
    }
    for address in [0x4000, 0x30_0000, 0x7fff_ffff_e000] {
        assert_eq!(actor.once(wait(address, 0)).status, bad, "a wait at {address:#x}");
    }
    assert_eq!(woken(&mut actor, 0x30_0000, 1), 0, "memory that is gone wakes nobody");
    assert_eq!(actor.once(wake(0x1000, 1)).status, bad);

    let memory = super::bench::memory(&actor.process.account, 2, 0);
    let map = |access| {
        actor.process.space.map(&mut alone(), Backing::Memory(Arc::clone(&memory)), (0x40_0000, PAGE), 0, access, None)
    };
    map(Access { read: true, ..Access::default() }).unwrap();
    assert!(actor.run(1, wait(0x40_0ffc, 0)).is_empty(), "read-only memory may change by another mapping");
    actor.process.space.unmap_at_once(&mut alone(), 0x40_0000, PAGE).unwrap();
    assert!(actor.completions().is_empty(), "a wait outlives its memory");
    assert_eq!(actor.once(wait(0x40_0ffc, 0)).status, bad);
    assert_eq!(woken(&mut actor, 0x40_0ffc, 9), 1);
}

/// A wait ends by CANCEL, by its thread's end and by its process's, and leaves nothing behind.
pub fn waits_for_words_end(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "waiter");
    let fill = |actor: &mut Actor| {
        for tag in 0..8 {
            assert!(actor.run(tag, wait(WORD, 0)).is_empty());
        }
        for tag in 0..8 {
            let done = actor.run(50, Operation::Cancel { target: tag });
            assert_eq!((done[0].user_data, done[0].status), (tag, status(Status::Cancelled)));
            assert_eq!(done[1].status, 0);
        }
        assert_eq!(woken(actor, WORD, 9), 0);
    };
    fill(&mut actor);
    let before = heap::used();
    fill(&mut actor);
    assert_eq!(heap::used(), before);

    let live = |exit: u64| {
        let mut first = Actor::new(account, "mortal");
        let mut second = first.sibling(1);
        assert!(second.run(1, wait(WORD, 0)).is_empty());
        assert!(first.run(1, wait(WORD, 0)).is_empty());
        second.system_call(capos_abi::syscall::EXIT, [0, exit, 0]);
        if exit == capos_abi::syscall::EXIT_THREAD {
            assert_eq!(woken(&mut first, WORD, 9), 1, "the dead thread's wait is gone");
        }
    };
    live(0);
    live(1);
    let before = (crate::memory::frames::free_count(), heap::used(), account.usage());
    live(0);
    live(1);
    assert_eq!(before, (crate::memory::frames::free_count(), heap::used(), account.usage()));
}

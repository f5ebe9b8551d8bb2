//! Tests of large pages: what is shown in one piece, what becomes small pages, and what that costs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_paging::{LARGE_PAGE, PAGE};

use super::bench::{Actor, alone, settle};
use super::bounds::measure;
use super::processes::{PAGED_AT, Paging, paging};
use crate::cpu::budget::Budget;
use crate::memory::frames::{self, BLOCK, Frame};
use crate::memory::page_table::Access;
use crate::memory::{heap, reserve};
use crate::object::account::{Account, Resource};
use crate::object::address_space::{AddressSpace, Backing, MapFailure};
use crate::object::derivation;
use crate::object::memory::{MemoryObject, cache};
use crate::paging::fault;

const READ: Access = Access { read: true, write: false, execute: false, device: false };
const READ_WRITE: Access = Access { read: true, write: true, execute: false, device: false };
/// Where the tests map: the start of a table of level 2.
const AT: u64 = 0x4000_0000;

/// How many large pages a space shows.
fn large(space: &AddressSpace) -> usize {
    space.with_table(|table, _| table.large_pages()).unwrap()
}

/// Whether this many pages from an address on are those of the object from its first on.
fn shows(space: &AddressSpace, at: u64, memory: &MemoryObject, pages: u64) -> bool {
    let frame = |page| memory.resident_frame(page).map(Frame::address);
    space
        .with_table(|table, _| {
            (0..pages).all(|page| table.lookup(at + page * PAGE).map(|(physical, _)| physical) == frame(page))
        })
        .unwrap()
}

/// A mapping shows large pages where address, offset and frames are aligned and all of them is shown, at the price of
/// small ones; any part of it can go, whatever is left to pay with.
pub fn large_pages_are_shown(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let actor = Actor::new(account, "owner");
    let (space, own) = (&actor.process.space, &actor.process.account);
    let bytes = 2 * LARGE_PAGE + 3 * PAGE;
    let memory = MemoryObject::anonymous(&mut alone(), account, bytes).unwrap();
    let map = |range, offset, access, node| {
        space.map(&mut alone(), Backing::Memory(Arc::clone(&memory)), range, offset, access, node)
    };
    let cost = |at: u64, large_pages: usize| {
        let charged = own.usage()[0];
        map((at, bytes), 0, READ_WRITE, None).unwrap();
        assert!(shows(space, at, &memory, bytes / PAGE));
        assert_eq!(large(space), large_pages);
        own.usage()[0] - charged
    };
    assert_eq!(cost(AT, 2), cost(2 * AT + PAGE, 2), "frames for tables");
    actor.write(AT + LARGE_PAGE - 4, b"straddle");
    assert_eq!(actor.read(2 * AT + PAGE + LARGE_PAGE - 4, 8), b"straddle");
    space.unmap_at_once(&mut alone(), 2 * AT, bytes + PAGE).unwrap();

    // A hole makes small pages of one; an end goes from the other.
    space.unmap_at_once(&mut alone(), AT + 5 * PAGE, PAGE).unwrap();
    assert_eq!(large(space), 1);
    assert!(
        space.check(&mut alone(), AT, 5 * PAGE as usize, true).is_ok()
            && space.check(&mut alone(), AT + 5 * PAGE, 1, false).is_err()
    );
    assert_eq!(actor.read(AT + LARGE_PAGE - 4, 8), b"straddle");
    space.unmap_at_once(&mut alone(), AT, bytes).unwrap();
    assert!(space.check(&mut alone(), AT + LARGE_PAGE, 1, false).is_err());
    assert_eq!(large(space), 0);

    // Not aligned, or not whole.
    for (range, offset) in [((AT, LARGE_PAGE), PAGE), ((AT + PAGE, LARGE_PAGE), 0), ((AT, LARGE_PAGE - PAGE), 0)] {
        map(range, offset, READ_WRITE, None).unwrap();
        assert_eq!(large(space), 0);
        space.unmap_at_once(&mut alone(), range.0, range.1).unwrap();
    }
    // Small pages up to the first that can be large, and again behind it; rights as asked for.
    map((AT + LARGE_PAGE - 2 * PAGE, LARGE_PAGE + 4 * PAGE), LARGE_PAGE - 2 * PAGE, READ, None).unwrap();
    assert_eq!(large(space), 1);
    assert!(
        space.check(&mut alone(), AT + LARGE_PAGE, 8, false).is_ok()
            && space.check(&mut alone(), AT + LARGE_PAGE, 8, true).is_err()
    );
    assert_eq!(actor.read(AT + LARGE_PAGE - 4, 8), b"straddle");
    space.unmap_at_once(&mut alone(), AT, 3 * LARGE_PAGE).unwrap();

    // Revoked in one piece and in parts.
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    map((AT, 2 * LARGE_PAGE), 0, READ_WRITE, Some(node)).unwrap();
    space.unmap_at_once(&mut alone(), AT + 3 * PAGE, PAGE).unwrap();
    assert_eq!(large(space), 1);
    derivation::forget(node);
    derivation::revoke_at_once(&mut alone(), root);
    assert_eq!(large(space), 0);
    assert!((0..1024).all(|page| space.check(&mut alone(), AT + page * PAGE, 1, false).is_err()));
    derivation::forget(root);

    // At the account's limit nothing is mapped that needs a table, and a part can still be given back.
    map((AT, LARGE_PAGE), 0, READ_WRITE, None).unwrap();
    let left = own.limits()[0] - own.usage()[0];
    own.charge(Resource::Frames, left).unwrap();
    let refused = map((4 * AT, 2 * LARGE_PAGE), 0, READ_WRITE, None);
    assert!(matches!(refused, Err(MapFailure::Status(_))), "{refused:?}");
    assert_eq!(large(space), 1);
    assert!(space.check(&mut alone(), 4 * AT, 1, false).is_err());
    space.unmap_at_once(&mut alone(), AT + LARGE_PAGE / 2, LARGE_PAGE / 2).unwrap();
    assert!(space.check(&mut alone(), AT, LARGE_PAGE as usize / 2, true).is_ok());
    assert!(space.check(&mut alone(), AT + LARGE_PAGE / 2, 1, false).is_err());
    own.refund(Resource::Frames, left);
    drop((actor, memory));
    settle();
    assert_eq!(frames::free_count() + heap::frames(), before);
}

/// A frame of every block of the machine.
fn break_blocks() -> Vec<Frame> {
    let mut taken = Vec::with_capacity(frames::total() / BLOCK);
    let kept = reserve::keep(0);
    while let Some(first) = frames::allocate_block_dirty() {
        taken.push(first);
    }
    for first in &taken {
        (1..BLOCK).for_each(|n| frames::free(first.offset(n)));
    }
    reserve::keep(kept);
    taken
}

/// Where no block is free, memory has single frames, and is shown in small pages.
pub fn large_pages_need_blocks(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let actor = Actor::new(account, "owner");
    let space = &actor.process.space;
    let show = |large_pages| {
        let memory = MemoryObject::anonymous(&mut alone(), account, 2 * LARGE_PAGE).unwrap();
        space
            .map(&mut alone(), Backing::Memory(Arc::clone(&memory)), (AT, 2 * LARGE_PAGE), 0, READ_WRITE, None)
            .unwrap();
        assert!(shows(space, AT, &memory, 1024));
        assert_eq!(large(space), large_pages);
        actor.write(AT + LARGE_PAGE - 4, b"straddle");
        assert_eq!(actor.read(AT + LARGE_PAGE - 4, 8), b"straddle");
        space.unmap_at_once(&mut alone(), AT, 2 * LARGE_PAGE).unwrap();
    };
    let mut broken = break_blocks();
    assert!(frames::allocate_block_dirty().is_none());
    show(0);
    // One block and no more.
    frames::free(broken.swap_remove(0));
    show(1);
    broken.into_iter().for_each(frames::free);
    show(2);
    drop(actor);
    settle();
    assert_eq!(frames::free_count() + heap::frames(), before);
}

impl Paging {
    /// The user touches a page, and the pager brings it and those behind it.
    fn bring(&mut self, page: u64) {
        self.touch(page);
        let (reply, offset, bytes, window) = self.take();
        self.fill(offset, bytes, window);
        self.answer(reply, 0);
    }
}

/// Another process that shows paged memory.
fn reader(account: &Arc<Account>, memory: &Arc<MemoryObject>, at: u64) -> Actor {
    let actor = Actor::new(account, "reader");
    let backing = Backing::Memory(Arc::clone(memory));
    actor.process.space.map(&mut alone(), backing, (at, memory.bytes()), 0, READ, None).unwrap();
    actor
}

fn touch(actor: &Actor, address: u64) {
    actor.thread.change(crate::object::thread::State::Blocked, crate::object::thread::State::Running);
    fault::page_fault(&mut alone(), &actor.thread, address, false, false, true);
    settle();
}

/// Pages that come in a part at a time lie in a row, and are shown as a large page once all are in; one that goes leaves
/// the others, in every process that shows them.
pub fn cached_pages_become_large(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let mut paging = paging(account, 1024 + 40);
    let memory = Arc::clone(&paging.memory);
    for page in (512..1024).step_by(32) {
        assert_eq!(large(&paging.user.process.space), 0);
        paging.bring(page);
        paging.touch(page);
        assert_eq!(cache::frames_held(), 512, "those that are in and those that are to come");
    }
    assert_eq!(
        (memory.resident_pages(), large(&paging.user.process.space)),
        (512, 1),
        "the last touch sees all of them"
    );
    assert!((512..1024).all(|page| paging.number_at(page) == Some(page)));
    assert!(
        (512..1024).all(|page| memory.resident_frame(page)
            == memory.resident_frame(512).map(|first| first.offset(page as usize - 512)))
    );

    // What is in already is one fault for others; what is shown elsewhere in another place is small.
    let (second, third) = (reader(account, &memory, PAGED_AT), reader(account, &memory, PAGED_AT + PAGE));
    for (actor, at, large_pages, last) in [(&second, PAGED_AT, 1, 1023_u64), (&third, PAGED_AT + PAGE, 0, 715)] {
        touch(actor, at + 700 * PAGE);
        assert_eq!(large(&actor.process.space), large_pages);
        assert_eq!(actor.read(at + last * PAGE, 8), last.to_le_bytes());
        assert!(actor.process.space.check(&mut alone(), at + 700 * PAGE, 8, true).is_err());
    }
    // The end of the object is less than a large page.
    paging.bring(1024);
    assert_eq!(cache::frames_held(), 512 + 32);

    // Under pressure the oldest page goes, and the others stay, as small pages.
    let mut hog: Vec<Frame> = Vec::new();
    while frames::free_count() > cache::RESERVE {
        hog.push(frames::allocate_dirty().unwrap());
    }
    assert!(cache::make_room(&mut alone(), 1));
    assert_eq!(memory.resident_pages(), 512 + 32 - 1);
    let gone = (512..1024).find(|page| memory.resident_frame(*page).is_none()).unwrap();
    for actor in [&paging.user, &second] {
        assert_eq!(large(&actor.process.space), 0);
        let shown = |page| actor.process.space.check(&mut alone(), PAGED_AT + page * PAGE, 8, false).is_ok();
        assert!((512..1024).all(|page| shown(page) == (page != gone)));
    }
    assert_eq!(paging.number_at(gone + 1), Some(gone + 1));
    hog.into_iter().for_each(frames::free);
    paging.bring(gone);
    paging.touch(gone);
    assert_eq!(paging.number_at(gone), Some(gone));

    // All of it goes, from those who show it small and large.
    let fourth = reader(account, &memory, PAGED_AT);
    touch(&fourth, PAGED_AT + 512 * PAGE);
    let mut eviction = cache::Eviction::default();
    measure("evicting 544 pages", || eviction.go_on(&mut alone(), &memory, &mut Budget::new()));
    assert_eq!(eviction.count, 512 + 32);
    for actor in [&paging.user, &second, &third, &fourth] {
        assert_eq!(large(&actor.process.space), 0);
        assert!(actor.process.space.check(&mut alone(), PAGED_AT + 600 * PAGE, 8, false).is_err());
    }
    assert_eq!(cache::frames_held(), 0);
    drop((paging, second, third, fourth, memory));
    settle();
    assert_eq!(frames::free_count() + heap::frames(), before);
}

/// Frames that are held for pages to come are given up before any page that is in, and with the object.
pub fn held_frames_go_first(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let mut paging = paging(account, 1024);
    paging.bring(8);
    // Into two blocks.
    paging.bring(500);
    assert_eq!((paging.memory.resident_pages(), cache::frames_held()), (64, 1024));
    let mut hog: Vec<Frame> = Vec::new();
    while frames::free_count() > cache::RESERVE + 8 {
        hog.push(frames::allocate_dirty().unwrap());
    }
    assert!(cache::make_room(&mut alone(), 8 + 900));
    assert_eq!((paging.memory.resident_pages(), cache::frames_held()), (64, 64));
    // Nothing is held where memory is short; the pages come in all the same.
    hog.extend((0..800).map(|_| frames::allocate_dirty().unwrap()));
    paging.bring(100);
    assert_eq!((paging.memory.resident_pages(), cache::frames_held()), (96, 96));
    hog.into_iter().for_each(frames::free);
    for page in 0..1024 {
        if paging.memory.resident_frame(page).is_none() {
            paging.bring(page);
        }
    }
    assert_eq!(paging.memory.resident_pages(), 1024);
    paging.touch(0);
    assert_eq!((large(&paging.user.process.space), paging.number_at(0)), (0, Some(0)), "the blocks are broken");
    drop(paging);
    settle();
    assert_eq!(cache::frames_held(), 0);
    let mut paging = super::processes::paging(account, 512);
    paging.bring(0);
    assert_eq!(cache::frames_held(), 512);
    drop(paging);
    settle();
    assert_eq!((cache::frames_held(), frames::free_count() + heap::frames()), (0, before));
}

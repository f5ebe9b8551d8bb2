//! Tests of copies of memory, which share frames until one side writes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::{Rights, Status};
use capos_paging::{LARGE_PAGE, PAGE};
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, alone, settle};
use super::processes::{PAGED_AT, paging};
use crate::cpu::budget::Budget;
use crate::memory::frames::{self, Frame};
use crate::memory::heap;
use crate::memory::page_table::Access;
use crate::object::account::{Account, Resource};
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::memory::partial_copy::PartialCopy;
use crate::object::memory::{CopyError, MemoryObject, cache};
use crate::object::thread::State;
use crate::paging::fault;

const READ_WRITE: Access = Access { read: true, write: true, execute: false, device: false };
const AT: u64 = 0x4000_0000;
const COPIED: u64 = 0x5000_0000;

fn map(actor: &Actor, memory: &Arc<MemoryObject>, at: u64) {
    let backing = Backing::Memory(Arc::clone(memory));
    actor.process.space.map(&mut alone(), backing, (at, memory.bytes()), 0, READ_WRITE, None).unwrap();
}

/// A thread writes to a page, as far as its processor lets it: gives what comes of the fault.
fn touch_to_write(actor: &Actor, at: u64) {
    actor.thread.change(State::Blocked, State::Running);
    actor.thread.change(State::Ready, State::Running);
    fault::page_fault(&mut alone(), &actor.thread, at, true, false, true);
    settle();
}

/// Whether a processor lets a process write to an address as things are.
fn is_writable(actor: &Actor, at: u64) -> bool {
    actor.process.space.with_table(|table, _| table.find(at, true).is_ok()).unwrap()
}

/// A copy of pages, all of which are in, however long it takes.
pub(super) fn copied(
    source: &MemoryObject,
    account: &Arc<Account>,
    first: u64,
    count: u64,
) -> Result<Arc<MemoryObject>, CopyError> {
    let mut copy = PartialCopy::new(source, account, first, count)?;
    while !copy.go_on(&mut alone(), source, &mut Budget::new())? {}
    while !copy.advance(&mut alone(), source, &mut Budget::new())? {}
    Ok(copy.finish())
}

fn frame(memory: &MemoryObject, page: u64) -> Frame {
    memory.resident_frame(page).unwrap()
}

/// What is written on one side is not seen on the other, whoever writes first and however; each page that is written on both
/// sides has two frames, and any other one.
pub fn copies_stay_apart(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let (owner, other) = (Actor::new(account, "owner"), Actor::new(account, "other"));
    let bytes = LARGE_PAGE + 4 * PAGE;
    let source = MemoryObject::anonymous(&mut alone(), account, bytes).unwrap();
    // Shown twice, once in a large page, and in two processes.
    map(&owner, &source, AT);
    map(&owner, &source, 2 * AT + PAGE);
    map(&other, &source, AT);
    owner.write(AT + 5 * PAGE, b"before");
    assert!(is_writable(&other, AT + 5 * PAGE));

    let free = frames::free_count();
    let copy = copied(&source, account, 2, bytes / PAGE - 2).unwrap();
    map(&other, &copy, COPIED);
    assert!(free - frames::free_count() <= 4, "tables and the heap's, but no page");
    assert!((2..bytes / PAGE).all(|page| frame(&source, page) == frame(&copy, page - 2)));
    for (actor, at) in [(&owner, AT), (&owner, 2 * AT + PAGE), (&other, AT), (&other, COPIED)] {
        assert!((2..bytes / PAGE - 2).all(|page| !is_writable(actor, at + page * PAGE)), "{at:#x}");
        assert!(actor.process.space.check(&mut alone(), at + 5 * PAGE, 8, false).is_ok(), "what is shared can be read");
    }

    // The kernel writes for a process, the process itself does, through either mapping; the copy keeps what was there.
    owner.write(AT + 5 * PAGE, b"after!");
    touch_to_write(&owner, 2 * AT + PAGE + 6 * PAGE);
    assert!(is_writable(&owner, 2 * AT + PAGE + 6 * PAGE));
    owner.write(2 * AT + PAGE + 6 * PAGE, b"sixth");
    for actor in [&owner, &other] {
        assert_eq!(actor.read(AT + 5 * PAGE, 6), b"after!", "all mappings of the source show its own page");
        assert_eq!(actor.read(AT + 6 * PAGE, 5), b"sixth");
    }
    assert_eq!(other.read(COPIED + 3 * PAGE, 6), b"before");
    assert_eq!(other.read(COPIED + 4 * PAGE, 5), [0; 5]);
    // The copy writes where the source has, which takes no frame, and where it has not, which takes one.
    let free = frames::free_count();
    touch_to_write(&other, COPIED + 3 * PAGE);
    assert!(is_writable(&other, COPIED + 3 * PAGE));
    assert_eq!(frames::free_count(), free);
    other.write(COPIED + 3 * PAGE, b"copied");
    touch_to_write(&other, COPIED + 9 * PAGE);
    assert_eq!(frames::free_count(), free - 1);
    other.write(COPIED + 9 * PAGE, b"ninth");
    assert_eq!((owner.read(AT + 11 * PAGE, 5), owner.read(AT + 5 * PAGE, 6)), (alloc::vec![0; 5], b"after!".to_vec()));
    // Over the border of two shared pages at once.
    owner.write(AT + LARGE_PAGE - 4, b"straddle");
    assert_eq!(other.read(COPIED + LARGE_PAGE - 2 * PAGE - 4, 8), [0; 8]);
    assert_eq!(other.read(AT + LARGE_PAGE - 4, 8), b"straddle");

    // A copy of the copy; it is mapped again; then those before it end.
    let third = copied(&copy, account, 0, 16).unwrap();
    other.process.space.unmap_at_once(&mut alone(), COPIED, copy.bytes()).unwrap();
    map(&other, &copy, COPIED);
    assert!(!is_writable(&other, COPIED + 3 * PAGE));
    other.write(COPIED + 3 * PAGE, b"again!");
    owner.process.space.unmap_at_once(&mut alone(), AT, bytes).unwrap();
    owner.process.space.unmap_at_once(&mut alone(), 2 * AT + PAGE, bytes).unwrap();
    drop((source, copy, other));
    settle();
    map(&owner, &third, COPIED);
    assert_eq!(owner.read(COPIED + 3 * PAGE, 6), b"copied");
    let free = frames::free_count();
    touch_to_write(&owner, COPIED + 3 * PAGE);
    assert_eq!(frames::free_count(), free, "nobody else has it any more");
    drop((owner, third));
    settle();
    assert_eq!(frames::free_count() + heap::frames(), before);
}

/// A copy of paged memory has what was in, also when the pages go; who shows the paged memory never sees what it writes. A
/// window that a pager has copied becomes the cache's as any other.
pub fn cached_pages_are_copied(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let mut paging = paging(account, 40);
    let charged = account.usage();
    assert_eq!(copied(&paging.memory, account, 3, 2).err(), Some(CopyError::Absent(3)));
    assert_eq!(account.usage(), charged, "nothing was made");
    paging.touch(0);
    let (reply, offset, bytes, window) = paging.take();
    paging.fill(offset, bytes, window);
    let Object::Memory(filled) = paging.pager.process.get(window).unwrap().object else { return };
    map(&paging.pager, &filled, AT);
    let kept = copied(&filled, account, 0, 4).unwrap();
    // The pager writes on: the cache gets what it wrote, its copy what was there.
    paging.pager.write(AT + PAGE, &77_u64.to_le_bytes());
    drop(filled);
    paging.answer(reply, 0);
    paging.touch(0);
    assert_eq!((paging.number_at(1), paging.number_at(2)), (Some(77), Some(2)));

    let copy = copied(&paging.memory, account, 1, 3).unwrap();
    let reader = Actor::new(account, "reader");
    map(&reader, &copy, COPIED);
    map(&reader, &kept, AT);
    assert_eq!(frame(&copy, 1), frame(&paging.memory, 2));
    touch_to_write(&reader, COPIED + PAGE);
    reader.write(COPIED + PAGE, &99_u64.to_le_bytes());
    assert_eq!(paging.number_at(2), Some(2));
    assert!(paging.user.process.space.check(&mut alone(), PAGED_AT + 2 * PAGE, 8, true).is_err());
    assert_eq!(cache::evict_object(&mut alone(), &paging.memory), 32);
    let number = |at: u64| u64::from_le_bytes(reader.read(at, 8).try_into().unwrap());
    assert_eq!([0, 1, 2].map(|page| number(COPIED + page * PAGE)), [77, 99, 3], "no page of a copy goes");
    assert_eq!([0, 1, 2].map(|page| number(AT + page * PAGE)), [0, 1, 2]);
    drop((paging, reader, copy, kept));
    settle();
    assert_eq!(frames::free_count() + heap::frames(), before);
}

/// A copy is paid for as a whole before anything is shared; what a device may write is never shared; who finds no frame for
/// a page of its own ends as text.
pub fn copies_are_paid_for(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let mut actor = Actor::new(account, "payer");
    let own = Arc::clone(&actor.process.account);
    let memory = MemoryObject::anonymous(&mut alone(), account, 8 * PAGE).unwrap();
    map(&actor, &memory, AT);
    actor.write(AT + PAGE, b"page");
    let source = actor.give(Object::Memory(Arc::clone(&memory)));
    let payer = actor.give(Object::Account(Arc::clone(&own)));
    let unreadable = actor.process.insert(Object::Memory(Arc::clone(&memory)), Rights::CALL, None).unwrap();
    let copy = |actor: &mut Actor, from, caps: &[_], offset: u64, bytes: u64| {
        actor.call_kernel(from, interface::MEMORY_OBJECT, interface::MEMORY_OBJECT_COPY, caps, |params| {
            let mut params: schema::memory_object::copy_params::Builder<'_> = params.init_as();
            params.set_offset(offset);
            params.set_bytes(bytes);
            if !caps.is_empty() {
                params.set_account(capos_schema::sync::capability());
            }
        })
    };
    for (from, caps, offset, bytes) in [
        (unreadable, &[payer][..], 0, PAGE),
        (source, &[], 0, PAGE),
        (source, &[source], 0, PAGE),
        (source, &[payer], 0, 0),
        (source, &[payer], 1, PAGE),
        (source, &[payer], PAGE, 8 * PAGE),
        (source, &[payer], u64::MAX - PAGE + 1, PAGE),
    ] {
        let (status, received) = copy(&mut actor, from, caps, offset, bytes);
        assert!(status > 0 && received.is_empty(), "{offset:#x}, {bytes:#x}: {status}");
    }
    // One frame too few: refused, and the source is as it was.
    let left = own.limits()[0] - own.usage()[0];
    own.charge(Resource::Frames, left - 5).unwrap();
    let charged = own.usage();
    let (status, _) = copy(&mut actor, source, &[payer], PAGE, 6 * PAGE);
    assert!(status > 0, "{status}");
    assert_eq!(own.usage(), charged);
    assert!((0..8).all(|page| is_writable(&actor, AT + page * PAGE)));
    let (status, received) = copy(&mut actor, source, &[payer], PAGE, 5 * PAGE);
    assert_eq!((status, received.len()), (0, 1));
    assert_eq!(own.usage()[0], own.limits()[0], "all of it, though no frame was taken");
    assert!((0..8).all(|page| is_writable(&actor, AT + page * PAGE) != (1..6).contains(&page)));
    own.refund(Resource::Frames, left - 5);
    let Object::Memory(first) = actor.process.get(received[0]).unwrap().object else { return };

    // Only this many can have one frame; who comes later has what was in it.
    let many: Vec<_> = (0..300).map(|_| copied(&first, account, 0, 1).unwrap()).collect();
    let sharing = many.iter().filter(|copy| frame(copy, 0) == frame(&first, 0)).count();
    assert_eq!(sharing, 254, "and the two that had it before");
    map(&actor, &many[299], COPIED);
    assert_eq!(actor.read(COPIED, 4), b"page");
    drop(many);
    actor.process.space.unmap_at_once(&mut alone(), COPIED, PAGE).unwrap();

    // A device's memory is its own: what is shared is copied before, and what is pinned is copied at once.
    memory.pin(&mut alone(), 4, 2).unwrap();
    assert!((1..6).all(|page| (frame(&memory, page) == frame(&first, page - 1)) == (page < 4)));
    let eager = copied(&memory, account, 0, 8).unwrap();
    assert!((0..8).all(|page| frame(&memory, page) != frame(&eager, page)));
    assert!(is_writable(&actor, AT + 7 * PAGE));
    drop(eager);

    // No frame is left for the page that a write needs: the kernel says so, and the process ends with a sentence.
    let mut hog: Vec<Frame> = Vec::new();
    while let Some(frame) = frames::allocate_dirty() {
        hog.push(frame);
    }
    assert_eq!(memory.make_own(&mut alone(), 1, None), Err(Status::OutOfMemory));
    assert!(actor.process.space.write(&mut alone(), AT + PAGE, b"x").is_err());
    touch_to_write(&actor, AT + PAGE);
    hog.into_iter().for_each(frames::free);
    let report = actor.report().unwrap();
    assert!(report.contains("no frame for its own copy"), "{report}");
    drop((actor, memory, first, own));
    settle();
    assert_eq!(frames::free_count() + heap::frames(), before);
}

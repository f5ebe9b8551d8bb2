//! Making and mapping much memory is done in steps, of which none takes long; and what happens between two of them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{CapArray, Operation};
use capos_abi::{CapId, Rights, Status, TransferMode};
use capos_schema::sync::capability;
use capos_schema::{kernel_capnp as schema, kernel_dispatch as interface};

use super::bench::{Actor, SCRATCH, alone, buffer, settle, status};
use super::bounds::{BASE, LIMITS, PAGE, READ, call, doom, measure, measure_end, process, run, show};
use super::copies::copied;
use crate::arch::time;
use crate::cpu::budget::Budget;
use crate::memory::frames::{self, Frame};
use crate::memory::heap;
use crate::memory::page_table::Access;
use crate::object::account::Account;
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::memory::MemoryObject;
use crate::object::memory::partial_copy::PartialCopy;
use crate::object::process::Process;
use crate::syscall;

/// Making large memory, and unmapping it.
pub fn large_memory_is_bounded(account: &Arc<Account>) {
    let own = account.carve(LIMITS, 0).unwrap();
    let mut actor = Actor::new(account, "user");
    let paid = actor.give(Object::Account(Arc::clone(&own)));
    let params = actor.params(|params| {
        params.init_as::<schema::resource_account::create_memory_params::Builder<'_>>().set_bytes(32_000 * PAGE);
    });
    let create = call(&actor, paid, (interface::RESOURCE_ACCOUNT, 0), params);
    assert_eq!(run("making 32000 pages of memory", &mut actor, create).0, 0);
    let received = actor.received_caps(SCRATCH + 0x2000, 1);
    let object = actor.process.get(received[0]).unwrap().object;
    let memory = if let Object::Memory(memory) = object { Some(memory) } else { None }.unwrap();
    assert_eq!((memory.bytes(), memory.resident_pages()), (32_000 * PAGE, 32_000));
    actor.process.release(&mut alone(), received[0]).unwrap();
    drop(memory);
    measure_end("giving 32000 pages back");
    assert_eq!(own.usage(), [0; 5]);

    let refused = actor.params(|params| {
        params.init_as::<schema::resource_account::create_memory_params::Builder<'_>>().set_bytes(50_000 * PAGE);
    });
    let create = call(&actor, paid, (interface::RESOURCE_ACCOUNT, 0), refused);
    assert!(actor.once(create).status > 0);

    // One whose thread ends in the middle leaves nothing.
    let params = actor.params(|params| {
        params.init_as::<schema::resource_account::create_memory_params::Builder<'_>>().set_bytes(16_000 * PAGE);
    });
    actor.push(1, call(&actor, paid, (interface::RESOURCE_ACCOUNT, 0), params));
    actor.enter(0);
    assert!(actor.thread.has_resume() && own.usage()[0] == 16_000);
    drop(actor);
    assert_eq!(own.usage(), [0; 5]);

    let rich = process(account);
    let mut actor = Actor::new(account, "user");
    let space = actor.give(Object::Space(Arc::clone(&rich.space)));
    show(&rich, BASE, 16_000, None);
    let params = actor.params(|params| {
        let mut params = params.init_as::<schema::address_space::unmap_params::Builder<'_>>();
        params.set_address(BASE);
        params.set_length(15_999 * PAGE);
    });
    let unmap = call(&actor, space, (interface::ADDRESS_SPACE, 1), params);
    assert_eq!(run("unmapping 15999 pages", &mut actor, unmap).0, 0);
    assert!(rich.space.check(&mut alone(), BASE + 15_999 * PAGE, 1, false).is_ok());
    assert!(rich.space.check(&mut alone(), BASE + 15_998 * PAGE, 1, false).is_err());
    assert_eq!(status(Status::Ok), 0);
    doom(&rich);
    settle();
}

/// The entry that maps memory from its second page on, in small pages, so that it can be read.
fn mapping(actor: &Actor, space: CapId, memory: CapId, pages: u64) -> Operation {
    let params = actor.params(|params| {
        let mut params = params.init_as::<schema::address_space::map_params::Builder<'_>>();
        params.set_memory(capability());
        params.set_address(BASE);
        params.set_offset(PAGE);
        params.set_length(pages * PAGE);
        params.init_access().set_read(true);
    });
    actor.send_caps(SCRATCH + 0x2000, &[memory], TransferMode::Copy);
    let caps = CapArray { address: SCRATCH + 0x2000, sent: 1, accepted: 0 };
    let results = buffer(0x1000, 0x1000);
    Operation::Call { cap: space.0, interface: interface::ADDRESS_SPACE, method: 0, params, results, caps }
}

/// An entry that copies memory from its second page on, paid for by an account.
fn copying(actor: &Actor, memory: CapId, payer: CapId, pages: u64) -> Operation {
    let params = actor.params(|params| {
        let mut params = params.init_as::<schema::memory_object::copy_params::Builder<'_>>();
        params.set_account(capability());
        params.set_offset(PAGE);
        params.set_bytes(pages * PAGE);
    });
    actor.send_caps(SCRATCH + 0x2000, &[payer], TransferMode::Copy);
    let caps = CapArray { address: SCRATCH + 0x2000, sent: 1, accepted: 1 };
    let results = buffer(0x1000, 0x1000);
    Operation::Call { cap: memory.0, interface: interface::MEMORY_OBJECT, method: 3, params, results, caps }
}

/// Copying many pages; and what is written, mapped and pinned between two steps.
pub fn copies_are_bounded(account: &Arc<Account>) {
    const PAGES: u64 = 12_000;
    let rich = process(account);
    let mut actor = Actor::new(account, "user");
    let source = MemoryObject::anonymous(&mut alone(), &rich.account, (PAGES + 1) * PAGE).unwrap();
    let write = Access { write: true, ..READ };
    let show = |at: u64, pages: u64| {
        let backing = Backing::Memory(Arc::clone(&source));
        rich.space.map(&mut alone(), backing, (at, pages * PAGE), PAGE, write, None).unwrap();
    };
    show(BASE, PAGES);
    let payer = actor.give(Object::Account(Arc::clone(&rich.account)));
    let cap = actor.give(Object::Memory(Arc::clone(&source)));
    let received = |actor: &Actor| {
        let received = actor.received_caps(SCRATCH + 0x2000, 1)[0];
        let object = actor.process.get(received).unwrap().object;
        actor.process.release(&mut alone(), received).unwrap();
        if let Object::Memory(memory) = object { Some(memory) } else { None }.unwrap()
    };
    let put = |at: u64, page: u64| rich.space.write(&mut alone(), at + page * PAGE, &[7]).unwrap();
    let is_shared = |copy: &MemoryObject, page: u64| copy.stable_frame(page) == source.stable_frame(page + 1);
    let before = rich.account.usage();

    let entry = copying(&actor, cap, payer, PAGES);
    assert_eq!(run("copying 12000 pages", &mut actor, entry).0, 0);
    let copy = received(&actor);
    assert!((0..PAGES).all(|page| is_shared(&copy, page)));
    for page in [0, 511, 512, PAGES - 1] {
        put(BASE, page);
        assert!(!is_shared(&copy, page), "{page}");
    }
    drop(copy);
    settle();
    assert_eq!(rich.account.usage(), before);

    // Pages on both sides of where it is are written between two steps, and shown once more.
    let begin = |actor: &mut Actor, cap: CapId, pages: u64| {
        actor.push(1, copying(actor, cap, payer, pages));
        actor.enter(0);
        assert!(actor.thread.has_resume());
    };
    let again = BASE + 2 * PAGES * PAGE;
    begin(&mut actor, cap, PAGES);
    put(BASE, 0);
    put(BASE, PAGES - 1);
    show(again, PAGES);
    put(again, 1);
    put(again, PAGES - 2);
    while actor.thread.has_resume() {
        syscall::resume(&mut alone(), &actor.thread);
    }
    assert_eq!(actor.completions()[0].status, 0);
    let copy = received(&actor);
    for (at, page) in [(BASE, 2), (again, 3), (BASE, PAGES - 1), (again, PAGES - 2), (again, PAGES - 3)] {
        put(at, page);
        assert!(!is_shared(&copy, page), "{page}");
    }
    assert!(is_shared(&copy, 4) && !is_shared(&copy, 0) && !is_shared(&copy, 1));
    drop(copy);
    settle();

    // More mappings mean smaller pieces.
    for number in 0..60 {
        show(BASE + (4 + number) * PAGES * PAGE, 600);
    }
    let entry = copying(&actor, cap, payer, 600);
    assert_eq!(run("copying 600 pages that are shown 62 times", &mut actor, entry).0, 0);
    let copy = received(&actor);
    put(BASE + 30 * PAGES * PAGE, 599);
    assert!(!is_shared(&copy, 599) && is_shared(&copy, 598));
    drop(copy);

    // Nothing is left of one whose thread ends, and the source's frames are its own again.
    settle();
    let free = frames::free_count() + heap::frames();
    {
        let mut other = Actor::new(account, "other");
        let payer = other.give(Object::Account(Arc::clone(&rich.account)));
        let cap = other.give(Object::Memory(Arc::clone(&source)));
        other.push(1, copying(&other, cap, payer, PAGES));
        other.enter(0);
        assert!(other.thread.has_resume() && frames::is_shared(source.stable_frame(5).unwrap()));
    }
    settle();
    assert!(!frames::is_shared(source.stable_frame(5).unwrap()));
    assert_eq!(frames::free_count() + heap::frames(), free);
    pieces_are_bounded(&rich);

    // What a device may come to write is shared no more.
    begin(&mut actor, cap, PAGES);
    source.pin(&mut alone(), 1, 100).unwrap();
    let few = PAGES / 4;
    while actor.thread.has_resume() {
        syscall::resume(&mut alone(), &actor.thread);
    }
    assert_eq!(actor.completions()[0].status, 0);
    let copy = received(&actor);
    assert!((0..100).chain(few..PAGES).all(|page| !is_shared(&copy, page)));
    drop(copy);
    settle();
    let entry = copying(&actor, cap, payer, few);
    assert_eq!(run("copying 3000 pages that cannot be shared", &mut actor, entry).0, 0);
    drop(received(&actor));
    settle();

    // Nothing is left of one whose thread ends.
    let used = rich.account.usage();
    begin(&mut actor, cap, few);
    assert!(rich.account.usage() != used);
    drop(actor);
    settle();
    assert_eq!(rich.account.usage(), used);
    drop(source);
    doom(&rich);
    settle();
}

/// Steps of copies from several pages on, of memory that is shown several times, each behind other entries.
fn pieces_are_bounded(rich: &Arc<Process>) {
    const PAGES: u64 = 1600;
    let write = Access { write: true, ..READ };
    let memory = MemoryObject::anonymous(&mut alone(), &rich.account, (PAGES + 512) * PAGE).unwrap();
    for shown in 0..4 {
        for first in [0, 1, 158, 212, 511] {
            for left in [27_000, 25_000, 3_000] {
                let mut copy = PartialCopy::new(&memory, &rich.account, first, PAGES).unwrap();
                let what = alloc::format!("copying 1600 pages from {first} on, shown {shown} times, with {left} left");
                measure(&what, || copy.go_on(&mut alone(), &memory, &mut Budget::of(left)).unwrap());
                assert!(copy.is_whole());
                drop(copy.finish());
                settle();
            }
        }
        let backing = Backing::Memory(Arc::clone(&memory));
        let at = BASE + (200 + shown) * 12_000 * PAGE;
        rich.space.map(&mut alone(), backing, (at, memory.bytes()), 0, write, None).unwrap();
    }
    // A frame has 256 owners at most.
    let copies: Vec<_> = (0..255).map(|_| copied(&memory, &rich.account, 0, 40).unwrap()).collect();
    let mut copy = PartialCopy::new(&memory, &rich.account, 0, 40).unwrap();
    measure("copying 40 pages that have 256 owners", || {
        copy.go_on(&mut alone(), &memory, &mut Budget::of(27_000)).unwrap()
    });
    drop((copy, copies));
    settle();
}

/// Mapping many pages. Nothing of it is left where it fails, also where that comes late.
pub fn mappings_are_bounded(account: &Arc<Account>) {
    let rich = process(account);
    let mut actor = Actor::new(account, "user");
    let space = actor.give(Object::Space(Arc::clone(&rich.space)));
    let memory = MemoryObject::anonymous(&mut alone(), &rich.account, 16_001 * PAGE).unwrap();
    let cap = actor.give(Object::Memory(Arc::clone(&memory)));
    let is_shown = |page: u64| rich.space.check(&mut alone(), BASE + page * PAGE, 1, false).is_ok();
    let entry = mapping(&actor, space, cap, 16_000);
    assert_eq!(run("mapping 16000 pages", &mut actor, entry).0, 0);
    assert!([0, 511, 512, 8000, 15_999].into_iter().all(is_shown) && !is_shown(16_000));
    while !rich.space.unmap(&mut alone(), BASE, 16_000 * PAGE, &mut Budget::new()).unwrap() {}
    let (before, holders) = (rich.account.usage(), Arc::strong_count(&memory));

    // Another thread removes a part of it meanwhile.
    let begin = |actor: &mut Actor, cap: CapId| {
        actor.push(1, mapping(actor, space, cap, 16_000));
        actor.enter(0);
        assert!(actor.thread.has_resume() && is_shown(0) && !is_shown(15_999));
    };
    let go_on = |actor: &mut Actor, what: &str| {
        measure(what, || {
            syscall::resume(&mut alone(), &actor.thread);
            !actor.thread.has_resume()
        });
        actor.completions()[0].status
    };
    begin(&mut actor, cap);
    rich.space.unmap_at_once(&mut alone(), BASE + 15_000 * PAGE, PAGE).unwrap();
    assert!(go_on(&mut actor, "mapping what is unmapped meanwhile") > 0);
    assert!(!is_shown(0) && !is_shown(14_999) && !is_shown(15_001));
    assert_eq!((rich.account.usage()[0], Arc::strong_count(&memory)), (before[0], holders));

    // The capability is released meanwhile, so that the entry cannot be read again.
    let released = actor.process.insert(Object::Memory(Arc::clone(&memory)), Rights::ALL, None).unwrap();
    begin(&mut actor, released);
    actor.process.release(&mut alone(), released).unwrap();
    assert_eq!(go_on(&mut actor, "mapping by a capability that is released"), status(Status::StaleCapability));
    assert!(!is_shown(0));
    assert_eq!((rich.account.usage()[0], Arc::strong_count(&memory)), (before[0], holders));

    // There is no quota for all of the page tables.
    let poor =
        Process::new(&mut alone(), String::from("poor"), account.carve([20, 8, 1, 0, 8], 0).unwrap(), None).unwrap();
    let other = actor.give(Object::Space(Arc::clone(&poor.space)));
    let entry = mapping(&actor, other, cap, 16_000);
    assert!(run("mapping more pages than an account has tables for", &mut actor, entry).0 > 0);
    assert!(poor.space.check(&mut alone(), BASE, 1, false).is_err());
    assert_eq!(Arc::strong_count(&memory), holders);
    doom(&poor);

    // A copy that is made meanwhile and the memory stay apart.
    let write = Access { write: true, ..READ };
    let backing = Backing::Memory(Arc::clone(&memory));
    let mut showing = rich.space.begin_map(backing, (BASE, 16_000 * PAGE), PAGE, write, None).unwrap();
    assert!(!showing.go_on(&rich.space, &mut alone(), &mut Budget::new()).unwrap());
    let copy = copied(&memory, &rich.account, 1, 16_000).unwrap();
    while !showing.go_on(&rich.space, &mut alone(), &mut Budget::new()).unwrap() {}
    for page in [0, 15_999] {
        rich.space.write(&mut alone(), BASE + page * PAGE, &[7]).unwrap();
        assert_ne!(memory.stable_frame(page + 1), copy.stable_frame(page));
    }
    drop((showing, copy));

    // Whoever revokes what it is made through meanwhile ends it.
    while !rich.space.unmap(&mut alone(), BASE, 16_000 * PAGE, &mut Budget::new()).unwrap() {}
    let owner = Actor::new(account, "owner");
    let node = owner.process.get(owner.give(Object::Memory(Arc::clone(&memory)))).unwrap().node.unwrap();
    let cap = actor.process.insert(Object::Memory(Arc::clone(&memory)), Rights::ALL, Some(node)).unwrap();
    begin(&mut actor, cap);
    assert_eq!(derivation::revoke_at_once(&mut alone(), node), 1);
    assert!(!is_shown(0));
    while actor.thread.has_resume() {
        syscall::resume(&mut alone(), &actor.thread);
    }
    assert!(actor.completions()[0].status != 0 && !is_shown(0) && !is_shown(15_999));
    drop((owner, memory));
    doom(&rich);
    settle();
}

/// Contiguous memory for devices is cleared in steps.
pub fn device_memory_is_bounded(account: &Arc<Account>) {
    let mut actor = Actor::new(&account.carve(LIMITS, 0).unwrap(), "driver");
    let domain = actor.give(Object::DmaDomain);
    let params = actor.params(|params| {
        params.init_as::<schema::dma_domain::allocate_params::Builder<'_>>().set_bytes(200 * PAGE);
    });
    let allocate = call(&actor, domain, (interface::DMA_DOMAIN, 0), params);
    assert_eq!(run("making 200 contiguous pages", &mut actor, allocate).0, 0);
    let received = actor.received_caps(SCRATCH + 0x2000, 1);
    let object = actor.process.get(received[0]).unwrap().object;
    let region = if let Object::Dma(region) = object { Some(region) } else { None }.unwrap();
    assert_eq!(region.segments().len(), 1);
    for page in 0..200 {
        let frame = Frame::from_address(region.physical(page * PAGE).unwrap());
        // SAFETY: the frame is the region's, and no device knows it.
        let bytes = unsafe { core::slice::from_raw_parts(frame.pointer(), PAGE as usize) };
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
    // A region that is lost, and not given up, is kept for a while.
    actor.process.release(&mut alone(), received[0]).unwrap();
}

/// A thread with the longest rings, wherever the steps end, and what is left of one that is given up.
pub fn long_rings_are_bounded(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "user");
    let params = actor.params(|params| {
        let mut params = params.init_as::<schema::process::create_thread_params::Builder<'_>>();
        params.set_entry(BASE);
        params.set_ring(BASE);
        params.set_submission_entries(4096);
        params.set_completion_entries(4096);
    });
    for others in 0..6 {
        let rich = process(account);
        let cap = actor.give(Object::Process(Arc::clone(&rich)));
        (0..others).for_each(|tag| actor.push(tag, Operation::Nop));
        let create = call(&actor, cap, (interface::PROCESS, 4), params);
        assert_eq!(run("making a thread with the longest rings", &mut actor, create).0, 0);
        assert_eq!(rich.thread_count(), 1);
        let made = actor.received_caps(SCRATCH + 0x2000, 1)[0];
        [made, cap].into_iter().for_each(|cap| actor.process.release(&mut alone(), cap).unwrap());
        doom(&rich);
        settle();
    }
    for steps in 1..6 {
        let rich = process(account);
        let cap = actor.give(Object::Process(Arc::clone(&rich)));
        let kept = actor.give(Object::Process(Arc::clone(&rich)));
        let before = rich.account.usage();
        actor.push(1, call(&actor, cap, (interface::PROCESS, 4), params));
        actor.enter(0);
        (1..steps).for_each(|_| syscall::resume(&mut alone(), &actor.thread));
        assert!(actor.thread.has_resume());
        actor.process.release(&mut alone(), cap).unwrap();
        let start = time::tsc();
        syscall::resume(&mut alone(), &actor.thread);
        assert!(time::tsc() - start <= Budget::BOUND);
        assert_eq!(actor.completions()[0].status, status(Status::StaleCapability));
        settle();
        assert_eq!((rich.account.usage(), rich.thread_count()), (before, 0));
        actor.process.release(&mut alone(), kept).unwrap();
        doom(&rich);
        settle();
    }
}

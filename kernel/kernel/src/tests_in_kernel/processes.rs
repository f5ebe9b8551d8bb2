//! Tests of processes: rings that are corrupt, deaths that give everything back, accounts, mappings
//! and revocation, paging.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, MessageHeader, Rights, Status, ring};
use capos_captable::NodeId;
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, SCRATCH, SCRATCH_BYTES, alone, buffer, capabilities, memory, settle, status};
use crate::memory::page_table::Access;
use crate::memory::{frames, heap, reserve};
use crate::object::account::{Account, Resource};
use crate::object::address_space::{Backing, MapFailure};
use crate::object::capability::Object;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::memory::{MemoryObject, cache};
use crate::object::thread::State;
use crate::object::{derivation, report};
use crate::paging::fault;

type Corruption = fn(&mut Actor);

/// Impossible indices and system calls end the process with a sentence.
pub fn corrupt_rings_kill(account: &Arc<Account>) {
    let cases: [(Corruption, &str); 5] = [
        (|actor| actor.set_index(ring::SUBMISSION_TAIL, 9), "submission tail 9"),
        (|actor| actor.set_index(ring::SUBMISSION_TAIL, u32::MAX), "submission tail 4294967295"),
        (
            |actor| {
                actor.push(1, Operation::Nop);
                actor.set_index(ring::COMPLETION_HEAD, 1);
            },
            "completion head 1",
        ),
        (|actor| actor.set_index(ring::COMPLETION_HEAD, 0x8000_0000), "completion head 2147483648"),
        (|actor| actor.system_call(77, [0; 3]), "system call 0x4d"),
    ];
    for (corrupt, expected) in cases {
        let mut actor = Actor::new(account, "corrupt");
        corrupt(&mut actor);
        if actor.process.ending.get().is_none() {
            actor.enter(1);
        }
        let report = actor.report().unwrap();
        assert!(report.contains(expected), "{report}");
        assert_eq!(actor.thread.state(), State::Dead);
    }
}

/// The log tells through which functions a thread came where it faulted, for as long as its frames are frames.
pub fn callers_are_told(account: &Arc<Account>) {
    let actor = Actor::new(account, "deep");
    let told = |frame: u64| {
        actor.thread.with_context(|context| (context.rip, context.rbp) = (0x40_3333, frame));
        format!("{}", report::Backtrace(&actor.thread))
    };
    let write = |frame: u64, above: u64, caller: u64| {
        actor.write(frame, [above.to_le_bytes(), caller.to_le_bytes()].as_flattened());
    };
    let (inner, outer) = (SCRATCH + 0x40, SCRATCH + 0x80);
    write(inner, outer, 0x40_1111);
    // A frame that is below its own caller's: the chain ends where it would go in circles.
    write(outer, inner, 0x40_2222);
    let words = told(inner);
    assert!(words.contains("process `deep`") && words.contains("was at 0x403333 in thread"), "{words}");
    assert!(words.ends_with(", called from 0x401111, 0x402222"), "{words}");
    for no_frame in [0, inner + 4, 0x77_0000, u64::MAX - 7, SCRATCH + SCRATCH_BYTES - 8] {
        let words = told(no_frame);
        assert!(!words.contains("called from"), "{no_frame:#x}: {words}");
    }
    // As many as one call has room for, each below the next.
    for place in 0..64 {
        write(inner + place * 16, inner + place * 16 + 16, 0x40_0000 + place);
    }
    assert_eq!(told(inner).matches(", 0x").count(), 31);
}

/// Entries are answered, whatever their bytes, and completions never overflow.
pub fn any_bytes_are_survived(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "random");
    let mut state = 7u64;
    for _ in 0..400 {
        let mut raw = [0u8; 64];
        for word in raw.as_chunks_mut::<8>().0 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *word = (if state >> 62 == 0 { 0 } else { state >> (state >> 58) }).to_le_bytes();
        }
        raw[0] %= 9;
        actor.push_raw(&raw);
        actor.enter(0);
        assert!(actor.completions().len() <= 1);
        assert_eq!(actor.report(), None);
    }
    for tag in 0..8 {
        actor.push(tag, Operation::Nop);
    }
    assert_eq!(actor.enter(0), 8);
    for tag in 8..16 {
        actor.push(tag, Operation::Nop);
    }
    assert_eq!(actor.enter(0), 8, "sixteen completions fit");
    actor.push(16, Operation::Nop);
    assert_eq!(actor.enter(0), 0, "the seventeenth does not");
    assert_eq!(actor.completions().len(), 16);
    assert_eq!(actor.enter(0), 1);
}

/// A death gives back every frame and every byte of the heap.
pub fn deaths_give_everything_back(account: &Arc<Account>) {
    let live = || {
        let mut actor = Actor::new(account, "mortal");
        let (_, caps) = actor.call_kernel(give_account(&actor), interface::RESOURCE_ACCOUNT, 0, &[], |params| {
            let mut params: schema::resource_account::create_memory_params::Builder<'_> = params.init_as();
            params.set_bytes(40_000);
        });
        assert_eq!(caps.len(), 1);
        let timer = actor.give(Object::Timer);
        let sleep = Operation::Call {
            cap: timer.0,
            interface: interface::TIMER,
            method: 1,
            params: Buffer::default(),
            results: buffer(0, 64),
            caps: CapArray::default(),
        };
        actor.push(1, sleep);
        actor.enter(0);
    };
    live();
    let before = (frames::free_count(), heap::used(), derivation::count(), account.usage());
    for _ in 0..10 {
        live();
    }
    assert_eq!(before, (frames::free_count(), heap::used(), derivation::count(), account.usage()));
}

fn give_account(actor: &Actor) -> CapId {
    actor.give(Object::Account(actor.process.account.clone()))
}

/// What is not paid for is not had, and nothing of a refused request stays.
pub fn accounts_limit(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "spender");
    let own = give_account(&actor);
    let before = actor.process.account.usage();
    let (refused, caps) = actor.call_kernel(own, interface::RESOURCE_ACCOUNT, 0, &[], |params| {
        let mut params: schema::resource_account::create_memory_params::Builder<'_> = params.init_as();
        params.set_bytes(257 * 4096);
    });
    assert_eq!((refused, caps.len()), (2, 0));
    assert_eq!(actor.process.account.usage(), before);
    let mut endpoints = 0;
    while actor
        .call_kernel(own, interface::RESOURCE_ACCOUNT, 2, &[], |params| {
            let _: schema::resource_account::create_endpoint_params::Builder<'_> = params.init_as();
        })
        .0
        == 0
    {
        endpoints += 1;
        assert!(endpoints < 64);
    }
    let [_, capabilities, .., objects] = actor.process.account.usage();
    let [_, most_capabilities, .., most_objects] = actor.process.account.limits();
    assert!(capabilities == most_capabilities || objects == most_objects);
    let child = actor.process.account.carve([1, 0, 0, 0, 0], 0).unwrap();
    assert_eq!(child.charge(Resource::Frames, 2), Err(Status::QuotaExceeded));
    child.charge(Resource::Frames, 1).unwrap();
}

/// No memory is writable and executable; mappings end with what they were made through.
pub fn mappings_obey(account: &Arc<Account>) {
    let actor = Actor::new(account, "mapper");
    let object = memory(&actor.process.account, 4, 9);
    let backing = || Backing::Memory(Arc::clone(&object));
    let space = &actor.process.space;
    let read_write = Access { read: true, write: true, ..Access::default() };
    let all = Access { execute: true, ..read_write };
    assert_eq!(space.map(&mut alone(), backing(), (0x40_0000, 4096), 0, all, None), Err(MapFailure::WritableCode));
    for (range, offset) in [
        ((0x40_0000, 0x5000), 0),
        ((0x40_0000, 0x1000), 0x4000),
        ((0, 0x1000), 0),
        ((0x40_0001, 0x1000), 0),
        ((0xffff_8000_0000_0000, 0x1000), 0),
        ((SCRATCH, 0x1000), 0),
    ] {
        assert!(space.map(&mut alone(), backing(), range, offset, read_write, None).is_err(), "{range:x?} {offset:x}");
    }
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    space.map(&mut alone(), backing(), (0x40_0000, 0x4000), 0, read_write, Some(node)).unwrap();
    assert_eq!(actor.read(0x40_0000, 4), [9; 4]);
    space.unmap_at_once(&mut alone(), 0x40_1000, 0x1000).unwrap();
    assert!(space.check(&mut alone(), 0x40_0000, 0x2000, false).is_err());
    assert!(space.check(&mut alone(), 0x40_2000, 0x2000, true).is_ok());
    derivation::revoke_at_once(&mut alone(), node);
    assert!(space.check(&mut alone(), 0x40_0000, 16, false).is_ok(), "what is revoked is what derives from it");
    derivation::forget(node);
    assert!(space.check(&mut alone(), 0x40_0000, 16, false).is_ok(), "a release unmaps nothing");
    derivation::revoke_at_once(&mut alone(), root);
    assert!(space.check(&mut alone(), 0x40_0000, 16, false).is_err());
    assert!(space.check(&mut alone(), 0x40_2000, 16, false).is_err());
    derivation::forget(root);
    assert_eq!(Arc::strong_count(&object), 1);
}

/// A server that answers page requests, and a process that touches what it pages.
pub struct Paging {
    pub pager: Actor,
    pub user: Actor,
    pub endpoint: CapId,
    pub memory: Arc<MemoryObject>,
}

/// Where the user's mapping begins: where a large page can.
pub const PAGED_AT: u64 = 0x100_0000;

/// Paged memory that a process shows whole, and its pager.
pub fn paging(account: &Arc<Account>, pages: u64) -> Paging {
    paging_through(account, pages, None)
}

/// The same with memory that ends with what derives from a capability.
pub fn paging_through(account: &Arc<Account>, pages: u64, named_by: Option<NodeId>) -> Paging {
    let pager = Actor::new(account, "pager");
    let user = Actor::new(account, "user");
    let object = Endpoint::new(pager.process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
    let endpoint = pager.give(Object::Endpoint(Arc::clone(&object)));
    let client = Client { endpoint: object, badge: 3, interface: interface::PAGER };
    let memory = MemoryObject::paged(&user.process.account, pages * 4096, client, named_by).unwrap();
    let access = Access { read: true, ..Access::default() };
    user.process
        .space
        .map(&mut alone(), Backing::Memory(Arc::clone(&memory)), (PAGED_AT, pages * 4096), 0, access, None)
        .unwrap();
    Paging { pager, user, endpoint, memory }
}

impl Paging {
    /// The user touches a page.
    pub fn touch(&self, page: u64) {
        self.user.thread.change(State::Blocked, State::Running);
        self.user.thread.change(State::Ready, State::Running);
        fault::page_fault(&mut alone(), &self.user.thread, PAGED_AT + page * 4096, false, false, true);
        settle();
    }

    /// The pager takes one request: reply, offset, length, window.
    pub fn take(&mut self) -> (u64, u64, u64, CapId) {
        let caps = CapArray { address: SCRATCH + 0x200, sent: 0, accepted: 1 };
        let received = self.pager.once(Operation::Recv { endpoint: self.endpoint.0, buffer: buffer(0, 256), caps });
        assert_eq!((received.status, received.caps), (0, 1));
        let raw = self.pager.read(SCRATCH, received.length as usize);
        let header = MessageHeader::decode(raw[..MessageHeader::SIZE].try_into().unwrap());
        assert_eq!((header.interface, header.method, header.badge), (interface::PAGER, 0, 3));
        let word = |at: usize| u64::from_le_bytes(raw[MessageHeader::SIZE + at..][..8].try_into().unwrap());
        let window = self.pager.received_caps(SCRATCH + 0x200, 1)[0];
        (header.reply, word(8), word(16), window)
    }

    /// The pager fills the window: each page starts with its number.
    pub fn fill(&mut self, offset: u64, bytes: u64, window: CapId) {
        let Object::Memory(memory) = self.pager.process.get(window).unwrap().object else { return };
        for page in 0..bytes / 4096 {
            assert!(crate::object::memory::user_memory::fill(
                &memory,
                page * 4096,
                &(offset / 4096 + page).to_le_bytes()
            ));
        }
    }

    pub fn answer(&mut self, reply: u64, exception: u8) {
        let results = if exception == 0 { Buffer::default() } else { buffer(0x300, 8) };
        let returned = Operation::Return { reply, exception, results, caps: CapArray::default() };
        assert_eq!(self.pager.once(returned).status, 0);
        settle();
    }

    /// What the user reads at the start of a page.
    pub fn number_at(&self, page: u64) -> Option<u64> {
        let mut raw = [0; 8];
        self.user.process.space.read(PAGED_AT + page * 4096, &mut raw).ok().map(|()| u64::from_le_bytes(raw))
    }
}

/// A touch asks the pager, the answer is mapped, the window has no user, the cache answers the next.
pub fn pages_come_in(account: &Arc<Account>) {
    let mut paging = paging(account, 100);
    paging.touch(90);
    assert_eq!(paging.user.thread.state(), State::Blocked);
    let (reply, offset, bytes, window) = paging.take();
    assert_eq!((offset, bytes), (90 * 4096, 10 * 4096), "up to the end");
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    assert_eq!(paging.pager.process.get(window).err(), Some(Status::StaleCapability));
    assert_eq!(paging.user.thread.state(), State::Ready);
    assert_eq!((paging.memory.resident_pages(), paging.number_at(90)), (10, None));
    paging.touch(90);
    assert_eq!(paging.user.thread.state(), State::Running);
    assert_eq!((paging.number_at(90), paging.number_at(99)), (Some(90), Some(99)));
    assert!(paging.user.process.space.check(&mut alone(), PAGED_AT + 90 * 4096, 8, true).is_err());
    assert_eq!(cache::evict_object(&mut alone(), &paging.memory), 10);
    assert_eq!((paging.memory.resident_pages(), paging.number_at(90)), (0, None));
}

/// A page that the pager refuses kills the process that touches it, and none that touches its neighbours.
pub fn bad_pages_kill_alone(account: &Arc<Account>) {
    let mut paging = paging(account, 100);
    paging.touch(10);
    let (reply, ..) = paging.take();
    paging.pager.write(SCRATCH + 0x300, b"bad disk");
    paging.answer(reply, 1);
    assert_eq!((paging.user.report(), paging.user.thread.state()), (None, State::Ready));
    paging.touch(10);
    let (reply, offset, bytes, window) = paging.take();
    assert_eq!((offset, bytes), (10 * 4096, 4096), "alone this time");
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    paging.touch(10);
    assert_eq!(paging.number_at(10), Some(10));
    paging.touch(11);
    let (reply, ..) = paging.take();
    paging.answer(reply, 1);
    let report = paging.user.report().unwrap();
    assert!(report.contains("offset 0xb000") && report.contains("bad disk"), "{report}");
}

/// Parameters in paged memory come in before they are copied; the thread waits meanwhile.
pub fn parameters_come_in(account: &Arc<Account>) {
    let mut paging = paging(account, 4);
    let timer = paging.user.give(Object::Timer);
    let call = Operation::Call {
        cap: timer.0,
        interface: interface::TIMER,
        method: 0,
        params: Buffer { address: PAGED_AT + 4096 - 8, length: 16 },
        results: buffer(0, 64),
        caps: CapArray::default(),
    };
    paging.user.push(7, Operation::Nop);
    paging.user.push(8, call);
    paging.user.push(9, Operation::Nop);
    paging.user.enter(0);
    assert_eq!(paging.user.thread.state(), State::Blocked);
    assert_eq!(paging.user.completions().len(), 1, "what comes before is done");
    let (reply, offset, bytes, window) = paging.take();
    assert_eq!((offset, bytes), (0, 4 * 4096));
    let Object::Memory(memory) = paging.pager.process.get(window).unwrap().object else { return };
    assert!(crate::object::memory::user_memory::fill(&memory, 0, &[0; 16]));
    drop(memory);
    paging.answer(reply, 0);
    assert_eq!(paging.user.thread.state(), State::Ready);
    paging.user.thread.change(State::Ready, State::Running);
    crate::syscall::resume(&mut alone(), &paging.user.thread);
    let done: Vec<(u64, i32)> = paging.user.completions().iter().map(|done| (done.user_data, done.status)).collect();
    assert_eq!(done, [(8, 0), (9, 0)]);
    assert_eq!(paging.user.thread.with_context(|context| context.rax), 3);

    // A single entry whose parameters are in, but not mapped where it names them.
    let again = PAGED_AT + 0x10_0000;
    let access = Access { read: true, ..Access::default() };
    let backing = Backing::Memory(Arc::clone(&paging.memory));
    paging.user.process.space.map(&mut alone(), backing, (again, 4 * 4096), 0, access, None).unwrap();
    let Operation::Call { cap, interface, method, results, caps, .. } = call else { return };
    let params = Buffer { address: again + 4096 - 8, length: 16 };
    let resident = Operation::Call { cap, interface, method, params, results, caps };
    assert_eq!(paging.user.once(resident).status, 0);

    let beyond = Operation::Call {
        cap: timer.0,
        interface: interface::TIMER,
        method: 0,
        params: Buffer { address: PAGED_AT + 4 * 4096 - 8, length: 16 },
        results: buffer(0, 64),
        caps: CapArray::default(),
    };
    paging.user.thread.change(State::Running, State::Blocked);
    assert_eq!(paging.user.once(beyond).status, status(Status::BadAddress));
}

/// A pager that dies takes who waits for it along, with a sentence.
pub fn dead_pagers_are_told(account: &Arc<Account>) {
    let mut paging = paging(account, 1);
    paging.touch(0);
    let _ = paging.take();
    let Paging { pager, user, memory, .. } = paging;
    drop(pager);
    let report = user.report().unwrap();
    assert!(report.contains("pager failed"), "{report}");
    assert_eq!(memory.resident_pages(), 0);
}

/// Where the capability to the pager is revoked, who waits and who touches later is told so; what is in
/// stays.
pub fn revoked_pagers_are_told(account: &Arc<Account>) {
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    let nodes = derivation::count();
    let mut paging = paging_through(account, 40, Some(node));
    derivation::forget(node);
    paging.touch(39);
    let (reply, offset, bytes, window) = paging.take();
    assert_eq!((offset, bytes), (39 * 4096, 4096));
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    // One request is with the pager, of several pages, and one is in its queue.
    paging.touch(0);
    let (reply, _, bytes, window) = paging.take();
    assert_eq!(bytes, 32 * 4096);
    paging.touch(35);
    derivation::revoke_at_once(&mut alone(), root);
    settle();
    assert_eq!(paging.pager.process.get(window).err(), Some(Status::StaleCapability), "the window is nobody's");
    let receive = Operation::Recv { endpoint: paging.endpoint.0, buffer: buffer(0, 256), caps: CapArray::default() };
    assert!(paging.pager.run(1, receive).is_empty(), "no request is left");
    paging.answer(reply, 0);
    assert_eq!((paging.user.report(), paging.memory.resident_pages()), (None, 1), "it touches again first");
    paging.touch(39);
    assert_eq!(paging.number_at(39), Some(39));
    paging.touch(0);
    let report = paging.user.report().unwrap();
    assert!(report.contains("pager failed") && report.contains("is gone"), "{report}");
    drop(paging);
    derivation::forget(root);
    assert_eq!(derivation::count(), nodes - 2);

    // A request for one page that is under way fails at once.
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    let paging = paging_through(account, 1, Some(node));
    paging.touch(0);
    derivation::revoke_at_once(&mut alone(), root);
    settle();
    let report = paging.user.report().unwrap();
    assert!(report.contains("pager failed") && report.contains("is gone"), "{report}");
    derivation::forget(node);
    derivation::forget(root);
}

/// Under pressure clean pages go, used ones later, and come in again.
pub fn the_cache_gives_way(account: &Arc<Account>) {
    let before = frames::free_count() + heap::frames();
    let mut paging = paging(account, 64);
    for page in [0, 32] {
        paging.touch(page);
        let (reply, offset, bytes, window) = paging.take();
        paging.fill(offset, bytes, window);
        paging.answer(reply, 0);
    }
    assert_eq!((paging.memory.resident_pages(), cache::frames_held()), (64, 64));
    let mut hog: Vec<frames::Frame> = Vec::new();
    while frames::free_count() > cache::RESERVE + 8 {
        hog.push(frames::allocate_dirty().unwrap());
    }
    assert!(cache::make_room(&mut alone(), 8 + 32));
    assert_eq!(paging.memory.resident_pages(), 64 - 32);
    assert!(frames::free_count() >= cache::RESERVE + 40);
    assert!(!cache::make_room(&mut alone(), frames::total()));
    assert_eq!(paging.memory.resident_pages(), 0);
    hog.into_iter().for_each(frames::free);
    paging.touch(5);
    let (reply, offset, bytes, window) = paging.take();
    paging.fill(offset, bytes, window);
    paging.answer(reply, 0);
    paging.touch(5);
    assert_eq!(paging.number_at(5), Some(5));
    drop(paging);
    settle();
    assert_eq!(cache::frames_held(), 0);
    assert_eq!(frames::free_count() + heap::frames(), before);
}

/// Where all free memory is kept for the heap, pages of the cache give way to page tables as well: a page is shown, memory is
/// mapped and a process is made.
pub fn the_cache_gives_way_to_tables(account: &Arc<Account>) {
    const FAR: u64 = 0x40_0000_0000;
    let before = frames::free_count() + heap::frames();
    let mut paging = paging(account, 64);
    let mut reader = Actor::new(account, "reader");
    let read = Access { read: true, ..Access::default() };
    let range = (FAR, 64 * 4096);
    reader.process.space.map(&mut alone(), Backing::Memory(Arc::clone(&paging.memory)), range, 0, read, None).unwrap();
    let space = reader.give(Object::Space(Arc::clone(&reader.process.space)));
    let page = reader.give(Object::Memory(memory(account, 1, 7)));
    let own = reader.give(Object::Account(Arc::clone(&reader.process.account)));
    let mut hog: Vec<frames::Frame> = Vec::with_capacity(frames::total());
    // All that is free but the heap's part is taken, and the cache has a window of pages.
    let mut fill = |paging: &mut Paging| {
        hog.drain(..hog.len().min(100)).for_each(frames::free);
        paging.touch(0);
        if paging.memory.resident_pages() == 0 {
            let (reply, offset, bytes, window) = paging.take();
            paging.fill(offset, bytes, window);
            paging.answer(reply, 0);
        }
        while let Some(frame) = frames::allocate_dirty() {
            hog.push(frame);
        }
        assert_eq!((frames::free_count(), paging.memory.resident_pages()), (reserve::kept(), 32));
    };
    fill(&mut paging);
    reader.thread.change(State::Blocked, State::Running);
    fault::page_fault(&mut alone(), &reader.thread, FAR, false, false, true);
    settle();
    assert_eq!((reader.report(), reader.thread.state()), (None, State::Running), "it touches the page again");
    fill(&mut paging);
    let (status, _) = reader.call_kernel(space, interface::ADDRESS_SPACE, 0, &[page], |params| {
        let mut params: schema::address_space::map_params::Builder<'_> = params.init_as();
        params.set_address(2 * FAR);
        params.set_length(4096);
        params.init_access().set_read(true);
    });
    assert_eq!(status, 0);
    fill(&mut paging);
    let (status, made) = reader.call_kernel(own, interface::RESOURCE_ACCOUNT, 4, &[], |params| {
        let mut params: schema::resource_account::create_process_params::Builder<'_> = params.init_as();
        params.set_name("child");
        params.init_limits().set_frames(8);
    });
    assert_eq!((status, made.len()), (0, 1));
    hog.into_iter().for_each(frames::free);
    drop((paging, reader));
    assert_eq!(frames::free_count() + heap::frames(), before);
}

/// A copy of rights that were not there does not exist.
pub fn rights_only_shrink(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "shrinker");
    let table = actor.give(Object::Table(Arc::clone(&actor.process)));
    let weak = actor.process.insert(Object::Timer, Rights::READ.union(Rights::GRANT), None).unwrap();
    let (done, _) = actor.call_kernel(table, interface::CAPABILITY_TABLE, 2, &[], |params| {
        let mut params: schema::capability_table::derive_params::Builder<'_> = params.init_as();
        params.set_id(weak.0);
        params.set_rights(u32::MAX);
    });
    assert_eq!(done, 0);
    let derived = capabilities(&actor.process).into_iter().map(|(_, capability)| capability.rights);
    assert_eq!(derived.filter(|rights| *rights == Rights::READ.union(Rights::GRANT)).count(), 2);
    let call = Operation::Call {
        cap: weak.0,
        interface: interface::TIMER,
        method: 0,
        params: Buffer::default(),
        results: buffer(0, 64),
        caps: CapArray::default(),
    };
    assert_eq!(actor.once(call).status, status(Status::MissingRight));
}

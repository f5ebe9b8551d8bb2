//! Tests of what happens where the kernel's heap is full: a request for more is rejected, what gives back continues,
//! and the kernel lives.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::syscall as number;
use capos_abi::{CapId, ExceptionKind, Status, TransferMode};
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, Hog, SCRATCH, alone, buffer, capabilities, memory, settle, status};
use super::calls::{self, call, header, receive};
use crate::log;
use crate::memory::{frames, heap, reserve};
use crate::object::account::{Account, Resource};
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::process::{Cause, End};
use crate::paging::fault;

/// Operations that can make the heap larger.
#[derive(Default)]
struct Wishes(Vec<(&'static str, Operation)>);

impl Wishes {
    /// Adds a call of a kernel object whose parameters `write` makes. They get a place of their own in the caller's
    /// memory.
    fn add(
        &mut self,
        actor: &Actor,
        name: &'static str,
        (object, interface, method): (Object, u64, u16),
        caps: &[CapId],
        write: impl FnOnce(capnp::any_pointer::Builder<'_>),
    ) {
        let place = 0x4000 + 0x200 * self.0.len() as u64;
        let params = actor.params(write);
        actor.write(SCRATCH + place, &actor.read(params.address, params.length as usize));
        let array = SCRATCH + place + 0x1c0;
        actor.send_caps(array, caps, TransferMode::Copy);
        let operation = Operation::Call {
            cap: actor.give(object).0,
            interface,
            method,
            params: buffer(place, params.length),
            results: buffer(0x1000, 0x2000),
            caps: CapArray { address: array, sent: caps.len() as u8, accepted: 2 },
        };
        self.0.push((name, operation));
    }

    /// Every way to make a kernel object, to wait, to map, to grant and to be told much.
    fn all(actor: &Actor) -> Self {
        let mut all = Self::default();
        let process = &actor.process;
        let account = || Object::Account(Arc::clone(&process.account));
        let endpoint = Endpoint::new(process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
        let client = Client { endpoint: Arc::clone(&endpoint), badge: 1, interface: interface::PAGER };
        let pager = actor.give(Object::Client(client));
        let page = actor.give(Object::Memory(memory(&process.account, 1, 1)));
        let object = |method| (account(), interface::RESOURCE_ACCOUNT, method);
        all.add(actor, "createMemory", object(0), &[], |params| {
            let mut params: schema::resource_account::create_memory_params::Builder<'_> = params.init_as();
            params.set_bytes(4096);
        });
        all.add(actor, "createPagedMemory", object(1), &[pager], |params| {
            let mut params: schema::resource_account::create_paged_memory_params::Builder<'_> = params.init_as();
            params.set_bytes(1 << 30);
            params.set_pager(capos_schema::sync::capability());
        });
        let payer = actor.give(account());
        let source = (Object::Memory(memory(&process.account, 1, 1)), interface::MEMORY_OBJECT, 3);
        all.add(actor, "copy", source, &[payer], |params| {
            let mut params: schema::memory_object::copy_params::Builder<'_> = params.init_as();
            params.set_bytes(4096);
            params.set_account(capos_schema::sync::capability());
        });
        all.add(actor, "createEndpoint", object(2), &[], |_| {});
        all.add(actor, "createNotification", object(3), &[], |_| {});
        all.add(actor, "createProcess", object(4), &[], |params| {
            let mut params: schema::resource_account::create_process_params::Builder<'_> = params.init_as();
            params.set_name("child");
            params.init_limits().set_frames(8);
        });
        all.add(actor, "carve", object(5), &[], |params| {
            let mut params: schema::resource_account::carve_params::Builder<'_> = params.init_as();
            params.reborrow().init_limits().set_frames(1);
        });
        let own = (Object::Process(Arc::clone(process)), interface::PROCESS, 4);
        all.add(actor, "createThread", own, &[], |params| {
            let mut params: schema::process::create_thread_params::Builder<'_> = params.init_as();
            params.set_entry(SCRATCH);
            params.set_ring(0x40_0000);
            params.set_submission_entries(2);
            params.set_completion_entries(2);
        });
        let own = (Object::Process(Arc::clone(process)), interface::PROCESS, 2);
        all.add(actor, "grant", own, &[page], |params| {
            let mut params: schema::process::grant_params::Builder<'_> = params.init_as();
            params.set_rights(u32::MAX);
        });
        let space = (Object::Space(Arc::clone(&process.space)), interface::ADDRESS_SPACE, 0);
        all.add(actor, "map", space, &[page], |params| {
            let mut params: schema::address_space::map_params::Builder<'_> = params.init_as();
            params.set_address(0x50_0000);
            params.set_length(4096);
            params.init_access().set_read(true);
        });
        all.add(actor, "mint", (Object::Endpoint(endpoint), interface::ENDPOINT, 0), &[], |params| {
            let mut params: schema::endpoint::mint_params::Builder<'_> = params.init_as();
            params.set_interface(7);
        });
        all.add(actor, "message", (Object::Interrupts, interface::INTERRUPT_CONTROLLER, 1), &[], |_| {});
        all.add(actor, "allocate", (Object::DmaDomain, interface::DMA_DOMAIN, 0), &[], |params| {
            let mut params: schema::dma_domain::allocate_params::Builder<'_> = params.init_as();
            params.set_bytes(8192);
        });
        all.add(actor, "pin", (Object::DmaDomain, interface::DMA_DOMAIN, 1), &[page], |params| {
            let mut params: schema::dma_domain::pin_params::Builder<'_> = params.init_as();
            params.set_bytes(4096);
        });
        all.add(actor, "sleepUntil", (Object::Timer, interface::TIMER, 1), &[], |params| {
            let mut params: schema::timer::sleep_until_params::Builder<'_> = params.init_as();
            params.set_nanoseconds(u64::MAX);
        });
        all.add(actor, "read what is there", (Object::Log, interface::DEBUG_LOG, 1), &[], |_| {});
        all.add(actor, "read what comes", (Object::Log, interface::DEBUG_LOG, 1), &[], |params| {
            let mut params: schema::debug_log::read_params::Builder<'_> = params.init_as();
            params.set_position(u64::MAX);
        });
        let table = (Object::Table(Arc::clone(process)), interface::CAPABILITY_TABLE, 0);
        all.add(actor, "list", table, &[], |_| {});
        all
    }
}

/// Gives up what devices may reach, which is kept for a while where it is lost otherwise.
fn end_dma(actor: &Actor) {
    for (id, capability) in capabilities(&actor.process) {
        if matches!(capability.object, Object::Dma(_)) {
            actor.process.release(&mut alone(), id).unwrap();
        }
    }
}

/// Does it; its status. An operation that waits is taken back.
fn outcome(actor: &mut Actor, operation: Operation) -> Option<i32> {
    const TAG: u64 = 1;
    let done = actor.run(TAG, operation);
    if done.is_empty() {
        actor.run(2, Operation::Cancel { target: TAG });
        return None;
    }
    Some(done[0].status)
}

/// Where nothing is left but the reserve, an operation either succeeds or says that there is no memory, and takes
/// no more than is kept for one.
pub fn one_operation_fits_the_reserve(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "hungry");
    let wishes = Wishes::all(&actor);
    let mut hog = Hog::new();
    let refusals = [status(Status::OutOfMemory), ExceptionKind::Overloaded as i32];
    for (name, operation) in &wishes.0 {
        hog.fill_reserve();
        let held = heap::frames();
        heap::mark();
        let done = outcome(&mut actor, *operation);
        assert!(done.is_none_or(|done| done == 0 || refusals.contains(&done)), "{name} ends with {done:?}");
        let (most, kept) = (heap::most_since_mark().saturating_sub(held), heap::frames().saturating_sub(held));
        assert!(most <= reserve::OPERATION && kept <= 16, "{name} takes {most} frames and keeps {kept}");
        if ["createMemory", "createProcess", "allocate"].contains(name) {
            assert!(done.is_some_and(|done| done != 0), "{name} needs frames that are not the heap's");
        }
        if ["createEndpoint", "createNotification", "carve", "mint", "grant", "read what is there"].contains(name) {
            assert_eq!(done, Some(0), "{name} needs the heap alone");
        }
    }
    end_dma(&actor);
}

/// Where the reserve is not whole, what could make the heap larger is refused before it has any effect; what gives
/// back is not. Once there is memory, all works again.
pub fn a_full_heap_is_an_answer(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "hungry");
    let wishes = Wishes::all(&actor);
    let mut pair = calls::pair(account);
    let given = pair.client.give(Object::Memory(memory(&pair.client.process.account, 1, 1)));
    pair.client.send_caps(SCRATCH + 0x200, &[given], TransferMode::Move);
    let Operation::Call { cap, interface: kind, method, params, results, .. } = call(pair.cap) else { return };
    let sends = Operation::Call {
        cap,
        interface: kind,
        method,
        params,
        results,
        caps: CapArray { address: SCRATCH + 0x200, sent: 1, accepted: 2 },
    };
    // One call is with the server, and a receiver waits for the next.
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert!(pair.client.run(2, call(pair.cap)).is_empty());
    assert_eq!(pair.server.completions().len(), 1);
    let reply = header(&pair.server).reply;
    assert!(pair.server.run(3, receive(pair.endpoint)).is_empty());
    let kept = pair.server.give(Object::Timer);
    pair.server.send_caps(SCRATCH + 0x400, &[kept], TransferMode::Copy);
    let bare = Operation::Return { reply, exception: 0, results: Buffer::default(), caps: CapArray::default() };
    let with_cap = Operation::Return {
        reply,
        exception: 0,
        results: Buffer::default(),
        caps: CapArray { address: SCRATCH + 0x400, sent: 1, accepted: 0 },
    };
    let none = status(Status::OutOfMemory);
    // A server's client that bears the number of an interface whose methods give back is a client all the same.
    let endpoint = Endpoint::new(actor.process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
    let forged = [(interface::PROCESS, 5), (interface::CAPABILITY_TABLE, 3)].map(|(kind, method)| {
        let client = Client { endpoint: Arc::clone(&endpoint), badge: 1, interface: kind };
        let cap = actor.give(Object::Client(client)).0;
        let (params, results) = (Buffer::default(), Buffer::default());
        Operation::Call { cap, interface: kind, method, params, results, caps: CapArray::default() }
    });

    let mut hog = Hog::new();
    hog.leave(reserve::kept() - 1);
    for operation in forged {
        assert_eq!(outcome(&mut actor, operation), Some(none), "{operation:?}");
    }
    let before = (derivation::count(), actor.process.account.usage(), actor.process.capability_count());
    for (name, operation) in &wishes.0 {
        assert_eq!(outcome(&mut actor, *operation), Some(none), "{name}");
    }
    assert_eq!(before, (derivation::count(), actor.process.account.usage(), actor.process.capability_count()));
    assert_eq!(pair.client.once(sends).status, none);
    assert!(pair.client.process.get(given).is_ok(), "what was to be moved is still there");
    assert_eq!(pair.server.once(with_cap).status, none);
    assert_eq!(pair.server.once(bare).status, 0, "an answer goes on");
    assert_eq!(pair.client.completions().len(), 1);
    let spare = pair.server.run(4, receive(pair.endpoint));
    assert!(spare.is_empty(), "receivers still queue");
    // Less than what the ends of all processes may take: not even places in queues are left.
    hog.leave(reserve::kept() / 2);
    assert_eq!(pair.server.once(receive(pair.endpoint)).status, none);
    assert_eq!(pair.server.once(Operation::Release { cap: kept.0 }).status, 0);
    assert_eq!(actor.once(Operation::Nop).status, 0);

    drop(hog);
    for (name, operation) in &wishes.0 {
        let done = outcome(&mut actor, *operation);
        assert!(done.is_none_or(|done| done == 0), "{name} ends with {done:?}");
    }
    end_dma(&actor);
    assert!(pair.client.run(5, sends).is_empty());
    assert_eq!(pair.server.completions().len(), 1);
}

/// What cannot be refused does not fail: processes and threads end in every way, and who waits is told, where
/// the heap has next to nothing.
pub fn ends_need_little(account: &Arc<Account>) {
    let mut watcher = Actor::new(account, "watcher");
    let [faulty, confused, corrupt, killed] = ["faulty", "confused", "corrupt", "killed"].map(|name| {
        let actor = Actor::new(account, name);
        let object = Object::Process(Arc::clone(&actor.process));
        let params = watcher.params(|params| {
            let _: schema::process::wait_params::Builder<'_> = params.init_as();
        });
        let wait = Operation::Call {
            cap: watcher.give(object).0,
            interface: interface::PROCESS,
            method: 6,
            params,
            results: buffer(0x1000, 0x1000),
            caps: CapArray::default(),
        };
        assert!(watcher.run(1, wait).is_empty());
        actor
    });
    let sibling = watcher.sibling(1);
    let target = watcher.give(Object::Process(Arc::clone(&killed.process)));
    let kill = Operation::Call {
        cap: target.0,
        interface: interface::PROCESS,
        method: 5,
        params: watcher.params(|params| {
            let mut params: schema::process::kill_params::Builder<'_> = params.init_as();
            params.set_reason("no memory");
        }),
        results: buffer(0x1000, 0x100),
        caps: CapArray::default(),
    };
    let mut hog = Hog::new();
    hog.leave(16);
    faulty.thread.change(crate::object::thread::State::Blocked, crate::object::thread::State::Running);
    fault::page_fault(&mut alone(), &faulty.thread, 0x77_0000, true, false, true);
    settle();
    confused.system_call(99, [0; 3]);
    corrupt.set_index(capos_abi::ring::SUBMISSION_TAIL, 1 << 20);
    corrupt.system_call(number::ENTER, [1, 0, number::NO_DEADLINE]);
    // Four ends that were waited for, and the call itself.
    let told = watcher.run(2, kill);
    assert!(told.len() == 5 && told.iter().all(|done| done.status == 0), "{told:?}");
    sibling.system_call(number::EXIT, [0, number::EXIT_THREAD, 0]);
    log!("the heap had {} frames left", frames::free_count());
    for (actor, words) in
        [(&faulty, "wrote to address 0x770000"), (&confused, "system call 0x63"), (&corrupt, "corrupted its rings")]
    {
        assert!(actor.report().unwrap().contains(words), "{:?}", actor.report());
    }
    assert_eq!(killed.report().unwrap(), "killed by `watcher`: no memory");
    drop(hog);
    watcher.process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
}

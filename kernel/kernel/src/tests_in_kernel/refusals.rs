//! Tests in which the machine refuses one frame after another: the first, then the second, and so on, until what is done
//! needs no more. Each time it is said as text, the kernel continues, and nothing is missing afterwards.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_abi::entry::{CapArray, Operation};
use capos_abi::{CapId, ExceptionKind, Status, TransferMode};
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, Hog, SCRATCH, alone, buffer, settle, status};
use super::calls::{self, call, header, receive};
use crate::log;
use crate::memory::{frames, heap};
use crate::object::account::Account;
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::process::{Cause, End};
use crate::start::first_process;
use crate::syscall::methods::machine;

/// What the first process gets here: as much as it needs.
const ENOUGH: [u64; 5] = [16_384, 256, 4, 4, 64];
/// Frames that nothing here needs.
const MANY: usize = 10_000;

/// What must be the same afterwards: frames free or the heap's, bytes of the heap, what the account holds, capabilities.
fn held(account: &Account) -> (usize, usize, [u64; 5], usize) {
    settle();
    (frames::free_count() + heap::frames(), heap::used(), account.usage(), derivation::count())
}

/// Does something with the first frame refused, then the second, and so on. `act` prepares what must be there, calls
/// what it is given, from which on frames are counted, and says whether all was done then.
fn refuse_each(name: &str, account: &Arc<Account>, act: impl Fn(&dyn Fn()) -> bool) {
    // What is made once and kept is made now.
    assert!(act(&|| ()), "{name} is not done where nothing is refused");
    let before = held(account);
    for granted in 0.. {
        assert!(granted < MANY, "{name} needs {MANY} frames");
        let done = act(&|| frames::refuse_after(granted));
        let refused = frames::refuse_none();
        assert_eq!(held(account), before, "{name}, where frame {granted} was refused");
        if !refused {
            assert!(done, "{name} is not done with {granted} frames, though none was refused");
            assert!(granted > 0, "{name} needs no frame");
            log!("{name}: each of {granted} frames was refused");
            return;
        }
        assert!(!done, "{name} is done though frame {granted} was refused");
    }
}

/// Frames for the first process: without one of them the machine says that there is no memory, and starts nothing.
pub fn the_start_says_what_it_lacks(account: &Arc<Account>) {
    refuse_each("the first process", account, |begin| {
        let own = account.carve(ENOUGH, 0).unwrap();
        begin();
        match first_process::prepare(&mut alone(), machine::boot().unwrap(), own) {
            Ok(thread) => {
                thread.process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
                true
            }
            Err(failure) => {
                assert_eq!(format!("{failure}"), Status::OutOfMemory.words());
                false
            }
        }
    });
}

/// Objects, a process with memory and a thread, and a call with capabilities: each step is done, or answered with the lack
/// of memory.
pub fn refused_frames_are_answers(account: &Arc<Account>) {
    refuse_each("a session", account, |begin| session(account, begin).is_some());
}

/// Memory ends for good behind one frame more each time, whether a process or the kernel's heap takes it, and with no free
/// block left in the heap: each step is done or answered, and what gives back is done.
pub fn memory_may_end_anywhere(account: &Arc<Account>) {
    /// More than what the session has before memory ends.
    const BEFORE: usize = 1024;
    assert!(session(account, &|| ()).is_some());
    let before = held(account);
    let hog = RefCell::new(Hog::new());
    for left in 0.. {
        assert!(left < BEFORE, "a session needs {BEFORE} frames");
        hog.borrow_mut().spare(BEFORE);
        let done = session(account, &|| {
            let mut hog = hog.borrow_mut();
            hog.refill();
            hog.spare(left);
        });
        let now = held(account);
        assert_eq!((now.2, now.3), (before.2, before.3), "a session, where memory ended behind {left} frames");
        if done.is_some() {
            assert!(left > 0, "a session needs no memory");
            log!("a session: memory ended behind each of {left} frames");
            break;
        }
    }
    drop(hog);
    assert_eq!(held(account), before);
}

/// Whether a status says that there was no memory for what was asked; any other must be success.
fn lacks(code: i32) -> bool {
    let lacks = [status(Status::OutOfMemory), status(Status::Overloaded), ExceptionKind::Overloaded as i32];
    assert!(code == 0 || lacks.contains(&code), "a step ends with {code}");
    code != 0
}

/// One step of a session: whether it was done, and the first capability that it gave.
fn step((code, caps): (i32, Vec<CapId>)) -> Option<CapId> {
    (!lacks(code)).then(|| caps.first().copied().unwrap_or(CapId(0)))
}

/// A session, from `begin` on: objects, a process, a call with a capability, revocation, death. The step that finds no
/// memory is the last except what gives back, which is never refused.
fn session(account: &Arc<Account>, begin: &dyn Fn()) -> Option<()> {
    let mut pair = calls::pair(account);
    let mut actor = Actor::new(account, "maker");
    let own = actor.give(Object::Account(Arc::clone(&actor.process.account)));
    let table = actor.give(Object::Table(Arc::clone(&actor.process)));
    begin();
    let mut made = Vec::new();
    let done = make(&mut actor, own, &mut made).and_then(|()| exchange(&mut pair));
    if let Some(child) = made.get(3) {
        let (code, _) = actor.call_kernel(*child, interface::PROCESS, 5, &[], |params| {
            params.init_as::<schema::process::kill_params::Builder<'_>>().set_reason("the session is over");
        });
        assert_eq!(code, 0, "a process is killed where there is no memory");
    }
    // What was made from another goes first: it goes with that otherwise.
    for cap in made.into_iter().rev() {
        let (code, _) = actor.call_kernel(table, interface::CAPABILITY_TABLE, 3, &[], |params| {
            params.init_as::<schema::capability_table::revoke_params::Builder<'_>>().set_id(cap.0);
        });
        assert_eq!(code, 0, "a capability is revoked where there is no memory");
        assert_eq!(actor.once(Operation::Release { cap: cap.0 }).status, 0);
    }
    done
}

/// Objects, and a process with memory, a capability and a thread: what was made goes into the list.
fn make(actor: &mut Actor, own: CapId, made: &mut Vec<CapId>) -> Option<()> {
    let accounts = interface::RESOURCE_ACCOUNT;
    let memory = step(actor.call_kernel(own, accounts, 0, &[], |params| {
        params.init_as::<schema::resource_account::create_memory_params::Builder<'_>>().set_bytes(0x3000);
    }))?;
    made.push(memory);
    let endpoint = step(actor.call_kernel(own, accounts, 2, &[], |_| {}))?;
    made.push(endpoint);
    let client = step(actor.call_kernel(endpoint, interface::ENDPOINT, 0, &[], |params| {
        params.init_as::<schema::endpoint::mint_params::Builder<'_>>().set_interface(calls::INTERFACE);
    }))?;
    made.push(client);
    let child = step(actor.call_kernel(own, accounts, 4, &[], |params| {
        let mut params: schema::resource_account::create_process_params::Builder<'_> = params.init_as();
        params.set_name("child");
        let mut limits = params.init_limits();
        limits.set_frames(64);
        limits.set_capabilities(8);
        limits.set_threads(2);
        limits.set_objects(4);
    }))?;
    made.push(child);
    let copy = step(actor.call_kernel(memory, interface::MEMORY_OBJECT, 3, &[own], |params| {
        let mut params: schema::memory_object::copy_params::Builder<'_> = params.init_as();
        params.set_bytes(0x3000);
        params.set_account(capos_schema::sync::capability());
    }))?;
    made.push(copy);
    let space = step(actor.call_kernel(child, interface::PROCESS, 0, &[], |_| {}))?;
    made.push(space);
    step(actor.call_kernel(space, interface::ADDRESS_SPACE, 0, &[memory], |params| {
        let mut params: schema::address_space::map_params::Builder<'_> = params.init_as();
        params.set_address(0x4000_0000);
        params.set_length(0x3000);
        params.init_access().set_read(true);
    }))?;
    step(actor.call_kernel(child, interface::PROCESS, 2, &[client], |params| {
        params.init_as::<schema::process::grant_params::Builder<'_>>().set_rights(u32::MAX);
    }))?;
    step(actor.call_kernel(child, interface::PROCESS, 4, &[], |params| {
        let mut params: schema::process::create_thread_params::Builder<'_> = params.init_as();
        params.set_entry(0x4000_0000);
        params.set_ring(0x5000_0000);
        params.set_submission_entries(64);
        params.set_completion_entries(128);
    }))?;
    Some(())
}

/// A call that brings a capability, and its answer.
fn exchange(pair: &mut calls::Pair) -> Option<()> {
    let given = pair.client.give(Object::Timer);
    pair.client.send_caps(SCRATCH + 0x200, &[given], TransferMode::Move);
    let Operation::Call { cap, interface: kind, method, params, results, .. } = call(pair.cap) else { return None };
    let caps = CapArray { address: SCRATCH + 0x200, sent: 1, accepted: 2 };
    if let Some(refused) = pair.server.run(1, receive(pair.endpoint)).first() {
        assert!(lacks(refused.status), "a receiver does not wait");
        return None;
    }
    let sent = pair.client.run(2, Operation::Call { cap, interface: kind, method, params, results, caps });
    if let Some(refused) = sent.first() {
        assert!(lacks(refused.status), "a call is answered by nobody");
        assert!(pair.client.process.get(given).is_ok(), "what was to be moved is still there");
        return None;
    }
    assert_eq!(pair.server.completions().first().map(|done| done.status), Some(0));
    let reply = header(&pair.server).reply;
    let answer = Operation::Return { reply, exception: 0, results: buffer(0x300, 8), caps: CapArray::default() };
    assert_eq!(pair.server.once(answer).status, 0);
    assert_eq!(pair.client.completions().first().map(|done| done.status), Some(0));
    Some(())
}

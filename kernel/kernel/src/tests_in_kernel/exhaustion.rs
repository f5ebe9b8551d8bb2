//! Tests of what happens where memory or an account is exhausted: everything is answered, and nothing
//! is lost on the way.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, Rights, Status, TransferMode};

use super::bench::{Actor, SCRATCH, alone, buffer, memory, starved, status};
use super::calls::{self, Pair, call, header, receive};
use crate::cpu::budget::Budget;
use crate::memory::page_table::Access;
use crate::object::account::{Account, Resource};
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::operation::{Kind, Operations};
use crate::object::process::{Cause, End, Process};

/// Calls that find no memory for a place in the queue are refused; those in it are all answered.
pub fn calls_are_not_lost(account: &Arc<Account>) {
    let Pair { mut server, client, endpoint, cap } = calls::pair(account);
    let object = client.process.get(cap).unwrap().object;
    let mut clients: Vec<(Actor, CapId)> = (0..3)
        .map(|_| {
            let actor = Actor::new(account, "caller");
            let cap = actor.give(object.clone());
            (actor, cap)
        })
        .collect();
    let mut ends = [0_usize; 2];
    let mut tell = |actor: &mut Actor| {
        for done in actor.completions() {
            let ways = [Status::OutOfMemory, Status::Disconnected].map(status);
            ends[ways.iter().position(|way| *way == done.status).unwrap()] += 1;
        }
    };
    let mut first = true;
    for (actor, cap) in &mut clients {
        for tag in 0..16 {
            actor.push(tag, call(*cap));
            if tag % 8 == 7 {
                // The queue has room for a few by then.
                let taken = if first { actor.enter(0) } else { starved(|| actor.enter(0)) };
                assert_eq!(taken, 8);
                first = false;
            }
        }
        tell(actor);
    }
    let refused = clients.iter().map(|(actor, _)| 16 - actor.thread.in_flight() as usize).sum::<usize>();
    assert!(refused > 0 && refused < 48, "{refused} calls were refused");
    for _ in refused..48 {
        assert_eq!(server.once(receive(endpoint)).status, 0);
        let reply = header(&server).reply;
        assert_eq!(server.once(Operation::Release { cap: reply }).status, 0);
    }
    assert!(server.run(1, receive(endpoint)).is_empty(), "no call is left");
    clients.iter_mut().for_each(|(actor, _)| tell(actor));
    assert_eq!(ends, [refused, 48 - refused]);
}

/// What is taken out of a queue and cannot be used goes back, without memory.
pub fn places_in_queues_are_kept(account: &Arc<Account>) {
    let mut pair = calls::pair(account);
    let small = Operation::Recv { endpoint: pair.endpoint.0, buffer: buffer(0, 48), caps: CapArray::default() };
    for _ in 0..2 {
        for _ in 0..8 {
            pair.server.push(1, small);
        }
        pair.server.enter(0);
    }
    let Operation::Call { cap, interface, method, results, caps, .. } = call(pair.cap) else { return };
    let short = Operation::Call { cap, interface, method, params: Buffer::default(), results, caps };
    for left in (1..16).rev() {
        assert!(pair.client.run(2, short).is_empty());
        assert_eq!(pair.server.completions().len(), 1, "{left} buffers are left");
        let reply = header(&pair.server).reply;
        pair.server.push(3, Operation::Release { cap: reply });
        pair.server.enter(0);
        assert_eq!((pair.server.completions().len(), pair.client.completions().len()), (1, 1));
    }
    // One that is too long for the last buffer, which lies in a list that was long.
    pair.client.push(4, call(pair.cap));
    assert_eq!(starved(|| pair.client.enter(0)), 1);
    assert_eq!(pair.client.completions()[0].status, status(Status::TooLarge));
    assert!(pair.client.run(5, short).is_empty(), "the last buffer waits on");
    assert_eq!(pair.server.completions().len(), 1);

    // A call whose receiver has no memory for it is first in line again.
    let Pair { mut server, mut client, endpoint, cap } = calls::pair(account);
    for _ in 0..8 {
        client.push(6, call(cap));
    }
    client.enter(0);
    client.push(7, call(cap));
    client.enter(0);
    for _ in 0..8 {
        assert_eq!(server.once(receive(endpoint)).status, 0);
    }
    let bad =
        Operation::Recv { endpoint: endpoint.0, buffer: Buffer { address: 8, length: 256 }, caps: CapArray::default() };
    server.push(8, bad);
    assert_eq!(starved(|| server.enter(0)), 1);
    assert_eq!(server.completions()[0].status, status(Status::BadAddress));
    assert_eq!(server.once(receive(endpoint)).status, 0);
    assert_eq!(header(&server).length, 16);
}

/// Where a receiver can pay for one capability of two, it gets none, and the sender keeps both.
pub fn capabilities_arrive_or_stay(account: &Arc<Account>) {
    let mut pair = calls::pair(account);
    let [first, second] = [1, 2].map(|mark| Object::Memory(memory(&pair.client.process.account, 1, mark)));
    let moved = [pair.client.give(first), pair.client.give(second)];
    let Operation::Call { cap, interface, method, params, results, .. } = call(pair.cap) else { return };
    let caps = CapArray { address: SCRATCH + 0x200, sent: 2, accepted: 0 };
    let sends = Operation::Call { cap, interface, method, params, results, caps };
    let mut filler = Vec::new();
    while let Ok(id) = pair.server.process.insert(Object::Timer, Rights::ALL, None) {
        filler.push(id);
    }
    // One for the reply, one for a capability.
    for _ in 0..2 {
        pair.server.process.release(&mut alone(), filler.pop().unwrap()).unwrap();
    }
    for mode in [TransferMode::Move, TransferMode::Copy] {
        let held = (pair.server.process.capability_count(), crate::object::derivation::count());
        pair.client.send_caps(SCRATCH + 0x200, &moved, mode);
        assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
        assert_eq!(pair.client.once(sends).status, status(Status::Overloaded));
        assert_eq!((pair.server.process.capability_count(), crate::object::derivation::count()), held);
        assert!(moved.iter().all(|id| pair.client.process.get(*id).is_ok_and(|kept| kept.node.is_some())));
        pair.server.run(2, Operation::Cancel { target: 1 });
    }
    pair.server.process.release(&mut alone(), filler.pop().unwrap()).unwrap();
    pair.client.send_caps(SCRATCH + 0x200, &moved, TransferMode::Move);
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert!(pair.client.run(2, sends).is_empty());
    let received = pair.server.received_caps(SCRATCH + 0x200, 2);
    assert!(moved.iter().all(|id| pair.client.process.get(*id).err() == Some(Status::StaleCapability)));
    assert!(received.iter().all(|id| pair.server.process.get(*id).is_ok_and(|held| held.node.is_some())));
}

/// Memory can be given back where the account can pay for nothing more. Only a hole in a mapping, which
/// makes two of it, must be paid for.
pub fn memory_is_given_back_at_the_limit(account: &Arc<Account>) {
    const FRAMES: u64 = 64;
    const BASE: u64 = 0x100_0000;
    let process =
        Process::new(&mut alone(), String::from("mapper"), account.carve([FRAMES, 4, 4, 4, 4], 0).unwrap(), None)
            .unwrap();
    let object = memory(&process.account, 3, 1);
    let access = Access { read: true, ..Access::default() };
    // As many as one frame pays for, far enough apart to stay apart.
    for place in 0..12 {
        let range = (BASE + place * 0x4000, 0x3000);
        process.space.map(&mut alone(), Backing::Memory(Arc::clone(&object)), range, 0, access, None).unwrap();
    }
    let rest = process.account.hold(Resource::Frames, FRAMES - process.account.usage()[0]).unwrap();
    assert_eq!(process.space.unmap_at_once(&mut alone(), BASE + 0x1000, 0x1000), Err(Status::QuotaExceeded));
    assert!(process.space.check(&mut alone(), BASE, 0x3000, false).is_ok(), "nothing is unmapped then");
    assert_eq!(process.space.unmap_at_once(&mut alone(), BASE, 0x1000), Ok(()));
    assert_eq!(process.space.unmap_at_once(&mut alone(), BASE + 0x2000, 0x1000), Ok(()));
    assert_eq!(process.space.unmap_at_once(&mut alone(), BASE + 0x4000, 0x3000), Ok(()));
    assert_eq!(
        process.space.unmap_at_once(&mut alone(), BASE + 0x9000, 0x1000),
        Ok(()),
        "eleven become twelve, which are paid for"
    );
    drop(rest);
    process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
}

/// The name of an operation that has ended is no later one's, however many there were at its place.
pub fn tickets_are_never_given_out_twice(_: &Arc<Account>) {
    let begin =
        |operations: &mut Operations| operations.begin(1, CapId(0), || Kind::Word { address: 0, key: None }).unwrap();
    let mut operations = Operations::without_places(1).unwrap();
    assert!(operations.make_places(&mut Budget::new()));
    let first = begin(&mut operations);
    // As if 2^32 others had been there since.
    let mut operations = Operations::without_places(1).unwrap();
    assert!(operations.make_places_after(1 << 32, &mut Budget::new()));
    let last = begin(&mut operations);
    assert!(operations.get_mut(first).is_none() && operations.end(first).is_none(), "{first:?} means {last:?}");
    assert!(operations.end(last).is_some());
    assert_ne!(begin(&mut operations), last);
}
